#include "template_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "db_fixture.h"

const gen_target template_target = {"test", MLPBWD_ACCURACY_TF32};

static const char features[] = "return { base = 'all have it', extra = 'none has it' }\n";
static const char arch[] =
    "return { name = 'test', doc = 'd', backend = 'host', compiler = 'cc', target = 'generic', compute_capability = "
    "0,\n"
    "  ship = false, features = { base = true }, limits = { shared_bytes = 1, registers_per_thread = 2,\n"
    "  threads_per_block = 64, vector_bytes = 16 }, rates = { tf32 = 1, fp32 = 1, bf16 = 1 }, memory_bandwidth = 0,\n"
    "  units = 0 }\n";
static const char producer[] =
    "return { name = 'producer', doc = 'd', roles = { 'fc2_dgrad' }, needs = { 'base' }, accuracies = { 'tf32' },\n"
    "  operands = function() return { { name = 'from', access = 'in' }, { name = 'to', access = 'out' } } end,\n"
    "  params = {}, valid = function() return true end, source = function() return 'producer' end,\n"
    "  workspace = function() return { { name = 'parts', size = 'T*4' } } end,\n"
    "  launches = function() return { { entry = 'e', grid = { 'T' }, block = { 1 },\n"
    "    args = { { name = 'from' }, { name = 'to' }, { name = 'parts' }, { i32 = 'T' }, { i64 = 7 }, { f32 = 0.5 } } "
    "} }\n"
    "  end }\n";
static const char pipeline[] =
    "return { name = 'p', doc = 'd', accuracies = { 'tf32' }, buffers = { { name = 'middle', size = 'T*I*4' } },\n"
    "  steps = {\n"
    "    { slot = 'first', role = 'fc2_dgrad', bind = { from = 'grad_output', to = 'middle' } },\n"
    "    { slot = 'second', role = 'fc1_dgrad', bind = { a = 'middle', b = 'grad_hidden_states' } } } }\n";

const char *template_kernel(const char *valid, const char *source, const char *launches) {
    static char text[65536];
    snprintf(text, sizeof text,
             "return { name = 'k', doc = 'd', roles = { 'fc1_dgrad' }, accuracies = { 'tf32' },\n"
             "operands = function() return { { name = 'a', access = 'in' }, { name = 'b', access = 'out' },\n"
             "  { name = 'c', access = 'in', optional = true } } end,\n"
             "params = { { name = 'tile', doc = 'd', values = { 1, 2, 4 }, default = 2 },\n"
             "  { name = 'fast', doc = 'd', values = { false, true }, default = true } },\n"
             "valid = function(c)\n%s\nend,\n"
             "source = function(c)\n%s\nend,\n"
             "launches = function(c)\n%s\nend }\n",
             valid ? valid : "if c.p.tile == 4 and not c.p.fast then return false, 'slow' end return true",
             source ? source : "return 'tile ' .. c.p.tile .. ' fast ' .. tostring(c.p.fast)",
             launches ? launches
                      : "return { { entry = 'e', grid = { 'T', 2 }, block = { 4, 2 }, args = { { name = 'a' },\n"
                        "  { name = 'b' }, { name = 'c', part = 2 } } } }");
    return text;
}

void template_write(void *const *state, const char *path, const char *text) {
    char folder[128];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        (void)mkdir(fixture_path(state, folder), 0700); /* may be there */
    }
    fixture_write(fixture_path(state, path), text, strlen(text));
}

int template_folder(void **state) {
    if (fixture_folder(state) != 0)
        return -1;
    template_write(state, "lib/features.lua", features);
    template_write(state, "arch/test.lua", arch);
    template_write(state, "kernels/producer.lua", producer);
    template_write(state, "kernels/k.lua", template_kernel(NULL, NULL, NULL));
    template_write(state, "pipelines/p.lua", pipeline);
    return 0;
}

mlpbwd_status template_open(void *const *state, const gen_limits *limits, gen **out, mlp_message *why) {
    const char *folders[] = {*state};
    return gen_open(folders, 1, limits, out, why);
}
