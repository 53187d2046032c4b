/* Finds the entries of a kernel's text. Only as much of C++ is read as that takes: comments, literals, names,
 * parentheses. The compiler, which sees the same text, judges the rest. */
#include "kernel_source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

typedef struct token {
    const char *at;
    size_t length; /* 0: the end */
} token;

static const char *skip_line(const char *at) {
    while (*at && *at != '\n')
        at += *at == '\\' && at[1] ? 2 : 1;
    return at;
}

static const char *skip_quoted(const char *at) {
    char quote = *at++;
    while (*at && *at != quote && *at != '\n')
        at += *at == '\\' && at[1] ? 2 : 1;
    return *at == quote ? at + 1 : at;
}

static const char *skip_raw(const char *at) { /* at: behind R */
    size_t length = strcspn(at + 1, "( \n");
    char end[32];
    if (at[1 + length] != '(' || length + 3 > sizeof end)
        return skip_quoted(at);
    snprintf(end, sizeof end, ")%.*s\"", (int)length, at + 1);
    const char *found = strstr(at, end);
    return found ? found + strlen(end) : at + strlen(at);
}

static bool is_name(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* The next name, number or single character from at on. */
static token next_token(const char *at) {
    for (;;) {
        at += strspn(at, " \t\r\n\v\f");
        if (at[0] == '/' && at[1] == '/') {
            at = skip_line(at);
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else if (at[0] == 'R' && at[1] == '"') {
            at = skip_raw(at + 1);
        } else if (at[0] == '"' || at[0] == '\'') {
            at = skip_quoted(at);
        } else {
            break;
        }
    }
    token found = {at, *at ? 1 : 0};
    while (found.length > 0 && is_name(*at) &&
           (is_name(at[found.length]) || /* 1'000 */
            (isdigit((unsigned char)*at) && at[found.length] == '\'')))
        found.length++;
    return found;
}

static bool is(token one, const char *text) {
    return one.length == strlen(text) && memcmp(one.at, text, one.length) == 0;
}

/* open: the opening parenthesis; the result is the closing one, or the end. */
static token closing(token open) {
    int depth = 0;
    token one = open;
    for (; one.length > 0; one = next_token(one.at + one.length)) {
        depth += is(one, "(") - is(one, ")");
        if (depth == 0)
            break;
    }
    return one;
}

/* ---- entries ---- */

typedef struct entry {
    token name, bounds, cluster; /* the latter two: what stands between their parentheses, or length 0 */
} entry;

/* What the attribute's parentheses hold; *one becomes the closing one. */
static token attribute(token *one) {
    token open = next_token(one->at + one->length);
    if (!is(open, "("))
        return (token){0};
    token close = closing(open);
    *one = close;
    return (token){open.at + 1, (size_t)(close.at - open.at - 1)};
}

/* one: __global__. The entry's name is what stands before the first parenthesis that is not an attribute's. */
static bool read_entry(token one, entry *found) {
    *found = (entry){0};
    for (one = next_token(one.at + one.length); one.length > 0; one = next_token(one.at + one.length)) {
        if (is(one, "__launch_bounds__"))
            found->bounds = attribute(&one);
        else if (is(one, "__cluster_dims__"))
            found->cluster = attribute(&one);
        else if (is(one, "__attribute__") || is(one, "__maxnreg__") || is(one, "__block_size__"))
            (void)attribute(&one);
        else if (is(one, "("))
            return found->name.length > 0;
        else if (is(one, ";") || is(one, "{"))
            return false;
        else if (is_name(*one.at))
            found->name = one;
    }
    return false;
}

static bool seen_before(const char *source, token global, token name) {
    for (token one = next_token(source); one.length > 0 && one.at < global.at; one = next_token(one.at + one.length)) {
        entry earlier;
        if (is(one, "__global__") && read_entry(one, &earlier) && earlier.name.length == name.length &&
            memcmp(earlier.name.at, name.at, name.length) == 0)
            return true;
    }
    return false;
}

static void describe(FILE *out, const entry *found) {
    int length = (int)found->name.length;
    fprintf(out, "MLPBWD_ENTRY(%.*s)\n", length, found->name.at);
    if (found->bounds.length > 0)
        fprintf(out, "MLPBWD_BOUNDS(%.*s, %.*s)\n", length, found->name.at, (int)found->bounds.length,
                found->bounds.at);
    if (found->cluster.length > 0)
        fprintf(out, "MLPBWD_CLUSTER(%.*s, %.*s)\n", length, found->name.at, (int)found->cluster.length,
                found->cluster.at);
}

char *kernel_driver(const char *source, const char *source_name) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    const emulated_header *header = emulated_headers;
    for (; header[1].name; header++)
        fprintf(out, "#include \"%s\"\n", header->name);
    fprintf(out, "#include \"%s\"\n#include \"%s\"\n", source_name, header->name);
    for (token one = next_token(source); one.length > 0; one = next_token(one.at + one.length)) {
        entry found;
        if (is(one, "__global__") && read_entry(one, &found) && !seen_before(source, one, found.name))
            describe(out, &found);
    }
    bool good = !ferror(out);
    if (fclose(out) != 0 || !good) {
        free(text);
        return NULL;
    }
    return text;
}
