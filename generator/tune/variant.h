/* The variants of a sweep, each made once: what space.c chooses from. */
#ifndef MLP_VARIANT_H
#define MLP_VARIANT_H

#include "sweep.h"

typedef struct slot_of {
    const char *pipeline, *slot, *role;
} slot_of;

/* Finds the sweep's variant of these parameters (with "kernel") in this slot or makes it, with its plan, whose sources
 * it takes note of. The variant belongs to the sweep (space_free). Fails without memory, or as gen_build_plan does,
 * with the variant named. */
mlpbwd_status variant_get(sweep *s, const slot_of *where, json_t *parameters, variant **out, mlp_message *why);

/* The variant's seeded pseudo-random rank; needs no plan. canonical: as sweep_canonical_parameters. */
uint64_t variant_order(const sweep *s, const char *kernel, const char *canonical);

#endif
