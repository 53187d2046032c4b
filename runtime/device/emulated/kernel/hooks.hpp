/* What the compiler's thread sanitizer calls before a load or store, and the copies that it leaves to the C library.
 * Nothing here may be instrumented. */
#define MLPBWD_HOOK __attribute__((visibility("hidden"), no_sanitize("thread"), noinline))

extern "C" {
#define MLPBWD_ACCESS(name, bytes, write)                                                                              \
    MLPBWD_HOOK void __tsan_##name(void *address) {                                                                    \
        mlpbwd_api.access(address, bytes, write, __builtin_return_address(0));                                         \
    }
#define MLPBWD_ACCESSES(bytes)                                                                                         \
    MLPBWD_ACCESS(read##bytes, bytes, 0)                                                                               \
    MLPBWD_ACCESS(write##bytes, bytes, 1)                                                                              \
    MLPBWD_ACCESS(volatile_read##bytes, bytes, 0)                                                                      \
    MLPBWD_ACCESS(volatile_write##bytes, bytes, 1)                                                                     \
    MLPBWD_ACCESS(unaligned_read##bytes, bytes, 0)                                                                     \
    MLPBWD_ACCESS(unaligned_write##bytes, bytes, 1)                                                                    \
    MLPBWD_HOOK void __tsan_read_write##bytes(void *address) {                                                         \
        mlpbwd_api.access(address, bytes, 0, __builtin_return_address(0));                                             \
        mlpbwd_api.access(address, bytes, 1, __builtin_return_address(0));                                             \
    }
MLPBWD_ACCESSES(1)
MLPBWD_ACCESSES(2)
MLPBWD_ACCESSES(4)
MLPBWD_ACCESSES(8)
MLPBWD_ACCESSES(16)

MLPBWD_HOOK void __tsan_read_range(void *address, unsigned long bytes) {
    if (bytes)
        mlpbwd_api.access(address, (unsigned)bytes, 0, __builtin_return_address(0));
}
MLPBWD_HOOK void __tsan_write_range(void *address, unsigned long bytes) {
    if (bytes)
        mlpbwd_api.access(address, (unsigned)bytes, 1, __builtin_return_address(0));
}
MLPBWD_HOOK void __tsan_vptr_update(void **, void *) {
}
MLPBWD_HOOK void __tsan_vptr_read(void **) {
}
MLPBWD_HOOK void __tsan_func_entry(void *) {
}
MLPBWD_HOOK void __tsan_func_exit() {
}
MLPBWD_HOOK void __tsan_init() {
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
