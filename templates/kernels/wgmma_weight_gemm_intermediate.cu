/* the tile of `intermediate` that the epilogue needs takes the way of the weights: a row is a token */
#pragma unroll 1
                    for (int quarter = 0; quarter < QUARTERS; ++quarter) {
                        const int first = (work.token_block + quarter) * 64;
                        if (first < tokens)
                            load_rows(intermediate, first);
                    }
