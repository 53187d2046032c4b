/* Machine code that is loaded into one device context, by hash, so that plans of one library load it once. Not
 * thread-safe: a library uses it under its lock. */
#ifndef MLP_PLAN_MODULES_H
#define MLP_PLAN_MODULES_H

#include <jansson.h>
#include <stdbool.h>

#include "device/device.h"
#include "plan_image.h"

typedef struct plan_modules plan_modules;

/* context is borrowed and must outlive the result. NULL: out of memory. */
plan_modules *plan_modules_create(dev_context *context);
void plan_modules_destroy(plan_modules *modules); /* unloads all; NULL is harmless */

/* The module of one entry of a stored plan's "modules", from the cache, its machine code or (allow_compile) its source.
 * *out is owned by the cache. DATABASE_ERROR: a malformed entry; UNSUPPORTED: no machine code and no way to make it. */
mlpbwd_status plan_modules_get(plan_modules *modules, const json_t *entry, plan_blob_source blobs, void *user,
                               bool allow_compile, dev_module **out, mlp_message *why);

#endif
