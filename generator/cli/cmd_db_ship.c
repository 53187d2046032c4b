/* `mlpbwd db ship`: the database that ships with the library, made from the winners' text and the templates. Its bytes
 * depend on these, on the compilers and on nothing else. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "cmd_db.h"
#include "imports.h"

enum { MAX_ARCHS = 64, ACCURACIES = 3 };

typedef struct ship_options {
    cli_options common; /* first: see cli_parse */
    const char **files;
    size_t file_count;
} ship_options;

typedef struct default_plan {
    const char *arch; /* owned by the description */
    int accuracy, compute_capability;
    int64_t tokens, min_tokens, max_tokens; /* of the row */
    json_t *plan, *measurement;
} default_plan;

typedef struct shipping {
    imports work;
    json_t *archs;
    default_plan defaults[MAX_ARCHS * ACCURACIES * GEN_MOST_DEFAULTS];
    size_t default_count, incomplete;
    char date[32];
} shipping;

static error_t parse(int key, char *argument, struct argp_state *state) {
    ship_options *options = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        options->files[options->file_count++] = argument;
        return 0;
    case ARGP_KEY_END:
        if (options->common.output == NULL) {
            argp_error(state, "--output FILE says where the database goes");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The date of rows that were never measured: SOURCE_DATE_EPOCH where a packager sets it, else a fixed one, so that two
 * builds of one source have equal bytes. */
static void build_date(char date[32]) {
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    int64_t seconds = 0;
    if (epoch == NULL || !cli_read_integer(epoch, 0, 253402300799, &seconds)) {
        seconds = 0;
    }
    time_t moment = (time_t)seconds;
    struct tm parts;
    if (gmtime_r(&moment, &parts) == NULL || strftime(date, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
        (void)snprintf(date, 32, "1970-01-01T00:00:00Z");
    }
}

static int by_name(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static mlpbwd_status add_default(shipping *ship, const char *pipeline, const gen_target *target,
                                 const gen_default *item, bool first, mlp_message *why) {
    json_t *plan = NULL;
    json_t *sources = NULL;
    mlpbwd_status status =
        gen_build_plan(ship->work.generator, pipeline, target, item->selection, &plan, &sources, why);
    if (status == MLPBWD_OK) {
        status = build_set_add(ship->work.set, plan, sources, why);
    }
    json_t *arch = json_object_get(ship->archs, target->arch);
    json_t *range = json_object_get(plan, "tokens");
    if (status == MLPBWD_OK && (json_object_set_new(range, "min", json_integer((json_int_t)item->min_tokens)) != 0 ||
                                json_object_set_new(range, "max", json_integer((json_int_t)item->max_tokens)) != 0)) {
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    if (status == MLPBWD_OK) {
        ship->defaults[ship->default_count++] =
            (default_plan){.arch = target->arch,
                           .accuracy = target->accuracy,
                           .compute_capability = (int)json_integer_value(json_object_get(arch, "compute_capability")),
                           .tokens = first ? 0 : item->tokens,
                           .min_tokens = item->min_tokens,
                           .max_tokens = item->max_tokens,
                           .plan = json_incref(plan),
                           .measurement = gen_default_measurement(item)};
    }
    json_decref(plan);
    json_decref(sources);
    return status;
}

/* The default plans for an architecture and class; none where no pipeline serves it, and that is said. */
static mlpbwd_status add_class(shipping *ship, const char *arch, int accuracy, mlp_message *why) {
    gen_target target = {arch, accuracy};
    gen_default list[GEN_MOST_DEFAULTS];
    json_t *pipelines = NULL;
    size_t count = 0;
    mlpbwd_status status = gen_pipelines_for(ship->work.generator, &target, &pipelines, why);
    const char *pipeline = json_string_value(json_array_get(pipelines, 0));
    if (status == MLPBWD_OK && pipeline == NULL) {
        cli_note("No pipeline serves %s in class %s: there is no default plan for it.", arch, accuracy_name(accuracy));
    } else if (status == MLPBWD_OK) {
        status = gen_defaults(ship->work.generator, pipeline, &target, list, &count, why);
    }
    for (size_t i = 0; i < count && status == MLPBWD_OK; i++) {
        status = add_default(ship, pipeline, &target, &list[i], i == 0, why);
    }
    if (status != MLPBWD_OK) {
        mlp_prefix(why, "default plan of %s for %s in class %s", pipeline != NULL ? pipeline : "a pipeline", arch,
                   accuracy_name(accuracy));
    }
    gen_defaults_free(list, count);
    json_decref(pipelines);
    return status;
}

static mlpbwd_status add_defaults(shipping *ship, mlp_message *why) {
    const char *names[MAX_ARCHS];
    size_t count = 0;
    const char *name = NULL;
    json_t *arch = NULL;
    ship->archs = gen_describe_archs(ship->work.generator);
    json_object_foreach(ship->archs, name, arch) {
        if (json_is_true(json_object_get(arch, "ship")) && count < MAX_ARCHS) {
            names[count++] = name;
        }
    }
    qsort(names, count, sizeof names[0], by_name);
    for (size_t i = 0; i < count; i++) {
        for (int accuracy = 0; accuracy < ACCURACIES; accuracy++) {
            mlpbwd_status status = add_class(ship, names[i], accuracy, why);
            if (status != MLPBWD_OK) {
                return status;
            }
        }
    }
    return MLPBWD_OK;
}

static mlpbwd_status store_default(shipping *ship, const default_plan *one, db *into, mlp_message *why) {
    ship->incomplete += build_set_apply(ship->work.set, one->plan) > 0 ? 1 : 0;
    mlpbwd_status status = build_set_store(ship->work.set, one->plan, into, why);
    char *plan = json_dumps(one->plan, JSON_COMPACT | JSON_SORT_KEYS);
    char *parameters = json_dumps(json_object_get(one->plan, "parameters"), JSON_COMPACT | JSON_SORT_KEYS);
    char *measurement = json_dumps(one->measurement, JSON_COMPACT | JSON_SORT_KEYS);
    if (status == MLPBWD_OK && (plan == NULL || parameters == NULL || measurement == NULL)) {
        status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    if (status == MLPBWD_OK) {
        db_plan_row row = {.arch = one->arch,
                           .device_name = "",
                           .compute_capability = one->compute_capability,
                           .accuracy = one->accuracy,
                           .tokens = one->tokens,
                           .min_tokens = one->min_tokens,
                           .max_tokens = one->max_tokens,
                           .pipeline = json_string_value(json_object_get(one->plan, "pipeline")),
                           .parameters = parameters,
                           .plan = plan,
                           .median_us = -1.0,
                           .measurement = measurement,
                           .origin = "build",
                           .date = ship->date};
        status = db_put_plan(into, &row, why);
    }
    free(plan);
    free(parameters);
    free(measurement);
    return status;
}

static mlpbwd_status store_all(shipping *ship, const ship_options *options, const char *path, mlp_message *why) {
    db *into = NULL;
    mlpbwd_status status = db_open(path, DB_READ_WRITE, &into, why);
    if (status != MLPBWD_OK) {
        return status;
    }
    db_report report = {0};
    status = imports_store(&ship->work, options->files, options->file_count, into, &report, why);
    if (status == MLPBWD_OK) {
        status = db_begin(into, why);
    }
    for (size_t i = 0; status == MLPBWD_OK && i < ship->default_count; i++) {
        status = store_default(ship, &ship->defaults[i], into, why);
    }
    if (status == MLPBWD_OK) {
        status = db_commit(into, why);
    }
    db_close(into);
    int64_t winners = report.added + report.replaced;
    cli_note("Shipped database: %" PRId64 " winners and %zu default plans.", winners, ship->default_count);
    return status;
}

/* Writes beside the output and renames, so that a reader never sees half a database. */
static int write_database(shipping *ship, const ship_options *options) {
    const char *output = options->common.output;
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s.new", output);
    if (length < 0 || (size_t)length >= sizeof path) {
        cli_error("--output: the path is too long: %s", output);
        return EXIT_FAILED;
    }
    (void)unlink(path);
    mlp_message why = {""};
    mlpbwd_status status = store_all(ship, options, path, &why);
    if (status == MLPBWD_OK && (chmod(path, 0644) != 0 || rename(path, output) != 0)) {
        status = mlp_fail(&why, MLPBWD_DATABASE_ERROR, "%s cannot be written: %s", output, strerror(errno));
    }
    if (status != MLPBWD_OK) {
        (void)unlink(path);
        return cli_failed(status, &why);
    }
    return EXIT_DONE;
}

static void tell_failure(void *user, const char *compiler, const char *target, const char *reason, size_t count) {
    (void)user;
    cli_note("No machine code from %s for %s (%zu kernels): %s", compiler, target, count, reason);
}

static int ship_all(shipping *ship, const ship_options *options) {
    mlp_message why = {""};
    build_date(ship->date);
    mlpbwd_status status =
        gen_open(options->common.templates, options->common.template_count, NULL, &ship->work.generator, &why);
    ship->work.set = build_set_new();
    if (status == MLPBWD_OK && ship->work.set == NULL) {
        status = mlp_fail(&why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    if (status == MLPBWD_OK) {
        status = add_defaults(ship, &why);
    }
    if (status == MLPBWD_OK && options->file_count > 0) {
        status = imports_collect(&ship->work, options->files, options->file_count, &why);
    }
    if (status != MLPBWD_OK) {
        return cli_failed(status, &why);
    }
    /* The previous output is the cache of this one: an unchanged source is not compiled again. */
    db *cache = NULL;
    if (access(options->common.output, R_OK) == 0) {
        mlp_message ignored;
        (void)db_open(options->common.output, DB_READ_ONLY, &cache, &ignored);
    }
    cli_catch_interrupts();
    status = build_set_compile(ship->work.set, options->common.jobs, 0.0, cache, cli_interrupted(), &why);
    db_close(cache);
    if (*cli_interrupted() != 0) {
        return EXIT_INTERRUPTED;
    }
    if (status != MLPBWD_OK) {
        return cli_failed(status, &why);
    }
    build_counts counts = build_set_counts(ship->work.set);
    cli_note("Kernels: %zu compiled, %zu unchanged, %zu without machine code.", counts.compiled, counts.cached,
             counts.failed);
    build_set_each_failure(ship->work.set, tell_failure, NULL);
    int code = write_database(ship, options);
    if (code == EXIT_DONE && ship->incomplete + ship->work.incomplete > 0) {
        cli_note("%zu of the plans cannot run without a compiler: plans made from them answer UNSUPPORTED with this "
                 "reason, or compile with MLPBWD_FLAG_ALLOW_COMPILE.",
                 ship->incomplete + ship->work.incomplete);
    }
    return code;
}

int command_db_ship(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_TEMPLATES | TAKES_OUTPUT | TAKES_JOBS,
        .parse = parse,
        .arguments = "[WINNERS.json...]",
        .doc = "Makes the database that ships with the library: the winners given, and default plans for every "
               "architecture that ships and every accuracy class (for small, middle and large T where a model of the "
               "architecture chooses them; never measured), compiled where the compiler exists. An older output "
               "serves as the cache.\v"
               "Examples:\n"
               "  mlpbwd db ship --output mlpbwd.sqlite tuning_db/winners/*.json\n"};
    ship_options options = {.files = calloc((size_t)argc, sizeof *options.files)};
    shipping *ship = calloc(1, sizeof *ship);
    int code = EXIT_FAILED;
    if (options.files == NULL || ship == NULL) {
        cli_error("out of memory");
    } else {
        cli_parse(&syntax, argc, argv, &options.common);
        code = cli_default_templates(&options.common);
        code = code == EXIT_DONE ? ship_all(ship, &options) : code;
        for (size_t i = 0; i < ship->default_count; i++) {
            json_decref(ship->defaults[i].plan);
            json_decref(ship->defaults[i].measurement);
        }
        build_set_free(ship->work.set);
        json_decref(ship->archs);
        gen_close(ship->work.generator);
    }
    free(ship);
    free(options.files);
    return code;
}
