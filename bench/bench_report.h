/* What `bench` makes of its measurements. */
#ifndef MLP_BENCH_REPORT_H
#define MLP_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Adds "share" to the rows and "geomean" to the result: over the shapes (each T as often as it has shapes), of ours,
 * the roofline and every peer that was measured at every T; and "gemms" (four GEMM slots of ours) where slots were
 * timed. */
void bench_summarise(json_t *result);
bool bench_all_measured(const json_t *result);
void bench_print(FILE *out, const json_t *result);

/* A name that --peer takes. */
bool bench_is_peer(const char *name);
/* Where peers_torch.py is: `named`, or beside the templates. False: nowhere. */
bool bench_torch_script(const char *named, char *path, size_t capacity);

#endif
