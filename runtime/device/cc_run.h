/* Running the system's C or C++ compiler: finding it, a private folder for its files, and the process. */
#ifndef DEVICE_CC_RUN_H
#define DEVICE_CC_RUN_H

#include <limits.h>

#include "message.h"

enum { CC_MAX_WORDS = 16 };

typedef struct cc_command {
    const char *language;      /* "C", "C++"; for messages */
    char program[PATH_MAX];    /* absolute */
    char text[PATH_MAX];       /* $CC's words, NUL-separated */
    char *words[CC_MAX_WORDS]; /* program first, then the arguments that $CC gives; into the two texts */
    size_t count;
} cc_command;

/* $CC (a program, or a program with arguments), else cc, gcc or clang in $PATH. UNSUPPORTED: there is none. */
mlpbwd_status cc_find(cc_command *command, mlp_message *why);
/* The same for C++: $CXX, else c++, g++ or clang++. */
mlpbwd_status cc_find_cxx(cc_command *command, mlp_message *why);

/* Makes a private folder in $TMPDIR (if that is unusable, in /tmp). */
mlpbwd_status cc_folder_make(char *path, size_t capacity, mlp_message *why);
/* Removes it with every file in it. */
void cc_folder_remove(const char *path);
/* A file of the folder. read: malloc'ed and NUL-terminated behind *size; NULL if it cannot be read. */
mlpbwd_status cc_folder_write(const char *folder, const char *name, const char *text, mlp_message *why);
void *cc_folder_read(const char *folder, const char *name, size_t *size);

/* Runs the compiler in the folder, with the further arguments (NULL-terminated), without a shell; its output goes to
 * the file `log` there. OK: it ended; *exit_status is its exit status, 128 + signal, or -1 when somebody else reaped
 * it. UNSUPPORTED: it could not be started, or hung for two minutes (a kernel compiles in seconds) and was killed. */
mlpbwd_status cc_run(const cc_command *command, const char *const *arguments, const char *folder, const char *log,
                     int *exit_status, mlp_message *why);

/* What the compiler is, by its own macros: "gcc 12.2.0". UNSUPPORTED: it does not work. */
mlpbwd_status cc_command_version(const cc_command *command, char *text, size_t capacity, mlp_message *why);

#endif
