/* Operands in shared memory: swizzles, boxes of tensor copies, matrix descriptors and the addresses they mean. */
#include "layout.h"

#include <stdio.h>

/* A swizzle moves pieces of `atom` bytes inside a row of `width` bytes; which way depends on bits 7 and up of the
 * address, `phases` different ways. */
struct pattern {
    const char *name;
    unsigned width, atom, phases;
};

static struct pattern pattern_of(enum layout_swizzle swizzle) {
    switch (swizzle) {
    case LAYOUT_SWIZZLE_32B:
        return (struct pattern){"32B", 32, 16, 2};
    case LAYOUT_SWIZZLE_64B:
        return (struct pattern){"64B", 64, 16, 4};
    case LAYOUT_SWIZZLE_128B:
        return (struct pattern){"128B", 128, 16, 8};
    case LAYOUT_SWIZZLE_128B_ATOM_32B:
        return (struct pattern){"128B with 32-byte atoms", 128, 32, 4};
    case LAYOUT_SWIZZLE_NONE:
        break;
    }
    return (struct pattern){"none", LAYOUT_CHUNK, LAYOUT_CHUNK, 1};
}

unsigned layout_swizzle_width(enum layout_swizzle swizzle) {
    return pattern_of(swizzle).width;
}

unsigned layout_swizzle_repeat(enum layout_swizzle swizzle) {
    return swizzle == LAYOUT_SWIZZLE_NONE ? LAYOUT_CHUNK : pattern_of(swizzle).phases * 128;
}

const char *layout_swizzle_name(enum layout_swizzle swizzle) {
    return pattern_of(swizzle).name;
}

/* base: bits 7-9 of the address at which the pattern's first row stands. */
static uint32_t swizzled(enum layout_swizzle swizzle, uint32_t address, unsigned base) {
    struct pattern pattern = pattern_of(swizzle);
    return address ^ (((address >> 7) - base) & (pattern.phases - 1)) * pattern.atom;
}

uint32_t layout_swizzle_address(enum layout_swizzle swizzle, uint32_t address) {
    return swizzled(swizzle, address, 0);
}

/* ---- boxes of tensor copies */

bool layout_tensor_map_swizzle(unsigned value, enum layout_swizzle *out, char *reason) {
    static const enum layout_swizzle known[] = {LAYOUT_SWIZZLE_NONE, LAYOUT_SWIZZLE_32B, LAYOUT_SWIZZLE_64B,
                                                LAYOUT_SWIZZLE_128B, LAYOUT_SWIZZLE_128B_ATOM_32B};
    if (value >= sizeof known / sizeof *known) {
        snprintf(reason, LAYOUT_REASON,
                 "the tensor map's swizzle is %u; 0 (none), 1 (32B), 2 (64B), 3 (128B) and 4 (128B with 32-byte atoms) "
                 "are known here",
                 value);
        return false;
    }
    *out = known[value];
    return true;
}

unsigned layout_box_pitch(enum layout_swizzle swizzle, unsigned row_bytes) {
    return swizzle == LAYOUT_SWIZZLE_NONE ? row_bytes : pattern_of(swizzle).width;
}

uint32_t layout_box_address(enum layout_swizzle swizzle, uint32_t base, unsigned row_bytes, unsigned row,
                            unsigned byte) {
    return swizzled(swizzle, base + row * layout_box_pitch(swizzle, row_bytes) + byte, 0);
}

bool layout_check_box(enum layout_swizzle swizzle, uint32_t base, unsigned row_bytes, char *reason) {
    unsigned repeat = layout_swizzle_repeat(swizzle), alignment = repeat < 128 ? 128 : repeat;
    if (row_bytes == 0 || row_bytes % LAYOUT_CHUNK != 0) {
        snprintf(reason, LAYOUT_REASON, "a row of the box has %u bytes, which is not a positive multiple of 16",
                 row_bytes);
        return false;
    }
    if (swizzle != LAYOUT_SWIZZLE_NONE && row_bytes > pattern_of(swizzle).width) {
        snprintf(reason, LAYOUT_REASON, "a row of the box has %u bytes; swizzle %s allows %u", row_bytes,
                 layout_swizzle_name(swizzle), pattern_of(swizzle).width);
        return false;
    }
    if (base % alignment != 0) {
        snprintf(reason, LAYOUT_REASON, "the box is at shared address 0x%x, which is not a multiple of %u (swizzle %s)",
                 (unsigned)base, alignment, layout_swizzle_name(swizzle));
        return false;
    }
    return true;
}

/* ---- descriptors */

static unsigned field(uint64_t bits, unsigned first, unsigned count) {
    return (unsigned)(bits >> first & ((1U << count) - 1));
}

static void decode_common(uint64_t bits, struct layout_descriptor *out) {
    out->start = field(bits, 0, 14) << 4;
    out->leading = field(bits, 16, 14) << 4;
    out->stride = field(bits, 32, 14) << 4;
    out->base_offset = field(bits, 49, 3);
}

/* Without a swizzle there is no pattern whose start the base offset could tell. */
static bool check_base_offset(const struct layout_descriptor *at, char *reason) {
    if (at->swizzle == LAYOUT_SWIZZLE_NONE && at->base_offset != 0) {
        snprintf(reason, LAYOUT_REASON, "the descriptor's base offset (bits 49-51) is %u without a swizzle; must be 0",
                 at->base_offset);
        return false;
    }
    return true;
}

/* Reports the lowest of the bits in `mask` that is set, if any is. */
static bool check_zero(uint64_t bits, uint64_t mask, const char *which, char *reason) {
    if ((bits & mask) == 0)
        return true;
    unsigned bit = 0;
    while (!(bits & mask & (uint64_t)1 << bit))
        bit++;
    snprintf(reason, LAYOUT_REASON, "bit %u of the %s descriptor 0x%llx is set; it must be 0", bit, which,
             (unsigned long long)bits);
    return false;
}

static uint64_t bit_range(unsigned first, unsigned last) {
    return (~(uint64_t)0 >> (63 - (last - first))) << first;
}

bool layout_decode_sm90(uint64_t bits, struct layout_descriptor *out, char *reason) {
    static const enum layout_swizzle kinds[] = {LAYOUT_SWIZZLE_NONE, LAYOUT_SWIZZLE_128B, LAYOUT_SWIZZLE_64B,
                                                LAYOUT_SWIZZLE_32B};
    if (field(bits, 46, 1)) {
        snprintf(reason, LAYOUT_REASON,
                 "bit 46 of the wgmma descriptor 0x%llx is set; that is the form of tcgen05, here it must be 0",
                 (unsigned long long)bits);
        return false;
    }
    if (!check_zero(bits, bit_range(14, 15) | bit_range(30, 31) | bit_range(46, 48) | bit_range(52, 61), "wgmma",
                    reason))
        return false;
    decode_common(bits, out);
    out->swizzle = kinds[field(bits, 62, 2)];
    return check_base_offset(out, reason);
}

bool layout_decode_sm100(uint64_t bits, struct layout_descriptor *out, char *reason) {
    unsigned constant = field(bits, 46, 3), swizzle = field(bits, 61, 3);
    if (constant != 1) {
        snprintf(reason, LAYOUT_REASON,
                 "bits 46-48 of the tcgen05 descriptor 0x%llx are %u; they must be 1 (bit 46 set, 47 and 48 clear)",
                 (unsigned long long)bits, constant);
        return false;
    }
    if (field(bits, 52, 1)) {
        snprintf(reason, LAYOUT_REASON,
                 "bit 52 of the tcgen05 descriptor 0x%llx asks for an absolute leading address, which this "
                 "architecture lacks; it must be 0",
                 (unsigned long long)bits);
        return false;
    }
    if (!check_zero(bits, bit_range(14, 15) | bit_range(30, 31) | bit_range(53, 60), "tcgen05", reason))
        return false;
    decode_common(bits, out);
    switch (swizzle) {
    case 0:
        out->swizzle = LAYOUT_SWIZZLE_NONE;
        break;
    case 1:
        out->swizzle = LAYOUT_SWIZZLE_128B_ATOM_32B;
        break;
    case 2:
        out->swizzle = LAYOUT_SWIZZLE_128B;
        break;
    case 4:
        out->swizzle = LAYOUT_SWIZZLE_64B;
        break;
    case 6:
        out->swizzle = LAYOUT_SWIZZLE_32B;
        break;
    default:
        snprintf(reason, LAYOUT_REASON,
                 "the tcgen05 descriptor 0x%llx has swizzle %u (bits 61-63); 0 (none), 1 (128B with 32-byte atoms), "
                 "2 (128B), 4 (64B) and 6 (32B) exist",
                 (unsigned long long)bits, swizzle);
        return false;
    }
    return check_base_offset(out, reason);
}

/* ---- operands */

/* One step along an offset must not leave the pattern's phase. used: elements lie behind that offset at all. */
static bool check_offset(const struct layout_operand *operand, bool used, const char *name, uint32_t offset,
                         char *reason) {
    unsigned repeat = layout_swizzle_repeat(operand->at.swizzle);
    if (!used || offset % repeat == 0)
        return true;
    snprintf(reason, LAYOUT_REASON,
             "the descriptor's %s offset is %u bytes, which is not a multiple of %u, the repeat of swizzle %s", name,
             (unsigned)offset, repeat, layout_swizzle_name(operand->at.swizzle));
    return false;
}

/* Elements of MN, and values of k, in one atom of an MN-major layout. */
static unsigned atom_mn(const struct layout_operand *operand) {
    return layout_swizzle_width(operand->at.swizzle) / operand->element_bytes;
}
static unsigned atom_k(const struct layout_operand *operand) {
    return operand->at.swizzle == LAYOUT_SWIZZLE_128B_ATOM_32B ? 4 : 8;
}

bool layout_check_operand(const struct layout_operand *operand, char *reason) {
    const struct layout_descriptor *at = &operand->at;
    bool wide_atoms = at->swizzle == LAYOUT_SWIZZLE_128B_ATOM_32B, mn_major = operand->major == LAYOUT_MN_MAJOR;
    if (mn_major && operand->element_bytes == 2 && wide_atoms) {
        snprintf(reason, LAYOUT_REASON,
                 "a 16-bit MN-major operand has swizzle %s; every other swizzle would be allowed",
                 layout_swizzle_name(at->swizzle));
        return false;
    }
    if (mn_major && operand->element_bytes == 4 && !wide_atoms) {
        snprintf(reason, LAYOUT_REASON,
                 "a tf32 MN-major operand has swizzle %s; only tcgen05 with swizzle 128B with 32-byte atoms allows "
                 "MN-major tf32",
                 layout_swizzle_name(at->swizzle));
        return false;
    }
    if (at->swizzle == LAYOUT_SWIZZLE_NONE)
        return true;
    unsigned repeat = layout_swizzle_repeat(at->swizzle), width = layout_swizzle_width(at->swizzle);
    unsigned inside = (at->start - at->base_offset * 128) % repeat;
    if (inside >= width) {
        snprintf(reason, LAYOUT_REASON,
                 "the operand starts at shared address 0x%x with base offset %u: row %u of the pattern of swizzle %s, "
                 "which repeats every %u bytes; it must start in row 0",
                 (unsigned)at->start, at->base_offset, inside / width, layout_swizzle_name(at->swizzle), repeat);
        return false;
    }
    if (mn_major)
        return check_offset(operand, operand->mn > atom_mn(operand), "leading", at->leading, reason) &&
               check_offset(operand, operand->k > atom_k(operand), "stride", at->stride, reason);
    return check_offset(operand, operand->mn > 8, "stride", at->stride, reason);
}

/* The canonical layouts of 9.7.15.5.1.2.1 and 9.7.16.3.3, in bytes. */
uint32_t layout_element_address(const struct layout_operand *operand, unsigned mn, unsigned k) {
    const struct layout_descriptor *at = &operand->at;
    unsigned bytes = operand->element_bytes, width = layout_swizzle_width(at->swizzle), chunk = LAYOUT_CHUNK / bytes;
    uint32_t address = at->start;
    if (operand->major == LAYOUT_K_MAJOR) {
        address += mn / 8 * at->stride + mn % 8 * width;
        if (at->swizzle == LAYOUT_SWIZZLE_NONE)
            address += k / chunk * at->leading + k % chunk * bytes;
        else
            address += k * bytes;                    /* one row of the pattern holds all k of an instruction */
    } else if (at->swizzle == LAYOUT_SWIZZLE_NONE) { /* the two offsets change places */
        address += mn / chunk * at->stride + mn % chunk * bytes + k % 8 * LAYOUT_CHUNK + k / 8 * at->leading;
    } else {
        unsigned wide = atom_mn(operand), deep = atom_k(operand);
        address += mn / wide * at->leading + mn % wide * bytes + k % deep * width + k / deep * at->stride;
    }
    return swizzled(at->swizzle, address, at->base_offset);
}

unsigned layout_operand_chunks(const struct layout_operand *operand, uint32_t *addresses) {
    unsigned chunk = LAYOUT_CHUNK / operand->element_bytes, count = 0;
    unsigned mn_step = operand->major == LAYOUT_K_MAJOR ? 1 : chunk;
    unsigned k_step = operand->major == LAYOUT_K_MAJOR ? chunk : 1;
    for (unsigned mn = 0; mn < operand->mn; mn += mn_step)
        for (unsigned k = 0; k < operand->k; k += k_step)
            addresses[count++] = layout_element_address(operand, mn, k);
    return count;
}
