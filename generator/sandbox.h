/* A Lua 5.4 state for templates: no io, os, package, debug, load, coroutines or finalizers; a memory limit in its
 * allocator and an instruction limit that a script cannot swallow with pcall. All calls into Lua go through
 * sandbox_run, under the C locale of this thread only (the process's locale is never touched).
 * A sandbox is for one thread at a time. */
#ifndef MLP_SANDBOX_H
#define MLP_SANDBOX_H

#include <lua.h>
#include <stdint.h>

#include "generator.h"
#include "message.h"

typedef struct sandbox sandbox;

/* user is what sandbox_user gives back. limits may be NULL (defaults of gen_limits). */
mlpbwd_status sandbox_create(const gen_limits *limits, void *user, sandbox **out, mlp_message *why);
void sandbox_destroy(sandbox *box); /* NULL is harmless */

/* Runs body(L, data) protected: every Lua error raised in it, also out of memory, comes back as a status with *why
 * naming file and line. The stack is empty before and after. Memory that body holds in C variables must hang on data.
 */
mlpbwd_status sandbox_run(sandbox *box, void (*body)(lua_State *L, void *data), void *data, mlp_message *why);

/* Inside sandbox_run only. */
void *sandbox_user(lua_State *L);
/* lua_call with a fresh instruction budget: one call into a template. */
void sandbox_call(lua_State *L, int arguments, int results);
/* Takes cost instructions from the budget: for C functions whose work grows with their arguments. Raises at the limit.
 */
void sandbox_charge(lua_State *L, int64_t cost);
/* Ends sandbox_run with this status and text; does not return. */
_Noreturn void sandbox_fail(lua_State *L, mlpbwd_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Loads a text chunk in an environment of its own (strict: an unknown global is an error) and pushes the function.
 * name is what messages call it. Raises on a syntax error or on a precompiled chunk. */
void sandbox_load(lua_State *L, const char *name, const char *bytes, size_t size);
/* Adds a function to the environments of chunks loaded from now on. */
void sandbox_register(lua_State *L, const char *name, lua_CFunction function);

#endif
