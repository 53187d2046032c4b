/* What a gen is made of; for the files of this folder. Lua values stay in the state's registry; everything that is not
 * a function is kept as JSON beside it. */
#ifndef MLP_GEN_H
#define MLP_GEN_H

#include <jansson.h>
#include <lua.h>

#include "files.h"
#include "generator.h"
#include "names.h"
#include "sandbox.h"
#include "values.h"

struct gen {
    template_files files;
    sandbox *box;
    json_t *features;   /* of lib/features.lua: name -> doc */
    json_t *roles;      /* of roles.def: name -> doc */
    json_t *archs;      /* name -> fields, inherited ones resolved; features: every name -> boolean */
    json_t *kernels;    /* name -> fields; functions are null */
    json_t *pipelines;  /* name -> fields */
    json_t *parameters; /* cache of kernel_parameters: "kernel role arch accuracy" -> list */
    json_t *checked;    /* "kernel role" whose parameters are all known to be read */
};

/* ---- arch.c ---- */
mlpbwd_status arch_load_all(gen *generator, mlp_message *why);
/* The arch's fields (borrowed), or INVALID_ARGUMENT naming those there are; also checks target->accuracy. */
mlpbwd_status arch_find(gen *generator, const gen_target *target, const json_t **arch, mlp_message *why);
/* NULL when arch has every feature of needs and accuracies names the class; else the reason, into text. */
const char *arch_refuses(const json_t *arch, int accuracy, const json_t *needs, const json_t *accuracies, char *text,
                         size_t capacity);

/* ---- template.c: running template files ---- */
/* Runs PATH and gives its table as JSON; the Lua table is kept for kernel_call. */
mlpbwd_status template_load(gen *generator, const char *path, json_t **fields, mlp_message *why);
/* Puts a kernel's or pipeline's fields into the list, with what every file may leave out: rank 100, no needs. */
mlpbwd_status template_keep(json_t *fields, const char *path, const char *name, json_t *list, mlp_message *why);
/* Calls visit for each FOLDER/NAME.lua, in the order of names. */
mlpbwd_status template_each(gen *generator, const char *folder,
                            mlpbwd_status (*visit)(gen *generator, const char *path, const char *name,
                                                   mlp_message *why),
                            mlp_message *why);
/* "a, b, c": the keys of an object, for messages. */
const char *template_names(const json_t *object, char *text, size_t capacity);

/* ---- kernel.c ---- */
mlpbwd_status kernel_load_all(gen *generator, mlp_message *why);

typedef struct kernel_use { /* one kernel in one role on one target */
    gen *generator;
    const char *kernel, *role;
    const gen_target *target;
    const json_t *fields, *arch; /* borrowed */
} kernel_use;

/* Checks names, role, needs and class. The strings must outlive use. */
mlpbwd_status kernel_use_init(kernel_use *use, gen *generator, const char *kernel, const char *role,
                              const gen_target *target, mlp_message *why);

/* Calls a function of the kernel: c, and problem where it is not NULL. member: "source"; or "values" / "default" with
 * index >= 0 of params. parameters NULL: reading any raises. reads (may be NULL): an object that gets the names read.
 * *result: what the function returned, as JSON; *reason (may be NULL): its second result when that is a text. */
typedef struct kernel_request {
    const char *member;
    int index;
    const json_t *parameters;
    const gen_problem *problem;
    json_t *reads;
} kernel_request;
mlpbwd_status kernel_call(const kernel_use *use, const kernel_request *request, json_t **result, json_t **reason,
                          mlp_message *why);

/* ---- parameters.c ---- */
/* The parameters of this use: list of {"name","values","default"}, borrowed from the cache. */
mlpbwd_status parameters_of(const kernel_use *use, const json_t **list, mlp_message *why);
/* Given values completed by defaults, checked against the lists; a new object with "kernel" left out. given may be
 * NULL. Does not call valid. */
mlpbwd_status parameters_complete(const kernel_use *use, const json_t *given, json_t **parameters, mlp_message *why);
/* *refusal: NULL, or why valid refuses (a new string). */
mlpbwd_status parameters_valid(const kernel_use *use, const json_t *parameters, json_t *reads, json_t **refusal,
                               mlp_message *why);
/* Every parameter is read by valid, workspace, source or launches for some variant on some target. */
mlpbwd_status parameters_check_read(const kernel_use *use, mlp_message *why);

/* ---- launches.c: one variant's operands, buffers and launches, checked ---- */
typedef struct kernel_variant {
    json_t *parameters; /* complete */
    json_t *operands;   /* [{name, access, optional}] */
    json_t *workspace;  /* [{name, size}] */
    json_t *launches;   /* [{entry, grid[3], block[3], shared, args}] */
    char *source;
} kernel_variant;

/* What `operands` says, checked; *operands is a new reference. */
mlpbwd_status kernel_operands(const kernel_use *use, json_t **operands, mlp_message *why);
/* given: parameters, may be NULL. INVALID_ARGUMENT with the reason when valid refuses. */
mlpbwd_status kernel_variant_make(const kernel_use *use, const json_t *given, json_t *reads, kernel_variant *variant,
                                  mlp_message *why);
void kernel_variant_free(kernel_variant *variant);
/* Checks an expression's text (or integer); gives it as a new JSON string. */
mlpbwd_status expression_text(const json_t *value, const char *label, json_t **text, mlp_message *why);

/* ---- pipeline.c ---- */
mlpbwd_status pipeline_load_all(gen *generator, mlp_message *why);
/* The pipeline's fields (borrowed) if it exists and target has what it needs. */
mlpbwd_status pipeline_find(gen *generator, const char *pipeline, const gen_target *target, const json_t **fields,
                            mlp_message *why);
/* Kernels that can do a step (borrowed from its list) on target, default first. Empty: *why says why none can. */
mlpbwd_status pipeline_kernels(gen *generator, const char *pipeline, const json_t *step, const gen_target *target,
                               json_t **names, mlp_message *why);
/* 'i': an input of mlpbwd_tensors, 'o': an output, 0: neither. */
char pipeline_tensor(const char *name);

/* ---- order.c ---- */
/* steps with "operands" [{name, access}] resolved per step (parallel lists): each buffer written before it is read, and
 * accesses of one buffer on two streams ordered by `after`. */
mlpbwd_status order_check(const char *pipeline, const json_t *steps, const json_t *operands, mlp_message *why);

#endif
