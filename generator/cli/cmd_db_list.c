/* `mlpbwd db list`. */
#include <string.h>

#include "cli.h"
#include "cmd_db.h"
#include "db.h"
#include "lookup.h"

typedef struct list_options {
    cli_options common; /* first: see cli_parse */
    const char *arch;
    bool candidates;
    json_t *rows;
} list_options;

enum { KEY_ARCH = 1, KEY_CANDIDATES };

static const struct argp_option own_options[] = {
    {"arch", KEY_ARCH, "A", 0, "Only rows of this architecture", 0},
    {"candidates", KEY_CANDIDATES, NULL, 0, "Every variant tried and what became of it, instead of plans", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    list_options *options = state->input;
    switch (key) {
    case KEY_ARCH:
        options->arch = argument;
        return 0;
    case KEY_CANDIDATES:
        options->candidates = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Text of the database as JSON where it is JSON. */
static json_t *embedded(const char *text) {
    json_t *value = text[0] != '\0' ? json_loads(text, 0, NULL) : NULL;
    return value != NULL ? value : json_null();
}

static json_t *microseconds(double value) {
    return value < 0.0 ? json_null() : json_real(value);
}

/* The given tokens filter too: true when there are none or this is one of them. */
static bool wanted(const cli_options *options, int64_t tokens) {
    for (size_t i = 0; i < options->token_count; i++) {
        if (options->tokens[i] == tokens) {
            return true;
        }
    }
    return options->token_count == 0;
}

static mlpbwd_status add_plan(void *user, const db_plan_row *row, mlp_message *why) {
    const list_options *options = user;
    if (!wanted(&options->common, row->tokens)) {
        return MLPBWD_OK;
    }
    json_t *entry = json_pack("{s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:s, s:I, s:I, s:s, s:o, s:o, s:o, s:s, s:s}",
                              "device", row->device_name, "arch", row->arch, "units", row->units, "compute_capability",
                              row->compute_capability, "tokens", (json_int_t)row->tokens, "hidden_size",
                              (json_int_t)row->hidden_size, "intermediate_size", (json_int_t)row->intermediate_size,
                              "accuracy", accuracy_name(row->accuracy), "min_tokens", (json_int_t)row->min_tokens,
                              "max_tokens", (json_int_t)row->max_tokens, "pipeline", row->pipeline, "parameters",
                              embedded(row->parameters), "median_us", microseconds(row->median_us), "measurement",
                              embedded(row->measurement), "origin", row->origin, "date", row->date);
    return entry != NULL && json_array_append_new(options->rows, entry) == 0
               ? MLPBWD_OK
               : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "a row cannot be shown: out of memory, or text that is not UTF-8");
}

static mlpbwd_status add_candidate(void *user, const db_candidate *row, mlp_message *why) {
    const list_options *options = user;
    if (!wanted(&options->common, row->tokens)) {
        return MLPBWD_OK;
    }
    json_t *entry = json_pack(
        "{s:s, s:s, s:i, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:o, s:o, s:s}", "device",
        row->device_name, "arch", row->arch, "units", row->units, "tokens", (json_int_t)row->tokens, "hidden_size",
        (json_int_t)row->hidden_size, "intermediate_size", (json_int_t)row->intermediate_size, "accuracy",
        accuracy_name(row->accuracy), "pipeline", row->pipeline, "slot", row->slot, "kernel", row->kernel, "parameters",
        embedded(row->parameters), "source_hash", row->source_hash, "outcome", row->outcome, "reason", row->reason,
        "median_us", microseconds(row->median_us), "measurement", embedded(row->measurement), "date", row->date);
    return entry != NULL && json_array_append_new(options->rows, entry) == 0
               ? MLPBWD_OK
               : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "a row cannot be shown: out of memory, or text that is not UTF-8");
}

static const char *text(const json_t *row, const char *key) {
    const char *value = json_string_value(json_object_get(row, key));
    return value != NULL && value[0] != '\0' ? value : "-";
}

static void cell_number(cli_table *table, const json_t *row, const char *key) {
    cli_cell(table, "%lld", (long long)json_integer_value(json_object_get(row, key)));
}

static void cell_median(cli_table *table, const json_t *row) {
    const json_t *median = json_object_get(row, "median_us");
    if (json_is_number(median)) {
        cli_cell(table, "%.1f", json_number_value(median));
    } else {
        cli_cell(table, "-");
    }
}

static void print_plans(FILE *out, const json_t *result) {
    static const char *const headers[] = {"device", "arch",      "units",    "tokens", "H",   "I",
                                          "class",  "median us", "pipeline", "origin", "date"};
    cli_table *table = cli_table_new(headers, sizeof headers / sizeof headers[0]);
    size_t index = 0;
    json_t *row = NULL;
    json_array_foreach(json_object_get(result, "rows"), index, row) {
        const char *device = text(row, "device");
        cli_cell(table, "%s", strcmp(device, "-") == 0 ? "(default)" : device);
        cli_cell(table, "%s", text(row, "arch"));
        cell_number(table, row, "units");
        cell_number(table, row, "tokens");
        cell_number(table, row, "hidden_size");
        cell_number(table, row, "intermediate_size");
        cli_cell(table, "%s", text(row, "accuracy"));
        cell_median(table, row);
        cli_cell(table, "%s", text(row, "pipeline"));
        cli_cell(table, "%s", text(row, "origin"));
        cli_cell(table, "%s", text(row, "date"));
    }
    cli_table_print(table, out);
}

static void print_candidates(FILE *out, const json_t *result) {
    static const char *const headers[] = {"device", "arch",   "tokens",    "class",   "pipeline",
                                          "slot",   "kernel", "median us", "outcome", "reason"};
    cli_table *table = cli_table_new(headers, sizeof headers / sizeof headers[0]);
    size_t index = 0;
    json_t *row = NULL;
    json_array_foreach(json_object_get(result, "rows"), index, row) {
        cli_cell(table, "%s", text(row, "device"));
        cli_cell(table, "%s", text(row, "arch"));
        cell_number(table, row, "tokens");
        cli_cell(table, "%s", text(row, "accuracy"));
        cli_cell(table, "%s", text(row, "pipeline"));
        cli_cell(table, "%s", text(row, "slot"));
        cli_cell(table, "%s", text(row, "kernel"));
        cell_median(table, row);
        cli_cell(table, "%s", text(row, "outcome"));
        cli_cell(table, "%.100s", text(row, "reason"));
    }
    cli_table_print(table, out);
}

static mlpbwd_status list_one(list_options *options, db *database, mlp_message *why) {
    if (options->candidates) {
        db_candidate like = {.device_name = options->common.device,
                             .arch = options->arch,
                             .units = -1,
                             .tokens = -1,
                             .hidden_size = -1,
                             .intermediate_size = -1,
                             .accuracy = options->common.accuracy,
                             .median_us = -1.0};
        return db_each_candidate(database, &like, add_candidate, options, why);
    }
    db_plan_filter filter = {.arch = options->arch,
                             .device_name = options->common.device,
                             .units = -1,
                             .accuracy = options->common.accuracy,
                             .tokens = -1,
                             .hidden_size = -1,
                             .intermediate_size = -1};
    return db_each_plan(database, &filter, add_plan, options, why);
}

int command_db_list(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_DATABASE | TAKES_DEVICE | TAKES_ACCURACY | TAKES_TOKENS | TAKES_RESULT,
        .own = own_options,
        .parse = parse,
        .doc = "Lists the rows of a database (default: the user's, then the shipped one). --device takes a device's "
               "name here; --tokens and --accuracy pick rows. Exit code 4 when there are none.\v"
               "Examples:\n"
               "  mlpbwd db list --device \"NVIDIA H200\"\n"
               "  mlpbwd db list --candidates --json\n"};
    list_options options = {.rows = json_array()};
    cli_parse(&syntax, argc, argv, &options.common);
    db *databases[2] = {NULL, NULL};
    size_t count = 0;
    mlp_message why = {""};
    mlpbwd_status status = lookup_open_databases(options.common.database, databases, &count, &why);
    json_t *paths = json_array();
    for (size_t i = 0; i < count; i++) {
        if (status == MLPBWD_OK) {
            (void)json_array_append_new(paths, json_string(db_path(databases[i])));
            status = list_one(&options, databases[i], &why);
        }
        db_close(databases[i]);
    }
    if (status != MLPBWD_OK) {
        json_decref(options.rows);
        json_decref(paths);
        return cli_failed(status, &why);
    }
    bool empty = json_array_size(options.rows) == 0;
    json_t *result = json_pack("{s:o, s:o}", "databases", paths, "rows", options.rows);
    int code = cli_result(&options.common, result, options.candidates ? print_candidates : print_plans);
    if (code == EXIT_DONE && empty) {
        cli_error("no row matches");
        code = EXIT_NOT_FOUND;
    }
    return code;
}
