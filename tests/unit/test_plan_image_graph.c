/* Plans that have recorded their launches, on a simulated device: right, whatever changes from call to call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_device.h"
#include "image_fixture.h"

static plan_image *recorded_image(bool overlapped) {
    plan_image *image = image_tiny(&image_small, overlapped);
    mlp_message why = {0};
    if (plan_image_record(image, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    assert_non_null(image->graphs);
    assert_int_equal(fake_run(0, NULL), 0); /* nothing ran */
    return image;
}

/* Each set of outputs, tensors that change, any order that the streams allow. */
static void test_every_set_of_outputs(void **state) {
    (void)state;
    for (int overlapped = 0; overlapped <= 1; overlapped++) {
        plan_image *image = recorded_image(overlapped);
        void *workspace = tiny_aligned(plan_image_workspace(image));
        tiny_case cases[2];
        const int before = fake_graph_launches();
        for (int i = 0; i < 2; i++)
            tiny_case_make(&cases[i], &image_small);
        for (unsigned outputs = 1; outputs <= 2 * OUTPUT_ALL; outputs++) {
            const tiny_case *c = &cases[outputs / 3 % 2]; /* some twice in a row */
            void *pointers[TENSOR_COUNT];
            mlpbwd_tensors tensors;
            plan_tensor_pointers(&c->tensors, pointers);
            for (unsigned k = 0; k < TENSOR_OUTPUTS; k++)
                if (!(outputs >> k & 1))
                    pointers[TENSOR_INPUTS + k] = NULL;
            memcpy(&tensors, pointers, sizeof tensors);
            for (int i = 0; i < 2; i++)
                tiny_case_fill((tiny_case *)&cases[i], 9.0F);
            memset(workspace, 0xff, plan_image_workspace(image));
            image_run(image, &tensors, workspace, NULL);
            fake_run(outputs, NULL);
            image_check_outputs(c, outputs & OUTPUT_ALL, 0);
            image_check_outputs(&cases[c == cases], 0, 0);
        }
        assert_true(fake_graph_launches() > before);
        for (int i = 0; i < 2; i++)
            tiny_case_free(&cases[i]);
        free(workspace);
        plan_image_destroy(image);
    }
}

/* The first streams get a graph each and keep it; others, and captures, get single launches. */
static void test_whose_graph(void **state) {
    (void)state;
    plan_image *image = recorded_image(true);
    void *workspace = tiny_aligned(plan_image_workspace(image));
    dev_stream streams[IMAGE_GRAPHS + 1];
    tiny_case c;
    tiny_case_make(&c, &image_small);
    for (int s = 0; s <= IMAGE_GRAPHS; s++)
        streams[s] = fake_stream();
    for (int round = 0; round < 3; round++)
        for (int s = 0; s <= IMAGE_GRAPHS; s++) {
            const bool captured = round == 1 && s == 0;
            const int before = fake_graph_launches();
            fake_capture(streams[s], captured);
            image_run(image, &c.tensors, workspace, streams[s]);
            assert_int_equal(fake_run(7, NULL), 6);
            assert_int_equal(fake_graph_launches() - before, s < IMAGE_GRAPHS && !captured);
            fake_end_captures();
        }
    const int before = fake_graph_launches();
    assert_false(atomic_flag_test_and_set(&image->graphs[0].taken)); /* as a call in another thread does */
    image_run(image, &c.tensors, workspace, streams[0]);
    atomic_flag_clear(&image->graphs[0].taken);
    assert_int_equal(fake_run(7, NULL), 6);
    assert_int_equal(fake_graph_launches(), before);
    tiny_case_free(&c);
    free(workspace);
    plan_image_destroy(image);
}

/* A graph that could not be recorded is done without; one that took only some of its arguments takes all the next time.
 */
static void test_failures(void **state) {
    (void)state;
    mlp_message why = {0};
    for (int left = 0; left < 6; left++) {
        plan_image *image = image_tiny(&image_small, true);
        fake_fail_after(left);
        assert_int_equal(plan_image_record(image, &why), MLPBWD_DEVICE_ERROR);
        fake_fail_after(-1);
        assert_null(image->graphs);
        for (size_t i = 0; i < IMAGE_STREAM_SETS; i++) {
            assert_false(atomic_flag_test_and_set(&image->sets[i].taken));
            atomic_flag_clear(&image->sets[i].taken);
        }
        plan_image_destroy(image);
    }
    plan_image *image = recorded_image(true);
    void *workspace = tiny_aligned(plan_image_workspace(image));
    tiny_case first, c;
    tiny_case_make(&first, &image_small);
    tiny_case_make(&c, &image_small);
    for (int left = 0; left < 6; left++) {
        image_run(image, &first.tensors, workspace, NULL);
        fake_run(1, NULL);
        fake_fail_after(left);
        assert_int_equal(plan_image_run(image, &c.tensors, workspace, NULL, NULL, &why), MLPBWD_DEVICE_ERROR);
        fake_fail_after(-1);
        assert_int_equal(fake_run(1, NULL), 0);
        tiny_case *const again = left % 2 ? &first : &c;
        tiny_case_fill(again, 9.0F);
        image_run(image, &again->tensors, workspace, NULL);
        fake_run(1, NULL);
        image_check_outputs(again, OUTPUT_ALL, 0);
    }
    tiny_case_free(&first);
    tiny_case_free(&c);
    free(workspace);
    plan_image_destroy(image);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_set_of_outputs),
        cmocka_unit_test(test_whose_graph),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
