/* The search with recorded times instead of a device: what it tries, what it chooses, what it stores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "db_fixture.h"
#include "sweep_fixture.h"

static const char *const folders[] = {SOURCE_DIR "/tests/replay/templates"};
static const int64_t both[] = {128, 64};

/* The recording of tests/replay, to be changed and written into the test's folder. */
static json_t *recording(void) {
    json_error_t error;
    json_t *json = json_load_file(SOURCE_DIR "/tests/replay/plain.json", 0, &error);
    if (!json)
        fail_msg("plain.json, line %d: %s", error.line, error.text);
    return json;
}

static void set_time(json_t *json, const char *key, json_t *value) {
    json_object_set_new(json_object_get(json, "times"), key, value);
}

static tune_options options_for(void **state, json_t *json) {
    const char *path = fixture_path(state, "recording.json");
    assert_int_equal(json_dump_file(json, path, 0), 0);
    json_decref(json);
    static char replay[512], database[512];
    snprintf(replay, sizeof replay, "%s", path);
    snprintf(database, sizeof database, "%s", fixture_path(state, "rows.sqlite"));
    return (tune_options){.database_path = database,
                          .template_folders = folders,
                          .template_folder_count = 1,
                          .tokens = both,
                          .token_count = 2,
                          .hidden_size = 64,
                          .intermediate_size = 64,
                          .replay_path = replay};
}

static const json_t *winner(const json_t *summary, int64_t tokens) {
    size_t index;
    json_t *entry;
    json_array_foreach(json_object_get(summary, "winners"), index,
                       entry) if (json_integer_value(json_object_get(entry, "tokens")) == tokens) return entry;
    fail_msg("no winner for T=%lld", (long long)tokens);
    return NULL;
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void assert_winner(const json_t *summary, int64_t tokens, const char *pipeline, double us, double default_us,
                          const char *parameters) {
    const json_t *entry = winner(summary, tokens);
    char *got = json_dumps(json_object_get(entry, "parameters"), JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text(entry, "pipeline"), pipeline);
    assert_string_equal(got, parameters);
    assert_true(number(entry, "median_us") == us);
    assert_true(number(entry, "default_us") == default_us);
    free(got);
}

#define SLOT(kernel, tile, unroll) "{\"kernel\":\"" kernel "\",\"tile\":" #tile ",\"unroll\":" #unroll "}"

static void picks_the_fastest(void **state) {
    tune_options options = options_for(state, recording());
    json_t *summary = sweep_run(&options);
    assert_winner(summary, 64, "direct", 110, 200,
                  "{\"first\":" SLOT("first_other", 1, 2) ",\"second\":" SLOT("second", 1, 1) "}");
    assert_winner(summary, 128, "roundabout", 140, 400,
                  "{\"back\":" SLOT("second", 4, 1) ",\"outward\":" SLOT("first_plain", 1, 1) "}");
    assert_true(json_is_false(json_object_get(summary, "interrupted")));
    assert_int_equal(json_array_size(json_object_get(summary, "failed")), 0);
    json_decref(summary);
}

static mlpbwd_status note_plan(void *user, const db_plan_row *row, mlp_message *why) {
    (void)why;
    json_t *rows = user;
    json_t *measurement = json_loads(row->measurement, 0, NULL);
    json_array_append_new(rows, json_pack("{s:I,s:s,s:f,s:s,s:o}", "tokens", (json_int_t)row->tokens, "pipeline",
                                          row->pipeline, "us", row->median_us, "origin", row->origin, "measurement",
                                          measurement));
    return MLPBWD_OK;
}

static void stores_the_winner(void **state) {
    tune_options options = options_for(state, recording());
    json_decref(sweep_run(&options));
    db *database = fixture_open(options.database_path, DB_READ_ONLY);
    json_t *rows = json_array();
    db_plan_filter filter = {"replay", "Recorded 4", 4, MLPBWD_ACCURACY_TF32, 64, 64, 64};
    assert_int_equal(db_each_plan(database, &filter, note_plan, rows, NULL), MLPBWD_OK);
    assert_int_equal(json_array_size(rows), 1);
    const json_t *row = json_array_get(rows, 0), *measurement = json_object_get(row, "measurement");
    assert_string_equal(text(row, "pipeline"), "direct");
    assert_string_equal(text(row, "origin"), "tune");
    assert_true(number(row, "us") == 110);
    static const char *const fields[] = {"protocol", "spread_us", "driver",   "compiler", "templates",
                                         "complete", "date",      "times_us", "clock_mhz"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (!json_object_get(measurement, fields[i]))
            fail_msg("the winner's measurement has no %s", fields[i]);
    assert_int_equal(json_array_size(json_object_get(measurement, "times_us")), 20);
    assert_string_equal(text(measurement, "protocol"), "replay of recorded times, in each of 5 turns");
    json_decref(rows);
    db_close(database);
}

static void a_finished_sweep_times_nothing(void **state) {
    tune_options options = options_for(state, recording());
    json_t *first = sweep_run(&options), *second = sweep_run(&options);
    assert_true(number(first, "timed") > 20);
    assert_true(number(second, "timed") == 0);
    assert_true(number(second, "compiled") == 0);
    /* in the order of T in both */
    assert_true(json_equal(json_object_get(first, "winners"), json_object_get(second, "winners")));
    assert_true(json_equal(json_object_get(first, "candidates"), json_object_get(second, "candidates")));
    json_decref(first);
    options.repetitions = 10; /* another protocol is another measurement */
    json_t *third = sweep_run(&options);
    assert_true(number(third, "timed") > 20);
    json_decref(second);
    json_decref(third);
}

static void close_times_are_decided_by_the_default(void **state) {
    /* 100 + 100 is the default; a half percent is no reason to leave it, nor is it one to leave it in two places */
    json_t *json = recording();
    json_t *times = json_object_get(json, "times");
    json_object_clear(times);
    set_time(json, "first/first_plain/{\"tile\":2,\"unroll\":1}/64", json_real(100));
    set_time(json, "second/second/{\"tile\":2,\"unroll\":1}/64", json_real(100));
    set_time(json, "first/first_plain/{\"tile\":4,\"unroll\":1}/64", json_real(99.5));
    set_time(json, "second/second/{\"tile\":1,\"unroll\":1}/64", json_real(99.5));
    tune_options options = options_for(state, json_incref(json));
    options.tokens = &both[1];
    options.token_count = 1;
    json_t *summary = sweep_run(&options);
    assert_winner(summary, 64, "direct", 200, 200,
                  "{\"first\":" SLOT("first_plain", 2, 1) ",\"second\":" SLOT("second", 2, 1) "}");
    json_decref(summary);
    /* 3 % are a reason; the smaller text decides between equals */
    set_time(json, "first/first_plain/{\"tile\":1,\"unroll\":1}/64", json_real(94));
    set_time(json, "first/first_plain/{\"tile\":1,\"unroll\":2}/64", json_real(94));
    options = options_for(state, json);
    options.tokens = &both[1];
    options.token_count = 1;
    options.database_path = fixture_path(state, "other.sqlite");
    summary = sweep_run(&options);
    assert_winner(summary, 64, "direct", 194, 200,
                  "{\"first\":" SLOT("first_plain", 1, 1) ",\"second\":" SLOT("second", 2, 1) "}");
    json_decref(summary);
}

static void passes_are_judged_as_a_whole(void **state) {
    json_t *json = recording();
    /* slot by slot the others look better, as whole passes they are worse than the default, which always takes part;
     * the best of the first slot alone beside the rest of the default is better */
    json_object_set_new(json, "passes", json_object());
    json_object_set_new(json_object_get(json, "passes"),
                        "direct/{\"first\":" SLOT("first_other", 1, 2) ",\"second\":" SLOT("second", 1, 1) "}/64",
                        json_real(300));
    json_object_set_new(json_object_get(json, "passes"),
                        "roundabout/{\"back\":" SLOT("second", 2, 1) ",\"outward\":" SLOT("first_plain", 2, 1) "}/64",
                        json_real(300));
    tune_options options = options_for(state, json);
    options.tokens = &both[1];
    options.token_count = 1;
    json_t *summary = sweep_run(&options);
    assert_winner(summary, 64, "direct", 160, 200,
                  "{\"first\":" SLOT("first_other", 1, 2) ",\"second\":" SLOT("second", 2, 1) "}");
    json_decref(summary);
}

/* Two slots that gain only together: what one T found so by chance enters the finals of the next. */
static void a_winner_is_tried_at_the_next_tokens(void **state) {
    static const char pass[] = "direct/{\"first\":" SLOT("first_other", 2, 2) ",\"second\":" SLOT("second", 4, 1) "}/";
    char key[256];
    json_t *json = recording(), *passes = json_object();
    json_object_clear(json_object_get(json, "times"));
    set_time(json, "first/first_other/{\"tile\":2,\"unroll\":2}/64", json_real(50)); /* at T = 64 alone, too */
    set_time(json, "second/second/{\"tile\":4,\"unroll\":1}/64", json_real(50));
    snprintf(key, sizeof key, "%s128", pass);
    json_object_set_new(passes, key, json_real(70));
    json_object_set_new(json, "passes", passes);
    tune_options options = options_for(state, json);
    json_t *summary = sweep_run(&options);
    assert_winner(summary, 128, "direct", 70, 400,
                  "{\"first\":" SLOT("first_other", 2, 2) ",\"second\":" SLOT("second", 4, 1) "}");
    json_decref(summary);
}

static void a_failing_candidate_is_left_out_and_named(void **state) {
    json_t *json = recording();
    set_time(json, "first/first_other/{\"tile\":1,\"unroll\":2}/64", json_string("wrong: off by one"));
    set_time(json, "second/second/{\"tile\":1,\"unroll\":1}/64", json_string("crashed: SIGSEGV"));
    tune_options options = options_for(state, json);
    options.tokens = &both[1];
    options.token_count = 1;
    json_t *summary = sweep_run(&options);
    assert_winner(summary, 64, "roundabout", 180, 200,
                  "{\"back\":" SLOT("second", 2, 1) ",\"outward\":" SLOT("first_plain", 2, 1) "}");
    const json_t *failed = json_object_get(summary, "failed");
    assert_int_equal(json_array_size(failed), 2);
    bool wrong = false, crashed = false;
    for (size_t i = 0; i < 2; i++) {
        const json_t *entry = json_array_get(failed, i);
        wrong = wrong || (strcmp(text(entry, "outcome"), "wrong") == 0 && strcmp(text(entry, "slot"), "first") == 0 &&
                          strcmp(text(entry, "kernel"), "first_other") == 0 &&
                          strcmp(text(entry, "reason"), "wrong: off by one") == 0);
        crashed =
            crashed || (strcmp(text(entry, "outcome"), "crashed") == 0 && strcmp(text(entry, "slot"), "second") == 0);
    }
    assert_true(wrong && crashed);
    json_decref(summary);
}

/* A folder in which kernel `second` prunes what the recording has as its fastest. */
static const char *pruning_folder(void **state) {
    static char folder[512];
    char line[512], path[600];
    snprintf(folder, sizeof folder, "%s", fixture_path(state, "pruning"));
    snprintf(path, sizeof path, "%s/kernels", folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/kernels/second.lua", folder);
    FILE *from = fopen(SOURCE_DIR "/tests/replay/templates/kernels/second.lua", "r"), *to = fopen(path, "w");
    assert_non_null(from);
    assert_non_null(to);
    while (fgets(line, sizeof line, from)) {
        if (strstr(line, "valid = "))
            fputs("    prune = function(c) return c.p.tile ~= 1, 'small tiles' end,\n", to);
        fputs(line, to);
    }
    fclose(from);
    assert_int_equal(fclose(to), 0);
    return folder;
}

static void an_exhaustive_slot_is_not_pruned(void **state) {
    const char *const two[] = {pruning_folder(state), folders[0]};
    tune_options options = options_for(state, recording());
    options.tokens = &both[1];
    options.token_count = 1;
    options.template_folders = two;
    options.template_folder_count = 2;
    json_t *summary = sweep_run(&options);
    assert_winner(summary, 64, "direct", 160, 200,
                  "{\"first\":" SLOT("first_other", 1, 2) ",\"second\":" SLOT("second", 2, 1) "}");
    json_decref(summary);
    options.exhaustive = "second"; /* the same database: the rest is known */
    summary = sweep_run(&options);
    assert_winner(summary, 64, "direct", 110, 200,
                  "{\"first\":" SLOT("first_other", 1, 2) ",\"second\":" SLOT("second", 1, 1) "}");
    json_decref(summary);
    summary = sweep_run(&options);
    assert_true(number(summary, "timed") == 0);
    json_decref(summary);
    mlp_message why = {""};
    options.exhaustive = "third";
    assert_int_equal(tune_run(&options, &summary, &why), MLPBWD_INVALID_ARGUMENT);
    assert_non_null(strstr(why.text, "a slot 'third'"));
}

static void failures_are_remembered_until_they_are_retried(void **state) {
    json_t *json = recording();
    set_time(json, "second/second/{\"tile\":1,\"unroll\":1}/64", json_string("crashed: SIGSEGV"));
    tune_options options = options_for(state, json);
    options.tokens = &both[1];
    options.token_count = 1;
    json_decref(sweep_run(&options));
    options_for(state, recording()); /* it would pass now */
    json_t *summary = sweep_run(&options);
    assert_true(number(summary, "timed") == 0);
    assert_int_equal(json_array_size(json_object_get(summary, "failed")), 1);
    json_decref(summary);
    options.retry_failed = true;
    summary = sweep_run(&options);
    assert_true(number(summary, "timed") > 0);
    assert_int_equal(json_array_size(json_object_get(summary, "failed")), 0);
    assert_winner(summary, 64, "direct", 110, 200,
                  "{\"first\":" SLOT("first_other", 1, 2) ",\"second\":" SLOT("second", 1, 1) "}");
    json_decref(summary);
}

/* The first that hangs costs the whole limit of 20 s, each further one of its slot 2 s: 28 s of search are enough for
 * four of them. */
static void a_family_that_hangs_costs_one_limit(void **state) {
    json_t *json = recording();
    json_object_set_new(json, "seconds_each", json_real(0.01));
    set_time(json, "first/first_plain/{\"tile\":1,\"unroll\":1}/64", json_string("timeout: it hangs"));
    set_time(json, "first/first_plain/{\"tile\":1,\"unroll\":2}/64", json_string("timeout: it hangs"));
    set_time(json, "first/first_plain/{\"tile\":2,\"unroll\":2}/64", json_string("timeout: it hangs"));
    set_time(json, "first/first_plain/{\"tile\":4,\"unroll\":1}/64", json_string("timeout: it hangs"));
    tune_options options = options_for(state, json);
    options.tokens = &both[1];
    options.token_count = 1;
    options.budget_seconds = 40;
    json_t *first = sweep_run(&options), *second = sweep_run(&options);
    assert_true(number(json_object_get(first, "candidates"), "timeout") == 4);
    assert_winner(first, 64, "direct", 110, 200,
                  "{\"first\":" SLOT("first_other", 1, 2) ",\"second\":" SLOT("second", 1, 1) "}");
    assert_true(number(second, "timed") == 0); /* nothing was left over */
    json_decref(first);
    json_decref(second);
}

/* Right at small shapes and timed well, but every pass it takes part in is wrong at the tuned T. */
static void what_fails_only_at_the_tuned_size_is_found_out(void **state) {
    json_t *json = recording();
    json_object_set_new(json, "wrong_at_size", json_string("first_other"));
    tune_options options = options_for(state, json);
    options.tokens = &both[1];
    options.token_count = 1;
    json_t *summary = sweep_run(&options);
    assert_winner(summary, 64, "direct", 140, 200,
                  "{\"first\":" SLOT("first_plain", 4, 1) ",\"second\":" SLOT("second", 1, 1) "}");
    bool named = false;
    for (size_t i = 0; i < json_array_size(json_object_get(summary, "failed")); i++) {
        const json_t *entry = json_array_get(json_object_get(summary, "failed"), i);
        named = named || (strcmp(text(entry, "kernel"), "first_other") == 0 &&
                          strcmp(text(entry, "parameters"), "{\"tile\":1,\"unroll\":2}") == 0 &&
                          strcmp(text(entry, "outcome"), "wrong") == 0);
    }
    assert_true(named);
    json_decref(summary);
}

static void impossible_times_are_refused(void **state) {
    json_t *json = recording();
    set_time(json, "first/first_other/{\"tile\":1,\"unroll\":2}/64", json_real(0.12)); /* 0.131 us of arithmetic */
    set_time(json, "second/second/{\"tile\":1,\"unroll\":1}/64", json_real(0));
    set_time(json, "second/second/{\"tile\":4,\"unroll\":1}/64", json_real(-5));
    set_time(json, "first/first_other/{\"tile\":1,\"unroll\":1}/64", json_real(0.14));
    tune_options options = options_for(state, json);
    options.tokens = &both[1];
    options.token_count = 1;
    json_t *summary = sweep_run(&options);
    assert_true(number(json_object_get(summary, "candidates"), "impossible_time") == 3);
    assert_winner(summary, 64, "direct", 100.14, 200,
                  "{\"first\":" SLOT("first_other", 1, 1) ",\"second\":" SLOT("second", 2, 1) "}");
    json_decref(summary);
}

static mlpbwd_status note_candidate(void *user, const db_candidate *row, mlp_message *why) {
    (void)why;
    if (row->slot[0] == '\0') /* which passes meet in the finals depends on what is known */
        return MLPBWD_OK;
    char key[1024];
    snprintf(key, sizeof key, "%lld %s %s %s %s", (long long)row->tokens, row->pipeline, row->slot, row->kernel,
             row->parameters);
    json_object_set_new((json_t *)user, key, json_string(row->outcome));
    return MLPBWD_OK;
}

static json_t *candidates_in(const char *path) {
    db *database = fixture_open(path, DB_READ_ONLY);
    json_t *rows = json_object();
    db_candidate any = {.units = -1, .tokens = -1, .hidden_size = -1, .intermediate_size = -1, .accuracy = -1};
    assert_int_equal(db_each_candidate(database, &any, note_candidate, rows, NULL), MLPBWD_OK);
    db_close(database);
    return rows;
}

/* ---- what a killed sweep leaves ---- */

typedef struct wanted_row {
    char device_name[64], parameters[256], measurement[2048], source_hash[DB_HASH_CAPACITY];
    db_candidate row;
} wanted_row;

static mlpbwd_status keep_row(void *user, const db_candidate *row, mlp_message *why) {
    (void)why;
    wanted_row *kept = user;
    kept->row = *row;
    snprintf(kept->device_name, sizeof kept->device_name, "%s", row->device_name);
    snprintf(kept->parameters, sizeof kept->parameters, "%s", row->parameters);
    snprintf(kept->measurement, sizeof kept->measurement, "%s", row->measurement);
    snprintf(kept->source_hash, sizeof kept->source_hash, "%s", row->source_hash);
    return MLPBWD_OK;
}

/* Replaces the row of the default variant of the slot "first" by one in flight, or (reason NULL) tells its outcome. */
static void default_row(const char *path, const char *reason, double median_us, char outcome[64]) {
    wanted_row kept = {0};
    db *database = fixture_open(path, DB_READ_WRITE);
    db_candidate like = {.units = -1,
                         .tokens = 64,
                         .hidden_size = -1,
                         .intermediate_size = -1,
                         .accuracy = -1,
                         .pipeline = "direct",
                         .slot = "first",
                         .kernel = "first_plain",
                         .parameters = "{\"tile\":2,\"unroll\":1}"};
    char word[64] = "";
    for (int pass = 0; pass < 2; pass++) {
        static const char *const outcomes[] = {"ok", "crashed"};
        like.outcome = outcomes[pass];
        kept.row.date = NULL;
        assert_int_equal(db_each_candidate(database, &like, keep_row, &kept, NULL), MLPBWD_OK);
        if (kept.row.date)
            snprintf(word, sizeof word, "%s", outcomes[pass]);
    }
    assert_true(word[0] != '\0');
    if (outcome)
        memcpy(outcome, word, sizeof word);
    if (reason) {
        db_candidate row = like;
        row.device_name = kept.device_name;
        row.arch = "replay";
        row.units = kept.row.units;
        row.hidden_size = row.intermediate_size = 64;
        row.accuracy = kept.row.accuracy;
        row.measurement = kept.measurement;
        row.source_hash = kept.source_hash;
        row.outcome = "in_flight";
        row.reason = reason;
        row.median_us = median_us;
        row.code_hash = "";
        row.date = "2026-01-02T03:04:05Z";
        assert_int_equal(db_record_candidate(database, &row, NULL), MLPBWD_OK);
    }
    db_close(database);
}

/* A kill says little about the candidate that was in flight, and the default's loss would be that of the pipeline. */
static void what_was_in_flight_is_tried_once_more(void **state) {
    tune_options options = options_for(state, recording());
    options.tokens = &both[1];
    options.token_count = 1;
    char outcome[64];
    json_decref(sweep_run(&options));
    static const struct {
        const char *reason;
        double median_us;
        const char *outcome;
    } cases[] = {{"", -1, "ok"}, {"", 100, "ok"}, {"for the second time", -1, "crashed"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options.seed++; /* so that the stored winner is not enough */
        default_row(options.database_path, cases[i].reason, cases[i].median_us, NULL);
        json_t *summary = sweep_run(&options);
        default_row(options.database_path, NULL, 0, outcome);
        assert_string_equal(outcome, cases[i].outcome);
        if (strcmp(outcome, "ok") == 0)
            assert_winner(summary, 64, "direct", 110, 200,
                          "{\"first\":" SLOT("first_other", 1, 2) ",\"second\":" SLOT("second", 1, 1) "}");
        json_decref(summary);
    }
}

static void a_budget_ends_the_sweep_and_the_next_goes_on(void **state) {
    json_t *json = recording();
    json_object_set_new(json, "seconds_each", json_real(1));
    tune_options options = options_for(state, json);
    options.budget_seconds = 30;
    json_t *first = sweep_run(&options);
    assert_int_equal(json_array_size(json_object_get(first, "winners")), 2);
    double timed = number(first, "timed");
    assert_true(json_is_true(json_object_get(first, "budget_ended")));
    assert_true(timed >= 20 && timed <= 45); /* the default, a part of the search and one round for each of two T */
    json_t *rows = candidates_in(options.database_path);
    size_t before = json_object_size(rows);
    json_decref(rows);
    options.budget_seconds = 0;
    json_t *second = sweep_run(&options);
    rows = candidates_in(options.database_path);
    assert_true(before > 2 && before < json_object_size(rows));
    assert_true(json_is_false(json_object_get(second, "budget_ended")));
    assert_winner(second, 64, "direct", 110, 200,
                  "{\"first\":" SLOT("first_other", 1, 2) ",\"second\":" SLOT("second", 1, 1) "}");
    json_decref(rows);
    json_decref(first);
    json_decref(second);
}

static void shards_together_are_the_whole(void **state) {
    tune_options options = options_for(state, recording());
    json_decref(sweep_run(&options));
    json_t *whole = candidates_in(options.database_path);
    options.database_path = fixture_path(state, "parts.sqlite");
    options.shard_count = 3;
    size_t least = json_object_size(whole);
    json_t *summary = NULL;
    for (options.shard = 1; options.shard <= 3; options.shard++) {
        json_decref(summary);
        summary = sweep_run(&options);
        json_t *part = candidates_in(options.database_path);
        if (options.shard == 1)
            assert_true(json_object_size(part) < least);
        json_decref(part);
    }
    json_t *parts = candidates_in(options.database_path);
    assert_true(json_equal(parts, whole));
    assert_winner(summary, 64, "direct", 110, 200,
                  "{\"first\":" SLOT("first_other", 1, 2) ",\"second\":" SLOT("second", 1, 1) "}");
    json_decref(summary);
    json_decref(parts);
    json_decref(whole);
}

static volatile int interrupted;

static void interrupt_at_30(void *user, const char *line) {
    int *lines = user;
    if (strstr(line, "T=64") && ++*lines == 2)
        interrupted = 1;
}

static void an_interruption_keeps_what_was_measured(void **state) {
    tune_options options = options_for(state, recording());
    int lines = 0;
    interrupted = 0;
    options.interrupted = &interrupted;
    options.progress = interrupt_at_30;
    options.user = &lines;
    json_t *first = sweep_run(&options);
    assert_true(json_is_true(json_object_get(first, "interrupted")));
    assert_true(json_array_size(json_object_get(first, "winners")) < 2);
    interrupted = 0;
    options.progress = NULL;
    json_t *second = sweep_run(&options);
    assert_int_equal(json_array_size(json_object_get(second, "winners")), 2);
    json_decref(first);
    json_decref(second);
}

static void bad_requests_are_refused(void **state) {
    static const struct {
        const char *part;
        int64_t tokens, hidden;
        int shard, shards, repetitions;
    } cases[] = {{"cannot tune 0 tokens", 0, 64, 0, 0, 0},
                 {"multiples of 64", 64, 63, 0, 0, 0},
                 {"shard 4 of 3", 64, 64, 4, 3, 0},
                 {"repetitions", 64, 64, 0, 0, 100000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tune_options options = options_for(state, recording());
        options.tokens = &cases[i].tokens;
        options.token_count = 1;
        options.hidden_size = cases[i].hidden;
        options.shard = cases[i].shard;
        options.shard_count = cases[i].shards;
        options.repetitions = cases[i].repetitions;
        json_t *summary = NULL;
        mlp_message why = {""};
        assert_int_not_equal(tune_run(&options, &summary, &why), MLPBWD_OK);
        if (!strstr(why.text, cases[i].part))
            fail_msg("\"%s\" does not say \"%s\"", why.text, cases[i].part);
        assert_null(summary);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_folder, fixture_remove)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(picks_the_fastest),
                                       TEST(stores_the_winner),
                                       TEST(a_finished_sweep_times_nothing),
                                       TEST(close_times_are_decided_by_the_default),
                                       TEST(passes_are_judged_as_a_whole),
                                       TEST(a_winner_is_tried_at_the_next_tokens),
                                       TEST(a_failing_candidate_is_left_out_and_named),
                                       TEST(an_exhaustive_slot_is_not_pruned),
                                       TEST(failures_are_remembered_until_they_are_retried),
                                       TEST(a_family_that_hangs_costs_one_limit),
                                       TEST(what_was_in_flight_is_tried_once_more),
                                       TEST(what_fails_only_at_the_tuned_size_is_found_out),
                                       TEST(impossible_times_are_refused),
                                       TEST(a_budget_ends_the_sweep_and_the_next_goes_on),
                                       TEST(shards_together_are_the_whole),
                                       TEST(an_interruption_keeps_what_was_measured),
                                       TEST(bad_requests_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
