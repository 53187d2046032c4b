#include "plan_modules.h"

#include <stdlib.h>
#include <string.h>

typedef struct loaded {
    struct loaded *next;
    char *key;
    dev_module *module;
} loaded;

struct plan_modules {
    dev_context *context;
    loaded *first;
};

plan_modules *plan_modules_create(dev_context *context) {
    plan_modules *modules = calloc(1, sizeof *modules);
    if (modules)
        modules->context = context;
    return modules;
}

void plan_modules_destroy(plan_modules *modules) {
    if (!modules)
        return;
    while (modules->first) {
        loaded *item = modules->first;
        modules->first = item->next;
        dev_module_unload(item->module);
        free(item->key);
        free(item);
    }
    free(modules);
}

/* Takes `module` over, also on failure. */
static mlpbwd_status keep(plan_modules *modules, const char *key, dev_module *module, mlp_message *why) {
    loaded *item = calloc(1, sizeof *item);
    char *copy = strdup(key);
    if (!item || !copy) {
        free(item);
        free(copy);
        dev_module_unload(module);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory to remember a loaded module");
    }
    *item = (loaded){.next = modules->first, .key = copy, .module = module};
    modules->first = item;
    return MLPBWD_OK;
}

static mlpbwd_status load_code(plan_modules *modules, const char *hash, const char *format, plan_blob_source blobs,
                               void *user, dev_module **out, mlp_message *why) {
    void *bytes = NULL;
    size_t size = 0;
    *out = NULL;
    mlpbwd_status status = blobs(user, hash, &bytes, &size, why);
    if (status == MLPBWD_OK && bytes)
        status = dev_module_load(modules->context, bytes, size, format, out, why);
    free(bytes);
    return status;
}

static mlpbwd_status compile(plan_modules *modules, const dev_compile_request *request, dev_module **out,
                             mlp_message *why) {
    dev_image image = {0};
    mlpbwd_status status = dev_compile(request, &image, why);
    if (status == MLPBWD_OK)
        status = dev_module_load(modules->context, image.bytes, image.size, image.format, out, why);
    dev_image_free(&image);
    return status;
}

static mlpbwd_status compile_source(plan_modules *modules, const char *hash, const json_t *entry, const char *slot,
                                    plan_blob_source blobs, void *user, dev_module **out, mlp_message *why) {
    const char *compiler = json_string_value(json_object_get(entry, "compiler"));
    const char *target = json_string_value(json_object_get(entry, "target"));
    if (!compiler || !target)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "the stored plan's module of slot \"%s\" lacks \"compiler\" or \"target\"", slot);
    void *source = NULL;
    size_t size = 0;
    mlpbwd_status status = blobs(user, hash, &source, &size, why);
    if (status == MLPBWD_OK && !source)
        status = mlp_fail(why, MLPBWD_UNSUPPORTED,
                          "slot \"%s\" has no machine code, and its source %.12s is in no database", slot, hash);
    if (status == MLPBWD_OK) {
        const dev_compile_request request = {
            .compiler = dev_compiler_of(modules->context, compiler), .target = target, .source = source, .name = slot};
        status = compile(modules, &request, out, why);
    }
    free(source);
    return status;
}

mlpbwd_status plan_modules_get(plan_modules *modules, const json_t *entry, plan_blob_source blobs, void *user,
                               bool allow_compile, dev_module **out, mlp_message *why) {
    const char *slot = json_string_value(json_object_get(entry, "slot"));
    const char *code = json_string_value(json_object_get(entry, "code"));
    const char *source = json_string_value(json_object_get(entry, "source"));
    const char *format = json_string_value(json_object_get(entry, "code_format"));
    if (!slot || !source || (code && !format))
        return mlp_fail(why, MLPBWD_DATABASE_ERROR,
                        "a module of the stored plan lacks one of \"slot\", \"source\" and \"code_format\"");
    const char *compiler = json_string_value(json_object_get(entry, "compiler"));
    bool foreign = code && compiler && strcmp(dev_compiler_of(modules->context, compiler), compiler) != 0;
    if (foreign)
        code = NULL; /* what an architecture's own compiler made does not run on an emulated device */
    for (loaded *item = modules->first; item; item = item->next)
        if ((code && strcmp(item->key, code) == 0) || (!code && strcmp(item->key, source) == 0)) {
            *out = item->module;
            return MLPBWD_OK;
        }
    dev_module *module = NULL;
    const char *key = code;
    mlpbwd_status status = code ? load_code(modules, code, format, blobs, user, &module, why) : MLPBWD_OK;
    if (status == MLPBWD_OK && !module) {
        if (!allow_compile)
            return mlp_fail(why, MLPBWD_UNSUPPORTED,
                            "slot \"%s\" has no machine code (%s), and MLPBWD_FLAG_ALLOW_COMPILE was not given", slot,
                            code      ? "its code is in no database"
                            : foreign ? "its code is not for this device"
                                      : "it was stored on a machine without its compiler");
        key = code ? code : source;
        status = compile_source(modules, source, entry, slot, blobs, user, &module, why);
    }
    if (status != MLPBWD_OK) {
        mlp_prefix(why, "kernel of slot \"%s\"", slot);
        return status;
    }
    status = keep(modules, key, module, why);
    if (status == MLPBWD_OK)
        *out = module;
    return status;
}
