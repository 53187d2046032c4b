#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 0))) static void format_into(mlp_message *why, const char *format, va_list arguments) {
    int length = vsnprintf(why->text, sizeof why->text, format, arguments);
    if (length < 0)
        snprintf(why->text, sizeof why->text, "(message could not be formatted)");
    else if ((size_t)length >= sizeof why->text)
        memcpy(why->text + sizeof why->text - 4, "...", 4);
}

mlpbwd_status mlp_fail(mlp_message *why, mlpbwd_status status, const char *format, ...) {
    if (why) {
        va_list arguments;
        va_start(arguments, format);
        format_into(why, format, arguments);
        va_end(arguments);
    }
    return status;
}

void mlp_prefix(mlp_message *why, const char *format, ...) {
    if (!why)
        return;
    mlp_message old = *why;
    va_list arguments;
    va_start(arguments, format);
    format_into(why, format, arguments);
    va_end(arguments);
    size_t used = strlen(why->text);
    int length = snprintf(why->text + used, sizeof why->text - used, ": %s", old.text);
    if (length < 0 || (size_t)length >= sizeof why->text - used)
        memcpy(why->text + sizeof why->text - 4, "...", 4);
}
