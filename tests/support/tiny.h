/* A complete small backward pass for tests of the runtime: stored plans, databases that hold them, inputs, and what
 * must come out (float64, computed here from the formulas and from nothing under test). */
#ifndef TINY_H
#define TINY_H

#include <stdbool.h>

#include "db.h"
#include "device/device.h"
#include "mlpbwd.h"

/* A stored plan's JSON (malloc'ed). factor multiplies grad_hidden_states, so that tests see which plan ran.
 * code NULL: no machine code. */
typedef struct tiny_plan {
    const char *arch;
    const char *accuracy;      /* NULL: "tf32" */
    bool overlapped;           /* weight and bias gradients on a side stream */
    double factor;             /* 0: 1 */
    const char *source, *code; /* hashes */
} tiny_plan;
char *tiny_plan_json(const tiny_plan *plan);

/* The plainest architecture that the host's ladder has, which is also what the compiler is told. */
const char *tiny_host_arch(void);

/* The kernels' source text (malloc'ed). */
char *tiny_source(void);

/* Compiles the kernels for the host, once a process. False with the reason in *why: no compiler. */
bool tiny_compile(const dev_image **image, mlp_message *why);

/* Opens (creates) a database at path, puts source and, with_code, machine code into it; hashes are handed out. */
db *tiny_database(const char *path, bool with_code, char source[DB_HASH_CAPACITY], char code[DB_HASH_CAPACITY]);

/* A row for the given device ("" and 0: default), T (0: default), H and I (0: any), with valid range and plan. */
typedef struct tiny_row {
    const char *arch, *device_name;
    int units, compute_capability;
    int64_t tokens, hidden_size, intermediate_size, min_tokens, max_tokens; /* max 0: 2^31 - 1 */
    int accuracy;
    tiny_plan plan; /* arch and accuracy are the row's */
    double median_us;
} tiny_row;
void tiny_put(db *database, const tiny_row *row);

/* Makes a database file with one default row for the host, for any size and class. overlapped: as in tiny_plan. */
void tiny_default_database(const char *path, bool with_code, bool overlapped);

/* Inputs, outputs and expected outputs of one problem. Every pointer is 256-byte aligned. */
typedef struct tiny_case {
    mlpbwd_problem problem;
    mlpbwd_tensors tensors;
    double *expected[5];
    size_t counts[13]; /* elements, in the order of mlpbwd_tensors */
    void *memory;
} tiny_case;
void tiny_case_make(tiny_case *c, const mlpbwd_problem *problem);
void tiny_case_free(tiny_case *c);
/* Fills all outputs with a value. */
void tiny_case_fill(tiny_case *c, float value);
/* Frobenius relative error of one output (0..4) against expected + added. */
double tiny_case_error(const tiny_case *c, int output, double added);
float *tiny_output(const tiny_case *c, int output);

/* 256-byte aligned; NULL for 0 bytes. Released by free. */
void *tiny_aligned(size_t size);

#endif
