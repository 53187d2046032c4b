/* What the compiler's thread sanitizer calls before a load or store, and the copies that it leaves to the C library.
 * Nothing here may be instrumented. */
#define MLPBWD_HOOK __attribute__((visibility("hidden"), MLPBWD_UNSEEN, noinline, used))

/* Under names of our own, because compilers know the real ones with types of theirs. */
#define MLPBWD_NAMED(name) __asm__(#name)

extern "C" {
#define MLPBWD_ACCESS(name, bytes, write)                                                                              \
    void mlpbwd_##name(void *address) MLPBWD_NAMED(__tsan_##name);                                                     \
    MLPBWD_HOOK void mlpbwd_##name(void *address) {                                                                    \
        mlpbwd_api.access(address, bytes, write, __builtin_return_address(0));                                         \
    }
#define MLPBWD_ACCESSES(bytes)                                                                                         \
    MLPBWD_ACCESS(read##bytes, bytes, 0)                                                                               \
    MLPBWD_ACCESS(write##bytes, bytes, 1)                                                                              \
    MLPBWD_ACCESS(volatile_read##bytes, bytes, 0)                                                                      \
    MLPBWD_ACCESS(volatile_write##bytes, bytes, 1)                                                                     \
    MLPBWD_ACCESS(unaligned_read##bytes, bytes, 0)                                                                     \
    MLPBWD_ACCESS(unaligned_write##bytes, bytes, 1)                                                                    \
    void mlpbwd_read_write##bytes(void *address) MLPBWD_NAMED(__tsan_read_write##bytes);                               \
    MLPBWD_HOOK void mlpbwd_read_write##bytes(void *address) {                                                         \
        mlpbwd_api.access(address, bytes, 0, __builtin_return_address(0));                                             \
        mlpbwd_api.access(address, bytes, 1, __builtin_return_address(0));                                             \
    }
MLPBWD_ACCESSES(1)
MLPBWD_ACCESSES(2)
MLPBWD_ACCESSES(4)
MLPBWD_ACCESSES(8)
MLPBWD_ACCESSES(16)

#define MLPBWD_RANGE(name, write)                                                                                      \
    void mlpbwd_##name(void *address, unsigned long bytes) MLPBWD_NAMED(__tsan_##name);                                \
    MLPBWD_HOOK void mlpbwd_##name(void *address, unsigned long bytes) {                                               \
        if (bytes)                                                                                                     \
            mlpbwd_api.access(address, (unsigned)bytes, write, __builtin_return_address(0));                           \
    }
MLPBWD_RANGE(read_range, 0)
MLPBWD_RANGE(write_range, 1)

/* What is of no interest: functions' ends, tables of virtual functions, the start of the sanitizer. */
#define MLPBWD_NOTHING(name)                                                                                           \
    void mlpbwd_##name(void *, void *) MLPBWD_NAMED(__tsan_##name);                                                    \
    MLPBWD_HOOK void mlpbwd_##name(void *, void *) {                                                                   \
    }
MLPBWD_NOTHING(vptr_update)
MLPBWD_NOTHING(vptr_read)
MLPBWD_NOTHING(func_entry)
MLPBWD_NOTHING(func_exit)
MLPBWD_NOTHING(init)

/* Of the undefined-behaviour sanitizer: an address is not aligned as its type must be, which the GPU takes for a fault.
 * Its argument as GCC and clang
 * lay it out: the alignment is the logarithm to base two. */
struct mlpbwd_mismatch {
    const char *file;
    unsigned line, column;
    const void *type;
    unsigned char alignment, kind;
};
void mlpbwd_misaligned(const mlpbwd_mismatch *what, void *address) MLPBWD_NAMED(__ubsan_handle_type_mismatch_v1);
MLPBWD_HOOK void mlpbwd_misaligned(const mlpbwd_mismatch *what, void *address) {
    mlpbwd_api.misaligned(address, 1u << what->alignment, __builtin_return_address(0));
}

/* Block copies. Bytewise in volatile steps where the compiler would otherwise call these again. */
MLPBWD_HOOK void *memcpy(void *to, const void *from, unsigned long bytes) {
    if (!bytes)
        return to;
    mlpbwd_api.access((void *)from, (unsigned)bytes, 0, __builtin_return_address(0));
    mlpbwd_api.access(to, (unsigned)bytes, 1, __builtin_return_address(0));
    for (unsigned long i = 0; i < bytes; i++) {
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
        __asm__ volatile("");
    }
    return to;
}
MLPBWD_HOOK void *memmove(void *to, const void *from, unsigned long bytes) {
    if (!bytes)
        return to;
    mlpbwd_api.access((void *)from, (unsigned)bytes, 0, __builtin_return_address(0));
    mlpbwd_api.access(to, (unsigned)bytes, 1, __builtin_return_address(0));
    const bool forward = (unsigned long)to < (unsigned long)from;
    for (unsigned long i = 0; i < bytes; i++) {
        const unsigned long at = forward ? i : bytes - 1 - i;
        ((unsigned char *)to)[at] = ((const unsigned char *)from)[at];
        __asm__ volatile("");
    }
    return to;
}
MLPBWD_HOOK void *memset(void *to, int byte, unsigned long bytes) {
    if (!bytes)
        return to;
    mlpbwd_api.access(to, (unsigned)bytes, 1, __builtin_return_address(0));
    for (unsigned long i = 0; i < bytes; i++) {
        ((unsigned char *)to)[i] = (unsigned char)byte;
        __asm__ volatile("");
    }
    return to;
}
}
