/* The functions that templates have beside Lua's library: text, import and fill (templates/README.md), and the
 * read-only tables that kernels get. Inside sandbox_run; sandbox_user is the gen. */
#ifndef MLP_SCRIPT_H
#define MLP_SCRIPT_H

#include <lua.h>

/* Makes the three functions known to chunks loaded from now on. */
void script_register(lua_State *L);
/* Pushes the value of a Lua template file, run on first use. Raises if there is none. */
void script_import(lua_State *L, const char *path);
/* Replaces the table on the top by one that gives its fields by name only: an unknown name raises "label has no field",
 * a write raises. With used (index of a table, 0: none) every name read is set in it. */
void script_seal(lua_State *L, const char *label, int used);

#endif
