/* Every pipeline of templates/ for every architecture and class, as the runtime sees it: it parses at small and large
 * T, no launch is useless, each output asks for exactly the inputs of its formula, and sharing memory saves some. And
 * nothing lies there unused: some pipeline takes every kernel, some device runs every GPU architecture's code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "device/device.h"
#include "generator.h"
#include "plan_image_private.h"

/* Bits in the order of mlpbwd_tensors. */
enum { GRAD_OUTPUT = 1, HIDDEN = 2, WEIGHT1 = 4, WEIGHT2 = 16, INTERMEDIATE = 64, ACTIVATED = 128 };

static const struct {
    unsigned output, inputs;
} formulas[] = {
    {OUTPUT_GRAD_HIDDEN_STATES, GRAD_OUTPUT | WEIGHT2 | INTERMEDIATE | WEIGHT1},
    {OUTPUT_GRAD_WEIGHT1, GRAD_OUTPUT | WEIGHT2 | INTERMEDIATE | HIDDEN},
    {OUTPUT_GRAD_BIAS1, GRAD_OUTPUT | WEIGHT2 | INTERMEDIATE},
    {OUTPUT_GRAD_WEIGHT2, GRAD_OUTPUT | ACTIVATED},
    {OUTPUT_GRAD_BIAS2, GRAD_OUTPUT},
};

static plan_image *image_of(const json_t *plan, const char *arch, int64_t tokens, int accuracy, bool share,
                            const char *name) {
    const mlpbwd_problem problem = {
        .batch_size = 1, .seq_len = tokens, .hidden_size = 2048, .intermediate_size = 8192, .accuracy = accuracy};
    dev_info device = {.id = "test", .ladder_length = 1, .units = 132, .shared_bytes_per_block = 232448};
    snprintf(device.arch, sizeof device.arch, "%s", arch);
    snprintf(device.ladder[0], sizeof device.ladder[0], "%s", arch);
    mlp_message why = {0};
    plan_image *image = calloc(1, sizeof *image);
    assert_non_null(image);
    mlpbwd_status status = plan_image_parse(image, plan, &problem, &device, &why);
    if (status == MLPBWD_OK)
        status = plan_image_analyse(image, &why);
    if (status == MLPBWD_OK)
        status = plan_image_layout(image, share, &why);
    if (status != MLPBWD_OK)
        fail_msg("%s, T = %lld: %s", name, (long long)tokens, why.text);
    return image;
}

static void check(const json_t *plan, const gen_target *target, const char *pipeline) {
    static const int64_t tokens[] = {1, 2, 7, 64, 65, 541, 16384};
    char name[128];
    snprintf(name, sizeof name, "%s on %s, accuracy %d", pipeline, target->arch, target->accuracy);
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
        plan_image *apart = image_of(plan, target->arch, tokens[t], target->accuracy, false, name);
        plan_image *shared = image_of(plan, target->arch, tokens[t], target->accuracy, true, name);
        assert_true(plan_image_workspace(shared) <= plan_image_workspace(apart));
        for (size_t f = 0; f < sizeof formulas / sizeof *formulas; f++)
            if (plan_image_required_inputs(apart, formulas[f].output) != formulas[f].inputs)
                fail_msg("%s: output %u asks for inputs 0x%x instead of 0x%x", name, formulas[f].output,
                         plan_image_required_inputs(apart, formulas[f].output), formulas[f].inputs);
        if (tokens[t] == 16384)
            print_message("%s: %zu launches, %u streams, workspace %zu MB, shared %zu MB\n", name, apart->launch_count,
                          apart->stream_count, plan_image_workspace(apart) >> 20, plan_image_workspace(shared) >> 20);
        plan_image_destroy(apart);
        plan_image_destroy(shared);
    }
}

static gen *open_templates(void) {
    const char *const folders[] = {SOURCE_DIR "/templates"};
    gen *generator = NULL;
    mlp_message why = {0};
    if (gen_open(folders, 1, NULL, &generator, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    return generator;
}

static void test_every_pipeline(void **state) {
    (void)state;
    gen *generator = open_templates();
    mlp_message why = {0};
    int plans = 0;
    json_t *archs = gen_describe_archs(generator), *arch;
    const char *arch_name;
    json_object_foreach(archs, arch_name, arch) {
        for (int accuracy = 0; accuracy < 3; accuracy++) {
            const gen_target target = {.arch = arch_name, .accuracy = accuracy};
            json_t *names = NULL, *name;
            size_t index;
            if (gen_pipelines_for(generator, &target, &names, &why) != MLPBWD_OK)
                fail_msg("%s", why.text);
            json_array_foreach(names, index, name) {
                json_t *plan = NULL, *sources = NULL;
                if (gen_build_plan(generator, json_string_value(name), &target, NULL, &plan, &sources, &why))
                    fail_msg("%s: %s", json_string_value(name), why.text);
                check(plan, &target, json_string_value(name));
                json_decref(plan);
                json_decref(sources);
                plans++;
            }
            json_decref(names);
        }
    }
    json_decref(archs);
    gen_close(generator);
    assert_true(plans > 20);
}

/* Takes the kernels that compete for a slot of the target out of `unused`. */
static void take_kernels_of(gen *generator, const gen_target *target, json_t *unused) {
    json_t *names = NULL, *name, *slot, *kernel;
    size_t i, s, k;
    mlp_message why = {0};
    if (gen_pipelines_for(generator, target, &names, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    json_array_foreach(names, i, name) {
        json_t *slots = NULL;
        if (gen_slots(generator, json_string_value(name), target, &slots, &why) != MLPBWD_OK)
            fail_msg("%s", why.text);
        json_array_foreach(slots, s, slot) json_array_foreach(json_object_get(slot, "kernels"), k, kernel)
            json_object_del(unused, json_string_value(kernel));
        json_decref(slots);
    }
    json_decref(names);
}

static void test_every_kernel_has_a_place(void **state) {
    (void)state;
    gen *generator = open_templates();
    json_t *unused = gen_describe_kernels(generator), *archs = gen_describe_archs(generator), *arch;
    const char *name;
    assert_true(json_object_size(unused) > 0);
    json_object_foreach(archs, name, arch) {
        for (int accuracy = 0; accuracy < 3; accuracy++)
            take_kernels_of(generator, &(gen_target){.arch = name, .accuracy = accuracy}, unused);
    }
    json_object_foreach(unused, name, arch)
        fail_msg("no pipeline takes kernel %s: a step needs its role and has to bind its operands by name", name);
    json_decref(unused);
    json_decref(archs);
    gen_close(generator);
}

static void test_every_architecture_has_a_device(void **state) {
    (void)state;
    gen *generator = open_templates();
    json_t *archs = gen_describe_archs(generator), *arch;
    const char *name;
    json_object_foreach(archs, name, arch) {
        char ladder[DEV_MAX_LADDER][32];
        bool found = strcmp(json_string_value(json_object_get(arch, "backend")), "cuda") != 0;
        size_t length = dev_cuda_ladder((int)json_integer_value(json_object_get(arch, "compute_capability")), ladder);
        for (size_t i = 0; i < length; i++)
            found = found || strcmp(ladder[i], name) == 0;
        if (!found)
            fail_msg("templates/arch/%s.lua: no device runs it; runtime/device/arch.c lacks its line", name);
    }
    json_decref(archs);
    gen_close(generator);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_pipeline),
                                       cmocka_unit_test(test_every_kernel_has_a_place),
                                       cmocka_unit_test(test_every_architecture_has_a_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
