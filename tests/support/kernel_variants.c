#include "kernel_variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Noreturn void give_up(const char *what, const char *why) {
    (void)fprintf(stderr, "%s: %s\n", what, why);
    abort();
}

/* One slot of one target, with all its variants in a fixed order. */
typedef struct variant_slot {
    kernel_target target;
    char *pipeline, *slot, *key; /* key: kernel, role, architecture and class: equal ones are tested once */
    json_t *variants;
    size_t wanted, done;
} variant_slot;

typedef struct variant_list {
    const variant_sample *sample;
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
        give_up(key, why.text);
    shuffle(variants, key);
    variant_slot *slots = realloc(list->slots, sizeof *slots * (list->count + 1));
    if (!slots)
        give_up(key, "no memory");
    list->slots = slots;
    size_t most = json_array_size(variants), wanted = target->first ? list->sample->wanted : 1;
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
    if (!target->first && !list->sample->lesser)
        return;
    /* host kernels are the same in every class */
    if (strcmp(harness_device(h)->backend, "host") == 0 && target->target.accuracy != MLPBWD_ACCURACY_FP32)
        return;
    json_t *slots = NULL;
    mlp_message why = {{0}};
    if (gen_slots(harness_generator(h), target->pipeline, &target->target, &slots, &why) != MLPBWD_OK)
        give_up(target->pipeline, why.text);
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

static void check_variant(harness *h, const variant_sample *sample, variant_slot *slot, test_tally *tally) {
    json_t *variant = json_array_get(slot->variants, slot->done);
    json_t *selection = json_pack("{s:O}", slot->slot, variant);
    int before = tally->failures, parity = (int)(slot->done & 1);
    char *plan = NULL;
    mlp_message why = {{0}};
    if (harness_build(h, slot->target.pipeline, &slot->target.target, selection, &plan, &why) != MLPBWD_OK)
        test_tally_add(tally, false, why.text, kernel_target_name(h, &slot->target));
    for (int i = 0; plan && i < VARIANT_SHAPES; i++)
        if (sample->shapes[i].tokens >= 0)
            check_case(
                h, &slot->target, plan,
                test_fixture_get(sample->shapes[i], INPUT_NORMAL, i == VARIANT_SHAPES - 1 ? 0 : parity ^ (i & 1)),
                parity == (i & 1), OUTPUT_ALL, tally);
    if (tally->failures > before) {
        char *text = json_dumps(selection, JSON_COMPACT);
        (void)fprintf(stderr, "the variant was %s of %s\n", text, slot->key);
        free(text);
    }
    free(plan);
    json_decref(selection);
}

static double seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int check_variants(harness *h, const variant_sample *sample, test_tally *tally) {
    const char *asked = getenv("MLPBWD_TEST_VARIANTS");
    variant_list list = {.sample = sample, .all = asked && strcmp(asked, "all") == 0};
    int targets = each_kernel_target(h, collect_slots, &list);
    double start = seconds();
    bool open = true;
    while (open && (list.all || seconds() - start < sample->limit_seconds)) { /* one of each slot in turn */
        open = false;
        for (size_t i = 0; i < list.count; i++) {
            variant_slot *slot = &list.slots[i];
            if (slot->done < slot->wanted && (list.all || seconds() - start < sample->limit_seconds)) {
                check_variant(h, sample, slot, tally);
                slot->done++;
                open = true;
            }
        }
    }
    for (size_t i = 0; i < list.count; i++) {
        variant_slot *slot = &list.slots[i];
        (void)printf("%s %s: %zu of %zu variants beside the default\n", harness_device(h)->id, slot->key, slot->done,
                     json_array_size(slot->variants));
        free(slot->pipeline);
        free(slot->slot);
        free(slot->key);
        json_decref(slot->variants);
    }
    free(list.slots);
    return targets;
}
