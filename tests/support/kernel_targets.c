#include "kernel_targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture_node {
    test_fixture fixture;
    struct fixture_node *next;
} fixture_node;

static fixture_node *fixtures;

const test_fixture *test_fixture_get(test_sizes sizes, test_input_kind kind, int activation) {
    for (const fixture_node *n = fixtures; n; n = n->next)
        if (memcmp(&n->fixture.inputs.sizes, &sizes, sizeof sizes) == 0 && n->fixture.inputs.kind == kind &&
            n->fixture.reference.activation == activation)
            return &n->fixture;
    fixture_node *made = test_alloc(sizeof *made);
    test_inputs_make(&made->fixture.inputs, sizes, kind, 1 + (uint64_t)sizes.tokens);
    reference64_make(&made->fixture.reference, &made->fixture.inputs, activation);
    made->next = fixtures;
    fixtures = made;
    return &made->fixture;
}

void test_fixtures_free(void) {
    while (fixtures) {
        fixture_node *next = fixtures->next;
        test_inputs_free(&fixtures->fixture.inputs);
        reference64_free(&fixtures->fixture.reference);
        free(fixtures);
        fixtures = next;
    }
}

void test_tally_add(test_tally *tally, bool good, const char *sentence, const char *where) {
    enum { PRINTED = 30 };
    tally->checks++;
    if (good)
        return;
    if (tally->failures++ < PRINTED)
        (void)fprintf(stderr, "FAILED %s: %s\n", where, sentence);
}

int each_kernel_target(harness *h, void (*visit)(void *user, harness *h, const kernel_target *target), void *user) {
    const dev_info *device = harness_device(h);
    json_t *archs = gen_describe_archs(harness_generator(h));
    int calls = 0;
    for (size_t level = 0; level < device->ladder_length; level++) {
        if (!json_object_get(archs, device->ladder[level]))
            continue;
        for (int accuracy = 0; accuracy < 3; accuracy++) {
            /* host kernels are plain fp32 in every class: once is enough but on the best architecture */
            if (level > 0 && strcmp(device->backend, "host") == 0 && accuracy != MLPBWD_ACCURACY_FP32)
                continue;
            kernel_target t = {.target = {.arch = device->ladder[level], .accuracy = accuracy}, .first = level == 0};
            json_t *names = NULL;
            size_t index;
            json_t *name;
            mlp_message why = {{0}};
            if (gen_pipelines_for(harness_generator(h), &t.target, &names, &why) != MLPBWD_OK) {
                (void)fprintf(stderr, "%s: %s\n", t.target.arch, why.text);
                abort();
            }
            json_array_foreach(names, index, name) {
                t.pipeline = json_string_value(name);
                visit(user, h, &t);
                calls++;
            }
            json_decref(names);
        }
    }
    json_decref(archs);
    return calls;
}

const char *kernel_target_name(harness *h, const kernel_target *target) {
    static const char *const classes[] = {"tf32", "fp32", "bf16"};
    static char name[160];
    (void)snprintf(name, sizeof name, "%s %s %s %s", harness_device(h)->id, target->target.arch,
                   classes[target->target.accuracy], target->pipeline);
    return name;
}

void check_case(harness *h, const kernel_target *target, const char *plan, const test_fixture *fixture, bool accumulate,
                unsigned outputs, test_tally *tally) {
    char sentence[512] = "", where[512];
    const harness_case c = {.inputs = &fixture->inputs,
                            .reference = &fixture->reference,
                            .accuracy = target->target.accuracy,
                            .accumulate = accumulate,
                            .outputs = outputs};
    bool good = harness_check(h, plan, &c, sentence, sizeof sentence);
    const test_sizes s = fixture->inputs.sizes;
    (void)snprintf(where, sizeof where, "%s, T=%lld H=%lld I=%lld, %s, inputs %s%s, outputs %#x",
                   kernel_target_name(h, target), (long long)s.tokens, (long long)s.hidden, (long long)s.intermediate,
                   fixture->reference.activation ? "gelu_erf" : "gelu_tanh", test_input_name(fixture->inputs.kind),
                   accumulate ? ", added to old gradients" : "", outputs);
    test_tally_add(tally, good, sentence, where);
}
