/* Recursive descent over the text itself: expressions are short and evaluated a few dozen times a plan, so there is no
 * tree to build, store or free. */
#include "expression.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { DEPTH_LIMIT = 64 }; /* nested parentheses and signs; keeps a hostile plan off the end of the stack */

typedef struct parser {
    const char *text, *at;
    const expression_values *values;
    mlp_message *why;
    mlpbwd_status status;
    int depth;
} parser;

static int64_t sum(parser *p);

static int64_t fail(parser *p, mlpbwd_status status, const char *problem) {
    if (p->status == MLPBWD_OK)
        p->status = mlp_fail(p->why, status, "the expression \"%.100s%s\" %s at position %zu", p->text,
                             strnlen(p->text, 101) > 100 ? "..." : "", problem, (size_t)(p->at - p->text));
    return 0;
}

static void skip_blanks(parser *p) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n')
        p->at++;
}

static bool take(parser *p, char wanted) {
    skip_blanks(p);
    if (*p->at != wanted)
        return false;
    p->at++;
    return true;
}

static int64_t apply(parser *p, char operation, int64_t a, int64_t b) {
    int64_t result = 0;
    if (p->status != MLPBWD_OK)
        return 0;
    switch (operation) {
    case '+':
        return __builtin_add_overflow(a, b, &result) ? fail(p, MLPBWD_UNSUPPORTED, "overflows 64 bits") : result;
    case '-':
        return __builtin_sub_overflow(a, b, &result) ? fail(p, MLPBWD_UNSUPPORTED, "overflows 64 bits") : result;
    case '*':
        return __builtin_mul_overflow(a, b, &result) ? fail(p, MLPBWD_UNSUPPORTED, "overflows 64 bits") : result;
    default:
        if (b == 0)
            return fail(p, MLPBWD_UNSUPPORTED, "divides by zero");
        if (a == INT64_MIN && b == -1)
            return fail(p, MLPBWD_UNSUPPORTED, "overflows 64 bits");
        return operation == '/' ? a / b : a % b;
    }
}

static int64_t ceildiv(parser *p, int64_t a, int64_t b) {
    int64_t quotient = apply(p, '/', a, b);
    if (p->status != MLPBWD_OK)
        return 0;
    /* Division truncates; only a positive inexact quotient lies below the true value. */
    bool inexact_below = a % b != 0 && (a < 0) == (b < 0);
    return inexact_below ? quotient + 1 : quotient;
}

static int64_t align(parser *p, int64_t a, int64_t b) {
    if (p->status == MLPBWD_OK && b <= 0)
        return fail(p, MLPBWD_UNSUPPORTED, "aligns to a multiple that is not positive");
    return apply(p, '*', ceildiv(p, a, b), b);
}

static int64_t number(parser *p) {
    int64_t value = 0;
    while (*p->at >= '0' && *p->at <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p->at - '0', &value))
            return fail(p, MLPBWD_UNSUPPORTED, "has a number over 64 bits");
        p->at++;
    }
    return value;
}

static int64_t call(parser *p, const char *name, size_t length) {
    static const char *const functions[] = {"min", "max", "ceildiv", "align"};
    size_t which = 0;
    while (which < 4 && (strlen(functions[which]) != length || memcmp(functions[which], name, length) != 0))
        which++;
    if (which == 4) {
        p->at = name;
        return fail(p, MLPBWD_INVALID_ARGUMENT, "calls something other than min, max, ceildiv or align");
    }
    p->at++; /* the parenthesis */
    int64_t result = sum(p);
    size_t arguments = 1;
    while (p->status == MLPBWD_OK && take(p, ',')) {
        int64_t next = sum(p);
        arguments++;
        if (which == 0)
            result = next < result ? next : result;
        else if (which == 1)
            result = next > result ? next : result;
        else if (arguments == 2)
            result = which == 2 ? ceildiv(p, result, next) : align(p, result, next);
    }
    if (p->status != MLPBWD_OK)
        return 0;
    if (arguments < 2 || (which >= 2 && arguments > 2))
        return fail(p, MLPBWD_INVALID_ARGUMENT, "has the wrong number of arguments for a function");
    if (!take(p, ')'))
        return fail(p, MLPBWD_INVALID_ARGUMENT, "lacks a closing parenthesis");
    return result;
}

static int64_t variable(parser *p, const char *name, size_t length) {
    const struct {
        const char *name;
        int64_t value;
    } variables[] = {{"T", p->values->T},
                     {"H", p->values->H},
                     {"I", p->values->I},
                     {"UNITS", p->values->UNITS},
                     {"ACTIVATION", p->values->ACTIVATION},
                     {"ACCUMULATE", p->values->ACCUMULATE}};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (strlen(variables[i].name) == length && memcmp(variables[i].name, name, length) == 0)
            return variables[i].value;
    p->at = name;
    return fail(p, MLPBWD_INVALID_ARGUMENT, "names something other than T, H, I, UNITS, ACTIVATION or ACCUMULATE");
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int64_t factor(parser *p) {
    int64_t result = 0;
    if (++p->depth > DEPTH_LIMIT)
        return fail(p, MLPBWD_INVALID_ARGUMENT, "is nested more than 64 deep");
    skip_blanks(p);
    if (*p->at >= '0' && *p->at <= '9') {
        result = number(p);
    } else if (take(p, '-')) {
        result = apply(p, '-', 0, factor(p));
    } else if (take(p, '(')) {
        result = sum(p);
        if (p->status == MLPBWD_OK && !take(p, ')'))
            fail(p, MLPBWD_INVALID_ARGUMENT, "lacks a closing parenthesis");
    } else if (is_letter(*p->at)) {
        const char *name = p->at;
        while (is_letter(*p->at))
            p->at++;
        size_t length = (size_t)(p->at - name);
        skip_blanks(p);
        result = *p->at == '(' ? call(p, name, length) : variable(p, name, length);
    } else {
        fail(p, MLPBWD_INVALID_ARGUMENT, "lacks a number, a name or a parenthesis");
    }
    p->depth--;
    return result;
}

static int64_t product(parser *p) {
    int64_t result = factor(p);
    while (p->status == MLPBWD_OK) {
        char operation = '*';
        if (take(p, '/'))
            operation = '/';
        else if (take(p, '%'))
            operation = '%';
        else if (!take(p, '*'))
            break;
        result = apply(p, operation, result, factor(p));
    }
    return result;
}

static int64_t sum(parser *p) {
    int64_t result = product(p);
    while (p->status == MLPBWD_OK) {
        char operation = '+';
        if (take(p, '-'))
            operation = '-';
        else if (!take(p, '+'))
            break;
        result = apply(p, operation, result, product(p));
    }
    return result;
}

mlpbwd_status expression_evaluate(const char *text, const expression_values *values, int64_t *result,
                                  mlp_message *why) {
    if (!text || !values || !result)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "expression_evaluate was given a NULL pointer");
    parser p = {.text = text, .at = text, .values = values, .why = why};
    int64_t value = sum(&p);
    skip_blanks(&p);
    if (p.status == MLPBWD_OK && *p.at != '\0')
        fail(&p, MLPBWD_INVALID_ARGUMENT, "goes on after its end");
    if (p.status == MLPBWD_OK)
        *result = value;
    return p.status;
}
