/* JSON of a stored plan -> launches with evaluated geometry. Every field is checked: a plan comes from a file. */
#include "expression.h"
#include "names.h"
#include "plan_image_private.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_FORMAT = 2 }; /* the newest that is read: 1 has no tensor maps */

typedef struct reading {
    plan_image *image;
    const expression_values *values;
    const dev_info *device;
    int64_t format;
    mlp_message *why;
} reading;

static mlpbwd_status bad(const reading *r, const char *where, const char *problem) {
    return mlp_fail(r->why, MLPBWD_DATABASE_ERROR, "the stored plan's %s %s", where, problem);
}

/* A number, or an expression as text, within [least, most]. */
static mlpbwd_status evaluate(const reading *r, const json_t *value, const char *what, int64_t least, int64_t most,
                              int64_t *result) {
    mlpbwd_status status = MLPBWD_OK;
    if (json_is_integer(value))
        *result = json_integer_value(value);
    else if (json_is_string(value))
        status = expression_evaluate(json_string_value(value), r->values, result, r->why);
    else
        return bad(r, what, "is neither a whole number nor an expression");
    if (status != MLPBWD_OK) {
        mlp_prefix(r->why, "the stored plan's %s", what);
        /* Text that is no expression is the file's fault, not the caller's. */
        return status == MLPBWD_INVALID_ARGUMENT ? MLPBWD_DATABASE_ERROR : status;
    }
    if (*result < least || *result > most)
        return mlp_fail(r->why, MLPBWD_UNSUPPORTED, "the stored plan's %s is %lld at this size, outside %lld to %lld",
                        what, (long long)*result, (long long)least, (long long)most);
    return MLPBWD_OK;
}

static mlpbwd_status out_of_memory(const reading *r) {
    return mlp_fail(r->why, MLPBWD_OUT_OF_MEMORY, "no memory for the plan");
}

static mlpbwd_status read_buffers(const reading *r, const json_t *buffers) {
    plan_image *image = r->image;
    if (!json_is_array(buffers) || json_array_size(buffers) > IMAGE_MAX_BUFFERS)
        return bad(r, "\"buffers\"", "are not a list of at most 64");
    for (size_t i = 0; i < json_array_size(buffers); i++) {
        const json_t *item = json_array_get(buffers, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        int64_t size = 0;
        if (!name)
            return bad(r, "\"buffers\"", "have one without a name");
        mlpbwd_status status = evaluate(r, json_object_get(item, "size"), "buffer size", 0, INT64_MAX / 2, &size);
        if (status != MLPBWD_OK)
            return status;
        image->buffers[i].size = (size_t)size;
        image->buffers[i].name = strdup(name);
        image->buffer_count = i + 1;
        if (!image->buffers[i].name)
            return out_of_memory(r);
    }
    return MLPBWD_OK;
}

/* Fills argument->kind and index from a tensor's or buffer's name. */
static mlpbwd_status find_pointer(const reading *r, const char *name, image_argument *argument) {
    size_t tensor = plan_tensor_find(name);
    if (tensor < TENSOR_COUNT) {
        argument->kind = ARGUMENT_TENSOR;
        argument->index = (unsigned)tensor;
        return MLPBWD_OK;
    }
    for (size_t i = 0; i < r->image->buffer_count; i++)
        if (strcmp(r->image->buffers[i].name, name) == 0) {
            argument->kind = ARGUMENT_BUFFER;
            argument->index = (unsigned)i;
            return MLPBWD_OK;
        }
    return mlp_fail(r->why, MLPBWD_DATABASE_ERROR,
                    "the stored plan has an argument \"%s\", which is neither a tensor nor one of its buffers", name);
}

/* Tensor maps of the plan's elements and swizzles; the latter by their width in bytes. */
static const struct {
    const char *name;
    enum dev_element element;
} elements[] = {{"u8", DEV_U8}, {"f16", DEV_F16}, {"bf16", DEV_BF16}, {"f32", DEV_F32}};
enum { ELEMENTS = sizeof elements / sizeof elements[0] };

static mlpbwd_status read_map_extents(const reading *r, const json_t *map, dev_tensor *tensor) {
    const json_t *size = json_object_get(map, "size"), *stride = json_object_get(map, "stride"),
                 *box = json_object_get(map, "box");
    size_t rank = json_array_size(size);
    if (rank < 1 || rank > DEV_MAX_TENSOR_RANK || json_array_size(box) != rank || json_array_size(stride) != rank - 1)
        return bad(r, "\"map\"", "has no \"size\" and \"box\" of one to five and \"stride\" of one less");
    tensor->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        int64_t number = 0;
        mlpbwd_status status = evaluate(r, json_array_get(size, i), "map's size", 1, INT64_C(1) << 32, &number);
        tensor->size[i] = (uint64_t)number;
        if (status == MLPBWD_OK)
            status = evaluate(r, json_array_get(box, i), "map's box", 1, 256, &number);
        tensor->box[i] = (uint32_t)number;
        if (status == MLPBWD_OK && i > 0) {
            status = evaluate(r, json_array_get(stride, i - 1), "map's stride", 1, (INT64_C(1) << 40) - 1, &number);
            tensor->stride[i - 1] = (uint64_t)number;
        }
        if (status != MLPBWD_OK)
            return status;
    }
    return MLPBWD_OK;
}

/* The last byte that a map reaches lies in its tensor or buffer. */
static mlpbwd_status check_map_bounds(const reading *r, const image_argument *argument, const char *name) {
    const dev_tensor *tensor = argument->map;
    const tensor_sizes sizes = {r->values->T, r->values->H, r->values->I};
    uint64_t bytes = argument->kind == ARGUMENT_TENSOR
                         ? (uint64_t)tensor_rows(argument->index, &sizes) *
                               (uint64_t)tensor_columns(argument->index, &sizes) * sizeof(float)
                         : r->image->buffers[argument->index].size;
    uint64_t end = tensor->size[0] * dev_element_bytes(tensor->element);
    bool inside = true;
    for (int i = 1; i < tensor->rank; i++) {
        uint64_t step = 0;
        inside = inside && !__builtin_mul_overflow(tensor->size[i] - 1, tensor->stride[i - 1], &step) &&
                 !__builtin_add_overflow(end, step, &end);
    }
    if (!inside || end > bytes)
        return mlp_fail(r->why, MLPBWD_DATABASE_ERROR,
                        "the stored plan has a tensor map that reaches beyond the %llu bytes of \"%s\" at this size",
                        (unsigned long long)bytes, name);
    return MLPBWD_OK;
}

/* A member of a map that may be left out (0); -1: it is no whole number. */
static int64_t read_bytes(const json_t *map, const char *key) {
    const json_t *value = json_object_get(map, key);
    return !value ? 0 : json_is_integer(value) ? json_integer_value(value) : -1;
}

/* How a pointer argument becomes a tensor map. */
static mlpbwd_status read_map(const reading *r, const json_t *map, const char *name, image_argument *argument) {
    if (r->format < PLAN_FORMAT) /* a library that knows no maps would hand the kernel the bare pointer */
        return bad(r, "\"map\"", "stands in a plan of format 1, which has none");
    dev_tensor *tensor = argument->map = calloc(1, sizeof *argument->map);
    if (!tensor)
        return out_of_memory(r);
    const char *element = json_string_value(json_object_get(map, "element"));
    size_t kind = 0;
    while (kind < ELEMENTS && (!element || strcmp(elements[kind].name, element) != 0))
        kind++;
    int64_t swizzle = read_bytes(map, "swizzle"), l2 = read_bytes(map, "l2");
    int width = DEV_SWIZZLE_NONE;
    while (width < DEV_SWIZZLE_128B && dev_swizzle_bytes((enum dev_swizzle)width) != swizzle)
        width++;
    if (kind == ELEMENTS)
        return bad(r, "\"map\"", "has an \"element\" other than u8, f16, bf16 and f32");
    if (dev_swizzle_bytes((enum dev_swizzle)width) != swizzle)
        return bad(r, "\"map\"", "has a \"swizzle\" other than 0, 32, 64 and 128 bytes");
    if (l2 < 0 || l2 > INT_MAX)
        return bad(r, "\"map\"", "has an \"l2\" that is no number of bytes");
    tensor->element = elements[kind].element;
    tensor->swizzle = (enum dev_swizzle)width;
    tensor->l2_bytes = (int)l2;
    mlpbwd_status status = read_map_extents(r, map, tensor);
    if (status == MLPBWD_OK && dev_tensor_check(tensor, r->why) != MLPBWD_OK) {
        mlp_prefix(r->why, "the stored plan's argument \"%s\"", name);
        status = MLPBWD_DATABASE_ERROR;
    }
    return status == MLPBWD_OK ? check_map_bounds(r, argument, name) : status;
}

static mlpbwd_status read_pointer(const reading *r, const json_t *item, const char *name, image_argument *argument) {
    mlpbwd_status status = find_pointer(r, name, argument);
    if (status != MLPBWD_OK)
        return status;
    const char *access = json_string_value(json_object_get(item, "access"));
    if (!access || (strcmp(access, "in") != 0 && strcmp(access, "out") != 0 && strcmp(access, "inout") != 0))
        return bad(r, "pointer argument", "has an \"access\" other than in, out and inout");
    argument->reads = strcmp(access, "out") != 0;
    argument->writes = strcmp(access, "in") != 0;
    const json_t *part = json_object_get(item, "part");
    int64_t number = part ? json_integer_value(part) : 1;
    if ((part && !json_is_integer(part)) || number < 0 || number >= IMAGE_MAX_PARTS)
        return bad(r, "pointer argument", "has a \"part\" outside 0 to 15");
    argument->part = (unsigned)number;
    if (argument->kind == ARGUMENT_TENSOR) {
        bool is_input = argument->index < TENSOR_INPUTS;
        if (is_input && argument->writes)
            return bad(r, name, "is an input, and a launch writes it");
        if (!is_input && !argument->writes)
            return bad(r, name, "is an output, and a launch only reads it (the caller need not give it)");
        if (strcmp(name, "bias1") == 0 || strcmp(name, "bias2") == 0)
            return bad(r, name, "is read by a launch (the caller need not give it)");
    }
    const json_t *map = json_object_get(item, "map");
    return map ? read_map(r, map, name, argument) : MLPBWD_OK;
}

static mlpbwd_status read_argument(const reading *r, const json_t *item, image_argument *argument) {
    const json_t *pointer = json_object_get(item, "pointer");
    if (json_is_string(pointer))
        return read_pointer(r, item, json_string_value(pointer), argument);
    argument->kind = ARGUMENT_CONSTANT;
    if (json_is_null(pointer))
        return MLPBWD_OK;
    int64_t number = 0;
    mlpbwd_status status = MLPBWD_OK;
    if (json_object_get(item, "i32")) {
        status = evaluate(r, json_object_get(item, "i32"), "32-bit argument", INT32_MIN, INT32_MAX, &number);
        argument->value.i32 = (int32_t)number;
    } else if (json_object_get(item, "i64")) {
        status = evaluate(r, json_object_get(item, "i64"), "64-bit argument", INT64_MIN, INT64_MAX, &number);
        argument->value.i64 = number;
    } else if (json_is_number(json_object_get(item, "f32"))) {
        argument->value.f32 = (float)json_number_value(json_object_get(item, "f32"));
    } else {
        return bad(r, "\"args\"", "have one that is no pointer, i32, i64 or f32");
    }
    return status;
}

static mlpbwd_status read_arguments(const reading *r, const json_t *args, image_launch *launch) {
    if (!json_is_array(args) || json_array_size(args) > DEV_MAX_ARGUMENTS)
        return bad(r, "\"args\"", "are not a list of at most 64");
    if (json_array_size(args) == 0)
        return MLPBWD_OK;
    launch->arguments = calloc(json_array_size(args), sizeof *launch->arguments);
    if (!launch->arguments)
        return out_of_memory(r);
    launch->argument_count = json_array_size(args);
    size_t maps = 0;
    for (size_t i = 0; i < launch->argument_count; i++) {
        mlpbwd_status status = read_argument(r, json_array_get(args, i), &launch->arguments[i]);
        if (status != MLPBWD_OK)
            return status;
        maps += launch->arguments[i].map != NULL;
    }
    return maps > IMAGE_MAX_MAPS ? bad(r, "\"args\"", "have more than 8 tensor maps") : MLPBWD_OK;
}

static mlpbwd_status read_extents(const reading *r, const json_t *list, const char *what, int64_t least,
                                  const int64_t most[3], uint32_t extents[3]) {
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count < 1 || count > 3)
        return bad(r, what, "is not a list of one to three");
    for (size_t i = 0; i < 3; i++) {
        int64_t value = 1;
        mlpbwd_status status =
            i < count ? evaluate(r, json_array_get(list, i), what, least, most[i], &value) : MLPBWD_OK;
        if (status != MLPBWD_OK)
            return status;
        extents[i] = (uint32_t)value;
    }
    return MLPBWD_OK;
}

static mlpbwd_status read_order(const reading *r, const json_t *item, size_t index, image_launch *launch) {
    const json_t *stream = json_object_get(item, "stream");
    int64_t number = json_integer_value(stream);
    if ((stream && !json_is_integer(stream)) || number < 0 || number >= IMAGE_MAX_STREAMS)
        return bad(r, "\"stream\"", "is outside 0 to 7");
    launch->stream = (unsigned)number;
    const json_t *after = json_object_get(item, "after");
    if (after && !json_is_array(after))
        return bad(r, "\"after\"", "is not a list");
    for (size_t i = 0; i < json_array_size(after); i++) {
        const json_t *earlier = json_array_get(after, i);
        if (!json_is_integer(earlier) || json_integer_value(earlier) < 0 ||
            json_integer_value(earlier) >= (int64_t)index)
            return bad(r, "\"after\"", "names a launch that does not come earlier in the list");
        launch->after |= UINT64_C(1) << json_integer_value(earlier);
    }
    return MLPBWD_OK;
}

static mlpbwd_status read_launch(const reading *r, const json_t *item, size_t index, size_t module_count) {
    static const int64_t most_grid[3] = {INT32_MAX, 65535, 65535}, most_block[3] = {1024, 1024, 64};
    image_launch *launch = &r->image->launches[index];
    r->image->launch_count = index + 1;
    const char *slot = json_string_value(json_object_get(item, "slot"));
    const char *entry = json_string_value(json_object_get(item, "entry"));
    const json_t *module = json_object_get(item, "module"), *shared = json_object_get(item, "shared");
    if (!slot || !entry)
        return bad(r, "\"launches\"", "have one without \"slot\" or \"entry\"");
    if (!json_is_integer(module) || json_integer_value(module) < 0 ||
        json_integer_value(module) >= (int64_t)module_count)
        return bad(r, "\"module\"", "is not an index into \"modules\"");
    launch->module = (size_t)json_integer_value(module);
    launch->slot = strdup(slot);
    launch->entry = strdup(entry);
    if (!launch->slot || !launch->entry)
        return out_of_memory(r);
    mlpbwd_status status = read_extents(r, json_object_get(item, "grid"), "grid", 0, most_grid, launch->grid);
    if (status == MLPBWD_OK)
        status = read_extents(r, json_object_get(item, "block"), "block", 1, most_block, launch->block);
    int64_t bytes = 0, most_bytes = r->device->shared_bytes_per_block;
    if (status == MLPBWD_OK && shared)
        status = evaluate(r, shared, "shared memory", 0, most_bytes > 0 ? most_bytes : INT32_MAX, &bytes);
    launch->shared_bytes = (size_t)bytes;
    if (status == MLPBWD_OK)
        status = read_order(r, item, index, launch);
    if (status == MLPBWD_OK)
        status = read_arguments(r, json_object_get(item, "args"), launch);
    if (status != MLPBWD_OK)
        mlp_prefix(r->why, "launch %zu (slot \"%s\")", index, slot);
    return status;
}

/* Accuracy classes from weak to strong. */
static int strength(int accuracy) {
    return accuracy == MLPBWD_ACCURACY_FP32 ? 2 : accuracy == MLPBWD_ACCURACY_TF32 ? 1 : 0;
}

static mlpbwd_status check_head(const reading *r, const json_t *plan, const mlpbwd_problem *problem) {
    if (r->format < 1 || r->format > PLAN_FORMAT)
        return bad(r, "\"format\"", "is not 1 or 2: it was stored by a newer version of mlpbwd, or is no plan");
    const char *arch = json_string_value(json_object_get(plan, "arch"));
    if (!arch)
        return bad(r, "\"arch\"", "is missing");
    size_t rung = 0;
    while (rung < r->device->ladder_length && strcmp(r->device->ladder[rung], arch) != 0)
        rung++;
    if (rung == r->device->ladder_length)
        return mlp_fail(r->why, MLPBWD_UNSUPPORTED, "the stored plan is for %s, which %s (%s) does not run", arch,
                        r->device->id, r->device->arch);
    const char *accuracy = json_string_value(json_object_get(plan, "accuracy"));
    int class = accuracy_from_name(accuracy);
    if (class < 0)
        return bad(r, "\"accuracy\"", "is not tf32, fp32 or bf16");
    if (strength(class) < strength(problem->accuracy))
        return mlp_fail(r->why, MLPBWD_UNSUPPORTED, "the stored plan is of accuracy %s and cannot serve %s", accuracy,
                        accuracy_name(problem->accuracy));
    const json_t *tokens = json_object_get(plan, "tokens");
    const json_t *least = json_object_get(tokens, "min"), *most = json_object_get(tokens, "max");
    if (!json_is_integer(least) || !json_is_integer(most))
        return bad(r, "\"tokens\"", "lack \"min\" or \"max\"");
    if (r->values->T < json_integer_value(least) || r->values->T > json_integer_value(most))
        return mlp_fail(r->why, MLPBWD_UNSUPPORTED, "the stored plan is for %lld to %lld tokens, not for %lld",
                        (long long)json_integer_value(least), (long long)json_integer_value(most),
                        (long long)r->values->T);
    return MLPBWD_OK;
}

mlpbwd_status plan_image_parse(plan_image *image, const json_t *plan, const mlpbwd_problem *problem,
                               const dev_info *device, mlp_message *why) {
    const expression_values values = {.T = problem->batch_size * problem->seq_len,
                                      .H = problem->hidden_size,
                                      .I = problem->intermediate_size,
                                      .UNITS = device->units,
                                      .ACTIVATION = problem->activation,
                                      .ACCUMULATE = (problem->flags & MLPBWD_FLAG_ACCUMULATE) != 0};
    const reading r = {.image = image,
                       .values = &values,
                       .device = device,
                       .format = json_integer_value(json_object_get(plan, "format")),
                       .why = why};
    mlpbwd_status status = check_head(&r, plan, problem);
    if (status == MLPBWD_OK)
        status = read_buffers(&r, json_object_get(plan, "buffers"));
    const json_t *launches = json_object_get(plan, "launches"), *modules = json_object_get(plan, "modules");
    if (status != MLPBWD_OK)
        return status;
    if (!json_is_array(modules))
        return bad(&r, "\"modules\"", "are not a list");
    if (!json_is_array(launches) || json_array_size(launches) > IMAGE_MAX_LAUNCHES)
        return bad(&r, "\"launches\"", "are not a list of at most 64");
    for (size_t i = 0; i < json_array_size(launches) && status == MLPBWD_OK; i++)
        status = read_launch(&r, json_array_get(launches, i), i, json_array_size(modules));
    return status;
}
