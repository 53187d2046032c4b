/* What template files can compute: fill, text and import, numbers whatever the locale, and the replaced parts of Lua's
 * library against Lua's own. Results are read back as the source of a kernel. */
#include <lauxlib.h>
#include <locale.h>
#include <lualib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "db_fixture.h"
#include "template_fixture.h"

/* glibc keeps the list of folders in LOCPATH. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:__argz_add_sep\n";
}

static mlp_message why;

/* Source of kernel k when its source function has this body (NULL on failure: *why says so). Malloc'ed. */
static char *emit(void **state, const char *body) {
    gen *generator = NULL;
    char *text = NULL, source[4096];
    snprintf(source, sizeof source, "local _ = c.p.tile and c.p.fast\n%s", body);
    template_write(state, "kernels/k.lua", template_kernel(NULL, source, NULL));
    if (template_open(state, NULL, &generator, &why) == MLPBWD_OK)
        (void)gen_emit(generator, "k", "fc1_dgrad", &template_target, NULL, &text, &why);
    gen_close(generator);
    return text;
}

static void emits(void **state, const char *body, const char *expected) {
    char *text = emit(state, body);
    if (!text)
        fail_msg("%s: %s", body, why.text);
    assert_string_equal(text, expected);
    free(text);
}

static void refuses(void **state, const char *body, const char *part) {
    char *text = emit(state, body);
    if (text)
        fail_msg("accepted: %s", body);
    if (!strstr(why.text, part))
        fail_msg("'%s' is not in: %s", part, why.text);
}

static void test_fill(void **state) {
    template_write(state, "lib/t.cuh", "int ${name} = ${value};");
    emits(state, "return fill(text 'lib/t.cuh', { name = 'x', value = 3 })", "int x = 3;");
    emits(state, "return fill('${a}${a}', { a = true })", "11");
    emits(state, "return fill('${a}$ {a} $b', { a = false })", "0$ {a} $b");
    emits(state, "return fill('${a}', { a = '${b}' })", "${b}");
    emits(state, "return fill('${a}', { a = 0.1 })", "0.10000000000000001");
    emits(state, "return fill('${a}', { a = 2.0 })", "2.0");
    emits(state, "return fill('${a}', { a = -1e300 })", "-1.0000000000000001e+300");
    emits(state, "return fill('${a}', { a = math.mininteger })", "-9223372036854775808");
    emits(state, "return fill('x', {})", "x");
    emits(state, "return fill(('line\\n'):rep(1000) .. '${a}', { a = 1 }):sub(-6)", "line\n1");
    refuses(state, "return fill(text 'lib/t.cuh', { name = 'x' })", "lib/t.cuh: no value for '${value}'");
    refuses(state, "return fill(text 'lib/t.cuh', { name = 'x', value = 1, more = 2 })",
            "lib/t.cuh: has no hole for the value 'more'");
    refuses(state, "return fill('${a}', { a = {} })", "'a' is a table");
    refuses(state, "return fill('${a}', { a = 0/0 })", "not finite");
    refuses(state, "return fill('${a', { a = 1 })", "without a name");
    refuses(state, "return fill('${}', {})", "without a name");
    refuses(state, "return fill('${a b}', {})", "is no name");
    refuses(state, "return fill('${a}', { a = 1, [1] = 2 })", "'1'");
    refuses(state, "return fill(nil, {})", "kernels/k.lua:");
    refuses(state, "return fill('x')", "kernels/k.lua:");
}

static void test_files(void **state) {
    template_write(state, "lib/count.lua",
                   "local calls = 0\nreturn { next = function() calls = calls + 1 return calls end }");
    emits(state, "local a = import('lib/count.lua').next() return tostring(import('lib/count.lua').next() - a)", "1");
    template_write(state, "lib/dos.cuh",
                   "\xEF\xBB\xBF"
                   "a\r\nb\r\n\rc");
    emits(state, "return text 'lib/dos.cuh'", "a\nb\n\rc");
    template_write(state, "lib/dos.lua", "\xEF\xBB\xBFreturn {\r\n  v = 'x',\r\n}\r\n");
    emits(state, "return import('lib/dos.lua').v", "x");
    template_write(state, "lib/deep/er/t.txt", "deep");
    assert_int_equal(symlink("deep", fixture_path(state, "lib/link")), 0);
    emits(state, "return text 'lib/deep/er/t.txt' .. text 'lib/link/er/t.txt'", "deepdeep");
    /* one file cannot change what another sees */
    template_write(state, "lib/rude.lua", "string.rep = nil table.concat = nil return {}");
    emits(state, "import 'lib/rude.lua' return ('x'):rep(2) .. string.rep('y', 2) .. table.concat({ 'z' })", "xxyyz");
}

/* pairs has one order, whatever the hash seed. */
static void test_order(void **state) {
    emits(state,
          "local s = ''\nfor k, v in pairs { b = 1, a = 2, [3] = 'x', [1] = 'y', [true] = 0 } do s = s .. tostring(k) "
          ".. v "
          "end\nreturn s",
          "true01y3xa2b1");
    refuses(state, "for k in pairs(c.p) do end return 'x'", "only be read by name");
    refuses(state, "for k in pairs { [{}] = 1 } do end return 'x'", "no order");
}

/* A locale whose decimal point is a comma, made here if the system has its sources. */
static locale_t comma_locale(void **state) {
    char command[4400], folder[4096];
    snprintf(folder, sizeof folder, "%s", fixture_path(state, "locales"));
    (void)mkdir(folder, 0700);
    snprintf(command, sizeof command, "localedef -f UTF-8 -i de_DE '%s/de_DE.UTF-8' >/dev/null 2>&1", folder);
    int made = system(command);
    (void)made; /* an installed one may do */
    setenv("LOCPATH", folder, 1);
    locale_t locale = newlocale(LC_ALL_MASK, "de_DE.UTF-8", (locale_t)0);
    unsetenv("LOCPATH");
    return locale ? locale : newlocale(LC_ALL_MASK, "de_DE.UTF-8", (locale_t)0);
}

static void test_locale(void **state) {
    locale_t comma = comma_locale(state);
    if (!comma)
        skip();
    locale_t before = uselocale(comma);
    char point[16];
    snprintf(point, sizeof point, "%.1f", 0.5);
    char *text = emit(state, "return fill('${a} ', { a = 1.5 }) .. 2.5 .. ' ' .. string.format('%.2f', 0.25) .. ' ' .. "
                             "tostring(tonumber '3.5') .. ' ' .. 1e100");
    char after[16];
    snprintf(after, sizeof after, "%.1f", 0.5);
    uselocale(before);
    freelocale(comma);
    assert_string_equal(point, "0,5"); /* the caller's locale does have a comma, and is left as it was */
    assert_string_equal(after, "0,5");
    if (!text)
        fail_msg("%s", why.text);
    assert_string_equal(text, "1.5 2.5 0.25 3.5 1e+100");
    free(text);
}

#define LIST                                                                                                           \
    "local function list(each) local t = {} for a, b in each do t[#t + 1] = a .. tostring(b) end return "              \
    "table.concat(t, ' ') end\n"

/* Each expression gives the same in a template as in Lua with its whole library. */
static void test_library_like_luas(void **state) {
    static const char *const expressions[] = {
        "('hello world'):find('o w')",
        "('hello'):find('l', 1, true)",
        "('hello'):find('xyz')",
        "('a.b'):find('.', 2, true)",
        "('hello'):find('', 10)",
        "('hello'):find('', 6)",
        "('hello'):find('l+', -3)",
        "('hello'):match('^(h)(.-)o$')",
        "('key = value'):match('^(%w+)%s*=%s*(%w+)$')",
        "('  trim  '):match('^%s*(.-)%s*$')",
        "('x'):match('()')",
        "('abc'):match('a()b()c()')",
        "('[[x]]'):match('%[%[(.*)%]%]')",
        "('f(a(b)c)d'):match('%b()')",
        "('THE (quick) fox'):find('%((%a+)%)')",
        "('THE (quick) fox'):gsub('%f[%a]%a+', '<%0>')",
        "('abcabc'):match('(abc)%1')",
        "('hello'):gsub('l', 'L')",
        "('hello'):gsub('l', 'L', 1)",
        "('hello'):gsub('', '-')",
        "('hello'):gsub('l*', 'x')",
        "('abc'):gsub('%w', '%0%0')",
        "('abc def'):gsub('(%w+) (%w+)', '%2 %1')",
        "('abc'):gsub('b', { b = 'X' })",
        "('abc'):gsub('b', { c = 'X' })",
        "('abc'):gsub('.', function(x) if x == 'b' then return false end return x .. x end)",
        "('a,b,,c'):gsub(',', ';')",
        "('100%'):gsub('%%', '%%%%')",
        "('aaa'):gsub('^a', 'b')",
        "('x^y'):find('^', 1, true)",
        "('a-b'):match('[a-]+')",
        "('a]b'):match('[]]')",
        "('a^b'):match('[%^]')",
        "('abc'):match('[^a]+')",
        "('\\0a\\0'):find('%z')",
        "('\\0a\\0'):match('a\\0')",
        "('aXb'):match('%u')",
        "('aXb'):match('%U+')",
        "('12ab'):match('%x+')",
        "('ab12'):match('%d*$')",
        "('abc'):match('((a)(b))')",
        "('abc'):gsub('(a)(b)', '%2%1')",
        "('a b'):gsub('%s', 12)",
        "('aaab'):match('a-b')",
        "('aaab'):match('a?a?a?a?b')",
        "('ab'):match('a?b')",
        "('x'):rep(3)",
        "('x'):rep(3, ',')",
        "('x'):rep(0)",
        "('x'):rep(-1)",
        "('ab'):rep(1, 'c')",
        "table.concat({ 1, 2, 3 }, '-')",
        "table.concat({ 1, 2, 3 }, '', 2, 3)",
        "table.unpack({ 1, 2, 3 }, 2)",
        "#table.move({ 1, 2, 3 }, 1, 3, 2)",
        "table.remove({ 4, 5 })",
        "table.remove({ 4, 5 }, 1)",
        "utf8.len('h\xc3\xa9')",
        "tonumber('0x10')",
        "tonumber('z', 36)",
        "list(('a=1, b=2'):gmatch('(%w)=(%w)'))",
        "list(('one two'):gmatch('%a+'))",
        "list(('abc'):gmatch(''))",
        "list(('aXbX'):gmatch('()X'))",
        "list(('^a^a'):gmatch('^a'))",
        "list(('abcabc'):gmatch('b', 3))",
        "(function(t) table.sort(t) table.insert(t, 9) table.insert(t, 1, 0) return table.concat(t) end)({ 3, 1, 2 })",
        "pcall(string.find, 'a', '[a')",
        "pcall(string.find, 'a', '%')",
        "pcall(string.find, 'a', '(a')",
        "pcall(string.find, 'a', 'a)')",
        "pcall(string.gsub, 'a', 'a', '%2')",
        "pcall(string.gsub, 'a', 'a', '%x')",
        "pcall(string.find, 'a', '%f')",
        "pcall(string.find, 'a', '%b')",
        "pcall(string.find, 'a', '%1')",
        "pcall(string.rep)",
        "pcall(table.concat, { {} })",
        "pcall(string.gsub, 'a', 'a', function() return {} end)",
        "pcall(string.gsub, 'a', 'a', nil)",
    };
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        char program[1024], body[2048];
        snprintf(program, sizeof program,
                 "local t = { n = 0 }\n" LIST "local function all(...) for i = 1, select('#', ...) do t[i] = "
                 "tostring((select(i, ...))) "
                 "end end\nall(%s)\nif t[1] == 'false' then t[2] = '' end\nreturn table.concat(t, '|')",
                 expressions[i]);
        if (luaL_dostring(L, program) != LUA_OK)
            fail_msg("Lua itself: %s: %s", expressions[i], lua_tostring(L, -1));
        snprintf(body, sizeof body, "return (function()\n%s\nend)():gsub('\\0', '0')", program);
        char expected[1024], *to = expected;
        size_t size;
        const char *from = lua_tolstring(L, -1, &size);
        for (size_t k = 0; k < size && k + 1 < sizeof expected; k++)
            *to++ = from[k] ? from[k] : '0';
        *to = '\0';
        char *text = emit(state, body);
        if (!text || strcmp(text, expected) != 0)
            fail_msg("%s gives '%s', not '%s'", expressions[i], text ? text : why.text, expected);
        free(text);
        lua_settop(L, 0);
    }
    lua_close(L);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fill, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_files, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_order, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_locale, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(test_library_like_luas, template_folder, fixture_remove),
    };
    return cmocka_run_group_tests_name("generator: text", tests, NULL, NULL);
}
