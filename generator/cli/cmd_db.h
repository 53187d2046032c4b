/* Commands under `mlpbwd db` that have files of their own. */
#ifndef MLP_CLI_CMD_DB_H
#define MLP_CLI_CMD_DB_H

int command_db_list(int argc, char **argv);
int command_db_ship(int argc, char **argv);

#endif
