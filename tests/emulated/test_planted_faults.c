/* Real kernels with one mistake planted in each: the emulation must find it and say what it is. Each case is a changed
 * copy of one template file, so that everything else is what ships. The unchanged kernels pass first. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "kernel_targets.h"
#include "run_tool.h"

typedef struct plant {
    const char *what;
    const char *device, *pipeline;
    const char *file;          /* of templates/ */
    const char *find, *put;    /* the first occurrence of find becomes put */
    const char *expected[3];   /* parts of the report */
    const char *slot, *choice; /* of the pipeline: parameters as JSON; NULL: the default */
} plant;

#define HOPPER "emulated:sm_90a", "wgmma_exact", "kernels/wgmma_gemm.cu"
#define AMPERE "emulated:sm_80", "mma_exact"

static const plant plants[] = {
    {.what = "a missing arrive on a stage's empty barrier",
     HOPPER,
     "if (k > 0 && lane == 0)",
     "if (k > 0 && lane == 0 && warp != 2)",
     {"deadlock", "mbarrier", "arrival"}},
    {.what = "two arrives in one phase",
     HOPPER,
     "                    mbarrier_arrive(previous);\n",
     "                    mbarrier_arrive(previous), mbarrier_arrive(previous);\n",
     {"more arrivals", "wgmma_gemm"}},
    {.what = "an expect_tx that is too large",
     HOPPER,
     "(count_a + count_b) * BLOCK_BYTES);",
     "(count_a + count_b + 1) * BLOCK_BYTES);",
     {"deadlock", "mbarrier", "bytes"}},
    {.what = "an expect_tx that is too small",
     HOPPER,
     "(count_a + count_b) * BLOCK_BYTES);",
     "(count_a + count_b) * BLOCK_BYTES - 64);",
     {"bytes", "wgmma_gemm"}},
    {.what = "a stage that is given back while wgmma still reads it",
     HOPPER,
     "wgmma_wait<1>();",
     "",
     {"wgmma", "still reads"}},
    {.what = "accumulators read before the wait",
     HOPPER,
     "            wgmma_wait<0>();\n",
     "",
     {"accumulators", "wgmma.wait_group"}},
    {.what = "no wgmma.fence before the first product",
     HOPPER,
     "                wgmma_fence();\n",
     "",
     {"wgmma.fence", "wgmma_gemm"}},
    {.what = "barriers used before the block barrier that follows their initialisation",
     HOPPER,
     "    __syncthreads();\n\n    /* counts of blocks",
     "\n    /* counts of blocks",
     {"mbarrier"}},
    {.what = "a wait for the wrong parity by the producer",
     HOPPER,
     "at.phase ^ 1);",
     "at.phase);",
     {"deadlock", "mbarrier"}},
    {.what = "a K-major step for an MN-major operand",
     HOPPER,
     "matrix_further(stage_b, step * 2048)",
     "matrix_further(stage_b, step * 32)",
     {"Frobenius"}},
    {.what = "a consumer that claims more registers than the producer left",
     HOPPER,
     "registers_decrease<${producer_registers}>();",
     "registers_decrease<${producer_registers} + 64>();",
     {"setmaxnreg"}},
    {.what = "a copy that is not waited for",
     AMPERE,
     "kernels/mma_gemm.cu",
     "                cp_async_wait<STAGES - 2>();\n                __syncthreads();\n                read_stage",
     "                __syncthreads();\n                read_stage",
     {"cp.async"}},
    {.what = "a missing __syncthreads in the main loop",
     AMPERE,
     "kernels/mma_gemm.cu",
     "                cp_async_wait<STAGES - 2>();\n                __syncthreads();\n                read_stage",
     "                cp_async_wait<STAGES - 2>();\n                read_stage",
     {"shared memory"}},
    {.what = "shared memory that nobody wrote",
     AMPERE,
     "kernels/scale_exact.cu",
     "if (threadIdx.x % 32 == 0)",
     "if (threadIdx.x % 64 == 0)",
     {"never been written", "shared memory"}},
    {.what = "a race between lanes and warps on shared memory",
     AMPERE,
     "kernels/scale_exact.cu",
     "        maxima[threadIdx.x / 32] = largest;\n    __syncthreads();",
     "        maxima[threadIdx.x / 32] = largest;",
     {"shared memory"}},
    {.what = "a read past the end of a tensor's memory",
     "emulated:sm_80",
     "simt",
     "kernels/simt_gemm.cu",
     "row < M && k < K",
     "true",
     {"outside"}},
    {.what = "two blocks that write one partial sum",
     AMPERE,
     "kernels/scale_exact.cu",
     "partials[blockIdx.x] = largest;",
     "partials[0] = largest;",
     {"race", "block"}},
    {.what = "a named barrier for more threads than come to it",
     HOPPER,
     "named_barrier<1, 128>();",
     "named_barrier<1, 160>();",
     {"deadlock", "barrier 1"}},
    {.what = "a shuffle that some lanes skip",
     AMPERE,
     "lib/base.cuh",
     "        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));",
     "        if (threadIdx.x % 32 < 31)\n            x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));",
     {"lane"}},
};
enum { PLANTS = sizeof plants / sizeof *plants };

/* Large enough that a ring of four stages goes round twice in every GEMM of interest, small enough for a second. */
static const test_sizes sizes = {200, 64, 640};

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s: %s", path, strerror(errno));
    enum { MOST = 1 << 20 };
    char *text = test_alloc(MOST);
    size_t size = fread(text, 1, MOST - 1, file);
    text[size] = 0;
    assert_int_equal(fclose(file), 0);
    return text;
}

/* folder/file as in templates/, with the mistake. */
static void write_changed(const char *folder, const plant *p) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/templates/%s", SOURCE_DIR, p->file);
    char *text = read_text(path), *at = strstr(text, p->find);
    if (!at)
        fail_msg("%s: the text that \"%s\" is planted in is gone: %s", p->file, p->what, p->find);
    (void)snprintf(path, sizeof path, "%s/%.*s", folder, (int)(strchr(p->file, '/') - p->file), p->file);
    if (mkdir(path, 0700) != 0)
        fail_msg("%s: %s", path, strerror(errno));
    (void)snprintf(path, sizeof path, "%s/%s", folder, p->file);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    (void)fprintf(file, "%.*s%s%s", (int)(at - text), text, p->put, at + strlen(p->find));
    assert_int_equal(fclose(file), 0);
    free(text);
}

/* Builds the pipeline and runs one case; the sentence says what was wrong ("" if nothing was). */
static void run(const plant *p, const char *folder, char *sentence, size_t capacity) {
    mlp_message why = {{0}};
    harness *h = harness_open_changed(p->device, folder, &why);
    if (!h) {
        print_message("%s is skipped: %s\n", p->device, why.text);
        skip();
    }
    const gen_target target = {.arch = harness_device(h)->ladder[0],
                               .accuracy =
                                   strcmp(p->pipeline, "simt") == 0 ? MLPBWD_ACCURACY_FP32 : MLPBWD_ACCURACY_TF32};
    json_t *selection = p->slot ? json_pack("{s:o}", p->slot, json_loads(p->choice, 0, NULL)) : NULL;
    char *plan = NULL;
    if (harness_build(h, p->pipeline, &target, selection, &plan, &why) != MLPBWD_OK)
        fail_msg("%s: %s", p->what, why.text);
    const test_fixture *fixture = test_fixture_get(sizes, INPUT_NORMAL, 0);
    const harness_case c = {.inputs = &fixture->inputs,
                            .reference = &fixture->reference,
                            .accuracy = target.accuracy,
                            .outputs = OUTPUT_ALL};
    sentence[0] = 0;
    bool good = harness_check(h, plan, &c, sentence, capacity);
    if (good)
        sentence[0] = 0;
    free(plan);
    json_decref(selection);
    harness_close(h);
}

static void test_unchanged_kernels_pass(void **state) {
    (void)state;
    static const plant *tried[PLANTS];
    size_t count = 0;
    for (size_t i = 0; i < PLANTS; i++) {
        bool seen = false;
        for (size_t j = 0; j < count; j++)
            seen |=
                strcmp(tried[j]->device, plants[i].device) == 0 && strcmp(tried[j]->pipeline, plants[i].pipeline) == 0;
        if (seen)
            continue;
        char sentence[2560];
        run(&plants[i], NULL, sentence, sizeof sentence);
        assert_string_equal(sentence, "");
        tried[count++] = &plants[i];
    }
}

static void test_each_mistake_is_found(void **state) {
    (void)state;
    int missed = 0;
    for (size_t i = 0; i < PLANTS; i++) {
        const plant *p = &plants[i];
        char folder[256], sentence[2560];
        make_folder(folder, sizeof folder);
        write_changed(folder, p);
        run(p, folder, sentence, sizeof sentence);
        remove_folder(folder);
        bool right = sentence[0] != 0;
        for (size_t e = 0; e < 3 && p->expected[e]; e++)
            right &= strstr(sentence, p->expected[e]) != NULL;
        missed += !right;
        print_message("%s: %s\n    %s\n", right ? "found" : "NOT FOUND AS IT SHOULD BE", p->what,
                      sentence[0] ? sentence : "(nothing was reported)");
    }
    assert_int_equal(missed, 0);
}

static int free_fixtures(void **state) {
    (void)state;
    test_fixtures_free();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unchanged_kernels_pass),
        cmocka_unit_test(test_each_mistake_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, free_fixtures);
}
