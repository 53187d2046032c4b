/* What templates see of Lua's standard library: base, string, table, math and utf8 without what reads files, runs text
 * as code, leaves the state or depends on the run (random numbers, order of pairs). Functions whose work in C can
 * outlast any instruction limit are replaced by ones that charge for it (sandbox_charge). Call inside sandbox_run. */
#ifndef MLP_LIBRARY_H
#define MLP_LIBRARY_H

#include <lua.h>

/* Pushes the table of names that every environment starts with. Once per state. */
void library_push_base(lua_State *L);
/* With that table on the top, pushes a fresh environment: a copy, whose unknown names raise and which takes no new
 * ones. Library tables are copied too, so that one file cannot change what another sees. */
void library_push_environment(lua_State *L);

#endif
