/* `mlpbwd emit`: the text of any kernel variant, its launches, and what can be set. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "generator.h"

typedef struct emit_options {
    cli_options common; /* first: see cli_parse */
    const char *kernel, *role, *arch;
    json_t *parameters;
    bool launches, list;
} emit_options;

enum { KEY_KERNEL = 1, KEY_ROLE, KEY_ARCH, KEY_SET, KEY_LAUNCHES, KEY_LIST };

static const struct argp_option own_options[] = {
    {"kernel", KEY_KERNEL, "K", 0, "A kernel of the templates (see --list)", 0},
    {"role", KEY_ROLE, "R", 0, "One of the kernel's roles (default: its first)", 0},
    {"arch", KEY_ARCH, "A", 0, "A templates/arch name, such as sm_90a", 0},
    {"set", KEY_SET, "NAME=VALUE", 0, "Sets a parameter; may be repeated. What is not set has its default", 0},
    {"launches", KEY_LAUNCHES, NULL, 0,
     "Print the launches and buffers of the default pipeline's plan with this "
     "variant instead of the text, as JSON",
     0},
    {"list", KEY_LIST, NULL, 0, "List architectures, pipelines and kernels with their parameters", 0},
    {0},
};

/* A parameter's value as Lua would have it: a whole number, true or false, else text. */
static json_t *value_of(const char *text) {
    int64_t number = 0;
    if (cli_read_integer(text, INT64_MIN, INT64_MAX, &number)) {
        return json_integer(number);
    }
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        return json_boolean(text[0] == 't');
    }
    return json_string(text);
}

static void parse_set(const struct argp_state *state, emit_options *options, char *argument) {
    char *equals = strchr(argument, '=');
    if (equals == NULL || equals == argument) {
        argp_error(state, "--set: '%s' is not name=value", argument);
        return;
    }
    json_t *value = value_of(equals + 1);
    if (value == NULL) {
        argp_error(state, "--set: the value of '%s' is not valid UTF-8 text", argument);
        return;
    }
    *equals = '\0';
    if (json_object_get(options->parameters, argument) != NULL) {
        argp_error(state, "--set: %s is given twice", argument);
    }
    if (json_object_set_new(options->parameters, argument, value) != 0) {
        argp_error(state, "--set: '%s' is not a parameter's name", argument);
    }
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    emit_options *options = state->input;
    switch (key) {
    case KEY_KERNEL:
        options->kernel = argument;
        return 0;
    case KEY_ROLE:
        options->role = argument;
        return 0;
    case KEY_ARCH:
        options->arch = argument;
        return 0;
    case KEY_SET:
        parse_set(state, options, argument);
        return 0;
    case KEY_LAUNCHES:
        options->launches = true;
        return 0;
    case KEY_LIST:
        options->list = true;
        return 0;
    case ARGP_KEY_END:
        if (!options->list && (options->kernel == NULL || options->arch == NULL)) {
            argp_error(state, "--kernel K and --arch A say which variant; --list shows what there is");
        }
        if (options->common.json && !options->list && !options->launches) {
            argp_error(state, "--json goes with --list or --launches: a kernel's text has no other form");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

static void print_parameters(FILE *out, const json_t *kernel) {
    size_t index = 0;
    json_t *parameter = NULL;
    json_array_foreach(json_object_get(kernel, "params"), index, parameter) {
        char *values = json_dumps(json_object_get(parameter, "values"), JSON_ENCODE_ANY | JSON_COMPACT);
        char *chosen = json_dumps(json_object_get(parameter, "default"), JSON_ENCODE_ANY | JSON_COMPACT);
        (void)fprintf(out, "    %-18s %s", text(parameter, "name"), text(parameter, "doc"));
        if (values != NULL) {
            (void)fprintf(out, "; one of %s", values);
        }
        if (chosen != NULL) {
            (void)fprintf(out, "; default %s", chosen);
        }
        (void)fputc('\n', out);
        free(values);
        free(chosen);
    }
}

static void print_list(FILE *out, const json_t *result) {
    static const char *const sections[] = {"archs", "pipelines", "kernels"};
    static const char *const titles[] = {"Architectures", "Pipelines", "Kernels"};
    for (size_t i = 0; i < 3; i++) {
        (void)fprintf(out, "%s%s\n", i > 0 ? "\n" : "", titles[i]);
        const char *name = NULL;
        json_t *entry = NULL;
        json_object_foreach(json_object_get(result, sections[i]), name, entry) {
            (void)fprintf(out, "  %-20s %s\n", name, text(entry, "doc"));
            size_t index = 0;
            json_t *role = NULL;
            json_array_foreach(json_object_get(entry, "roles"), index, role) {
                (void)fprintf(out, "%s%s", index == 0 ? "    for " : ", ", json_string_value(role));
            }
            if (index > 0) {
                (void)fputc('\n', out);
            }
            print_parameters(out, entry);
        }
    }
}

static const char *first_role(const json_t *kernels, const char *kernel) {
    return json_string_value(json_array_get(json_object_get(json_object_get(kernels, kernel), "roles"), 0));
}

static bool has_role(const json_t *slot, const char *role, const char *kernel) {
    size_t index = 0;
    json_t *name = NULL;
    if (strcmp(text(slot, "role"), role) != 0) {
        return false;
    }
    json_array_foreach(json_object_get(slot, "kernels"), index, name) {
        if (strcmp(json_string_value(name), kernel) == 0) {
            return true;
        }
    }
    return false;
}

/* The first pipeline with a slot for the kernel in the role, with the variant in every such slot. */
static mlpbwd_status plan_with(gen *generator, const emit_options *options, const char *role, const gen_target *target,
                               json_t **plan, mlp_message *why) {
    json_t *pipelines = NULL;
    mlpbwd_status status = gen_pipelines_for(generator, target, &pipelines, why);
    size_t index = 0;
    json_t *pipeline = NULL;
    bool served = false;
    json_array_foreach(pipelines, index, pipeline) {
        json_t *slots = NULL;
        status = gen_slots(generator, json_string_value(pipeline), target, &slots, why);
        json_t *selection = json_object();
        size_t k = 0;
        json_t *slot = NULL;
        json_array_foreach(slots, k, slot) {
            if (has_role(slot, role, options->kernel)) {
                json_t *variant = json_copy(options->parameters);
                (void)json_object_set_new(variant, "kernel", json_string(options->kernel));
                (void)json_object_set_new(selection, text(slot, "slot"), variant);
            }
        }
        if (status == MLPBWD_OK && json_object_size(selection) > 0) {
            json_t *sources = NULL;
            served = true;
            status = gen_build_plan(generator, json_string_value(pipeline), target, selection, plan, &sources, why);
            json_decref(sources);
        }
        json_decref(selection);
        json_decref(slots);
        if (status != MLPBWD_OK || served) {
            break;
        }
    }
    json_decref(pipelines);
    if (status == MLPBWD_OK && !served) {
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "no pipeline for %s has a place for kernel %s in role %s",
                        target->arch, options->kernel, role);
    }
    return status;
}

static int print_text(const emit_options *options, const char *content) {
    cli_file file;
    if (cli_file_open(&file, options->common.output) != EXIT_DONE) {
        return EXIT_FAILED;
    }
    (void)fputs(content, file.stream);
    return cli_file_close(&file, true);
}

/* Whether it was a name or a value on the command line that was refused, rather than a template that is broken. */
static bool is_usage(gen *generator, const emit_options *options, const char *role, const gen_target *target) {
    json_t *archs = gen_describe_archs(generator);
    json_t *kernels = gen_describe_kernels(generator);
    const json_t *roles = json_object_get(json_object_get(kernels, options->kernel), "roles");
    bool known = false;
    size_t index = 0;
    json_t *name = NULL;
    json_array_foreach(roles, index, name) {
        known = known || strcmp(json_string_value(name), role) == 0;
    }
    known = known && json_object_get(archs, options->arch) != NULL;
    json_decref(archs);
    json_decref(kernels);
    char *standard = NULL;
    mlp_message ignored;
    bool refused = known && json_object_size(options->parameters) > 0 &&
                   gen_emit(generator, options->kernel, role, target, NULL, &standard, &ignored) == MLPBWD_OK;
    free(standard);
    return !known || refused;
}

static int emit_variant(gen *generator, const emit_options *options) {
    gen_target target = {options->arch, options->common.accuracy < 0 ? 0 : options->common.accuracy};
    json_t *kernels = gen_describe_kernels(generator);
    const char *role = options->role != NULL ? options->role : first_role(kernels, options->kernel);
    mlp_message why = {""};
    char *content = NULL;
    mlpbwd_status status = MLPBWD_OK;
    if (role == NULL) {
        status = mlp_fail(&why, MLPBWD_INVALID_ARGUMENT,
                          "--kernel: there is no kernel '%s'; `mlpbwd emit --list` "
                          "shows what there is",
                          options->kernel);
    } else if (options->launches) {
        json_t *plan = NULL;
        status = plan_with(generator, options, role, &target, &plan, &why);
        if (status == MLPBWD_OK) {
            json_t *shown = json_pack("{s:O, s:O, s:O, s:O}", "pipeline", json_object_get(plan, "pipeline"),
                                      "parameters", json_object_get(plan, "parameters"), "buffers",
                                      json_object_get(plan, "buffers"), "launches", json_object_get(plan, "launches"));
            char *dumped = json_dumps(shown, JSON_INDENT(2));
            content = NULL;
            if (dumped == NULL || asprintf(&content, "%s\n", dumped) < 0) {
                content = NULL;
            }
            free(dumped);
            json_decref(shown);
        }
        json_decref(plan);
    } else {
        status = gen_emit(generator, options->kernel, role, &target, options->parameters, &content, &why);
    }
    int code = EXIT_DONE;
    if (status != MLPBWD_OK) {
        code = cli_failed(status, &why);
        if (status == MLPBWD_INVALID_ARGUMENT && (role == NULL || is_usage(generator, options, role, &target))) {
            code = EXIT_USAGE;
        }
    } else if (content == NULL) {
        cli_error("out of memory");
        code = EXIT_FAILED;
    } else {
        code = print_text(options, content);
    }
    free(content);
    json_decref(kernels); /* role may be a name in it */
    return code;
}

int command_emit(int argc, char **argv) {
    static const cli_syntax syntax = {.takes = TAKES_TEMPLATES | TAKES_ACCURACY | TAKES_RESULT,
                                      .own = own_options,
                                      .parse = parse,
                                      .doc = "Prints the source text of one kernel variant, as it would be compiled.\v"
                                             "Examples:\n"
                                             "  mlpbwd emit --list\n"
                                             "  mlpbwd emit --kernel K --arch sm_90a --set stages=4 --output k.cu\n"
                                             "  mlpbwd emit --kernel K --role fc1_wgrad --arch sm_80 --launches\n"};
    emit_options options = {.parameters = json_object()};
    cli_parse(&syntax, argc, argv, &options.common);
    int code = cli_default_templates(&options.common);
    gen *generator = NULL;
    mlp_message why = {""};
    if (code == EXIT_DONE) {
        mlpbwd_status status =
            gen_open(options.common.templates, options.common.template_count, NULL, &generator, &why);
        code = status == MLPBWD_OK ? EXIT_DONE : cli_failed(status, &why);
    }
    if (code == EXIT_DONE && options.list) {
        json_t *result = json_pack("{s:o, s:o, s:o}", "archs", gen_describe_archs(generator), "pipelines",
                                   gen_describe_pipelines(generator), "kernels", gen_describe_kernels(generator));
        code = cli_result(&options.common, result, print_list);
    } else if (code == EXIT_DONE) {
        code = emit_variant(generator, &options);
    }
    gen_close(generator);
    json_decref(options.parameters);
    return code;
}
