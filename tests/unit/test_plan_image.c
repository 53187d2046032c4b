/* Stored plans on a simulated asynchronous device: values, liveness, order between streams, shared memory, the pool of
 * side streams, capture, and everything that a plan may say wrongly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "fake_device.h"
#include "image_fixture.h"
#include "tiny.h"

/* Each set of outputs, both GELU forms, added to or not: right, and nothing else is written. */
static void test_every_set_of_outputs(void **state) {
    (void)state;
    for (unsigned variant = 0; variant < 8; variant++) {
        mlpbwd_problem problem = image_small;
        problem.activation = variant & 1;
        problem.flags = variant & 2 ? MLPBWD_FLAG_ACCUMULATE : 0;
        plan_image *image = image_tiny(&problem, variant & 4);
        void *workspace = tiny_aligned(plan_image_workspace(image));
        tiny_case c;
        tiny_case_make(&c, &problem);
        for (unsigned outputs = 1; outputs <= OUTPUT_ALL; outputs++) {
            mlpbwd_tensors tensors = c.tensors;
            void *pointers[TENSOR_COUNT];
            plan_tensor_pointers(&tensors, pointers);
            for (unsigned k = 0; k < 5; k++)
                if (!(outputs >> k & 1))
                    pointers[TENSOR_INPUTS + k] = NULL;
            unsigned required = plan_image_required_inputs(image, outputs);
            for (unsigned k = 0; k < TENSOR_INPUTS; k++)
                if (!(required >> k & 1))
                    pointers[k] = NULL; /* the simulated kernels would crash on one that they need */
            memcpy(&tensors, pointers, sizeof tensors);
            tiny_case_fill(&c, 9.0F);
            memset(workspace, 0xff, plan_image_workspace(image));
            image_run(image, &tensors, workspace, NULL);
            fake_run(outputs, NULL);
            image_check_outputs(&c, outputs, problem.flags ? 9.0 : 0.0);
        }
        tiny_case_free(&c);
        free(workspace);
        plan_image_destroy(image);
    }
}

static void test_liveness(void **state) {
    (void)state;
    plan_image *image = image_tiny(&image_small, true);
    const unsigned hidden = OUTPUT_GRAD_HIDDEN_STATES, w1 = OUTPUT_GRAD_WEIGHT1, b1 = OUTPUT_GRAD_BIAS1;
    const unsigned w2 = OUTPUT_GRAD_WEIGHT2, b2 = OUTPUT_GRAD_BIAS2;
    const struct {
        const char *slot;
        unsigned outputs;
    } expected[] = {{"copy", OUTPUT_ALL}, {"fc2_dgrad", hidden | w1 | b1}, {"fc2_wgrad", w2}, {"fc1_dgrad", hidden},
                    {"fc1_wgrad", w1},    {"bias_reduce", b1 | b2}};
    assert_int_equal(plan_image_launch_count(image), 6);
    for (size_t l = 0; l < 6; l++) {
        assert_string_equal(plan_image_launch_slot(image, l), expected[l].slot);
        assert_int_equal(plan_image_launch_outputs(image, l), expected[l].outputs);
        assert_int_equal(plan_image_launch_function(image, l).registers, 1);
    }
    /* bits: grad_output 1, hidden_states 2, weight1 4, weight2 16, intermediate 64, intermediate_activated 128 */
    assert_int_equal(plan_image_required_inputs(image, 0), 0);
    assert_int_equal(plan_image_required_inputs(image, hidden), 1 | 4 | 16 | 64);
    assert_int_equal(plan_image_required_inputs(image, w1), 1 | 2 | 16 | 64);
    assert_int_equal(plan_image_required_inputs(image, b1), 1 | 16 | 64);
    assert_int_equal(plan_image_required_inputs(image, w2), 1 | 128);
    assert_int_equal(plan_image_required_inputs(image, b2), 1);
    assert_int_equal(plan_image_required_inputs(image, OUTPUT_ALL), 1 | 2 | 4 | 16 | 64 | 128);
    plan_image_destroy(image);
}

/* Any order that the streams allow gives the same bits as the serial run. */
static void test_overlap_is_bit_equal(void **state) {
    (void)state;
    plan_image *serial = image_tiny(&image_small, false), *overlapped = image_tiny(&image_small, true);
    void *workspace = tiny_aligned(plan_image_workspace(overlapped));
    tiny_case wanted, c;
    size_t streams = 0;
    tiny_case_make(&wanted, &image_small);
    tiny_case_make(&c, &image_small);
    image_run(serial, &wanted.tensors, workspace, NULL);
    assert_int_equal(fake_run(0, &streams), 6);
    assert_int_equal(streams, 1);
    for (unsigned seed = 1; seed <= 200; seed++) {
        tiny_case_fill(&c, 9.0F);
        image_run(overlapped, &c.tensors, workspace, NULL);
        image_run(overlapped, &c.tensors, workspace, NULL);
        assert_int_equal(fake_run(seed, &streams), 12);
        assert_int_equal(streams, 2);
        for (int k = 0; k < 5; k++)
            assert_memory_equal(tiny_output(&c, k), tiny_output(&wanted, k), wanted.counts[8 + k] * sizeof(float));
    }
    tiny_case_free(&c);
    tiny_case_free(&wanted);
    free(workspace);
    plan_image_destroy(serial);
    plan_image_destroy(overlapped);
}

/* Without "after", data still decides; and a wait catches no later work of the other stream if it need not. */
static void test_order_follows_data(void **state) {
    (void)state;
    plan_image *image = image_tiny(&image_small, true);
    /* copy 0; fc2_dgrad 0; fc2_wgrad side; fc1_dgrad 0; fc1_wgrad side; bias side */
    assert_int_equal(image->before[0], 0);
    assert_int_equal(image->before[1], 1);
    assert_int_equal(image->before[2], 1); /* only the copy, though fc2_dgrad stands before it in the list */
    assert_int_equal(image->before[3], 1 | 2);
    assert_int_equal(image->before[4], 1 | 2 | 4);
    assert_int_equal(image->before[5], 1 | 2 | 4 | 16);
    plan_image_destroy(image);
}

/* ---- the pool ---- */

static void test_pool_exhaustion(void **state) {
    (void)state;
    plan_image *image = image_tiny(&image_small, true);
    void *workspace = tiny_aligned(plan_image_workspace(image));
    tiny_case wanted, c;
    size_t streams = 0;
    tiny_case_make(&wanted, &image_small);
    tiny_case_make(&c, &image_small);
    image_run(image, &wanted.tensors, workspace, NULL);
    fake_run(1, NULL);
    for (size_t i = 0; i < IMAGE_STREAM_SETS; i++)
        assert_false(atomic_flag_test_and_set(&image->sets[i].taken));
    image_run(image, &c.tensors, workspace, NULL);
    assert_int_equal(fake_run(2, &streams), 6);
    assert_int_equal(streams, 1);
    for (int k = 0; k < 5; k++)
        assert_memory_equal(tiny_output(&c, k), tiny_output(&wanted, k), wanted.counts[8 + k] * sizeof(float));
    atomic_flag_clear(&image->sets[2].taken);
    image_run(image, &c.tensors, workspace, NULL);
    fake_run(2, &streams);
    assert_int_equal(streams, 2);
    assert_false(atomic_flag_test_and_set(&image->sets[2].taken)); /* was given back */
    tiny_case_free(&c);
    tiny_case_free(&wanted);
    free(workspace);
    plan_image_destroy(image);
}

static void test_captures_do_not_mix(void **state) {
    (void)state;
    plan_image *image = image_tiny(&image_small, true);
    void *workspace = tiny_aligned(plan_image_workspace(image));
    dev_stream first = fake_stream(), second = fake_stream(), plain = fake_stream();
    size_t streams = 0;
    tiny_case c;
    tiny_case_make(&c, &image_small);
    fake_capture(first, 1);
    fake_capture(second, 2);
    /* Each capture draws a set in and keeps it until it ends; the fifth user finds none and runs serially. */
    image_run(image, &c.tensors, workspace, first);
    image_run(image, &c.tensors, workspace, first); /* the same set again */
    image_run(image, &c.tensors, workspace, second);
    image_run(image, &c.tensors, workspace, plain);
    fake_run(3, &streams);
    assert_int_equal(streams, 6);
    uint64_t ids[IMAGE_STREAM_SETS];
    for (size_t i = 0; i < IMAGE_STREAM_SETS; i++)
        assert_int_equal(dev_stream_capture_id(image->context, image->sets[i].streams[1], &ids[i], NULL), MLPBWD_OK);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 2);
    assert_int_equal(ids[2], 0);
    assert_int_equal(ids[3], 0);
    for (uint64_t id = 3; id <= 5; id++) {
        dev_stream stream = fake_stream();
        fake_capture(stream, id);
        image_run(image, &c.tensors, workspace, stream);
        fake_run(4, &streams);
        assert_int_equal(streams, id <= 4 ? 2 : 1);
    }
    fake_end_captures();
    image_run(image, &c.tensors, workspace, plain);
    fake_run(5, &streams);
    assert_int_equal(streams, 2);
    tiny_case_free(&c);
    free(workspace);
    plan_image_destroy(image);
}

/* A refused launch is told, joins what was forked, and gives the set back. */
static void test_failed_launch(void **state) {
    (void)state;
    plan_image *image = image_tiny(&image_small, true);
    void *workspace = tiny_aligned(plan_image_workspace(image));
    tiny_case c;
    tiny_case_make(&c, &image_small);
    for (int left = 0; left < 6; left++) {
        mlp_message why = {0};
        fake_fail_after(left);
        assert_int_equal(plan_image_run(image, &c.tensors, workspace, NULL, NULL, &why), MLPBWD_DEVICE_ERROR);
        assert_non_null(strstr(why.text, "refuses"));
        fake_fail_after(-1);
        assert_int_equal(fake_run(1, NULL), left);
        for (size_t i = 0; i < IMAGE_STREAM_SETS; i++) {
            assert_false(atomic_flag_test_and_set(&image->sets[i].taken));
            atomic_flag_clear(&image->sets[i].taken);
        }
    }
    tiny_case_free(&c);
    free(workspace);
    plan_image_destroy(image);
}

static void test_one_slot(void **state) {
    (void)state;
    plan_image *image = image_tiny(&image_small, true);
    void *workspace = tiny_aligned(plan_image_workspace(image));
    size_t streams = 0;
    tiny_case c;
    tiny_case_make(&c, &image_small);
    image_run(image, &c.tensors, workspace, NULL);
    fake_run(1, NULL);
    tiny_case_fill(&c, 9.0F);
    mlp_message why = {0};
    assert_int_equal(plan_image_run(image, &c.tensors, workspace, "fc1_wgrad", NULL, &why), MLPBWD_OK);
    assert_int_equal(fake_run(1, &streams), 1);
    assert_int_equal(streams, 1);
    image_check_outputs(&c, OUTPUT_GRAD_WEIGHT1, 0);
    tiny_case_free(&c);
    free(workspace);
    plan_image_destroy(image);
}

/* ---- memory of the workspace ---- */

/* A chain a -> b -> c -> d of copies: with sharing two buffers' worth of memory, also when every second launch is on a
 * side stream; and the end is right in any order. */
static char *chain_plan(bool side_streams) {
    json_t *plan = json_pack("{s:i,s:s,s:s,s:s,s:{s:i,s:i},s:{},s:[{s:s,s:s,s:s,s:s}],s:[],s:[]}", "format", 1,
                             "pipeline", "chain", "accuracy", "tf32", "arch", "test-arch", "tokens", "min", 1, "max",
                             100, "parameters", "modules", "slot", "s", "source", image_hash, "code", image_hash,
                             "code_format", "cubin", "buffers", "launches");
    const char *names[] = {"grad_output", "a", "b", "c", "d", "grad_hidden_states"};
    for (int i = 1; i <= 4; i++)
        json_array_append_new(json_object_get(plan, "buffers"),
                              json_pack("{s:s,s:s}", "name", names[i], "size", "T*H*4"));
    for (int i = 0; i < 5; i++)
        json_array_append_new(json_object_get(plan, "launches"),
                              json_pack("{s:s,s:i,s:s,s:[s],s:[i],s:i,s:[{s:s,s:s},{s:s,s:s}]}", "slot", names[i],
                                        "module", 0, "entry", "tiny_copy", "grid", "T*H", "block", 1, "stream",
                                        side_streams ? i % 2 : 0, "args", "pointer", names[i], "access", "in",
                                        "pointer", names[i + 1], "access", "out"));
    char *text = json_dumps(plan, 0);
    json_decref(plan);
    return text;
}

static void test_memory_is_shared(void **state) {
    (void)state;
    const size_t buffer = (size_t)7 * 64 * 4;
    for (int side = 0; side <= 1; side++)
        for (int share = 0; share <= 1; share++) {
            char *json = chain_plan(side);
            plan_image *image = NULL;
            mlp_message why = {0};
            if (image_load(json, &image_small, share, &image, &why) != MLPBWD_OK)
                fail_msg("%s", why.text);
            assert_int_equal(plan_image_workspace(image), (share ? 2 : 4) * buffer);
            void *workspace = tiny_aligned(plan_image_workspace(image));
            tiny_case c;
            tiny_case_make(&c, &image_small);
            for (unsigned seed = 0; seed < 50; seed++) {
                tiny_case_fill(&c, 9.0F);
                memset(workspace, 0xff, plan_image_workspace(image));
                image_run(image, &c.tensors, workspace, NULL);
                fake_run(seed, NULL);
                assert_memory_equal(c.tensors.grad_hidden_states, c.tensors.grad_output, buffer);
            }
            tiny_case_free(&c);
            free(workspace);
            plan_image_destroy(image);
            free(json);
        }
}

static void test_buffers_alive_together_are_apart(void **state) {
    (void)state;
    plan_image *image = image_tiny(&image_small, true);
    for (size_t i = 0; i < image->buffer_count; i++) {
        assert_int_equal(image->buffers[i].offset % 256, 0);
        for (size_t j = 0; j < i; j++)
            assert_true(image->buffers[i].offset >= image->buffers[j].offset + image->buffers[j].size ||
                        image->buffers[j].offset >= image->buffers[i].offset + image->buffers[i].size);
    }
    assert_true(plan_image_workspace(image) >= (size_t)7 * (64 + 128) * 4);
    plan_image_destroy(image);
}

/* ---- sizes and words that do not fit ---- */

static void test_malformed_plans(void **state) {
    (void)state;
    const struct {
        const char *from, *to, *part;
    } cases[] = {
        {"{\"format\":1", "{\"format\":3", "newer"},
        {"{\"format\":1", "{\"format\":0", "newer"},
        {"{\"format\":1", "{\"format\":1,,", "not JSON"},
        {"\"accuracy\":\"tf32\"", "\"accuracy\":\"tf64\"", "accuracy"},
        {"\"arch\":\"test-arch\"", "\"arch\":7", "arch"},
        {"\"min\":1", "\"least\":1", "tokens"},
        {"\"buffers\":[", "\"buffers\":[{\"size\":\"4\"},", "without a name"},
        {"\"size\":\"4*T*I\"", "\"size\":\"4*X\"", "names something other"},
        {"\"size\":\"4*T*I\"", "\"size\":1.5", "neither"},
        {"\"module\":0", "\"module\":1", "module"},
        {"\"entry\":\"tiny_copy\"", "\"entry\":null", "entry"},
        {"\"grid\":[\"T*H\"]", "\"grid\":[]", "grid"},
        {"\"grid\":[\"T*H\"]", "\"grid\":[1,1,1,1]", "grid"},
        {"\"stream\":0", "\"stream\":8", "stream"},
        {"\"stream\":0", "\"stream\":-1", "stream"},
        {"\"after\":[]", "\"after\":[0]", "after"},
        {"\"after\":[]", "\"after\":7", "after"},
        {"\"after\":[1]", "\"after\":[4]", "after"},
        {"\"access\":\"in\"", "\"access\":\"read\"", "access"},
        {"\"access\":\"in\"", "\"access\":\"out\"", "grad_output is an input"},
        {"\"pointer\":\"grad_hidden_states\",\"access\":\"out\"",
         "\"pointer\":\"grad_hidden_states\",\"access\":\"in\"", "is an output"},
        {"\"pointer\":\"weight1\"", "\"pointer\":\"bias1\"", "bias1"},
        {"\"pointer\":\"weight1\"", "\"pointer\":\"weight9\"", "weight9"},
        {"\"part\":1", "\"part\":16", "part"},
        {"{\"i32\":\"ACTIVATION\"}", "{\"i16\":\"ACTIVATION\"}", "i32"},
        {"{\"f32\":1.0}", "{\"f32\":\"1\"}", "f32"},
        {"\"code_format\"", "\"code_form\"", "code_format"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        image_expect_refusal(cases[i].from, cases[i].to, &image_small, MLPBWD_DATABASE_ERROR, cases[i].part);
    image_expect_refusal("\"entry\":\"tiny_copy\"", "\"entry\":\"tiny_none\"", &image_small, MLPBWD_DEVICE_ERROR,
                         "tiny_none");
}

static void test_launch_without_use(void **state) {
    (void)state;
    image_expect_refusal(
        "{\"slot\":\"copy\"",
        "{\"slot\":\"idle\",\"module\":0,\"entry\":\"tiny_copy\",\"grid\":[1],\"block\":[1],\"args\":[{"
        "\"pointer\":\"grad_output\",\"access\":\"in\"}]},{\"slot\":\"copy\"",
        &image_small, MLPBWD_DATABASE_ERROR, "serves no output");
}

static void test_what_does_not_fit(void **state) {
    (void)state;
    const mlpbwd_problem large = {
        .batch_size = 1, .seq_len = 2147483647, .hidden_size = 2048, .intermediate_size = 8192};
    const mlpbwd_problem strict = {
        .batch_size = 1, .seq_len = 7, .hidden_size = 64, .intermediate_size = 64, .accuracy = MLPBWD_ACCURACY_FP32};
    image_expect_refusal("\"grid\":[\"T*H\"]", "\"grid\":[\"T*H\"]", &large, MLPBWD_UNSUPPORTED, "grid");
    image_expect_refusal("{\"i32\":\"ACTIVATION\"}", "{\"i32\":\"T*400000000\"}", &image_small, MLPBWD_UNSUPPORTED,
                         "32-bit");
    image_expect_refusal("{\"i32\":\"ACTIVATION\"}", "{\"i32\":\"-T*400000000\"}", &image_small, MLPBWD_UNSUPPORTED,
                         "32-bit");
    image_expect_refusal("{\"i64\":\"T\"}", "{\"i64\":\"T*9223372036854775807\"}", &image_small, MLPBWD_UNSUPPORTED,
                         "overflows");
    image_expect_refusal("\"grid\":[\"T*H\"]", "\"grid\":[\"1-T\"]", &image_small, MLPBWD_UNSUPPORTED, "grid");
    image_expect_refusal("\"grid\":[\"T*H\"]", "\"grid\":[1,65536]", &image_small, MLPBWD_UNSUPPORTED, "65535");
    image_expect_refusal("\"block\":[1]", "\"block\":[1025]", &image_small, MLPBWD_UNSUPPORTED, "1024");
    image_expect_refusal("\"block\":[1]", "\"block\":[0]", &image_small, MLPBWD_UNSUPPORTED, "block");
    image_expect_refusal("\"size\":\"4*T*I\"", "\"size\":\"-T\"", &image_small, MLPBWD_UNSUPPORTED, "size");
    image_expect_refusal("\"min\":1", "\"min\":8", &image_small, MLPBWD_UNSUPPORTED, "not for 7");
    image_expect_refusal("\"max\":2147483647", "\"max\":6", &image_small, MLPBWD_UNSUPPORTED, "1 to 6");
    image_expect_refusal("\"arch\":\"test-arch\"", "\"arch\":\"sm_1\"", &image_small, MLPBWD_UNSUPPORTED, "sm_1");
    image_expect_refusal("\"accuracy\":\"tf32\"", "\"accuracy\":\"tf32\"", &strict, MLPBWD_UNSUPPORTED, "fp32");
    image_expect_refusal("\"accuracy\":\"tf32\"", "\"accuracy\":\"bf16\"", &image_small, MLPBWD_UNSUPPORTED, "bf16");
    char code[80];
    snprintf(code, sizeof code, "\"code\":\"%s\"", image_hash);
    image_expect_refusal(code, "\"code\":null", &image_small, MLPBWD_UNSUPPORTED, "MLPBWD_FLAG_ALLOW_COMPILE");
}

static void test_no_tokens(void **state) {
    (void)state;
    for (int accumulate = 0; accumulate <= 1; accumulate++) {
        const mlpbwd_problem problem = {.batch_size = 3,
                                        .seq_len = 0,
                                        .hidden_size = 64,
                                        .intermediate_size = 128,
                                        .flags = accumulate ? MLPBWD_FLAG_ACCUMULATE : 0};
        plan_image *image = NULL;
        mlp_message why = {0};
        dev *host = NULL;
        dev_context *context = NULL;
        assert_int_equal(dev_open("host", &host, &why), MLPBWD_OK);
        assert_int_equal(dev_context_get(host, &context, &why), MLPBWD_OK);
        assert_int_equal(plan_image_create(NULL, &problem, host, context, NULL, NULL, false, &image, &why), MLPBWD_OK);
        assert_int_equal(plan_image_workspace(image), 0);
        assert_int_equal(plan_image_launch_count(image), 0);
        assert_int_equal(plan_image_required_inputs(image, OUTPUT_ALL), 0);
        tiny_case c;
        tiny_case_make(&c, &problem);
        tiny_case_fill(&c, 9.0F);
        image_run(image, &c.tensors, NULL, NULL);
        for (int k = 1; k < 5; k++)
            for (size_t e = 0; e < c.counts[8 + k]; e++)
                assert_true(tiny_output(&c, k)[e] == (accumulate ? 9.0F : 0.0F));
        tiny_case_free(&c);
        plan_image_destroy(image);
        dev_context_release(context);
        dev_release(host);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_set_of_outputs), cmocka_unit_test(test_liveness),
        cmocka_unit_test(test_overlap_is_bit_equal), cmocka_unit_test(test_order_follows_data),
        cmocka_unit_test(test_pool_exhaustion),      cmocka_unit_test(test_captures_do_not_mix),
        cmocka_unit_test(test_failed_launch),        cmocka_unit_test(test_one_slot),
        cmocka_unit_test(test_memory_is_shared),     cmocka_unit_test(test_buffers_alive_together_are_apart),
        cmocka_unit_test(test_malformed_plans),      cmocka_unit_test(test_launch_without_use),
        cmocka_unit_test(test_what_does_not_fit),    cmocka_unit_test(test_no_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
