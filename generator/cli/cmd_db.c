/* `mlpbwd db ...`: the database as a file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "cmd_db.h"
#include "imports.h"
#include "lookup.h"

typedef struct db_options {
    cli_options common; /* first: see cli_parse */
    const char **files;
    size_t file_count;
    const char *arch;
    int64_t older_than;
    bool with_code;
} db_options;

enum { KEY_WITH_CODE = 1, KEY_OLDER_THAN, KEY_ARCH };

static const struct argp_option export_own[] = {
    {"arch", KEY_ARCH, "A", 0, "Only rows of this architecture", 0},
    {"with-code", KEY_WITH_CODE, NULL, 0, "With plans, sources and machine code: complete without the templates", 0},
    {0},
};

static const struct argp_option prune_own[] = {
    {"older-than", KEY_OLDER_THAN, "DAYS", 0, "Only candidates older than this (default 0: all)", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    db_options *options = state->input;
    switch (key) {
    case KEY_WITH_CODE:
        options->with_code = true;
        return 0;
    case KEY_ARCH:
        options->arch = argument;
        return 0;
    case KEY_OLDER_THAN:
        options->older_than = cli_integer(state, "--older-than", argument, 0, 36500);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_files(int key, char *argument, struct argp_state *state) {
    db_options *options = state->input;
    if (key == ARGP_KEY_ARG) {
        options->files[options->file_count++] = argument;
        return 0;
    }
    if (key == ARGP_KEY_END && options->file_count == 0) {
        argp_error(state, "name at least one FILE");
    }
    return parse(key, argument, state);
}

/* --db, else the user's database. The path lives until the next call. */
static mlpbwd_status default_path(const char *given, const char **path, mlp_message *why) {
    static char buffer[4096];
    bool from_environment = false;
    *path = given;
    if (given != NULL) {
        return MLPBWD_OK;
    }
    mlpbwd_status status = db_default_user_path(buffer, sizeof buffer, &from_environment, why);
    if (status == MLPBWD_OK && buffer[0] == '\0') {
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "there is no user's database without a home: name one with --db");
    }
    *path = buffer;
    return status;
}

static int open_database(const db_options *options, db_mode mode, db **database) {
    mlp_message why = {""};
    const char *path = NULL;
    mlpbwd_status status = default_path(options->common.database, &path, &why);
    if (status == MLPBWD_OK) {
        status = db_open(path, mode, database, &why);
    }
    return status == MLPBWD_OK ? EXIT_DONE : cli_failed(status, &why);
}

/* Reads the command line and opens the database that it names. */
static int start(const cli_syntax *syntax, int argc, char **argv, db_options *options, db_mode mode, db **database) {
    cli_parse(syntax, argc, argv, &options->common);
    return open_database(options, mode, database);
}

static void print_line(void *user, const char *text) {
    (void)user;
    cli_note("%s", text);
}

static json_t *report_json(const db *database, const db_report *report) {
    return json_pack("{s:s, s:I, s:I, s:I, s:I}", "database", db_path(database), "added", (json_int_t)report->added,
                     "replaced", (json_int_t)report->replaced, "kept", (json_int_t)report->kept, "rejected",
                     (json_int_t)report->rejected);
}

static long long number(const json_t *object, const char *key) {
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_report(FILE *out, const json_t *result) {
    (void)fprintf(out, "%s: %lld added, %lld replaced, %lld kept, %lld rejected.\n",
                  json_string_value(json_object_get(result, "database")), number(result, "added"),
                  number(result, "replaced"), number(result, "kept"), number(result, "rejected"));
}

static void print_check(FILE *out, const json_t *result) {
    long long problems = number(result, "rejected");
    (void)fprintf(out, problems == 0 ? "%s: sound.\n" : "%s: %lld problems.\n",
                  json_string_value(json_object_get(result, "database")), problems);
}

static int run_check(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_DATABASE | TAKES_RESULT,
        .doc = "Checks the file, its schema, every blob's hash, every plan and the blobs it names. Exit code 1 when "
               "something is wrong.\v"
               "Examples:\n"
               "  mlpbwd db check --db my.sqlite\n"};
    db_options options = {0};
    db *database = NULL;
    int code = start(&syntax, argc, argv, &options, DB_READ_ONLY, &database);
    if (code != EXIT_DONE) {
        return code;
    }
    mlp_message why = {""};
    db_report report = {.line = print_line};
    mlpbwd_status status = db_check(database, &report, &why);
    if (status != MLPBWD_OK) {
        code = cli_failed(status, &why);
    } else {
        code = cli_result(&options.common, report_json(database, &report), print_check);
        code = code == EXIT_DONE && report.rejected > 0 ? EXIT_FAILED : code;
    }
    db_close(database);
    return code;
}

static void print_stats(FILE *out, const json_t *result) {
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)result, name, value) {
        if (json_is_object(value)) {
            const char *inner = NULL;
            json_t *count = NULL;
            json_object_foreach(value, inner, count) {
                char *text = json_dumps(count, JSON_ENCODE_ANY | JSON_COMPACT);
                (void)fprintf(out, "%s %s: %s\n", name, inner, text != NULL ? text : "");
                free(text);
            }
        } else {
            char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
            (void)fprintf(out, "%s: %s\n", name, text != NULL ? text : "");
            free(text);
        }
    }
}

static int run_stats(int argc, char **argv) {
    static const cli_syntax syntax = {.takes = TAKES_DATABASE | TAKES_RESULT,
                                      .doc = "Counts what a database holds, by table and outcome.\v"
                                             "Examples:\n"
                                             "  mlpbwd db stats --json\n"};
    db_options options = {0};
    db *database = NULL;
    int code = start(&syntax, argc, argv, &options, DB_READ_ONLY, &database);
    if (code != EXIT_DONE) {
        return code;
    }
    mlp_message why = {""};
    char *text = NULL;
    mlpbwd_status status = db_stats(database, &text, &why);
    json_t *result = status == MLPBWD_OK ? json_loads(text, 0, NULL) : NULL;
    if (status == MLPBWD_OK && result == NULL) {
        status = mlp_fail(&why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    code = status == MLPBWD_OK ? cli_result(&options.common, result, print_stats) : cli_failed(status, &why);
    free(text);
    db_close(database);
    return code;
}

static int run_merge(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_DATABASE | TAKES_RESULT,
        .parse = parse_files,
        .arguments = "FILE...",
        .doc = "Adds the rows of other databases to the one of --db (default: the user's). Equal keys: a measured row "
               "beats an unmeasured one, then the later date wins, then the smaller time, then the row already "
               "there. Each FILE is one transaction.\v"
               "Examples:\n"
               "  mlpbwd db merge --db all.sqlite part1.sqlite part2.sqlite\n"};
    db_options options = {.files = calloc((size_t)argc, sizeof *options.files)};
    if (options.files == NULL) {
        cli_error("out of memory");
        return EXIT_FAILED;
    }
    db *database = NULL;
    int code = start(&syntax, argc, argv, &options, DB_READ_WRITE, &database);
    db_report report = {.line = print_line};
    for (size_t i = 0; i < options.file_count && code == EXIT_DONE; i++) {
        mlp_message why = {""};
        db *from = NULL;
        mlpbwd_status status = db_open(options.files[i], DB_READ_ONLY, &from, &why);
        if (status == MLPBWD_OK) {
            status = db_merge(database, from, &report, &why);
        }
        code = status == MLPBWD_OK ? EXIT_DONE : cli_failed(status, &why);
        db_close(from);
    }
    if (code == EXIT_DONE) {
        code = cli_result(&options.common, report_json(database, &report), print_report);
    }
    db_close(database);
    free(options.files);
    return code;
}

static int run_export(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_DATABASE | TAKES_DEVICE | TAKES_ACCURACY | TAKES_OUTPUT,
        .own = export_own,
        .parse = parse,
        .doc =
            "Writes winners as reviewable text: sorted, one row a line, equal bytes for equal rows. --device takes a "
            "device's name here. The result is what `db import` and MLPBWD_FORCE take.\v"
            "Examples:\n"
            "  mlpbwd db export --device \"NVIDIA H200\" --output winners.json\n"
            "  mlpbwd db export --with-code --output complete.json\n"};
    db_options options = {0};
    db *database = NULL;
    int code = start(&syntax, argc, argv, &options, DB_READ_ONLY, &database);
    if (code != EXIT_DONE) {
        return code;
    }
    cli_file file;
    code = cli_file_open(&file, options.common.output);
    if (code == EXIT_DONE) {
        db_plan_filter filter = {.arch = options.arch,
                                 .device_name = options.common.device,
                                 .units = -1,
                                 .accuracy = options.common.accuracy,
                                 .tokens = -1,
                                 .hidden_size = -1,
                                 .intermediate_size = -1};
        mlp_message why = {""};
        mlpbwd_status status = db_export(database, &filter, options.with_code, file.stream, &why);
        code = cli_file_close(&file, status == MLPBWD_OK);
        code = status == MLPBWD_OK ? code : cli_failed(status, &why);
    }
    db_close(database);
    return code;
}

static int import_all(db_options *options, imports *work) {
    db *database = NULL;
    mlp_message why = {""};
    int code = open_database(options, DB_READ_WRITE, &database);
    if (code != EXIT_DONE) {
        return code;
    }
    mlpbwd_status status =
        gen_open(options->common.templates, options->common.template_count, NULL, &work->generator, &why);
    work->set = build_set_new();
    if (status == MLPBWD_OK && work->set == NULL) {
        status = mlp_fail(&why, MLPBWD_OUT_OF_MEMORY, "out of memory");
    }
    if (status == MLPBWD_OK) {
        status = imports_collect(work, options->files, options->file_count, &why);
    }
    if (status == MLPBWD_OK) {
        status = build_set_compile(work->set, options->common.jobs, 0.0, database, NULL, &why);
    }
    db_report report = {.line = print_line};
    if (status == MLPBWD_OK) {
        status = imports_store(work, options->files, options->file_count, database, &report, &why);
    }
    if (status == MLPBWD_OK) {
        if (work->incomplete > 0) {
            cli_note("%zu plans were stored without machine code: they run only with MLPBWD_FLAG_ALLOW_COMPILE.",
                     work->incomplete);
        }
        code = cli_result(&options->common, report_json(database, &report), print_report);
    } else {
        code = cli_failed(status, &why);
    }
    db_close(database);
    return code;
}

static int run_import(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_DATABASE | TAKES_TEMPLATES | TAKES_RESULT | TAKES_JOBS,
        .parse = parse_files,
        .arguments = "FILE...",
        .doc =
            "Reads what `db export` wrote, all or nothing a FILE. Rows that hold parameters only get their plan from "
            "the templates and are compiled where the compiler exists. Equal keys: as in `db merge`.\v"
            "Examples:\n"
            "  mlpbwd db import --db my.sqlite tuning_db/winners/*.json\n"};
    db_options options = {.files = calloc((size_t)argc, sizeof *options.files)};
    if (options.files == NULL) {
        cli_error("out of memory");
        return EXIT_FAILED;
    }
    cli_parse(&syntax, argc, argv, &options.common);
    imports work = {0};
    int code = cli_default_templates(&options.common);
    code = code == EXIT_DONE ? import_all(&options, &work) : code;
    build_set_free(work.set);
    gen_close(work.generator);
    free(options.files);
    return code;
}

static int run_prune(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_DATABASE | TAKES_RESULT,
        .own = prune_own,
        .parse = parse,
        .doc = "Removes candidates' outcomes, then machine code and sources that nothing names any more. Winners stay; "
               "a later sweep has to compile and time again.\v"
               "Examples:\n"
               "  mlpbwd db prune --older-than 30\n"};
    db_options options = {0};
    db *database = NULL;
    cli_parse(&syntax, argc, argv, &options.common);
    mlp_message why = {""};
    const char *path = NULL;
    if (default_path(options.common.database, &path, &why) == MLPBWD_OK && path[0] != '\0' &&
        access(path, F_OK) != 0) { /* opening would create it */
        cli_error("%s: cannot be opened: %s", path, strerror(errno));
        return EXIT_FAILED;
    }
    int code = open_database(&options, DB_READ_WRITE, &database);
    if (code != EXIT_DONE) {
        return code;
    }
    db_report report = {.line = print_line};
    mlpbwd_status status = db_prune(database, (int)options.older_than, &report, &why);
    code = status == MLPBWD_OK ? cli_result(&options.common, report_json(database, &report), print_report)
                               : cli_failed(status, &why);
    db_close(database);
    return code;
}

int command_db(int argc, char **argv) {
    static const cli_command commands[] = {
        {"check", "is the file sound", run_check},
        {"list", "rows: winners and defaults, or every candidate", command_db_list},
        {"stats", "how much of what", run_stats},
        {"merge", "add the rows of other databases", run_merge},
        {"export", "winners as text", run_export},
        {"import", "winners from text", run_import},
        {"prune", "remove candidates and what nothing names", run_prune},
        {"ship", "make the database that ships with the library", command_db_ship},
        {NULL, NULL, NULL},
    };
    return cli_dispatch(commands, "mlpbwd db", "Looks after tuning databases.", argc, argv);
}
