#include "image_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_device.h"

const mlpbwd_problem image_small = {.batch_size = 1, .seq_len = 7, .hidden_size = 64, .intermediate_size = 128};
const char image_hash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static mlpbwd_status give_code(void *user, const char *wanted, void **bytes, size_t *size, mlp_message *why) {
    (void)user;
    (void)why;
    assert_string_equal(wanted, image_hash);
    *bytes = strdup("code");
    *size = 4;
    return MLPBWD_OK;
}

mlpbwd_status image_load(const char *json, const mlpbwd_problem *problem, bool share, plan_image **image,
                         mlp_message *why) {
    return plan_image_load(json, problem, fake_device("test-arch"), fake_context(), give_code, NULL, false, NULL, share,
                           image, why);
}

plan_image *image_tiny(const mlpbwd_problem *problem, bool overlapped) {
    const tiny_plan plan = {.arch = "test-arch", .overlapped = overlapped, .source = image_hash, .code = image_hash};
    char *json = tiny_plan_json(&plan);
    plan_image *image = NULL;
    mlp_message why = {0};
    if (image_load(json, problem, true, &image, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    free(json);
    return image;
}

void image_run(const plan_image *image, const mlpbwd_tensors *tensors, void *workspace, dev_stream stream) {
    mlp_message why = {0};
    if (plan_image_run(image, tensors, workspace, NULL, stream, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
}

void image_check_outputs(const tiny_case *c, unsigned outputs, double added) {
    for (int k = 0; k < 5; k++) {
        bool wanted = outputs >> k & 1;
        double error = tiny_case_error(c, k, wanted && k > 0 ? added : 0);
        if (wanted && !(error < 1e-6))
            fail_msg("output %d: relative error %g", k, error);
        for (size_t e = 0; !wanted && e < c->counts[8 + k]; e++)
            if (tiny_output(c, k)[e] != 9.0F)
                fail_msg("output %d was not wanted, and written", k);
    }
}

void image_expect_refusal_of(const char *json, const mlpbwd_problem *problem, mlpbwd_status expected,
                             const char *part) {
    plan_image *image = NULL;
    mlp_message why = {0};
    mlpbwd_status status = image_load(json, problem, true, &image, &why);
    if (status != expected || image || !strstr(why.text, part))
        fail_msg("%s: status %d, \"%s\" lacks \"%s\"", json, (int)status, why.text, part);
}

void image_expect_refusal(const char *from, const char *to, const mlpbwd_problem *problem, mlpbwd_status expected,
                          const char *part) {
    const tiny_plan plan = {.arch = "test-arch", .overlapped = true, .source = image_hash, .code = image_hash};
    char *json = tiny_plan_json(&plan), *at = strstr(json, from);
    assert_non_null(at);
    char *changed = calloc(1, strlen(json) + strlen(to) + 1);
    assert_non_null(changed);
    memcpy(changed, json, (size_t)(at - json));
    strcat(changed, to);
    strcat(changed, at + strlen(from));
    image_expect_refusal_of(changed, problem, expected, part);
    free(changed);
    free(json);
}
