/* The folder that an export goes to. */
#ifndef MLP_CLI_EXPORT_FOLDER_H
#define MLP_CLI_EXPORT_FOLDER_H

#include <jansson.h>
#include <stdbool.h>

#include "message.h"

/* Makes the folder if it is missing (not its parents). One that holds anything is refused with INVALID_ARGUMENT unless
 * force is set: then the files that an earlier export's solution.json lists are removed, and nothing else. */
mlpbwd_status export_folder_prepare(const char *folder, bool force, mlp_message *why);

/* Writes every file of the solution, and solution.json last. Returns an exit code; a failure has been told. */
int export_folder_write(const char *folder, const json_t *solution);

#endif
