#include "db_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

int fixture_folder(void **state) {
    const char *base = getenv("TMPDIR");
    char *folder = NULL;
    if (asprintf(&folder, "%s/mlpbwd-db-XXXXXX", base && *base ? base : "/tmp") < 0)
        return -1;
    if (!mkdtemp(folder)) {
        free(folder);
        return -1;
    }
    *state = folder;
    return 0;
}

static int open_up(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info;
    (void)where;
    return kind == FTW_D || kind == FTW_DNR ? chmod(path, 0700) : 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

int fixture_remove(void **state) {
    int result = nftw(*state, open_up, 16, FTW_PHYS);
    if (result == 0)
        result = nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return result;
}

const char *fixture_path(void *const *state, const char *name) {
    static char paths[8][4096];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", (const char *)*state, name);
    return path;
}

db *fixture_open(const char *path, db_mode mode) {
    mlp_message why = {""};
    db *database = NULL;
    if (db_open(path, mode, &database, &why) != MLPBWD_OK)
        fail_msg("%s", why.text);
    return database;
}

static void must(mlpbwd_status status, const mlp_message *why) {
    if (status != MLPBWD_OK)
        fail_msg("%s", why->text);
}

void fixture_make_plan(db *database, int64_t tokens, double median_us, fixture_plan *out) {
    mlp_message why = {""};
    char text[128];
    unsigned char code[300];
    snprintf(text, sizeof text, "extern \"C\" void kernel_%lld() {}\n", (long long)tokens);
    must(db_put_blob(database, "source", text, strlen(text), out->source_hash, &why), &why);
    for (size_t i = 0; i < sizeof code; ++i)
        code[i] = (unsigned char)((int64_t)i * 37 + tokens);
    must(db_put_blob(database, "cubin", code, sizeof code, out->code_hash, &why), &why);
    snprintf(out->plan, sizeof out->plan,
             "{\"format\":1,\"pipeline\":\"split\",\"accuracy\":\"tf32\",\"arch\":\"sm_90a\",\"tokens\":{\"min\":1,"
             "\"max\":2147483647},\"modules\":[{\"slot\":\"fc2_dgrad\",\"compiler\":\"nvrtc\",\"target\":\"sm_90a\","
             "\"source\":\"%s\",\"code\":\"%s\",\"code_format\":\"cubin\"}],\"buffers\":[],\"launches\":[]}",
             out->source_hash, out->code_hash);
    snprintf(out->parameters, sizeof out->parameters,
             "{\"fc2_dgrad\":{\"kernel\":\"gemm\",\"stages\":4,\"tile_m\":%lld}}", (long long)(tokens % 7 + 1) * 16);
    snprintf(out->measurement, sizeof out->measurement,
             "{\"clock_mhz\":1980,\"protocol\":\"cold \\u00b5s\",\"spread_us\":0.1}");
    out->row = (db_plan_row){.arch = "sm_90a",
                             .device_name = "Test GPU",
                             .units = 16,
                             .compute_capability = 90,
                             .tokens = tokens,
                             .hidden_size = 2048,
                             .intermediate_size = 8192,
                             .accuracy = MLPBWD_ACCURACY_TF32,
                             .min_tokens = 1,
                             .max_tokens = 2147483647,
                             .pipeline = "split",
                             .parameters = out->parameters,
                             .plan = out->plan,
                             .median_us = median_us,
                             .measurement = out->measurement,
                             .origin = "tune",
                             .date = "2026-01-02T03:04:05Z"};
}

void fixture_put_plan(db *database, int64_t tokens, double median_us) {
    mlp_message why = {""};
    fixture_plan plan;
    fixture_make_plan(database, tokens, median_us, &plan);
    must(db_put_plan(database, &plan.row, &why), &why);
}

db_candidate fixture_candidate(int number, char parameters[64]) {
    snprintf(parameters, 64, "{\"number\":%d}", number);
    return (db_candidate){.device_name = "Test GPU",
                          .arch = "sm_90a",
                          .units = 16,
                          .tokens = 256,
                          .hidden_size = 2048,
                          .intermediate_size = 8192,
                          .accuracy = MLPBWD_ACCURACY_TF32,
                          .pipeline = "split",
                          .slot = "fc2_dgrad",
                          .kernel = "gemm",
                          .parameters = parameters,
                          .source_hash = "",
                          .outcome = "ok",
                          .reason = "",
                          .median_us = 100.0 + number,
                          .measurement = "{\"times_us\":[1.5,2.25]}",
                          .code_hash = "",
                          .date = "2026-01-02T03:04:05Z"};
}

char *fixture_counts(db *database) {
    mlp_message why = {""};
    char *json = NULL;
    must(db_stats(database, &json, &why), &why);
    return json;
}

char *fixture_export(db *database, bool with_code) {
    mlp_message why = {""};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    mlpbwd_status status = db_export(database, NULL, with_code, out, &why);
    assert_int_equal(fclose(out), 0);
    if (status != MLPBWD_OK)
        text[0] = 0;
    return text;
}

/* Not by truncating to nothing first: some filesystems then wait for the disk at every close. */
void fixture_write(const char *path, const void *bytes, size_t size) {
    int file = open(path, O_WRONLY | O_CREAT, 0644);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), size);
    assert_int_equal(ftruncate(file, (off_t)size), 0);
    assert_int_equal(close(file), 0);
}

char *fixture_read(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    bytes[*size] = 0;
    fclose(file);
    return bytes;
}

static void keep_line(void *user, const char *text) {
    fixture_report *report = user;
    size_t used = strlen(report->text);
    snprintf(report->text + used, sizeof report->text - used, "%s\n", text);
}

void fixture_start_report(fixture_report *out) {
    out->report = (db_report){.line = keep_line, .user = out};
    out->text[0] = 0;
}

static int no_dots(const struct dirent *entry) {
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

char *fixture_list(const char *folder) {
    struct dirent **entries;
    int count = scandir(folder, &entries, no_dots, alphasort);
    assert_true(count >= 0);
    char *names = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&names, &size);
    assert_non_null(out);
    for (int i = 0; i < count; ++i) {
        fprintf(out, "%s%s", i ? " " : "", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    fclose(out);
    return names;
}
