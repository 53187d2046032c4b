#include "pattern.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "sandbox.h"

enum { ESCAPE = '%', MAX_DEPTH = 200, CHARGE_EVERY = 256 };

static const char *match_here(pattern_match *m, const char *s, const char *p);

static void step(pattern_match *m) {
    if (++m->steps == CHARGE_EVERY) {
        m->steps = 0;
        sandbox_charge(m->L, CHARGE_EVERY);
    }
}

static unsigned char byte_at(const char *s) {
    return (unsigned char)*s;
}

/* End of the single-character class that starts at p. */
static const char *class_end(pattern_match *m, const char *p) {
    if (*p++ == ESCAPE) {
        if (p == m->pattern_end) {
            luaL_error(m->L, "malformed pattern (ends with '%%')");
        }
        return p + 1;
    }
    if (p[-1] != '[') {
        return p;
    }
    if (*p == '^') {
        p++;
    }
    do { /* the first ']' is an ordinary member */
        if (p == m->pattern_end) {
            luaL_error(m->L, "malformed pattern (missing ']')");
        }
        if (*p++ == ESCAPE && p < m->pattern_end) {
            p++;
        }
    } while (p == m->pattern_end || *p != ']');
    return p + 1;
}

static bool in_class(int c, int class) {
    bool result;
    switch (tolower(class)) {
    case 'a':
        result = isalpha(c);
        break;
    case 'c':
        result = iscntrl(c);
        break;
    case 'd':
        result = isdigit(c);
        break;
    case 'g':
        result = isgraph(c);
        break;
    case 'l':
        result = islower(c);
        break;
    case 'p':
        result = ispunct(c);
        break;
    case 's':
        result = isspace(c);
        break;
    case 'u':
        result = isupper(c);
        break;
    case 'w':
        result = isalnum(c);
        break;
    case 'x':
        result = isxdigit(c);
        break;
    case 'z': /* deprecated, but still there */
        result = c == 0;
        break;
    default:
        return class == c;
    }
    return isupper(class) ? !result : result;
}

/* p at '[', end at its ']'. */
static bool in_set(int c, const char *p, const char *end) {
    bool wanted = true;
    if (p[1] == '^') {
        wanted = false;
        p++;
    }
    while (++p < end) {
        if (*p == ESCAPE) {
            p++;
            if (in_class(c, byte_at(p))) {
                return wanted;
            }
        } else if (p[1] == '-' && p + 2 < end) {
            if (byte_at(p) <= c && c <= byte_at(p + 2)) {
                return wanted;
            }
            p += 2;
        } else if (byte_at(p) == c) {
            return wanted;
        }
    }
    return !wanted;
}

static bool matches_one(pattern_match *m, const char *s, const char *p, const char *end) {
    step(m);
    if (!s || s >= m->text_end) {
        return false;
    }
    int c = byte_at(s);
    switch (*p) {
    case '.':
        return true;
    case ESCAPE:
        return in_class(c, byte_at(p + 1));
    case '[':
        m->steps += m->steps < CHARGE_EVERY - 9 ? 8 : 0; /* a set costs more than a letter */
        return in_set(c, p, end - 1);
    default:
        return byte_at(p) == c;
    }
}

static const char *match_balance(pattern_match *m, const char *s, const char *p) {
    if (p + 1 >= m->pattern_end) {
        luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
    }
    if (s >= m->text_end || *s != *p) {
        return NULL;
    }
    int nested = 1;
    char open = *p, close = p[1];
    while (++s < m->text_end) {
        step(m);
        if (*s == close) {
            if (--nested == 0) {
                return s + 1;
            }
        } else if (*s == open) {
            nested++;
        }
    }
    return NULL;
}

static const char *expand_most(pattern_match *m, const char *s, const char *p, const char *end) {
    ptrdiff_t count = 0;
    while (matches_one(m, s + count, p, end)) {
        count++;
    }
    for (; count >= 0; count--) {
        const char *result = match_here(m, s + count, end + 1);
        if (result) {
            return result;
        }
    }
    return NULL;
}

static const char *expand_least(pattern_match *m, const char *s, const char *p, const char *end) {
    for (;; s++) {
        const char *result = match_here(m, s, end + 1);
        if (result) {
            return result;
        }
        if (!matches_one(m, s, p, end)) {
            return NULL;
        }
    }
}

static const char *open_capture(pattern_match *m, const char *s, const char *p, ptrdiff_t kind) {
    if (m->level >= PATTERN_CAPTURES) {
        luaL_error(m->L, "too many captures");
    }
    m->captures[m->level].start = s;
    m->captures[m->level].length = kind;
    m->level++;
    const char *result = match_here(m, s, p);
    if (!result) {
        m->level--;
    }
    return result;
}

static const char *close_capture(pattern_match *m, const char *s, const char *p) {
    int index = m->level - 1;
    while (index >= 0 && m->captures[index].length != CAPTURE_OPEN) {
        index--;
    }
    if (index < 0) {
        luaL_error(m->L, "invalid pattern capture");
    }
    m->captures[index].length = s - m->captures[index].start;
    const char *result = match_here(m, s, p);
    if (!result) {
        m->captures[index].length = CAPTURE_OPEN;
    }
    return result;
}

static const char *match_back_reference(pattern_match *m, const char *s, int digit) {
    int index = digit - '1';
    if (index < 0 || index >= m->level || m->captures[index].length == CAPTURE_OPEN) {
        luaL_error(m->L, "invalid capture index %%%d", index + 1);
    }
    size_t length = m->captures[index].length > 0 ? (size_t)m->captures[index].length : 0;
    sandbox_charge(m->L, (int64_t)length / 16);
    bool equal = (size_t)(m->text_end - s) >= length && memcmp(m->captures[index].start, s, length) == 0;
    return equal ? s + length : NULL;
}

static bool at_frontier(pattern_match *m, const char *s, const char *set, const char *end) {
    int before = s == m->text ? '\0' : byte_at(s - 1), after = s < m->text_end ? byte_at(s) : '\0';
    return !in_set(before, set, end - 1) && in_set(after, set, end - 1);
}

/* What starts with '%': a balanced pair, a frontier, a back reference. *handled false: an ordinary class. */
static const char *match_escape(pattern_match *m, const char *s, const char *p, bool *handled) {
    int kind = p + 1 < m->pattern_end ? byte_at(p + 1) : 0;
    const char *rest = p + 2;
    *handled = true;
    if (kind == 'b') {
        s = match_balance(m, s, rest);
        return s ? match_here(m, s, rest + 2) : NULL;
    }
    if (kind == 'f') {
        if (rest >= m->pattern_end || *rest != '[') {
            luaL_error(m->L, "missing '[' after '%%f' in pattern");
        }
        const char *end = class_end(m, rest);
        return at_frontier(m, s, rest, end) ? match_here(m, s, end) : NULL;
    }
    if (isdigit(kind)) {
        s = match_back_reference(m, s, kind);
        return s ? match_here(m, s, rest) : NULL;
    }
    *handled = false;
    return NULL;
}

static const char *match_rest(pattern_match *m, const char *s, const char *p) {
    while (p < m->pattern_end) {
        bool handled = false;
        if (*p == '(') {
            bool position = p + 1 < m->pattern_end && p[1] == ')';
            return position ? open_capture(m, s, p + 2, CAPTURE_POSITION) : open_capture(m, s, p + 1, CAPTURE_OPEN);
        }
        if (*p == ')') {
            return close_capture(m, s, p + 1);
        }
        if (*p == '$' && p + 1 == m->pattern_end) {
            return s == m->text_end ? s : NULL;
        }
        if (*p == ESCAPE) {
            const char *result = match_escape(m, s, p, &handled);
            if (handled) {
                return result;
            }
        }
        const char *end = class_end(m, p);
        char repeat = end < m->pattern_end ? *end : '\0';
        if (repeat == '*') {
            return expand_most(m, s, p, end);
        }
        if (repeat == '+') {
            return matches_one(m, s, p, end) ? expand_most(m, s + 1, p, end) : NULL;
        }
        if (repeat == '-') {
            return expand_least(m, s, p, end);
        }
        bool one = matches_one(m, s, p, end);
        if (repeat == '?') {
            const char *result = one ? match_here(m, s + 1, end + 1) : NULL;
            if (result) {
                return result;
            }
            p = end + 1;
            continue;
        }
        if (!one) {
            return NULL;
        }
        s++;
        p = end;
    }
    return s;
}

static const char *match_here(pattern_match *m, const char *s, const char *p) {
    step(m);
    if (++m->depth > MAX_DEPTH) {
        luaL_error(m->L, "pattern too complex");
    }
    const char *result = match_rest(m, s, p);
    m->depth--;
    return result;
}

const char *pattern_at(pattern_match *match, const char *at, const char *pattern) {
    match->level = 0;
    match->depth = 0;
    return match_here(match, at, pattern);
}

void pattern_push_capture(pattern_match *match, int index, const char *start, const char *end) {
    if (index >= match->level) {
        if (index != 0) {
            luaL_error(match->L, "invalid capture index %%%d", index + 1);
        }
        lua_pushlstring(match->L, start, (size_t)(end - start));
        return;
    }
    ptrdiff_t length = match->captures[index].length;
    if (length == CAPTURE_OPEN) {
        luaL_error(match->L, "unfinished capture");
    } else if (length == CAPTURE_POSITION) {
        lua_pushinteger(match->L, match->captures[index].start - match->text + 1);
    } else {
        lua_pushlstring(match->L, match->captures[index].start, (size_t)length);
    }
}

int pattern_push_captures(pattern_match *match, const char *start, const char *end) {
    int count = match->level == 0 && start ? 1 : match->level;
    luaL_checkstack(match->L, count, "too many captures");
    for (int i = 0; i < count; i++) {
        pattern_push_capture(match, i, start, end);
    }
    return count;
}
