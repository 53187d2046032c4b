/* `mlpbwd devices`. */
#include "cli.h"
#include "device/device.h"

typedef struct listing {
    json_t *devices, *notes;
} listing;

static void add_device(void *user, const dev_info *info) {
    const listing *found = user;
    json_t *ladder = json_array();
    for (size_t i = 0; i < info->ladder_length; i++) {
        (void)json_array_append_new(ladder, json_string(info->ladder[i]));
    }
    json_t *device = json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:i, s:i, s:I, s:I, s:I, s:f, s:f, s:s, s:s}", "id", info->id, "backend",
        info->backend, "name", info->name, "arch", info->arch, "ladder", ladder, "compute_capability",
        info->compute_capability, "units", info->units, "memory_bytes", (json_int_t)info->memory_bytes, "l2_bytes",
        (json_int_t)info->l2_bytes, "shared_bytes_per_block", (json_int_t)info->shared_bytes_per_block, "max_clock_mhz",
        info->max_clock_mhz, "power_limit_w", info->power_limit_w, "driver", info->driver, "compiler", info->compiler);
    (void)json_array_append_new(found->devices, device);
}

static void add_note(void *user, const char *sentence) {
    const listing *found = user;
    (void)json_array_append_new(found->notes, json_string(sentence));
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL && value[0] != '\0' ? value : "-";
}

static void print_devices(FILE *out, const json_t *result) {
    static const char *const headers[] = {"device", "name",      "arch",    "units",  "memory GiB",
                                          "L2 MiB", "clock MHz", "power W", "driver", "compiler"};
    cli_table *table = cli_table_new(headers, sizeof headers / sizeof headers[0]);
    size_t index = 0;
    json_t *device = NULL;
    json_array_foreach(json_object_get(result, "devices"), index, device) {
        cli_cell(table, "%s", text(device, "id"));
        cli_cell(table, "%s", text(device, "name"));
        cli_cell(table, "%s", text(device, "arch"));
        cli_cell(table, "%lld", (long long)json_integer_value(json_object_get(device, "units")));
        cli_cell(table, "%.1f", (double)json_integer_value(json_object_get(device, "memory_bytes")) / 1073741824.0);
        cli_cell(table, "%.1f", (double)json_integer_value(json_object_get(device, "l2_bytes")) / 1048576.0);
        cli_cell(table, "%.0f", json_number_value(json_object_get(device, "max_clock_mhz")));
        cli_cell(table, "%.0f", json_number_value(json_object_get(device, "power_limit_w")));
        cli_cell(table, "%s", text(device, "driver"));
        cli_cell(table, "%s", text(device, "compiler"));
    }
    cli_table_print(table, out);
    json_t *note = NULL;
    json_array_foreach(json_object_get(result, "notes"), index, note) {
        (void)fprintf(out, "%s\n", json_string_value(note));
    }
}

int command_devices(int argc, char **argv) {
    static const cli_syntax syntax = {
        .takes = TAKES_RESULT,
        .doc = "Lists the devices that can run the library here, and says in plain words what is missing for more.\v"
               "Examples:\n"
               "  mlpbwd devices\n"
               "  mlpbwd devices --json | jq '.devices[0].arch'\n"};
    cli_options options = {0};
    cli_parse(&syntax, argc, argv, &options);
    listing found = {json_array(), json_array()};
    dev_list(add_device, add_note, &found);
    json_t *result = json_pack("{s:o, s:o}", "devices", found.devices, "notes", found.notes);
    return cli_result(&options, result, print_devices);
}
