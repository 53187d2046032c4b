/* The rules of templates/README.md: each broken one is refused with a message that names file, field or slot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "db_fixture.h"
#include "template_fixture.h"

static mlp_message why;

static void must_name(const char *part) {
    if (!strstr(why.text, part))
        fail_msg("'%s' is not in: %s", part, why.text);
}

/* Opens and builds the plan of pipeline p; the first failure's status. */
static mlpbwd_status build(void **state, const json_t *selection, json_t **plan) {
    gen *generator = NULL;
    json_t *made = NULL, *sources = NULL;
    mlpbwd_status status = template_open(state, NULL, &generator, &why);
    if (status == MLPBWD_OK)
        status = gen_build_plan(generator, "p", &template_target, selection, &made, &sources, &why);
    gen_close(generator);
    json_decref(sources);
    if (plan)
        *plan = made;
    else
        json_decref(made);
    return status;
}

/* With this text in the file, the plan cannot be built, and part is in the message. */
static void refuses(void **state, const char *path, const char *text, const char *part) {
    template_write(state, path, text);
    if (build(state, NULL, NULL) == MLPBWD_OK)
        fail_msg("accepted: %s", text);
    must_name(part);
    remove(fixture_path(state, path));
}

static void test_plan_of_the_set(void **state) {
    json_t *plan = NULL;
    if (build(state, NULL, &plan) != MLPBWD_OK)
        fail_msg("%s", why.text);
    static const char expected[] =
        "\"buffers\":[{\"name\":\"middle\",\"size\":\"T*I*4\"},{\"name\":\"first.parts\",\"size\":\"T*4\"}],\"format\":"
        "1,"
        "\"launches\":[{\"after\":[],\"args\":[{\"access\":\"in\",\"part\":1,\"pointer\":\"grad_output\"},{\"access\":"
        "\"out\","
        "\"part\":1,\"pointer\":\"middle\"},{\"access\":\"inout\",\"part\":1,\"pointer\":\"first.parts\"},{\"i32\":"
        "\"T\"},"
        "{\"i64\":\"7\"},{\"f32\":0.5}],\"block\":[1,1,1],\"entry\":\"e\",\"grid\":[\"T\",\"1\",\"1\"],\"module\":0,"
        "\"shared\":"
        "\"0\",\"slot\":\"first\",\"stream\":0},{\"after\":[],\"args\":[{\"access\":\"in\",\"part\":1,\"pointer\":"
        "\"middle\"},"
        "{\"access\":\"out\",\"part\":1,\"pointer\":\"grad_hidden_states\"},{\"pointer\":null}],\"block\":[4,2,1],"
        "\"entry\":"
        "\"e\",\"grid\":[\"T\",\"2\",\"1\"],\"module\":1,\"shared\":\"0\",\"slot\":\"second\",\"stream\":0}]";
    char *text = json_dumps(plan, JSON_COMPACT);
    assert_non_null(strstr(text, expected));
    assert_non_null(strstr(text,
                           "\"parameters\":{\"first\":{\"kernel\":\"producer\"},\"second\":{\"fast\":true,\"kernel\":"
                           "\"k\",\"tile\":2}},\"pipeline\":\"p\",\"tokens\":{\"max\":2147483647,\"min\":1}"));
    assert_non_null(strstr(text, "{\"code\":null,\"code_format\":\"elf-so\",\"compiler\":\"cc\",\"slot\":\"first\","));
    free(text);
    json_decref(plan);
}

static void test_selection(void **state) {
    static const struct {
        const char *selection, *part;
    } bad[] = {
        {"[]", "must be an object"},
        {"{\"third\":{}}", "no slot"},
        {"{\"second\":1}", "must be an object"},
        {"{\"second\":{\"kernel\":\"producer\"}}", "not one of [\"k\"]"},
        {"{\"second\":{\"kernel\":1}}", "not one of [\"k\"]"},
        {"{\"second\":{\"tile\":3}}", "tile cannot be 3; it can be one of [1,2,4]"},
        {"{\"second\":{\"tile\":\"2\"}}", "tile cannot be \"2\""},
        {"{\"second\":{\"tile\":2.0}}", "tile cannot be 2.0"},
        {"{\"second\":{\"fast\":1}}", "fast cannot be 1"},
        {"{\"second\":{\"width\":1}}", "no parameter 'width'"},
        {"{\"second\":{\"tile\":4,\"fast\":false}}", "not valid: slow"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *selection = json_loads(bad[i].selection, 0, NULL);
        assert_int_equal(build(state, selection, NULL), MLPBWD_INVALID_ARGUMENT);
        must_name(bad[i].part);
        json_decref(selection);
    }
    json_t *plan = NULL, *good = json_loads("{\"second\":{\"tile\":4,\"kernel\":\"k\"}}", 0, NULL);
    assert_int_equal(build(state, good, &plan), MLPBWD_OK);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(json_object_get(plan, "parameters"), "second"), "tile")), 4);
    json_decref(plan);
    json_decref(good);
}

static void test_arch_rules(void **state) {
    static const char base[] =
        "doc = 'd', backend = 'host', compiler = 'cc', target = 'x', compute_capability = 0, ship = false";
    static const struct {
        const char *fields, *part;
    } bad[] = {
        {"name = 'other', %s", "arch/a.lua: its name is 'other'"},
        {"name = 'a', %s, colour = 1", "unknown field 'colour'"},
        {"name = 'a', doc = 'd'", "field 'backend' is missing"},
        {"name = 'a', %s, parent = 'none'", "no parent 'none'"},
        {"name = 'a', %s, parent = 'a'", "its own ancestor"},
        {"name = 'a', %s, parent = 'test', features = { typo = true }", "feature 'typo'"},
        {"name = 'a', %s, parent = 'test', features = { base = 1 }", "feature 'base'"},
        {"name = 'a', %s, parent = 'test', limits = { bytes = 1 }", "limits: unknown field 'bytes'"},
        {"name = 'a', %s, parent = 'test', rates = { tf32 = 'x' }", "rates: field 'tf32' must be a number"},
        {"name = 'a', %s", "limits: field 'shared_bytes' is missing"},
        {"name = 'a', %s, parent = 'test', units = -1", "units is -1"},
        {"name = 'a', doc = 'd', backend = 'cuda', compiler = 'nvrtc', target = 'x', compute_capability = 80, "
         "ship = false, parent = 'test'",
         "units is 0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char fields[512], text[600];
        const char *hole = strstr(bad[i].fields, "%s");
        snprintf(fields, sizeof fields, "%.*s%s%s", hole ? (int)(hole - bad[i].fields) : 0, bad[i].fields,
                 hole ? base : "", hole ? hole + 2 : bad[i].fields);
        snprintf(text, sizeof text, "return { %s }\n", fields);
        refuses(state, "arch/a.lua", text, bad[i].part);
    }
    template_write(state, "arch/a.lua",
                   "return { name = 'a', doc = 'd', backend = 'host', compiler = 'cc', target = 'x', parent = 'test',\n"
                   "  compute_capability = 0, ship = false, features = { base = false, extra = true }, limits = { "
                   "shared_bytes = 9 } }");
    gen *generator;
    assert_int_equal(template_open(state, NULL, &generator, &why), MLPBWD_OK);
    json_t *archs = gen_describe_archs(generator), *a = json_object_get(archs, "a");
    assert_true(json_is_false(json_object_get(json_object_get(a, "features"), "base")));
    assert_true(json_is_true(json_object_get(json_object_get(a, "features"), "extra")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(a, "limits"), "shared_bytes")), 9);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(a, "limits"), "threads_per_block")), 64);
    json_t *names = NULL;
    gen_target target = {"a", MLPBWD_ACCURACY_TF32};
    assert_int_equal(gen_pipelines_for(generator, &target, &names, &why), MLPBWD_OK);
    assert_int_equal(json_array_size(names), 0); /* producer needs base */
    json_t *slots = NULL;
    assert_int_equal(gen_slots(generator, "p", &target, &slots, &why), MLPBWD_UNSUPPORTED);
    must_name("needs base, which a does not have");
    target.arch = "b";
    assert_int_equal(gen_slots(generator, "p", &target, &slots, &why), MLPBWD_INVALID_ARGUMENT);
    must_name("no architecture 'b'");
    target = (gen_target){"test", 7};
    assert_int_equal(gen_slots(generator, "p", &target, &slots, &why), MLPBWD_INVALID_ARGUMENT);
    json_decref(names);
    json_decref(archs);
    gen_close(generator);
}

/* kernels/k.lua with one piece of text replaced. */
static void kernel_with(void **state, const char *old, const char *new, const char *part) {
    char text[8192];
    const char *whole = template_kernel(NULL, NULL, NULL), *at = strstr(whole, old);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, new, at + strlen(old));
    template_write(state, "kernels/k.lua", text);
    if (build(state, NULL, NULL) == MLPBWD_OK)
        fail_msg("accepted: %s", new);
    must_name(part);
}

static void test_kernel_rules(void **state) {
    kernel_with(state, "name = 'k'", "name = 'q'", "kernels/k.lua: its name is 'q'");
    kernel_with(state, "doc = 'd', roles", "roles", "field 'doc' is missing");
    kernel_with(state, "doc = 'd', roles", "doc = 'd', speed = 1, roles", "unknown field 'speed'");
    kernel_with(state, "'fc1_dgrad'", "'fc9'", "roles: unknown name \"fc9\"");
    kernel_with(state, "accuracies = { 'tf32' }", "accuracies = { 'fp8' }", "accuracies: unknown name \"fp8\"");
    kernel_with(state, "accuracies = { 'tf32' }", "accuracies = { 'tf32' }, needs = { 'typo' }",
                "needs: unknown name \"typo\"");
    kernel_with(state, "accuracies = { 'tf32' }", "accuracies = { 'tf32' }, needs = { 'extra' }", "needs extra");
    kernel_with(state, "values = { 1, 2, 4 }", "values = { 1, '2' }", "\"2\"");
    kernel_with(state, "values = { 1, 2, 4 }", "values = { 1, 2.5 }", "2.5");
    kernel_with(state, "values = { 1, 2, 4 }", "values = { 2, 2 }", "twice");
    kernel_with(state, "values = { 1, 2, 4 }", "values = {}", "empty");
    kernel_with(state, "values = { 1, 2, 4 }", "values = function(c) return { c.p.fast } end", "not known here");
    kernel_with(state, "default = 2", "default = 3", "default 3 is not one of [1,2,4]");
    kernel_with(state, "name = 'fast'", "name = 'tile'", "listed twice");
    kernel_with(state, "name = 'fast'", "name = 'kernel'", "no name for a parameter");
    kernel_with(state, "default = true }",
                "default = true }, { name = 'idle', doc = 'd', values = { 1, 2 }, default = 1 }",
                "reads the parameter 'idle'");
    kernel_with(state, "c.p.tile == 4", "c.p.tiles == 4", "c.p has no field 'tiles'");
    kernel_with(state, "c.p.tile == 4", "c.arch.features.typo", "c.arch.features has no field 'typo'");
    kernel_with(state, "c.p.tile == 4", "c.roll", "c has no field 'roll'");
    kernel_with(state, "if c.p.tile == 4", "c.p.tile = 4 if c.p.tile == 4", "c.p cannot be written");
    kernel_with(state, "return false, 'slow' end return true", "return 1 end return 'yes'",
                "true, or false and a reason");
    kernel_with(state, "access = 'out'", "access = 'write'", "access 'write'");
    kernel_with(state, "name = 'b', access", "name = 'a', access", "twice");
    kernel_with(state, "return 'tile '", "return {}, 'tile '", "must return a text");
    kernel_with(state, "entry = 'e'", "entry = 'e e'", "entry 'e e' is no name");
    kernel_with(state, "grid = { 'T', 2 }", "grid = {}", "one to three");
    kernel_with(state, "grid = { 'T', 2 }", "grid = { 'T+', 2 }", "T+");
    kernel_with(state, "grid = { 'T', 2 }", "grid = { 'Q' }", "Q");
    kernel_with(state, "block = { 4, 2 }", "block = { 0 }", "block has the entry 0");
    kernel_with(state, "block = { 4, 2 }", "block = { 64, 2 }", "128 threads, but the architecture allows 64");
    kernel_with(state, "{ name = 'a' },", "{ name = 'z' },", "'z' is neither an operand nor a workspace buffer");
    kernel_with(state, "{ name = 'a' },", "{ name = 'a', i32 = 'T' },", "exactly one of");
    kernel_with(state, "{ name = 'a' },", "{ i32 = 'T', part = 1 },", "exactly one of");
    kernel_with(state, "{ name = 'a' },", "{ i32 = 'T', map = { element = 'f32' } },", "exactly one of");
    kernel_with(state, "{ name = 'a' },", "{ name = 'a', map = { element = 'f32', size = { 'T' }, stride = {} } },",
                "box");
    kernel_with(state, "{ name = 'a' },",
                "{ name = 'a', map = { element = 'f32', size = { 'X' }, stride = {}, box = { 32 } } },", "X");
    kernel_with(state, "{ name = 'a' },", "{ name = 'a', access = 'out' },", "declared as an input");
    kernel_with(state, "{ name = 'a' },", "{ name = 'a', part = -1 },", "part -1");
    kernel_with(state, "{ name = 'a' },", "{ f32 = 'x' },", "field 'f32' must be a number");
    template_write(state, "kernels/k.lua", template_kernel(NULL, NULL, "return {}"));
    assert_int_not_equal(build(state, NULL, NULL), MLPBWD_OK);
    must_name("must return a list of launches");
}

/* pipelines/p.lua with these buffers and steps. */
static void pipeline_with(void **state, const char *buffers, const char *steps, const char *part) {
    char text[4096];
    snprintf(text, sizeof text,
             "return { name = 'p', doc = 'd', accuracies = { 'tf32' }, buffers = { %s }, steps = { %s } }", buffers,
             steps);
    template_write(state, "pipelines/p.lua", text);
    mlpbwd_status status = build(state, NULL, NULL);
    if (part && status == MLPBWD_OK)
        fail_msg("accepted: %s", steps);
    if (part)
        must_name(part);
    else if (status != MLPBWD_OK)
        fail_msg("%s", why.text);
}

#define MIDDLE "{ name = 'middle', size = 'T*I*4' }"
#define WRITE(slot, from, to, rest)                                                                                    \
    "{ slot = '" slot "', role = 'fc2_dgrad', bind = { from = '" from "', to = '" to "' }" rest " },"
#define READ(slot, from, to, rest)                                                                                     \
    "{ slot = '" slot "', role = 'fc1_dgrad', bind = { a = '" from "', b = '" to "' }" rest " },"

static void test_pipeline_rules(void **state) {
    pipeline_with(state, MIDDLE, WRITE("w", "grad_output", "middle", "") READ("r", "middle", "grad_weight1", ""), NULL);
    pipeline_with(state, MIDDLE, READ("r", "middle", "grad_weight1", "") WRITE("w", "grad_output", "middle", ""),
                  "slot r reads the buffer 'middle', which no earlier step writes");
    pipeline_with(state, MIDDLE, WRITE("w", "grad_output", "grad_weight1", ""), "no step binds the buffer 'middle'");
    pipeline_with(state, "", WRITE("w", "grad_output", "middle", ""),
                  "bound to \"middle\", which is no tensor and no buffer");
    pipeline_with(state, "", WRITE("w", "bias1", "grad_bias1", ""), "\"bias1\"");
    pipeline_with(state, "", WRITE("w", "grad_output", "weight1", ""),
                  "operand to writes and is bound to the input 'weight1'");
    pipeline_with(state, "{ name = 'weight1', size = 'T' }", WRITE("w", "grad_output", "grad_bias1", ""), "'weight1'");
    pipeline_with(state, "{ name = 'x', size = 'T**2' }", WRITE("w", "grad_output", "x", ""), "T**2");
    pipeline_with(state, MIDDLE ", " MIDDLE, WRITE("w", "grad_output", "middle", ""), "listed twice");
    pipeline_with(state, "", "{ slot = 's', role = 'fc2_dgrad', bind = { from = 'grad_output' } }",
                  "operand to is not bound");
    pipeline_with(
        state, "",
        "{ slot = 's', role = 'fc2_dgrad', bind = { from = 'grad_output', to = 'grad_bias1', x = 'weight1' } }",
        "not all operands");
    pipeline_with(state, "", "{ slot = 's', role = 'none', bind = {} }", "no role 'none'");
    pipeline_with(state, "", "{ slot = 's', role = 'fc2_dgrad', kernel = 'k', bind = {} }",
                  "no kernel 'k' with the role fc2_dgrad");
    pipeline_with(state, "", "{ slot = 's', role = 'scale', bind = {} }", "no kernel has the role");
    pipeline_with(state, "", WRITE("w", "grad_output", "grad_bias1", "") WRITE("w", "grad_output", "grad_bias2", ""),
                  "twice");
    pipeline_with(state, "", WRITE("w", "grad_output", "grad_bias1", ", stream = 8"), "stream 8");
    pipeline_with(state, "", WRITE("w", "grad_output", "grad_bias1", ", after = { 'x' }"), "no earlier slot");
    pipeline_with(state, "", WRITE("w", "grad_output", "grad_bias1", ", wait = 1"), "unknown field 'wait'");
}

static void test_order_between_streams(void **state) {
    /* read after write; the fork of a stream covers what stands before it */
    pipeline_with(state, MIDDLE,
                  WRITE("w", "grad_output", "middle", "") READ("r", "middle", "grad_weight1", ", stream = 1"), NULL);
    pipeline_with(state, MIDDLE,
                  WRITE("early", "grad_output", "grad_bias1", ", stream = 1") WRITE("w", "grad_output", "middle", "")
                      READ("r", "middle", "grad_weight1", ", stream = 1"),
                  "slot r reads 'middle', which slot w writes on another stream");
    pipeline_with(state, MIDDLE,
                  WRITE("early", "grad_output", "grad_bias1", ", stream = 1") WRITE("w", "grad_output", "middle", "")
                      READ("r", "middle", "grad_weight1", ", stream = 1, after = { 'w' }"),
                  NULL);
    /* a side stream is not awaited by the caller's before the end */
    pipeline_with(state, MIDDLE,
                  WRITE("w", "grad_output", "middle", ", stream = 1") READ("r", "middle", "grad_weight1", ""),
                  "slot r reads 'middle', which slot w writes");
    /* write after read, write after write, also of outputs */
    pipeline_with(state, MIDDLE,
                  WRITE("w", "grad_output", "middle", "") READ("r", "middle", "grad_weight1", ", stream = 1")
                      WRITE("again", "grad_output", "middle", ""),
                  "slot again writes 'middle', which slot r reads");
    pipeline_with(state, "",
                  WRITE("a", "grad_output", "grad_bias1", ", stream = 1") WRITE("b", "grad_output", "grad_bias1", ""),
                  "slot b writes 'grad_bias1', which slot a writes");
    /* through a third stream */
    pipeline_with(state, MIDDLE,
                  WRITE("x", "grad_output", "grad_bias1", ", stream = 2")
                      WRITE("w", "grad_output", "middle", ", stream = 1")
                          WRITE("y", "grad_output", "grad_bias2", ", stream = 2, after = { 'w' }")
                              READ("r", "middle", "grad_weight1", ", after = { 'y' }"),
                  NULL);
    json_t *plan = NULL;
    assert_int_equal(build(state, NULL, &plan), MLPBWD_OK);
    char *after =
        json_dumps(json_object_get(json_array_get(json_object_get(plan, "launches"), 3), "after"), JSON_COMPACT);
    assert_string_equal(after, "[2]");
    free(after);
    json_decref(plan);
}

/* The user's folder comes first and hides namesakes; the hash follows every byte that can take part. */
static void test_folders(void **state) {
    gen *generator;
    char first[65];
    assert_int_equal(template_open(state, NULL, &generator, &why), MLPBWD_OK);
    snprintf(first, sizeof first, "%s", gen_templates_hash(generator));
    gen_close(generator);
    template_write(state, "user/kernels/k.lua",
                   template_kernel(NULL, "return 'mine ' .. c.p.tile .. tostring(c.p.fast)", NULL));
    fixture_write(fixture_path(state, "README.md"), "no part of it", 13);
    template_write(state, "lib/.hidden.lua", "nor this");
    char user[4096];
    snprintf(user, sizeof user, "%s", fixture_path(state, "user"));
    const char *folders[] = {user, *state};
    assert_int_equal(gen_open(folders, 2, NULL, &generator, &why), MLPBWD_OK);
    char *text = NULL;
    assert_int_equal(gen_emit(generator, "k", "fc1_dgrad", &template_target, NULL, &text, &why), MLPBWD_OK);
    assert_string_equal(text, "mine 2true");
    free(text);
    assert_string_not_equal(gen_templates_hash(generator), first);
    gen_close(generator);
    assert_int_equal(template_open(state, NULL, &generator, &why), MLPBWD_OK);
    assert_string_equal(gen_templates_hash(generator), first);
    gen_close(generator);
    const char *missing[] = {"/nowhere/at all"};
    assert_int_equal(gen_open(missing, 1, NULL, &generator, &why), MLPBWD_INVALID_ARGUMENT);
    must_name("/nowhere/at all");
    const char *empty[] = {fixture_path(state, "user/kernels")};
    assert_int_equal(gen_open(empty, 1, NULL, &generator, &why), MLPBWD_INVALID_ARGUMENT);
    must_name("has no file in");
    assert_int_equal(mkfifo(fixture_path(state, "lib/pipe.lua"), 0600), 0);
    assert_int_equal(template_open(state, NULL, &generator, &why), MLPBWD_INVALID_ARGUMENT);
    must_name("lib/pipe.lua: not a regular file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plan_of_the_set, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_selection, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_arch_rules, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_kernel_rules, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_pipeline_rules, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_order_between_streams, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_folders, template_folder, fixture_remove),
    };
    return cmocka_run_group_tests_name("generator: rules", tests, NULL, NULL);
}
