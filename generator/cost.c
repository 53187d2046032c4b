/* The cost model: what a variant takes that nobody timed yet. It chooses defaults (architecture files that no one tuned
 * for), never winners, and its figures are never called measured.
 *
 * One product C[M,N] = A[M,K] B[K,N] on U multiprocessors at the maximum clock f, by tiles of m x n that `blocks` of
 * them share, K in `parts`: loop   = the larger of  2 m n k / (blocks R f share)       tensor rate R of the class, k =
 * K / parts in steps of 64 and   (m + n) k e / (blocks L / busy)    operands of e bytes an element through the L2's
 * bandwidth L, at most 90 / 52 of that of one of U; busy of U have work out    = m n w / (blocks D / busy) results of w
 * bytes an element over the HBM's bandwidth D waves  = ceil(tiles parts / (U / blocks)) time   = waves (loop + out), or
 * waves max(loop, out) + out where a kernel writes one tile under the next one's loop; at least ((M K + K N) e + M N w)
 * / D; split-K: the parts written and read once more, and a launch; every launch LAUNCH_US, the first tile RAMP_US. A
 * slot that converts takes the bytes of what it reads and writes over D; every other slot a launch. A pass is the sum
 * of its slots.
 *
 * R, U, f, L and D are the architecture file's, which names their sources; a figure of 0 (nobody states it) drops its
 * term, without R, U, f or D nothing is predicted. The shares of these figures that kernels reach are those of an H200
 * (measured there): 805 of 1070 TFLOP/s in a main loop fed from the L2; 4.3 of 4.8 TB/s; 52 bytes a clock from the L2
 * to each of 132 multiprocessors, 90 to few of them; 0.8 us from one kernel to the next in a graph; 0.8 us from the
 * HBM, once for the first operands and once for the last results. Left out: depth of the ring, raster order, power and
 * what it does to the clock. bench/notes.md holds the model against the winners measured on an H200. */
#include <math.h>
#include <string.h>

#include "expression.h"
#include "gen.h"

static const double TENSOR_SHARE = 0.75, HBM_SHARE = 0.9, L2_ALONE = 90.0 / 52, LAUNCH_US = 0.8, RAMP_US = 1.6;
/* Predictions this close are one: the variant nearest to the kernel's default is taken. */
static const double TIE = 1.005;
enum { K_STEP = 64 };

typedef struct figures { /* per second */
    double rate, hbm, l2, l2_bytes;
    int units;
} figures;

typedef struct product { /* C[M,N] = A[M,K] B[K,N] */
    double m, n, k;
    bool gelu;
} product;

typedef struct tile {
    double m, n, share, operand_bytes;
    int parts, blocks;
    bool overlap;
} tile;

static const field_rule tile_rules[] = {
    {"m", FIELD_INTEGER | FIELD_REQUIRED},
    {"n", FIELD_INTEGER | FIELD_REQUIRED},
    {"parts", FIELD_INTEGER},
    {"blocks", FIELD_INTEGER},
    {"overlap", FIELD_BOOLEAN},
    {"share", FIELD_NUMBER},
    {"operand_bytes", FIELD_INTEGER},
};

static double number(const json_t *object, const char *key, double otherwise) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

/* False: too little is known of the architecture. */
static bool read_figures(const json_t *arch, const gen_target *target, int units, figures *f) {
    double clock = number(arch, "max_clock_mhz", 0) * 1e6;
    *f = (figures){.rate = number(json_object_get(arch, "rates"), accuracy_name(target->accuracy), 0) * clock *
                           TENSOR_SHARE,
                   .hbm = number(arch, "memory_bandwidth", 0) * HBM_SHARE,
                   .l2 = number(arch, "l2_bandwidth", 0),
                   .l2_bytes = number(arch, "l2_bytes", 0),
                   .units = units > 0 ? units : (int)number(arch, "units", 0)};
    return f->rate > 0 && f->hbm > 0 && f->units > 0;
}

/* False: the role is none of the four products (mlpbwd.h; templates/lib/roles.lua). */
static bool read_product(const char *role, const gen_problem *problem, product *p) {
    const double t = (double)problem->tokens, h = (double)problem->hidden_size, i = (double)problem->intermediate_size;
    const struct {
        const char *role;
        product product;
    } products[] = {{"fc2_dgrad", {t, i, h, true}},
                    {"fc2_wgrad", {h, i, t, false}},
                    {"fc1_dgrad", {t, h, i, false}},
                    {"fc1_wgrad", {i, h, t, false}}};
    for (size_t r = 0; r < sizeof products / sizeof *products; r++) {
        if (strcmp(role, products[r].role) == 0) {
            *p = products[r].product;
            return true;
        }
    }
    return false;
}

/* *known false: the kernel does not say what its tiles are. */
static mlpbwd_status read_tile(const kernel_use *use, const json_t *parameters, tile *t, bool *known,
                               mlp_message *why) {
    *known = json_object_get(use->fields, "tile") != NULL;
    if (!*known) {
        return MLPBWD_OK;
    }
    json_t *fields = NULL, *complete = NULL;
    mlpbwd_status status = parameters_complete(use, parameters, &complete, why);
    kernel_request request = {.member = "tile", .index = -1, .parameters = complete};
    if (status == MLPBWD_OK) {
        status = kernel_call(use, &request, &fields, NULL, why);
    }
    char label[192];
    snprintf(label, sizeof label, "kernels/%s.lua: tile(c)", use->kernel);
    if (status == MLPBWD_OK) {
        status = values_check(fields, label, tile_rules, sizeof tile_rules / sizeof *tile_rules, why);
    }
    *t = (tile){.m = number(fields, "m", 0),
                .n = number(fields, "n", 0),
                .share = number(fields, "share", 1),
                .operand_bytes = number(fields, "operand_bytes", 2),
                .parts = (int)number(fields, "parts", 1),
                .blocks = (int)number(fields, "blocks", 1),
                .overlap = json_is_true(json_object_get(fields, "overlap"))};
    if (status == MLPBWD_OK && !(t->m > 0 && t->n > 0 && t->parts > 0 && t->blocks > 0 && t->share > 0)) {
        status = mlp_fail(why, MLPBWD_INVALID_ARGUMENT, "%s: m, n, parts, blocks and share must be positive", label);
    }
    json_decref(fields);
    json_decref(complete);
    return status;
}

/* Seconds. */
static double time_product(const figures *f, const product *p, const tile *t) {
    const double result_bytes = p->gelu ? 4 + t->operand_bytes : 4;
    const double k = K_STEP * ceil(ceil(p->k / K_STEP) / t->parts);
    const double tiles = ceil(p->m / t->m) * ceil(p->n / t->n) * t->parts;
    const double places = fmax(1, floor((double)f->units / t->blocks));
    const double busy = fmin(places, tiles) * t->blocks, waves = ceil(tiles / places);
    double loop = 2 * t->m * t->n * k / (t->blocks * f->rate * t->share);
    if (f->l2 > 0) {
        loop = fmax(loop, (t->m + t->n) * k * t->operand_bytes /
                              (t->blocks * fmin(f->l2 / busy, L2_ALONE * f->l2 / f->units)));
    }
    const double out = t->m * t->n * result_bytes / (t->blocks * f->hbm / busy);
    double seconds = t->overlap ? waves * fmax(loop, out) + out : waves * (loop + out);
    const double c = p->m * p->n, operands = (p->m * p->k + p->k * p->n) * t->operand_bytes;
    seconds = fmax(seconds, (operands + c * result_bytes) / f->hbm);
    seconds += (LAUNCH_US + RAMP_US) * 1e-6;
    if (t->parts > 1) {
        const double sums = 4 * c * t->parts;
        const bool cached = f->l2 > 0 && 2 * sums <= f->l2_bytes;
        seconds += sums / (cached ? f->l2 : f->hbm) + 4 * c / f->hbm + (LAUNCH_US + RAMP_US) * 1e-6;
    }
    return seconds;
}

mlpbwd_status gen_predict(gen *generator, const char *kernel, const char *role, const gen_target *target,
                          const json_t *parameters, const gen_problem *problem, double *us, mlp_message *why) {
    kernel_use use;
    figures f;
    product p;
    tile t;
    bool known = false;
    *us = -1;
    mlpbwd_status status = kernel_use_init(&use, generator, kernel, role, target, why);
    if (status != MLPBWD_OK || !read_figures(use.arch, target, problem->units, &f) ||
        !read_product(role, problem, &p)) {
        return status;
    }
    status = read_tile(&use, parameters, &t, &known, why);
    if (status == MLPBWD_OK && known) {
        *us = time_product(&f, &p, &t) * 1e6;
    }
    return status;
}

static size_t differences(const json_t *a, const json_t *b) {
    size_t count = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)a, name, value) {
        count += !json_equal(value, json_object_get(b, name));
    }
    return count;
}

/* Variants of one kernel against the best so far: *best (borrowed from `kept`), *us. */
static mlpbwd_status compare_kernel(gen *generator, const char *kernel, const char *role, const gen_target *target,
                                    const gen_problem *problem, json_t **best, double *us, mlp_message *why) {
    json_t *variants = NULL;
    mlpbwd_status status = gen_space(generator, kernel, role, target, problem, &variants, NULL, why);
    const json_t *standard = json_array_get(variants, 0);
    size_t i, fewest = 0;
    double least = *us;
    json_t *variant, *nearest = NULL;
    json_t *times = json_array();
    json_array_foreach(variants, i, variant) {
        double each = -1;
        if (status == MLPBWD_OK) {
            status = gen_predict(generator, kernel, role, target, variant, problem, &each, why);
        }
        json_array_append_new(times, json_real(each));
        least = each > 0 && (least < 0 || each < least) ? each : least;
    }
    json_array_foreach(variants, i, variant) {
        double each = json_number_value(json_array_get(times, i));
        size_t distance = differences(variant, standard);
        if (status == MLPBWD_OK && each > 0 && each <= least * TIE && (!nearest || distance < fewest)) {
            nearest = variant;
            fewest = distance;
        }
    }
    /* an earlier kernel keeps its place unless this one is better by more than a tie */
    if (nearest && (*us < 0 || least * TIE < *us)) {
        json_decref(*best);
        *best = json_incref(nearest);
        *us = least;
    }
    json_decref(times);
    json_decref(variants);
    return status;
}

/* Bytes of the tensors that a converting slot reads and of the copies that it writes; *us unchanged when unknown. */
static double time_conversion(const figures *f, const json_t *plan, const char *slot, const gen_problem *problem) {
    const expression_values values = {
        .T = problem->tokens, .H = problem->hidden_size, .I = problem->intermediate_size, .UNITS = f->units};
    double bytes = 0;
    size_t l, a, b;
    json_t *launch, *argument, *buffer;
    json_array_foreach(json_object_get(plan, "launches"), l, launch) {
        if (strcmp(json_string_value(json_object_get(launch, "slot")), slot) != 0) {
            continue;
        }
        json_array_foreach(json_object_get(launch, "args"), a, argument) {
            const char *name = json_string_value(json_object_get(argument, "pointer"));
            json_array_foreach(json_object_get(plan, "buffers"), b, buffer) {
                int64_t size = 0;
                if (name && strcmp(name, json_string_value(json_object_get(buffer, "name"))) == 0 &&
                    expression_evaluate(json_string_value(json_object_get(buffer, "size")), &values, &size, NULL) ==
                        MLPBWD_OK) {
                    bytes += 3 * (double)size; /* a copy of 2 bytes an element, and the 4 bytes it is made from */
                }
            }
        }
    }
    return bytes / f->hbm;
}

/* The product slots' choice; *us: their sum, < 0 when one cannot be predicted. */
static mlpbwd_status choose_products(gen *generator, const gen_target *target, const gen_problem *problem,
                                     const json_t *slots, json_t *selection, double *us, mlp_message *why) {
    mlpbwd_status status = MLPBWD_OK;
    size_t i, k;
    json_t *slot, *kernel;
    json_array_foreach(slots, i, slot) {
        const char *role = json_string_value(json_object_get(slot, "role"));
        product p;
        json_t *best = NULL;
        double each = -1;
        if (!read_product(role, problem, &p)) {
            continue;
        }
        json_array_foreach(json_object_get(slot, "kernels"), k, kernel) {
            if (status == MLPBWD_OK) {
                status = compare_kernel(generator, json_string_value(kernel), role, target, problem, &best, &each, why);
            }
        }
        if (best && json_object_set(selection, json_string_value(json_object_get(slot, "slot")), best) != 0) {
            status = mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "out of memory");
        }
        json_decref(best);
        *us = each < 0 || *us < 0 ? -1 : *us + each;
    }
    return status;
}

mlpbwd_status gen_choose(gen *generator, const char *pipeline, const gen_target *target, const gen_problem *problem,
                         json_t **selection, double *us, mlp_message *why) {
    json_t *slots = NULL, *plan = NULL, *sources = NULL;
    const json_t *arch = NULL;
    figures f;
    *selection = json_object();
    *us = -1;
    mlpbwd_status status = arch_find(generator, target, &arch, why);
    if (status != MLPBWD_OK || !read_figures(arch, target, problem->units, &f)) {
        return status;
    }
    gen_problem sized = *problem; /* space.c prunes by it */
    sized.units = f.units;
    *us = 0;
    status = gen_slots(generator, pipeline, target, &slots, why);
    if (status == MLPBWD_OK) {
        status = choose_products(generator, target, &sized, slots, *selection, us, why);
    }
    if (status == MLPBWD_OK && *us >= 0) {
        status = gen_build_plan(generator, pipeline, target, *selection, &plan, &sources, why);
    }
    size_t i;
    json_t *slot;
    json_array_foreach(plan ? slots : NULL, i, slot) {
        const char *role = json_string_value(json_object_get(slot, "role"));
        product p;
        if (!read_product(role, problem, &p)) {
            *us += LAUNCH_US + RAMP_US;
        }
        if (strcmp(role, "convert") == 0) {
            *us += 1e6 * time_conversion(&f, plan, json_string_value(json_object_get(slot, "slot")), problem);
        }
    }
    json_decref(slots);
    json_decref(plan);
    json_decref(sources);
    return status;
}
