/* Tensor maps of stored plans: what a plan may say wrongly about them, and what kernels get. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "fake_device.h"
#include "image_fixture.h"

#define WHOLE_WEIGHT1 "{\"element\":\"f32\",\"size\":[\"H\",\"I\"],\"stride\":[\"4*H\"],\"box\":[32,8]}"

/* The tiny plan in this format, its pointers to a tensor (NULL: all pointers) in this map. */
static char *mapped_plan(int format, const char *tensor, const char *map) {
    const tiny_plan tiny = {.arch = "test-arch", .overlapped = true, .source = image_hash, .code = image_hash};
    char *text = tiny_plan_json(&tiny);
    json_t *plan = json_loads(text, 0, NULL), *launch, *argument;
    size_t l, a;
    free(text);
    assert_int_equal(json_object_set_new(plan, "format", json_integer(format)), 0);
    json_array_foreach(json_object_get(plan, "launches"), l, launch) {
        json_array_foreach(json_object_get(launch, "args"), a, argument) {
            const char *name = json_string_value(json_object_get(argument, "pointer"));
            if (name && (!tensor || strcmp(name, tensor) == 0))
                assert_int_equal(json_object_set_new(argument, "map", json_loads(map, JSON_DECODE_ANY, NULL)), 0);
            if (!tensor && json_object_get(argument, "part")) /* so that one part has outputs that may be unwanted */
                json_object_set_new(argument, "part", json_integer(1));
        }
    }
    text = json_dumps(plan, 0);
    json_decref(plan);
    return text;
}

static void expect_map_refusal(int format, const char *map, mlpbwd_status expected, const char *part) {
    char *json = mapped_plan(format, "weight1", map);
    image_expect_refusal_of(json, &image_small, expected, part);
    free(json);
}

/* weight1, 128 x 64 floats: each case breaks one of the rules. */
static void test_malformed_maps(void **state) {
    (void)state;
    static const struct {
        const char *map, *part;
    } cases[] = {
        {"7", "\"element\""},
        {"{\"element\":\"f64\",\"size\":[\"H\",\"I\"],\"stride\":[\"4*H\"],\"box\":[32,8]}", "\"element\""},
        {"{\"element\":\"f32\",\"size\":[\"H\",\"I\"],\"stride\":[\"4*H\"],\"box\":[32,8],\"swizzle\":16}",
         "\"swizzle\""},
        {"{\"element\":\"f32\",\"size\":[\"H\",\"I\"],\"stride\":[\"4*H\"],\"box\":[32,8],\"swizzle\":\"128\"}",
         "\"swizzle\""},
        {"{\"element\":\"f32\",\"size\":[\"H\",\"I\"],\"stride\":[\"4*H\"],\"box\":[32,8],\"swizzle\":4294967424}",
         "\"swizzle\""},
        {"{\"element\":\"f32\",\"size\":[\"H\",\"I\"],\"stride\":[\"4*H\"],\"box\":[32,8],\"l2\":4294967296}",
         "\"l2\""},
        {"{\"element\":\"f32\",\"size\":[\"H\",\"I\"],\"stride\":[\"4*H\"],\"box\":[32,8],\"l2\":32}",
         "l2_bytes is 32"},
        {"{\"element\":\"f32\",\"size\":[],\"stride\":[],\"box\":[]}", "one to five"},
        {"{\"element\":\"f32\",\"size\":[\"H\",\"I\"],\"stride\":[],\"box\":[32,8]}", "of one less"},
        {"{\"element\":\"f32\",\"size\":[\"H\",\"I\"],\"stride\":[\"4*H\"],\"box\":[32]}", "of one less"},
        {"{\"element\":\"f32\",\"size\":[\"H\",\"I\"],\"stride\":[\"4*X\"],\"box\":[32,8]}", "names something other"},
        {"{\"element\":\"f32\",\"size\":[\"H\",\"I\"],\"stride\":[\"H+4\"],\"box\":[32,8]}", "stride[0] is 68 bytes"},
        {"{\"element\":\"f32\",\"size\":[\"H\",\"I\"],\"stride\":[\"4*H\"],\"box\":[3,8]}", "box[0] is 3 elements"},
        {"{\"element\":\"f32\",\"size\":[\"H\",\"I\"],\"stride\":[\"4*H\"],\"box\":[64,8],\"swizzle\":128}",
         "the swizzle of 128 bytes"},
        {"{\"element\":\"f32\",\"size\":[\"H\",\"I+1\"],\"stride\":[\"4*H\"],\"box\":[32,8]}",
         "beyond the 32768 bytes"},
        {"{\"element\":\"f32\",\"size\":[\"H\",4294967296,4294967296],\"stride\":[16,1099511627760],\"box\":[32,8,1]}",
         "beyond the 32768 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_map_refusal(2, cases[i].map, MLPBWD_DATABASE_ERROR, cases[i].part);
}

/* Where a plan is made, not by each execute. */
static void test_who_takes_maps(void **state) {
    (void)state;
    expect_map_refusal(1, WHOLE_WEIGHT1, MLPBWD_DATABASE_ERROR, "format 1");
    fake_capability(80);
    expect_map_refusal(2, WHOLE_WEIGHT1, MLPBWD_UNSUPPORTED, "tensor maps need 9.0");
    fake_capability(90);
}

/* Every pointer in a map: kernels get the addresses, and zeros for what is not wanted. */
static void test_every_set_of_outputs(void **state) {
    (void)state;
    char *json = mapped_plan(2, NULL, "{\"element\":\"f32\",\"size\":[32],\"stride\":[],\"box\":[32]}");
    plan_image *image = NULL;
    mlp_message why = {0};
    if (image_load(json, &image_small, true, &image, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    void *workspace = tiny_aligned(plan_image_workspace(image));
    tiny_case c;
    tiny_case_make(&c, &image_small);
    for (unsigned outputs = 1; outputs <= OUTPUT_ALL; outputs++) {
        mlpbwd_tensors tensors;
        void *pointers[TENSOR_COUNT];
        plan_tensor_pointers(&c.tensors, pointers);
        for (unsigned k = 0; k < TENSOR_OUTPUTS; k++)
            if (!(outputs >> k & 1))
                pointers[TENSOR_INPUTS + k] = NULL;
        memcpy(&tensors, pointers, sizeof tensors);
        tiny_case_fill(&c, 9.0F);
        image_run(image, &tensors, workspace, NULL);
        fake_run(outputs, NULL);
        image_check_outputs(&c, outputs, 0);
    }
    tiny_case_free(&c);
    free(workspace);
    plan_image_destroy(image);
    free(json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed_maps),
        cmocka_unit_test(test_who_takes_maps),
        cmocka_unit_test(test_every_set_of_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
