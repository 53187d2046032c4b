/* `mlpbwd export`: the plans of a benchmark's shapes as a solution that needs neither this library nor a database. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "export.h"
#include "export_folder.h"
#include "generator.h"
#include "lookup.h"
#include "suite.h"
#include "target.h"

typedef struct export_options {
    cli_options common; /* first: see cli_parse */
    const char *folder, *arch;
    bool force;
} export_options;

enum { KEY_SOL_EXECBENCH = 1, KEY_ARCH, KEY_FORCE };

static const struct argp_option own_options[] = {
    {"sol-execbench", KEY_SOL_EXECBENCH, "DIR", 0,
     "Write a solution of problem 073 of NVIDIA SOL-ExecBench into DIR, a new or empty folder", 0},
    {"arch", KEY_ARCH, "A", 0,
     "An architecture, or the name of a device that the databases have rows of (default: the benchmark's own)", 0},
    {"force", KEY_FORCE, NULL, 0, "Replace an earlier export in DIR", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    export_options *options = state->input;
    switch (key) {
    case KEY_SOL_EXECBENCH:
        options->folder = argument;
        return 0;
    case KEY_ARCH:
        options->arch = argument;
        return 0;
    case KEY_FORCE:
        options->force = true;
        return 0;
    case ARGP_KEY_END:
        if (options->folder == NULL || options->folder[0] == '\0') {
            argp_error(state, "--sol-execbench DIR says what is exported, and where to");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What is collected for the solution. */
typedef struct exporting {
    export_options options;
    dev_info info;
    db *databases[2];
    size_t database_count;
    int accuracy;
    /* Where the databases have nothing: the default pipeline (the first of a list) and its choices. */
    gen *generator;
    json_t *pipelines;
    gen_default defaults[GEN_MOST_DEFAULTS];
    size_t default_count;
    export_plan plans[CLI_MAX_TOKENS];
    size_t plan_count;
    json_t *sources; /* hash -> text */
    json_t *report;  /* of each T */
} exporting;

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

/* Adds the source texts of an answer's plan, or says which one is missing. */
static mlpbwd_status take_sources(void *user, const lookup_request *request, const lookup_answer *answer,
                                  mlp_message *why) {
    exporting *work = user;
    lookup_blobs from = {.request = request, .answer = answer};
    json_t *plan = json_loads(answer->plan_json, 0, NULL);
    mlpbwd_status status = MLPBWD_OK;
    size_t index = 0;
    json_t *module = NULL;
    json_array_foreach(json_object_get(plan, "modules"), index, module) {
        const char *hash = text(module, "source");
        void *bytes = NULL;
        size_t size = 0;
        if (status == MLPBWD_OK && json_object_get(work->sources, hash) == NULL) {
            status = lookup_get_blob(&from, hash, &bytes, &size, why);
            if (status == MLPBWD_OK &&
                (bytes == NULL || json_object_set_new(work->sources, hash, json_stringn(bytes, size)) != 0)) {
                status = mlp_fail(why, MLPBWD_UNSUPPORTED,
                                  "the plan of rung \"%s\" from %s comes without the source text of slot \"%s\"",
                                  answer->match, answer->database_path, text(module, "slot"));
            }
        }
        free(bytes);
    }
    json_decref(plan);
    return status;
}

static mlpbwd_status keep_plan(exporting *work, int64_t tokens, json_t *plan, json_t *row, mlp_message *why) {
    if (plan == NULL || row == NULL || json_array_append(work->report, row) != 0) {
        json_decref(plan);
        json_decref(row);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory while exporting");
    }
    json_decref(row);
    work->plans[work->plan_count++] = (export_plan){tokens, plan};
    return MLPBWD_OK;
}

/* The predicted time of an unmeasured plan, if it is for this T (borrowed), else NULL. */
static json_t *predicted_at(const json_t *measurement, int64_t tokens) {
    const json_t *at = json_object_get(json_object_get(measurement, "predicted_at"), "tokens");
    return json_is_integer(at) && json_integer_value(at) == tokens ? json_object_get(measurement, "predicted_us")
                                                                   : NULL;
}

static mlpbwd_status keep_answer(exporting *work, const lookup_request *request, const lookup_answer *answer,
                                 mlp_message *why) {
    int64_t tokens = request->problem->seq_len;
    char *description = lookup_answer_json(request, answer);
    json_t *full = description != NULL ? json_loads(description, 0, NULL) : NULL;
    json_t *predicted = predicted_at(json_object_get(full, "measurement"), tokens);
    json_t *row =
        json_pack("{s:I, s:s, s:O, s:b, s:O, s:O?, s:O, s:O, s:O}", "tokens", (json_int_t)tokens, "match",
                  answer->match, "pipeline", json_object_get(full, "pipeline"), "measured",
                  answer->median_us >= 0 ? 1 : 0, "median_us", json_object_get(full, "median_us"), "predicted_us",
                  predicted, "measured_device", json_object_get(full, "measured_device"), "measured_tokens",
                  json_object_get(full, "measured_tokens"), "database", json_object_get(full, "database"));
    free(description);
    json_decref(full);
    return keep_plan(work, tokens, json_loads(answer->plan_json, 0, NULL), row, why);
}

/* The architecture's default plans, chosen from the templates as those of the shipped database are. `missing`: why no
 * row of the databases serves. */
static mlpbwd_status choose_defaults(exporting *work, const mlp_message *missing, mlp_message *why) {
    gen_target target = {work->info.arch, work->accuracy};
    cli_options *common = &work->options.common;
    if (cli_default_templates(common) != EXIT_DONE) {
        return mlp_fail(why, MLPBWD_UNSUPPORTED, "%.1500s; and there are no templates to make a default from",
                        missing->text);
    }
    mlpbwd_status status = gen_open(common->templates, common->template_count, NULL, &work->generator, why);
    if (status == MLPBWD_OK) {
        status = gen_pipelines_for(work->generator, &target, &work->pipelines, why);
    }
    const char *pipeline = json_string_value(json_array_get(work->pipelines, 0));
    if (status == MLPBWD_OK && pipeline == NULL) {
        status = mlp_fail(why, MLPBWD_UNSUPPORTED,
                          "no row of the databases and no pipeline of the templates serves %s in class %s",
                          work->info.arch, accuracy_name(work->accuracy));
    }
    return status == MLPBWD_OK
               ? gen_defaults(work->generator, pipeline, &target, work->defaults, &work->default_count, why)
               : status;
}

static const gen_default *default_for(const exporting *work, int64_t tokens) {
    size_t i = 0;
    while (i + 1 < work->default_count && tokens > work->defaults[i].max_tokens) {
        i++;
    }
    return &work->defaults[i];
}

static mlpbwd_status keep_default(exporting *work, int64_t tokens, const mlp_message *missing, mlp_message *why) {
    gen_target target = {work->info.arch, work->accuracy};
    json_t *plan = NULL, *sources = NULL;
    mlpbwd_status status = work->default_count == 0 ? choose_defaults(work, missing, why) : MLPBWD_OK;
    if (status != MLPBWD_OK) {
        return status;
    }
    const gen_default *chosen = default_for(work, tokens);
    const char *pipeline = json_string_value(json_array_get(work->pipelines, 0));
    status = gen_build_plan(work->generator, pipeline, &target, chosen->selection, &plan, &sources, why);
    if (status == MLPBWD_OK) {
        json_t *range = json_object_get(plan, "tokens"), *measurement = gen_default_measurement(chosen);
        (void)json_object_set_new(range, "min", json_integer((json_int_t)chosen->min_tokens));
        (void)json_object_set_new(range, "max", json_integer((json_int_t)chosen->max_tokens));
        (void)json_object_update(work->sources, sources);
        json_t *row = json_pack("{s:I, s:s, s:s, s:b, s:n, s:O?, s:n, s:n, s:n}", "tokens", (json_int_t)tokens, "match",
                                "default", "pipeline", pipeline, "measured", 0, "median_us", "predicted_us",
                                predicted_at(measurement, tokens), "measured_device", "measured_tokens", "database");
        json_decref(measurement);
        status = keep_plan(work, tokens, json_incref(plan), row, why);
    }
    json_decref(plan);
    json_decref(sources);
    return status;
}

static mlpbwd_status look_up(exporting *work, int64_t tokens, mlp_message *why) {
    const char *forced = getenv("MLPBWD_FORCE");
    const char *database = work->options.common.database;
    mlpbwd_problem problem = {.batch_size = 1,
                              .seq_len = tokens,
                              .hidden_size = SUITE_HIDDEN_SIZE,
                              .intermediate_size = SUITE_INTERMEDIATE_SIZE,
                              .activation = MLPBWD_GELU_TANH,
                              .accuracy = work->accuracy};
    lookup_request request = {.device = &work->info,
                              .problem = &problem,
                              .databases = work->databases,
                              .database_count = work->database_count,
                              .by_default = lookup_found_by_default(database, work->database_count),
                              .forced_path = forced != NULL && forced[0] != '\0' ? forced : NULL};
    lookup_answer answer = {0};
    mlp_message missing = {""};
    mlpbwd_status status = lookup_find_usable(request, take_sources, work, &answer, &missing);
    if (status == MLPBWD_UNSUPPORTED) {
        return keep_default(work, tokens, &missing, why);
    }
    if (status != MLPBWD_OK) {
        *why = missing;
        return status;
    }
    status = keep_answer(work, &request, &answer, why);
    lookup_answer_free(&answer);
    return status;
}

static mlpbwd_status describe_target(exporting *work, mlp_message *why) {
    const char *arch = work->options.arch;
    char ladder[DEV_MAX_LADDER][32];
    if (arch == NULL && dev_cuda_ladder(EXPORT_BENCHMARK_CAPABILITY, ladder) > 0) {
        arch = ladder[0];
    }
    mlpbwd_status status =
        target_describe(arch, work->databases, work->database_count, &work->options.common, &work->info, why);
    if (status == MLPBWD_NO_DEVICE) {
        return mlp_fail(why, status,
                        "--arch: '%.100s' is neither an architecture (`mlpbwd emit --list` lists them) nor the name of "
                        "a device that the databases have rows of",
                        arch);
    }
    if (status == MLPBWD_OK && strcmp(work->info.backend, "cuda") != 0) {
        return mlp_fail(why, MLPBWD_UNSUPPORTED,
                        "--arch: %.100s is no GPU, and the solutions of SOL-ExecBench run on GPUs only", arch);
    }
    return status;
}

static mlpbwd_status collect(exporting *work, json_t **solution, mlp_message *why) {
    int64_t tokens[CLI_MAX_TOKENS];
    size_t count = suite_tokens(tokens);
    mlpbwd_status status =
        lookup_open_databases(work->options.common.database, work->databases, &work->database_count, why);
    if (status == MLPBWD_OK) {
        status = describe_target(work, why);
    }
    for (size_t i = 0; i < count && status == MLPBWD_OK; i++) {
        status = look_up(work, tokens[i], why);
    }
    if (status != MLPBWD_OK) {
        return status;
    }
    const export_request request = {.plans = work->plans,
                                    .plan_count = work->plan_count,
                                    .sources = work->sources,
                                    .target = work->info.arch,
                                    .compute_capability = work->info.compute_capability,
                                    .hidden_size = SUITE_HIDDEN_SIZE,
                                    .intermediate_size = SUITE_INTERMEDIATE_SIZE,
                                    .accuracy = accuracy_name(work->accuracy)};
    return export_solution(&request, solution, why);
}

static void clean_up(exporting *work) {
    for (size_t i = 0; i < work->plan_count; i++) {
        json_decref(work->plans[i].plan);
    }
    for (size_t i = 0; i < work->database_count; i++) {
        db_close(work->databases[i]);
    }
    gen_defaults_free(work->defaults, work->default_count);
    json_decref(work->pipelines);
    gen_close(work->generator);
    json_decref(work->sources);
    json_decref(work->report);
}

static void time_cell(cli_table *table, const json_t *time) {
    if (json_is_number(time)) {
        cli_cell(table, "%.1f", json_number_value(time));
    } else {
        cli_cell(table, "-");
    }
}

static void print_summary(FILE *out, const json_t *result) {
    static const char *const headers[] = {"tokens", "match", "pipeline", "median us", "measured on", "predicted us"};
    cli_table *table = cli_table_new(headers, sizeof headers / sizeof headers[0]);
    size_t index = 0;
    json_t *row = NULL;
    json_array_foreach(json_object_get(result, "plans"), index, row) {
        cli_cell(table, "%lld", (long long)json_integer_value(json_object_get(row, "tokens")));
        cli_cell(table, "%s", text(row, "match"));
        cli_cell(table, "%s", text(row, "pipeline"));
        time_cell(table, json_object_get(row, "median_us"));
        cli_cell(table, "%s", text(row, "measured_device")[0] != '\0' ? text(row, "measured_device") : "-");
        time_cell(table, json_object_get(row, "predicted_us"));
    }
    cli_table_print(table, out);
    (void)fprintf(out, "\n%s for %s: %zu files in %s.\n", text(result, "definition"), text(result, "arch"),
                  json_array_size(json_object_get(result, "files")), text(result, "folder"));
}

static json_t *summary(const exporting *work, const json_t *solution) {
    json_t *files = json_pack("[s]", "solution.json");
    size_t index = 0;
    json_t *file = NULL;
    json_array_foreach(json_object_get(solution, "sources"), index, file) {
        (void)json_array_append(files, json_object_get(file, "path"));
    }
    return json_pack("{s:s, s:O, s:O, s:s, s:s, s:o, s:O}", "folder", work->options.folder, "name",
                     json_object_get(solution, "name"), "definition", json_object_get(solution, "definition"), "arch",
                     work->info.arch, "accuracy", accuracy_name(work->accuracy), "files", files, "plans", work->report);
}

int command_export(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_DATABASE | TAKES_TEMPLATES | TAKES_ACCURACY | TAKES_RESULT,
        .own = own_options,
        .parse = parse,
        .doc = "Writes the plans of the benchmark's shapes, tuned ones where the databases have them and the "
               "architecture's default elsewhere, as one self-contained solution: solution.json and its CUDA C++ "
               "sources, which nvcc compiles through PyTorch's extension builder. It needs neither this library nor a "
               "database. Nothing is compiled or run here.\v"
               "Examples:\n"
               "  mlpbwd export --sol-execbench solution\n"
               "  mlpbwd export --sol-execbench solution --arch sm_90a --db tuned.sqlite --json\n\n"
               "Exit code 3 for an unknown architecture.\n"};
    exporting work = {.sources = json_object(), .report = json_array()};
    cli_parse(&syntax, argc, argv, &work.options.common);
    work.accuracy = work.options.common.accuracy < 0 ? MLPBWD_ACCURACY_TF32 : work.options.common.accuracy;
    json_t *solution = NULL;
    mlp_message why = {""};
    mlpbwd_status status = collect(&work, &solution, &why);
    if (status == MLPBWD_OK) {
        status = export_folder_prepare(work.options.folder, work.options.force, &why);
    }
    int code = status == MLPBWD_OK ? export_folder_write(work.options.folder, solution) : cli_failed(status, &why);
    if (code == EXIT_DONE) {
        code = cli_result(&work.options.common, summary(&work, solution), print_summary);
    }
    json_decref(solution);
    clean_up(&work);
    return code;
}
