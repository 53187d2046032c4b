#include "compile_pool.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"

typedef struct slot {
    child child;
    int served; /* sources since its start */
    bool busy;
    size_t source;   /* its index, while busy */
    double deadline; /* while busy */
} slot;

typedef struct pool {
    const compile_settings *settings;
    const compile_source *sources;
    size_t count, next;
    const compile_callbacks *callbacks;
    slot *slots;
    int slot_count;
} pool;

static mlpbwd_status report(pool *p, slot *s, const compile_result *result, mlp_message *why) {
    s->busy = false;
    return p->callbacks->done(p->callbacks->user, s->source, result, why);
}

static mlpbwd_status assign(pool *p, slot *s, mlp_message *why) {
    if (s->child.pid > 0 && s->served >= COMPILES_PER_CHILD)
        child_end(&s->child, NULL, 0);
    if (s->child.pid <= 0) {
        mlpbwd_status status = child_start(&s->child, "__compile", p->settings->memory_bytes, why);
        if (status != MLPBWD_OK)
            return status;
        s->served = 0;
    }
    const compile_source *source = &p->sources[p->next];
    s->source = p->next++;
    s->busy = true;
    s->served++;
    s->deadline = monotonic_seconds() + p->settings->limit_seconds;
    json_t *request = json_pack("{s:s,s:s,s:s,s:f}", "compiler", p->settings->compiler, "target", p->settings->target,
                                "name", source->name, "limit", p->settings->limit_seconds);
    if (!request)
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for the request to compile %s", source->name);
    /* a child that died meanwhile is noticed when its answer is awaited */
    (void)channel_send(&s->child.channel, request, source->text, strlen(source->text));
    return MLPBWD_OK;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static mlpbwd_status late(pool *p, slot *s, mlp_message *why) {
    char reason[160];
    snprintf(reason, sizeof reason, "the compiler was stopped after %.3g s (--compile-limit)",
             p->settings->limit_seconds);
    child_end(&s->child, NULL, 0);
    compile_result result = {.outcome = "compile_timeout", .reason = reason, .log = ""};
    return report(p, s, &result, why);
}

static mlpbwd_status died(pool *p, slot *s, mlp_message *why) {
    char how[100], reason[200];
    child_end(&s->child, how, sizeof how);
    snprintf(reason, sizeof reason, "the compile process %s%s", how[0] ? how : "closed its channel",
             strstr(how, "SIGXCPU") ? ": over the compile limit" : "");
    compile_result result = {.outcome = "crashed", .reason = reason, .log = ""};
    return report(p, s, &result, why);
}

static mlpbwd_status answered(pool *p, slot *s, mlp_message *why) {
    channel_message message;
    enum channel_result got = channel_receive(&s->child.channel, 0.05, NULL, &message);
    if (got == CHANNEL_LATE)
        return MLPBWD_OK;
    if (got != CHANNEL_MESSAGE)
        return died(p, s, why);
    bool compiled = json_is_true(json_object_get(message.json, "ok"));
    compile_result result = {.outcome = compiled ? "compiled" : "compile_failed",
                             .reason = text_of(message.json, "reason"),
                             .log = text_of(message.json, "log"),
                             .bytes = message.bytes,
                             .size = message.size,
                             .format = text_of(message.json, "format")};
    mlpbwd_status status = report(p, s, &result, why);
    channel_message_free(&message);
    return status;
}

static mlpbwd_status wait_for_some(pool *p, struct pollfd *waiting, mlp_message *why) {
    for (int i = 0; i < p->slot_count; i++)
        waiting[i] = (struct pollfd){p->slots[i].busy ? p->slots[i].child.channel.fd : -1, POLLIN, 0};
    if (poll(waiting, (nfds_t)p->slot_count, 100) < 0 && errno != EINTR)
        return mlp_fail(why, MLPBWD_DEVICE_ERROR, "waiting for compile processes failed: %s", strerror(errno));
    mlpbwd_status status = MLPBWD_OK;
    double now = monotonic_seconds();
    for (int i = 0; i < p->slot_count && status == MLPBWD_OK; i++) {
        slot *s = &p->slots[i];
        if (s->busy && waiting[i].revents)
            status = answered(p, s, why);
        else if (s->busy && now > s->deadline)
            status = late(p, s, why);
    }
    return status;
}

static mlpbwd_status run(pool *p, struct pollfd *waiting, mlp_message *why) {
    for (;;) {
        bool interrupted = p->settings->interrupted && *p->settings->interrupted;
        if (interrupted)
            return MLPBWD_OK;
        bool stop = p->callbacks->stop && p->callbacks->stop(p->callbacks->user);
        int busy = 0;
        for (int i = 0; i < p->slot_count; i++) {
            slot *s = &p->slots[i];
            if (!s->busy && !stop && p->next < p->count) {
                mlpbwd_status status = assign(p, s, why);
                if (status != MLPBWD_OK)
                    return status;
            }
            busy += s->busy;
        }
        if (busy == 0)
            return MLPBWD_OK;
        mlpbwd_status status = wait_for_some(p, waiting, why);
        if (status != MLPBWD_OK)
            return status;
    }
}

mlpbwd_status compile_all(const compile_settings *settings, const compile_source *sources, size_t count,
                          const compile_callbacks *callbacks, mlp_message *why) {
    if (count == 0)
        return MLPBWD_OK;
    int jobs = settings->jobs < 1 ? 1 : settings->jobs;
    if ((size_t)jobs > count)
        jobs = (int)count;
    pool p = {.settings = settings, .sources = sources, .count = count, .callbacks = callbacks, .slot_count = jobs};
    p.slots = calloc((size_t)jobs, sizeof *p.slots);
    struct pollfd *waiting = calloc((size_t)jobs, sizeof *waiting);
    mlpbwd_status status = p.slots && waiting
                               ? run(&p, waiting, why)
                               : mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for %d compile jobs", jobs);
    for (int i = 0; p.slots && i < jobs; i++)
        child_end(&p.slots[i].child, NULL, 0);
    free(p.slots);
    free(waiting);
    return status;
}
