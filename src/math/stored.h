/* Matrices stored in fewer bits than float32, line by line. Products that are limited by memory bandwidth then take
 * time proportional to the stored bytes.
 *   BFLOAT16   the upper halves of floats
 *   INT8       bytes in [-127, 127] with one scale per group of BO_S8_GROUP; the largest value of a group becomes 127.
 *              kernels.h describes the layout of a line.
 *   INT4       4-bit codes of values in a fixed table with one bfloat16 scale per group of BO_S4_GROUP; the scale and
 *              the codes of a group are chosen for the smallest squared error */
#ifndef BO_MATH_STORED_H
#define BO_MATH_STORED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum bo_stored {
    BO_STORED_FLOAT32 = 0,
    BO_STORED_BFLOAT16 = 1,
    BO_STORED_INT8 = 2,
    BO_STORED_INT4 = 3
} bo_stored;

struct bo_kernels;

/* Returns the bytes of a line: a multiple of 2, for INT8 a multiple of 4. Lines are consecutive in memory. */
size_t bo_stored_line(bo_stored stored, size_t columns);
/* True if lines have scales, so that the numbers of a line belong together. */
static inline bool bo_stored_has_scales(bo_stored stored)
{
    return stored == BO_STORED_INT8 || stored == BO_STORED_INT4;
}

void bo_stored_write(const struct bo_kernels *kernels, bo_stored stored, size_t columns, const float *x, void *line);
/* Reads `count` numbers of a line, starting at `first`. */
void bo_stored_read(const struct bo_kernels *kernels, bo_stored stored, size_t columns, const void *line, size_t first,
                    size_t count, float *out);
/* bo_pack_f32 (panel.h) with `along`, for `lines` lines of `columns` numbers, starting at depth `first`. */
void bo_stored_pack(const struct bo_kernels *kernels, bo_stored stored, size_t width, size_t lines, size_t columns,
                    size_t first, size_t k, const void *source, float *target);
/* The same for slivers of bfloat16 numbers (pack_b of device/cpu/bf16.h). */
void bo_stored_pack_bf16(const struct bo_kernels *kernels, bo_stored stored, size_t lines, size_t columns, size_t first,
                         size_t k, const void *source, uint16_t *target);

#endif
