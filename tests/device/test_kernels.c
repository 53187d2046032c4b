/* Every kernel of every pipeline against float64, on every device that opens. Two passes: defaults on many shapes, then
 * a fixed sample of the other variants (all of them with MLPBWD_TEST_VARIANTS=all) on four shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "kernel_targets.h"

static const test_sizes wide = {0, 128, 192}, tall = {0, 192, 128};
static const test_sizes several_tiles = {300, 320, 1152}; /* in every direction, whatever the tile */

static test_sizes with_tokens(test_sizes sizes, int64_t tokens) {
    sizes.tokens = tokens;
    return sizes;
}

static double seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static harness *open_or_skip(const char *device) {
    mlp_message why = {{0}};
    harness *h = harness_open(device, &why);
    if (!h) {
        print_message("%s is skipped: %s\n", device, why.text);
        skip();
    }
    return h;
}

static void finish(harness *h, const test_tally *tally, int targets) {
    harness_close(h);
    print_message("%d targets, %d checks, %d failures\n", targets, tally->checks, tally->failures);
    assert_true(targets > 0);
    assert_int_equal(tally->failures, 0);
}

static char *build(harness *h, const kernel_target *target, const json_t *selection, test_tally *tally) {
    char *plan = NULL;
    mlp_message why = {{0}};
    if (harness_build(h, target->pipeline, &target->target, selection, &plan, &why) != MLPBWD_OK)
        test_tally_add(tally, false, why.text, kernel_target_name(h, target));
    return plan;
}

/* ---- default parameters, many shapes ---- */

static void check_defaults(void *user, harness *h, const kernel_target *target) {
    static const int64_t tokens[] = {0, 1, 2, 7, 63, 64, 65, 256, 541};
    test_tally *tally = user;
    double start = seconds();
    int before = tally->failures;
    char *plan = build(h, target, NULL, tally);
    for (size_t i = 0; plan && i < sizeof tokens / sizeof *tokens; i++) {
        int64_t t = tokens[i];
        bool chosen = t == 0 || t == 65 || t == 541;
        for (int activation = 0; activation < 2; activation++) {
            /* lesser architectures run the same templates: the shapes with the most edges are enough there */
            if (target->first || chosen)
                check_case(h, target, plan, test_fixture_get(with_tokens(wide, t), INPUT_NORMAL, activation), false,
                           OUTPUT_ALL, tally);
            if (chosen)
                check_case(h, target, plan, test_fixture_get(with_tokens(wide, t), INPUT_NORMAL, activation), true,
                           OUTPUT_ALL, tally);
            if (target->first && chosen)
                check_case(h, target, plan, test_fixture_get(with_tokens(tall, t), INPUT_NORMAL, activation), false,
                           OUTPUT_ALL, tally);
        }
    }
    if (plan && target->first)
        check_case(h, target, plan, test_fixture_get(several_tiles, INPUT_NORMAL, 0), false, OUTPUT_ALL, tally);
    free(plan);
    print_message("%s: defaults %s, %.1f s\n", kernel_target_name(h, target),
                  tally->failures > before ? "FAILED" : "ok", seconds() - start);
}

static void test_defaults(void **state) {
    harness *h = open_or_skip(*state);
    test_tally tally = {0};
    finish(h, &tally, each_kernel_target(h, check_defaults, &tally));
}

/* ---- any subset of the outputs ---- */

static void check_outputs(void *user, harness *h, const kernel_target *target) {
    test_tally *tally = user;
    if (!target->first)
        return;
    char *plan = build(h, target, NULL, tally);
    for (unsigned outputs = 0; plan && outputs <= OUTPUT_ALL; outputs++)
        check_case(h, target, plan, test_fixture_get(with_tokens(wide, 65), INPUT_NORMAL, outputs & 1),
                   outputs >> 1 & 1, outputs, tally);
    free(plan);
}

static void test_subsets_of_outputs(void **state) {
    harness *h = open_or_skip(*state);
    test_tally tally = {0};
    finish(h, &tally, each_kernel_target(h, check_outputs, &tally));
}

/* ---- other variants ---- */

/* One slot of one target, with all its variants in a fixed order. */
typedef struct variant_slot {
    kernel_target target;
    char *pipeline, *slot, *key; /* key: kernel, role, architecture and class: equal ones are tested once */
    json_t *variants;
    size_t wanted, done;
} variant_slot;

typedef struct variant_list {
    variant_slot *slots;
    size_t count;
    bool all;
} variant_list;

static char *copy_text(const char *text) {
    size_t size = strlen(text) + 1;
    return memcpy(test_alloc(size), text, size);
}

/* Puts the sample first: a walk through the list with a stride that is coprime to nothing in particular would repeat
 * the last parameter's values, so the order is random, but the same everywhere. The default was tested before. */
static void shuffle(json_t *variants, const char *key) {
    uint64_t state = 5381;
    for (const char *c = key; *c; c++)
        state = state * 33 + (unsigned char)*c;
    (void)json_array_remove(variants, 0);
    for (size_t i = json_array_size(variants); i > 1; i--) {
        size_t other = test_random(&state) % i;
        json_t *a = json_incref(json_array_get(variants, i - 1)), *b = json_incref(json_array_get(variants, other));
        (void)json_array_set_new(variants, i - 1, b);
        (void)json_array_set_new(variants, other, a);
    }
}

static void add_slot(variant_list *list, harness *h, const kernel_target *target, const char *slot, const char *role,
                     const char *kernel) {
    char key[256];
    (void)snprintf(key, sizeof key, "%s %s %s %d", kernel, role, target->target.arch, target->target.accuracy);
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->slots[i].key, key) == 0)
            return;
    const gen_problem any = {.tokens = -1, .units = harness_device(h)->units};
    json_t *variants = NULL;
    mlp_message why = {{0}};
    if (gen_space(harness_generator(h), kernel, role, &target->target, &any, &variants, NULL, &why) != MLPBWD_OK)
        fail_msg("%s: %s", key, why.text);
    shuffle(variants, key);
    variant_slot *slots = realloc(list->slots, sizeof *slots * (list->count + 1));
    assert_non_null(slots);
    list->slots = slots;
    size_t most = json_array_size(variants), wanted = target->first ? 4 : 1;
    slots[list->count] = (variant_slot){.target = *target,
                                        .pipeline = copy_text(target->pipeline),
                                        .slot = copy_text(slot),
                                        .key = copy_text(key),
                                        .variants = variants,
                                        .wanted = list->all || wanted > most ? most : wanted};
    slots[list->count].target.pipeline = slots[list->count].pipeline;
    list->count++;
}

static void collect_slots(void *user, harness *h, const kernel_target *target) {
    variant_list *list = user;
    /* host kernels are the same in every class */
    if (strcmp(harness_device(h)->backend, "host") == 0 && target->target.accuracy != MLPBWD_ACCURACY_FP32)
        return;
    json_t *slots = NULL;
    mlp_message why = {{0}};
    if (gen_slots(harness_generator(h), target->pipeline, &target->target, &slots, &why) != MLPBWD_OK)
        fail_msg("%s: %s", target->pipeline, why.text);
    size_t index, which;
    json_t *slot, *kernel;
    json_array_foreach(slots, index, slot) {
        json_array_foreach(json_object_get(slot, "kernels"), which, kernel) {
            add_slot(list, h, target, json_string_value(json_object_get(slot, "slot")),
                     json_string_value(json_object_get(slot, "role")), json_string_value(kernel));
        }
    }
    json_decref(slots);
}

static void check_variant(harness *h, variant_slot *slot, test_tally *tally) {
    json_t *variant = json_array_get(slot->variants, slot->done);
    json_t *selection = json_pack("{s:O}", slot->slot, variant);
    int before = tally->failures, parity = (int)(slot->done & 1);
    char *plan = build(h, &slot->target, selection, tally);
    for (int i = 0; plan && i < 4; i++) {
        const test_sizes shapes[] = {with_tokens(tall, 65), with_tokens(wide, 541), with_tokens(wide, 2),
                                     several_tiles};
        check_case(h, &slot->target, plan, test_fixture_get(shapes[i], INPUT_NORMAL, i == 3 ? 0 : parity ^ (i & 1)),
                   parity == (i & 1), OUTPUT_ALL, tally);
    }
    if (tally->failures > before) {
        char *text = json_dumps(selection, JSON_COMPACT);
        print_error("the variant was %s of %s\n", text, slot->key);
        free(text);
    }
    free(plan);
    json_decref(selection);
}

static void test_variants(void **state) {
    enum { LIMIT_SECONDS = 90 };
    harness *h = open_or_skip(*state);
    const char *asked = getenv("MLPBWD_TEST_VARIANTS");
    variant_list list = {.all = asked && strcmp(asked, "all") == 0};
    test_tally tally = {0};
    int targets = each_kernel_target(h, collect_slots, &list);
    double start = seconds();
    bool open = true;
    while (open && (list.all || seconds() - start < LIMIT_SECONDS)) { /* one of each slot in turn */
        open = false;
        for (size_t i = 0; i < list.count; i++) {
            variant_slot *slot = &list.slots[i];
            if (slot->done < slot->wanted && (list.all || seconds() - start < LIMIT_SECONDS)) {
                check_variant(h, slot, &tally);
                slot->done++;
                open = true;
            }
        }
    }
    for (size_t i = 0; i < list.count; i++) {
        variant_slot *slot = &list.slots[i];
        print_message("%s %s: %zu of %zu variants beside the default\n", harness_device(h)->id, slot->key, slot->done,
                      json_array_size(slot->variants));
        free(slot->pipeline);
        free(slot->slot);
        free(slot->key);
        json_decref(slot->variants);
    }
    free(list.slots);
    finish(h, &tally, targets);
}

static int free_fixtures(void **state) {
    (void)state;
    test_fixtures_free();
    return 0;
}

int main(void) {
    static char host[] = "host", cuda[] = "cuda:0";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_defaults, host),
        cmocka_unit_test_prestate(test_subsets_of_outputs, host),
        cmocka_unit_test_prestate(test_variants, host),
        cmocka_unit_test_prestate(test_defaults, cuda),
        cmocka_unit_test_prestate(test_subsets_of_outputs, cuda),
        cmocka_unit_test_prestate(test_variants, cuda),
    };
    return cmocka_run_group_tests(tests, NULL, free_fixtures);
}
