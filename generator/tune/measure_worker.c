/* The tuner's side of the worker process: starts it, sends it machine code and candidates, and when it hangs or dies
 * says so about the candidate and starts another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "measure.h"

static const double OPEN_SECONDS = 120, TOKENS_SECONDS = 600;

typedef struct remote {
    const tune_options *options;
    db *database;
    child child;
    json_t *sent;   /* hash -> true: machine code the running worker has */
    int64_t tokens; /* of the running worker; -1: none yet */
    /* The float64 results of the latest tokens, as a worker computed them before it tried any candidate at these. No
     * candidate can reach them here, so a worker that takes the place of a crashed one need not compute them again. */
    void *results;
    size_t results_size;
    int64_t results_tokens;
    measurer *owner;
} remote;

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void stop(remote *r) {
    child_end(&r->child, NULL, 0);
    json_object_clear(r->sent);
    r->tokens = -1;
}

/* Sends a request that has no candidate in it and waits for its answer. */
static mlpbwd_status ask(remote *r, json_t *request, const void *bytes, size_t size, double seconds,
                         channel_message *answer, mlp_message *why) {
    char how[100] = "";
    enum channel_result got = CHANNEL_CLOSED;
    *answer = (channel_message){.json = NULL};
    if (channel_send(&r->child.channel, request, bytes, size))
        got = channel_receive(&r->child.channel, seconds, r->options->interrupted, answer);
    if (got == CHANNEL_MESSAGE) {
        mlpbwd_status status = (mlpbwd_status)json_integer_value(json_object_get(answer->json, "status"));
        if (status == MLPBWD_OK)
            return MLPBWD_OK;
        status = mlp_fail(why, status, "%s", text_of(answer->json, "reason"));
        channel_message_free(answer);
        stop(r);
        return status;
    }
    if (got == CHANNEL_INTERRUPTED) {
        stop(r);
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "interrupted");
    }
    child_end(&r->child, got == CHANNEL_CLOSED ? how : NULL, sizeof how);
    stop(r);
    if (got == CHANNEL_LATE)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "the worker process did not answer within %.0f s", seconds);
    return mlp_fail(why, MLPBWD_DEVICE_ERROR, "the worker process %s", how[0] ? how : "closed its channel");
}

static void read_device(const json_t *facts, dev_info *info) {
    *info = (dev_info){0};
    snprintf(info->id, sizeof info->id, "%s", text_of(facts, "id"));
    snprintf(info->backend, sizeof info->backend, "%s", text_of(facts, "backend"));
    snprintf(info->name, sizeof info->name, "%s", text_of(facts, "name"));
    snprintf(info->arch, sizeof info->arch, "%s", text_of(facts, "arch"));
    snprintf(info->driver, sizeof info->driver, "%s", text_of(facts, "driver"));
    const json_t *ladder = json_object_get(facts, "ladder");
    for (size_t i = 0; i < json_array_size(ladder) && i < DEV_MAX_LADDER; i++) {
        snprintf(info->ladder[i], sizeof info->ladder[i], "%s", json_string_value(json_array_get(ladder, i)));
        info->ladder_length = i + 1;
    }
    info->units = (int)json_integer_value(json_object_get(facts, "units"));
    info->compute_capability = (int)json_integer_value(json_object_get(facts, "compute_capability"));
    info->max_clock_mhz = json_number_value(json_object_get(facts, "max_clock_mhz"));
    info->power_limit_w = json_number_value(json_object_get(facts, "power_limit_w"));
}

static mlpbwd_status start(remote *r, mlp_message *why) {
    const tune_options *o = r->options;
    mlpbwd_status status = child_start(&r->child, "__worker", 0, why);
    if (status != MLPBWD_OK)
        return status;
    json_t *request = json_pack("{s:s,s:s,s:b,s:I,s:I,s:i,s:i,s:i}", "op", "open", "device", o->device ? o->device : "",
                                "checks", o->replay_path != NULL, "hidden_size", (json_int_t)o->hidden_size,
                                "intermediate_size", (json_int_t)o->intermediate_size, "accuracy", o->accuracy,
                                "activation", o->activation, "seed", (int)(o->seed & 0x7fffffff));
    channel_message answer;
    status = ask(r, request, NULL, 0, OPEN_SECONDS, &answer, why);
    if (status != MLPBWD_OK)
        return status;
    read_device(answer.json, &r->owner->device);
    snprintf(r->owner->compiler, sizeof r->owner->compiler, "%s", text_of(answer.json, "compiler"));
    channel_message_free(&answer);
    return MLPBWD_OK;
}

static mlpbwd_status ready_for(remote *r, int64_t tokens, mlp_message *why) {
    mlpbwd_status status = r->child.pid > 0 ? MLPBWD_OK : start(r, why);
    if (status != MLPBWD_OK || r->tokens == tokens)
        return status;
    channel_message answer;
    bool kept = r->results && r->results_tokens == tokens;
    status = ask(r, json_pack("{s:s,s:I}", "op", "tokens", "tokens", (json_int_t)tokens), kept ? r->results : NULL,
                 kept ? r->results_size : 0, TOKENS_SECONDS, &answer, why);
    if (status != MLPBWD_OK) {
        mlp_prefix(why, "T=%lld", (long long)tokens);
        return status;
    }
    if (answer.bytes) {
        free(r->results);
        r->results = answer.bytes;
        r->results_size = answer.size;
        r->results_tokens = tokens;
        answer.bytes = NULL;
    }
    channel_message_free(&answer);
    r->tokens = tokens;
    return MLPBWD_OK;
}

static mlpbwd_status send_code(remote *r, const json_t *plan, mlp_message *why) {
    size_t index;
    json_t *module;
    json_array_foreach(json_object_get(plan, "modules"), index, module) {
        const char *hash = json_string_value(json_object_get(module, "code"));
        if (!hash || json_object_get(r->sent, hash))
            continue;
        void *bytes = NULL;
        size_t size = 0;
        char format[16];
        mlpbwd_status status = db_get_blob(r->database, hash, &bytes, &size, format, why);
        if (status != MLPBWD_OK)
            return status;
        /* a worker that is gone is noticed when its answer is awaited; absent code is the plan image's to report */
        if (bytes && channel_send(&r->child.channel, json_pack("{s:s,s:s}", "op", "blob", "hash", hash), bytes, size))
            json_object_set_new(r->sent, hash, json_true());
        free(bytes);
    }
    return MLPBWD_OK;
}

/* The worker's words as the tuner's static ones. */
static const char *known_outcome(const char *outcome) {
    static const char *const known[] = {"ok", "wrong", "spilled", "crashed", "impossible_time"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(outcome, known[i]) == 0)
            return known[i];
    return "device_error";
}

static void read_result(const json_t *answer, measure_result *result) {
    result->outcome = known_outcome(text_of(answer, "outcome"));
    snprintf(result->reason, sizeof result->reason, "%s", text_of(answer, "reason"));
    snprintf(result->protocol, sizeof result->protocol, "%s", text_of(answer, "protocol"));
    result->clock_mhz = json_number_value(json_object_get(answer, "clock_mhz"));
    const json_t *times = json_object_get(answer, "times");
    for (size_t i = 0; i < json_array_size(times) && i < MEASURE_MAX_TIMES; i++)
        result->times[result->count++] = json_number_value(json_array_get(times, i));
    result->errors = json_incref(json_object_get(answer, "errors"));
}

static mlpbwd_status measure(void *self, const measure_request *request, measure_result *result, mlp_message *why) {
    remote *r = self;
    *result = (measure_result){.outcome = "device_error"};
    mlpbwd_status status = ready_for(r, request->tokens, why);
    if (status == MLPBWD_OK)
        status = send_code(r, request->plan, why);
    if (status != MLPBWD_OK) {
        result->interrupted = r->options->interrupted && *r->options->interrupted;
        return result->interrupted ? MLPBWD_OK : status;
    }
    json_t *message =
        json_pack("{s:s,s:O,s:s?,s:b,s:b,s:i,s:i,s:f}", "op", "measure", "plan", request->plan, "slot", request->slot,
                  "gate_small", request->gate_small, "gate_real", request->gate_real, "repetitions",
                  request->repetitions, "warmup", request->warmup, "best_us", request->best_us);
    enum channel_result got = CHANNEL_CLOSED;
    channel_message answer = {.json = NULL};
    double started = monotonic_seconds();
    if (channel_send(&r->child.channel, message, NULL, 0))
        got = channel_receive(&r->child.channel, request->limit_seconds, r->options->interrupted, &answer);
    result->seconds = monotonic_seconds() - started;
    char how[100];
    switch (got) {
    case CHANNEL_MESSAGE:
        if (json_integer_value(json_object_get(answer.json, "status")) == MLPBWD_OK)
            read_result(answer.json, result);
        else
            snprintf(result->reason, sizeof result->reason, "%s", text_of(answer.json, "reason"));
        if (json_is_true(json_object_get(answer.json, "fatal")))
            stop(r);
        break;
    case CHANNEL_LATE:
        result->outcome = "timeout";
        snprintf(result->reason, sizeof result->reason, "ran for more than %.3g s (see --run-limit)",
                 request->limit_seconds);
        stop(r);
        break;
    case CHANNEL_CLOSED:
        result->outcome = "crashed";
        child_end(&r->child, how, sizeof how);
        snprintf(result->reason, sizeof result->reason, "the worker process %s", how[0] ? how : "closed its channel");
        stop(r);
        break;
    case CHANNEL_INTERRUPTED:
        result->interrupted = true;
        stop(r);
        break;
    }
    channel_message_free(&answer);
    return MLPBWD_OK;
}

static double now(void *self) {
    (void)self;
    return monotonic_seconds();
}

static void close_remote(void *self) {
    remote *r = self;
    stop(r);
    json_decref(r->sent);
    free(r->results);
    free(r);
}

mlpbwd_status measurer_open_worker(const tune_options *options, db *database, measurer *out, mlp_message *why) {
    remote *r = calloc(1, sizeof *r);
    if (!r || !(r->sent = json_object())) {
        free(r);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for the worker");
    }
    r->options = options;
    r->database = database;
    r->tokens = -1;
    r->owner = out;
    *out = (measurer){.self = r, .measure = measure, .now = now, .close = close_remote};
    mlpbwd_status status = start(r, why);
    if (status != MLPBWD_OK) {
        close_remote(r);
        *out = (measurer){0};
    }
    return status;
}
