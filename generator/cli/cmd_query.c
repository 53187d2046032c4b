/* `mlpbwd query`: the look-up ladder's answer, without running anything. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "lookup.h"
#include "target.h"

typedef struct query_options {
    cli_options common; /* first: see cli_parse */
    bool exact;
    dev *device; /* NULL: it is not at hand, only described */
} query_options;

enum { KEY_EXACT = 1 };

static const struct argp_option own_options[] = {
    {"exact", KEY_EXACT, NULL, 0, "Only a row tuned for exactly this problem on exactly this device will do", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    (void)argument;
    query_options *options = state->input;
    switch (key) {
    case KEY_EXACT:
        options->exact = true;
        return 0;
    case ARGP_KEY_END:
        if (options->common.token_count == 0) {
            argp_error(state, "say for which problem: --seq-len S [--batch B], --tokens T,... or --suite");
        }
        for (size_t i = 0; i < options->common.token_count; i++) {
            if (options->common.tokens[i] == 0) {
                argp_error(state, "T = 0 needs no kernel: nothing is looked up for it");
            }
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What a rung means, for readers of the answer. */
static const char *explain(const char *match) {
    static const char *const reasons[][2] = {
        {"forced", "MLPBWD_FORCE names the row"},
        {"exact", "tuned on this device for this T"},
        {"nearest", "tuned on this device for the nearest T whose range holds this one"},
        {"architecture", "tuned on another device of the same architecture"},
        {"default", "the architecture's default plan; never tuned for this problem"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (strcmp(match, reasons[i][0]) == 0) {
            return reasons[i][1];
        }
    }
    return "";
}

static void print_answers(FILE *out, const json_t *result) {
    static const char *const headers[] = {"tokens",     "device",   "match",   "median us",
                                          "measured T", "pipeline", "database"};
    cli_table *table = cli_table_new(headers, sizeof headers / sizeof headers[0]);
    json_t *list = json_is_array(result) ? json_incref((json_t *)result) : json_pack("[O]", result);
    size_t index = 0;
    json_t *answer = NULL;
    json_array_foreach(list, index, answer) {
        const char *device = json_string_value(json_object_get(answer, "device"));
        const char *match = json_string_value(json_object_get(answer, "match"));
        const char *pipeline = json_string_value(json_object_get(answer, "pipeline"));
        const char *database = json_string_value(json_object_get(answer, "database"));
        const json_t *median = json_object_get(answer, "median_us");
        cli_cell(table, "%lld", (long long)json_integer_value(json_object_get(answer, "tokens")));
        cli_cell(table, "%s", device != NULL ? device : "-");
        cli_cell(table, "%s", match != NULL ? match : "none");
        if (json_is_number(median)) {
            cli_cell(table, "%.1f", json_number_value(median));
        } else {
            cli_cell(table, "-");
        }
        long long measured = (long long)json_integer_value(json_object_get(answer, "measured_tokens"));
        cli_cell(table, measured > 0 ? "%lld" : "-", measured);
        cli_cell(table, "%s", pipeline != NULL ? pipeline : "-");
        cli_cell(table, "%s", database != NULL ? database : "-");
    }
    cli_table_print(table, out);
    json_array_foreach(list, index, answer) {
        const char *why = json_string_value(json_object_get(answer, "why"));
        (void)fprintf(out, "\nT = %lld: %s.\n", (long long)json_integer_value(json_object_get(answer, "tokens")),
                      why != NULL ? why : "");
        const char *slot = NULL;
        json_t *values = NULL;
        json_object_foreach(json_object_get(answer, "parameters"), slot, values) {
            char *text = json_dumps(values, JSON_COMPACT | JSON_SORT_KEYS);
            (void)fprintf(out, "  %-16s %s\n", slot, text != NULL ? text : "");
            free(text);
        }
    }
    json_decref(list);
}

/* Whether every kernel of the answer has its machine code; user: NULL when the device is not at hand, and then code may
 * be made where it is. */
static mlpbwd_status check_code(void *user, const lookup_request *request, const lookup_answer *answer,
                                mlp_message *why) {
    lookup_blobs from = {.request = request, .answer = answer};
    json_t *plan = user != NULL ? json_loads(answer->plan_json, 0, NULL) : NULL;
    mlpbwd_status status = MLPBWD_OK;
    size_t index = 0;
    json_t *module = NULL;
    json_array_foreach(json_object_get(plan, "modules"), index, module) {
        const char *code = json_string_value(json_object_get(module, "code"));
        void *bytes = NULL;
        size_t size = 0;
        if (status == MLPBWD_OK && code != NULL) {
            status = lookup_get_blob(&from, code, &bytes, &size, why);
        }
        if (status == MLPBWD_OK && bytes == NULL) {
            const char *slot = json_string_value(json_object_get(module, "slot"));
            status = mlp_fail(why, MLPBWD_UNSUPPORTED,
                              "the plan of rung \"%s\" from %s has no machine code for slot \"%s\": it runs only "
                              "with MLPBWD_FLAG_ALLOW_COMPILE",
                              answer->match, answer->database_path, slot != NULL ? slot : "");
        }
        free(bytes);
    }
    json_decref(plan);
    return status;
}

/* One problem's answer, as mlpbwd_plan_create would find it. *found: false when no rung served or --exact was missed.
 */
static json_t *ask(const query_options *options, const lookup_request *request, int64_t tokens, bool *found,
                   mlpbwd_status *status, mlp_message *why) {
    lookup_answer answer = {0};
    *found = false;
    *status = lookup_find_usable(*request, check_code, options->device, &answer, why);
    if (*status != MLPBWD_OK) {
        return json_pack("{s:I, s:s, s:n, s:s}", "tokens", (json_int_t)tokens, "device", request->device->id, "match",
                         "why", why->text);
    }
    char *text = lookup_answer_json(request, &answer);
    json_t *result = text != NULL ? json_loads(text, 0, NULL) : NULL;
    if (result == NULL) {
        *status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "the answer could not be put together");
    } else {
        (void)json_object_set_new(result, "why", json_string(explain(answer.match)));
        *found = !options->exact || strcmp(answer.match, "exact") == 0 || strcmp(answer.match, "forced") == 0;
    }
    free(text);
    lookup_answer_free(&answer);
    return result;
}

/* `ladder`: the request but for its problem. */
static int answer_all(const query_options *options, const lookup_request *ladder) {
    json_t *answers = json_array();
    int code = EXIT_DONE;
    for (size_t i = 0; i < options->common.token_count; i++) {
        int64_t tokens = options->common.tokens[i];
        mlpbwd_problem problem = {.batch_size = 1,
                                  .seq_len = tokens,
                                  .hidden_size = options->common.hidden_size,
                                  .intermediate_size = options->common.intermediate_size,
                                  .activation = options->common.activation < 0 ? 0 : options->common.activation,
                                  .accuracy = options->common.accuracy < 0 ? 0 : options->common.accuracy};
        lookup_request request = *ladder;
        request.problem = &problem;
        bool found = false;
        mlpbwd_status status = MLPBWD_OK;
        mlp_message why = {""};
        json_t *answer = ask(options, &request, tokens, &found, &status, &why);
        if (answer == NULL || (status != MLPBWD_OK && status != MLPBWD_UNSUPPORTED)) {
            json_decref(answer);
            json_decref(answers);
            return cli_failed(status, &why);
        }
        if (!found) {
            code = EXIT_NOT_FOUND;
            if (status == MLPBWD_OK) {
                cli_error("T = %lld has no exact row: the answer is on rung \"%s\"", (long long)tokens,
                          json_string_value(json_object_get(answer, "match")));
            } else {
                cli_error("%s", why.text);
            }
        }
        (void)json_array_append_new(answers, answer);
    }
    bool single = options->common.token_count == 1;
    json_t *result = single ? json_incref(json_array_get(answers, 0)) : json_incref(answers);
    json_decref(answers);
    int printed = cli_result(&options->common, result, print_answers);
    return printed == EXIT_DONE ? code : printed;
}

int command_query(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_DEVICE | TAKES_DATABASE | TAKES_TEMPLATES | TAKES_SIZES | TAKES_TOKENS | TAKES_ACCURACY |
                 TAKES_ACTIVATION | TAKES_RESULT,
        .own = own_options,
        .parse = parse,
        .doc = "Says what would run for a problem, on which rung of the look-up ladder it was found (forced, exact, "
               "nearest, architecture, default), whether it was measured, and in which database. Nothing is run, and "
               "with an architecture or a device's name for --device no hardware is needed.\v"
               "Examples:\n"
               "  mlpbwd query --batch 4 --seq-len 541 --json\n"
               "  mlpbwd query --suite --device \"NVIDIA H200\"\n"
               "  mlpbwd query --tokens 300 --device sm_100a --exact\n\n"
               "Exit code 0 on any rung, 4 if none serves or --exact was missed.\n"};
    query_options options = {0};
    cli_parse(&syntax, argc, argv, &options.common);
    db *databases[2] = {NULL, NULL};
    size_t count = 0;
    mlp_message why = {""};
    mlpbwd_status status = lookup_open_databases(options.common.database, databases, &count, &why);
    if (status != MLPBWD_OK) {
        return cli_failed(status, &why);
    }
    dev_info info;
    const char *spec = options.common.device;
    bool present = spec == NULL || strcmp(spec, "host") == 0 || strncmp(spec, "cuda:", 5) == 0 ||
                   strncmp(spec, "emulated:", 9) == 0;
    if (present) {
        status = dev_open(spec, &options.device, &why);
        if (status == MLPBWD_OK) {
            info = *dev_get_info(options.device);
        }
    } else {
        status = target_describe(spec, databases, count, &options.common, &info, &why);
    }
    int code = EXIT_DONE;
    if (status == MLPBWD_OK) {
        const char *forced = getenv("MLPBWD_FORCE");
        lookup_request request = {.device = &info,
                                  .databases = databases,
                                  .database_count = count,
                                  .by_default = lookup_found_by_default(options.common.database, count),
                                  .forced_path = forced != NULL && forced[0] != '\0' ? forced : NULL};
        code = answer_all(&options, &request);
    } else {
        code = cli_failed(status, &why);
    }
    dev_release(options.device);
    for (size_t i = 0; i < count; i++) {
        db_close(databases[i]);
    }
    return code;
}
