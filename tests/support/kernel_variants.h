/* A fixed sample of the variants of every kernel that a device can run, one of each slot in turn within a time limit.
 */
#ifndef KERNEL_VARIANTS_H
#define KERNEL_VARIANTS_H

#include "kernel_targets.h"

enum { VARIANT_SHAPES = 4 };

typedef struct variant_sample {
    /* Each variant runs on all of them; every second run adds to old gradients and takes the other GELU form. The last
     * shape runs with the first form only. tokens < 0: left out. */
    test_sizes shapes[VARIANT_SHAPES];
    size_t wanted;        /* variants of a slot on the best architecture; one on lesser ones */
    bool lesser;          /* also on lesser architectures of the ladder */
    double limit_seconds; /* for all of them, unless MLPBWD_TEST_VARIANTS=all, which also takes every variant */
} variant_sample;

/* Adds to the tally and prints a line for each slot. The number of targets (pipeline, class, architecture) seen. */
int check_variants(harness *h, const variant_sample *sample, test_tally *tally);

#endif
