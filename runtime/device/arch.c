/* Which architectures' machine code a device runs, best first. With templates/arch this is the only place that knows
 * such names; a new generation is one line here and one file there. */
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "device.h"

/* Machine code of an "a" target runs on exactly its compute capability, PTX on everything from its version on (compiled
 * by the driver when it is loaded). That of sm_80 would load on every later minor of its major version, but uses as
 * much shared memory as 8.0 and 8.7 have (163 KiB a block); 8.6 and 8.9 have 99 KiB, which is what compute_80's file
 * says. */
static const struct {
    int lowest, highest; /* compute capabilities, inclusive */
    const char *name;
    int shared_bytes; /* that a block may have; CUDA C++ Programming Guide, as in templates/arch */
} cuda_architectures[] = {
    {103, 103, "sm_103a", 232448}, {100, 100, "sm_100a", 232448}, {90, 90, "sm_90a", 232448},
    {80, 80, "sm_80", 166912},     {87, 87, "sm_80", 166912},     {80, 999, "compute_80", 101376},
};
enum { CUDA_ARCHITECTURES = sizeof cuda_architectures / sizeof cuda_architectures[0] };

static size_t append(char ladder[DEV_MAX_LADDER][32], size_t length, const char *name) {
    if (length < DEV_MAX_LADDER)
        snprintf(ladder[length++], 32, "%s", name);
    return length;
}

size_t dev_cuda_ladder(int compute_capability, char ladder[DEV_MAX_LADDER][32]) {
    size_t length = 0;
    for (size_t i = 0; i < CUDA_ARCHITECTURES; i++)
        if (compute_capability >= cuda_architectures[i].lowest && compute_capability <= cuda_architectures[i].highest)
            length = append(ladder, length, cuda_architectures[i].name);
    return length;
}

const char *dev_cuda_architecture(size_t index) {
    size_t distinct = 0;
    for (size_t i = 0; i < CUDA_ARCHITECTURES; i++) {
        if (i > 0 && strcmp(cuda_architectures[i].name, cuda_architectures[i - 1].name) == 0)
            continue;
        if (distinct++ == index)
            return cuda_architectures[i].name;
    }
    return NULL;
}

size_t dev_architecture_ladder(const char *name, char ladder[DEV_MAX_LADDER][32], int *capability,
                               int64_t *shared_bytes) {
    for (size_t i = 0; i < CUDA_ARCHITECTURES; i++) {
        if (strcmp(cuda_architectures[i].name, name) != 0)
            continue;
        size_t length = 0;
        *capability = cuda_architectures[i].lowest;
        for (size_t k = i; k < CUDA_ARCHITECTURES; k++)
            if (*capability >= cuda_architectures[k].lowest && *capability <= cuda_architectures[k].highest)
                length = append(ladder, length, cuda_architectures[k].name);
        *shared_bytes = cuda_architectures[i].shared_bytes;
        return length;
    }
    return 0;
}

#if defined(__x86_64__)

/* The levels of the x86-64 psABI. __builtin_cpu_supports also asks whether the kernel saves the wide registers; what it
 * has no name for in every compiler is read from cpuid. */
static int x86_level(void) {
    unsigned a, b, c = 0, d;
    unsigned extended = 0;
    __builtin_cpu_init();
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return 1;
    if (__get_cpuid(0x80000001, &a, &b, &extended, &d) == 0)
        extended = 0;
    bool v2 = (c & bit_CMPXCHG16B) && (extended & bit_LAHF_LM) && __builtin_cpu_supports("popcnt") &&
              __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3");
    if (!v2)
        return 1;
    bool v3 = (c & bit_MOVBE) && (c & bit_F16C) && (extended & bit_ABM) && __builtin_cpu_supports("avx2") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
    if (!v3)
        return 2;
    bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
    return v4 ? 4 : 3;
}

size_t dev_host_ladder(char ladder[DEV_MAX_LADDER][32]) {
    static const char *const names[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
    size_t length = 0;
    for (int level = x86_level(); level >= 1; level--)
        length = append(ladder, length, names[level - 1]);
    return length;
}

#else

size_t dev_host_ladder(char ladder[DEV_MAX_LADDER][32]) {
    return append(ladder, 0, "generic");
}

#endif
