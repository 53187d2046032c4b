/* Which element of a matrix each register of each thread holds: mma.sync, ldmatrix and stmatrix, wgmma. All build on
 * one 8 x 8 piece, in which a lane has two neighbours of one row. */
#include "layout.h"

/* Row and first column that a lane holds of an 8 x 8 piece. */
static struct layout_element piece(unsigned lane) {
    return (struct layout_element){lane / 4, lane % 4 * 2};
}

struct layout_element layout_wgmma_d(unsigned thread, unsigned reg) {
    struct layout_element element = piece(thread % 32);
    element.row += thread / 32 * 16 + reg / 2 % 2 * 8;
    element.column += reg / 4 * 8 + reg % 2;
    return element;
}

void layout_wgmma_d_register(unsigned row, unsigned column, unsigned *thread, unsigned *reg) {
    *thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
    *reg = column / 8 * 4 + row / 8 % 2 * 2 + column % 2;
}

/* tf32: four columns, one a register, where 16-bit types have eight in pairs. */
struct layout_element layout_wgmma_a(unsigned element_bytes, unsigned thread, unsigned reg, unsigned half) {
    struct layout_element element = layout_mma_a(thread % 32, reg, half);
    if (element_bytes == 4)
        element.column = thread % 4 + reg / 2 * 4;
    element.row += thread / 32 * 16;
    return element;
}

struct layout_element layout_mma_a(unsigned lane, unsigned reg, unsigned half) {
    struct layout_element element = piece(lane);
    element.row += reg % 2 * 8;
    element.column += reg / 2 * 8 + half;
    return element;
}

struct layout_element layout_mma_b(unsigned lane, unsigned reg, unsigned half) {
    struct layout_element element = piece(lane); /* of B transposed */
    return (struct layout_element){element.column + reg * 8 + half, element.row};
}

struct layout_element layout_mma_d(unsigned lane, unsigned reg) {
    struct layout_element element = piece(lane);
    element.row += reg / 2 * 8;
    element.column += reg % 2;
    return element;
}

struct layout_element layout_matrix_element(unsigned lane, unsigned half, bool transpose) {
    struct layout_element element = piece(lane);
    element.column += half;
    return transpose ? (struct layout_element){element.column, element.row} : element;
}
