/* Lua's patterns (reference manual, 6.4.1), with every step charged to the script's instruction budget: the matcher of
 * the standard library runs in C, where a pattern like ("a*"):rep(30) backtracks for years and no hook can stop it. */
#ifndef MLP_PATTERN_H
#define MLP_PATTERN_H

#include <lua.h>
#include <stddef.h>

enum { PATTERN_CAPTURES = 32, CAPTURE_OPEN = -1, CAPTURE_POSITION = -2 };

typedef struct pattern_match {
    lua_State *L;
    const char *text, *text_end, *pattern_end;
    int depth, level; /* level: captures so far */
    unsigned steps;
    struct {
        const char *start;
        ptrdiff_t length; /* or CAPTURE_OPEN, CAPTURE_POSITION */
    } captures[PATTERN_CAPTURES];
} pattern_match;

/* Where the match of pattern that starts at `at` ends, NULL if there is none. Clears the captures first. Raises on a
 * malformed pattern and at the instruction limit. */
const char *pattern_at(pattern_match *match, const char *at, const char *pattern);
/* Pushes capture `index`; the whole match [start, end) where there are no captures and index is 0. */
void pattern_push_capture(pattern_match *match, int index, const char *start, const char *end);
/* Pushes all captures (the whole match if there are none and start is not NULL); gives their number. */
int pattern_push_captures(pattern_match *match, const char *start, const char *end);

#endif
