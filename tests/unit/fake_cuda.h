/* A stand-in for libcuda.so.1 whose calls can be made to fail one at a time. It keeps books and runs nothing. */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

/* What exists and has not been given back. A context's reference by cuDevicePrimaryCtxRetain counts as one. */
typedef struct fake_books {
    int primaries, modules, allocations, streams, events, graphs, executables;
    int stack;                                   /* contexts pushed in this thread */
    unsigned mode;                               /* the thread's capture mode */
    unsigned cluster, programmatic;              /* of the last launch with attributes; cluster: x */
    unsigned node_shared;                        /* shared memory of the last node whose arguments were changed */
    long calls;                                  /* that may fail, since fake_fail_call */
    long launches, loads, waits, graph_launches; /* since fake_reset */
} fake_books;

typedef struct fake_control {
    void (*reset)(int devices, int compute_capability, unsigned init_result);
    /* The number-th call from now on (1: the next) returns result instead; 0: none does. Only functions whose failure
     * the library must cope with are counted: not those that give back, and none that tells an error's name. */
    void (*fail_call)(long number, unsigned result);
    fake_books (*books)(void);
    /* The application retains (1) or releases (-1) the primary context. Without references it goes with its modules. */
    void (*hold_primary)(int change);
} fake_control;

#endif
