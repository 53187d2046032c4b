/* The objects behind the public handles. */
#ifndef MLP_LIBRARY_H
#define MLP_LIBRARY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "db.h"
#include "device/device.h"
#include "plan_image.h"
#include "plan_modules.h"
#include "plan_tensors.h"

enum { LIBRARY_IDLE_PLANS = 32 }; /* destroyed plans that are kept ready for the next plan_create of their problem */

/* A device context that plans were made in, kept until the library goes, with the machine code loaded there. */
typedef struct library_context {
    struct library_context *next;
    dev_context *context; /* a reference */
    plan_modules *modules;
} library_context;

struct mlpbwd_library {
    atomic_size_t references; /* the caller's handle and every plan in use */
    pid_t process;            /* that opened it; a forked child must not touch the lock or the device */
    dev *device;
    char *forced_path;    /* $MLPBWD_FORCE when it was opened, or NULL */
    pthread_mutex_t lock; /* guards all below */
    db *databases[2];
    size_t database_count;
    unsigned by_default; /* lookup_request.by_default */
    library_context *contexts;
    mlpbwd_plan *plans; /* in use and idle, the latest used first */
};

struct mlpbwd_plan {
    mlpbwd_plan *next; /* next and references: under the library's lock */
    size_t references; /* handles given out; 0: idle. A plan in use holds a reference to its library */
    mlpbwd_library *library;
    mlpbwd_problem problem;
    library_context *home;
    plan_image *image;
    size_t tensor_bytes[TENSOR_COUNT];
    char *description; /* JSON */
};

/* Drops a reference; the last one closes databases and device and frees every idle plan. */
void library_release(mlpbwd_library *library);

/* DEVICE_ERROR in a child of the process that opened the library. No lock. */
mlpbwd_status library_check_process(const mlpbwd_library *library, mlp_message *why);

/* Frees what the plan owns; it must be in no list. NULL is harmless. */
void plan_free(mlpbwd_plan *plan);

/* Makes a plan (in no list, no references) in a context of the library; the caller holds the lock. */
mlpbwd_status plan_make(mlpbwd_library *library, const mlpbwd_problem *problem, library_context *home,
                        mlpbwd_plan **out, mlp_message *why);

/* Values, sizes and flags of a problem, as section "One problem" of mlpbwd.h says. */
mlpbwd_status plan_check_problem(const mlpbwd_problem *problem, mlp_message *why);

#endif
