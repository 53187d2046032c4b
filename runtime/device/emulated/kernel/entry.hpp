/* What the emulator looks for in a compiled kernel. Comes after the kernel's text; MLPBWD_ENTRY follows, once for each
 * __global__ function. */
namespace emulated {
template <int...> struct Numbers {};
template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
template <int... I> struct Count<0, I...> { typedef Numbers<I...> type; };

/* A parameter's value on the thread's own stack: copied by hand, because the caller's memory is not the kernel's to
 * read and a compiler's block copy is reported. */
template <class P> struct Argument {
    alignas(P) unsigned char bytes[sizeof(P)];
    __attribute__((MLPBWD_UNSEEN)) explicit Argument(const void *from) {
        for (unsigned long i = 0; i < sizeof bytes; i++) {
            bytes[i] = static_cast<const unsigned char *>(from)[i];
            __asm__ volatile("");
        }
    }
};
template <class... P>
static __attribute__((MLPBWD_UNSEEN)) void run(void (*kernel)(P...), const Argument<P> &...copies) {
    kernel(*reinterpret_cast<const P *>(copies.bytes)...);
}
/* arguments[i] points at the i-th parameter's value. */
template <class... P, int... I>
static __attribute__((MLPBWD_UNSEEN)) void call(void (*kernel)(P...), void **arguments, Numbers<I...>) {
    run<P...>(kernel, Argument<P>(arguments[I])...);
}
template <class... P> static __attribute__((MLPBWD_UNSEEN)) void call(void (*kernel)(P...), void **arguments) {
    call(kernel, arguments, typename Count<sizeof...(P)>::type());
}

constexpr unsigned first_of(unsigned first, unsigned = 0, unsigned = 0) {
    return first;
}

static unsigned long window_start, shared_bytes;
} // namespace emulated

extern "C" {
#define MLPBWD_EXPORT __attribute__((visibility("default"), MLPBWD_UNSEEN))

__attribute__((visibility("hidden"))) struct emu_api mlpbwd_api_storage __asm__("mlpbwd_api");

/* The dynamic window of the calling OS thread, which has its shared memory from then on. */
MLPBWD_EXPORT unsigned char *mlpbwd_window() {
    return shared_memory;
}
/* Where in the shared memory the window is, and how long all of it is: found by the emulator. The result is what it
 * fills with its table. */
MLPBWD_EXPORT struct emu_api *mlpbwd_bind(unsigned long window_start, unsigned long shared_bytes) {
    emulated::window_start = window_start;
    emulated::shared_bytes = shared_bytes;
    return &mlpbwd_api_storage;
}
MLPBWD_EXPORT void mlpbwd_shared_range(unsigned char **first, unsigned long *bytes, unsigned char **dynamic,
                                       unsigned long *dynamic_bytes) {
    *dynamic = shared_memory;
    *dynamic_bytes = sizeof shared_memory;
    *first = shared_memory - emulated::window_start;
    *bytes = emulated::shared_bytes;
}
}

#define MLPBWD_ENTRY(name)                                                                                             \
    extern "C" MLPBWD_EXPORT void mlpbwd_entry_##name(void **arguments) {                                              \
        emulated::call(name, arguments);                                                                               \
    }
/* Most threads of a block, from __launch_bounds__. */
#define MLPBWD_BOUNDS(name, ...)                                                                                       \
    extern "C" MLPBWD_EXPORT unsigned mlpbwd_threads_##name() {                                                        \
        return emulated::first_of(__VA_ARGS__);                                                                        \
    }
/* Blocks of a cluster, from __cluster_dims__. */
#define MLPBWD_CLUSTER(name, ...)                                                                                      \
    extern "C" MLPBWD_EXPORT void mlpbwd_cluster_##name(unsigned *size) {                                              \
        const dim3 cluster(__VA_ARGS__);                                                                               \
        size[0] = cluster.x;                                                                                           \
        size[1] = cluster.y;                                                                                           \
        size[2] = cluster.z;                                                                                           \
    }
