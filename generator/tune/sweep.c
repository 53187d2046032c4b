#include "sweep.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "channel.h"

double sweep_now(const sweep *s) {
    return s->has_measurer ? s->measurer.now(s->measurer.self) : monotonic_seconds();
}

bool sweep_interrupted(const sweep *s) {
    return s->options.interrupted && *s->options.interrupted;
}

void sweep_progress(sweep *s, bool important, const char *format, ...) {
    double now = monotonic_seconds();
    if (!s->options.progress || (!important && now - s->last_progress < 1))
        return;
    s->last_progress = now;
    char line[1536];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length >= 0)
        s->options.progress(s->options.user, line);
}

void sweep_date(char date[DATE_CAPACITY]) {
    time_t now = time(NULL);
    struct tm parts;
    if (!gmtime_r(&now, &parts) || strftime(date, DATE_CAPACITY, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        snprintf(date, DATE_CAPACITY, "1970-01-01T00:00:00Z");
}

mlpbwd_status sweep_no_memory(mlp_message *why) {
    return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "the tuner ran out of memory");
}

bool sweep_in_shard(const sweep *s, const variant *v) {
    int count = s->options.shard_count;
    return count <= 1 || v->is_default || v->order % (uint64_t)count == (uint64_t)(s->options.shard - 1);
}

char *sweep_canonical(const json_t *value) {
    return json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
}

char *sweep_canonical_parameters(const json_t *parameters) {
    json_t *rest = json_copy((json_t *)parameters);
    if (!rest)
        return NULL;
    json_object_del(rest, "kernel");
    char *text = sweep_canonical(rest);
    json_decref(rest);
    return text;
}
