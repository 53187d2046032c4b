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

static void find_liveness(plan_image *image) {
    unsigned need[RESOURCES] = {0};
    for (unsigned output = 0; output < TENSOR_OUTPUTS; output++)
        need[TENSOR_INPUTS + output] = 1U << output;
    for (size_t l = image->launch_count; l-- > 0;) {
        image_launch *launch = &image->launches[l];
        unsigned part_needed[IMAGE_MAX_PARTS] = {0}, shared_need = 0;
        for (size_t a = 0; a < launch->argument_count; a++) {
            const image_argument *argument = &launch->arguments[a];
            if (argument->kind == ARGUMENT_CONSTANT || !argument->writes)
                continue;
            if (argument->part == 0)
                shared_need |= need[resource_of(argument)]; /* which part writes it is not said: all of them may */
            else
                part_needed[argument->part] |= need[resource_of(argument)];
        }
        launch->outputs = shared_need;
        for (size_t part = 1; part < IMAGE_MAX_PARTS; part++) {
            part_needed[part] |= shared_need;
            launch->outputs |= part_needed[part];
        }
        part_needed[0] = launch->outputs;
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

/* Decides which streams each launch waits for. A wait is for all that is enqueued on the other stream by then; one that
 * an earlier wait made true already is left out. reached[s][e] is one more than the last launch of stream e that stream
 * s is ordered behind. */
static void find_waits(plan_image *image) {
    size_t reached[IMAGE_MAX_STREAMS][IMAGE_MAX_STREAMS] = {{0}};
    size_t last[IMAGE_MAX_STREAMS] = {0}; /* one more than the stream's last launch so far */
    bool forked[IMAGE_MAX_STREAMS] = {true};
    image->stream_count = 1;
    for (size_t l = 0; l < image->launch_count; l++) {
        image_launch *launch = &image->launches[l];
        unsigned s = launch->stream, wanted = 0;
        if (!forked[s])
            launch->waits =
                1; /* the fork: also when the caller's stream holds nothing of ours, its earlier work counts */
        for (size_t e = 0; e < l; e++)
            if (launch->after >> e & 1)
                wanted |= 1U << image->launches[e].stream;
        for (unsigned e = 0; e < IMAGE_MAX_STREAMS; e++)
            if (e != s && (wanted >> e & 1) && reached[s][e] < last[e])
                launch->waits |= 1U << e;
        for (unsigned e = 0; e < IMAGE_MAX_STREAMS; e++) {
            if (!(launch->waits >> e & 1))
                continue;
            reached[s][e] = last[e];
            for (unsigned other = 0; other < IMAGE_MAX_STREAMS; other++)
                if (reached[s][other] < reached[e][other])
                    reached[s][other] = reached[e][other];
        }
        forked[s] = true;
        last[s] = l + 1;
        if (s > 0)
            image->side_launches |= UINT64_C(1) << l;
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

/* before[l]: launches that are complete when launch l starts, however the streams run. */
static void find_order(const plan_image *image, uint64_t before[IMAGE_MAX_LAUNCHES]) {
    uint64_t done[IMAGE_MAX_STREAMS] = {0}; /* complete once all that is enqueued on a stream is */
    for (size_t l = 0; l < image->launch_count; l++) {
        const image_launch *launch = &image->launches[l];
        before[l] = done[launch->stream];
        for (unsigned e = 0; e < IMAGE_MAX_STREAMS; e++)
            if (launch->waits >> e & 1)
                before[l] |= done[e];
        done[launch->stream] = before[l] | UINT64_C(1) << l;
    }
}

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
    uint64_t before[IMAGE_MAX_LAUNCHES] = {0}, users[IMAGE_MAX_BUFFERS] = {0};
    size_t order[IMAGE_MAX_BUFFERS], total = 0;
    find_order(image, before);
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
