/* Runs emitted kernels on a device as the tuner and the library do: plans from the templates, compiled here, checked
 * against the float64 reference with poisoned outputs and workspace and a guard around every buffer. */
#ifndef KERNEL_HARNESS_H
#define KERNEL_HARNESS_H

#include <jansson.h>
#include <stdbool.h>

#include "device/device.h"
#include "generator.h"
#include "plan_image.h"
#include "reference64.h"

typedef struct harness harness;

/* NULL: the device does not open here, *why says so. Anything else that fails ends the test program. */
harness *harness_open(const char *device, mlp_message *why);
/* The same, with a folder of templates that is searched first: NULL, or one with changed copies. */
harness *harness_open_changed(const char *device, const char *folder, mlp_message *why);
void harness_close(harness *h); /* NULL is harmless */

gen *harness_generator(harness *h);
const dev_info *harness_device(harness *h);
/* Files compiled so far (equal sources for one target are compiled once). */
size_t harness_compiled(const harness *h);

/* Emits and compiles a pass; selection as in gen_build_plan, may be NULL. *plan is malloc'ed stored-plan text. */
mlpbwd_status harness_build(harness *h, const char *pipeline, const gen_target *target, const json_t *selection,
                            char **plan, mlp_message *why);

/* For emulated devices, where runs are most of the time: from now on one check of four has two runs, the others one,
 * with the two kinds of bytes in the workspace in turn. */
void harness_spare_runs(harness *h);

typedef struct harness_case {
    const test_inputs *inputs;
    const reference64 *reference; /* of the same inputs; its activation is the one that runs */
    int accuracy;
    bool accumulate;
    unsigned outputs; /* OUTPUT_... bits; the others are NULL, and so are the inputs that only they read */
} harness_case;

/* Loads the plan for the case's problem, runs it twice with different bytes in the workspace, and checks: guards and
 * inputs untouched, outputs within tolerance_check, both runs bit for bit equal. False: sentence says what was wrong.
 */
bool harness_check(harness *h, const char *plan, const harness_case *c, char *sentence, size_t capacity);
/* One output (OUT_...) of the last check, in host memory until the next one; only if that check was good. */
const float *harness_output(const harness *h, int output);

#endif
