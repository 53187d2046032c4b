/* From a kernel's CUDA text to what the C++ compiler is given. */
#ifndef EMULATED_KERNEL_SOURCE_H
#define EMULATED_KERNEL_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

/* The header texts (kernel/ and api.h), embedded by the build in the order in which they are included; up to one whose
 * name is NULL. The last one comes after the kernel's text. */
typedef struct emulated_header {
    const char *name, *text;
} emulated_header;
extern const emulated_header emulated_headers[];

/* The file that is compiled: includes the headers and the kernel's text, then says what each __global__ function is.
 * malloc'ed; NULL: no memory. */
char *kernel_driver(const char *source, const char *source_name);

#endif
