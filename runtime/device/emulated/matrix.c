/* Matrix instructions of one warp: ldmatrix, stmatrix (PTX ISA 9.7.14.5.15, .16) and mma.sync (9.7.14.5.8). */
#include <string.h>

#include "core.h"
#include "layout.h"
#include "shadow.h"
#include "sm80.h"

enum { WHOLE_WARP = -1, ROW_BYTES = 16, ROWS = 8, MMA_M = 16, MMA_N = 8, MMA_K = 16 };

/* ---- ldmatrix, stmatrix ---- */

typedef struct matrix_request {
    uint32_t *loaded;       /* registers of a load, else NULL */
    const uint32_t *stored; /* of a store */
    unsigned char *row;     /* in shared memory; NULL: this lane's address is not used */
    int matrices, transpose;
    uintptr_t origin;
} matrix_request;

/* Where element `half` of a lane's register `matrix` lies. */
static unsigned char *element_at(void *const requests[EMU_WARP], unsigned lane, unsigned matrix, unsigned half,
                                 bool transpose) {
    struct layout_element element = layout_matrix_element(lane, half, transpose);
    const matrix_request *owner = requests[matrix * ROWS + element.row];
    return owner->row + (size_t)element.column * 2;
}

static const matrix_request *whole(emu_thread *first, void *const requests[EMU_WARP], const char *name) {
    const matrix_request *one = requests[0];
    for (unsigned lane = 0; lane < EMU_WARP; lane++) {
        const matrix_request *other = requests[lane];
        if (!other)
            emu_fault(first, one ? one->origin : 0, "%s by a warp of %u threads; it needs 32", name, lane);
        if (other->matrices != one->matrices || other->transpose != one->transpose)
            emu_fault(&first[lane], other->origin, "%s: lanes of one warp execute different forms of it", name);
    }
    return one;
}

static void load_matrices(emu_thread *first, void *const requests[EMU_WARP]) {
    const matrix_request *form = whole(first, requests, "ldmatrix");
    for (unsigned lane = 0; lane < EMU_WARP; lane++) {
        uint32_t *to = ((const matrix_request *)requests[lane])->loaded;
        for (unsigned i = 0; i < (unsigned)form->matrices; i++) {
            uint16_t halves[2];
            for (unsigned half = 0; half < 2; half++)
                memcpy(&halves[half], element_at(requests, lane, i, half, form->transpose), sizeof halves[half]);
            to[i] = halves[0] | (uint32_t)halves[1] << 16;
        }
    }
}

static void store_matrices(emu_thread *first, void *const requests[EMU_WARP]) {
    const matrix_request *form = whole(first, requests, "stmatrix");
    for (unsigned lane = 0; lane < EMU_WARP; lane++) {
        const uint32_t *from = ((const matrix_request *)requests[lane])->stored;
        for (unsigned i = 0; i < (unsigned)form->matrices; i++) {
            const uint16_t halves[2] = {(uint16_t)from[i], (uint16_t)(from[i] >> 16)};
            for (unsigned half = 0; half < 2; half++)
                memcpy(element_at(requests, lane, i, half, form->transpose), &halves[half], sizeof halves[half]);
        }
    }
}

/* The row of a matrix whose address this lane gives: its access, for checks. */
static unsigned char *row_at(emu_thread *thread, const char *name, uint32_t shared, int matrices, bool write,
                             uintptr_t origin) {
    uint32_t offset;
    if (thread->lane >= (uint32_t)matrices * ROWS)
        return NULL;
    if (shared % ROW_BYTES)
        emu_fault(thread, origin, "%s: shared address 0x%x is not a multiple of 16", name, shared);
    emu_block *block = emu_shared_resolve(thread, shared, ROW_BYTES, &offset, origin);
    if (block != thread->block)
        emu_fault(thread, origin, "%s on shared memory of block %u of the cluster; its own is needed", name,
                  block->rank);
    if (write || emu_bits_all(block->shadow->written, offset, ROW_BYTES))
        emu_shared_access(thread, block, offset, ROW_BYTES, write, origin);
    else
        emu_read_unwritten(thread, block, offset, ROW_BYTES, origin);
    return block->shared + offset;
}

void emu_api_ldmatrix(emu_u32 *registers, emu_u32 shared, int matrices, int transpose) {
    emu_thread *thread = emu_self();
    matrix_request request = {.loaded = registers, .matrices = matrices, .transpose = transpose, .origin = EMU_ORIGIN};
    request.row = row_at(thread, "ldmatrix", shared, matrices, false, request.origin);
    emu_warp_meet(thread, (uint32_t)WHOLE_WARP, "ldmatrix", false, &request, load_matrices, request.origin);
}

void emu_api_stmatrix(const emu_u32 *registers, emu_u32 shared, int matrices, int transpose) {
    emu_thread *thread = emu_self();
    matrix_request request = {.stored = registers, .matrices = matrices, .transpose = transpose, .origin = EMU_ORIGIN};
    request.row = row_at(thread, "stmatrix", shared, matrices, true, request.origin);
    emu_warp_meet(thread, (uint32_t)WHOLE_WARP, "stmatrix", false, &request, store_matrices, request.origin);
}

/* ---- mma.sync ---- */

typedef struct mma_request {
    float *d;
    const uint32_t *a;
    uint32_t b[2];
    int type;
    uintptr_t origin;
} mma_request;

static float from_half(uint32_t half, int type) {
    uint32_t bits = type == EMU_BF16 ? half << 16 : (half & 0x7fffu) << 13;
    float value;
    if (type != EMU_BF16 && (half & 0x7c00u) == 0x7c00u)
        bits |= 0x7f800000u; /* Inf, NaN */
    memcpy(&value, &bits, sizeof value);
    if (type == EMU_BF16)
        return value;
    if ((half & 0x7c00u) != 0x7c00u)
        value *= 0x1p112f; /* the difference of the exponents' biases; right for subnormals, too */
    return half & 0x8000u ? -value : value;
}

typedef double doubles __attribute__((vector_size(MMA_N * sizeof(double))));

typedef struct mma_operands {
    double a[MMA_M][MMA_K];
    doubles b[MMA_K];
} mma_operands;

static void gather(void *const requests[EMU_WARP], int type, mma_operands *operands) {
    for (unsigned lane = 0; lane < EMU_WARP; lane++) {
        const mma_request *one = requests[lane];
        for (unsigned half = 0; half < 2; half++) {
            for (unsigned reg = 0; reg < 4; reg++) {
                struct layout_element at = layout_mma_a(lane, reg, half);
                operands->a[at.row][at.column] = from_half(one->a[reg] >> half * 16 & 0xffffu, type);
            }
            for (unsigned reg = 0; reg < 2; reg++) {
                struct layout_element at = layout_mma_b(lane, reg, half);
                operands->b[at.row][at.column] = from_half(one->b[reg] >> half * 16 & 0xffffu, type);
            }
        }
    }
}

/* Products and their sums are exact in double, nearly; one rounding to fp32 follows. */
static void multiply(emu_thread *first, void *const requests[EMU_WARP]) {
    const mma_request *form = requests[0];
    mma_operands operands;
    doubles d[MMA_M];
    for (unsigned lane = 0; lane < EMU_WARP; lane++) {
        const mma_request *other = requests[lane];
        if (!other)
            emu_fault(first, form ? form->origin : 0, "mma.sync by a warp of %u threads; it needs 32", lane);
        if (other->type != form->type)
            emu_fault(&first[lane], other->origin, "mma.sync: lanes of one warp execute different forms of it");
    }
    gather(requests, form->type, &operands);
    for (unsigned row = 0; row < MMA_M; row++) {
        doubles sum = {0};
        for (unsigned k = 0; k < MMA_K; k++)
            sum += operands.a[row][k] * operands.b[k];
        d[row] = sum;
    }
    for (unsigned lane = 0; lane < EMU_WARP; lane++) {
        float *to = ((const mma_request *)requests[lane])->d;
        for (unsigned reg = 0; reg < 4; reg++) {
            struct layout_element at = layout_mma_d(lane, reg);
            to[reg] = (float)(to[reg] + d[at.row][at.column]);
        }
    }
    first->block->launch->multiplies += (uint64_t)MMA_M * MMA_N * MMA_K;
}

void emu_api_mma_m16n8k16(float *d, const emu_u32 *a, emu_u32 b0, emu_u32 b1, int type) {
    mma_request request = {d, a, {b0, b1}, type, EMU_ORIGIN};
    emu_warp_meet(emu_self(), (uint32_t)WHOLE_WARP, "mma.sync", false, &request, multiply, request.origin);
}
