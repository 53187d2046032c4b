/* A stored plan (JSON, templates/README.md) turned into what execute needs, for one problem on one device context:
 * evaluated geometry and sizes, loaded functions, argument slots, and for every pointer which of the five outputs
 * need it. Also used by the tuner, which runs plans that are in no database yet, in whole or one slot at a time. */
#ifndef MLP_PLAN_IMAGE_H
#define MLP_PLAN_IMAGE_H

#include <stdbool.h>

#include "device/device.h"
#include "message.h"
#include "mlpbwd.h"

typedef struct plan_image plan_image;

/* The five outputs as bits, in the order of mlpbwd_tensors. */
enum {
    OUTPUT_GRAD_HIDDEN_STATES = 1,
    OUTPUT_GRAD_WEIGHT1 = 2,
    OUTPUT_GRAD_BIAS1 = 4,
    OUTPUT_GRAD_WEIGHT2 = 8,
    OUTPUT_GRAD_BIAS2 = 16,
    OUTPUT_ALL = 31
};

/* Gives the machine code or source text of a hash: malloc'ed bytes, NUL-terminated behind size, or OK and NULL if
 * absent. */
typedef mlpbwd_status (*plan_blob_source)(void *user, const char *hash, void **bytes, size_t *size, mlp_message *why);

/* Loads every module, so that nothing is left to load at execute. A module without code: compiled from its source if
 * allow_compile, else UNSUPPORTED with the reason. The caller keeps the context until after plan_image_destroy. T = 0:
 * plan_json may be NULL, nothing is loaded. A plan whose architecture the device does not run, or whose geometry does
 * not fit its types at this size, is UNSUPPORTED; a malformed one DATABASE_ERROR. Every buffer has memory of its own
 * (plans of a library may share it between buffers, so that slots cannot be run alone there). */
mlpbwd_status plan_image_create(const char *plan_json, const mlpbwd_problem *problem, dev *device, dev_context *context,
                                plan_blob_source blobs, void *user, bool allow_compile, plan_image **out,
                                mlp_message *why);
void plan_image_destroy(plan_image *image); /* NULL is harmless */

/* Bytes. */
size_t plan_image_workspace(const plan_image *image);
/* Launches in list order; their slots' names are the image's. */
size_t plan_image_launch_count(const plan_image *image);
const char *plan_image_launch_slot(const plan_image *image, size_t launch);
/* Outputs (bits) that need this launch. */
unsigned plan_image_launch_outputs(const plan_image *image, size_t launch);
/* Registers and memory of the launch's kernel. */
dev_function_info plan_image_launch_function(const plan_image *image, size_t launch);

/* mlpbwd_execute without its argument checks. slot NULL: the whole pass, side streams included; else only that slot's
 * launches, on `stream`, as they would run if every output of tensors were wanted (the buffers they read must hold what
 * an earlier whole run left there). T = 0 is handled here. */
mlpbwd_status plan_image_run(const plan_image *image, const mlpbwd_tensors *tensors, void *workspace, const char *slot,
                             dev_stream stream, mlp_message *why);

/* Inputs (bit i = i-th pointer of mlpbwd_tensors) that must not be NULL when these outputs are wanted. */
unsigned plan_image_required_inputs(const plan_image *image, unsigned outputs);

#endif
