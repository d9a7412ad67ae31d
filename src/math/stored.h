/* Matrices kept in fewer bits than float32, line by line: what is multiplied with from memory costs what its bytes cost.
 *
 *   BFLOAT16   the upper halves of floats
 *   INT8       bytes in [-127, 127] with a scale for each group of BO_S8_GROUP, the largest of a group being 127
 *              (kernels.h says how a line lies) */
#ifndef BO_MATH_STORED_H
#define BO_MATH_STORED_H

#include <stddef.h>

typedef enum bo_stored { BO_STORED_FLOAT32 = 0, BO_STORED_BFLOAT16 = 1, BO_STORED_INT8 = 2 } bo_stored;

struct bo_kernels;

/* Bytes of a line; a multiple of 2, of INT8 of 4. Lines lie one after the other. */
size_t bo_stored_line(bo_stored stored, size_t columns);
void bo_stored_write(const struct bo_kernels *kernels, bo_stored stored, size_t columns, const float *x, void *line);
/* `count` numbers of a line from the one at `first` on. */
void bo_stored_read(const struct bo_kernels *kernels, bo_stored stored, size_t columns, const void *line, size_t first,
                    size_t count, float *out);
/* bo_pack_f32 (panel.h) of `lines` lines along, from depth `first` on, of lines of `columns` numbers. */
void bo_stored_pack(const struct bo_kernels *kernels, bo_stored stored, size_t width, size_t lines, size_t columns,
                    size_t first, size_t k, const void *source, float *target);

#endif
