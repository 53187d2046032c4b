/* Default plans: chosen by the cost model, one a range of T, never called measured; and the model itself on figures
 * that can be worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "db_fixture.h"
#include "lookup.h"
#include "template_fixture.h"

/* The figures of the made-up architecture: 10 units at 1000 MHz, 4000 flop a clock and unit, 1 TB/s, no L2 known. */
static const char *const ARCH =
    "return { name = 'test', doc = 'd', backend = 'cuda', compiler = 'nvrtc', target = 'sm_90a', compute_capability = "
    "90,\n"
    "  ship = true, features = { base = true }, limits = { shared_bytes = 1, registers_per_thread = 1,\n"
    "  threads_per_block = 1024 }, rates = { tf32 = 4000, fp32 = 4000, bf16 = 4000 }, memory_bandwidth = 1e12,\n"
    "  units = 10, max_clock_mhz = 1000, l2_bandwidth = %s }\n";

static const char *const KERNEL =
    "return { name = 'k', doc = 'd', roles = { 'fc1_dgrad' }, needs = { 'base' }, accuracies = { 'tf32', 'fp32', "
    "'bf16' },\n"
    "  operands = function() return { { name = 'a', access = 'in' }, { name = 'b', access = 'out' } } end,\n"
    "  params = { { name = 'tile', doc = 'd', values = { 64, 128 }, default = 64 },\n"
    "    { name = 'parts', doc = 'd', values = { 1, 4 }, default = 1 },\n"
    "    { name = 'overlap', doc = 'd', values = { false, true }, default = false } },\n"
    "  valid = function(c) return true end,\n"
    "  %s\n"
    "  source = function(c) return ('%%d %%d %%s'):format(c.p.tile, c.p.parts, c.p.overlap) end,\n"
    "  launches = function() return { { entry = 'run', grid = { 'T' }, block = { 1 }, args = { { name = 'a' }, { name "
    "= "
    "'b' } } } } end }\n";
static const char *const TILE =
    "tile = function(c) return { m = c.p.tile, n = c.p.tile, parts = c.p.parts, overlap = c.p.overlap } end,";

static gen *open_with(void **state, const char *l2, const char *tile) {
    char text[4096];
    gen *generator = NULL;
    mlp_message why = {""};
    (void)snprintf(text, sizeof text, ARCH, l2);
    template_write(state, "arch/test.lua", text);
    (void)snprintf(text, sizeof text, KERNEL, tile);
    template_write(state, "kernels/k.lua", text);
    if (template_open(state, NULL, &generator, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    return generator;
}

static double predict(gen *generator, const char *parameters, int64_t tokens, int64_t hidden, int64_t intermediate) {
    json_t *p = json_loads(parameters, 0, NULL);
    gen_problem problem = {tokens, hidden, intermediate, 0};
    mlp_message why = {""};
    double us = 0;
    assert_non_null(p);
    if (gen_predict(generator, "k", "fc1_dgrad", &template_target, p, &problem, &us, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    json_decref(p);
    return us;
}

static void assert_near(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-9 * expected))
        fail_msg("%.12g us instead of %.12g us", got, expected);
}

/* fc1_dgrad is T x H over I. 2.4 us are launch and first tile; 0.75 of the rate, 0.9 of the memory's bandwidth. */
static void by_hand(void **state) {
    gen *generator = open_with(state, "0", TILE);
    const double flop_per_us = 0.75 * 4000 * 1000, bytes_per_us = 0.9e6;
    /* 20 tiles of 64 x 64 on 10 units: two waves; all ten units write at once */
    double loop = 2.0 * 64 * 64 * 8192 / flop_per_us, out = 64 * 64 * 4 / (bytes_per_us / 10);
    assert_near(predict(generator, "{\"tile\":64}", 320, 256, 8192), 2 * (loop + out) + 2.4);
    assert_near(predict(generator, "{\"tile\":64,\"overlap\":true}", 320, 256, 8192), 2 * loop + out + 2.4);
    /* one tile more is a third wave */
    assert_near(predict(generator, "{\"tile\":64}", 1344, 64, 8192), 3 * (loop + out) + 2.4);
    /* one tile, a tenth of the units: alone it has all of the bandwidth; with K in four parts a second launch, four
     * times the sums written and read once more, and the result */
    double alone = 64 * 64 * 4 / bytes_per_us;
    assert_near(predict(generator, "{\"tile\":64}", 64, 64, 8192), loop + alone + 2.4);
    assert_near(predict(generator, "{\"tile\":64,\"parts\":4}", 64, 64, 8192),
                loop / 4 + 4 * alone + 2.4 + (4 + 1) * alone + 2.4);
    /* little arithmetic: operands of two bytes and results of four pass the memory */
    assert_near(predict(generator, "{\"tile\":128,\"overlap\":true}", 12800, 64, 64),
                fmax(10 * 128 * 128 * 4 / (bytes_per_us / 10) + 128 * 128 * 4 / (bytes_per_us / 10),
                     (2.0 * (12800 * 64 + 64 * 64) + 4.0 * 12800 * 64) / bytes_per_us) +
                    2.4);
    gen_close(generator);
}

static void l2_feeds_small_tiles(void **state) {
    gen *generator = open_with(state, "5e11", TILE);
    /* 10 busy units share 5e5 bytes a us: a 64 x 64 tile of K = 8192 takes 2 * 128 * 8192 bytes */
    double feed = 2.0 * 128 * 8192 / (5e5 / 10), out = 64 * 64 * 4 / (0.9e6 / 10);
    assert_near(predict(generator, "{\"tile\":64}", 320, 128, 8192), feed + out + 2.4);
    gen_close(generator);
}

static void without_figures_nothing_is_predicted(void **state) {
    gen *generator = open_with(state, "0", "");
    assert_true(predict(generator, "{\"tile\":64}", 64, 64, 64) < 0);
    gen_close(generator);
    template_write(state, "arch/test.lua",
                   "return { name = 'test', doc = 'd', backend = 'cuda', compiler = 'nvrtc', target = 'sm_90a',\n"
                   "  compute_capability = 90, ship = true, features = { base = true }, limits = { shared_bytes = 1,\n"
                   "  registers_per_thread = 1, threads_per_block = 1024 }, memory_bandwidth = 1e12, units = 10,\n"
                   "  rates = { tf32 = 4000, fp32 = 4000, bf16 = 4000 } }\n");
    char text[4096];
    mlp_message why = {""};
    (void)snprintf(text, sizeof text, KERNEL, TILE);
    template_write(state, "kernels/k.lua", text);
    assert_int_equal(template_open(state, NULL, &generator, &why), MLPBWD_OK);
    assert_true(predict(generator, "{\"tile\":64}", 64, 64, 64) < 0);
    gen_close(generator);
}

static void bad_tiles_are_refused(void **state) {
    static const char *const wrong[][2] = {
        {"tile = function(c) return { m = 64 } end,", "'n'"},
        {"tile = function(c) return { m = 64, n = 64, waves = 2 } end,", "waves"},
        {"tile = function(c) return { m = 64, n = 0 } end,", "positive"},
        {"tile = function(c) return { m = c.p.nothing, n = 64 } end,", "nothing"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gen *generator = open_with(state, "0", wrong[i][0]);
        json_t *p = json_object();
        gen_problem problem = {64, 64, 64, 0};
        mlp_message why = {""};
        double us = 0;
        assert_int_equal(gen_predict(generator, "k", "fc1_dgrad", &template_target, p, &problem, &us, &why),
                         MLPBWD_INVALID_ARGUMENT);
        if (!strstr(why.text, wrong[i][1]))
            fail_msg("\"%s\" does not name %s", why.text, wrong[i][1]);
        json_decref(p);
        gen_close(generator);
    }
}

/* ---- the real templates ---- */

static gen *real(void) {
    static const char *const folders[] = {SOURCE_DIR "/templates"};
    gen *generator = NULL;
    mlp_message why = {""};
    if (gen_open(folders, 1, NULL, &generator, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    return generator;
}

/* Every architecture with figures has predictions for its default pipelines, in ranges that cover every T once. */
static void ranges_cover_every_number_of_tokens(void **state) {
    (void)state;
    static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a", "sm_103a", "compute_80", "generic"};
    gen *generator = real();
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
        for (int accuracy = 0; accuracy < 3; accuracy++) {
            gen_target target = {archs[a], accuracy};
            json_t *names = NULL;
            gen_default list[GEN_MOST_DEFAULTS];
            size_t count = 0;
            mlp_message why = {""};
            assert_int_equal(gen_pipelines_for(generator, &target, &names, &why), MLPBWD_OK);
            if (gen_defaults(generator, json_string_value(json_array_get(names, 0)), &target, list, &count, &why) !=
                MLPBWD_OK)
                fail_msg("%s", why.text);
            assert_true(count >= 1);
            assert_int_equal(list[0].min_tokens, 1);
            assert_int_equal(list[count - 1].max_tokens, 2147483647);
            for (size_t i = 0; i < count; i++) {
                const bool known = strncmp(archs[a], "sm_", 3) == 0;
                assert_true(i == 0 || list[i].min_tokens == list[i - 1].max_tokens + 1);
                assert_true(list[i].predicted_us > 0 ? known : !known);
                assert_true(!known || (list[i].tokens >= list[i].min_tokens && list[i].tokens <= list[i].max_tokens));
                json_t *measurement = gen_default_measurement(&list[i]);
                assert_true(json_is_false(json_object_get(measurement, "measured")));
                assert_null(json_object_get(measurement, "median_us"));
                json_decref(measurement);
            }
            gen_defaults_free(list, count);
            json_decref(names);
        }
    gen_close(generator);
}

/* What a sweep on an H200 found the fastest (2026-12-01, class tf32, H = 2048, I = 8192; tuning_db/winners of that day)
 * is predicted within a sixth of the model's own choice, and never below it. */
static void near_the_winners_of_an_h200(void **state) {
    (void)state;
    static const struct {
        int64_t tokens;
        const char *role, *parameters;
    } winners[] = {
        {256, "fc2_dgrad", "{\"ping_pong\":false,\"tiles_m\":1,\"tile_n\":128}"},
        {256, "fc2_wgrad", "{\"ping_pong\":true,\"tiles_m\":2,\"tile_n\":128,\"split_k\":1}"},
        {256, "fc1_dgrad", "{\"ping_pong\":false,\"tiles_m\":1,\"tile_n\":128,\"split_k\":4}"},
        {256, "fc1_wgrad", "{\"ping_pong\":true,\"tiles_m\":2,\"tile_n\":128,\"split_k\":1}"},
        {1024, "fc2_dgrad", "{\"ping_pong\":true,\"tiles_m\":1,\"tile_n\":256}"},
        {1024, "fc2_wgrad", "{\"ping_pong\":true,\"tiles_m\":2,\"tile_n\":128,\"split_k\":1}"},
        {1024, "fc1_dgrad", "{\"ping_pong\":true,\"tiles_m\":1,\"tile_n\":256,\"split_k\":1}"},
        {1024, "fc1_wgrad", "{\"ping_pong\":true,\"tiles_m\":2,\"tile_n\":128,\"split_k\":1}"},
        {8192, "fc2_dgrad", "{\"ping_pong\":true,\"tiles_m\":1,\"tile_n\":256}"},
        {8192, "fc2_wgrad", "{\"ping_pong\":false,\"tiles_m\":1,\"tile_n\":256,\"split_k\":1}"},
        {8192, "fc1_dgrad", "{\"ping_pong\":false,\"tiles_m\":2,\"tile_n\":128,\"split_k\":1}"},
        {8192, "fc1_wgrad", "{\"ping_pong\":false,\"tiles_m\":1,\"tile_n\":256,\"split_k\":1}"},
    };
    gen *generator = real();
    gen_target target = {"sm_90a", MLPBWD_ACCURACY_TF32};
    json_t *selection = NULL;
    for (size_t i = 0; i < sizeof winners / sizeof *winners; i++) {
        gen_problem problem = {winners[i].tokens, 2048, 8192, 132};
        double pass = 0, of_winner = 0, of_choice = 0;
        mlp_message why = {""};
        if (i % 4 == 0) {
            json_decref(selection);
            if (gen_choose(generator, "wgmma_speculative", &target, &problem, &selection, &pass, &why) != MLPBWD_OK)
                fail_msg("%s", why.text);
        }
        json_t *winner = json_loads(winners[i].parameters, 0, NULL),
               *chosen = json_object_get(selection, winners[i].role);
        if (gen_predict(generator, "wgmma_gemm", winners[i].role, &target, winner, &problem, &of_winner, &why) ||
            gen_predict(generator, "wgmma_gemm", winners[i].role, &target, chosen, &problem, &of_choice, &why))
            fail_msg("%s", why.text);
        if (!(of_winner <= 7.0 / 6 * of_choice && of_choice <= 1.005 * of_winner))
            fail_msg("T=%d %s: the winner is predicted at %.1f us, the model's choice at %.1f us",
                     (int)winners[i].tokens, winners[i].role, of_winner, of_choice);
        json_decref(winner);
    }
    json_decref(selection);
    gen_close(generator);
}

/* ---- in databases ---- */

static void put_default(db *database, const char *arch, int64_t tokens, int64_t min_tokens, int64_t max_tokens,
                        const char *pipeline) {
    fixture_plan made;
    mlp_message why = {""};
    fixture_make_plan(database, 64, 1, &made);
    db_plan_row row = made.row;
    row.arch = arch;
    row.device_name = "";
    row.units = 0;
    row.tokens = tokens;
    row.hidden_size = row.intermediate_size = 0;
    row.min_tokens = min_tokens;
    row.max_tokens = max_tokens;
    row.pipeline = pipeline;
    row.median_us = -1;
    row.measurement = "{\"measured\":false,\"predicted_us\":12.5}";
    if (db_put_plan(database, &row, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
}

static void assert_default(db *database, int64_t tokens, int accuracy, const char *pipeline) {
    dev_info device = {.id = "cuda:0", .name = "New GPU", .units = 7, .compute_capability = 100};
    device.ladder_length = dev_cuda_ladder(100, device.ladder);
    (void)snprintf(device.arch, sizeof device.arch, "%s", device.ladder[0]);
    mlpbwd_problem problem = {
        .batch_size = 1, .seq_len = tokens, .hidden_size = 128, .intermediate_size = 192, .accuracy = accuracy};
    lookup_request request = {.device = &device, .problem = &problem, .databases = &database, .database_count = 1};
    lookup_answer found;
    mlp_message why = {""};
    if (lookup_find(&request, &found, &why) != MLPBWD_OK)
        fail_msg("T=%d: %s", (int)tokens, why.text);
    char *text = lookup_answer_json(&request, &found);
    json_t *json = json_loads(text, 0, NULL);
    assert_string_equal(found.match, "default");
    assert_string_equal(json_string_value(json_object_get(json, "pipeline")), pipeline);
    assert_true(json_is_null(json_object_get(json, "median_us")));
    assert_true(json_is_false(json_object_get(json, "measured")));
    assert_int_equal(json_integer_value(json_object_get(json, "measured_tokens")), 0);
    assert_true(json_real_value(json_object_get(json, "predicted_us")) == 12.5);
    json_decref(json);
    free(text);
    lookup_answer_free(&found);
}

/* A range of the device's own architecture comes before another's default for all T. */
static void the_range_of_tokens_decides(void **state) {
    db *database = fixture_open(fixture_path(state, "defaults.sqlite"), DB_READ_WRITE);
    fixture_plan made;
    fixture_make_plan(database, 64, 1, &made);
    put_default(database, "compute_80", 0, 1, 2147483647, "of_another");
    put_default(database, "sm_100a", 0, 1, 512, "few");
    put_default(database, "sm_100a", 1024, 513, 2147483647, "many");
    assert_default(database, 1, made.row.accuracy, "few");
    assert_default(database, 512, made.row.accuracy, "few");
    assert_default(database, 513, made.row.accuracy, "many");
    assert_default(database, 16384, made.row.accuracy, "many");
    db_close(database);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(by_hand, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(l2_feeds_small_tiles, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(without_figures_nothing_is_predicted, template_folder, fixture_remove),
        cmocka_unit_test_setup_teardown(bad_tiles_are_refused, template_folder, fixture_remove),
        cmocka_unit_test(ranges_cover_every_number_of_tokens),
        cmocka_unit_test(near_the_winners_of_an_h200),
        cmocka_unit_test_setup_teardown(the_range_of_tokens_decides, fixture_folder, fixture_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
