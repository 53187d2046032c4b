/* Opening and closing, and the library's list of plans. */
#include "library.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "lookup.h"
#include "status.h"

static mlpbwd_status open_parts(mlpbwd_library *library, const char *database_path, const char *device,
                                mlp_message *why) {
    const char *forced = secure_getenv("MLPBWD_FORCE");
    if (forced && forced[0]) {
        library->forced_path = strdup(forced);
        if (!library->forced_path)
            return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory to open a library");
    }
    mlpbwd_status status = dev_open(device, &library->device, why);
    if (status == MLPBWD_OK && why->text[0]) /* no CUDA device, though one would have been preferred */
        log_message("%s; using %s", why->text, dev_get_info(library->device)->id);
    if (status == MLPBWD_OK)
        status = lookup_open_databases(database_path, library->databases, &library->database_count, why);
    if (status == MLPBWD_OK)
        library->by_default = lookup_found_by_default(database_path, library->database_count);
    return status;
}

static void free_library(mlpbwd_library *library) {
    while (library->plans) {
        mlpbwd_plan *plan = library->plans;
        library->plans = plan->next;
        plan_free(plan);
    }
    while (library->contexts) {
        library_context *home = library->contexts;
        library->contexts = home->next;
        plan_modules_destroy(home->modules);
        dev_context_release(home->context);
        free(home);
    }
    for (size_t i = 0; i < library->database_count; i++)
        db_close(library->databases[i]);
    dev_release(library->device);
    pthread_mutex_destroy(&library->lock);
    free(library->forced_path);
    free(library);
}

mlpbwd_status mlpbwd_open(const char *database_path, const char *device, mlpbwd_library **out) {
    mlp_message why;
    if (!out)
        return status_report(mlp_fail(&why, MLPBWD_INVALID_ARGUMENT, "mlpbwd_open: out is NULL"), &why);
    *out = NULL;
    mlpbwd_library *library = calloc(1, sizeof *library);
    if (!library || pthread_mutex_init(&library->lock, NULL) != 0) {
        free(library);
        return status_report(mlp_fail(&why, MLPBWD_OUT_OF_MEMORY, "no memory to open a library"), &why);
    }
    library->process = getpid();
    atomic_init(&library->references, 1);
    mlpbwd_status status = open_parts(library, database_path, device, &why);
    if (status == MLPBWD_OK)
        *out = library;
    else
        free_library(library);
    return status_report(status, &why);
}

void library_release(mlpbwd_library *library) {
    if (atomic_fetch_sub_explicit(&library->references, 1, memory_order_acq_rel) == 1)
        free_library(library);
}

mlpbwd_status library_check_process(const mlpbwd_library *library, mlp_message *why) {
    if (library->process == getpid())
        return MLPBWD_OK;
    return mlp_fail(why, MLPBWD_DEVICE_ERROR,
                    "this handle was made before fork(), in process %ld; a child must open its own library",
                    (long)library->process);
}

void mlpbwd_close(mlpbwd_library *library) {
    if (library && library_check_process(library, NULL) == MLPBWD_OK)
        library_release(library);
}

const char *mlpbwd_library_device(const mlpbwd_library *library) {
    return library ? dev_get_info(library->device)->id : NULL;
}

/* ---- plans by problem and context ---- */

/* Takes the caller's reference to context over when the context is new here, else drops it. */
static mlpbwd_status find_context(mlpbwd_library *library, dev_context *context, library_context **out,
                                  mlp_message *why) {
    for (library_context *home = library->contexts; home; home = home->next)
        if (home->context == context) {
            dev_context_release(context);
            *out = home;
            return MLPBWD_OK;
        }
    library_context *home = calloc(1, sizeof *home);
    plan_modules *modules = plan_modules_create(context);
    if (!home || !modules) {
        free(home);
        plan_modules_destroy(modules);
        dev_context_release(context);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a plan");
    }
    *home = (library_context){.next = library->contexts, .context = context, .modules = modules};
    *out = library->contexts = home;
    return MLPBWD_OK;
}

static bool same_problem(const mlpbwd_problem *a, const mlpbwd_problem *b) {
    return a->batch_size == b->batch_size && a->seq_len == b->seq_len && a->hidden_size == b->hidden_size &&
           a->intermediate_size == b->intermediate_size && a->activation == b->activation &&
           a->accuracy == b->accuracy && a->flags == b->flags;
}

/* Takes a plan out of the list, or NULL. */
static mlpbwd_plan *unlink_plan(mlpbwd_library *library, const mlpbwd_problem *problem, const library_context *home) {
    for (mlpbwd_plan **link = &library->plans; *link; link = &(*link)->next) {
        mlpbwd_plan *plan = *link;
        if (plan->home == home && same_problem(&plan->problem, problem)) {
            *link = plan->next;
            return plan;
        }
    }
    return NULL;
}

static mlpbwd_status get_plan(mlpbwd_library *library, const mlpbwd_problem *problem, mlpbwd_plan **out,
                              mlp_message *why) {
    dev_context *context = NULL;
    library_context *home = NULL;
    mlpbwd_status status = dev_context_get(library->device, &context, why);
    if (status != MLPBWD_OK)
        return status;
    pthread_mutex_lock(&library->lock);
    status = find_context(library, context, &home, why);
    mlpbwd_plan *plan = status == MLPBWD_OK ? unlink_plan(library, problem, home) : NULL;
    if (status == MLPBWD_OK && !plan)
        status = plan_make(library, problem, home, &plan, why);
    if (status == MLPBWD_OK) {
        plan->next = library->plans;
        library->plans = plan;
        if (plan->references++ == 0)
            atomic_fetch_add_explicit(&library->references, 1, memory_order_relaxed);
        *out = plan;
    }
    pthread_mutex_unlock(&library->lock);
    return status;
}

mlpbwd_status mlpbwd_plan_create(mlpbwd_library *library, const mlpbwd_problem *problem, mlpbwd_plan **out) {
    mlp_message why;
    if (out)
        *out = NULL;
    if (!library || !problem || !out)
        return status_report(mlp_fail(&why, MLPBWD_INVALID_ARGUMENT, "mlpbwd_plan_create: %s is NULL",
                                      !library   ? "library"
                                      : !problem ? "problem"
                                                 : "out"),
                             &why);
    mlpbwd_status status = library_check_process(library, &why);
    if (status == MLPBWD_OK)
        status = plan_check_problem(problem, &why);
    if (status == MLPBWD_OK)
        status = get_plan(library, problem, out, &why);
    return status_report(status, &why);
}

/* Beyond LIBRARY_IDLE_PLANS the idle plan that was used longest ago is taken out, to be freed. */
static mlpbwd_plan *unlink_surplus(mlpbwd_library *library) {
    size_t idle = 0;
    for (mlpbwd_plan **link = &library->plans; *link; link = &(*link)->next) {
        mlpbwd_plan *plan = *link;
        if (plan->references == 0 && ++idle > LIBRARY_IDLE_PLANS) {
            *link = plan->next;
            return plan;
        }
    }
    return NULL;
}

void mlpbwd_plan_destroy(mlpbwd_plan *plan) {
    if (!plan || library_check_process(plan->library, NULL) != MLPBWD_OK)
        return;
    mlpbwd_library *library = plan->library;
    pthread_mutex_lock(&library->lock);
    bool last = --plan->references == 0;
    if (last)
        plan_free(unlink_surplus(library));
    pthread_mutex_unlock(&library->lock);
    if (last)
        library_release(library);
}
