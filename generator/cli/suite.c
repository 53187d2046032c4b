#include "suite.h"

const suite_shape suite_shapes[SUITE_SHAPES] = {
    {1, 1024}, {2, 128}, {2, 256}, {2, 512},  {2, 4096},  {4, 256},  {4, 512},  {4, 541},
    {8, 128},  {8, 256}, {8, 773}, {16, 512}, {16, 1024}, {32, 128}, {32, 256}, {64, 128},
};

size_t suite_tokens(int64_t *tokens) {
    size_t count = 0;
    for (size_t i = 0; i < SUITE_SHAPES; i++) {
        int64_t value = suite_shapes[i].batch * suite_shapes[i].seq_len;
        size_t at = 0;
        while (at < count && tokens[at] < value) {
            at++;
        }
        if (at < count && tokens[at] == value) {
            continue;
        }
        for (size_t k = count; k > at; k--) {
            tokens[k] = tokens[k - 1];
        }
        tokens[at] = value;
        count++;
    }
    return count;
}
