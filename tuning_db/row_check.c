/* What a row may hold. Used before every write, for every imported row, and by db_check for every stored one. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rows.h"

enum { LARGEST_NUMBER = 2147483647, LARGEST_PARAMETERS = 1 << 20, LARGEST_PLAN = 1 << 26 };

bool hash_is_valid(const char *hash) {
    return hash && strlen(hash) == DB_HASH_CAPACITY - 1 && strspn(hash, "0123456789abcdef") == DB_HASH_CAPACITY - 1;
}

static bool is_one_of(const char *text, const char *const *list) {
    for (; *list; ++list)
        if (strcmp(text, *list) == 0)
            return true;
    return false;
}

bool blob_format_is_known(const char *format) {
    static const char *const known[] = {"cubin", "ptx", "elf-so", "emulated-so", "source", NULL};
    return format && is_one_of(format, known);
}

void plan_row_name(const db_plan_row *row, char name[ROW_NAME_CAPACITY]) {
    const char *accuracy = accuracy_name(row->accuracy);
    snprintf(name, ROW_NAME_CAPACITY, "device \"%.255s\", arch %.63s, units %d, %s, H %lld, I %lld, T %lld",
             row->device_name, row->arch, row->units, accuracy ? accuracy : "unknown accuracy",
             (long long)row->hidden_size, (long long)row->intermediate_size, (long long)row->tokens);
}

void report_line(const db_report *report, const char *format, ...) {
    if (!report || !report->line)
        return;
    char text[MLP_MESSAGE_CAPACITY];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= 0)
        report->line(report->user, text);
}

static mlpbwd_status check_text(const char *field, const char *text, size_t least, size_t most, mlp_message *why) {
    if (!text)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s is missing", field);
    size_t length = strnlen(text, most + 1);
    if (length < least || length > most)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s \"%.40s\" has %s%zu bytes; it must have from %zu to %zu",
                        field, text, length > most ? "more than " : "", length > most ? most : length, least, most);
    for (size_t i = 0; i < length; ++i)
        if (iscntrl((unsigned char)text[i]))
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s has a control character (byte %zu is 0x%02x)", field, i,
                            (unsigned)(unsigned char)text[i]);
    json_t *utf8 = json_stringn(text, length);
    if (!utf8)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s is not UTF-8 text", field);
    json_decref(utf8);
    return MLPBWD_OK;
}

static mlpbwd_status check_number(const char *field, int64_t value, int64_t least, mlp_message *why) {
    if (value >= least && value <= LARGEST_NUMBER)
        return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s is %lld; it must be from %lld to %d", field, (long long)value,
                    (long long)least, LARGEST_NUMBER);
}

static mlpbwd_status check_size(const char *field, int64_t value, mlp_message *why) {
    mlpbwd_status status = check_number(field, value, 0, why);
    if (status == MLPBWD_OK && value % 64 != 0)
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s is %lld; it must be a multiple of 64 (0: any)", field,
                          (long long)value);
    return status;
}

static mlpbwd_status check_accuracy(int accuracy, mlp_message *why) {
    if (accuracy_name(accuracy))
        return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "accuracy is %d; known are 0 (tf32), 1 (fp32) and 2 (bf16)",
                    accuracy);
}

static mlpbwd_status check_median(double median_us, mlp_message *why) {
    if (isfinite(median_us) && median_us != 0)
        return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                    "median_us is %s; it must be a positive number (or none, if never measured)",
                    isnan(median_us) ? "not a number"
                    : median_us == 0 ? "0"
                                     : "infinite");
}

static bool digits_between(const char *text, size_t from, size_t count, int least, int most) {
    int value = 0;
    for (size_t i = from; i < from + count; ++i) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (text[i] - '0');
    }
    return value >= least && value <= most;
}

/* Two fixed forms, so that comparing texts compares times. */
static mlpbwd_status check_date(const char *date, mlp_message *why) {
    if (!date)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "date is missing");
    size_t length = strlen(date);
    bool good = (length == 10 || length == 20) && digits_between(date, 0, 4, 0, 9999) && date[4] == '-' &&
                digits_between(date, 5, 2, 1, 12) && date[7] == '-' && digits_between(date, 8, 2, 1, 31);
    if (good && length == 20)
        good = date[10] == 'T' && digits_between(date, 11, 2, 0, 23) && date[13] == ':' &&
               digits_between(date, 14, 2, 0, 59) && date[16] == ':' && digits_between(date, 17, 2, 0, 60) &&
               date[19] == 'Z';
    if (good)
        return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                    "date is \"%.40s\"; it must look like 2026-01-31T23:59:59Z or 2026-01-31 (UTC)", date);
}

static mlpbwd_status check_object(const char *field, const char *text, size_t most, json_t **value, mlp_message *why) {
    if (!text)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s is missing", field);
    if (strlen(text) > most)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s has %zu bytes; at most %zu are allowed", field, strlen(text),
                        most);
    json_t *object = json_parse_object(text, why);
    if (!object) {
        mlp_prefix(why, "%s", field);
        return MLPBWD_INVALID_ARGUMENT;
    }
    if (value)
        *value = object;
    else
        json_decref(object);
    return MLPBWD_OK;
}

static mlpbwd_status check_measurement(const char *measurement, mlp_message *why) {
    if (measurement && !*measurement)
        return MLPBWD_OK;
    return check_object("measurement", measurement, LARGEST_PARAMETERS, NULL, why);
}

static mlpbwd_status accept_hash(void *user, const char *hash, mlp_message *why) {
    (void)user;
    (void)hash;
    (void)why;
    return MLPBWD_OK;
}

mlpbwd_status plan_each_blob(const json_t *plan, hash_visitor visit, void *user, mlp_message *why) {
    static const char *const fields[] = {"source", "code"};
    const json_t *modules = json_object_get(plan, "modules");
    if (modules && !json_is_array(modules))
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "plan: \"modules\" must be an array");
    for (size_t i = 0; i < json_array_size(modules); ++i) {
        const json_t *module = json_array_get(modules, i);
        if (!json_is_object(module))
            return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "plan: module %zu must be an object", i);
        for (size_t f = 0; f < 2; ++f) {
            const json_t *value = json_object_get(module, fields[f]);
            if (!value || json_is_null(value))
                continue;
            const char *hash = json_string_value(value);
            if (!hash_is_valid(hash))
                return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                                "plan: module %zu: \"%s\" is \"%.80s\"; it must be a SHA-256 in 64 small hex digits", i,
                                fields[f], hash ? hash : "(no text)");
            mlpbwd_status status = visit(user, hash, why);
            if (status != MLPBWD_OK)
                return status;
        }
    }
    return MLPBWD_OK;
}

static mlpbwd_status check_plan(const char *text, mlp_message *why) {
    json_t *plan = NULL;
    mlpbwd_status status = check_object("plan", text, LARGEST_PLAN, &plan, why);
    if (status == MLPBWD_OK)
        status = plan_each_blob(plan, accept_hash, NULL, why);
    json_decref(plan);
    return status;
}

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        mlpbwd_status check_status = (call);                                                                           \
        if (check_status != MLPBWD_OK)                                                                                 \
            return check_status;                                                                                       \
    } while (0)

mlpbwd_status plan_row_check(const db_plan_row *row, bool deep, mlp_message *why) {
    static const char *const origins[] = {"tune", "import", "build", NULL};
    CHECK(check_text("device_name", row->device_name, 0, 255, why));
    CHECK(check_text("arch", row->arch, 1, 63, why));
    CHECK(check_number("units", row->units, 0, why));
    CHECK(check_number("compute_capability", row->compute_capability, 0, why));
    CHECK(check_number("tokens", row->tokens, 0, why));
    CHECK(check_size("hidden_size", row->hidden_size, why));
    CHECK(check_size("intermediate_size", row->intermediate_size, why));
    CHECK(check_accuracy(row->accuracy, why));
    CHECK(check_number("min_tokens", row->min_tokens, 0, why));
    CHECK(check_number("max_tokens", row->max_tokens, row->min_tokens, why));
    if (row->tokens > 0 && (row->tokens < row->min_tokens || row->tokens > row->max_tokens))
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "tokens is %lld and lies outside the row's own range, min_tokens %lld to max_tokens %lld",
                        (long long)row->tokens, (long long)row->min_tokens, (long long)row->max_tokens);
    if (!*row->device_name && (row->units || row->hidden_size || row->intermediate_size))
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "device_name is empty, so this is a default row: units, hidden_size and intermediate_size must "
                        "be 0 (they are %d, %lld, %lld)",
                        row->units, (long long)row->hidden_size, (long long)row->intermediate_size);
    CHECK(check_text("pipeline", row->pipeline, 1, 127, why));
    CHECK(check_median(row->median_us, why));
    CHECK(check_text("origin", row->origin, 1, 63, why));
    if (!is_one_of(row->origin, origins))
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "origin is \"%s\"; known are tune, import and build",
                        row->origin);
    CHECK(check_date(row->date, why));
    if (!row->parameters || !row->measurement)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s is missing", row->parameters ? "measurement" : "parameters");
    if (!deep)
        return MLPBWD_OK;
    CHECK(check_object("parameters", row->parameters, LARGEST_PARAMETERS, NULL, why));
    CHECK(check_measurement(row->measurement, why));
    return row->plan ? check_plan(row->plan, why) : MLPBWD_OK;
}

mlpbwd_status candidate_check(const db_candidate *candidate, bool deep, mlp_message *why) {
    static const char *const outcomes[] = {"in_flight",       "compiled",     "ok",    "invalid", "compile_failed",
                                           "compile_timeout", "spilled",      "wrong", "crashed", "timeout",
                                           "impossible_time", "device_error", NULL};
    CHECK(check_text("device_name", candidate->device_name, 0, 255, why));
    CHECK(check_text("arch", candidate->arch, 1, 63, why));
    CHECK(check_number("units", candidate->units, 0, why));
    CHECK(check_number("tokens", candidate->tokens, 0, why));
    CHECK(check_number("hidden_size", candidate->hidden_size, 0, why));
    CHECK(check_number("intermediate_size", candidate->intermediate_size, 0, why));
    CHECK(check_accuracy(candidate->accuracy, why));
    CHECK(check_text("pipeline", candidate->pipeline, 0, 127, why));
    CHECK(check_text("slot", candidate->slot, 0, 127, why));
    CHECK(check_text("kernel", candidate->kernel, 0, 127, why));
    CHECK(check_text("source_hash", candidate->source_hash, 0, 64, why));
    CHECK(check_text("code_hash", candidate->code_hash, 0, 64, why));
    CHECK(check_text("outcome", candidate->outcome, 1, 63, why));
    if (!is_one_of(candidate->outcome, outcomes))
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                        "outcome is \"%s\"; known are in_flight, compiled, ok, invalid, compile_failed, "
                        "compile_timeout, spilled, wrong, crashed, timeout, impossible_time and device_error",
                        candidate->outcome);
    if (!candidate->reason)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "reason is missing");
    CHECK(check_median(candidate->median_us, why));
    CHECK(check_date(candidate->date, why));
    if (!candidate->parameters || !candidate->measurement)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s is missing",
                        candidate->parameters ? "measurement" : "parameters");
    if (!deep)
        return MLPBWD_OK;
    CHECK(check_object("parameters", candidate->parameters, LARGEST_PARAMETERS, NULL, why));
    return check_measurement(candidate->measurement, why);
}
