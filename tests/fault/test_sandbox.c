/* Templates that loop, eat memory, crash or lie: each ends with a message that names file and line, within limits that
 * keep this program short, and leaves the generator usable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "db_fixture.h"
#include "template_fixture.h"

static const gen_limits small = {.memory_bytes = 16 << 20, .instructions = 2000000};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* lib/bad.lua is `body`, run by arch/uses.lua while the folder is opened: must fail, soon, with all the parts
 * (separated by '|') in the message. */
static void must_refuse(void **state, const char *body, const char *parts) {
    gen *generator = NULL;
    mlp_message why = {""};
    template_write(state, "lib/bad.lua", body);
    template_write(state, "arch/uses.lua", "return import 'lib/bad.lua'\n");
    double start = now();
    mlpbwd_status status = template_open(state, &small, &generator, &why);
    double seconds = now() - start;
    gen_close(generator);
    if (status == MLPBWD_OK)
        fail_msg("accepted: %s", body);
    char copy[256], *save = NULL;
    snprintf(copy, sizeof copy, "%s", parts);
    for (char *part = strtok_r(copy, "|", &save); part; part = strtok_r(NULL, "|", &save))
        if (!strstr(why.text, part))
            fail_msg("'%s' is not in the message: %s\n%s", part, why.text, body);
    if (seconds > 20)
        fail_msg("took %.1f s: %s", seconds, body);
}

static void test_loops(void **state) {
    must_refuse(state, "local n = 0\nwhile true do\n n = n + 1\nend", "lib/bad.lua:|instructions");
    must_refuse(state, "goto here\n::here::\ngoto here", "lib/bad.lua:|instructions");
    must_refuse(state, "while true do\n pcall(function() while true do end end)\nend", "lib/bad.lua:|instructions");
    must_refuse(state, "return pcall(function() while true do end end)", "lib/bad.lua:1|instructions");
    must_refuse(state,
                "local x <close> = setmetatable({}, { __close = function() while true do end end })\nerror 'out'",
                "lib/bad.lua:|instructions");
    must_refuse(state, "table.sort({ 3, 2, 1 }, function() while true do end end)", "lib/bad.lua:1|instructions");
    must_refuse(state, "local t = setmetatable({}, { __index = function(t, k) return t[k + 1] end })\nreturn t[1]",
                "lib/bad.lua:1|overflow");
}

/* Loops inside C functions, where no hook runs. */
static void test_loops_in_c(void **state) {
    must_refuse(state, "local s = ('a'):rep(100)\nreturn s:find(('a*'):rep(30) .. 'b')", "lib/bad.lua:2|instructions");
    must_refuse(state, "return (('a'):rep(200):gsub(('a-'):rep(20) .. 'b', ''))", "lib/bad.lua:1|instructions");
    must_refuse(state, "for _ in (('a'):rep(3000)):gmatch('.-.-.-b') do end", "lib/bad.lua:1|instructions");
    must_refuse(state, "return ('x'):rep(1 << 40)", "lib/bad.lua:1|instructions");
    must_refuse(state, "return (('x'):rep(1 << 16)):rep(1 << 16)", "lib/bad.lua:1|bytes");
    must_refuse(state, "return ('x'):rep(1 << 62)", "lib/bad.lua:1");
    must_refuse(state, "return table.move({}, 1, 1 << 53, 2)", "lib/bad.lua:1");
    must_refuse(state, "return table.move({}, 1, 1e18, 2)", "lib/bad.lua:1|2^24");
    must_refuse(state, "return table.move({}, 1, '1e18', 2)", "lib/bad.lua:1|2^24");
    must_refuse(state, "local t = setmetatable({}, { __len = function() return 1 << 53 end })\ntable.insert(t, 1, 1)",
                "lib/bad.lua:2|metatable");
    must_refuse(state, "return table.concat({}, '', 1, 1 << 40)", "lib/bad.lua:1");
    must_refuse(state, "return table.unpack({}, 1, 1e7 // 1 | 0)", "lib/bad.lua:1");
    must_refuse(state, "local s = ('x'):rep(1 << 20)\nfor i = 1, 1 << 30 do local u = s:upper() end",
                "lib/bad.lua:2|instructions");
    must_refuse(state, "local s = ('x'):rep(1 << 20)\nfor i = 1, 1 << 30 do local u = utf8.len(s) end",
                "lib/bad.lua:2|instructions");
    must_refuse(state, "local t = {}\nfor i = 1, 1 << 30 do table.insert(t, 1, i) end", "lib/bad.lua:2");
    /* this one ends: nothing is repeated */
    gen *generator = NULL;
    template_write(state, "lib/bad.lua", "return ('').rep('', 1 << 60) == '' and {}");
    template_write(state, "arch/uses.lua", "local x = import 'lib/bad.lua'\nreturn import 'lib/other.lua'");
    assert_int_not_equal(template_open(state, &small, &generator, NULL), MLPBWD_OK);
}

static void test_memory(void **state) {
    must_refuse(state, "local t = {}\nfor i = 1, 1 << 30 do t[i] = { i } end", "lib/bad.lua:2|bytes");
    must_refuse(state, "local s = 'x'\nwhile true do\n s = s .. s\nend", "lib/bad.lua:3|bytes");
    must_refuse(state, "local t = {}\nwhile true do\n pcall(function() t[#t + 1] = ('x'):rep(1 << 20) end)\nend",
                "lib/bad.lua:");
    gen *generator = NULL;
    mlp_message why = {""};
    gen_limits tiny = {.memory_bytes = 4096};
    assert_int_not_equal(template_open(state, &tiny, &generator, &why), MLPBWD_OK);
    assert_null(generator);
    assert_non_null(strstr(why.text, "4096 bytes"));
}

static void test_recursion(void **state) {
    must_refuse(state, "local function f(n) return 1 + f(n + 1) end\nreturn f(0)", "lib/bad.lua:1");
    must_refuse(state, "local function f() return pcall(f) end\nlocal function g() return 1 + g() end\nf()\nreturn g()",
                "lib/bad.lua:");
    must_refuse(state, "local s = 'x'\nreturn s:gsub('.', function() return s:gsub('.', error) end)", "lib/bad.lua:2");
    char deep[4096] = "return ";
    memset(deep + 7, '(', 2000);
    must_refuse(state, deep, "lib/bad.lua|overflow");
    must_refuse(state, "return import 'lib/bad.lua'", "lib/bad.lua:1|imports itself");
}

static void test_error_values(void **state) {
    must_refuse(state, "error({ code = 1 })", "lib/bad.lua:1|error object is a table");
    must_refuse(state, "error()", "lib/bad.lua:1|error object is a nil");
    must_refuse(state, "error(setmetatable({}, { __tostring = function() while true do end end }))",
                "lib/bad.lua:1|error object is a table");
    must_refuse(state, "error('no place', 0)", "lib/bad.lua:1|no place");
    must_refuse(state, "error(12)", "lib/bad.lua:1");
    must_refuse(state, "local x = nil\nreturn x.y", "lib/bad.lua:2|'x'");
    must_refuse(state, "assert(false, 'claimed')", "lib/bad.lua:1|claimed");
}

static void test_files(void **state) {
    must_refuse(state, "local t = {}", "lib/bad.lua|returns nothing");
    must_refuse(state, "", "lib/bad.lua|returns nothing");
    must_refuse(state, "return 3", "uses.lua|number");
    must_refuse(state, "return {\n  name = ,\n}", "lib/bad.lua:2|unexpected");
    must_refuse(state, "return [[", "lib/bad.lua:1|unfinished");
    must_refuse(state, "\x1bLua", "lib/bad.lua|binary");
    must_refuse(state, "return { 1, x = 2 }", "uses.lua|both a list part and named fields");
    must_refuse(state, "local t = {} t.t = t return t", "uses.lua|nested");
    must_refuse(state, "return { doc = 0/0 }", "uses.lua|not finite");
    must_refuse(state, "return { doc = 1e999 }", "uses.lua|not finite");
    must_refuse(state, "return { doc = 'a\\0b' }", "uses.lua|zero byte");
    must_refuse(state, "return { doc = '\\xff' }", "uses.lua|UTF-8");
    must_refuse(state, "return { doc = string }", "uses.lua");
    must_refuse(state, "return { [1 << 62] = 1 }", "uses.lua|key of type number");
    must_refuse(state, "return { name = 99999999999999999999 }", "uses.lua|'name'");
}

static void test_forbidden(void **state) {
    static const char *const names[] = {"io",       "os",     "package", "debug", "load",           "loadstring",
                                        "loadfile", "dofile", "require", "print", "collectgarbage", "coroutine",
                                        "warn",     "xpcall", "rawset",  "_G"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char body[128], part[128];
        snprintf(body, sizeof body, "local x = 1\nreturn { %s }", names[i]);
        snprintf(part, sizeof part, "lib/bad.lua:2|unknown name '%s'", names[i]);
        must_refuse(state, body, part);
    }
    must_refuse(state, "return string.dump(function() end)", "lib/bad.lua:1|'dump'");
    must_refuse(state, "return ('').dump(function() end)", "lib/bad.lua:1|'dump'");
    must_refuse(state, "return math.random()", "lib/bad.lua:1|'random'");
    must_refuse(state, "setmetatable({}, { __gc = function() while true do end end })", "lib/bad.lua:1|finalizers");
    must_refuse(state, "getmetatable('').__index = nil", "lib/bad.lua:1");
    must_refuse(state, "setmetatable('', {})", "lib/bad.lua:1|table expected");
    must_refuse(state, "text = nil", "lib/bad.lua:1|say local");
    must_refuse(state, "helper = 1", "lib/bad.lua:1|'helper'");
    must_refuse(state, "return helper", "lib/bad.lua:1|'helper'");
}

static void test_paths(void **state) {
    static const char *const paths[] = {
        "../lib/features.lua", "lib/../lib/features.lua", "/etc/passwd", "lib/none.lua", "lib", "",
        "README.md",           "lib/./features.lua"};
    static const char *const functions[] = {"text", "import"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths * 2; i++) {
        char body[128], part[128];
        snprintf(body, sizeof body, "return %s '%s'", functions[i % 2], paths[i / 2]);
        snprintf(part, sizeof part, "lib/bad.lua:1|'%s'", paths[i / 2]);
        must_refuse(state, body, part);
    }
    must_refuse(state, "return text(nil)", "lib/bad.lua:1|string expected");
    must_refuse(state, "return text 'lib/a\\0b'", "lib/bad.lua:1");
}

/* After a kernel's function has run into a limit the generator still serves. */
static void test_usable_afterwards(void **state) {
    static const char *const bad[] = {"while true do end", "return ('x'):rep(1 << 30)", "error {}", "return nil",
                                      "return {}",         "return c.p.tiles"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char source[512];
        gen *generator = NULL;
        mlp_message why = {""};
        char *text = NULL;
        snprintf(source, sizeof source, "if c.p.tile == 4 then\n%s\nend\nreturn 'fine'", bad[i]);
        template_write(state, "kernels/k.lua", template_kernel("return c.p.fast ~= nil", source, NULL));
        assert_int_equal(template_open(state, &small, &generator, &why), MLPBWD_OK);
        for (int round = 0; round < 2; round++) {
            json_t *four = json_pack("{s:i}", "tile", 4);
            assert_int_equal(gen_emit(generator, "k", "fc1_dgrad", &template_target, four, &text, &why),
                             MLPBWD_INVALID_ARGUMENT);
            assert_null(text);
            assert_non_null(strstr(why.text, "kernels/k.lua"));
            json_decref(four);
            assert_int_equal(gen_emit(generator, "k", "fc1_dgrad", &template_target, NULL, &text, &why), MLPBWD_OK);
            assert_string_equal(text, "fine");
            free(text);
        }
        gen_close(generator);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_loops, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_loops_in_c, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_memory, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_recursion, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_error_values, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_files, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_forbidden, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_paths, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_usable_afterwards, template_folder, fixture_remove),
    };
    return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
