/* `mlpbwd __worker`: owns the device, checks and times candidates. Requests (channel.h):
 *   {"op":"open","device","checks","hidden_size","intermediate_size","accuracy","activation","seed"} -> facts of the
 * device
 *   {"op":"blob","hash"} + machine code                                    (no answer)
 *   {"op":"tokens","tokens"}: inputs and reference for that many           -> {} + the reference's results
 *   the same + those results: an earlier worker's, so that only the inputs are made again     -> {}
 *   {"op":"measure","plan","slot","gate_small","gate_real","repetitions","warmup","best_us"} -> the outcome
 * An outcome with "fatal" says that the device context is unusable: the worker ends and the tuner starts another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "measure.h"
#include "worker_problem.h"

enum { SMALL_SHAPES = 4, REAL_SAMPLES = 32, KEPT_IMAGES = 16, MAX_LOCAL_BYTES = 512 };
/* A timing of one candidate should not take longer than this; fewer repetitions then. */
static const double TIMING_SECONDS = 0.4;
/* Small shapes: one token; tails in every direction; the other GELU form; accumulation over several tiles. A device
 * without times is a slow one: smaller shapes there. */
typedef struct small_shape {
    int64_t tokens, hidden_size, intermediate_size;
    bool other_activation, accumulate;
} small_shape;
static const small_shape small_shapes[SMALL_SHAPES] = {{1, 192, 320, false, false},
                                                       {77, 192, 320, false, false},
                                                       {200, 320, 192, true, false},
                                                       {541, 192, 320, false, true}},
                         smaller_shapes[SMALL_SHAPES] = {{1, 64, 128, false, false},
                                                         {70, 64, 128, false, false},
                                                         {150, 128, 64, true, false},
                                                         {200, 64, 128, false, true}};

typedef struct kept_image {
    char *plan; /* its text, the key */
    plan_image *image;
} kept_image;

typedef struct worker {
    channel channel;
    dev *device;
    dev_context *context;
    mlpbwd_problem problem; /* of the sweep; tokens of the current one in seq_len */
    unsigned seed;
    json_t *blobs; /* hash -> index into codes */
    struct code {
        void *bytes;
        size_t size;
    } * codes;
    size_t code_count;
    worker_problem *small[SMALL_SHAPES], *real;
    kept_image kept[KEPT_IMAGES]; /* whole passes of the current tokens: finals time them in turns */
    int kept_count;
} worker;

static void forget_images(worker *w) {
    for (int i = 0; i < w->kept_count; i++) {
        plan_image_destroy(w->kept[i].image);
        free(w->kept[i].plan);
    }
    w->kept_count = 0;
}

static mlpbwd_status find_blob(void *user, const char *hash, void **bytes, size_t *size, mlp_message *why) {
    const worker *w = user;
    *bytes = NULL;
    *size = 0;
    const json_t *index = json_object_get(w->blobs, hash);
    if (!index)
        return MLPBWD_OK;
    const struct code *code = &w->codes[json_integer_value(index)];
    char *copy = malloc(code->size + 1);
    if (!copy)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for machine code (%zu bytes)", code->size);
    memcpy(copy, code->bytes, code->size);
    copy[code->size] = '\0';
    *bytes = copy;
    *size = code->size;
    return MLPBWD_OK;
}

static mlpbwd_status keep_blob(worker *w, channel_message *message, mlp_message *why) {
    const char *hash = json_string_value(json_object_get(message->json, "hash"));
    if (!hash || !message->bytes)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "the tuner sent machine code without its hash");
    struct code *more = realloc(w->codes, (w->code_count + 1) * sizeof *more);
    if (!more)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory to keep machine code");
    w->codes = more;
    w->codes[w->code_count] = (struct code){message->bytes, message->size};
    message->bytes = NULL; /* ours now */
    json_object_set_new(w->blobs, hash, json_integer((json_int_t)w->code_count++));
    return MLPBWD_OK;
}

/* Recorded times never stand in for those of a device that has its own. */
static mlpbwd_status check_purpose(const dev *device, bool checks, mlp_message *why) {
    if (!checks)
        return dev_check_times(device, why);
    if (dev_get_info(device)->timeless)
        return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_INVALID_ARGUMENT,
                    "--replay: device %s gives times of its own; recorded ones are for emulated devices",
                    dev_get_info(device)->id);
}

static mlpbwd_status open_device(worker *w, const json_t *request, json_t *answer, mlp_message *why) {
    const char *spec;
    json_int_t hidden, intermediate;
    int accuracy, activation, seed, checks;
    if (json_unpack((json_t *)request, "{s:s,s:b,s:I,s:I,s:i,s:i,s:i}", "device", &spec, "checks", &checks,
                    "hidden_size", &hidden, "intermediate_size", &intermediate, "accuracy", &accuracy, "activation",
                    &activation, "seed", &seed) != 0)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "the tuner's open request is incomplete");
    w->problem = (mlpbwd_problem){.batch_size = 1,
                                  .hidden_size = hidden,
                                  .intermediate_size = intermediate,
                                  .activation = activation,
                                  .accuracy = accuracy};
    w->seed = (unsigned)seed;
    mlpbwd_status status = dev_open(spec[0] ? spec : NULL, &w->device, why);
    if (status == MLPBWD_OK)
        status = check_purpose(w->device, checks, why);
    if (status == MLPBWD_OK)
        status = dev_context_get(w->device, &w->context, why);
    if (status != MLPBWD_OK)
        return status;
    dev_info info;
    dev_describe(w->device, &info);
    json_t *ladder = json_array();
    for (size_t i = 0; i < info.ladder_length; i++)
        json_array_append_new(ladder, json_string(info.ladder[i]));
    json_object_set_new(answer, "ladder", ladder);
    json_object_set_new(answer, "id", json_string(info.id));
    json_object_set_new(answer, "backend", json_string(info.backend));
    json_object_set_new(answer, "name", json_text(info.name));
    json_object_set_new(answer, "arch", json_string(info.arch));
    json_object_set_new(answer, "driver", json_text(info.driver));
    json_object_set_new(answer, "units", json_integer(info.units));
    json_object_set_new(answer, "compute_capability", json_integer(info.compute_capability));
    json_object_set_new(answer, "max_clock_mhz", json_real(info.max_clock_mhz));
    json_object_set_new(answer, "power_limit_w", json_real(info.power_limit_w));
    json_object_set_new(answer, "compiler", json_string(dev_compiler_of(w->context, "")));
    return MLPBWD_OK;
}

static mlpbwd_status set_tokens(worker *w, const channel_message *request, void **results, size_t *size,
                                mlp_message *why) {
    forget_images(w);
    worker_problem_free(w->real);
    w->real = NULL;
    w->problem.seq_len = json_integer_value(json_object_get(request->json, "tokens"));
    mlpbwd_status status = worker_problem_create(w->context, &w->problem, REAL_SAMPLES, w->seed, request->bytes,
                                                 request->size, &w->real, why);
    if (status == MLPBWD_OK && !request->bytes) /* without memory for it the next worker computes its own */
        *results = reference_results(&w->real->expected, size);
    return status;
}

/* ---- one measurement ---- */

typedef struct measurement {
    const char *outcome; /* NULL: fine so far */
    char reason[1024];
    bool fatal;
    gate_errors errors;
    char shape[128]; /* of the last check, which errors are of; "": not checked */
} measurement;

static void judge(measurement *m, const char *outcome, const char *reason) {
    m->outcome = outcome;
    snprintf(m->reason, sizeof m->reason, "%s", reason);
}

/* A failure of the device while a candidate ran: its context cannot be trusted any more. */
static void judge_status(measurement *m, mlpbwd_status status, const mlp_message *why) {
    judge(m, status == MLPBWD_DEVICE_ERROR ? "crashed" : "device_error", why->text);
    m->fatal = status == MLPBWD_DEVICE_ERROR;
}

static void check(worker_problem *p, const plan_image *image, measurement *m, bool check_inputs) {
    mlp_message why = {""};
    mlpbwd_status status = worker_problem_gate(p, image, check_inputs, &m->errors, &why);
    if (status != MLPBWD_OK) {
        judge_status(m, status, &why);
        return;
    }
    snprintf(m->shape, sizeof m->shape, "T=%lld H=%lld I=%lld%s%s", (long long)p->in.sizes.tokens,
             (long long)p->in.sizes.hidden_size, (long long)p->in.sizes.intermediate_size,
             p->problem.activation == MLPBWD_GELU_ERF ? " gelu_erf" : "",
             p->problem.flags & MLPBWD_FLAG_ACCUMULATE ? " accumulating" : "");
    if (m->errors.failed) {
        judge(m, "wrong", "");
        snprintf(m->reason, sizeof m->reason, "%s: %s", m->shape, m->errors.failed);
    }
}

static plan_image *load(worker *w, const char *plan, const mlpbwd_problem *problem, measurement *m) {
    plan_image *image = NULL;
    mlp_message why = {""};
    mlpbwd_status status = plan_image_create(plan, problem, w->device, w->context, find_blob, w, false, &image, &why);
    if (status != MLPBWD_OK)
        judge_status(m, status, &why);
    return image;
}

static void check_small(worker *w, const char *plan, measurement *m) {
    const small_shape *shapes = dev_get_info(w->device)->timeless ? smaller_shapes : small_shapes;
    for (int i = 0; i < SMALL_SHAPES && !m->outcome; i++) {
        mlpbwd_problem problem = w->problem;
        problem.seq_len = shapes[i].tokens;
        problem.hidden_size = shapes[i].hidden_size;
        problem.intermediate_size = shapes[i].intermediate_size;
        if (shapes[i].other_activation)
            problem.activation = problem.activation == MLPBWD_GELU_ERF ? MLPBWD_GELU_TANH : MLPBWD_GELU_ERF;
        if (shapes[i].accumulate)
            problem.flags |= MLPBWD_FLAG_ACCUMULATE;
        mlp_message why = {""};
        if (!w->small[i]) {
            mlpbwd_status status = worker_problem_create(w->context, &problem, 0, w->seed, NULL, 0, &w->small[i], &why);
            if (status != MLPBWD_OK) {
                judge_status(m, status, &why);
                return;
            }
        }
        plan_image *image = load(w, plan, &problem, m);
        if (image)
            check(w->small[i], image, m, true);
        plan_image_destroy(image);
    }
}

static void check_spills(const plan_image *image, const char *slot, measurement *m) {
    for (size_t l = 0; slot && l < plan_image_launch_count(image); l++) {
        int bytes = plan_image_launch_function(image, l).local_bytes;
        if (strcmp(plan_image_launch_slot(image, l), slot) != 0 || bytes <= MAX_LOCAL_BYTES)
            continue;
        judge(m, "spilled", "");
        snprintf(m->reason, sizeof m->reason, "%d bytes of local memory a thread, more than %d", bytes,
                 MAX_LOCAL_BYTES);
        return;
    }
}

/* One repetition first: it warms up, and tells how many more are worth their time. */
static void time_candidate(worker *w, const plan_image *image, const json_t *request, json_t *answer, measurement *m) {
    const char *slot = json_string_value(json_object_get(request, "slot"));
    int repetitions = (int)json_integer_value(json_object_get(request, "repetitions"));
    int warmup = (int)json_integer_value(json_object_get(request, "warmup"));
    double best = json_number_value(json_object_get(request, "best_us"));
    double times[MEASURE_MAX_TIMES];
    mlp_message why = {""};
    dev_timing timing = {.microseconds = times, .repetitions = 1, .warmup = 0, .cold = true};
    double started = monotonic_seconds();
    mlpbwd_status status = worker_problem_time(w->real, w->context, image, slot, &timing, &why);
    double seconds = monotonic_seconds() - started; /* clearing the cache may take longer than the candidate */
    if (status == MLPBWD_OK) {
        bool slow = best > 0 && times[0] > 1.5 * best * (1 + 20 / best); /* 20 us: the first one's lag */
        int affordable = seconds > 0 ? (int)fmin(1e6, TIMING_SECONDS / seconds) : repetitions;
        if (slow || affordable < 3)
            affordable = 3;
        timing.repetitions = repetitions < affordable ? repetitions : affordable;
        timing.warmup = affordable < repetitions ? 1 : warmup;
        if (seconds > TIMING_SECONDS / 4 && affordable <= 3)
            timing.warmup = 0; /* the first repetition was one */
        status = worker_problem_time(w->real, w->context, image, slot, &timing, &why);
    }
    if (status != MLPBWD_OK) {
        judge_status(m, status, &why);
        return;
    }
    json_t *list = json_array();
    for (int i = 0; i < timing.repetitions; i++) {
        if (!(isfinite(times[i]) && times[i] > 0)) {
            judge(m, "impossible_time", "a time is not a positive number");
            times[i] = 0;
        }
        json_array_append_new(list, json_real(times[i]));
    }
    json_object_set_new(answer, "times", list);
    json_object_set_new(answer, "protocol", json_text(timing.protocol));
    json_object_set_new(answer, "clock_mhz", json_real(isfinite(timing.clock_mhz) ? timing.clock_mhz : 0));
}

/* The image of a whole pass is kept for the next turn of the finals; *kept says so, else the caller destroys it. */
static plan_image *image_for(worker *w, const char *plan, bool keep, bool *kept, measurement *m) {
    *kept = true;
    for (int i = 0; i < w->kept_count; i++)
        if (strcmp(w->kept[i].plan, plan) == 0)
            return w->kept[i].image;
    plan_image *image = load(w, plan, &w->problem, m);
    *kept = keep;
    if (!image || !keep)
        return image;
    if (w->kept_count == KEPT_IMAGES)
        forget_images(w);
    char *copy = strdup(plan);
    if (!copy) {
        plan_image_destroy(image);
        judge(m, "device_error", "no memory to keep a plan");
        return NULL;
    }
    w->kept[w->kept_count++] = (kept_image){copy, image};
    return image;
}

static mlpbwd_status measure(worker *w, const json_t *request, json_t *answer, bool *fatal, mlp_message *why) {
    if (!w->real)
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "the tuner asked for a measurement before naming the tokens");
    char *plan = json_dumps(json_object_get(request, "plan"), JSON_COMPACT);
    if (!plan)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for the plan's text");
    const char *slot = json_string_value(json_object_get(request, "slot"));
    measurement *m = calloc(1, sizeof *m);
    if (!m) {
        free(plan);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a measurement");
    }
    if (json_is_true(json_object_get(request, "gate_small")))
        check_small(w, plan, m);
    bool kept = false;
    plan_image *image = m->outcome ? NULL : image_for(w, plan, !slot, &kept, m);
    if (image) {
        check_spills(image, slot, m);
        if (!m->outcome && json_is_true(json_object_get(request, "gate_real"))) {
            check(w->real, image, m, !slot);
        } else if (!m->outcome && slot) {
            mlpbwd_status status = worker_problem_run(w->real, w->context, image, why);
            if (status != MLPBWD_OK)
                judge_status(m, status, why);
        }
        if (!m->outcome && json_integer_value(json_object_get(request, "repetitions")) > 0)
            time_candidate(w, image, request, answer, m);
        if (!kept)
            plan_image_destroy(image);
    }
    json_object_set_new(answer, "outcome", json_string(m->outcome ? m->outcome : "ok"));
    json_object_set_new(answer, "reason", json_text(m->reason));
    if (m->shape[0]) {
        json_t *errors = gate_errors_json(&m->errors);
        json_object_set_new(errors, "shape", json_string(m->shape));
        json_object_set_new(answer, "errors", errors);
    }
    json_object_set_new(answer, "fatal", json_boolean(m->fatal));
    *fatal = m->fatal;
    free(m);
    free(plan);
    return MLPBWD_OK;
}

/* False: the worker ends. */
static bool serve(worker *w, channel_message *message) {
    const char *op = json_string_value(json_object_get(message->json, "op"));
    mlp_message why = {""};
    mlpbwd_status status = MLPBWD_OK;
    bool fatal = false;
    void *bytes = NULL;
    size_t size = 0;
    json_t *answer = json_object();
    if (op && strcmp(op, "blob") == 0) {
        json_decref(answer);
        return keep_blob(w, message, &why) == MLPBWD_OK;
    }
    if (op && strcmp(op, "open") == 0)
        status = open_device(w, message->json, answer, &why);
    else if (op && strcmp(op, "tokens") == 0)
        status = set_tokens(w, message, &bytes, &size, &why);
    else if (op && strcmp(op, "measure") == 0)
        status = measure(w, message->json, answer, &fatal, &why);
    else
        status = mlp_fail(&why, MLPBWD_INVALID_ARGUMENT, "unknown request \"%s\"", op ? op : "");
    json_object_set_new(answer, "status", json_integer(status));
    if (status != MLPBWD_OK)
        json_object_set_new(answer, "reason", json_text(why.text));
    bool sent = channel_send(&w->channel, answer, bytes, size);
    free(bytes);
    return sent && !fatal && status != MLPBWD_DEVICE_ERROR;
}

int tune_worker_main(int argc, char **argv) {
    (void)argc;
    (void)argv;
    worker w = {.blobs = json_object()};
    if (!w.blobs || !channel_from_parent(&w.channel)) {
        json_decref(w.blobs);
        return 2;
    }
    channel_message message;
    bool good = true;
    while (good && channel_receive(&w.channel, -1, NULL, &message) == CHANNEL_MESSAGE) {
        good = serve(&w, &message);
        channel_message_free(&message);
    }
    forget_images(&w);
    for (int i = 0; i < SMALL_SHAPES; i++)
        worker_problem_free(w.small[i]);
    worker_problem_free(w.real);
    for (size_t i = 0; i < w.code_count; i++)
        free(w.codes[i].bytes);
    free(w.codes);
    json_decref(w.blobs);
    if (w.context)
        dev_context_release(w.context);
    dev_release(w.device);
    channel_close(&w.channel);
    return good ? 0 : 1;
}
