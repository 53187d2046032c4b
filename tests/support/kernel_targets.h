/* The loops that device tests share: every architecture, class and pipeline that a device can run, so that a template
 * is tested the day it lands; inputs and references kept between cases; a tally of what ran. */
#ifndef KERNEL_TARGETS_H
#define KERNEL_TARGETS_H

#include "kernel_harness.h"

/* Inputs and their reference, made once; owned by the cache. */
typedef struct test_fixture {
    test_inputs inputs;
    reference64 reference;
} test_fixture;

const test_fixture *test_fixture_get(test_sizes sizes, test_input_kind kind, int activation);
void test_fixtures_free(void);

/* What has run and failed. The first failures are printed as they come. */
typedef struct test_tally {
    int checks, failures;
} test_tally;

void test_tally_add(test_tally *tally, bool good, const char *sentence, const char *where);

/* One pipeline in one class on one architecture of the device's ladder. first: the best architecture. */
typedef struct kernel_target {
    gen_target target;
    const char *pipeline;
    bool first;
} kernel_target;

/* Calls visit for each; architectures without a template file are left out. The number of calls. */
int each_kernel_target(harness *h, void (*visit)(void *user, harness *h, const kernel_target *target), void *user);

/* "host x86-64-v4 fp32 host_fused". */
const char *kernel_target_name(harness *h, const kernel_target *target);

/* Runs one case of a plan and adds it to the tally. */
void check_case(harness *h, const kernel_target *target, const char *plan, const test_fixture *fixture, bool accumulate,
                unsigned outputs, test_tally *tally);

#endif
