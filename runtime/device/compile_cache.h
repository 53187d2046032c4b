/* Machine code of earlier compilations, in the folder that $MLPBWD_COMPILE_CACHE names; without it there is no cache.
 * For developers: a key covers the compiler (program with its arguments, size and date, or NVRTC's version), how it is
 * called, the request and its text. Not the processor, nor environment variables that a compiler reads: a folder
 * belongs to one machine. What did not compile is tried again. */
#ifndef DEVICE_COMPILE_CACHE_H
#define DEVICE_COMPILE_CACHE_H

#include <limits.h>
#include <stdbool.h>

#include "device.h"

/* Where the request's machine code is or would be. False: no cache. The folder is made if it is missing; one that is
 * another user's, or that others may write, is not used, as code from it is run. */
bool compile_cache_path(const dev_compile_request *request, char path[PATH_MAX]);
/* False: not there, damaged, or not a file of this user's alone. image: as dev_compile gives it. */
bool compile_cache_get(const char *path, dev_image *image);
/* Whole or not at all, whoever else writes the same; says nothing when there is no room. */
void compile_cache_put(const char *path, const dev_image *image);

#endif
