/* Recorded times instead of a device, and the statistics of times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

typedef struct replay {
    json_t *recording;
    double clock;     /* what now() says; not used with a checker */
    measurer checker; /* runs and checks candidates on a device; self NULL: none does */
} replay;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double measure_median(const double *values, int count) {
    double sorted[MEASURE_MAX_TIMES];
    if (count < 1)
        return 0;
    if (count > MEASURE_MAX_TIMES)
        count = MEASURE_MAX_TIMES;
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    return count % 2 ? sorted[count / 2] : 0.5 * (sorted[count / 2 - 1] + sorted[count / 2]);
}

double measure_mad(const double *values, int count) {
    double distance[MEASURE_MAX_TIMES], median = measure_median(values, count);
    if (count > MEASURE_MAX_TIMES)
        count = MEASURE_MAX_TIMES;
    for (int i = 0; i < count; i++)
        distance[i] = fabs(values[i] - median);
    return measure_median(distance, count);
}

void measure_result_free(measure_result *result) {
    json_decref(result->errors);
    result->errors = NULL;
}

/* Adds what the recording says of one slot (or fails the result). */
static void look_up(const replay *r, const char *slot, const json_t *parameters, int64_t tokens, double *sum,
                    measure_result *result) {
    const char *kernel = json_string_value(json_object_get(parameters, "kernel"));
    char key[2048];
    json_t *rest = json_copy((json_t *)parameters);
    json_object_del(rest, "kernel");
    char *canonical = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(key, sizeof key, "%s/%s/%s/%lld", slot, kernel ? kernel : "", canonical ? canonical : "",
             (long long)tokens);
    free(canonical);
    json_decref(rest);
    const json_t *entry = json_object_get(json_object_get(r->recording, "times"), key);
    if (!entry)
        entry = json_object_get(r->recording, "otherwise");
    if (json_is_number(entry)) {
        *sum += json_number_value(entry);
        return;
    }
    static const char *const known[] = {"wrong", "spilled", "crashed", "timeout", "impossible_time"};
    const char *text = json_string_value(entry);
    result->outcome = "device_error";
    for (size_t i = 0; text && i < sizeof known / sizeof known[0]; i++)
        if (strncmp(text, known[i], strlen(known[i])) == 0)
            result->outcome = known[i];
    snprintf(result->reason, sizeof result->reason, "%s", text ? text : "the recording has no such time");
}

static void look_up_pass(const replay *r, const measure_request *request, double *sum, measure_result *result) {
    char key[4096];
    char *canonical = json_dumps(request->parameters, JSON_COMPACT | JSON_SORT_KEYS);
    const char *pipeline = json_string_value(json_object_get(request->plan, "pipeline"));
    snprintf(key, sizeof key, "%s/%s/%lld", pipeline ? pipeline : "", canonical ? canonical : "",
             (long long)request->tokens);
    free(canonical);
    const json_t *entry = json_object_get(json_object_get(r->recording, "passes"), key);
    if (json_is_number(entry)) {
        *sum = json_number_value(entry);
        return;
    }
    const char *slot;
    json_t *parameters;
    json_object_foreach((json_t *)request->parameters, slot, parameters) if (strcmp(result->outcome, "ok") == 0)
        look_up(r, slot, parameters, request->tokens, sum, result);
}

static void judge(const replay *r, const measure_request *request, measure_result *result) {
    *result = (measure_result){.outcome = "ok", .protocol = "replay of recorded times"};
    result->seconds = json_number_value(json_object_get(r->recording, "seconds_each"));
    double sum = 0;
    const char *bad = json_string_value(json_object_get(r->recording, "wrong_at_size"));
    char *text = bad && request->gate_real ? json_dumps(request->parameters, JSON_COMPACT) : NULL;
    if (text && strstr(text, bad)) {
        result->outcome = "wrong";
        snprintf(result->reason, sizeof result->reason, "the kernel %s is wrong at the tuned size", bad);
    }
    free(text);
    if (strcmp(result->outcome, "ok") != 0)
        return;
    if (request->slot)
        look_up(r, request->slot, request->parameters, request->tokens, &sum, result);
    else
        look_up_pass(r, request, &sum, result);
    if (strcmp(result->outcome, "ok") == 0)
        for (int i = 0; i < request->repetitions && i < MEASURE_MAX_TIMES; i++)
            result->times[result->count++] = sum;
}

static mlpbwd_status measure(void *self, const measure_request *request, measure_result *result, mlp_message *why) {
    (void)why;
    replay *r = self;
    judge(r, request, result);
    if (strcmp(result->outcome, "timeout") == 0)
        result->seconds = request->limit_seconds;
    r->clock += result->seconds;
    return MLPBWD_OK;
}

static mlpbwd_status check_and_measure(void *self, const measure_request *request, measure_result *result,
                                       mlp_message *why) {
    replay *r = self;
    measure_request check = *request;
    check.repetitions = 0;
    mlpbwd_status status = r->checker.measure(r->checker.self, &check, result, why);
    if (status != MLPBWD_OK || result->interrupted || strcmp(result->outcome, "ok") != 0 || request->repetitions == 0)
        return status;
    json_t *errors = result->errors;
    double seconds = result->seconds;
    judge(r, request, result);
    result->errors = errors;
    result->seconds = seconds;
    return MLPBWD_OK;
}

static double now(void *self) {
    const replay *r = self;
    return r->checker.self ? r->checker.now(r->checker.self) : r->clock;
}

static void close_replay(void *self) {
    replay *r = self;
    if (r->checker.self)
        r->checker.close(r->checker.self);
    json_decref(r->recording);
    free(r);
}

mlpbwd_status measurer_open_replay(const tune_options *options, measurer *out, mlp_message *why) {
    json_error_t error;
    json_t *recording = json_load_file(options->replay_path, 0, &error);
    if (!recording)
        return error.line < 0 /* not opened: the text names the file */
                   ? mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "--replay: %s", error.text)
                   : mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s, line %d: %s", options->replay_path, error.line,
                              error.text);
    const char *name, *arch;
    int units;
    replay *r = NULL;
    if (json_unpack_ex(recording, &error, 0, "{s:{s:s,s:s,s:i},s:o}", "device", "name", &name, "arch", &arch, "units",
                       &units, "times", &(json_t *){NULL}) != 0 ||
        !(r = calloc(1, sizeof *r))) {
        json_decref(recording);
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s is no recording of times: %s", options->replay_path,
                        error.text);
    }
    r->recording = recording;
    *out = (measurer){.self = r, .measure = measure, .now = now, .close = close_replay};
    out->device.units = units;
    out->device.max_clock_mhz =
        json_number_value(json_object_get(json_object_get(recording, "device"), "max_clock_mhz"));
    snprintf(out->device.name, sizeof out->device.name, "%s", name);
    snprintf(out->device.arch, sizeof out->device.arch, "%s", arch);
    snprintf(out->device.id, sizeof out->device.id, "replay");
    return MLPBWD_OK;
}

mlpbwd_status measurer_open_checked_replay(const tune_options *options, db *database, measurer *out, mlp_message *why) {
    mlpbwd_status status = measurer_open_replay(options, out, why);
    if (status != MLPBWD_OK)
        return status;
    replay *r = out->self;
    status = measurer_open_worker(options, database, &r->checker, why);
    if (status != MLPBWD_OK) {
        close_replay(r);
        *out = (measurer){0};
        return status;
    }
    out->measure = check_and_measure;
    out->device = r->checker.device;
    memcpy(out->compiler, r->checker.compiler, sizeof out->compiler);
    return MLPBWD_OK;
}
