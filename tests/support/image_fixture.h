/* Stored plans on the simulated device of fake_device.h. Errors fail the test that runs. */
#ifndef IMAGE_FIXTURE_H
#define IMAGE_FIXTURE_H

#include "plan_image_private.h"
#include "tiny.h"

extern const mlpbwd_problem image_small; /* 7 tokens, 64, 128 */
extern const char image_hash[];          /* of the code of every module */

/* plan_image_load for that device; architecture "test-arch". */
mlpbwd_status image_load(const char *json, const mlpbwd_problem *problem, bool share, plan_image **image,
                         mlp_message *why);
/* The plan of tiny.h, its memory shared. */
plan_image *image_tiny(const mlpbwd_problem *problem, bool overlapped);
/* Enqueues a pass; fake_run runs it. */
void image_run(const plan_image *image, const mlpbwd_tensors *tensors, void *workspace, dev_stream stream);
/* Wanted outputs are right (what was there before, added to all but the first, included), others hold 9. */
void image_check_outputs(const tiny_case *c, unsigned outputs, double added);
/* The plan is refused, in words that include `part`. */
void image_expect_refusal_of(const char *json, const mlpbwd_problem *problem, mlpbwd_status expected, const char *part);
/* The tiny plan with one text replaced by another is. */
void image_expect_refusal(const char *from, const char *to, const mlpbwd_problem *problem, mlpbwd_status expected,
                          const char *part);

#endif
