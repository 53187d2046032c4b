/* `mlpbwd`: one binary, one command a word. */
#include <argp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "tune.h"

static void print_version(FILE *out, struct argp_state *state) {
    (void)state;
    (void)fprintf(out, "mlpbwd %s\n", mlpbwd_version());
}

static const cli_command commands[] = {
    {"devices", "what can run here, and what is missing", command_devices},
    {"tune", "sweep kernel variants on a device and keep the fastest that are right", command_tune},
    {"compile", "compile the candidates of a sweep; needs no device", command_compile},
    {"query", "say what would run for a problem, and why", command_query},
    {"verify", "check results on a device against a float64 reference", command_verify},
    {"bench", "latency per shape with roofline share, and peers beside it", command_bench},
    {"emit", "print the source text of any kernel variant", command_emit},
    {"export", "write tuned plans as a solution of a public benchmark", command_export},
    {"db", "check, list, stats, merge, export, import, prune, ship", command_db},
    {"__worker", NULL, tune_worker_main},
    {"__compile", NULL, tune_compile_main},
    {NULL, NULL, NULL},
};

/* Edit distance with adjacent letters' exchange left out: enough for a hint. */
static size_t distance(const char *left, const char *right) {
    size_t row[32];
    size_t width = strlen(right);
    if (width >= 32) {
        return 99;
    }
    for (size_t i = 0; i <= width; i++) {
        row[i] = i;
    }
    for (size_t k = 0; left[k] != '\0'; k++) {
        size_t diagonal = row[0];
        row[0] = k + 1;
        for (size_t i = 1; i <= width; i++) {
            size_t best = diagonal + (left[k] != right[i - 1] ? 1 : 0);
            diagonal = row[i];
            best = row[i] + 1 < best ? row[i] + 1 : best;
            best = row[i - 1] + 1 < best ? row[i - 1] + 1 : best;
            row[i] = best;
        }
    }
    return row[width];
}

static void print_commands(FILE *out, const cli_command *table, const char *program, const char *doc) {
    (void)fprintf(out, "Usage: %s COMMAND [OPTION...]\n%s\n\n", program, doc);
    for (const cli_command *entry = table; entry->name != NULL; entry++) {
        if (entry->summary != NULL) {
            (void)fprintf(out, "  %-9s %s\n", entry->name, entry->summary);
        }
    }
    (void)fprintf(out,
                  "\n`%s COMMAND --help` has each command's options and examples.\n"
                  "Exit codes: 0 done, 1 failed, 2 usage, 3 no such device, 4 nothing found, 130 interrupted.\n",
                  program);
}

int cli_dispatch(const cli_command *table, const char *program, const char *doc, int argc, char **argv) {
    if (argc < 2) {
        print_commands(stderr, table, program, doc);
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-?") == 0 || strcmp(word, "help") == 0) {
        print_commands(stdout, table, program, doc);
        return cli_finish(EXIT_DONE);
    }
    const cli_command *nearest = NULL;
    for (const cli_command *entry = table; entry->name != NULL; entry++) {
        if (strcmp(word, entry->name) == 0) {
            static char name[64]; /* argp keeps a pointer to it */
            (void)snprintf(name, sizeof name, "%s %s", program, word);
            argv[1] = name;
            return entry->run(argc - 1, argv + 1);
        }
        if (entry->summary != NULL &&
            (nearest == NULL || distance(word, entry->name) < distance(word, nearest->name))) {
            nearest = entry;
        }
    }
    cli_error("'%s' is not a command of `%s`.", word, program);
    if (nearest != NULL && distance(word, nearest->name) <= 2) {
        cli_note("Did you mean `%s %s`?", program, nearest->name);
    }
    cli_note("`%s --help` lists the commands.", program);
    return EXIT_USAGE;
}

/* What the library would only log: a database left out, say. */
static void print_log(void *user, const char *message) {
    (void)user;
    cli_error("%s", message);
}

int main(int argc, char **argv) {
    argp_err_exit_status = EXIT_USAGE;
    /* Over a limit on file sizes a write is to fail with EFBIG, which has a message, instead of ending the process. */
    (void)signal(SIGXFSZ, SIG_IGN);
    mlpbwd_set_log(print_log, NULL);
    argp_program_version_hook = print_version;
    if (argc >= 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        print_version(stdout, NULL);
        return cli_finish(EXIT_DONE);
    }
    return cli_dispatch(commands, "mlpbwd",
                        "Autotuned kernels for the backward pass of a transformer's feed-forward block.", argc, argv);
}
