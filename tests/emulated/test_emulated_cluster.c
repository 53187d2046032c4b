/* Clusters, their shared memory, words between blocks and dependent launches, on an emulated device and, where there is
 * one, on a GPU. */
#include "tma_support.h"

static void test_exchange(void **state) {
    enum { BLOCKS = 8, SIZE = 4, WORDS = 34 };
    uint32_t got[BLOCKS * WORDS];
    test_kernel *kernel = load_right(*state, "cluster_exchange.cu");
    void *out = kernel_buffer(kernel, NULL, sizeof got);
    kernel_dims dims = {.grid = {BLOCKS}, .block = {32}, .attributes = {.cluster = {SIZE, 1, 1}}};
    run_right(kernel, "exchange", &dims, (void *[]){&out});
    kernel_read(kernel, got, out, sizeof got);
    for (uint32_t block = 0; block < BLOCKS; block++) {
        uint32_t first = block / SIZE * SIZE, rank = block - first, before = (rank + SIZE - 1) % SIZE, sum = 0;
        for (uint32_t peer = 0; peer < SIZE; peer++)
            sum += 100 * (first + peer); /* thread 0's words */
        const uint32_t *own = got + (size_t)block * WORDS;
        assert_int_equal(own[0], sum);
        assert_int_equal(own[1], 1000 + before);
        for (uint32_t i = 0; i < 32; i++)
            assert_int_equal(own[2 + i], 100 * (first + before) + i);
    }
    kernel_free(kernel);
}

static void test_hand_over(void **state) {
    uint32_t turns = 5, got[2 * 5], value = 5;
    test_kernel *kernel = load_right(*state, "cluster_arrive.cu");
    void *out = kernel_buffer(kernel, NULL, sizeof got);
    kernel_dims dims = {.grid = {2}, .block = {32}, .attributes = {.cluster = {2, 1, 1}}};
    run_right(kernel, "hand_over", &dims, (void *[]){&out, &turns});
    kernel_read(kernel, got, out, sizeof got);
    for (uint32_t turn = 0; turn < turns; turn++) {
        assert_int_equal(got[turns + turn], value);
        value = value * 2 + 1;
        assert_int_equal(got[turn], value);
        value *= 2;
    }
    kernel_free(kernel);
}

static void test_chain(void **state) {
    enum { BLOCKS = 7 };
    uint32_t zeros[BLOCKS] = {0}, got[BLOCKS], value = 1;
    test_kernel *kernel = load_right(*state, "cluster_flag.cu");
    void *values = kernel_buffer(kernel, NULL, sizeof got), *flags = kernel_buffer(kernel, zeros, sizeof zeros);
    kernel_dims dims = {.grid = {BLOCKS}, .block = {32}};
    run_right(kernel, "chain", &dims, (void *[]){&values, &flags});
    kernel_read(kernel, got, values, sizeof got);
    for (uint32_t block = 0; block < BLOCKS; block++)
        assert_int_equal(got[block], value *= 3);
    kernel_free(kernel);
}

static void test_gather(void **state) {
    enum { BLOCKS = 9, THREADS = 64 };
    uint32_t zero = 0, got[THREADS];
    test_kernel *kernel = load_right(*state, "cluster_flag.cu");
    void *parts = kernel_buffer(kernel, NULL, sizeof got * BLOCKS),
         *counter = kernel_buffer(kernel, &zero, sizeof zero);
    void *sum = kernel_buffer(kernel, NULL, sizeof got);
    kernel_dims dims = {.grid = {BLOCKS}, .block = {THREADS}};
    run_right(kernel, "gather", &dims, (void *[]){&parts, &counter, &sum});
    kernel_read(kernel, got, sum, sizeof got);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(got[i], BLOCKS * (BLOCKS - 1) / 2 + BLOCKS * i);
    kernel_free(kernel);
}

static void test_dependent(void **state) {
    enum { BLOCKS = 6, THREADS = 64, COUNT = BLOCKS * THREADS };
    static float in[COUNT], got[COUNT];
    static const char *const seconds[] = {"second", "second_by_one"};
    float factor = 3;
    for (size_t i = 0; i < COUNT; i++)
        in[i] = (float)i;
    test_kernel *kernel = load_right(*state, "cluster_dependent.cu");
    void *source = kernel_buffer(kernel, in, sizeof in), *factors = kernel_buffer(kernel, &factor, sizeof factor);
    void *between = kernel_buffer(kernel, NULL, sizeof in), *out = kernel_buffer(kernel, NULL, sizeof in);
    kernel_dims first = {.grid = {BLOCKS}, .block = {THREADS}}, second = first;
    second.attributes.programmatic = true;
    for (size_t i = 0; i < 2; i++) {
        mlp_message why = {""};
        if (kernel_launch(kernel, "first", &first, (void *[]){&between, &source}, &why))
            fail_msg("%s", why.text);
        run_right(kernel, seconds[i], &second, (void *[]){&out, &between, &factors});
        kernel_read(kernel, got, out, sizeof got);
        for (size_t k = 0; k < COUNT; k++)
            assert_true(got[k] == in[k] * 2 + 3);
    }
    kernel_free(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {EVERYWHERE(test_exchange, "cuda:0"), EVERYWHERE(test_hand_over, "cuda:0"),
                                       EVERYWHERE(test_chain, "cuda:0"), EVERYWHERE(test_gather, "cuda:0"),
                                       EVERYWHERE(test_dependent, "cuda:0")};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
