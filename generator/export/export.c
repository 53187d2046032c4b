/* The solution as a whole: files and solution.json. */
#include "export_private.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char definition[] = "073_feedforward_mlp_backward";

static mlpbwd_status no_memory(mlp_message *why) {
    return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory while exporting");
}

int export_is_identifier(const char *text) {
    if (!isalpha((unsigned char)text[0]) && text[0] != '_') {
        return 0;
    }
    while (isalnum((unsigned char)*text) || *text == '_') {
        text++;
    }
    return *text == '\0';
}

mlpbwd_status export_add_file(export_state *state, const char *path, char *text, mlp_message *why) {
    json_t *file = text != NULL ? json_pack("{s:s, s:s}", "path", path, "content", text) : NULL;
    free(text);
    return json_array_append_new(state->files, file) == 0 ? MLPBWD_OK : no_memory(why);
}

static mlpbwd_status add_fixed_files(export_state *state, mlp_message *why) {
    mlpbwd_status status = MLPBWD_OK;
    for (const export_text *text = export_texts; text->path != NULL && status == MLPBWD_OK; text++) {
        status = export_add_file(state, text->path, strdup(text->content), why);
    }
    return status;
}

/* "-gencode=arch=compute_N,code=TARGET" for "sm_N" and "compute_N". NULL: neither, or no memory. */
static char *gencode_flag(const char *target) {
    static const char *const prefixes[] = {"sm_", "compute_"};
    char *flag = NULL;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t length = strlen(prefixes[i]);
        if (strncmp(target, prefixes[i], length) == 0 && isdigit((unsigned char)target[length]) &&
            export_is_identifier(target) &&
            asprintf(&flag, "-gencode=arch=compute_%s,code=%s", target + length, target) < 0) {
            return NULL;
        }
    }
    return flag;
}

static json_t *make_spec(const export_request *request) {
    char *gencode = gencode_flag(request->target);
    /* Of the schema's hardware: what is no B200 can only be the machine that the benchmark runs on. */
    const char *hardware = request->compute_capability == EXPORT_BENCHMARK_CAPABILITY ? "B200" : "LOCAL";
    json_t *spec = json_pack("{s:[s], s:[s], s:s, s:[], s:b, s:s, s:{s:[s, s], s:[s, s, s], s:[]}}", "languages",
                             "cuda_cpp", "target_hardware", hardware, "entry_point", "mlpbwd_run.cpp::run",
                             "dependencies", "destination_passing_style", 1, "binding", "torch", "compile_options",
                             "cflags", "-O2", "-std=c++17", "cuda_cflags", "-O3", "-std=c++17", gencode, "ld_flags");
    free(gencode);
    return spec;
}

static json_t *make_solution(const export_state *state, mlp_message *why) {
    const export_request *request = state->request;
    char name[128], description[512];
    (void)snprintf(name, sizeof name, "mlpbwd_%s_%s", request->accuracy, request->target);
    (void)snprintf(
        description, sizeof description,
        "mlpbwd %s: autotuned kernels of accuracy class %s for %s, %zu plans of %zu kernels in all; the plan "
        "of the nearest tuned number of tokens serves a call.",
        mlpbwd_version(), request->accuracy, request->target, state->distinct_count, state->kernel_count);
    json_t *solution =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:O}", "name", name, "definition", definition, "author", "mlpbwd",
                  "description", description, "spec", make_spec(request), "sources", state->files);
    if (solution == NULL) {
        (void)no_memory(why);
    }
    return solution;
}

static mlpbwd_status check_target(const export_request *request, mlp_message *why) {
    char *gencode = gencode_flag(request->target);
    free(gencode);
    return gencode != NULL ? MLPBWD_OK
                           : mlp_fail(why, MLPBWD_UNSUPPORTED,
                                      "nothing can be exported for %.64s: a solution is CUDA C++ that nvcc compiles, "
                                      "and nvcc has no such target",
                                      request->target);
}

mlpbwd_status export_solution(const export_request *request, json_t **solution, mlp_message *why) {
    *solution = NULL;
    mlpbwd_status status = check_target(request, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    export_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return no_memory(why);
    }
    state->request = request;
    state->files = json_array();
    state->source_hash = calloc(EXPORT_MAX_KERNELS, sizeof *state->source_hash);
    state->source_slot = calloc(EXPORT_MAX_KERNELS, sizeof *state->source_slot);
    if (state->files == NULL || state->source_hash == NULL || state->source_slot == NULL) {
        status = no_memory(why);
    }
    if (status == MLPBWD_OK) {
        status = add_fixed_files(state, why);
    }
    if (status == MLPBWD_OK) {
        status = export_plan_file(state, why);
    }
    if (status == MLPBWD_OK) {
        status = export_kernel_files(state, why);
    }
    if (status == MLPBWD_OK) {
        *solution = make_solution(state, why);
        status = *solution != NULL ? MLPBWD_OK : MLPBWD_OUT_OF_MEMORY;
    }
    json_decref(state->files);
    free(state->source_hash);
    free(state->source_slot);
    free(state);
    return status;
}
