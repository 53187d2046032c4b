#include "kernel_harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db.h"
#include "tolerance.h"

/* Machine code by its hash, and from which source, for what and by which compiler it was made. */
typedef struct compiled {
    char source[DB_HASH_CAPACITY], code[DB_HASH_CAPACITY], target[64], compiler[16];
    dev_image image;
} compiled;

/* Kept until the program ends: a test that opens a device again with some templates changed compiles only those. */
static compiled *files;
static size_t file_count;

enum { SCRATCHES = 3, RUNS_SPARED = 4 /* checks of which one has two runs */ };

struct harness {
    dev *device;
    dev_context *context;
    gen *generator;
    size_t compiled;
    bool sparing;
    unsigned checks;
    unsigned char *scratch[SCRATCHES]; /* kept between cases: fresh pages cost more than the kernels */
    size_t scratch_size;
    const float *outputs[OUT_COUNT]; /* of the last check, in scratch memory */
};

static void require(mlpbwd_status status, const char *what, const mlp_message *why) {
    if (status != MLPBWD_OK) {
        (void)fprintf(stderr, "%s: %s\n", what, why->text);
        abort();
    }
}

harness *harness_open(const char *device, mlp_message *why) {
    return harness_open_changed(device, NULL, why);
}

harness *harness_open_changed(const char *device, const char *folder, mlp_message *why) {
    dev *opened = NULL;
    if (dev_open(device, &opened, why) != MLPBWD_OK)
        return NULL;
    harness *h = test_alloc(sizeof *h);
    h->device = opened;
    mlp_message detail = {{0}};
    require(dev_context_get(opened, &h->context, &detail), "The device's context", &detail);
    const char *const folders[] = {folder, SOURCE_DIR "/templates"};
    require(gen_open(folders + !folder, folder ? 2 : 1, NULL, &h->generator, &detail), "The templates", &detail);
    return h;
}

void harness_close(harness *h) {
    if (!h)
        return;
    for (int i = 0; i < SCRATCHES; i++)
        free(h->scratch[i]);
    gen_close(h->generator);
    dev_context_release(h->context);
    dev_release(h->device);
    free(h);
}

gen *harness_generator(harness *h) {
    return h->generator;
}

void harness_spare_runs(harness *h) {
    h->sparing = true;
}

const dev_info *harness_device(harness *h) {
    return dev_get_info(h->device);
}

size_t harness_compiled(const harness *h) {
    return h->compiled;
}

static const char *compiler_of(const harness *h, const json_t *module) {
    return dev_compiler_of(h->context, json_string_value(json_object_get(module, "compiler")));
}

static mlpbwd_status compile(harness *h, const json_t *module, const char *source, const compiled **out,
                             mlp_message *why) {
    const char *hash = json_string_value(json_object_get(module, "source"));
    dev_compile_request request = {.compiler = compiler_of(h, module),
                                   .target = json_string_value(json_object_get(module, "target")),
                                   .source = source,
                                   .name = json_string_value(json_object_get(module, "slot"))};
    for (size_t i = 0; i < file_count; i++)
        if (strcmp(files[i].source, hash) == 0 && strcmp(files[i].target, request.target) == 0 &&
            strcmp(files[i].compiler, request.compiler) == 0) {
            *out = &files[i];
            return MLPBWD_OK;
        }
    compiled file = {.source = ""};
    mlpbwd_status status = dev_compile(&request, &file.image, why);
    if (status != MLPBWD_OK) {
        dev_image_free(&file.image);
        return status;
    }
    (void)snprintf(file.source, sizeof file.source, "%s", hash);
    (void)snprintf(file.target, sizeof file.target, "%s", request.target);
    (void)snprintf(file.compiler, sizeof file.compiler, "%s", request.compiler);
    db_hash(file.image.bytes, file.image.size, file.code);
    compiled *more = realloc(files, sizeof *files * (file_count + 1));
    if (!more)
        abort();
    files = more;
    files[file_count] = file;
    *out = &files[file_count++];
    h->compiled++;
    return MLPBWD_OK;
}

mlpbwd_status harness_build(harness *h, const char *pipeline, const gen_target *target, const json_t *selection,
                            char **plan, mlp_message *why) {
    json_t *stored = NULL, *sources = NULL;
    *plan = NULL;
    mlpbwd_status status = gen_build_plan(h->generator, pipeline, target, selection, &stored, &sources, why);
    if (status != MLPBWD_OK)
        return status;
    size_t index;
    json_t *module;
    json_array_foreach(json_object_get(stored, "modules"), index, module) {
        const char *hash = json_string_value(json_object_get(module, "source"));
        const compiled *file = NULL;
        status = compile(h, module, json_string_value(json_object_get(sources, hash)), &file, why);
        if (status != MLPBWD_OK)
            break;
        (void)json_object_set_new(module, "compiler", json_string(compiler_of(h, module)));
        (void)json_object_set_new(module, "code", json_string(file->code));
        (void)json_object_set_new(module, "code_format", json_string(file->image.format));
    }
    if (status == MLPBWD_OK)
        *plan = json_dumps(stored, JSON_COMPACT);
    json_decref(stored);
    json_decref(sources);
    return status;
}

static mlpbwd_status find_code(void *user, const char *hash, void **bytes, size_t *size, mlp_message *why) {
    (void)user, (void)why;
    *bytes = NULL;
    for (size_t i = 0; i < file_count; i++)
        if (strcmp(files[i].code, hash) == 0) {
            *size = files[i].image.size;
            *bytes = test_alloc(*size + 1);
            memcpy(*bytes, files[i].image.bytes, *size);
            break;
        }
    return MLPBWD_OK;
}

/* ---- one case: every buffer in one allocation, guards between them ---- */

enum { GUARD = 256, GUARD_BYTE = 0xA5, BUFFERS = IN_COUNT + OUT_COUNT + 1, WORKSPACE = IN_COUNT + OUT_COUNT };

typedef struct arena {
    size_t offset[BUFFERS], size[BUFFERS], total;
    unsigned char *before, *after, *first; /* the host's copies; first: after the first of two runs */
    char *memory;                          /* the device's */
} arena;

static size_t aligned(size_t size) {
    return (size + 255) / 256 * 256;
}

static const char *buffer_name(int buffer) {
    static const char *const inputs[IN_COUNT] = {"grad_output", "hidden_states", "weight1",
                                                 "weight2",     "intermediate",  "intermediate_activated"};
    if (buffer == WORKSPACE)
        return "the workspace";
    return buffer < IN_COUNT ? inputs[buffer] : reference64_output_name(buffer - IN_COUNT);
}

static float *values_in(const arena *a, unsigned char *copy, int buffer) {
    return (float *)(void *)(copy + a->offset[buffer]);
}

static void lay_out(harness *h, arena *a, const harness_case *c, size_t workspace) {
    for (int k = 0; k < IN_COUNT; k++)
        a->size[k] = sizeof(float) * (size_t)c->inputs->count[k];
    for (int k = 0; k < OUT_COUNT; k++)
        a->size[IN_COUNT + k] = sizeof(float) * (size_t)(c->reference->rows[k] * c->reference->columns[k]);
    a->size[WORKSPACE] = workspace;
    a->total = GUARD;
    for (int k = 0; k < BUFFERS; k++) {
        a->offset[k] = a->total;
        a->total += aligned(a->size[k]) + GUARD;
    }
    if (a->total > h->scratch_size) {
        h->scratch_size = a->total;
        for (int i = 0; i < SCRATCHES; i++) {
            free(h->scratch[i]);
            h->scratch[i] = test_alloc(a->total);
        }
    }
    a->before = h->scratch[0];
    a->after = h->scratch[1];
    a->first = h->scratch[2];
}

/* Old values of a gradient that is added to: of the size of one, and another one in every element. */
static float old_value(int64_t index) {
    return (float)((index * 37 + 11) % 101) / 64.0F - 0.75F;
}

/* fill: byte of the workspace. Outputs hold NaN, or old values. */
static void fill(const arena *a, const harness_case *c, int byte) {
    memset(a->before, GUARD_BYTE, a->total);
    for (int k = 0; k < IN_COUNT; k++)
        memcpy(a->before + a->offset[k], c->inputs->tensor[k], a->size[k]);
    for (int k = 0; k < OUT_COUNT; k++) {
        memset(a->before + a->offset[IN_COUNT + k], 0xFF, a->size[IN_COUNT + k]);
        if (c->accumulate && k != OUT_GRAD_HIDDEN)
            for (size_t i = 0; i < a->size[IN_COUNT + k] / sizeof(float); i++)
                values_in(a, a->before, IN_COUNT + k)[i] = old_value((int64_t)i);
    }
    memset(a->before + a->offset[WORKSPACE], byte, a->size[WORKSPACE]);
}

static void bind(const arena *a, const harness_case *c, const plan_image *image, mlpbwd_tensors *tensors) {
    /* position in mlpbwd_tensors of each input */
    const float **inputs[IN_COUNT] = {&tensors->grad_output, &tensors->hidden_states, &tensors->weight1,
                                      &tensors->weight2,     &tensors->intermediate,  &tensors->intermediate_activated};
    static const unsigned bits[IN_COUNT] = {1U << 0, 1U << 1, 1U << 2, 1U << 4, 1U << 6, 1U << 7};
    float **outputs[OUT_COUNT] = {&tensors->grad_hidden_states, &tensors->grad_weight1, &tensors->grad_bias1,
                                  &tensors->grad_weight2, &tensors->grad_bias2};
    unsigned required = plan_image_required_inputs(image, c->outputs);
    memset(tensors, 0, sizeof *tensors);
    for (int k = 0; k < IN_COUNT; k++)
        if (required & bits[k] && a->size[k] > 0)
            *inputs[k] = (const float *)(const void *)(a->memory + a->offset[k]);
    for (int k = 0; k < OUT_COUNT; k++)
        if (c->outputs >> k & 1 && a->size[IN_COUNT + k] > 0)
            *outputs[k] = (float *)(void *)(a->memory + a->offset[IN_COUNT + k]);
}

/* Everything but wanted outputs and the workspace's inside must be as it was. */
static bool untouched(const arena *a, const harness_case *c, char *sentence, size_t capacity) {
    for (int k = -1; k < BUFFERS; k++) {
        size_t from = k < 0 ? 0 : a->offset[k], end = k + 1 < BUFFERS ? a->offset[k + 1] : a->total;
        bool written = k == WORKSPACE || (k >= IN_COUNT && c->outputs >> (k - IN_COUNT) & 1);
        if (k >= 0 && written)
            from += a->size[k];
        if (memcmp(a->before + from, a->after + from, end - from) == 0)
            continue;
        while (a->before[from] == a->after[from])
            from++;
        (void)snprintf(sentence, capacity, "byte %lld of %s (%zu bytes) was overwritten.",
                       k < 0 ? (long long)from - GUARD : (long long)(from - a->offset[k]), buffer_name(k < 0 ? 0 : k),
                       a->size[k < 0 ? 0 : k]);
        return false;
    }
    return true;
}

static mlpbwd_status run(harness *h, const arena *a, const harness_case *c, const plan_image *image, mlp_message *why) {
    mlpbwd_tensors tensors;
    bind(a, c, image, &tensors);
    mlpbwd_status status = dev_copy_in(h->context, a->memory, a->before, a->total, why);
    if (status == MLPBWD_OK)
        status = plan_image_run(image, &tensors, a->size[WORKSPACE] > 0 ? a->memory + a->offset[WORKSPACE] : NULL, NULL,
                                NULL, why);
    if (status == MLPBWD_OK)
        status = dev_synchronize(h->context, why);
    return status == MLPBWD_OK ? dev_copy_out(h->context, a->after, a->memory, a->total, why) : status;
}

static bool check_values(const arena *a, const harness_case *c, char *sentence, size_t capacity) {
    for (int k = 0; k < OUT_COUNT; k++) {
        const float *old = c->accumulate && k != OUT_GRAD_HIDDEN ? values_in(a, a->before, IN_COUNT + k) : NULL;
        if (c->outputs >> k & 1 && !tolerance_check(c->reference, c->accuracy, k, values_in(a, a->after, IN_COUNT + k),
                                                    old, NULL, sentence, capacity))
            return false;
    }
    return true;
}

static bool check_image(harness *h, arena *a, const harness_case *c, const plan_image *image, char *sentence,
                        size_t capacity) {
    mlp_message why = {{0}};
    if (dev_alloc(h->context, a->total, (void **)&a->memory, &why) != MLPBWD_OK) {
        (void)snprintf(sentence, capacity, "%s", why.text);
        return false;
    }
    static const int bytes[] = {0xFF, 0x3C}; /* NaN in any format; a plausible finite value */
    bool good = true;
    unsigned check = h->checks++;
    int passes = h->sparing && check % RUNS_SPARED != 0 ? 1 : 2;
    for (int pass = 0; pass < passes && good; pass++) {
        fill(a, c, bytes[passes == 2 ? (unsigned)pass : check % 2]);
        if (run(h, a, c, image, &why) != MLPBWD_OK) {
            (void)snprintf(sentence, capacity, "%s", why.text);
            good = false;
        } else {
            good = untouched(a, c, sentence, capacity) && check_values(a, c, sentence, capacity);
        }
        if (good && pass == 1 && memcmp(a->first, a->after, a->offset[WORKSPACE]) != 0) {
            (void)snprintf(sentence, capacity, "two runs differ in their bits.");
            good = false;
        }
        memcpy(a->first, a->after, a->offset[WORKSPACE]);
    }
    dev_free(h->context, a->memory);
    return good;
}

bool harness_check(harness *h, const char *plan, const harness_case *c, char *sentence, size_t capacity) {
    mlp_message why = {{0}};
    const test_sizes sizes = c->inputs->sizes;
    const mlpbwd_problem problem = {.batch_size = 1,
                                    .seq_len = sizes.tokens,
                                    .hidden_size = sizes.hidden,
                                    .intermediate_size = sizes.intermediate,
                                    .activation = c->reference->activation,
                                    .accuracy = c->accuracy,
                                    .flags = c->accumulate ? MLPBWD_FLAG_ACCUMULATE : 0};
    plan_image *image = NULL;
    if (plan_image_create(plan, &problem, h->device, h->context, find_code, h, false, &image, &why) != MLPBWD_OK) {
        (void)snprintf(sentence, capacity, "%s", why.text);
        return false;
    }
    arena a = {0};
    lay_out(h, &a, c, plan_image_workspace(image));
    bool good = check_image(h, &a, c, image, sentence, capacity);
    plan_image_destroy(image);
    for (int k = 0; k < OUT_COUNT; k++)
        h->outputs[k] = values_in(&a, a.after, IN_COUNT + k);
    return good;
}

const float *harness_output(const harness *h, int output) {
    return h->outputs[output];
}
