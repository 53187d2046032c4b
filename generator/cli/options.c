/* The options that several commands take: one table, from which every command picks what makes sense for it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "generator.h"
#include "suite.h"

enum {
    KEY_DEVICE = 0x100,
    KEY_DATABASE,
    KEY_TEMPLATES,
    KEY_HIDDEN_SIZE,
    KEY_INTERMEDIATE_SIZE,
    KEY_BATCH,
    KEY_SEQ_LEN,
    KEY_TOKENS,
    KEY_SUITE,
    KEY_ACCURACY,
    KEY_ACTIVATION,
    KEY_JSON,
    KEY_OUTPUT,
    KEY_JOBS,
    MAX_OWN = 32
};

static const struct common_option {
    unsigned takes;
    struct argp_option option;
} common_options[] = {
    {TAKES_DEVICE,
     {"device", KEY_DEVICE, "D", 0, "cuda:0, cuda:1, ... or host (default: the first GPU, else host)", 1}},
    {TAKES_DATABASE, {"db", KEY_DATABASE, "FILE", 0, "Tuning database (default: the user's, then the shipped one)", 1}},
    {TAKES_TEMPLATES,
     {"templates", KEY_TEMPLATES, "DIR", 0,
      "Folder of templates searched before the built-in one; may be repeated, the first wins", 1}},
    {TAKES_TOKENS, {"batch", KEY_BATCH, "B", 0, "Batch size (default 1); T = B x S", 2}},
    {TAKES_TOKENS, {"seq-len", KEY_SEQ_LEN, "S", 0, "Sequence length", 2}},
    {TAKES_TOKENS, {"tokens", KEY_TOKENS, "T,...", 0, "Numbers of tokens, instead of --batch and --seq-len", 2}},
    {TAKES_TOKENS, {"suite", KEY_SUITE, NULL, 0, "The 16 shapes of the benchmark (nine distinct T)", 2}},
    {TAKES_SIZES, {"hidden-size", KEY_HIDDEN_SIZE, "H", 0, "A multiple of 64 (default 2048)", 2}},
    {TAKES_SIZES, {"intermediate-size", KEY_INTERMEDIATE_SIZE, "I", 0, "A multiple of 64 (default 8192)", 2}},
    {TAKES_ACCURACY, {"accuracy", KEY_ACCURACY, "CLASS", 0, "tf32, fp32 or bf16", 2}},
    {TAKES_ACTIVATION, {"activation", KEY_ACTIVATION, "FORM", 0, "gelu_tanh or gelu_erf", 2}},
    {TAKES_JOBS, {"jobs", KEY_JOBS, "N", 0, "Compile in N processes (default: one a processor)", 3}},
    {TAKES_RESULT, {"json", KEY_JSON, NULL, 0, "Print JSON instead of a table", 4}},
    {TAKES_RESULT, {"output", KEY_OUTPUT, "FILE", 0, "Write the JSON to FILE too", 4}},
    {TAKES_OUTPUT, {"output", KEY_OUTPUT, "FILE", 0, "Write the result to FILE", 4}},
};

enum { COMMON_COUNT = sizeof common_options / sizeof common_options[0] };

static const int64_t max_tokens = 2147483647;

static void parse_tokens(const struct argp_state *state, cli_options *options, const char *text) {
    char *copy = strdup(text);
    if (copy == NULL) {
        argp_failure(state, EXIT_FAILED, ENOMEM, "--tokens");
        return;
    }
    options->tokens_given = true;
    options->token_count = 0;
    char *rest = copy;
    for (char *item = strsep(&rest, ","); item != NULL; item = strsep(&rest, ",")) {
        if (options->token_count == CLI_MAX_TOKENS) {
            argp_error(state, "--tokens: more than %d values; give them in several runs", CLI_MAX_TOKENS);
        }
        options->tokens[options->token_count++] = cli_integer(state, "--tokens", item, 0, max_tokens);
    }
    free(copy);
}

static int64_t parse_width(const struct argp_state *state, const char *option, const char *text) {
    int64_t value = cli_integer(state, option, text, 64, 1 << 24);
    if (value % 64 != 0) {
        argp_error(state, "%s: %s is not a multiple of 64", option, text);
    }
    return value;
}

/* What T to work on, once every option is known. */
static void settle_tokens(const struct argp_state *state, cli_options *options) {
    bool shape = options->batch >= 0 || options->seq_len >= 0;
    if ((int)shape + (int)options->tokens_given + (int)options->suite > 1) {
        argp_error(state, "--batch and --seq-len, --tokens and --suite exclude each other: give one of them");
    }
    if (shape) {
        if (options->seq_len < 0) {
            argp_error(state, "--batch needs --seq-len beside it");
        }
        int64_t batch = options->batch < 0 ? 1 : options->batch;
        if (options->seq_len > 0 && batch > max_tokens / options->seq_len) {
            argp_error(state, "--batch %lld x --seq-len %lld is over the limit of 2147483647 tokens", (long long)batch,
                       (long long)options->seq_len);
        }
        options->tokens[0] = batch * options->seq_len;
        options->token_count = 1;
    }
    if (options->suite) {
        options->token_count = suite_tokens(options->tokens);
    }
}

static error_t parse_common(int key, char *argument, struct argp_state *state) {
    cli_options *options = state->input;
    switch (key) {
    case KEY_DEVICE:
        options->device = argument;
        return 0;
    case KEY_DATABASE:
        options->database = argument;
        return 0;
    case KEY_TEMPLATES:
        if (options->template_count == CLI_MAX_TEMPLATES) {
            argp_error(state, "--templates: at most %d folders", CLI_MAX_TEMPLATES);
        }
        options->templates[options->template_count++] = argument;
        return 0;
    case KEY_HIDDEN_SIZE:
        options->hidden_size = parse_width(state, "--hidden-size", argument);
        return 0;
    case KEY_INTERMEDIATE_SIZE:
        options->intermediate_size = parse_width(state, "--intermediate-size", argument);
        return 0;
    case KEY_BATCH:
        options->batch = cli_integer(state, "--batch", argument, 0, max_tokens);
        return 0;
    case KEY_SEQ_LEN:
        options->seq_len = cli_integer(state, "--seq-len", argument, 0, max_tokens);
        return 0;
    case KEY_TOKENS:
        parse_tokens(state, options, argument);
        return 0;
    case KEY_SUITE:
        options->suite = true;
        return 0;
    case KEY_ACCURACY:
        options->accuracy = cli_choice(state, "--accuracy", argument, accuracy_names, ACCURACY_COUNT);
        return 0;
    case KEY_ACTIVATION:
        options->activation = cli_choice(state, "--activation", argument, activation_names, ACTIVATION_COUNT);
        return 0;
    case KEY_JOBS:
        options->jobs = (int)cli_integer(state, "--jobs", argument, 1, 1024);
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case KEY_OUTPUT:
        options->output = argument;
        return 0;
    case ARGP_KEY_END:
        settle_tokens(state, options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* argp hands its parser a key only; which command's own parser comes first is kept here. */
static const cli_syntax *current;

static error_t parse_all(int key, char *argument, struct argp_state *state) {
    error_t common = parse_common(key, argument, state);
    error_t own = current->parse != NULL ? current->parse(key, argument, state) : ARGP_ERR_UNKNOWN;
    if (own == ARGP_ERR_UNKNOWN && key == ARGP_KEY_ARG) {
        argp_error(state, "'%s' is one word too many: this command takes options only", argument);
    }
    return own == ARGP_ERR_UNKNOWN ? common : own;
}

void cli_parse(const cli_syntax *syntax, int argc, char **argv, cli_options *options) {
    options->hidden_size = SUITE_HIDDEN_SIZE;
    options->intermediate_size = SUITE_INTERMEDIATE_SIZE;
    options->batch = -1;
    options->seq_len = -1;
    options->accuracy = -1;
    options->activation = -1;
    struct argp_option merged[COMMON_COUNT + MAX_OWN + 1] = {{0}};
    size_t count = 0;
    for (const struct argp_option *own = syntax->own; own != NULL && (own->name != NULL || own->doc != NULL); own++) {
        if (count < MAX_OWN) {
            merged[count++] = *own;
        }
    }
    for (size_t i = 0; i < COMMON_COUNT; i++) {
        if ((common_options[i].takes & syntax->takes) != 0) {
            merged[count++] = common_options[i].option;
        }
    }
    current = syntax;
    struct argp parser = {.options = merged, .parser = parse_all, .args_doc = syntax->arguments, .doc = syntax->doc};
    error_t error = argp_parse(&parser, argc, argv, 0, NULL, options);
    if (error != 0) {
        cli_error("the options could not be read: %s", strerror(error));
        exit(EXIT_FAILED);
    }
}

int cli_default_templates(cli_options *options) {
    static char folder[4096];
    mlp_message why;
    mlpbwd_status status = gen_default_folder(folder, sizeof folder, &why);
    if (status == MLPBWD_OK && folder[0] != '\0') {
        options->templates[options->template_count++] = folder;
        return EXIT_DONE;
    }
    return options->template_count > 0 ? EXIT_DONE : cli_failed(status, &why);
}
