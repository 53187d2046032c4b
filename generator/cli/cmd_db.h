/* Commands under `mlpbwd db` that have files of their own. */
#ifndef MLP_CLI_CMD_DB_H
#define MLP_CLI_CMD_DB_H

/* Prints the rows of a database: plans, or with --candidates what the tuner tried. Returns an exit code. */
int command_db_list(int argc, char **argv);
/* Makes the database that ships with the library: the winners given, and default plans of every architecture, compiled.
 * Returns an exit code. */
int command_db_ship(int argc, char **argv);

#endif
