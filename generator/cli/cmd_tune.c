/* `mlpbwd tune` and `mlpbwd compile`: options of the sweep, its progress and its summary. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "cli.h"
#include "generator.h"
#include "measure.h"
#include "suite.h"
#include "tune.h"

typedef struct sweep_options {
    cli_options common; /* first: see cli_parse */
    double budget, compile_limit, run_limit;
    int64_t compile_memory, repetitions, warmup, shard, shard_count, seed, units;
    const char *arch, *replay, *exhaustive;
    bool retry_failed, no_compile;
} sweep_options;

enum {
    KEY_BUDGET = 1,
    KEY_SHARD,
    KEY_ARCH,
    KEY_COMPILE_LIMIT,
    KEY_RUN_LIMIT,
    KEY_COMPILE_MEMORY,
    KEY_REPETITIONS,
    KEY_WARMUP,
    KEY_SEED,
    KEY_REPLAY,
    KEY_RETRY_FAILED,
    KEY_UNITS,
    KEY_NO_COMPILE,
    KEY_EXHAUSTIVE
};

#define EXHAUSTIVE_OPTION                                                                                              \
    {                                                                                                                  \
        "exhaustive", KEY_EXHAUSTIVE, "SLOT", 0,                                                                       \
            "Try every valid variant of this slot, such as fc1_wgrad, also what is not thought worth it; the "         \
            "candidates' rows then show what the ordinary search misses",                                              \
            3                                                                                                          \
    }
#define LIMIT_OPTIONS                                                                                                  \
    {"compile-limit", KEY_COMPILE_LIMIT, "TIME", 0, "Longest time of one compilation (default 60s)", 3},               \
        {"compile-memory", KEY_COMPILE_MEMORY, "MIB", 0, "Most memory of one compile process (default 8192)", 3}, {    \
        "shard", KEY_SHARD, "I/N", 0, "Do the I-th of N shares of the candidates; merge with `mlpbwd db merge`", 3     \
    }

static const struct argp_option tune_own[] = {
    {"budget", KEY_BUDGET, "TIME", 0, "End after 90s, 10m or 1h with the best so far (default: no limit)", 3},
    LIMIT_OPTIONS,
    EXHAUSTIVE_OPTION,
    {"run-limit", KEY_RUN_LIMIT, "TIME", 0,
     "Longest time to check and time one candidate (default 20s; less after the first that hangs)", 3},
    {"repetitions", KEY_REPETITIONS, "N", 0, "Timed repetitions of a candidate (default 20)", 3},
    {"warmup", KEY_WARMUP, "N", 0, "Repetitions before the first timed one (default 3)", 3},
    {"seed", KEY_SEED, "N", 0, "Of the search's random choices (default 0)", 3},
    {"retry-failed", KEY_RETRY_FAILED, NULL, 0,
     "Try again what crashed, timed out, was wrong or did not compile in an earlier sweep", 3},
    {"no-compile", KEY_NO_COMPILE, NULL, 0,
     "Take machine code from the database alone, whichever compiler made it; so it is also where there is no compiler",
     3},
    {"replay", KEY_REPLAY, "FILE", 0,
     "Take times from a recording, for tests: without a device, or with --device emulated:ARCH, which then checks", 3},
    {0},
};

static const struct argp_option compile_own[] = {
    {"arch", KEY_ARCH, "A", 0, "Architecture to compile for, such as sm_100a (this or --device is needed)", 0},
    {"units", KEY_UNITS, "N", 0,
     "Multiprocessors of the device to come, where it has not as many as the architecture's file says", 0},
    LIMIT_OPTIONS,
    EXHAUSTIVE_OPTION,
    {0},
};

static void parse_shard(const struct argp_state *state, sweep_options *options, const char *text) {
    char share[16] = "";
    const char *slash = strchr(text, '/');
    size_t length = slash != NULL ? (size_t)(slash - text) : 0;
    bool right = length > 0 && length < sizeof share;
    if (right) {
        memcpy(share, text, length);
        right = cli_read_integer(slash + 1, 1, 10000, &options->shard_count) &&
                cli_read_integer(share, 1, options->shard_count, &options->shard);
    }
    if (!right) {
        argp_error(state, "--shard: '%s' is not I/N with 1 <= I <= N <= 10000, such as 2/4", text);
    }
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    sweep_options *options = state->input;
    switch (key) {
    case KEY_BUDGET:
        options->budget = cli_duration(state, "--budget", argument);
        return 0;
    case KEY_SHARD:
        parse_shard(state, options, argument);
        return 0;
    case KEY_ARCH:
        options->arch = argument;
        return 0;
    case KEY_COMPILE_LIMIT:
        options->compile_limit = cli_duration(state, "--compile-limit", argument);
        return 0;
    case KEY_RUN_LIMIT:
        options->run_limit = cli_duration(state, "--run-limit", argument);
        return 0;
    case KEY_COMPILE_MEMORY:
        options->compile_memory = cli_integer(state, "--compile-memory", argument, 64, 1 << 20) << 20;
        return 0;
    case KEY_REPETITIONS:
        options->repetitions = cli_integer(state, "--repetitions", argument, 1, MEASURE_MAX_TIMES / 2);
        return 0;
    case KEY_WARMUP:
        options->warmup = cli_integer(state, "--warmup", argument, 1, 10000);
        return 0;
    case KEY_SEED:
        options->seed = cli_integer(state, "--seed", argument, 0, 2147483647);
        return 0;
    case KEY_RETRY_FAILED:
        options->retry_failed = true;
        return 0;
    case KEY_UNITS:
        options->units = cli_integer(state, "--units", argument, 1, 100000);
        return 0;
    case KEY_NO_COMPILE:
        options->no_compile = true;
        return 0;
    case KEY_EXHAUSTIVE:
        options->exhaustive = argument;
        return 0;
    case KEY_REPLAY:
        options->replay = argument;
        return 0;
    case ARGP_KEY_END:
        if (options->common.token_count == 0) {
            options->common.token_count = suite_tokens(options->common.tokens);
        }
        for (size_t i = 0; i < options->common.token_count; i++) {
            if (options->common.tokens[i] == 0) {
                argp_error(state, "T = 0 launches nothing: there is nothing to tune");
            }
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_summary(FILE *out, const json_t *summary) {
    size_t index = 0;
    json_t *winner = NULL;
    const json_t *winners = json_object_get(summary, "winners");
    if (json_array_size(winners) > 0) {
        static const char *const headers[] = {"tokens", "median us", "default us", "gain %", "pipeline"};
        cli_table *table = cli_table_new(headers, sizeof headers / sizeof headers[0]);
        json_array_foreach(winners, index, winner) {
            double median = json_number_value(json_object_get(winner, "median_us"));
            double fallback = json_number_value(json_object_get(winner, "default_us"));
            const char *pipeline = json_string_value(json_object_get(winner, "pipeline"));
            cli_cell(table, "%lld", (long long)json_integer_value(json_object_get(winner, "tokens")));
            cli_cell(table, "%.1f", median);
            cli_cell(table, fallback > 0 ? "%.1f" : "-", fallback);
            cli_cell(table, fallback > 0 ? "%.1f" : "-", (1.0 - median / fallback) * 100.0);
            cli_cell(table, "%s", pipeline != NULL ? pipeline : "-");
        }
        cli_table_print(table, out);
    }
    (void)fprintf(out, "Compiled %lld, timed %lld, in %.0f s.",
                  (long long)json_integer_value(json_object_get(summary, "compiled")),
                  (long long)json_integer_value(json_object_get(summary, "timed")),
                  json_number_value(json_object_get(summary, "seconds")));
    const char *outcome = NULL;
    json_t *count = NULL;
    const char *separator = " Candidates: ";
    json_object_foreach(json_object_get(summary, "candidates"), outcome, count) {
        (void)fprintf(out, "%s%lld %s", separator, (long long)json_integer_value(count), outcome);
        separator = ", ";
    }
    bool budget_ended = json_is_true(json_object_get(summary, "budget_ended"));
    (void)fputs(budget_ended ? " The budget ended before all was tried.\n" : "\n", out);
    json_t *failure = NULL;
    json_array_foreach(json_object_get(summary, "failed"), index, failure) {
        if (index == 10) {
            (void)fprintf(out, "... and %zu more; `mlpbwd db list --candidates` has all.\n",
                          json_array_size(json_object_get(summary, "failed")) - index);
            break;
        }
        const char *reason = json_string_value(json_object_get(failure, "reason"));
        const char *kernel = json_string_value(json_object_get(failure, "kernel"));
        const char *kind = json_string_value(json_object_get(failure, "outcome"));
        (void)fprintf(out, "  %s %s: %s\n", kind != NULL ? kind : "failed", kernel != NULL ? kernel : "",
                      reason != NULL ? reason : "");
    }
}

static void print_progress(void *user, const char *line) {
    (void)user;
    cli_note("%s", line);
}

/* Where the sweep's rows go: --db, else the user's database. */
static int settle_database(cli_options *options) {
    static char path[4096];
    bool from_environment = false;
    mlp_message why = {""};
    if (options->database != NULL) {
        return EXIT_DONE;
    }
    mlpbwd_status status = db_default_user_path(path, sizeof path, &from_environment, &why);
    if (status != MLPBWD_OK || path[0] == '\0') {
        cli_error("there is no place for the user's database (%s): name a file with --db FILE",
                  why.text[0] != '\0' ? why.text : "no home folder");
        return EXIT_FAILED;
    }
    options->database = path;
    return EXIT_DONE;
}

/* Whether --arch names an architecture that the templates do not have; templates that do not load say nothing of it. */
static bool is_unknown_arch(const sweep_options *options) {
    gen *generator = NULL;
    mlp_message ignored;
    if (options->arch == NULL ||
        gen_open(options->common.templates, options->common.template_count, NULL, &generator, &ignored) != MLPBWD_OK) {
        return false;
    }
    json_t *archs = gen_describe_archs(generator);
    bool unknown = json_object_get(archs, options->arch) == NULL;
    json_decref(archs);
    gen_close(generator);
    return unknown;
}

static int sweep(sweep_options *options, bool compile_only) {
    int code = settle_database(&options->common);
    if (code == EXIT_DONE) {
        code = cli_default_templates(&options->common);
    }
    if (code != EXIT_DONE) {
        return code;
    }
    cli_catch_interrupts();
    tune_options request = {.device = options->common.device,
                            .database_path = options->common.database,
                            .template_folders = options->common.templates,
                            .template_folder_count = options->common.template_count,
                            .tokens = options->common.tokens,
                            .token_count = options->common.token_count,
                            .hidden_size = options->common.hidden_size,
                            .intermediate_size = options->common.intermediate_size,
                            .accuracy = options->common.accuracy < 0 ? 0 : options->common.accuracy,
                            .activation = options->common.activation < 0 ? 0 : options->common.activation,
                            .budget_seconds = options->budget,
                            .jobs = options->common.jobs,
                            .shard = (int)options->shard,
                            .shard_count = (int)options->shard_count,
                            .compile_limit_seconds = options->compile_limit,
                            .run_limit_seconds = options->run_limit,
                            .compile_memory_bytes = (size_t)options->compile_memory,
                            .repetitions = (int)options->repetitions,
                            .warmup = (int)options->warmup,
                            .compile_only = compile_only,
                            .arch = options->arch,
                            .units = (int)options->units,
                            .no_compile = options->no_compile,
                            .replay_path = options->replay,
                            .exhaustive = options->exhaustive,
                            .seed = (unsigned)options->seed,
                            .progress = print_progress,
                            .interrupted = cli_interrupted(),
                            .retry_failed = options->retry_failed};
    json_t *summary = NULL;
    mlp_message why = {""};
    mlpbwd_status status = tune_run(&request, &summary, &why);
    bool interrupted = *cli_interrupted() != 0 || json_is_true(json_object_get(summary, "interrupted"));
    if (status != MLPBWD_OK && !interrupted) {
        json_decref(summary);
        code = cli_failed(status, &why);
        return is_unknown_arch(options) ? EXIT_USAGE : code;
    }
    if (summary != NULL) {
        (void)json_object_set_new(summary, "database", json_text(options->common.database));
        bool budget_ended = json_is_true(json_object_get(summary, "budget_ended"));
        size_t winners = json_array_size(json_object_get(summary, "winners"));
        code = cli_result(&options->common, summary, print_summary);
        if (code == EXIT_DONE && !compile_only && !interrupted && winners == 0 && options->shard_count <= 1) {
            cli_error("%s: no row was stored in %s",
                      budget_ended ? "the budget ended before a pass was right" : "no candidate passed",
                      options->common.database);
            code = EXIT_FAILED;
        }
    }
    if (interrupted) {
        cli_note("Interrupted: what was measured is kept in %s; the same command goes on from there.",
                 options->common.database);
        return EXIT_INTERRUPTED;
    }
    return code;
}

int command_tune(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_DEVICE | TAKES_DATABASE | TAKES_TEMPLATES | TAKES_SIZES | TAKES_TOKENS | TAKES_ACCURACY |
                 TAKES_ACTIVATION | TAKES_RESULT | TAKES_JOBS,
        .own = tune_own,
        .parse = parse,
        .doc = "Compiles kernel variants, checks each against float64, times what is right and keeps the fastest in "
               "the database. Without sizes: the suite. Every outcome is stored at once, so an ended sweep goes on "
               "where it was, and a finished one times nothing.\v"
               "Examples:\n"
               "  mlpbwd tune --suite --budget 10m\n"
               "  mlpbwd tune --device host --tokens 256 --accuracy fp32 --db my.sqlite\n"
               "  mlpbwd tune --shard 1/4 --db part1.sqlite\n"};
    sweep_options options = {0};
    cli_parse(&syntax, argc, argv, &options.common);
    return sweep(&options, false);
}

int command_compile(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_DEVICE | TAKES_DATABASE | TAKES_TEMPLATES | TAKES_SIZES | TAKES_TOKENS | TAKES_ACCURACY |
                 TAKES_RESULT | TAKES_JOBS,
        .own = compile_own,
        .parse = parse,
        .doc = "Compiles every candidate that a sweep may come to into the database; needs the compiler but no device. "
               "A later `mlpbwd tune` on the device with the same database (or after `mlpbwd db merge`) compiles "
               "nothing, and needs no compiler. What does not compile is stored with the reason; an ended run goes on "
               "where it was.\v"
               "Examples:\n"
               "  mlpbwd compile --arch sm_100a --suite --db b200.sqlite --jobs 2\n"
               "  mlpbwd compile --arch sm_90a --units 114 --tokens 512\n"};
    sweep_options options = {0};
    cli_parse(&syntax, argc, argv, &options.common);
    if ((options.arch == NULL) == (options.common.device == NULL)) {
        cli_error("--arch A says for which architecture, such as sm_90a (or --device D for which device; one of the "
                  "two). `mlpbwd compile --help` has the options.");
        return EXIT_USAGE;
    }
    return sweep(&options, true);
}
