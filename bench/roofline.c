#include "roofline.h"

#include <string.h>

#include "generator.h"

/* Measured: cuBLAS bf16 8192^3 and a plain read, cold, on the card itself. A datasheet's peak is not reachable, so a
 * share of it says little. */
static const struct {
    const char *name;
    double flop_rate, byte_rate;
} measured[] = {{"NVIDIA H200", 790e12, 4.3e12}};

void roofline_find(const dev_info *device, int accuracy, const cli_options *options, roofline *out) {
    *out = (roofline){.source = "no rates known for this device"};
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        if (strcmp(device->name, measured[i].name) == 0 && accuracy != MLPBWD_ACCURACY_FP32) {
            out->flop_rate = measured[i].flop_rate;
            out->byte_rate = measured[i].byte_rate;
            (void)snprintf(out->source, sizeof out->source,
                           "measured on %s: %.0f TFLOP/s (cuBLAS bf16, 8192^3), %.1f TB/s", device->name,
                           out->flop_rate / 1e12, out->byte_rate / 1e12);
            return;
        }
    }
    cli_options folders = *options;
    gen *generator = NULL;
    mlp_message why;
    if (cli_default_templates(&folders) != EXIT_DONE ||
        gen_open(folders.templates, folders.template_count, NULL, &generator, &why) != MLPBWD_OK) {
        return;
    }
    json_t *archs = gen_describe_archs(generator);
    const json_t *arch = json_object_get(archs, device->arch);
    double rate = json_number_value(json_object_get(json_object_get(arch, "rates"), accuracy_name(accuracy)));
    out->flop_rate = rate * device->units * device->max_clock_mhz * 1e6;
    out->byte_rate = json_number_value(json_object_get(arch, "memory_bandwidth"));
    if (out->flop_rate > 0 || out->byte_rate > 0) {
        (void)snprintf(out->source, sizeof out->source,
                       "datasheet of %s: %.0f flop a clock and unit x %d units x %.0f MHz = %.2f TFLOP/s, %.2f TB/s",
                       device->arch, rate, device->units, device->max_clock_mhz, out->flop_rate / 1e12,
                       out->byte_rate / 1e12);
    }
    json_decref(archs);
    gen_close(generator);
}

double roofline_us(const roofline *line, int64_t tokens, int64_t hidden_size, int64_t intermediate_size) {
    double t = (double)tokens;
    double h = (double)hidden_size;
    double i = (double)intermediate_size;
    double compute = line->flop_rate > 0 ? 8.0 * t * h * i / line->flop_rate * 1e6 : 0.0;
    double bytes = 4.0 * (3.0 * t * h + 2.0 * t * i + 4.0 * h * i + h + i);
    double memory = line->byte_rate > 0 ? bytes / line->byte_rate * 1e6 : 0.0;
    return compute > memory ? compute : memory;
}
