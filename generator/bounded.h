/* Replacements for functions of Lua's library whose loops in C no instruction hook can stop: they charge for their work
 * (sandbox_charge) and otherwise do what the reference manual says. */
#ifndef MLP_BOUNDED_H
#define MLP_BOUNDED_H

#include <lua.h>

/* Replaces find, match, gmatch, gsub, rep in the string library and concat, insert, move, remove, sort, unpack in the
 * table library, both given by stack index. */
void bounded_replace(lua_State *L, int string_library, int table_library);
/* Makes these functions of the library at this stack index charge for the length of their text arguments. names ends
 * in NULL. */
void bounded_charge_texts(lua_State *L, int library, const char *const *names);

#endif
