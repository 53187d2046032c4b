uint2 high, low;
                            split_quad({y.x * rescale, y.y * rescale, y.z * rescale, y.w * rescale}, high, low);
                            *(uint2 *)place = high;
                            *(uint2 *)(place + (i64)blocks_n * BLOCK_BYTES) = low;
