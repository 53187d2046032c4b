/* The shipped templates, all of them by looping over what gen_describe_* says: a new file is tested the day it lands.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "db.h"
#include "device/device.h"
#include "gen.h"

enum {
    MOST_VARIANTS = 120
}; /* of one kernel and role; of more, the default's neighbours and some at equal distances */

static gen *generator;
static mlp_message why;

static int open_shipped(void **state) {
    (void)state;
    const char *folders[] = {SOURCE_DIR "/templates"};
    if (gen_open(folders, 1, NULL, &generator, &why) != MLPBWD_OK) {
        print_error("%s\n", why.text);
        return -1;
    }
    return 0;
}

static int close_shipped(void **state) {
    (void)state;
    gen_close(generator);
    return 0;
}

static void must(mlpbwd_status status, const char *what) {
    if (status != MLPBWD_OK)
        fail_msg("%s: %s", what, why.text);
}

/* visit for every kernel, role, architecture and class that go together. */
static void each_use(void (*visit)(const kernel_use *use, void *data), void *data) {
    const char *kernel, *arch;
    json_t *fields, *ignored, *role;
    size_t i;
    json_object_foreach(generator->kernels, kernel, fields) {
        json_array_foreach(json_object_get(fields, "roles"), i, role) {
            json_object_foreach(generator->archs, arch, ignored) {
                for (int accuracy = 0; accuracy < 3; accuracy++) {
                    gen_target target = {arch, accuracy};
                    kernel_use use;
                    if (kernel_use_init(&use, generator, kernel, json_string_value(role), &target, NULL) == MLPBWD_OK)
                        visit(&use, data);
                }
            }
        }
    }
}

static void check_default(const kernel_use *use, void *data) {
    kernel_variant variant;
    const json_t *list;
    must(parameters_check_read(use, &why), "unread parameters");
    must(parameters_of(use, &list, &why), "parameters");
    must(kernel_variant_make(use, NULL, NULL, &variant, &why), "default");
    const json_t *launch = json_array_get(variant.launches, 0);
    assert_non_null(strstr(variant.source, json_string_value(json_object_get(launch, "entry"))));
    if (strstr(variant.source, "#include"))
        fail_msg("kernel %s on %s: the source has an #include", use->kernel, use->target->arch);
    ++*(int *)data;
    kernel_variant_free(&variant);
}

static void test_defaults(void **state) {
    (void)state;
    int count = 0;
    each_use(check_default, &count);
    assert_true(count > 0);
}

/* ---- two values of a parameter are two kernels ---- */

static void digest_of(const kernel_variant *variant, char hash[DB_HASH_CAPACITY]) {
    json_t *all = json_pack("[s, O, O]", variant->source, variant->launches, variant->workspace);
    char *text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
    db_hash(text, strlen(text), hash);
    free(text);
    json_decref(all);
}

/* groups: "the other parameters" -> {value: digest}; outcome: "value value" -> differ at least once. */
static void compare_values(json_t *groups, json_t *outcome) {
    const char *key, *a, *b;
    json_t *group, *x, *y;
    json_object_foreach(groups, key, group) {
        json_object_foreach(group, a, x) {
            json_object_foreach(group, b, y) {
                char pair[512];
                if (strcmp(a, b) >= 0)
                    continue;
                snprintf(pair, sizeof pair, "%s and %s", a, b);
                bool differ = !json_equal(x, y) || json_is_true(json_object_get(outcome, pair));
                json_object_set_new(outcome, pair, json_boolean(differ));
            }
        }
    }
}

static size_t differences(const json_t *a, const json_t *b) {
    size_t count = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)a, key, value) {
        count += !json_equal(value, json_object_get(b, key));
    }
    return count;
}

static void check_values_differ(const kernel_use *use, void *data) {
    char seen[256];
    snprintf(seen, sizeof seen, "%s %s", use->kernel, use->role);
    if (json_object_get(data, seen))
        return;
    json_object_set_new(data, seen, json_true());
    json_t *variants = NULL;
    const json_t *list;
    must(gen_space(generator, use->kernel, use->role, use->target, NULL, &variants, NULL, &why), "space");
    must(parameters_of(use, &list, &why), "parameters");
    size_t count = json_array_size(variants), step = count / MOST_VARIANTS + 1;
    json_t *digests = json_array();
    for (size_t i = 0; i < count; i++) {
        kernel_variant variant;
        char hash[DB_HASH_CAPACITY] = "";
        if (i % step == 0 || differences(json_array_get(variants, 0), json_array_get(variants, i)) <= 1) {
            must(kernel_variant_make(use, json_array_get(variants, i), NULL, &variant, &why), "variant");
            digest_of(&variant, hash);
            kernel_variant_free(&variant);
        }
        json_array_append_new(digests, json_string(hash));
    }
    for (size_t p = 0; p < json_array_size(list); p++) {
        const char *name = json_string_value(json_object_get(json_array_get(list, p), "name"));
        json_t *groups = json_object(), *outcome = json_object(), *differ;
        for (size_t i = 0; i < count; i++) {
            json_t *digest = json_array_get(digests, i), *others = json_copy(json_array_get(variants, i));
            char value[64];
            if (!*json_string_value(digest)) {
                json_decref(others);
                continue;
            }
            values_text(json_object_get(others, name), value, sizeof value);
            json_object_del(others, name);
            char *key = json_dumps(others, JSON_COMPACT | JSON_SORT_KEYS);
            if (!json_object_get(groups, key))
                json_object_set_new(groups, key, json_object());
            json_object_set(json_object_get(groups, key), value, digest);
            free(key);
            json_decref(others);
        }
        compare_values(groups, outcome);
        const char *pair;
        json_object_foreach(outcome, pair, differ) {
            if (!json_is_true(differ))
                fail_msg("kernel %s, role %s: parameter %s: %s always emit the same source and launches", use->kernel,
                         use->role, name, pair);
        }
        json_decref(groups);
        json_decref(outcome);
    }
    json_decref(digests);
    json_decref(variants);
}

static void test_values_differ(void **state) {
    (void)state;
    json_t *seen = json_object();
    each_use(check_values_differ, seen);
    json_decref(seen);
}

/* ---- spaces, plans ---- */

static void check_space(const kernel_use *use, void *data) {
    gen_problem problem = {541, 2048, 8192, 132};
    json_t *all = NULL, *pruned = NULL, *again = NULL, *rejected = NULL, *standard = NULL;
    (void)data;
    must(gen_space(generator, use->kernel, use->role, use->target, NULL, &all, NULL, &why), "space");
    must(gen_space(generator, use->kernel, use->role, use->target, &problem, &pruned, &rejected, &why), "pruned space");
    must(gen_space(generator, use->kernel, use->role, use->target, &problem, &again, NULL, &why), "pruned space");
    must(parameters_complete(use, NULL, &standard, &why), "default");
    json_object_set_new(standard, "kernel", json_string(use->kernel));
    if (!json_equal(json_array_get(pruned, 0), standard))
        fail_msg("kernel %s, role %s on %s: the default is not valid", use->kernel, use->role, use->target->arch);
    assert_true(json_equal(pruned, again));
    assert_true(json_array_size(pruned) <= json_array_size(all));
    json_t *texts = json_object(), *variant;
    size_t i;
    json_array_foreach(all, i, variant) {
        char *sorted = json_dumps(variant, JSON_COMPACT | JSON_SORT_KEYS), *plain = json_dumps(variant, JSON_COMPACT);
        assert_string_equal(sorted, plain); /* canonical as it is */
        assert_null(json_object_get(texts, plain));
        json_object_set_new(texts, plain, json_true());
        free(sorted);
        free(plain);
    }
    json_decref(texts);
    json_decref(all);
    json_decref(pruned);
    json_decref(again);
    json_decref(rejected);
    json_decref(standard);
}

static void test_spaces(void **state) {
    (void)state;
    each_use(check_space, NULL);
}

/* Every pipeline on every target it is for: a plan whose pointers, buffers, modules and sources all fit together. */
static void check_plan(const json_t *plan, const json_t *sources) {
    json_t *launch, *argument, *module;
    size_t i, k;
    json_array_foreach(json_object_get(plan, "modules"), i, module) {
        const char *hash = json_string_value(json_object_get(module, "source"));
        const char *text = json_string_value(json_object_get(sources, hash));
        char actual[DB_HASH_CAPACITY];
        assert_non_null(text);
        db_hash(text, strlen(text), actual);
        assert_string_equal(actual, hash);
    }
    json_array_foreach(json_object_get(plan, "launches"), i, launch) {
        assert_true(json_integer_value(json_object_get(launch, "module")) <
                    (json_int_t)json_array_size(json_object_get(plan, "modules")));
        json_array_foreach(json_object_get(launch, "args"), k, argument) {
            const char *pointer = json_string_value(json_object_get(argument, "pointer"));
            if (!pointer || pipeline_tensor(pointer))
                continue;
            bool found = false;
            size_t b;
            json_t *buffer;
            json_array_foreach(json_object_get(plan, "buffers"), b, buffer) {
                found = found || strcmp(json_string_value(json_object_get(buffer, "name")), pointer) == 0;
            }
            assert_true(found);
        }
    }
}

static void test_plans(void **state) {
    (void)state;
    const char *arch;
    json_t *fields, *name;
    size_t i, shipped = 0;
    json_object_foreach(generator->archs, arch, fields) {
        for (int accuracy = 0; accuracy < 3; accuracy++) {
            gen_target target = {arch, accuracy};
            json_t *names = NULL;
            must(gen_pipelines_for(generator, &target, &names, &why), arch);
            if (json_array_size(names) == 0)
                fail_msg("%s: no pipeline serves %s", arch, accuracy_name(accuracy));
            json_array_foreach(names, i, name) {
                json_t *plan = NULL, *sources = NULL, *again = NULL, *more = NULL;
                must(gen_build_plan(generator, json_string_value(name), &target, NULL, &plan, &sources, &why), arch);
                check_plan(plan, sources);
                must(gen_build_plan(generator, json_string_value(name), &target, json_object_get(plan, "parameters"),
                                    &again, &more, &why),
                     "the plan's own parameters");
                assert_true(json_equal(plan, again) && json_equal(sources, more));
                json_decref(plan);
                json_decref(sources);
                json_decref(again);
                json_decref(more);
            }
            json_decref(names);
        }
        shipped += json_is_true(json_object_get(fields, "ship"));
    }
    assert_true(shipped > 0);
}

/* A second gen on the same folder emits the same bytes, although Lua seeds its hash tables anew. */
static void check_same(const kernel_use *use, void *data) {
    char *a = NULL, *b = NULL;
    must(gen_emit(generator, use->kernel, use->role, use->target, NULL, &a, &why), "emit");
    must(gen_emit(data, use->kernel, use->role, use->target, NULL, &b, &why), "emit");
    assert_string_equal(a, b);
    free(a);
    free(b);
}

static void test_reproducible(void **state) {
    (void)state;
    const char *folders[] = {SOURCE_DIR "/templates"};
    gen *other;
    must(gen_open(folders, 1, NULL, &other, &why), "second");
    assert_string_equal(gen_templates_hash(generator), gen_templates_hash(other));
    each_use(check_same, other);
    gen_close(other);
}

/* ---- architectures ---- */

static void test_archs(void **state) {
    (void)state;
    json_t *archs = gen_describe_archs(generator);
    char ladder[DEV_MAX_LADDER][32];
    static const int capabilities[] = {80, 86, 89, 90, 100, 103, 120};
    for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++) {
        size_t count = dev_cuda_ladder(capabilities[i], ladder);
        assert_true(count > 0);
        for (size_t k = 0; k < count; k++) {
            const json_t *arch = json_object_get(archs, ladder[k]);
            if (!arch)
                fail_msg("there is no templates/arch/%s.lua", ladder[k]);
            assert_true(json_integer_value(json_object_get(arch, "compute_capability")) <= capabilities[i]);
        }
    }
    size_t count = dev_host_ladder(ladder);
    for (size_t k = 0; k < count; k++)
        assert_non_null(json_object_get(archs, ladder[k]));
    /* PTX ISA: wgmma exists on 9.0 only, tcgen05 from 10.0 on; shared memory of the CUDA programming guide */
    const json_t *hopper = json_object_get(archs, "sm_90a"), *blackwell = json_object_get(archs, "sm_103a");
    assert_true(json_is_true(json_object_get(json_object_get(hopper, "features"), "wgmma")));
    assert_true(json_is_false(json_object_get(json_object_get(hopper, "features"), "tcgen05")));
    assert_true(json_is_false(json_object_get(json_object_get(blackwell, "features"), "wgmma")));
    assert_true(json_is_true(json_object_get(json_object_get(blackwell, "features"), "cp_async")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(blackwell, "limits"), "shared_bytes")),
                     227 << 10);
    const json_t *any = json_object_get(archs, "compute_80");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(any, "limits"), "shared_bytes")), 99 << 10);
    /* datasheets: A100 108, H100 and H200 SXM 132, B200 148 multiprocessors */
    assert_int_equal(json_integer_value(json_object_get(any, "units")), 108);
    assert_int_equal(json_integer_value(json_object_get(hopper, "units")), 132);
    assert_int_equal(json_integer_value(json_object_get(blackwell, "units")), 148);
    json_decref(archs);
}

static void test_describe(void **state) {
    (void)state;
    json_t *kernels = gen_describe_kernels(generator), *pipelines = gen_describe_pipelines(generator);
    const char *name;
    json_t *fields;
    json_object_foreach(kernels, name, fields) {
        assert_true(json_string_length(json_object_get(fields, "doc")) > 0);
        assert_true(json_is_array(json_object_get(fields, "roles")) &&
                    json_is_integer(json_object_get(fields, "rank")));
        size_t i;
        json_t *param;
        json_array_foreach(json_object_get(fields, "params"), i, param) {
            assert_true(json_string_length(json_object_get(param, "doc")) > 0);
        }
    }
    json_object_foreach(pipelines, name, fields) {
        assert_true(json_array_size(json_object_get(fields, "slots")) > 0);
    }
    json_decref(kernels);
    json_decref(pipelines);
}

static void test_default_folder(void **state) {
    (void)state;
    char path[4096];
    must(gen_default_folder(path, sizeof path, &why), "default folder");
    setenv("MLPBWD_TEMPLATES", "/nowhere", 1);
    assert_int_equal(gen_default_folder(path, sizeof path, &why), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, "/nowhere"));
    setenv("MLPBWD_TEMPLATES", SOURCE_DIR "/templates", 1);
    must(gen_default_folder(path, sizeof path, &why), "named folder");
    assert_string_equal(path, SOURCE_DIR "/templates");
    unsetenv("MLPBWD_TEMPLATES");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_values_differ),  cmocka_unit_test(test_spaces),
        cmocka_unit_test(test_plans),    cmocka_unit_test(test_reproducible),   cmocka_unit_test(test_archs),
        cmocka_unit_test(test_describe), cmocka_unit_test(test_default_folder),
    };
    return cmocka_run_group_tests_name("generator", tests, open_shipped, close_shipped);
}
