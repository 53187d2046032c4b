/* What the parts of plan_image share: the evaluated launches, buffers and side streams of one plan. */
#ifndef MLP_PLAN_IMAGE_PRIVATE_H
#define MLP_PLAN_IMAGE_PRIVATE_H

#include <jansson.h>
#include <stdatomic.h>

#include "plan_image.h"
#include "plan_modules.h"
#include "plan_tensors.h"

enum {
    IMAGE_MAX_LAUNCHES = 64, /* one bit each in a uint64_t */
    IMAGE_MAX_BUFFERS = 64,
    IMAGE_MAX_PARTS = 16,  /* of one launch; part 0 belongs to all of them */
    IMAGE_MAX_MAPS = 8,    /* tensor maps of one launch */
    IMAGE_MAX_STREAMS = 8, /* the caller's, as 0, and up to seven side streams */
    IMAGE_STREAM_SETS = 4, /* executes of one plan that overlap their launches at the same time */
    IMAGE_GRAPHS = 2       /* streams on which a plan's launches are enqueued as one graph; each costs its creation */
};

typedef enum { ARGUMENT_CONSTANT, ARGUMENT_TENSOR, ARGUMENT_BUFFER } image_argument_kind;

typedef union image_value {
    void *pointer;
    int64_t i64;
    int32_t i32;
    float f32;
} image_value;

typedef struct image_argument {
    image_argument_kind kind;
    unsigned index; /* of the tensor or buffer */
    unsigned part;
    bool reads, writes;
    unsigned outputs;  /* the pointer is passed when one of these is wanted, else NULL */
    image_value value; /* of a constant; a NULL pointer is one too */
    dev_tensor *map;   /* the pointer goes to the kernel in this tensor's map, its address; NULL: as it is */
} image_argument;

typedef struct image_launch {
    char *slot, *entry;
    size_t module; /* index into the plan's modules */
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    unsigned stream; /* 0: the caller's */
    uint64_t after;  /* launches on other streams that must be complete */
    /* waits[s]: streams (bits) that stream s is ordered behind just before this launch is enqueued; found by analysis
     */
    unsigned waits[IMAGE_MAX_STREAMS];
    unsigned outputs;
    image_argument *arguments;
    size_t argument_count;
    dev_function *function; /* owned by its module */
    dev_function_info info;
} image_launch;

typedef struct image_buffer {
    char *name;
    size_t size, offset;
} image_buffer;

/* Side streams for one execute at a time. */
typedef struct image_streams {
    atomic_flag taken;
    dev_stream streams[IMAGE_MAX_STREAMS]; /* [0] is unused */
    dev_event *event;                      /* recorded and waited for by whoever holds the set */
} image_streams;

/* The plan's launches as one graph, for one stream of the caller. */
typedef struct image_graph {
    atomic_flag taken; /* by an execute, while it sets arguments and enqueues */
    dev_graph *graph;
    dev_graph_node nodes[IMAGE_MAX_LAUNCHES];
    atomic_bool owned; /* by the stream */
    dev_stream stream;
    bool is_set; /* the nodes have these pointers */
    void *pointers[TENSOR_COUNT];
    char *workspace;
} image_graph;

struct plan_image {
    dev_context *context;      /* the caller's */
    plan_modules *own_modules; /* NULL when the modules are a library's */
    int64_t tokens;
    bool accumulate;
    size_t tensor_bytes[TENSOR_COUNT];
    image_launch launches[IMAGE_MAX_LAUNCHES];
    size_t launch_count;
    image_buffer buffers[IMAGE_MAX_BUFFERS];
    size_t buffer_count;
    size_t workspace;
    unsigned required_inputs[OUTPUT_ALL + 1];
    uint64_t before[IMAGE_MAX_LAUNCHES]; /* launches that are complete when one starts, however the streams run */
    uint64_t side_launches;              /* those on a side stream */
    unsigned stream_count;               /* the caller's included */
    image_streams *sets; /* IMAGE_STREAM_SETS of them, NULL without side streams; written through by const runs */
    image_graph *graphs; /* IMAGE_GRAPHS of them, likewise; NULL: launches are enqueued one by one */
};

/* One pass over an image's launches. */
typedef struct image_call {
    const plan_image *image;
    void *pointers[TENSOR_COUNT];
    char *workspace;
    unsigned wanted; /* outputs */
    dev_stream stream;
    /* Without a graph launches are enqueued, and nodes (if not NULL) receives what was recorded of each; with one, its
     * nodes get these arguments instead. */
    dev_graph *graph;
    dev_graph_node *nodes;
    mlp_message *why;
} image_call;

/* Launches as bits. */
static inline uint64_t image_every_launch(const plan_image *image) {
    return image->launch_count < 64 ? (UINT64_C(1) << image->launch_count) - 1 : UINT64_MAX;
}

/* The launches of `live`, side streams included where they are free. */
mlpbwd_status plan_image_enqueue(const image_call *call, uint64_t live);

/* Records graphs of the whole pass, where the device can; else, and after a failure, there are none. */
mlpbwd_status plan_image_record(plan_image *image, mlp_message *why);
void plan_image_forget_graphs(plan_image *image);
/* The whole pass, every output wanted, as one graph. False: the launches are to be enqueued one by one (the stream is
 * being captured, or has no graph). No lock, no allocation. */
bool plan_image_replay(const image_call *call, mlpbwd_status *status);

/* As plan_image_create, with two choices: modules, when not NULL, receives what is loaded and keeps it (it must outlive
 * the image and belong to the same context); share_memory lets buffers that are never alive together lie in the same
 * memory, so that a slot cannot be run alone afterwards. */
mlpbwd_status plan_image_load(const char *plan_json, const mlpbwd_problem *problem, dev *device, dev_context *context,
                              plan_blob_source blobs, void *user, bool allow_compile, plan_modules *modules,
                              bool share_memory, plan_image **out, mlp_message *why);

/* Fills launches and buffers from the JSON: everything but functions, offsets and what analysis finds.
 * A malformed plan is DATABASE_ERROR naming the field; sizes that do not fit are UNSUPPORTED. */
mlpbwd_status plan_image_parse(plan_image *image, const json_t *plan, const mlpbwd_problem *problem,
                               const dev_info *device, mlp_message *why);

/* Which outputs need each part and pointer, which inputs each set of outputs requires; what each launch waits for. */
mlpbwd_status plan_image_analyse(plan_image *image, mlp_message *why);

/* Offsets of the buffers, 256-byte aligned, and the workspace's size. Buffers share memory only when every launch that
 * touches one is ordered before every launch that touches the other, overlapped or not. */
mlpbwd_status plan_image_layout(plan_image *image, bool share_memory, mlp_message *why);

#endif
