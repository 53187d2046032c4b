#include "fake_device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/backend.h"
#include "tiny_kernels.inc"

typedef void (*entry_function)(void *const *args, unsigned x, unsigned y, unsigned z);

enum { OPERATIONS = 4096 };

/* A launch, or (entry NULL) a wait of its stream for operation `after`. */
typedef struct operation {
    entry_function entry;
    uint64_t values[DEV_MAX_ARGUMENTS];
    int stream, after;
    uint32_t grid;
    bool done;
} operation;

static operation operations[OPERATIONS];
static int operation_count, stream_count = 1, launches_left = -1, capability = 90, graph_launches;
static uint64_t captures[FAKE_STREAMS];
static char stream_handles[FAKE_STREAMS];

struct dev_event {
    int unused;
};

static const struct {
    const char *name;
    entry_function entry;
    int arguments;
} entries[] = {{"tiny_fc2_dgrad", tiny_fc2_dgrad, 8},
               {"tiny_wgrad", tiny_wgrad, 7},
               {"tiny_fc1_dgrad", tiny_fc1_dgrad, 6},
               {"tiny_bias", tiny_bias, 8},
               {"tiny_copy", tiny_copy, 2}};
enum { ENTRIES = sizeof entries / sizeof *entries };

static dev_function functions[ENTRIES];

static int number_of(dev_stream stream) {
    return stream ? (int)((char *)stream - stream_handles) : 0;
}

static mlpbwd_status module_load(dev_context *context, const void *bytes, size_t size, const char *format,
                                 dev_module **out, mlp_message *why) {
    static dev_module module;
    (void)bytes, (void)size, (void)format, (void)why;
    module = (dev_module){.backend = context->backend, .context = context};
    *out = &module;
    return MLPBWD_OK;
}

static void module_unload(dev_module *module) {
    (void)module;
}

static mlpbwd_status function_get(dev_module *module, const char *entry, size_t shared_bytes, dev_function **out,
                                  dev_function_info *info, mlp_message *why) {
    (void)shared_bytes;
    *info = (dev_function_info){.registers = 1};
    for (size_t i = 0; i < ENTRIES; i++)
        if (strcmp(entries[i].name, entry) == 0) {
            functions[i] = (dev_function){.backend = module->backend, .module = module};
            *out = &functions[i];
            return MLPBWD_OK;
        }
    return mlp_fail(why, MLPBWD_DEVICE_ERROR, "no entry %s", entry);
}

static mlpbwd_status refuse_launch(mlp_message *why) {
    if (launches_left == 0)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "the simulated device refuses this launch");
    launches_left -= launches_left > 0;
    return MLPBWD_OK;
}

static void set_values(operation *o, size_t which, void **arguments) {
    for (int i = 0; i < entries[which].arguments; i++)
        memcpy(&o->values[i], arguments[i], sizeof o->values[i]); /* the run gives eight bytes each */
}

static mlpbwd_status launch(const dev_function *function, const uint32_t grid[3], const uint32_t block[3],
                            size_t shared_bytes, void **arguments, dev_stream stream, mlp_message *why) {
    (void)block, (void)shared_bytes;
    if (refuse_launch(why) != MLPBWD_OK)
        return MLPBWD_DEVICE_ERROR;
    operation *added = &operations[operation_count++];
    const size_t which = (size_t)(function - functions);
    *added = (operation){.stream = number_of(stream), .entry = entries[which].entry, .grid = grid[0] * grid[1]};
    set_values(added, which, arguments);
    return MLPBWD_OK;
}

static mlpbwd_status tensor_map_encode(dev_context *context, const dev_tensor *tensor, dev_tensor_map *out,
                                       mlp_message *why) {
    (void)context, (void)why;
    memcpy(out->bytes, &tensor->address, sizeof tensor->address);
    return MLPBWD_OK;
}

static mlpbwd_status stream_create(dev_context *context, dev_stream *out, mlp_message *why) {
    (void)context, (void)why;
    *out = &stream_handles[stream_count++];
    return MLPBWD_OK;
}

static void stream_destroy(dev_context *context, dev_stream stream) {
    (void)context, (void)stream;
}

static mlpbwd_status event_create(dev_context *context, dev_event **out, mlp_message *why) {
    static dev_event event;
    (void)context, (void)why;
    *out = &event;
    return MLPBWD_OK;
}

static void event_destroy(dev_context *context, dev_event *event) {
    (void)context, (void)event;
}

static mlpbwd_status stream_order(dev_context *context, dev_stream earlier, dev_stream later, dev_event *event,
                                  mlp_message *why) {
    (void)context, (void)event;
    int from = number_of(earlier), to = number_of(later), last = operation_count - 1;
    if (captures[to] && captures[from] != captures[to])
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "a captured stream waits for work outside its capture");
    captures[to] = captures[from];
    while (last >= 0 && operations[last].stream != from)
        last--;
    if (last >= 0)
        operations[operation_count++] = (operation){.stream = to, .after = last};
    return MLPBWD_OK;
}

static mlpbwd_status stream_capture_id(dev_context *context, dev_stream stream, uint64_t *id, mlp_message *why) {
    (void)context, (void)why;
    *id = captures[number_of(stream)];
    return MLPBWD_OK;
}

/* ---- recorded launches ---- */

enum { RECORDING = 1 << 20 }; /* the capture's id */

/* Operations as they were recorded; those of the origin go to the stream of each launch, others to streams of the
 * graph's own, which wait for that one first. */
typedef struct recorded {
    dev_graph base;
    int count, origin, own[FAKE_STREAMS];
    operation operations[];
} recorded;

static int recorded_from;

static mlpbwd_status graph_begin(dev_context *context, dev_stream stream, mlp_message *why) {
    (void)context, (void)why;
    captures[number_of(stream)] = RECORDING;
    recorded_from = operation_count;
    return MLPBWD_OK;
}

static mlpbwd_status graph_last(dev_context *context, dev_stream stream, dev_graph_node *out, mlp_message *why) {
    (void)context, (void)why;
    const operation *last = &operations[operation_count - 1];
    if (!last->entry || last->stream != number_of(stream) || !captures[last->stream])
        abort();
    *out = &stream_handles[operation_count - recorded_from]; /* any pointer that says which */
    return MLPBWD_OK;
}

static mlpbwd_status graph_end(dev_context *context, dev_stream stream, dev_graph **out, mlp_message *why) {
    (void)context, (void)why;
    const int count = operation_count - recorded_from;
    operation_count = recorded_from;
    for (int i = 0; i < FAKE_STREAMS; i++)
        captures[i] = captures[i] == RECORDING ? 0 : captures[i];
    if (!out)
        return MLPBWD_OK;
    recorded *graph = calloc(1, sizeof *graph + (size_t)count * sizeof *operations);
    if (!graph)
        abort();
    graph->count = count;
    graph->origin = number_of(stream);
    for (int i = 0; i < count; i++) {
        graph->operations[i] = operations[recorded_from + i];
        graph->operations[i].after -= recorded_from;
        const int on = graph->operations[i].stream;
        if (on != graph->origin && graph->own[on] == 0)
            graph->own[on] = stream_count++;
    }
    *out = &graph->base;
    return MLPBWD_OK;
}

static mlpbwd_status graph_set(dev_graph *base, dev_graph_node node, const dev_function *function,
                               const uint32_t grid[3], const uint32_t block[3], size_t shared_bytes, void **arguments,
                               mlp_message *why) {
    (void)block, (void)shared_bytes;
    operation *changed = &((recorded *)base)->operations[number_of(node) - 1];
    const size_t which = (size_t)(function - functions);
    if (changed->entry != entries[which].entry || changed->grid != grid[0] * grid[1])
        abort();
    if (refuse_launch(why) != MLPBWD_OK)
        return MLPBWD_DEVICE_ERROR;
    set_values(changed, which, arguments);
    return MLPBWD_OK;
}

static mlpbwd_status graph_launch(dev_graph *base, dev_stream stream, mlp_message *why) {
    const recorded *graph = (const recorded *)base;
    if (captures[number_of(stream)])
        abort();
    for (int i = 0; i < FAKE_STREAMS; i++)
        if (graph->own[i] > 0)
            (void)stream_order(base->context, stream, &stream_handles[graph->own[i]], NULL, why);
    const int from = operation_count;
    for (int i = 0; i < graph->count; i++) {
        operation *added = &operations[operation_count++];
        *added = graph->operations[i];
        added->after += from;
        added->stream = added->stream == graph->origin ? number_of(stream) : graph->own[added->stream];
    }
    graph_launches++;
    return MLPBWD_OK;
}

static void graph_destroy(dev_graph *base) {
    free(base);
}

static const dev_backend backend = {.name = "fake",
                                    .module_load = module_load,
                                    .module_unload = module_unload,
                                    .function_get = function_get,
                                    .launch = launch,
                                    .tensor_map_encode = tensor_map_encode,
                                    .graph_begin = graph_begin,
                                    .graph_last = graph_last,
                                    .graph_end = graph_end,
                                    .graph_set = graph_set,
                                    .graph_launch = graph_launch,
                                    .graph_destroy = graph_destroy,
                                    .stream_create = stream_create,
                                    .stream_destroy = stream_destroy,
                                    .event_create = event_create,
                                    .event_destroy = event_destroy,
                                    .stream_order = stream_order,
                                    .stream_capture_id = stream_capture_id};

static dev device = {.backend = &backend};
static dev_context context = {.backend = &backend, .device = &device};

dev *fake_device(const char *arch) {
    device.process = getpid();
    atomic_store(&device.references, 1);
    device.info = (dev_info){.id = "fake",
                             .backend = "fake",
                             .name = "Fake",
                             .ladder_length = 1,
                             .units = 4,
                             .compute_capability = capability};
    snprintf(device.info.arch, sizeof device.info.arch, "%s", arch);
    snprintf(device.info.ladder[0], sizeof device.info.ladder[0], "%s", arch);
    return &device;
}

dev_context *fake_context(void) {
    return &context;
}

void fake_capability(int wanted) {
    capability = wanted;
}

dev_stream fake_stream(void) {
    return &stream_handles[stream_count++];
}

static bool ready(int index) {
    for (int i = 0; i < index; i++)
        if (operations[i].stream == operations[index].stream && !operations[i].done)
            return false;
    return operations[index].entry || operations[operations[index].after].done;
}

static void run(operation *o) {
    void *arguments[DEV_MAX_ARGUMENTS];
    o->done = true;
    if (!o->entry)
        return;
    for (int i = 0; i < DEV_MAX_ARGUMENTS; i++)
        arguments[i] = &o->values[i];
    for (uint32_t x = 0; x < o->grid; x++)
        o->entry(arguments, x, 0, 0);
}

size_t fake_run(unsigned seed, size_t *streams) {
    size_t launches = 0;
    uint64_t used = 0;
    for (int left = operation_count; left > 0; left--) {
        int candidates[OPERATIONS], count = 0;
        for (int i = 0; i < operation_count; i++)
            if (!operations[i].done && ready(i))
                candidates[count++] = i;
        if (count == 0)
            abort(); /* the oldest that is left can always run */
        seed = seed * 1664525U + 1013904223U;
        operation *chosen = &operations[candidates[(seed >> 16) % (unsigned)count]];
        launches += chosen->entry != NULL;
        used |= chosen->entry ? UINT64_C(1) << chosen->stream : 0;
        run(chosen);
    }
    operation_count = 0;
    if (streams)
        *streams = (size_t)__builtin_popcountll(used);
    return launches;
}

void fake_capture(dev_stream stream, uint64_t id) {
    captures[number_of(stream)] = id;
}

void fake_end_captures(void) {
    memset(captures, 0, sizeof captures);
}

void fake_fail_after(int launches) {
    launches_left = launches;
}

int fake_graph_launches(void) {
    return graph_launches;
}
