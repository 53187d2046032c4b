/* Runs the command line tool (or any program) as a user would, with its surroundings under control. */
#ifndef RUN_TOOL_H
#define RUN_TOOL_H

#include <stddef.h>

typedef struct run_surroundings {
    const char *const *environment; /* "NAME=value" sets, "NAME" removes; ends in NULL; NULL: as it is */
    const char *output_path;        /* standard output goes to this file instead of being kept */
    const char *folder;             /* working folder */
    unsigned user;                  /* not 0: gives up root for this user and group id */
    unsigned interrupt_after_ms;    /* not 0: sends SIGINT after that time */
    unsigned limit_seconds;         /* 0: 60; then it is killed and code is -1 */
} run_surroundings;

typedef struct run_result {
    int code;              /* exit code; 128 + number when a signal ended it */
    char *output, *errors; /* malloc'ed text */
} run_result;

/* arguments end in NULL; arguments[0] is the program's path. Ends the test program when nothing can be started. */
run_result run_program(const char *const *arguments, const run_surroundings *surroundings);
void run_result_free(run_result *result);

/* A new temporary folder, readable by every user; removed with everything in it by remove_folder. */
void make_folder(char *path, size_t capacity);
void remove_folder(const char *path);
/* "folder/name" in one of a few static buffers. */
const char *path_in(const char *folder, const char *name);

#endif
