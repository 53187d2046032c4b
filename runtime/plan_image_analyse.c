/* Liveness (which outputs need what), the order between streams, and the layout of the workspace. */
#include "plan_image_private.h"

#include <string.h>

/* ---- liveness ---- */

/* Resources: tensors, then buffers. need[r] is the set of outputs that some later launch turns r into. Walking
 * backwards, a part is needed by whatever needs what it writes, and so is all that it reads. A write does not end the
 * need of what was there before (several launches may fill one buffer piecewise): at worst work is done that nobody
 * needs. */
enum { RESOURCES = TENSOR_COUNT + IMAGE_MAX_BUFFERS };

static unsigned resource_of(const image_argument *argument) {
    return argument->kind == ARGUMENT_TENSOR ? argument->index : TENSOR_COUNT + argument->index;
}

/* Parts are independent: a part with outputs of its own is needed for those alone, one without (it only reads for what
 * the parts write together) for whatever needs part 0's. */
static void find_part_needs(image_launch *launch, const unsigned need[RESOURCES],
                            unsigned part_needed[IMAGE_MAX_PARTS]) {
    unsigned writing_parts = 0;
    memset(part_needed, 0, IMAGE_MAX_PARTS * sizeof *part_needed);
    for (size_t a = 0; a < launch->argument_count; a++) {
        const image_argument *argument = &launch->arguments[a];
        if (argument->kind == ARGUMENT_CONSTANT || !argument->writes)
            continue;
        part_needed[argument->part] |= need[resource_of(argument)];
        writing_parts |= 1U << argument->part;
    }
    launch->outputs = part_needed[0];
    for (size_t part = 1; part < IMAGE_MAX_PARTS; part++) {
        if (!(writing_parts >> part & 1))
            part_needed[part] = part_needed[0];
        launch->outputs |= part_needed[part];
    }
    part_needed[0] = launch->outputs;
}

static void find_liveness(plan_image *image) {
    unsigned need[RESOURCES] = {0};
    for (unsigned output = 0; output < TENSOR_OUTPUTS; output++)
        need[TENSOR_INPUTS + output] = 1U << output;
    for (size_t l = image->launch_count; l-- > 0;) {
        image_launch *launch = &image->launches[l];
        unsigned part_needed[IMAGE_MAX_PARTS];
        find_part_needs(launch, need, part_needed);
        for (size_t a = 0; a < launch->argument_count; a++) {
            image_argument *argument = &launch->arguments[a];
            if (argument->kind == ARGUMENT_CONSTANT)
                continue;
            argument->outputs = part_needed[argument->part];
            /* An output tensor is only ever read to be added to: it is asked for by its own bit alone. */
            if (argument->reads && (argument->kind == ARGUMENT_BUFFER || argument->index < TENSOR_INPUTS))
                need[resource_of(argument)] |= argument->outputs;
        }
    }
    for (unsigned wanted = 0; wanted <= OUTPUT_ALL; wanted++)
        for (unsigned input = 0; input < TENSOR_INPUTS; input++)
            if (need[input] & wanted)
                image->required_inputs[wanted] |= 1U << input;
}

/* ---- order between streams ---- */

typedef struct touched {
    uint64_t buffers_read, buffers_written;
    unsigned tensors_written; /* inputs are only read, outputs never only read */
} touched;

static touched touched_by(const image_launch *launch) {
    touched t = {0};
    for (size_t a = 0; a < launch->argument_count; a++) {
        const image_argument *argument = &launch->arguments[a];
        if (argument->kind == ARGUMENT_BUFFER && argument->reads)
            t.buffers_read |= UINT64_C(1) << argument->index;
        if (argument->kind == ARGUMENT_BUFFER && argument->writes)
            t.buffers_written |= UINT64_C(1) << argument->index;
        if (argument->kind == ARGUMENT_TENSOR && argument->writes)
            t.tensors_written |= 1U << argument->index;
    }
    return t;
}

static bool must_be_ordered(const touched *a, const touched *b) {
    return (a->buffers_written & (b->buffers_read | b->buffers_written)) || (a->buffers_read & b->buffers_written) ||
           (a->tensors_written & b->tensors_written);
}

static unsigned stream_bit(unsigned stream) {
    return stream < IMAGE_MAX_STREAMS ? 1U << stream : 0;
}

/* Launch j waits for every earlier launch on another stream that its plan names or that shares data with it in a way
 * that order decides: so a plan cannot race, whatever it says. A wait is for all that the other stream holds when the
 * wait is enqueued; it is enqueued as early as j's own stream allows, so that it catches little else.
 * before[j]: launches that are complete when j starts, however the streams run. */
static void find_waits(plan_image *image) {
    touched touches[IMAGE_MAX_LAUNCHES];
    image->stream_count = 1;
    for (size_t j = 0; j < image->launch_count; j++) {
        image_launch *launch = &image->launches[j];
        unsigned s = launch->stream;
        size_t own = 0, waits = 0; /* own: one more than the last earlier launch on the same stream */
        touches[j] = touched_by(launch);
        for (size_t k = 0; k < j; k++)
            if (image->launches[k].stream == s)
                own = k + 1;
        if (own > 0)
            image->before[j] = image->before[own - 1] | UINT64_C(1) << (own - 1);
        for (size_t k = j; k-- > 0;) { /* the latest first: it often covers the others */
            const image_launch *earlier = &image->launches[k];
            bool needed = (launch->after >> k & 1) || must_be_ordered(&touches[k], &touches[j]);
            if (earlier->stream == s || !needed || (image->before[j] >> k & 1))
                continue;
            size_t when = own > k + 1 ? own : k + 1, last = k;
            for (size_t l = k; l < when; l++)
                if (image->launches[l].stream == earlier->stream)
                    last = l;
            image->launches[when].waits[s] |= stream_bit(earlier->stream);
            image->before[j] |= image->before[last] | UINT64_C(1) << last;
            waits++;
        }
        if (s > 0 && own == 0 && waits == 0) /* behind what the caller enqueued before, at least */
            image->launches[0].waits[s] |= 1U;
        if (s > 0)
            image->side_launches |= UINT64_C(1) << j;
        if (s + 1 > image->stream_count)
            image->stream_count = s + 1;
    }
}

mlpbwd_status plan_image_analyse(plan_image *image, mlp_message *why) {
    find_liveness(image);
    find_waits(image);
    for (size_t l = 0; l < image->launch_count; l++)
        if (image->launches[l].outputs == 0)
            return mlp_fail(why, MLPBWD_DATABASE_ERROR, "the stored plan's launch %zu (slot \"%s\") serves no output",
                            l, image->launches[l].slot);
    return MLPBWD_OK;
}

/* ---- workspace ---- */

static bool all_before(uint64_t users, uint64_t later_users, const uint64_t before[IMAGE_MAX_LAUNCHES]) {
    for (size_t l = 0; l < IMAGE_MAX_LAUNCHES; l++)
        if ((later_users >> l & 1) && (users & ~before[l]))
            return false;
    return true;
}

static bool overlaps(size_t a, size_t a_size, size_t b, size_t b_size) {
    return a < b + b_size && b < a + a_size;
}

mlpbwd_status plan_image_layout(plan_image *image, bool share_memory, mlp_message *why) {
    uint64_t users[IMAGE_MAX_BUFFERS] = {0};
    const uint64_t *before = image->before;
    size_t order[IMAGE_MAX_BUFFERS], total = 0;
    for (size_t l = 0; l < image->launch_count; l++)
        for (size_t a = 0; a < image->launches[l].argument_count; a++)
            if (image->launches[l].arguments[a].kind == ARGUMENT_BUFFER)
                users[image->launches[l].arguments[a].index] |= UINT64_C(1) << l;
    for (size_t i = 0; i < image->buffer_count; i++) { /* largest first, which wastes least */
        size_t *size = &image->buffers[i].size, at = i;
        *size = (*size + 255) / 256 * 256;
        if (__builtin_add_overflow(total, *size, &total) || total > (size_t)INT64_MAX)
            return mlp_fail(why, MLPBWD_UNSUPPORTED, "the workspace would have more than 2^63 bytes");
        for (; at > 0 && image->buffers[order[at - 1]].size < *size; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    image->workspace = 0;
    for (size_t i = 0; i < image->buffer_count; i++) {
        image_buffer *buffer = &image->buffers[order[i]];
        for (size_t j = 0; j < i; j++) {
            const image_buffer *placed = &image->buffers[order[j]];
            uint64_t ours = users[order[i]], theirs = users[order[j]];
            if (share_memory && (all_before(ours, theirs, before) || all_before(theirs, ours, before)))
                continue;
            if (overlaps(buffer->offset, buffer->size, placed->offset, placed->size)) {
                buffer->offset = placed->offset + placed->size;
                j = (size_t)-1; /* moved: all of them again */
            }
        }
        if (buffer->offset + buffer->size > image->workspace)
            image->workspace = buffer->offset + buffer->size;
    }
    return MLPBWD_OK;
}
