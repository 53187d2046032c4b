#include "bench_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "generator.h"
#include "peers.h"

bool bench_is_peer(const char *name) {
    for (size_t i = 0; torch_peer_names[i] != NULL; i++) {
        if (strcmp(name, torch_peer_names[i]) == 0) {
            return true;
        }
    }
    return strcmp(name, "cublas") == 0 || strcmp(name, "openblas") == 0;
}

bool bench_torch_script(const char *named, char *path, size_t capacity) {
    char templates[4096];
    mlp_message why;
    if (named != NULL) {
        (void)snprintf(path, capacity, "%s", named);
        return access(path, R_OK) == 0;
    }
    if (gen_default_folder(templates, sizeof templates, &why) != MLPBWD_OK) {
        return false;
    }
    int length = snprintf(path, capacity, "%s/../bench/peers_torch.py", templates);
    return length > 0 && (size_t)length < capacity && access(path, R_OK) == 0;
}

/* Median of a timing, or 0 when it failed or was never made. */
static double median_of(const json_t *timing) {
    return json_number_value(json_object_get(timing, "median_us"));
}

/* Sum of the slots that are the four GEMMs: named after their roles. */
static double gemm_slots(const json_t *ours) {
    const char *slot = NULL;
    json_t *timing = NULL;
    double sum = 0.0;
    size_t count = 0;
    json_object_foreach(json_object_get(ours, "slots"), slot, timing) {
        if (strncmp(slot, "fc1_", 4) == 0 || strncmp(slot, "fc2_", 4) == 0) {
            sum += median_of(timing);
            count++;
        }
    }
    return count == 4 ? sum : 0.0;
}

typedef struct mean {
    double logarithms;
    size_t count;
    bool complete;
} mean;

static void add(mean *total, double value, size_t weight) {
    if (value > 0.0) {
        total->logarithms += log(value) * (double)weight;
        total->count += weight;
    } else {
        total->complete = false;
    }
}

static void put_mean(json_t *means, const char *name, const mean *total) {
    if (total->complete && total->count > 0) {
        (void)json_object_set_new(means, name, json_real(exp(total->logarithms / (double)total->count)));
    }
}

static void peer_mean(json_t *means, const json_t *rows, const char *name) {
    mean total = {.complete = true};
    size_t index = 0;
    json_t *row = NULL;
    json_array_foreach(rows, index, row) {
        add(&total, median_of(json_object_get(json_object_get(row, "peers"), name)),
            json_array_size(json_object_get(row, "shapes")));
    }
    put_mean(means, name, &total);
}

void bench_summarise(json_t *result) {
    const json_t *rows = json_object_get(result, "rows");
    json_t *means = json_object();
    mean ours = {.complete = true};
    mean bound = {.complete = true};
    mean gemms = {.complete = true};
    size_t index = 0;
    json_t *row = NULL;
    json_array_foreach(rows, index, row) {
        size_t weight = json_array_size(json_object_get(row, "shapes"));
        double median = median_of(json_object_get(row, "ours"));
        double least = json_number_value(json_object_get(row, "roofline_us"));
        double products = gemm_slots(json_object_get(row, "ours"));
        if (median > 0.0 && least > 0.0) {
            (void)json_object_set_new(row, "share", json_real(least / median));
        }
        if (products > 0.0) {
            (void)json_object_set_new(row, "gemm_slots_us", json_real(products));
        }
        add(&ours, median, weight);
        add(&bound, least, weight);
        add(&gemms, products, weight);
    }
    put_mean(means, "ours", &ours);
    put_mean(means, "roofline", &bound);
    put_mean(means, "gemm_slots", &gemms);
    json_t *peer = NULL;
    json_array_foreach(json_object_get(result, "peers"), index, peer) {
        peer_mean(means, rows, json_string_value(json_object_get(peer, "name")));
    }
    (void)json_object_set_new(result, "geomean", means);
}

bool bench_all_measured(const json_t *result) {
    size_t index = 0;
    json_t *row = NULL;
    json_array_foreach(json_object_get(result, "rows"), index, row) {
        if (!(median_of(json_object_get(row, "ours")) > 0.0)) {
            return false;
        }
    }
    return true;
}

static void cell_us(cli_table *table, double value) {
    cli_cell(table, value > 0.0 ? "%.1f" : "-", value);
}

/* Names of the peers that have at least one time. */
static size_t measured_peers(const json_t *result, const char *names[], size_t capacity) {
    size_t count = 0;
    size_t index = 0;
    json_t *peer = NULL;
    json_array_foreach(json_object_get(result, "peers"), index, peer) {
        const char *name = json_string_value(json_object_get(peer, "name"));
        size_t k = 0;
        json_t *row = NULL;
        json_array_foreach(json_object_get(result, "rows"), k, row) {
            if (count < capacity && median_of(json_object_get(json_object_get(row, "peers"), name)) > 0.0) {
                names[count++] = name;
                break;
            }
        }
    }
    return count;
}

static void print_slots(FILE *out, const json_t *result) {
    static const char *const headers[] = {"tokens", "slot", "us alone"};
    cli_table *table = NULL;
    size_t index = 0;
    json_t *row = NULL;
    json_array_foreach(json_object_get(result, "rows"), index, row) {
        const char *slot = NULL;
        json_t *timing = NULL;
        json_object_foreach(json_object_get(json_object_get(row, "ours"), "slots"), slot, timing) {
            table = table != NULL ? table : cli_table_new(headers, sizeof headers / sizeof headers[0]);
            cli_cell(table, "%lld", (long long)json_integer_value(json_object_get(row, "tokens")));
            cli_cell(table, "%s", slot);
            cell_us(table, median_of(timing));
        }
    }
    if (table != NULL) {
        (void)fputc('\n', out);
        cli_table_print(table, out);
    }
}

static void print_row(cli_table *table, const json_t *row, const char *const names[], size_t count, bool products) {
    char shapes[256] = "";
    size_t index = 0;
    json_t *shape = NULL;
    json_array_foreach(json_object_get(row, "shapes"), index, shape) {
        size_t used = strlen(shapes);
        (void)snprintf(shapes + used, sizeof shapes - used, "%s%lldx%lld", index > 0 ? " " : "",
                       (long long)json_integer_value(json_array_get(shape, 0)),
                       (long long)json_integer_value(json_array_get(shape, 1)));
    }
    const json_t *ours = json_object_get(row, "ours");
    const char *match = json_string_value(json_object_get(ours, "match"));
    double share = json_number_value(json_object_get(row, "share"));
    cli_cell(table, "%lld", (long long)json_integer_value(json_object_get(row, "tokens")));
    cli_cell(table, "%s", shapes);
    cell_us(table, json_number_value(json_object_get(row, "roofline_us")));
    cell_us(table, median_of(ours));
    cell_us(table, json_number_value(json_object_get(ours, "spread_us")));
    cli_cell(table, share > 0.0 ? "%.0f%%" : "-", share * 100.0);
    cli_cell(table, "%s", match != NULL ? match : "-");
    if (products) {
        cell_us(table, json_number_value(json_object_get(row, "gemm_slots_us")));
    }
    for (size_t i = 0; i < count; i++) {
        cell_us(table, median_of(json_object_get(json_object_get(row, "peers"), names[i])));
    }
}

static void print_means(cli_table *table, const json_t *means, const char *const names[], size_t count, bool products) {
    double ours = json_number_value(json_object_get(means, "ours"));
    double bound = json_number_value(json_object_get(means, "roofline"));
    cli_cell(table, "geomean");
    cli_cell(table, " ");
    cell_us(table, bound);
    cell_us(table, ours);
    cli_cell(table, "-");
    cli_cell(table, ours > 0.0 && bound > 0.0 ? "%.0f%%" : "-", ours > 0.0 ? bound / ours * 100.0 : 0.0);
    cli_cell(table, " ");
    if (products) {
        cell_us(table, json_number_value(json_object_get(means, "gemm_slots")));
    }
    for (size_t i = 0; i < count; i++) {
        cell_us(table, json_number_value(json_object_get(means, names[i])));
    }
}

static void print_ratios(FILE *out, const json_t *means, const char *const names[], size_t count) {
    double ours = json_number_value(json_object_get(means, "ours"));
    for (size_t i = 0; i < count; i++) {
        double theirs = json_number_value(json_object_get(means, names[i]));
        if (ours > 0.0 && theirs > 0.0) {
            (void)fprintf(out, "mlpbwd takes %.3f of the time of %s.\n", ours / theirs, names[i]);
        }
    }
    double products = json_number_value(json_object_get(means, "gemm_slots"));
    double openblas = json_number_value(json_object_get(means, "openblas"));
    if (products > 0.0 && openblas > 0.0) {
        (void)fprintf(out, "Its four GEMMs alone reach %.2f of OpenBLAS's speed.\n", openblas / products);
    }
}

void bench_print(FILE *out, const json_t *result) {
    enum { MOST_PEERS = 12, OWN = 8 };
    const char *names[MOST_PEERS];
    const char *headers[OWN + MOST_PEERS] = {"tokens", "shapes", "roofline", "mlpbwd", "spread", "share", "match"};
    size_t count = measured_peers(result, names, MOST_PEERS);
    const json_t *means = json_object_get(result, "geomean");
    const json_t *device = json_object_get(result, "device");
    bool products = json_object_get(means, "gemm_slots") != NULL;
    size_t columns = 7;
    if (products) {
        headers[columns++] = "its GEMMs";
    }
    memcpy(headers + columns, names, count * sizeof names[0]);
    (void)fprintf(
        out, "%s (%s), driver %s, %s\n%s; %s; microseconds; H = %lld, I = %lld\n",
        json_string_value(json_object_get(device, "name")), json_string_value(json_object_get(device, "id")),
        json_string_value(json_object_get(device, "driver")), json_string_value(json_object_get(result, "date")),
        json_string_value(json_object_get(result, "protocol")), json_string_value(json_object_get(result, "accuracy")),
        (long long)json_integer_value(json_object_get(result, "hidden_size")),
        (long long)json_integer_value(json_object_get(result, "intermediate_size")));
    cli_table *table = cli_table_new(headers, columns + count);
    size_t index = 0;
    json_t *row = NULL;
    json_array_foreach(json_object_get(result, "rows"), index, row) {
        print_row(table, row, names, count, products);
    }
    print_means(table, means, names, count, products);
    cli_table_print(table, out);
    (void)fprintf(out, "Roofline: %s.\n",
                  json_string_value(json_object_get(json_object_get(result, "roofline"), "source")));
    print_ratios(out, means, names, count);
    print_slots(out, result);
    json_t *entry = NULL;
    json_array_foreach(json_object_get(result, "peers"), index, entry) {
        const char *error = json_string_value(json_object_get(entry, "error"));
        (void)fprintf(out, "%s: %s%s%s\n", json_string_value(json_object_get(entry, "name")),
                      json_string_value(json_object_get(entry, "doc")), error != NULL ? " - failed: " : "",
                      error != NULL ? error : "");
    }
    json_array_foreach(json_object_get(result, "notes"), index, entry) {
        (void)fprintf(out, "%s\n", json_string_value(entry));
    }
}
