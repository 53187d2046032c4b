#include "tiny.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *pointer) {
    if (!pointer) {
        fprintf(stderr, "tiny: out of memory or unreadable\n");
        abort();
    }
    return pointer;
}

static void succeed(mlpbwd_status status, const mlp_message *why) {
    if (status != MLPBWD_OK) {
        fprintf(stderr, "tiny: %s\n", why->text);
        abort();
    }
}

const char *tiny_host_arch(void) {
    static char ladder[DEV_MAX_LADDER][32];
    size_t length = dev_host_ladder(ladder);
    return length > 0 ? ladder[length - 1] : "generic";
}

char *tiny_source(void) {
    FILE *file = must(fopen(SOURCE_DIR "/tests/support/tiny_kernels.inc", "r"));
    char *text = must(calloc(1, 1 << 16));
    if (fread(text, 1, (1 << 16) - 1, file) == 0)
        abort();
    fclose(file);
    return text;
}

bool tiny_compile(const dev_image **image, mlp_message *why) {
    static dev_image compiled;
    if (!compiled.bytes) {
        char *source = tiny_source();
        const dev_compile_request request = {
            .compiler = "cc", .target = tiny_host_arch(), .source = source, .name = "tiny"};
        mlpbwd_status status = dev_compile(&request, &compiled, why);
        free(source);
        if (status != MLPBWD_OK)
            return false;
    }
    *image = &compiled;
    return true;
}

char *tiny_plan_json(const tiny_plan *plan) {
    char code[80] = "null", text[8192];
    int side = plan->overlapped ? 1 : 0;
    if (plan->code)
        snprintf(code, sizeof code, "\"%s\"", plan->code);
    int length = snprintf(
        text, sizeof text,
        "{\"format\":1,\"pipeline\":\"tiny\",\"accuracy\":\"%s\",\"arch\":\"%s\","
        "\"tokens\":{\"min\":1,\"max\":2147483647},\"parameters\":{\"fc2_dgrad\":{\"kernel\":\"tiny\",\"factor\":%d}},"
        "\"modules\":[{\"slot\":\"fc2_dgrad\",\"compiler\":\"cc\",\"target\":\"%s\",\"source\":\"%s\",\"code\":%s,"
        "\"code_format\":\"elf-so\"}],"
        "\"buffers\":[{\"name\":\"grad_intermediate\",\"size\":\"4*T*I\"},{\"name\":\"copy\",\"size\":\"4*T*H\"}],"
        "\"launches\":["
        "{\"slot\":\"copy\",\"module\":0,\"entry\":\"tiny_copy\",\"grid\":[\"T*H\"],\"block\":[1],\"shared\":\"0\","
        "\"stream\":0,\"after\":[],\"args\":[{\"pointer\":\"grad_output\",\"access\":\"in\"},"
        "{\"pointer\":\"copy\",\"access\":\"out\"}]},"
        "{\"slot\":\"fc2_dgrad\",\"module\":0,\"entry\":\"tiny_fc2_dgrad\",\"grid\":[\"T\"],\"block\":[1024,1,1],"
        "\"args\":[{\"pointer\":\"copy\",\"access\":\"in\"},{\"pointer\":\"weight2\",\"access\":\"in\"},"
        "{\"pointer\":\"intermediate\",\"access\":\"in\"},{\"pointer\":\"grad_intermediate\",\"access\":\"out\"},"
        "{\"i64\":\"T\"},{\"i64\":\"H\"},{\"i64\":\"I\"},{\"i32\":\"ACTIVATION\"}]},"
        "{\"slot\":\"fc2_wgrad\",\"module\":0,\"entry\":\"tiny_wgrad\",\"grid\":[\"H\"],\"block\":[1024],\"stream\":%d,"
        "\"args\":[{\"pointer\":\"copy\",\"access\":\"in\"},{\"pointer\":\"intermediate_activated\",\"access\":\"in\"},"
        "{\"pointer\":\"grad_weight2\",\"access\":\"inout\"},{\"i64\":\"T\"},{\"i64\":\"H\"},{\"i64\":\"I\"},"
        "{\"i32\":\"ACCUMULATE\"}]},"
        "{\"slot\":\"fc1_dgrad\",\"module\":0,\"entry\":\"tiny_fc1_dgrad\",\"grid\":[\"T\"],\"block\":[1024],"
        "\"args\":[{\"pointer\":\"grad_intermediate\",\"access\":\"in\"},{\"pointer\":\"weight1\",\"access\":\"in\"},"
        "{\"pointer\":\"grad_hidden_states\",\"access\":\"out\"},{\"i64\":\"H\"},{\"i64\":\"I\"},{\"f32\":%.1f}]},"
        "{\"slot\":\"fc1_wgrad\",\"module\":0,\"entry\":\"tiny_wgrad\",\"grid\":[\"I\"],\"block\":[1024],\"stream\":%d,"
        "\"after\":[1],\"args\":[{\"pointer\":\"grad_intermediate\",\"access\":\"in\"},"
        "{\"pointer\":\"hidden_states\",\"access\":\"in\"},{\"pointer\":\"grad_weight1\",\"access\":\"inout\"},"
        "{\"i64\":\"T\"},{\"i64\":\"I\"},{\"i64\":\"H\"},{\"i32\":\"ACCUMULATE\"}]},"
        "{\"slot\":\"bias_reduce\",\"module\":0,\"entry\":\"tiny_bias\",\"grid\":[\"I+H\"],\"block\":[1024],"
        "\"stream\":%d,\"args\":[{\"pointer\":\"grad_intermediate\",\"access\":\"in\",\"part\":1},"
        "{\"pointer\":\"grad_bias1\",\"access\":\"inout\",\"part\":1},"
        "{\"pointer\":\"copy\",\"access\":\"in\",\"part\":2},"
        "{\"pointer\":\"grad_bias2\",\"access\":\"inout\",\"part\":2},{\"i64\":\"T\"},{\"i64\":\"H\"},{\"i64\":\"I\"},"
        "{\"i32\":\"ACCUMULATE\"}]}]}",
        plan->accuracy ? plan->accuracy : "tf32", plan->arch, (int)plan->factor, tiny_host_arch(), plan->source, code,
        side, plan->factor != 0 ? plan->factor : 1.0, side, side);
    if (length < 0 || (size_t)length >= sizeof text)
        abort();
    return must(strdup(text));
}

db *tiny_database(const char *path, bool with_code, char source[DB_HASH_CAPACITY], char code[DB_HASH_CAPACITY]) {
    mlp_message why = {0};
    db *database = NULL;
    const dev_image *image = NULL;
    char *text = tiny_source();
    succeed(db_open(path, DB_READ_WRITE, &database, &why), &why);
    succeed(db_put_blob(database, "source", text, strlen(text), source, &why), &why);
    if (with_code) {
        succeed(tiny_compile(&image, &why) ? MLPBWD_OK : MLPBWD_COMPILE_ERROR, &why);
        succeed(db_put_blob(database, image->format, image->bytes, image->size, code, &why), &why);
    }
    free(text);
    return database;
}

void tiny_put(db *database, const tiny_row *row) {
    static const char *const accuracies[] = {"tf32", "fp32", "bf16"};
    mlp_message why = {0};
    tiny_plan plan = row->plan;
    char parameters[128];
    plan.arch = row->arch;
    plan.accuracy = accuracies[row->accuracy];
    char *json = tiny_plan_json(&plan);
    snprintf(parameters, sizeof parameters, "{\"fc2_dgrad\":{\"factor\":%d,\"kernel\":\"tiny\"}}", (int)plan.factor);
    const db_plan_row stored = {.arch = row->arch,
                                .device_name = row->device_name,
                                .units = row->units,
                                .compute_capability = row->compute_capability,
                                .tokens = row->tokens,
                                .hidden_size = row->hidden_size,
                                .intermediate_size = row->intermediate_size,
                                .accuracy = row->accuracy,
                                .min_tokens = row->min_tokens ? row->min_tokens : 1,
                                .max_tokens = row->max_tokens ? row->max_tokens : 2147483647,
                                .pipeline = "tiny",
                                .parameters = parameters,
                                .plan = json,
                                .median_us = row->median_us > 0 ? row->median_us : -1,
                                .measurement = "",
                                .origin = row->device_name[0] ? "tune" : "build",
                                .date = "2026-01-02"};
    succeed(db_put_plan(database, &stored, &why), &why);
    free(json);
}

void tiny_default_database(const char *path, bool with_code, bool overlapped) {
    char source[DB_HASH_CAPACITY], code[DB_HASH_CAPACITY];
    db *database = tiny_database(path, with_code, source, code);
    for (int accuracy = 0; accuracy < 3; accuracy++) {
        const tiny_row row = {.arch = tiny_host_arch(),
                              .device_name = "",
                              .accuracy = accuracy,
                              .plan = {.overlapped = overlapped, .source = source, .code = with_code ? code : NULL}};
        tiny_put(database, &row);
    }
    db_close(database);
}

/* ---- data ---- */

void *tiny_aligned(size_t size) {
    return size > 0 ? must(aligned_alloc(256, (size + 255) / 256 * 256)) : NULL;
}

float *tiny_output(const tiny_case *c, int output) {
    float *const outputs[5] = {c->tensors.grad_hidden_states, c->tensors.grad_weight1, c->tensors.grad_bias1,
                               c->tensors.grad_weight2, c->tensors.grad_bias2};
    return outputs[output];
}

static double derivative(int activation, double x) {
    if (activation == MLPBWD_GELU_ERF)
        return 0.5 * (1 + erf(x / sqrt(2.0))) + x * exp(-x * x / 2) / sqrt(2 * acos(-1.0));
    double c = sqrt(2 / acos(-1.0)), t = tanh(c * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

static void expect(tiny_case *c, size_t tokens, size_t h_count, size_t i_count) {
    const mlpbwd_tensors *in = &c->tensors;
    double *g = must(calloc(tokens * i_count + 1, sizeof *g));
    for (size_t t = 0; t < tokens; t++)
        for (size_t i = 0; i < i_count; i++) {
            for (size_t h = 0; h < h_count; h++)
                g[t * i_count + i] += (double)in->grad_output[t * h_count + h] * in->weight2[h * i_count + i];
            g[t * i_count + i] *= derivative(c->problem.activation, in->intermediate[t * i_count + i]);
        }
    for (size_t t = 0; t < tokens; t++)
        for (size_t h = 0; h < h_count; h++)
            for (size_t i = 0; i < i_count; i++) {
                double gradient = g[t * i_count + i], output = in->grad_output[t * h_count + h];
                c->expected[0][t * h_count + h] += gradient * in->weight1[i * h_count + h];
                c->expected[1][i * h_count + h] += gradient * in->hidden_states[t * h_count + h];
                c->expected[2][i] += h == 0 ? gradient : 0;
                c->expected[3][h * i_count + i] += output * in->intermediate_activated[t * i_count + i];
                c->expected[4][h] += i == 0 ? output : 0;
            }
    free(g);
}

void tiny_case_make(tiny_case *c, const mlpbwd_problem *problem) {
    size_t tokens = (size_t)(problem->batch_size * problem->seq_len), h = (size_t)problem->hidden_size;
    size_t i = (size_t)problem->intermediate_size, total = 0;
    const size_t counts[13] = {tokens * h, tokens * h, i * h, i, h * i, h, tokens * i,
                               tokens * i, tokens * h, i * h, i, h * i, h};
    float *pointers[13];
    uint32_t state = 12345;
    *c = (tiny_case){.problem = *problem};
    memcpy(c->counts, counts, sizeof counts);
    for (size_t k = 0; k < 13; k++)
        total += (counts[k] + 63) / 64 * 64;
    float *next = c->memory = tiny_aligned((total + 64) * sizeof(float));
    for (size_t k = 0; k < 13; k++) {
        pointers[k] = next;
        next += (counts[k] + 63) / 64 * 64;
        for (size_t e = 0; e < counts[k]; e++) {
            state = state * 1664525U + 1013904223U;
            pointers[k][e] = k < 8 ? (float)(state >> 8) / 8388608.0F - 1.0F : 0.0F;
        }
    }
    memcpy(&c->tensors, pointers, sizeof pointers);
    for (size_t k = 0; k < 5; k++)
        c->expected[k] = must(calloc(counts[8 + k] + 1, sizeof(double)));
    expect(c, tokens, h, i);
}

void tiny_case_free(tiny_case *c) {
    for (size_t k = 0; k < 5; k++)
        free(c->expected[k]);
    free(c->memory);
}

void tiny_case_fill(tiny_case *c, float value) {
    for (int k = 0; k < 5; k++)
        for (size_t e = 0; e < c->counts[8 + k]; e++)
            tiny_output(c, k)[e] = value;
}

double tiny_case_error(const tiny_case *c, int output, double added) {
    double error = 0, norm = 0;
    for (size_t e = 0; e < c->counts[8 + output]; e++) {
        double wanted = c->expected[output][e] + added, difference = tiny_output(c, output)[e] - wanted;
        error += difference * difference;
        norm += wanted * wanted;
    }
    return norm > 0 ? sqrt(error / norm) : sqrt(error);
}
