/* Stored plans as one self-contained solution of NVIDIA SOL-ExecBench: CUDA C++ sources that nvcc compiles through
 * PyTorch's extension builder, and the solution.json that holds them.
 *
 * The schema of solution.json is that of https://github.com/NVIDIA/SOL-ExecBench, docs/solution.md and
 * src/sol_execbench/core/data/solution.py, package version 1.0.2, commit 8d2237d (2026-04-15). Its builder
 * (driver/templates/build_ext.py) gives every C++ and CUDA file that lies beside solution.json to
 * torch.utils.cpp_extension.load, so sources lie in no folders; the evaluator adds no -gencode where one is given. */
#ifndef MLP_EXPORT_H
#define MLP_EXPORT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "message.h"
#include "mlpbwd.h"

/* Compute capability of the benchmark's hardware, the B200 (solution.py: SupportedHardware). */
enum { EXPORT_BENCHMARK_CAPABILITY = 100 };

/* A stored plan (templates/README.md) and the T that it was looked up for. */
typedef struct export_plan {
    int64_t tokens;
    json_t *plan;
} export_plan;

typedef struct export_request {
    const export_plan *plans; /* by ascending T, at least one */
    size_t plan_count;
    const json_t *sources;  /* hash -> source text, of every module of the plans */
    const char *target;     /* what nvcc is told: "sm_" or "compute_" and a number */
    int compute_capability; /* of the target; 0: not known */
    int64_t hidden_size, intermediate_size;
    const char *accuracy; /* for the name */
} export_request;

/* *solution: the object of solution.json; its "sources" are the files. Equal requests give equal bytes. UNSUPPORTED
 * where a plan is no CUDA plan or says something that the solution's host code does not do; INVALID_ARGUMENT or
 * DATABASE_ERROR for a malformed plan. The message names the T, the launch and the reason. */
mlpbwd_status export_solution(const export_request *request, json_t **solution, mlp_message *why);

#endif
