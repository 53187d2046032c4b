/* The default plans of an architecture: what runs where nobody tuned. */
#include <math.h>
#include <string.h>

#include "gen.h"

/* The numbers of tokens that choices are made for, and where one takes over from the other: halfway on a scale of
 * logarithms. The sizes are those of the benchmark; the plans serve any. */
static const struct { int64_t tokens, min_tokens; } steps[GEN_MOST_DEFAULTS] = {{256, 1}, {1024, 513}, {4096, 2049}};
enum { HIDDEN_SIZE = 2048, INTERMEDIATE_SIZE = 8192, MOST_TOKENS = 2147483647 };

static void add(gen_default *list, size_t *count, size_t step, json_t *selection, double predicted_us) {
    if (*count > 0 && json_equal(list[*count - 1].selection, selection)) {
        json_decref(selection);
        return;
    }
    if (*count > 0) {
        list[*count - 1].max_tokens = steps[step].min_tokens - 1;
    }
    list[(*count)++] = (gen_default){.tokens = predicted_us > 0 ? steps[step].tokens : 0,
                                     .min_tokens = steps[step].min_tokens,
                                     .max_tokens = MOST_TOKENS,
                                     .predicted_us = predicted_us > 0 ? round(10 * predicted_us) / 10 : -1,
                                     .selection = selection};
}

mlpbwd_status gen_defaults(gen *generator, const char *pipeline, const gen_target *target,
                           gen_default list[GEN_MOST_DEFAULTS], size_t *count, mlp_message *why) {
    *count = 0;
    memset(list, 0, GEN_MOST_DEFAULTS * sizeof *list);
    mlpbwd_status status = MLPBWD_OK;
    for (size_t i = 0; i < GEN_MOST_DEFAULTS && status == MLPBWD_OK; i++) {
        gen_problem problem = {steps[i].tokens, HIDDEN_SIZE, INTERMEDIATE_SIZE, 0};
        json_t *selection = NULL;
        double us = -1;
        status = gen_choose(generator, pipeline, target, &problem, &selection, &us, why);
        if (status == MLPBWD_OK) {
            add(list, count, i, selection, us);
        } else {
            json_decref(selection);
        }
    }
    if (status != MLPBWD_OK) {
        gen_defaults_free(list, *count);
        *count = 0;
    }
    return status;
}

json_t *gen_default_measurement(const gen_default *item) {
    if (item->predicted_us <= 0) {
        return json_pack("{s:b}", "measured", 0);
    }
    return json_pack("{s:b, s:f, s:{s:I, s:i, s:i}, s:s}", "measured", 0, "predicted_us", item->predicted_us,
                     "predicted_at", "tokens", (json_int_t)item->tokens, "hidden_size", HIDDEN_SIZE,
                     "intermediate_size", INTERMEDIATE_SIZE, "predicted_by", "the cost model of generator/cost.c");
}

void gen_defaults_free(gen_default *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        json_decref(list[i].selection);
        list[i].selection = NULL;
    }
}
