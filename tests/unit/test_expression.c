/* Expressions of stored plans: values, and every way to be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "expression.h"

static const expression_values values = {
    .T = 541, .H = 2048, .I = 8192, .UNITS = 132, .ACTIVATION = 1, .ACCUMULATE = 0};

static int64_t value_of(const char *text) {
    mlp_message why = {0};
    int64_t result = -12345;
    mlpbwd_status status = expression_evaluate(text, &values, &result, &why);
    if (status != MLPBWD_OK)
        fail_msg("%s: %s", text, why.text);
    return result;
}

static void test_values(void **state) {
    (void)state;
    const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"7", 7},
        {"T", 541},
        {" T * H ", INT64_C(541) * 2048},
        {"1+2*3", 7},
        {"(1+2)*3", 9},
        {"10-4-3", 3},
        {"100/7/2", 7},
        {"-7/2", -3},
        {"-7%3", -1},
        {"7-(-2)", 9},
        {"--3", 3},
        {"ceildiv(T,64)", 9},
        {"ceildiv(512,64)", 8},
        {"ceildiv(-7,2)", -3},
        {"ceildiv(7,-2)", -3},
        {"ceildiv(0,5)", 0},
        {"align(T,128)", 640},
        {"align(640,128)", 640},
        {"min(H,I)", 2048},
        {"max(H,I,9000,1)", 9000},
        {"min(3, 2 ,1)", 1},
        {"min(UNITS,ceildiv(T,64)*ceildiv(H,128))", 132},
        {"ACTIVATION", 1},
        {"ACCUMULATE", 0},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775807-1", INT64_MIN},
        {"((((((((((((((((1))))))))))))))))", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (value_of(cases[i].text) != cases[i].value)
            fail_msg("%s is not %lld", cases[i].text, (long long)cases[i].value);
}

static void expect_failure(const char *text, mlpbwd_status expected, const char *part) {
    mlp_message why = {0};
    int64_t result = 77;
    mlpbwd_status status = expression_evaluate(text, &values, &result, &why);
    if (status != expected || !strstr(why.text, part))
        fail_msg("\"%s\": status %d, \"%s\" lacks \"%s\"", text, (int)status, why.text, part);
    assert_int_equal(result, 77);
}

static void test_bad_text(void **state) {
    (void)state;
    const char *const texts[] = {"",       "1+",     "(1",    "1)",         "T H",          "t",        "K",     "min",
                                 "min(1)", "min(1,", "max()", "ceildiv(1)", "align(1,2,3)", "foo(1,2)", "1 = 2", "0x10",
                                 "1.5",    "*3",     "T,H",   "@"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_failure(texts[i], MLPBWD_INVALID_ARGUMENT, "position");
    expect_failure("T+K", MLPBWD_INVALID_ARGUMENT, "\"T+K\"");
    expect_failure("T+K", MLPBWD_INVALID_ARGUMENT, "position 2");
}

static void test_arithmetic_limits(void **state) {
    (void)state;
    expect_failure("9223372036854775807+1", MLPBWD_UNSUPPORTED, "overflows");
    expect_failure("-9223372036854775807-2", MLPBWD_UNSUPPORTED, "overflows");
    expect_failure("T*9223372036854775807", MLPBWD_UNSUPPORTED, "overflows");
    expect_failure("(-9223372036854775807-1)/(-1)", MLPBWD_UNSUPPORTED, "overflows");
    expect_failure("(-9223372036854775807-1)%(-1)", MLPBWD_UNSUPPORTED, "overflows");
    expect_failure("-(-9223372036854775807-1)", MLPBWD_UNSUPPORTED, "overflows");
    expect_failure("align(9223372036854775807,2)", MLPBWD_UNSUPPORTED, "overflows");
    expect_failure("9223372036854775808", MLPBWD_UNSUPPORTED, "64 bits");
    expect_failure("T/ACCUMULATE", MLPBWD_UNSUPPORTED, "zero");
    expect_failure("T%0", MLPBWD_UNSUPPORTED, "zero");
    expect_failure("ceildiv(T,0)", MLPBWD_UNSUPPORTED, "zero");
    expect_failure("align(T,0)", MLPBWD_UNSUPPORTED, "positive");
    expect_failure("align(T,-8)", MLPBWD_UNSUPPORTED, "positive");
}

static void test_depth_is_limited(void **state) {
    (void)state;
    char text[100001];
    memset(text, '(', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    expect_failure(text, MLPBWD_INVALID_ARGUMENT, "nested");
    memset(text, '-', sizeof text - 1);
    expect_failure(text, MLPBWD_INVALID_ARGUMENT, "nested");
}

static void test_null(void **state) {
    (void)state;
    int64_t result;
    assert_int_equal(expression_evaluate(NULL, &values, &result, NULL), MLPBWD_INVALID_ARGUMENT);
    assert_int_equal(expression_evaluate("1+", &values, &result, NULL), MLPBWD_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_bad_text),
                                       cmocka_unit_test(test_arithmetic_limits),
                                       cmocka_unit_test(test_depth_is_limited), cmocka_unit_test(test_null)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
