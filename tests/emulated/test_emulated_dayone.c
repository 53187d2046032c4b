/* The commands of the README's page for the owner of a B200, on an emulated one: compile ahead, tune without a compiler
 * (every candidate is checked, times are recorded ones), export, query. Over few variants of each kernel, whichever
 * kernels there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "generator.h"
#include "run_tool.h"

#define DEVICE "emulated:sm_100a"
#define SMALL "--hidden-size", "256", "--intermediate-size", "320", "--tokens", "70"
static const double USUAL_US = 50, FASTEST_US = 20;

static char folder[4096], templates[4200], database[4200], recording[4200], winners[4200];

static void save(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void make(const char *name) {
    char path[8192];
    (void)snprintf(path, sizeof path, "%s/%s", templates, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void link_to(const char *source, const char *name) {
    char from[8192], to[8192];
    (void)snprintf(from, sizeof from, SOURCE_DIR "/templates/%s", source);
    (void)snprintf(to, sizeof to, "%s/%s", templates, name);
    assert_int_equal(symlink(from, to), 0);
}

static bool ends_in(const char *name, const char *end) {
    size_t length = strlen(name), rest = strlen(end);
    return length > rest && strcmp(name + length - rest, end) == 0;
}

/* Calls visit for each file of a folder of the templates. */
static void each_file(const char *of, void (*visit)(const char *name)) {
    DIR *entries = opendir(of);
    assert_non_null(entries);
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL)
        if (entry->d_name[0] != '.')
            visit(entry->d_name);
    (void)closedir(entries);
}

static void link_library(const char *name) {
    char path[512];
    (void)snprintf(path, sizeof path, "lib/%.400s", name);
    link_to(path, path);
}

/* Each kernel with all parameters at their defaults but the order of its tiles, which has two values. */
static void few_kernels(const char *name) {
    char path[512], whole[512], full[4800], text[700];
    (void)snprintf(path, sizeof path, "kernels/%.400s", name);
    if (!ends_in(name, ".lua")) {
        link_to(path, path);
        return;
    }
    (void)snprintf(whole, sizeof whole, "lib/whole/%.400s", name);
    link_to(path, whole);
    (void)snprintf(text, sizeof text, "return import(\"lib/few.lua\")(import \"%s\")\n", whole);
    (void)snprintf(full, sizeof full, "%s/%s", templates, path);
    save(full, text);
}

static const char *const FEW = "return function(kernel)\n"
                               "  for _, p in ipairs(kernel.params) do\n"
                               "    local default = p.default\n"
                               "    if p.name == 'group_m' then\n"
                               "      p.values = { 4, 8 }\n"
                               "    else\n"
                               "      p.values = function(c)\n"
                               "        return { type(default) == 'function' and default(c) or default }\n"
                               "      end\n"
                               "    end\n"
                               "  end\n"
                               "  return kernel\n"
                               "end\n";

/* One pipeline, the default one of the architecture. */
static void one_pipeline(void) {
    static const char *const folders[] = {SOURCE_DIR "/templates"};
    gen *generator = NULL;
    json_t *names = NULL;
    mlp_message why = {""};
    const gen_target target = {"sm_100a", MLPBWD_ACCURACY_TF32};
    char path[512];
    if (gen_open(folders, 1, NULL, &generator, &why) != MLPBWD_OK ||
        gen_pipelines_for(generator, &target, &names, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    (void)snprintf(path, sizeof path, "pipelines/%.400s.lua", json_string_value(json_array_get(names, 0)));
    link_to(path, path);
    json_decref(names);
    gen_close(generator);
}

static int set_up(void **state) {
    (void)state;
    make_folder(folder, sizeof folder);
    (void)snprintf(templates, sizeof templates, "%s/templates", folder);
    (void)snprintf(database, sizeof database, "%s/b200.sqlite", folder);
    (void)snprintf(recording, sizeof recording, "%s/recording.json", folder);
    (void)snprintf(winners, sizeof winners, "%s/nvidia_b200.json", folder);
    make("");
    make("kernels");
    make("pipelines");
    make("lib");
    make("lib/whole");
    link_to("arch", "arch");
    each_file(SOURCE_DIR "/templates/lib", link_library);
    each_file(SOURCE_DIR "/templates/kernels", few_kernels);
    char path[8192];
    (void)snprintf(path, sizeof path, "%s/lib/few.lua", templates);
    save(path, FEW);
    one_pipeline();
    return setenv("MLPBWD_TEMPLATES", templates, 1);
}

static int tear_down(void **state) {
    (void)state;
    remove_folder(folder);
    return 0;
}

/* environment: NULL or one more setting. */
static run_result run(const char *environment, const char *const *arguments) {
    const char *list[40] = {TOOL};
    const char *const settings[] = {environment, NULL};
    size_t count = 1;
    for (; *arguments; arguments++)
        list[count++] = *arguments;
    list[count] = NULL;
    const run_surroundings around = {.environment = environment ? settings : NULL, .limit_seconds = 240};
    return run_program(list, &around);
}
#define RUN(environment, ...) run(environment, (const char *const[]){__VA_ARGS__, NULL})

static json_t *answer(int code, run_result result) {
    if (result.code != code)
        fail_msg("exit code %d instead of %d: %s", result.code, code, result.errors);
    json_t *json = json_loads(result.output, JSON_DECODE_ANY, NULL);
    run_result_free(&result);
    assert_non_null(json);
    return json;
}

static void refused(int code, const char *told, run_result result) {
    assert_int_equal(result.code, code);
    if (!strstr(result.errors, told))
        fail_msg("\"%s\" does not say \"%s\"", result.errors, told);
    run_result_free(&result);
}

static json_int_t integer(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static json_t *candidates(void) {
    return answer(0, RUN(NULL, "db", "list", "--candidates", "--db", database, "--json"));
}

/* Every candidate takes USUAL_US but one, which is not a default: it must win its slot. */
static void record_times(char slot[64], json_int_t *group) {
    json_t *rows = candidates(), *row, *times = json_object();
    size_t index;
    *group = 0;
    json_array_foreach(json_object_get(rows, "rows"), index, row) {
        const json_t *parameters = json_object_get(row, "parameters");
        if (integer(parameters, "group_m") != 4 || strcmp(text(row, "slot"), "fc1_wgrad") != 0)
            continue;
        char key[1024], *canonical = json_dumps(parameters, JSON_COMPACT | JSON_SORT_KEYS);
        (void)snprintf(key, sizeof key, "%s/%s/%s/70", text(row, "slot"), text(row, "kernel"), canonical);
        free(canonical);
        json_object_set_new(times, key, json_real(FASTEST_US));
        (void)snprintf(slot, 64, "%s", text(row, "slot"));
        *group = 4;
    }
    json_decref(rows);
    json_t *file = json_pack("{s:{s:s,s:s,s:i},s:o,s:f}", "device", "name", "recorded", "arch", "sm_100a", "units", 148,
                             "times", times, "otherwise", USUAL_US);
    assert_int_equal(json_dump_file(file, recording, 0), 0);
    json_decref(file);
}

static void the_first_day(void **state) {
    (void)state;
    /* 1. anywhere: all machine code, and a second run has nothing left to do */
    json_t *summary =
        answer(0, RUN(NULL, "compile", "--device", DEVICE, SMALL, "--db", database, "--jobs", "2", "--json"));
    json_int_t made = integer(json_object_get(summary, "candidates"), "compiled");
    assert_true(integer(summary, "compiled") > 4 && made > 8);
    assert_int_equal(json_array_size(json_object_get(summary, "failed")), 0);
    json_decref(summary);
    summary = answer(0, RUN(NULL, "compile", "--device", DEVICE, SMALL, "--db", database, "--json"));
    assert_int_equal(integer(summary, "compiled"), 0);
    assert_int_equal(integer(json_object_get(summary, "candidates"), "compiled"), made);
    json_decref(summary);

    /* 2. on the device: no compiler is there, and every candidate is checked and timed */
    char slot[64] = "";
    json_int_t group = 0;
    record_times(slot, &group);
    assert_string_equal(slot, "fc1_wgrad");
    summary = answer(0, RUN("CXX=/nowhere/c++", "tune", "--device", DEVICE, SMALL, "--db", database, "--no-compile",
                            "--replay", recording, "--json"));
    assert_int_equal(integer(summary, "compiled"), 0);
    assert_int_equal(json_array_size(json_object_get(summary, "failed")), 0);
    assert_true(integer(json_object_get(summary, "candidates"), "ok") >= made);
    assert_int_equal(json_object_size(json_object_get(summary, "candidates")), 1);
    assert_int_equal(json_array_size(json_object_get(summary, "winners")), 1);
    json_decref(summary);
    json_t *rows = candidates(), *row;
    size_t index, checked = 0;
    json_array_foreach(json_object_get(rows, "rows"), index, row) {
        const json_t *measurement = json_object_get(row, "measurement");
        if (strcmp(text(row, "outcome"), "ok") != 0)
            continue;
        assert_true(json_is_true(json_object_get(measurement, "replayed")));
        assert_true(json_is_object(json_object_get(measurement, "errors")));
        assert_non_null(strstr(text(measurement, "protocol"), "recorded times"));
        checked++;
    }
    assert_true(checked >= (size_t)made);
    json_decref(rows);

    /* 3. the rows to send back */
    run_result exported =
        RUN(NULL, "db", "export", "--db", database, "--device", "emulated sm_100a", "--output", winners);
    assert_int_equal(exported.code, 0);
    run_result_free(&exported);
    json_t *file = json_load_file(winners, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(file, "rows")), 1);
    row = json_array_get(json_object_get(file, "rows"), 0);
    assert_string_equal(text(row, "device_name"), "emulated sm_100a");
    assert_int_equal(integer(json_object_get(json_object_get(row, "parameters"), slot), "group_m"), group);
    assert_true(json_is_true(json_object_get(json_object_get(row, "measurement"), "replayed")));
    double median = json_number_value(json_object_get(row, "median_us"));
    json_decref(file);

    /* and what runs from now on: there, and not on any other device of the architecture */
    json_t *found = answer(0, RUN(NULL, "query", "--device", DEVICE, SMALL, "--db", database, "--json"));
    assert_string_equal(text(found, "match"), "exact");
    assert_true(json_number_value(json_object_get(found, "median_us")) == median);
    assert_true(json_is_false(json_object_get(found, "measured")));
    json_decref(found);
    refused(4, "no stored plan serves", RUN(NULL, "query", "--device", "sm_100a", SMALL, "--db", database));
    refused(4, "no stored plan serves",
            RUN(NULL, "query", "--device", "sm_100a", "--tokens", "70", "--hidden-size", "64", "--db", database));
}

static void no_times_of_their_own(void **state) {
    (void)state;
    char other[4300];
    (void)snprintf(other, sizeof other, "%s/other.sqlite", folder);
    refused(1, "no time of its own", RUN(NULL, "tune", "--device", DEVICE, SMALL, "--db", other));
    save(recording, "{\"device\":{\"name\":\"x\",\"arch\":\"x\",\"units\":1},\"times\":{},\"otherwise\":1}");
    refused(1, "times of its own", RUN(NULL, "tune", "--device", "host", SMALL, "--db", other, "--replay", recording));
    /* nothing is compiled where there is neither machine code nor a compiler */
    refused(1, "has no machine code",
            RUN("CXX=/nowhere/c++", "tune", "--device", DEVICE, SMALL, "--db", other, "--replay", recording));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_day),
        cmocka_unit_test(no_times_of_their_own),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
