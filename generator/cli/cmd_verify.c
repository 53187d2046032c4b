/* `mlpbwd verify`: plans run on a device, their outputs compared with float64 by the tuner's gate. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "gate.h"
#include "plan_source.h"
#include "suite.h"
#include "verify_inputs.h"

typedef struct verify_options {
    cli_options common; /* first: see cli_parse */
    plan_choice choice;
    int64_t samples, seed;
    int inputs; /* of verify_input_names; -1: all */
    bool accumulate;
} verify_options;

enum { KEY_DEFAULT = 1, KEY_EVERY_PIPELINE, KEY_SAMPLES, KEY_SEED, KEY_INPUTS, KEY_ACCUMULATE, KEY_ALL };

static const struct argp_option own_options[] = {
    {"default", KEY_DEFAULT, NULL, 0, "The templates' default plan, not the databases' answer", 0},
    {"every-pipeline", KEY_EVERY_PIPELINE, NULL, 0, "Every pipeline of the templates with its default kernels", 0},
    {"samples", KEY_SAMPLES, "N", 0, "Rows of each output to compare (default 48; 0: all)", 0},
    {"seed", KEY_SEED, "N", 0, "Of the inputs (default 1)", 0},
    {"inputs", KEY_INPUTS, "KIND", 0, "suite (default), small, large, outliers or all", 0},
    {"accumulate", KEY_ACCUMULATE, NULL, 0, "Add the weights' and biases' gradients to what is there", 0},
    {"all", KEY_ALL, NULL, 0, "The suite, every class, both GELU forms, every kind of inputs", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    verify_options *options = state->input;
    switch (key) {
    case KEY_DEFAULT:
        options->choice = PLANS_DEFAULT;
        return 0;
    case KEY_EVERY_PIPELINE:
        options->choice = PLANS_EVERY_PIPELINE;
        return 0;
    case KEY_SAMPLES:
        options->samples = cli_integer(state, "--samples", argument, 0, 1000000);
        return 0;
    case KEY_SEED:
        options->seed = cli_integer(state, "--seed", argument, 0, 2147483647);
        return 0;
    case KEY_INPUTS:
        options->inputs = strcmp(argument, "all") == 0
                              ? -1
                              : cli_choice(state, "--inputs", argument, verify_input_names, VERIFY_INPUT_KINDS);
        return 0;
    case KEY_ACCUMULATE:
        options->accumulate = true;
        return 0;
    case KEY_ALL:
        options->common.suite = true;
        options->inputs = -1;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

typedef struct verification {
    const verify_options *options;
    plan_source source;
    json_t *rows;
    size_t failed;
    int code; /* of the first thing that went wrong beside wrong results */
} verification;

static void print_results(FILE *out, const json_t *result) {
    static const char *const headers[] = {"tokens",      "inputs",  "class",   "activation", "pipeline", "match",
                                          "grad_hidden", "grad_w1", "grad_b1", "grad_w2",    "grad_b2",  "verdict"};
    cli_table *table = cli_table_new(headers, sizeof headers / sizeof headers[0]);
    size_t index = 0;
    json_t *row = NULL;
    json_array_foreach(json_object_get(result, "results"), index, row) {
        static const char *const words[] = {"inputs", "accuracy", "activation", "pipeline", "match"};
        cli_cell(table, "%lld", (long long)json_integer_value(json_object_get(row, "tokens")));
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            const char *word = json_string_value(json_object_get(row, words[i]));
            cli_cell(table, "%s", word != NULL ? word : "-");
        }
        for (int output = 0; output < TENSOR_OUTPUTS; output++) {
            const json_t *errors = json_object_get(json_object_get(row, "errors"), tensor_name(TENSOR_INPUTS + output));
            const json_t *figure = json_object_get(errors, "frobenius");
            if (json_is_number(figure)) {
                cli_cell(table, "%.2e", json_number_value(figure));
            } else {
                cli_cell(table, "-");
            }
        }
        const char *failed = json_string_value(json_object_get(row, "failed"));
        cli_cell(table, "%s", failed == NULL ? "right" : failed);
    }
    cli_table_print(table, out);
    (void)fprintf(out, "Frobenius relative errors; limits:");
    const char *class = NULL;
    json_t *limits = NULL;
    json_object_foreach(json_object_get(result, "limits"), class, limits) {
        char *text = json_dumps(limits, JSON_COMPACT | JSON_REAL_PRECISION(3));
        (void)fprintf(out, " %s %s", class, text != NULL ? text : "");
        free(text);
    }
    (void)fputc('\n', out);
}

static void add_row(verification *work, const json_t *head, const ready_plan *plan, json_t *errors,
                    const char *failed) {
    json_t *row = json_copy((json_t *)head);
    (void)json_object_set_new(row, "pipeline", plan->pipeline != NULL ? json_string(plan->pipeline) : json_null());
    (void)json_object_set_new(row, "match", plan->match != NULL ? json_string(plan->match) : json_null());
    (void)json_object_set_new(row, "errors", errors != NULL ? errors : json_null());
    (void)json_object_set_new(row, "failed", failed != NULL ? json_string(failed) : json_null());
    (void)json_array_append_new(work->rows, row);
    if (failed != NULL) {
        work->failed++;
    }
    cli_note("T = %lld, %s, %s, %s inputs, %s: %s", (long long)json_integer_value(json_object_get(head, "tokens")),
             json_string_value(json_object_get(head, "accuracy")),
             json_string_value(json_object_get(head, "activation")), json_string_value(json_object_get(head, "inputs")),
             plan->pipeline != NULL ? plan->pipeline : "no plan", failed != NULL ? failed : "right");
}

/* What the weights' and biases' gradients hold before an accumulating pass: numbers as large as the results themselves.
 * grad_hidden_states is never added to. */
static mlpbwd_status make_initial(const tensor_sizes *sizes, const reference *r, float *initial[TENSOR_OUTPUTS],
                                  mlp_message *why) {
    for (int output = 1; output < TENSOR_OUTPUTS; output++) {
        size_t count =
            (size_t)(tensor_rows(TENSOR_INPUTS + output, sizes) * tensor_columns(TENSOR_INPUTS + output, sizes));
        double sum = 0.0;
        const reference_part *part = &r->part[output];
        size_t values = (size_t)(part->count * part->length);
        for (size_t i = 0; i < values; i++) {
            sum += part->values[i] * part->values[i];
        }
        initial[output] = malloc((count > 0 ? count : 1) * sizeof(float));
        if (initial[output] == NULL) {
            return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory for %zu initial values", count);
        }
        inputs_normal(initial[output], count, values > 0 ? sqrt(sum / (double)values) : 1.0, 77 + (uint64_t)output);
    }
    return MLPBWD_OK;
}

/* One plan of one problem: run it on poisoned outputs, then the gate. */
static mlpbwd_status check_plan(verification *work, const json_t *head, ready_plan *plan, gate_arena *arena,
                                const reference *r, int accuracy, const float *const initial[TENSOR_OUTPUTS],
                                mlp_message *why) {
    void *workspace = NULL;
    gate_errors errors = {0};
    mlpbwd_status status = gate_arena_workspace(arena, plan_image_workspace(plan->image), &workspace, why);
    if (status == MLPBWD_OK) {
        status = gate_arena_prepare(arena, initial, why);
    }
    if (status == MLPBWD_OK) {
        status = plan_image_run(plan->image, gate_arena_tensors(arena), workspace, NULL, NULL, why);
    }
    if (status == MLPBWD_OK) {
        status = gate_check(arena, r, accuracy, true, initial, &errors, why);
    }
    if (status == MLPBWD_OK) {
        add_row(work, head, plan, gate_errors_json(&errors), errors.failed);
    }
    return status;
}

static mlpbwd_status check_class(verification *work, json_t *head, mlpbwd_problem *problem, gate_arena *arena,
                                 const reference *r, const float *const initial[TENSOR_OUTPUTS], mlp_message *why) {
    json_t *names = NULL;
    ready_plan plan = {0};
    (void)json_object_set_new(head, "accuracy", json_string(accuracy_name(problem->accuracy)));
    mlpbwd_status status = plan_source_pipelines(&work->source, problem->accuracy, &names, why);
    if (status != MLPBWD_OK) {
        add_row(work, head, &plan, NULL, why->text);
        return MLPBWD_OK;
    }
    size_t index = 0;
    json_t *name = NULL;
    json_array_foreach(names, index, name) {
        if (*cli_interrupted() != 0) {
            break;
        }
        status = plan_source_load(&work->source, json_string_value(name), problem, &plan, why);
        if (status == MLPBWD_OK) {
            status = check_plan(work, head, &plan, arena, r, problem->accuracy, initial, why);
        } else {
            add_row(work, head, &plan, NULL, why->text);
            status = MLPBWD_OK;
        }
        ready_plan_free(&plan);
        if (status != MLPBWD_OK) {
            break;
        }
    }
    json_decref(names);
    return status;
}

static mlpbwd_status check_activation(verification *work, const inputs *in, gate_arena *arena, int activation,
                                      json_t *head, mlp_message *why) {
    const verify_options *options = work->options;
    reference r = {0};
    float *initial[TENSOR_OUTPUTS] = {NULL};
    (void)json_object_set_new(head, "activation", json_string(activation_name(activation)));
    mlpbwd_status status = reference_create(in, activation, options->samples, (uint64_t)options->seed, &r, why);
    if (status == MLPBWD_OK && options->accumulate) {
        status = make_initial(&in->sizes, &r, initial, why);
    }
    for (int accuracy = 0; status == MLPBWD_OK && accuracy < 3 && *cli_interrupted() == 0; accuracy++) {
        if (options->common.accuracy >= 0 && options->common.accuracy != accuracy) {
            continue;
        }
        mlpbwd_problem problem = {.batch_size = 1,
                                  .seq_len = in->sizes.tokens,
                                  .hidden_size = in->sizes.hidden_size,
                                  .intermediate_size = in->sizes.intermediate_size,
                                  .activation = activation,
                                  .accuracy = accuracy,
                                  .flags = options->accumulate ? MLPBWD_FLAG_ACCUMULATE : 0};
        status = check_class(work, head, &problem, arena, &r,
                             options->accumulate ? (const float *const *)initial : NULL, why);
    }
    for (int output = 0; output < TENSOR_OUTPUTS; output++) {
        free(initial[output]);
    }
    reference_free(&r);
    return status;
}

static mlpbwd_status check_inputs_of(verification *work, int64_t tokens, int kind, mlp_message *why) {
    const verify_options *options = work->options;
    tensor_sizes sizes = {tokens, options->common.hidden_size, options->common.intermediate_size};
    inputs in = {0};
    gate_arena *arena = NULL;
    json_t *head = json_pack("{s:I, s:s}", "tokens", (json_int_t)tokens, "inputs", verify_input_names[kind]);
    mlpbwd_status status = inputs_create(&sizes, (uint64_t)options->seed, &in, why);
    if (status == MLPBWD_OK) {
        verify_inputs_shape(&in, kind);
        status = gate_arena_create(work->source.context, &in, &arena, why);
    }
    for (int activation = 0; status == MLPBWD_OK && activation < 2 && *cli_interrupted() == 0; activation++) {
        if (options->common.activation < 0 || options->common.activation == activation) {
            status = check_activation(work, &in, arena, activation, head, why);
        }
    }
    if (arena != NULL) {
        gate_arena_free(arena);
    }
    inputs_free(&in);
    json_decref(head);
    return status;
}

static json_t *limits_json(void) {
    json_t *limits = json_object();
    for (int accuracy = 0; accuracy < 3; accuracy++) {
        json_t *row = json_object();
        for (int output = 0; output < TENSOR_OUTPUTS - 1; output++) {
            (void)json_object_set_new(row, tensor_name(TENSOR_INPUTS + output),
                                      json_real(gate_limit(accuracy, output)));
        }
        (void)json_object_set_new(limits, accuracy_name(accuracy), row);
    }
    return limits;
}

static int verify_all(verification *work) {
    const verify_options *options = work->options;
    mlp_message why = {""};
    mlpbwd_status status = plan_source_open(&work->source, &options->common, options->choice, &why);
    for (size_t i = 0; status == MLPBWD_OK && i < options->common.token_count; i++) {
        for (int kind = 0; status == MLPBWD_OK && kind < VERIFY_INPUT_KINDS && *cli_interrupted() == 0; kind++) {
            if (options->inputs < 0 || options->inputs == kind) {
                status = check_inputs_of(work, options->common.tokens[i], kind, &why);
            }
        }
    }
    json_t *result =
        json_pack("{s:s, s:s, s:O, s:o, s:I}", "device", work->source.info.id, "name", work->source.info.name,
                  "results", work->rows, "limits", limits_json(), "failed", (json_int_t)work->failed);
    plan_source_close(&work->source);
    int code = status == MLPBWD_OK ? EXIT_DONE : cli_failed(status, &why);
    if (status == MLPBWD_OK || json_array_size(work->rows) > 0) {
        int printed = cli_result(&options->common, result, print_results);
        code = code == EXIT_DONE ? printed : code;
    } else {
        json_decref(result);
    }
    if (code == EXIT_DONE && work->failed > 0) {
        cli_error("%zu of %zu checks failed", work->failed, json_array_size(work->rows));
        code = EXIT_FAILED;
    }
    return *cli_interrupted() != 0 ? EXIT_INTERRUPTED : code;
}

int command_verify(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_DEVICE | TAKES_DATABASE | TAKES_TEMPLATES | TAKES_SIZES | TAKES_TOKENS | TAKES_ACCURACY |
                 TAKES_ACTIVATION | TAKES_RESULT,
        .own = own_options,
        .parse = parse,
        .doc = "Runs the plans that the databases would give on a device and compares the outputs with a float64 "
               "reference by the accuracy contract of mlpbwd.h. Without --accuracy: every class; without "
               "--activation: both forms; without sizes: T = 1, 65 and 541. Exit code 1 when a check fails.\v"
               "Examples:\n"
               "  mlpbwd verify --suite\n"
               "  mlpbwd verify --device host --tokens 63,64,65 --hidden-size 128 --intermediate-size 256 --samples 0\n"
               "  mlpbwd verify --every-pipeline --inputs outliers --accuracy tf32\n"};
    verify_options options = {.samples = 48, .seed = 1};
    cli_parse(&syntax, argc, argv, &options.common);
    if (options.common.token_count == 0 && !options.common.tokens_given) {
        static const int64_t few[] = {1, 65, 541};
        memcpy(options.common.tokens, few, sizeof few);
        options.common.token_count = sizeof few / sizeof few[0];
    }
    int code = options.choice == PLANS_LADDER ? EXIT_DONE : cli_default_templates(&options.common);
    if (code != EXIT_DONE) {
        return code;
    }
    cli_catch_interrupts();
    verification work = {.options = &options, .rows = json_array()};
    code = verify_all(&work);
    json_decref(work.rows);
    return code;
}
