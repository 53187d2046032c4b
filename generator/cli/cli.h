/* What the commands of `mlpbwd` share: options, results, tables, messages, exit codes. */
#ifndef MLP_CLI_H
#define MLP_CLI_H

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "message.h"
#include "mlpbwd.h"
#include "names.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NO_DEVICE = 3, EXIT_NOT_FOUND = 4, EXIT_INTERRUPTED = 130 };

/* ---- commands ---- */
typedef struct cli_command {
    const char *name, *summary;        /* summary NULL: hidden */
    int (*run)(int argc, char **argv); /* argv[0] is the whole name, "mlpbwd query"; returns an exit code */
} cli_command;

/* Each reads its own options (`mlpbwd COMMAND --help` is their reference), prints its result to standard output or a
 * file and what went wrong to standard error, and returns an exit code. A usage error ends the process. */
int command_devices(int argc, char **argv); /* the devices that can be opened here */
int command_tune(int argc, char **argv);    /* finds the fastest plans of a device by measuring */
int command_compile(int argc, char **argv); /* tune's first phase alone: needs no device */
int command_query(int argc, char **argv);   /* which plan the library would take */
int command_verify(int argc, char **argv);  /* results against float64 */
int command_bench(int argc, char **argv);   /* in bench/: times of whole passes */
int command_emit(int argc, char **argv);    /* the source text of one kernel variant */
int command_export(int argc, char **argv);  /* plans as a solution of a public benchmark */
int command_db(int argc, char **argv);      /* keeping databases: dispatches to the commands under `db` */

/* Runs the entry named by argv[1] of a table that ends in {NULL}. `program` is the name so far ("mlpbwd"), `doc` the
 * text over the list of commands. No or an unknown word: exit code 2 and a hint. */
int cli_dispatch(const cli_command *table, const char *program, const char *doc, int argc, char **argv);

/* ---- options that several commands take ---- */
enum {
    TAKES_DEVICE = 1,
    TAKES_DATABASE = 2,
    TAKES_TEMPLATES = 4,
    TAKES_SIZES = 8,   /* --hidden-size, --intermediate-size */
    TAKES_TOKENS = 16, /* --batch, --seq-len, --tokens, --suite */
    TAKES_ACCURACY = 32,
    TAKES_ACTIVATION = 64,
    TAKES_RESULT = 128, /* --json, --output */
    TAKES_JOBS = 256,
    TAKES_OUTPUT = 512 /* --output alone: the result has one form only */
};
enum { CLI_MAX_TEMPLATES = 16, CLI_MAX_TOKENS = 256 };

/* The first member of every command's own options. */
typedef struct cli_options {
    const char *device, *database;
    const char *templates[CLI_MAX_TEMPLATES + 1]; /* as given, then the default folder */
    size_t template_count;
    int64_t hidden_size, intermediate_size;
    int64_t batch, seq_len;         /* -1: not given */
    int64_t tokens[CLI_MAX_TOKENS]; /* the T to work on, in the order given */
    size_t token_count;             /* 0: none was given */
    bool tokens_given, suite;
    int accuracy, activation; /* mlpbwd_accuracy, mlpbwd_activation; -1: not given */
    int jobs;                 /* 0: not given */
    bool json;
    const char *output;
} cli_options;

typedef struct cli_syntax {
    unsigned takes;                /* TAKES_... */
    const struct argp_option *own; /* ends in {0}; NULL: none */
    argp_parser_t parse;           /* own options and arguments; state->input is the command's options; may be NULL */
    const char *arguments, *doc;   /* as struct argp's args_doc and doc */
} cli_syntax;

/* Parses, checks what belongs together and fills *options (the cli_options at the head of the command's own struct).
 * Ends the process with exit code 2 on a usage error, 0 after --help. */
void cli_parse(const cli_syntax *syntax, int argc, char **argv, cli_options *options);
/* Adds the default templates folder behind the folders named; exit code or EXIT_DONE. */
int cli_default_templates(cli_options *options);

/* Strict numbers for option parsers; what is not one ends the process with exit code 2 and says what would be right. */
int64_t cli_integer(const struct argp_state *state, const char *option, const char *text, int64_t min, int64_t max);
double cli_duration(const struct argp_state *state, const char *option, const char *text); /* seconds: 90s, 10m, 1h */
int cli_choice(const struct argp_state *state, const char *option, const char *text, const char *const *choices,
               size_t count);
/* Same, without argp: false unless text is a whole number within min..max. */
bool cli_read_integer(const char *text, int64_t min, int64_t max, int64_t *value);
bool cli_read_duration(const char *text, double *seconds);

/* ---- messages and exit codes ---- */
/* "mlpbwd: ..." and a newline on standard error. */
void cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* One line on standard error, no prefix: progress and notes. */
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints the message of a failed call and returns the exit code that its status means. */
int cli_failed(mlpbwd_status status, const mlp_message *why);
/* From here on the first SIGINT, SIGTERM or SIGHUP only sets *cli_interrupted(); a second one ends the process. */
void cli_catch_interrupts(void);
const volatile int *cli_interrupted(void);

/* ---- results ---- */
/* A file that appears under its name only when it is complete and on the disk. path NULL: standard output. What is not
 * a regular file (a pipe, /dev/null) is written directly. */
typedef struct cli_file {
    FILE *stream;
    const char *path;
    char *temporary; /* NULL when written directly */
} cli_file;
/* Both report a failure themselves. close: keep = false drops what was written. */
int cli_file_open(cli_file *file, const char *path);
int cli_file_close(cli_file *file, bool keep);
/* Writes JSON to a file, or to standard output (NULL), as cli_file does. */
int cli_save(const json_t *result, const char *path);
/* Prints the result: JSON to standard output with --json, else `table`; JSON to --output when given. Takes over the
 * reference. Returns EXIT_DONE or EXIT_FAILED (disk full, closed output). */
int cli_result(const cli_options *options, json_t *result, void (*table)(FILE *out, const json_t *result));
/* Flushes standard output and says when that failed. */
int cli_finish(int code);

/* ---- tables ---- */
typedef struct cli_table cli_table;
/* Cells go in row by row; columns that hold only numbers are right-aligned. */
cli_table *cli_table_new(const char *const *headers, size_t columns);
void cli_cell(cli_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_table_print(cli_table *table, FILE *out); /* and frees it */

#endif
