#include "sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "inputs.h"

/* A host reports a nominal clock, which is no maximum. */
static const double HOST_CLOCK_FACTOR = 2;

static bool is_product(const char *role) {
    static const char *const products[] = {"fc2_dgrad", "fc2_wgrad", "fc1_dgrad", "fc1_wgrad"};
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++)
        if (strcmp(role, products[i]) == 0)
            return true;
    return false;
}

static double bytes_of(const sweep *s, int tensor, int64_t tokens) {
    tensor_sizes sizes = {tokens, s->options.hidden_size, s->options.intermediate_size};
    return 4 * (double)tensor_rows(tensor, &sizes) * (double)tensor_columns(tensor, &sizes);
}

static int input_named(const char *name) {
    for (int t = 0; name && t < TENSOR_INPUTS; t++)
        if (strcmp(name, tensor_name(t)) == 0)
            return t;
    return -1;
}

/* Input tensors that a slot's launches read (NULL: all), each once: with a cold cache they come from memory. */
static double compulsory_bytes(const sweep *s, const json_t *plan, const char *slot, int64_t tokens) {
    bool seen[TENSOR_INPUTS] = {false};
    double bytes = 0;
    size_t l, a;
    json_t *launch, *argument;
    json_array_foreach(json_object_get(plan, "launches"), l, launch) {
        const char *owner = json_string_value(json_object_get(launch, "slot"));
        if (slot && (!owner || strcmp(owner, slot) != 0))
            continue;
        json_array_foreach(json_object_get(launch, "args"), a, argument) {
            int tensor = input_named(json_string_value(json_object_get(argument, "pointer")));
            if (tensor < 0 || seen[tensor] || tensor == TENSOR_BIAS1 || tensor == TENSOR_BIAS2)
                continue;
            seen[tensor] = true;
            bytes += bytes_of(s, tensor, tokens);
        }
    }
    return bytes;
}

const char *plausible_reason(const sweep *s, const char *role, const json_t *plan, const char *slot, int64_t tokens,
                             double us, char *text, size_t capacity) {
    const dev_info *device = &s->measurer.device;
    if (!(isfinite(us) && us > 0)) {
        snprintf(text, capacity, "the time is %g, not a positive number of microseconds", us);
        return text;
    }
    if (role && !is_product(role)) /* a kernel for scales may rightly read nothing */
        return NULL;
    double clock = device->max_clock_mhz * (strcmp(device->backend, "host") == 0 ? HOST_CLOCK_FACTOR : 1);
    double flop =
        (role ? 2 : 8) * (double)tokens * (double)s->options.hidden_size * (double)s->options.intermediate_size;
    double fastest = s->rate > 0 && clock > 0 ? flop / (s->rate * device->units * clock) : 0;
    if (us < fastest) {
        snprintf(text, capacity, "%.6g us is less than the %.6g us that %.4g flop take on %d units at %.0f MHz", us,
                 fastest, flop, device->units, clock);
        return text;
    }
    double bytes = compulsory_bytes(s, plan, slot, tokens);
    fastest = s->memory_bandwidth > 0 ? bytes / s->memory_bandwidth * 1e6 : 0;
    if (us < fastest) {
        snprintf(text, capacity, "%.6g us is less than the %.6g us that reading %.4g bytes takes at %.4g bytes/s", us,
                 fastest, bytes, s->memory_bandwidth);
        return text;
    }
    return NULL;
}
