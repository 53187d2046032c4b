/* Stored plans as C++ functions. What the runtime works out once for a plan (which pointers are passed, which stream
 * waits for which) is asked of the runtime; what depends on T and the GPU stays an expression. */
#include "export_private.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "plan_image_private.h"

typedef struct writing {
    export_state *state;
    const json_t *plan;
    FILE *out;
    mlp_message *why;
} writing;

static const char *text_of(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

/* A number or expression, which the runtime has parsed already: C++ reads it the same way once its numbers are of the
 * checked type. */
static void write_expression(FILE *out, const json_t *value) {
    if (json_is_integer(value)) {
        (void)fprintf(out, "integer(%lld)", (long long)json_integer_value(value));
        return;
    }
    for (const char *at = json_string_value(value); at != NULL && *at != '\0'; at++) {
        (void)fputc(*at == '\n' || *at == '\t' ? ' ' : *at, out);
        if (isdigit((unsigned char)at[0]) && !isdigit((unsigned char)at[1])) {
            (void)fputs("_i", out);
        }
    }
}

static void write_extent(FILE *out, const json_t *list, size_t index) {
    if (index < json_array_size(list)) {
        write_expression(out, json_array_get(list, index));
    } else {
        (void)fputs("1_i", out);
    }
}

/* Fields that say what neither the runtime nor the solution's host code does would be lost without a word. */
static mlpbwd_status check_fields(const json_t *launch, mlp_message *why) {
    static const char *const known[] = {"slot",   "module", "entry", "grid", "block",
                                        "shared", "stream", "after", "args"};
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)launch, key, value) {
        size_t i = 0;
        while (i < sizeof known / sizeof known[0] && strcmp(known[i], key) != 0) {
            i++;
        }
        if (i == sizeof known / sizeof known[0]) {
            return mlp_fail(why, MLPBWD_UNSUPPORTED,
                            "slot \"%s\": its launch has the field \"%s\", which an exported "
                            "solution has nothing for",
                            text_of(launch, "slot"), key);
        }
    }
    return MLPBWD_OK;
}

static void write_list(FILE *out, const json_t *list) {
    (void)fputs(", {", out);
    for (size_t i = 0; i < json_array_size(list); i++) {
        (void)fputs(i > 0 ? ", " : "", out);
        write_expression(out, json_array_get(list, i));
    }
    (void)fputs("}", out);
}

/* The argument just written is passed in a map. */
static void write_map(FILE *out, const dev_tensor *map, const json_t *item) {
    static const char *const elements[] = {[DEV_U8] = "U8", [DEV_F16] = "F16", [DEV_BF16] = "BF16", [DEV_F32] = "F32"};
    (void)fprintf(out, "    p.in_map(tensor_map::%s, %u, %d", elements[map->element], dev_swizzle_bytes(map->swizzle),
                  map->l2_bytes);
    write_list(out, json_object_get(item, "size"));
    write_list(out, json_object_get(item, "stride"));
    write_list(out, json_object_get(item, "box"));
    (void)fputs(");\n", out);
}

static void write_argument(FILE *out, const image_argument *argument, const json_t *item) {
    (void)fputs("    p.", out);
    if (argument->kind != ARGUMENT_CONSTANT && argument->outputs != 0) {
        (void)fprintf(out, "%s(%u); // %s\n", argument->kind == ARGUMENT_TENSOR ? "tensor" : "workspace_buffer",
                      argument->index, text_of(item, "pointer"));
        if (argument->map != NULL) {
            write_map(out, argument->map, json_object_get(item, "map"));
        }
        return;
    }
    const json_t *i32 = json_object_get(item, "i32"), *i64 = json_object_get(item, "i64");
    if (i32 != NULL || i64 != NULL) {
        (void)fputs(i32 != NULL ? "i32(" : "i64(", out);
        write_expression(out, i32 != NULL ? i32 : i64);
        (void)fputs(");\n", out);
    } else if (json_object_get(item, "f32") != NULL) {
        (void)fprintf(out, "f32(%af);\n", argument->value.f32); /* hexadecimal: exact, and without a locale's comma */
    } else {
        (void)fputs("null();\n", out);
    }
}

static mlpbwd_status write_launch(writing *w, const image_launch *launch, const json_t *item) {
    size_t kernel = 0;
    mlpbwd_status status = check_fields(item, w->why);
    if (status == MLPBWD_OK) {
        status = export_find_kernel(w->state, w->plan, item, &kernel, w->why);
    }
    if (status != MLPBWD_OK) {
        return status;
    }
    const json_t *grid = json_object_get(item, "grid"), *shared = json_object_get(item, "shared");
    (void)fprintf(w->out, "    // %s\n    p.add_launch(%zu, %u, ", launch->slot, kernel, launch->stream);
    for (size_t i = 0; i < 3; i++) {
        write_extent(w->out, grid, i);
        (void)fputs(", ", w->out);
    }
    (void)fprintf(w->out, "%u, %u, %u, ", launch->block[0], launch->block[1], launch->block[2]);
    if (shared != NULL) {
        write_expression(w->out, shared);
    } else {
        (void)fputs("0_i", w->out);
    }
    (void)fputs(");\n", w->out);
    for (unsigned later = 0; later < IMAGE_MAX_STREAMS; later++) {
        for (unsigned earlier = 0; earlier < IMAGE_MAX_STREAMS; earlier++) {
            if (launch->waits[later] >> earlier & 1) {
                (void)fprintf(w->out, "    p.wait(%u, %u);\n", later, earlier);
            }
        }
    }
    for (size_t i = 0; i < launch->argument_count; i++) {
        write_argument(w->out, &launch->arguments[i], json_array_get(json_object_get(item, "args"), i));
    }
    return MLPBWD_OK;
}

static mlpbwd_status write_plan(writing *w, const plan_image *image, size_t index) {
    (void)fprintf(w->out, "// Pipeline %s.\npass plan_%zu(const integer T, const integer UNITS) {\n    pass p;\n",
                  text_of(w->plan, "pipeline"), index);
    for (size_t i = 0; i < image->buffer_count; i++) {
        (void)fputs("    p.add_buffer(", w->out);
        write_expression(w->out, json_object_get(json_array_get(json_object_get(w->plan, "buffers"), i), "size"));
        (void)fprintf(w->out, "); // %zu: %s\n", i, image->buffers[i].name);
    }
    mlpbwd_status status = MLPBWD_OK;
    for (size_t l = 0; l < image->launch_count && status == MLPBWD_OK; l++) {
        status = write_launch(w, &image->launches[l], json_array_get(json_object_get(w->plan, "launches"), l));
    }
    (void)fputs("    return p;\n}\n\n", w->out);
    return status;
}

/* The plan as the runtime reads it, at the T it was looked up for. What is taken from it depends on neither T nor the
 * number of multiprocessors: any number does for the latter. */
static mlpbwd_status analyse(const export_state *state, const export_plan *plan, plan_image *image, mlp_message *why) {
    enum { ANY_UNITS = 128 };
    dev_info device = {.units = ANY_UNITS, .ladder_length = 1};
    mlpbwd_problem problem = {.batch_size = 1,
                              .seq_len = plan->tokens,
                              .hidden_size = state->request->hidden_size,
                              .intermediate_size = state->request->intermediate_size,
                              .activation = MLPBWD_GELU_TANH};
    int accuracy = accuracy_from_name(text_of(plan->plan, "accuracy"));
    problem.accuracy = accuracy < 0 ? 0 : accuracy;
    (void)snprintf(device.ladder[0], sizeof device.ladder[0], "%s", text_of(plan->plan, "arch"));
    (void)snprintf(device.arch, sizeof device.arch, "%s", device.ladder[0]);
    (void)snprintf(device.id, sizeof device.id, "export");
    mlpbwd_status status = plan_image_parse(image, plan->plan, &problem, &device, why);
    return status == MLPBWD_OK ? plan_image_analyse(image, why) : status;
}

static mlpbwd_status add_plan(writing *w, const export_plan *plan, size_t *index) {
    export_state *state = w->state;
    for (*index = 0; *index < state->distinct_count; ++*index) {
        if (json_equal(state->distinct[*index], plan->plan)) {
            return MLPBWD_OK;
        }
    }
    plan_image *image = calloc(1, sizeof *image);
    if (image == NULL) {
        return mlp_fail(w->why, MLPBWD_OUT_OF_MEMORY, "out of memory while exporting");
    }
    mlpbwd_status status = analyse(state, plan, image, w->why);
    w->plan = plan->plan;
    if (status == MLPBWD_OK) {
        status = write_plan(w, image, *index);
        state->distinct[state->distinct_count++] = plan->plan;
    }
    if (status != MLPBWD_OK) {
        mlp_prefix(w->why, "the plan for T = %lld cannot be exported", (long long)plan->tokens);
    }
    plan_image_destroy(image);
    return status;
}

static void write_head(const export_request *request, FILE *out) {
    (void)fprintf(out,
                  "// Generated from stored plans: each as a function of the number of tokens (T) and of the GPU's\n"
                  "// multiprocessors (UNITS). Tensors are numbered in the order of run's parameters.\n"
                  "#include \"mlpbwd_pass.hpp\"\n\n"
                  "namespace mlpbwd {\n\n"
                  "const std::int64_t hidden_size = %lld, intermediate_size = %lld;\n\n"
                  "namespace {\n\n"
                  "[[maybe_unused]] const integer H(%lld), I(%lld), ACTIVATION(0), ACCUMULATE(0);\n\n",
                  (long long)request->hidden_size, (long long)request->intermediate_size,
                  (long long)request->hidden_size, (long long)request->intermediate_size);
}

static void write_choice(const export_request *request, const size_t *indices, FILE *out) {
    (void)fputs("const struct {\n"
                "    std::int64_t tokens, least, most; // looked up for; may serve\n"
                "    pass (*make)(integer, integer);\n"
                "} choices[] = {\n",
                out);
    for (size_t i = 0; i < request->plan_count; i++) {
        const json_t *range = json_object_get(request->plans[i].plan, "tokens");
        (void)fprintf(out, "    {%lld, %lld, %lld, plan_%zu},\n", (long long)request->plans[i].tokens,
                      (long long)json_integer_value(json_object_get(range, "min")),
                      (long long)json_integer_value(json_object_get(range, "max")), indices[i]);
    }
    (void)fputs("};\n\n"
                "} // namespace\n\n"
                "pass make_pass(std::int64_t tokens, std::int64_t units) {\n"
                "    std::int64_t larger = 0, smaller = 1; // T and T' of the best so far\n"
                "    pass (*make)(integer, integer) = nullptr;\n"
                "    integer(tokens).within(1, INT32_MAX, \"the number of tokens\");\n"
                "    for (const auto &choice : choices) {\n"
                "        if (tokens < choice.least || tokens > choice.most)\n"
                "            continue;\n"
                "        const std::int64_t l = tokens > choice.tokens ? tokens : choice.tokens;\n"
                "        const std::int64_t s = tokens > choice.tokens ? choice.tokens : tokens;\n"
                "        if (make != nullptr && l * smaller >= larger * s)\n"
                "            continue;\n"
                "        larger = l;\n"
                "        smaller = s;\n"
                "        make = choice.make;\n"
                "    }\n"
                "    if (make == nullptr)\n"
                "        throw std::out_of_range(\"mlpbwd: no plan serves \" + std::to_string(tokens) + \" tokens\");\n"
                "    return make(integer(tokens), integer(units));\n"
                "}\n\n"
                "} // namespace mlpbwd\n",
                out);
}

mlpbwd_status export_plan_file(export_state *state, mlp_message *why) {
    const export_request *request = state->request;
    char *text = NULL;
    size_t size = 0, indices[EXPORT_MAX_PLANS] = {0};
    if (request->plan_count == 0 || request->plan_count > EXPORT_MAX_PLANS) {
        return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%zu plans were given; one to %d can be exported",
                        request->plan_count, EXPORT_MAX_PLANS);
    }
    writing w = {.state = state, .out = open_memstream(&text, &size), .why = why};
    if (w.out == NULL) {
        return export_add_file(state, "", NULL, why);
    }
    write_head(request, w.out);
    mlpbwd_status status = MLPBWD_OK;
    for (size_t i = 0; i < request->plan_count && status == MLPBWD_OK; i++) {
        status = add_plan(&w, &request->plans[i], &indices[i]);
    }
    write_choice(request, indices, w.out);
    if (fclose(w.out) != 0) {
        free(text);
        text = NULL;
    }
    if (status != MLPBWD_OK) {
        free(text);
        return status;
    }
    return export_add_file(state, "mlpbwd_plans.cpp", text, why);
}
