#include "sandbox.h"

#include <lauxlib.h>
#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "library.h"

enum {
    HOOK_EVERY = 500,
    BYTES_PER_INSTRUCTION = 64, /* what an allocated block costs: joining long texts is one instruction each */
    CPU_SECONDS = 60,           /* of one call; behind the instruction limit, for what it does not see */
    DEFAULT_MEMORY = 256 << 20,
    DEFAULT_INSTRUCTIONS = 200000000
};

struct sandbox {
    lua_State *L;
    void *user;
    size_t used, memory_limit;
    int64_t instruction_limit, instructions_left;
    int64_t cpu_limit; /* this thread's CPU seconds at which the call ends */
    bool exhausted;    /* the instruction limit was hit in this call */
    mlpbwd_status status;
    locale_t locale;
    char chunk[128]; /* being compiled: where errors without a line come from */
    char where[192]; /* "file:line" of the first limit that was hit */
    char failure[MLP_MESSAGE_CAPACITY];
};

static const char failure_mark; /* error value of sandbox_fail: its text is in box->failure */
static const char base_key;     /* registry: what every environment starts with */

static sandbox *box_of(lua_State *L) {
    return *(sandbox **)lua_getextraspace(L);
}

void *sandbox_user(lua_State *L) {
    return box_of(L)->user;
}

/* Where the script is: the innermost Lua function's file and line; text is left alone when there is none. Allocates
 * nothing: the allocator calls it. */
static void locate(lua_State *L, char *text, size_t capacity) {
    lua_Debug record;
    if (box_of(L)->chunk[0]) { /* it is still being compiled, and not on the stack */
        snprintf(text, capacity, "%s", box_of(L)->chunk);
        return;
    }
    for (int level = 0; lua_getstack(L, level, &record); level++) {
        if (lua_getinfo(L, "Sl", &record) && record.currentline > 0) {
            snprintf(text, capacity, "%s:%d", record.short_src, record.currentline);
            return;
        }
    }
}

static void *allocate(void *user, void *pointer, size_t old_size, size_t new_size) {
    sandbox *box = user;
    size_t old_bytes = pointer ? old_size : 0; /* for a new block old_size is a type tag */
    if (new_size == 0) {
        free(pointer);
        box->used -= old_bytes;
        return NULL;
    }
    if (new_size > old_bytes && new_size - old_bytes > box->memory_limit - box->used) {
        if (box->L) {
            locate(box->L, box->where, sizeof box->where);
        }
        return NULL;
    }
    void *block = realloc(pointer, new_size);
    if (block) {
        box->used += new_size - old_bytes;
        box->instructions_left -= (int64_t)(new_size / BYTES_PER_INSTRUCTION);
    }
    return block;
}

/* Of this thread; a machine that is busy or asleep ends no script. */
static int64_t cpu_seconds(void) {
    struct timespec now;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0 ? (int64_t)now.tv_sec : 0;
}

static void count_hook(lua_State *L, lua_Debug *record);

static _Noreturn void raise_exhausted(lua_State *L) {
    sandbox *box = box_of(L);
    if (!box->exhausted) {
        box->exhausted = true;
        locate(L, box->where, sizeof box->where);
    }
    /* From now on every instruction raises again, so that a pcall in the script cannot go on after this. */
    lua_sethook(L, count_hook, LUA_MASKCOUNT, 1);
    if (box->instructions_left > 0) {
        sandbox_fail(L, MLPBWD_INVALID_ARGUMENT, "%s: the script ran more than %d seconds", box->where, CPU_SECONDS);
    }
    sandbox_fail(L, MLPBWD_INVALID_ARGUMENT, "%s: the script ran more than %lld instructions", box->where,
                 (long long)box->instruction_limit);
}

static void count_hook(lua_State *L, lua_Debug *record) {
    (void)record;
    sandbox *box = box_of(L);
    box->instructions_left -= HOOK_EVERY;
    if (box->exhausted || box->instructions_left <= 0 || cpu_seconds() > box->cpu_limit) {
        raise_exhausted(L);
    }
}

void sandbox_charge(lua_State *L, int64_t cost) {
    sandbox *box = box_of(L);
    box->instructions_left = cost < box->instructions_left ? box->instructions_left - cost : 0;
    if (box->exhausted || box->instructions_left <= 0) {
        raise_exhausted(L);
    }
}

void sandbox_fail(lua_State *L, mlpbwd_status status, const char *format, ...) {
    sandbox *box = box_of(L);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(box->failure, sizeof box->failure, format, arguments);
    va_end(arguments);
    box->status = status;
    lua_pushlightuserdata(L, (void *)&failure_mark);
    lua_error(L);
    abort(); /* lua_error does not return, but is not declared so */
}

void sandbox_call(lua_State *L, int arguments, int results) {
    sandbox *box = box_of(L);
    box->exhausted = false;
    box->instructions_left = box->instruction_limit;
    box->cpu_limit = cpu_seconds() + CPU_SECONDS;
    lua_sethook(L, count_hook, LUA_MASKCOUNT, HOOK_EVERY);
    lua_call(L, arguments, results);
    if (box->exhausted) { /* swallowed by a pcall in tail position */
        raise_exhausted(L);
    }
}

static bool starts_with_place(const char *text) {
    const char *colon = strchr(text, ':');
    if (!colon) {
        return false;
    }
    size_t digits = strspn(colon + 1, "0123456789");
    return digits > 0 && colon[1 + digits] == ':';
}

/* Message handler: turns the error value into text in box->failure while the failing function is still on the stack.
 * Runs no script code (no __tostring), so it cannot fail or loop. */
static int describe_error(lua_State *L) {
    sandbox *box = box_of(L);
    if (lua_touserdata(L, 1) == (void *)&failure_mark) {
        return 1;
    }
    char place[192] = "";
    locate(L, place, sizeof place);
    if (!place[0]) {
        snprintf(place, sizeof place, "template");
    }
    box->status = MLPBWD_INVALID_ARGUMENT;
    if (lua_type(L, 1) != LUA_TSTRING) {
        snprintf(box->failure, sizeof box->failure, "%s: the error object is a %s value", place, luaL_typename(L, 1));
    } else if (starts_with_place(lua_tostring(L, 1))) {
        snprintf(box->failure, sizeof box->failure, "%s", lua_tostring(L, 1));
    } else {
        snprintf(box->failure, sizeof box->failure, "%s: %s", place, lua_tostring(L, 1));
    }
    lua_pushlightuserdata(L, (void *)&failure_mark);
    return 1;
}

struct protected_call {
    void (*body)(lua_State *L, void *data);
    void *data;
};

static int enter_body(lua_State *L) {
    struct protected_call *call = lua_touserdata(L, 1);
    lua_settop(L, 0);
    call->body(L, call->data);
    return 0;
}

mlpbwd_status sandbox_run(sandbox *box, void (*body)(lua_State *L, void *data), void *data, mlp_message *why) {
    struct protected_call call = {body, data};
    lua_State *L = box->L;
    /* Lua formats and reads numbers with the thread's locale; templates must not see the caller's. */
    locale_t callers = uselocale(box->locale);
    box->status = MLPBWD_OK;
    box->exhausted = false;
    box->failure[0] = box->where[0] = box->chunk[0] = '\0';
    lua_settop(L, 0);
    lua_pushcfunction(L, describe_error);
    lua_pushcfunction(L, enter_body);
    lua_pushlightuserdata(L, &call);
    int status = lua_pcall(L, 1, 0, 1);
    lua_sethook(L, NULL, 0, 0);
    lua_settop(L, 0);
    uselocale(callers);
    if (status == LUA_OK) {
        return MLPBWD_OK;
    }
    const char *place = box->where[0] ? box->where : "template";
    if (status == LUA_ERRMEM) {
        return box->where[0]
                   ? mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: the script needs more than the %zu bytes it may have",
                              place, box->memory_limit)
                   : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory while running a template");
    }
    if (status == LUA_ERRRUN && box->failure[0]) {
        return mlp_fail(why, box->status, "%s", box->failure);
    }
    return mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: error while handling an error", place);
}

void sandbox_load(lua_State *L, const char *name, const char *bytes, size_t size) {
    sandbox *box = box_of(L);
    snprintf(box->chunk, sizeof box->chunk, "%s", name);
    char chunk_name[256];
    snprintf(chunk_name, sizeof chunk_name, "@%s", name);
    int status = luaL_loadbufferx(L, bytes, size, chunk_name, "t");
    box->chunk[0] = '\0';
    if (status != LUA_OK) {
        if (lua_type(L, -1) == LUA_TSTRING && !starts_with_place(lua_tostring(L, -1))) {
            luaL_error(L, "%s:1: %s", name, lua_tostring(L, -1));
        }
        lua_error(L);
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &base_key);
    library_push_environment(L);
    lua_remove(L, -2);
    lua_setupvalue(L, -2, 1);
}

void sandbox_register(lua_State *L, const char *name, lua_CFunction function) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &base_key);
    lua_pushcfunction(L, function);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

static void open_libraries(lua_State *L, void *data) {
    (void)data;
    library_push_base(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &base_key);
}

mlpbwd_status sandbox_create(const gen_limits *limits, void *user, sandbox **out, mlp_message *why) {
    *out = NULL;
    sandbox *box = calloc(1, sizeof *box);
    if (!box) {
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory for a Lua state");
    }
    box->user = user;
    box->memory_limit = limits && limits->memory_bytes ? limits->memory_bytes : DEFAULT_MEMORY;
    box->instruction_limit = limits && limits->instructions > 0 ? limits->instructions : DEFAULT_INSTRUCTIONS;
    box->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    lua_State *L = box->locale ? lua_newstate(allocate, box) : NULL;
    if (!L) {
        size_t limit = box->memory_limit;
        sandbox_destroy(box);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "cannot make a Lua state within %zu bytes", limit);
    }
    *(sandbox **)lua_getextraspace(L) = box;
    box->L = L;
    mlpbwd_status status = sandbox_run(box, open_libraries, NULL, why);
    if (status != MLPBWD_OK) {
        sandbox_destroy(box);
        return status;
    }
    *out = box;
    return MLPBWD_OK;
}

void sandbox_destroy(sandbox *box) {
    if (!box) {
        return;
    }
    if (box->L) {
        lua_close(box->L);
    }
    if (box->locale) {
        freelocale(box->locale);
    }
    free(box);
}
