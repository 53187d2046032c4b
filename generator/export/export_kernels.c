/* Kernel sources as .cu files. Each is the emitted text in a namespace of its own, so that helpers of equal names in
 * other files do not meet it, with C++ instead of C linkage for its entries, which have equal names, too. */
#include "export_private.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

static mlpbwd_status find_source(export_state *state, const json_t *module, const char *slot, size_t *index,
                                 mlp_message *why) {
    const char *hash = text_of(module, "source"), *compiler = text_of(module, "compiler");
    if (strcmp(compiler, "nvrtc") != 0) {
        return mlp_fail(why, MLPBWD_UNSUPPORTED,
                        "slot \"%s\": its source is for the compiler \"%.32s\" and not CUDA C++; a plan for a GPU's "
                        "architecture would be right",
                        slot, compiler);
    }
    if (!json_is_string(json_object_get(state->request->sources, hash))) {
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "slot \"%s\": the source text %.64s is missing", slot, hash);
    }
    for (*index = 0; *index < state->source_count; ++*index) {
        if (strcmp(state->source_hash[*index], hash) == 0) {
            return MLPBWD_OK;
        }
    }
    state->source_hash[*index] = hash;
    state->source_slot[*index] = slot;
    state->source_count++;
    return MLPBWD_OK;
}

mlpbwd_status export_find_kernel(export_state *state, const json_t *plan, const json_t *launch, size_t *kernel,
                                 mlp_message *why) {
    const char *entry = text_of(launch, "entry"), *slot = text_of(launch, "slot");
    const json_t *module =
        json_array_get(json_object_get(plan, "modules"), (size_t)json_integer_value(json_object_get(launch, "module")));
    size_t source = 0;
    if (!export_is_identifier(entry) || !export_is_identifier(slot)) {
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "slot \"%s\", entry \"%s\": both must be C identifiers", slot, entry);
    }
    if (state->kernel_count == EXPORT_MAX_KERNELS) {
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "the plans have more than %d different kernels", EXPORT_MAX_KERNELS);
    }
    mlpbwd_status status = find_source(state, module, slot, &source, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    for (*kernel = 0; *kernel < state->kernel_count; ++*kernel) {
        const export_kernel *known = &state->kernels[*kernel];
        if (known->source == source && strcmp(known->entry, entry) == 0) {
            return MLPBWD_OK;
        }
    }
    state->kernels[*kernel] = (export_kernel){source, entry};
    state->kernel_count++;
    return MLPBWD_OK;
}

static void write_with_cpp_linkage(FILE *out, const char *text) {
    static const char linkage[] = "extern \"C\"";
    for (const char *found = strstr(text, linkage); found != NULL; found = strstr(text, linkage)) {
        (void)fprintf(out, "%.*sextern \"C++\"", (int)(found - text), text);
        text = found + sizeof linkage - 1;
    }
    (void)fputs(text, out);
}

static mlpbwd_status add_source_file(export_state *state, size_t source, mlp_message *why) {
    char path[256];
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) {
        return export_add_file(state, "", NULL, why);
    }
    (void)fprintf(out,
                  "// Emitted by mlpbwd %s; SHA-256 of the text between the braces of the namespace, with\n"
                  "// extern \"C\" for its entries: %s\n"
                  "namespace mlpbwd_kernel_%02zu {\n",
                  mlpbwd_version(), state->source_hash[source], source);
    write_with_cpp_linkage(out, text_of(state->request->sources, state->source_hash[source]));
    (void)fputs("} // namespace\n\n", out);
    for (size_t k = 0; k < state->kernel_count; k++) {
        if (state->kernels[k].source == source) {
            (void)fprintf(out,
                          "const void *mlpbwd_kernel_%02zu_%s() {\n"
                          "    return reinterpret_cast<const void *>(&mlpbwd_kernel_%02zu::%s);\n"
                          "}\n",
                          source, state->kernels[k].entry, source, state->kernels[k].entry);
        }
    }
    if (fclose(out) != 0) {
        free(text);
        text = NULL;
    }
    (void)snprintf(path, sizeof path, "kernel_%02zu_%s.cu", source, state->source_slot[source]);
    return export_add_file(state, path, text, why);
}

static mlpbwd_status add_table(export_state *state, mlp_message *why) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) {
        return export_add_file(state, "", NULL, why);
    }
    (void)fputs("// Generated: the kernels that launches name by index.\n#include \"mlpbwd_kernels.hpp\"\n\n", out);
    for (size_t k = 0; k < state->kernel_count; k++) {
        const export_kernel *kernel = &state->kernels[k];
        (void)fprintf(out, "const void *mlpbwd_kernel_%02zu_%s();\n", kernel->source, kernel->entry);
    }
    (void)fputs("\nnamespace mlpbwd {\n\nconst kernel kernels[] = {\n", out);
    for (size_t k = 0; k < state->kernel_count; k++) {
        const export_kernel *kernel = &state->kernels[k];
        (void)fprintf(out, "    {\"%s of kernel_%02zu_%s.cu\", mlpbwd_kernel_%02zu_%s},\n", kernel->entry,
                      kernel->source, state->source_slot[kernel->source], kernel->source, kernel->entry);
    }
    (void)fprintf(out, "};\nconst int kernel_count = %zu;\n\n} // namespace mlpbwd\n", state->kernel_count);
    if (fclose(out) != 0) {
        free(text);
        text = NULL;
    }
    return export_add_file(state, "mlpbwd_kernels.cpp", text, why);
}

mlpbwd_status export_kernel_files(export_state *state, mlp_message *why) {
    mlpbwd_status status = add_table(state, why);
    for (size_t i = 0; i < state->source_count && status == MLPBWD_OK; i++) {
        status = add_source_file(state, i, why);
    }
    return status;
}
