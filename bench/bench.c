/* `mlpbwd bench`: latency per shape with roofline share; peers beside it, same run, same protocol. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_report.h"
#include "bench_run.h"
#include "peers.h"
#include "suite.h"

enum {
    KEY_PEERS = 1,
    KEY_PEER,
    KEY_SLOTS,
    KEY_DEFAULT,
    KEY_WARM,
    KEY_REPETITIONS,
    KEY_WARMUP,
    KEY_PEER_LIMIT,
    KEY_PYTHON,
    KEY_TORCH_SCRIPT,
    KEY_TORCH_MODE
};

static const struct argp_option own_options[] = {
    {"peers", KEY_PEERS, NULL, 0, "Also time cuBLAS and PyTorch (a GPU) or OpenBLAS (host)", 3},
    {"peer", KEY_PEER, "NAME", 0,
     "Only this peer; may be repeated: cublas, openblas, composition_fp16, compile_fp16, compile_tf32, eager_tf32, "
     "eager_fp32",
     3},
    {"slots", KEY_SLOTS, NULL, 0, "Also time each slot of the plan alone", 3},
    {"default", KEY_DEFAULT, NULL, 0, "The templates' default plan, not the databases' answer", 3},
    {"warm", KEY_WARM, NULL, 0, "Leave the caches as the last repetition left them", 3},
    {"repetitions", KEY_REPETITIONS, "N", 0, "Timed repetitions (default 20)", 3},
    {"warmup", KEY_WARMUP, "N", 0, "Repetitions before the first timed one (default 3)", 3},
    {"peer-limit", KEY_PEER_LIMIT, "TIME", 0, "Longest time of one PyTorch peer (default 4m)", 3},
    {"python", KEY_PYTHON, "PROGRAM", 0, "Python with torch (default python3)", 3},
    {"torch-script", KEY_TORCH_SCRIPT, "FILE", 0, "bench/peers_torch.py (default: beside the templates)", 3},
    {"torch-mode", KEY_TORCH_MODE, "MODE", 0,
     "Mode of torch.compile: default (which is the default) or max-autotune-no-cudagraphs", 3},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    static const char *const modes[] = {"default", "max-autotune-no-cudagraphs", "reduce-overhead"};
    bench_options *options = state->input;
    switch (key) {
    case KEY_PEERS:
        options->peers = true;
        return 0;
    case KEY_PEER:
        if (!bench_is_peer(argument)) {
            argp_error(state, "--peer: there is no peer '%s'", argument);
        }
        options->peers = true;
        (void)json_object_set_new(options->only, argument, json_true());
        return 0;
    case KEY_SLOTS:
        options->slots = true;
        return 0;
    case KEY_DEFAULT:
        options->choice = PLANS_DEFAULT;
        return 0;
    case KEY_WARM:
        options->warm = true;
        return 0;
    case KEY_REPETITIONS:
        options->repetitions = cli_integer(state, "--repetitions", argument, 1, 10000);
        return 0;
    case KEY_WARMUP:
        options->warmup = cli_integer(state, "--warmup", argument, 1, 10000);
        return 0;
    case KEY_PEER_LIMIT:
        options->peer_limit = cli_duration(state, "--peer-limit", argument);
        return 0;
    case KEY_PYTHON:
        options->python = argument;
        return 0;
    case KEY_TORCH_SCRIPT:
        options->torch_script = argument;
        return 0;
    case KEY_TORCH_MODE:
        options->torch_mode = modes[cli_choice(state, "--torch-mode", argument, modes, 2)];
        return 0;
    case ARGP_KEY_END:
        if (options->common.token_count == 0) {
            options->common.suite = true;
            options->common.token_count = suite_tokens(options->common.tokens);
        }
        for (size_t i = 0; i < options->common.token_count; i++) {
            if (options->common.tokens[i] == 0) {
                argp_error(state, "T = 0 has no latency to measure");
            }
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool wants(const bench_options *options, const char *peer) {
    return options->peers && (json_object_size(options->only) == 0 || json_object_get(options->only, peer) != NULL);
}

static void progress(const char *who, int64_t tokens, const json_t *timing) {
    const char *error = json_string_value(json_object_get(timing, "error"));
    if (error != NULL) {
        cli_note("T = %lld, %s: %s", (long long)tokens, who, error);
    } else {
        cli_note("T = %lld, %s: %.1f us", (long long)tokens, who,
                 json_number_value(json_object_get(timing, "median_us")));
    }
}

static json_t *row_of(bench_run *run, size_t index) {
    return json_array_get(run->rows, index);
}

/* Our plan and the BLAS library's GEMMs in turn at each T, so that both see the device in the same state. */
static void time_here(bench_run *run, peer_gemm *gemm) {
    const cli_options *common = &run->options->common;
    for (size_t i = 0; i < common->token_count && *cli_interrupted() == 0; i++) {
        int64_t tokens = common->tokens[i];
        json_t *row = row_of(run, i);
        json_t *ours = bench_time_ours(run, tokens);
        progress("mlpbwd", tokens, ours);
        (void)json_object_set_new(row, "ours", ours);
        for (size_t variant = 0; gemm != NULL && variant < peer_gemm_variants(gemm) && *cli_interrupted() == 0;
             variant++) {
            mlp_message why = {""};
            dev_timing timing = bench_timing(run);
            mlpbwd_status status = peer_gemm_time(gemm, variant, tokens, &timing, &why);
            json_t *times = bench_timing_json(run, &timing, status, &why);
            progress(peer_gemm_name(gemm, variant), tokens, times);
            (void)json_object_set_new(json_object_get(row, "peers"), peer_gemm_name(gemm, variant), times);
        }
    }
}

static void add_peer(bench_run *run, const char *name, const char *doc, const char *error) {
    (void)json_array_append_new(run->peers, json_pack("{s:s, s:s, s:s?}", "name", name, "doc", doc, "error", error));
}

static peer_gemm *open_gemm(bench_run *run) {
    bool host = strcmp(run->source.info.backend, "host") == 0;
    const char *name = host ? "openblas" : "cublas";
    peer_gemm *gemm = NULL;
    mlp_message why = {""};
    if (!wants(run->options, name)) {
        return NULL;
    }
    if (peer_gemm_open(&run->source.info, &run->data, &gemm, run->notes, &why) != MLPBWD_OK) {
        cli_note("%s: %s", name, why.text);
        add_peer(run, name, "four GEMMs alone", why.text);
        return NULL;
    }
    for (size_t i = 0; i < peer_gemm_variants(gemm); i++) {
        add_peer(run, peer_gemm_name(gemm, i), peer_gemm_doc(gemm, i), NULL);
    }
    return gemm;
}

static json_t *head_json(const bench_run *run) {
    const cli_options *common = &run->options->common;
    const dev_info *info = &run->source.info;
    char date[32] = "";
    time_t moment = time(NULL);
    struct tm parts;
    if (gmtime_r(&moment, &parts) == NULL || strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
        date[0] = '\0';
    }
    json_t *device = json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:I, s:s, s:s}", "id", info->id, "name", info->name,
                               "arch", info->arch, "units", info->units, "max_clock_mhz", info->max_clock_mhz,
                               "power_limit_w", info->power_limit_w, "l2_bytes", (json_int_t)info->l2_bytes, "driver",
                               info->driver, "compiler", info->compiler);
    json_t *bound = json_pack("{s:f, s:f, s:s}", "flop_per_second", run->line.flop_rate, "bytes_per_second",
                              run->line.byte_rate, "source", run->line.source);
    return json_pack("{s:s, s:i, s:s, s:s, s:o, s:s, s:I, s:I, s:s, s:s, s:o, s:O, s:O, s:O}", "format", "mlpbwd-bench",
                     "version", 1, "library", mlpbwd_version(), "date", date, "device", device, "protocol",
                     run->protocol, "hidden_size", (json_int_t)common->hidden_size, "intermediate_size",
                     (json_int_t)common->intermediate_size, "accuracy",
                     accuracy_name(common->accuracy < 0 ? 0 : common->accuracy), "activation",
                     activation_name(common->activation < 0 ? 0 : common->activation), "roofline", bound, "rows",
                     run->rows, "peers", run->peers, "notes", run->notes);
}

/* What there is so far, to --output: a run that is killed in a peer keeps the rest. */
static void save_so_far(const bench_run *run) {
    if (run->options->common.output != NULL) {
        json_t *result = head_json(run);
        bench_summarise(result);
        (void)cli_save(result, run->options->common.output);
        json_decref(result);
    }
}

/* After our own buffers are freed: the children need the memory. */
static void time_torch(bench_run *run) {
    const bench_options *options = run->options;
    char script[4096];
    if (!bench_torch_script(options->torch_script, script, sizeof script)) {
        add_peer(run, "torch", "PyTorch", "bench/peers_torch.py was not found; name it with --torch-script");
        cli_note("torch: bench/peers_torch.py was not found; name it with --torch-script");
        return;
    }
    torch_request request = {.python = options->python,
                             .script = script,
                             .mode = options->torch_mode,
                             .ordinal = (int)strtol(run->source.info.id + strlen("cuda:"), NULL, 10),
                             .tokens = options->common.tokens,
                             .token_count = options->common.token_count,
                             .hidden_size = options->common.hidden_size,
                             .intermediate_size = options->common.intermediate_size,
                             .activation = options->common.activation < 0 ? 0 : options->common.activation,
                             .repetitions = (int)options->repetitions,
                             .warmup = (int)options->warmup,
                             .limit_seconds = options->peer_limit,
                             .interrupted = cli_interrupted()};
    for (size_t i = 0; torch_peer_names[i] != NULL && *cli_interrupted() == 0; i++) {
        const char *name = torch_peer_names[i];
        if (!wants(options, name)) {
            continue;
        }
        cli_note("%s: in a child process, at most %.0f s ...", name, options->peer_limit);
        json_t *answer = torch_peer_run(&request, name);
        const char *error = json_string_value(json_object_get(answer, "error"));
        add_peer(run, name, torch_peer_docs[i], error);
        (void)json_object_set(json_array_get(run->peers, json_array_size(run->peers) - 1), "versions",
                              json_object_get(answer, "versions"));
        if (error != NULL) {
            cli_note("%s: %s", name, error);
        }
        for (size_t k = 0; k < options->common.token_count; k++) {
            char key[24];
            (void)snprintf(key, sizeof key, "%lld", (long long)options->common.tokens[k]);
            json_t *times = json_object_get(json_object_get(answer, "times"), key);
            if (times != NULL) {
                progress(name, options->common.tokens[k], times);
                (void)json_object_set(json_object_get(row_of(run, k), "peers"), name, times);
            }
        }
        json_decref(answer);
        save_so_far(run);
    }
}

static void make_rows(bench_run *run) {
    const cli_options *common = &run->options->common;
    for (size_t i = 0; i < common->token_count; i++) {
        json_t *shapes = json_array();
        for (size_t k = 0; common->suite && k < SUITE_SHAPES; k++) {
            if (suite_shapes[k].batch * suite_shapes[k].seq_len == common->tokens[i]) {
                (void)json_array_append_new(shapes, json_pack("[I, I]", (json_int_t)suite_shapes[k].batch,
                                                              (json_int_t)suite_shapes[k].seq_len));
            }
        }
        if (!common->suite) {
            int64_t batch = common->batch > 0 ? common->batch : 1;
            (void)json_array_append_new(
                shapes, json_pack("[I, I]", (json_int_t)batch, (json_int_t)(common->tokens[i] / batch)));
        }
        double bound = roofline_us(&run->line, common->tokens[i], common->hidden_size, common->intermediate_size);
        (void)json_array_append_new(run->rows, json_pack("{s:I, s:o, s:o, s:{}}", "tokens",
                                                         (json_int_t)common->tokens[i], "shapes", shapes, "roofline_us",
                                                         bound > 0 ? json_real(bound) : json_null(), "peers"));
    }
}

static mlpbwd_status measure(bench_run *run, mlp_message *why) {
    const cli_options *common = &run->options->common;
    mlpbwd_status status = plan_source_open(&run->source, common, run->options->choice, why);
    if (status == MLPBWD_OK) {
        status = dev_check_times(run->source.device, why);
    }
    if (status != MLPBWD_OK) {
        return status;
    }
    roofline_find(&run->source.info, common->accuracy < 0 ? 0 : common->accuracy, common, &run->line);
    make_rows(run);
    tensor_sizes sizes = {0, common->hidden_size, common->intermediate_size};
    for (size_t i = 0; i < common->token_count; i++) {
        sizes.tokens = common->tokens[i] > sizes.tokens ? common->tokens[i] : sizes.tokens;
    }
    /* A BLAS library works in the context that is current. */
    bool pushed = false;
    status = dev_context_enter(run->source.context, &pushed, why);
    if (status == MLPBWD_OK) {
        status = bench_data_create(run->source.context, &sizes, &run->data, why);
        if (status == MLPBWD_OK) {
            peer_gemm *gemm = open_gemm(run);
            time_here(run, gemm);
            peer_gemm_close(gemm);
        }
        bench_data_free(&run->data);
        dev_context_leave(run->source.context, pushed);
    }
    if (status == MLPBWD_OK && run->options->peers && strcmp(run->source.info.backend, "cuda") == 0) {
        save_so_far(run);
        time_torch(run);
    }
    return status;
}

static int run_bench(bench_run *run) {
    mlp_message why = {""};
    mlpbwd_status status = measure(run, &why);
    int code = EXIT_DONE;
    if (status != MLPBWD_OK) {
        code = cli_failed(status, &why);
    } else {
        json_t *result = head_json(run);
        bench_summarise(result);
        bool failed = !bench_all_measured(result);
        code = cli_result(&run->options->common, result, bench_print);
        if (code == EXIT_DONE && failed && *cli_interrupted() == 0) {
            cli_error("our own plan could not be measured at every T");
            code = EXIT_FAILED;
        }
    }
    plan_source_close(&run->source);
    return *cli_interrupted() != 0 ? EXIT_INTERRUPTED : code;
}

int command_bench(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_DEVICE | TAKES_DATABASE | TAKES_TEMPLATES | TAKES_SIZES | TAKES_TOKENS | TAKES_ACCURACY |
                 TAKES_ACTIVATION | TAKES_RESULT,
        .own = own_options,
        .parse = parse,
        .doc =
            "Times the backward pass as the databases' plans run it. Per repetition: write a buffer of twice the L2, "
            "synchronise, replay one CUDA graph of the pass between two events; 20 repetitions after 3, median. "
            "Without sizes: the suite. A peer that fails is reported and costs only itself.\v"
            "Examples:\n"
            "  mlpbwd bench --suite --peers --output bench.json\n"
            "  mlpbwd bench --device host --tokens 256 --accuracy fp32 --peers\n"
            "  mlpbwd bench --tokens 2164 --slots --peer cublas\n"};
    bench_options options = {.only = json_object(),
                             .repetitions = 20,
                             .warmup = 3,
                             .peer_limit = 240.0,
                             .python = "python3",
                             .torch_mode = "default"};
    cli_parse(&syntax, argc, argv, &options.common);
    int code = options.choice == PLANS_LADDER ? EXIT_DONE : cli_default_templates(&options.common);
    bench_run run = {.options = &options,
                     .rows = json_array(),
                     .peers = json_array(),
                     .notes = json_array(),
                     .times = calloc((size_t)options.repetitions, sizeof(double))};
    if (code == EXIT_DONE && run.times == NULL) {
        cli_error("out of memory");
        code = EXIT_FAILED;
    }
    if (code == EXIT_DONE) {
        cli_catch_interrupts();
        code = run_bench(&run);
    }
    free(run.times);
    json_decref(run.rows);
    json_decref(run.peers);
    json_decref(run.notes);
    json_decref(options.only);
    return code;
}
