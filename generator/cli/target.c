#include <stdlib.h>
#include <string.h>

#include "generator.h"
#include "target.h"

static void copy(char *to, size_t capacity, const char *from) {
    (void)snprintf(to, capacity, "%s", from);
}

/* Keeps the ladder from `arch` on down; false when it is not on it. */
static bool ladder_from(dev_info *info, const char *arch) {
    for (size_t i = 0; i < info->ladder_length; i++) {
        if (strcmp(info->ladder[i], arch) == 0) {
            memmove(info->ladder[0], info->ladder[i], (info->ladder_length - i) * sizeof info->ladder[0]);
            info->ladder_length -= i;
            copy(info->arch, sizeof info->arch, info->ladder[0]);
            return true;
        }
    }
    return false;
}

static bool describe_capability(int capability, const char *arch, dev_info *info) {
    memset(info, 0, sizeof *info);
    info->ladder_length = dev_cuda_ladder(capability, info->ladder);
    if (!ladder_from(info, arch)) {
        return false;
    }
    copy(info->backend, sizeof info->backend, "cuda");
    info->compute_capability = capability;
    return true;
}

/* An architecture that the templates name: itself and its parents. */
static bool describe_from_templates(const char *arch, const cli_options *options, dev_info *info) {
    cli_options with_default = *options;
    gen *generator = NULL;
    mlp_message why;
    char folder[4096];
    if (gen_default_folder(folder, sizeof folder, &why) == MLPBWD_OK && folder[0] != '\0') {
        with_default.templates[with_default.template_count++] = folder;
    }
    if (with_default.template_count == 0 ||
        gen_open(with_default.templates, with_default.template_count, NULL, &generator, &why) != MLPBWD_OK) {
        return false;
    }
    memset(info, 0, sizeof *info);
    json_t *archs = gen_describe_archs(generator);
    const json_t *entry = json_object_get(archs, arch);
    if (entry != NULL) {
        const char *backend = json_string_value(json_object_get(entry, "backend"));
        copy(info->backend, sizeof info->backend, backend != NULL ? backend : "");
        info->compute_capability = (int)json_integer_value(json_object_get(entry, "compute_capability"));
    }
    const char *name = entry != NULL ? arch : NULL;
    while (name != NULL && info->ladder_length < DEV_MAX_LADDER) {
        copy(info->ladder[info->ladder_length++], sizeof info->ladder[0], name);
        name = json_string_value(json_object_get(json_object_get(archs, name), "parent"));
    }
    bool found = ladder_from(info, arch);
    json_decref(archs);
    gen_close(generator);
    return found;
}

static bool describe_arch(const char *arch, const cli_options *options, dev_info *info) {
    for (int capability = 50; capability <= 200; capability++) {
        if (describe_capability(capability, arch, info)) {
            return true;
        }
    }
    memset(info, 0, sizeof *info);
    info->ladder_length = dev_host_ladder(info->ladder);
    if (ladder_from(info, arch)) {
        copy(info->backend, sizeof info->backend, "host");
        return true;
    }
    return describe_from_templates(arch, options, info);
}

typedef struct known_device {
    const char *name;
    bool found;
    int units, capability;
    char arch[32];
    char names[1024]; /* of all devices seen, for the message */
} known_device;

static mlpbwd_status visit(void *user, const db_plan_row *row, mlp_message *why) {
    (void)why;
    known_device *known = user;
    if (row->device_name[0] == '\0') {
        return MLPBWD_OK;
    }
    if (strcmp(row->device_name, known->name) == 0) {
        if (!known->found) {
            known->found = true;
            known->units = row->units;
            known->capability = row->compute_capability;
            copy(known->arch, sizeof known->arch, row->arch);
        }
    } else if (strstr(known->names, row->device_name) == NULL) {
        size_t used = strlen(known->names);
        (void)snprintf(known->names + used, sizeof known->names - used, "%s\"%s\"", used > 0 ? ", " : "",
                       row->device_name);
    }
    return MLPBWD_OK;
}

mlpbwd_status target_describe(const char *name, db *const *databases, size_t count, const cli_options *options,
                              dev_info *info, mlp_message *why) {
    known_device known = {.name = name};
    db_plan_filter any = {.units = -1, .accuracy = -1, .tokens = -1, .hidden_size = -1, .intermediate_size = -1};
    for (size_t i = 0; i < count && !known.found; i++) {
        mlpbwd_status status = db_each_plan(databases[i], &any, visit, &known, why);
        if (status != MLPBWD_OK) {
            return status;
        }
    }
    bool described = false;
    if (known.found && known.capability > 0) {
        memset(info, 0, sizeof *info);
        info->ladder_length = dev_cuda_ladder(known.capability, info->ladder);
        copy(info->backend, sizeof info->backend, "cuda");
        copy(info->arch, sizeof info->arch, info->ladder_length > 0 ? info->ladder[0] : known.arch);
        info->compute_capability = known.capability;
        described = true;
    } else {
        described = describe_arch(known.found ? known.arch : name, options, info);
    }
    if (!described) {
        return mlp_fail(why, MLPBWD_NO_DEVICE,
                        "--device: '%s' is neither cuda:N nor host, no architecture (such as sm_90a) and no device "
                        "that the databases have rows of (%s)",
                        name, known.names[0] != '\0' ? known.names : "they have none");
    }
    copy(info->name, sizeof info->name, name);
    copy(info->id, sizeof info->id, name);
    info->units = known.found ? known.units : 0;
    return MLPBWD_OK;
}
