/* Strict numbers of the command line: no sign, blank, suffix or overflow slips through. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

bool cli_read_integer(const char *text, int64_t min, int64_t max, int64_t *value) {
    const char *digits = text[0] == '-' ? text + 1 : text;
    size_t length = strspn(digits, "0123456789");
    if (length == 0 || digits[length] != '\0') {
        return false;
    }
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    if (errno != 0 || number < min || number > max) {
        return false;
    }
    *value = number;
    return true;
}

bool cli_read_duration(const char *text, double *seconds) {
    /* Only digits and one point reach strtod: no "inf", "nan", hexadecimal or exponent. */
    size_t length = strspn(text, "0123456789.");
    const char *point = memchr(text, '.', length);
    if (length == 0 || length > 15 || (point != NULL && memchr(point + 1, '.', length - (size_t)(point + 1 - text)))) {
        return false;
    }
    if (length == 1 && point != NULL) {
        return false;
    }
    double number = strtod(text, NULL);
    const char *unit = text + length;
    double factor = strcmp(unit, "") == 0 || strcmp(unit, "s") == 0 ? 1.0
                    : strcmp(unit, "m") == 0                        ? 60.0
                    : strcmp(unit, "h") == 0                        ? 3600.0
                                                                    : 0.0;
    if (factor == 0.0 || !(number * factor > 0.0) || number * factor > 365.0 * 86400.0) {
        return false;
    }
    *seconds = number * factor;
    return true;
}

int64_t cli_integer(const struct argp_state *state, const char *option, const char *text, int64_t min, int64_t max) {
    int64_t value = min;
    if (!cli_read_integer(text, min, max, &value)) {
        argp_error(state, "%s: '%s' is not a whole number from %" PRId64 " to %" PRId64, option, text, min, max);
    }
    return value;
}

double cli_duration(const struct argp_state *state, const char *option, const char *text) {
    double seconds = 0.0;
    if (!cli_read_duration(text, &seconds)) {
        argp_error(state, "%s: '%s' is not a time above zero such as 90s, 10m or 1.5h", option, text);
    }
    return seconds;
}

int cli_choice(const struct argp_state *state, const char *option, const char *text, const char *const *choices,
               size_t count) {
    char list[256] = "";
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, choices[i]) == 0) {
            return (int)i;
        }
        size_t used = strlen(list);
        (void)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", choices[i]);
    }
    argp_error(state, "%s: '%s' is none of: %s", option, text, list);
    return -1;
}
