/* Rotations of rows of doubles (kernels.h), for any instruction set. Compilers map the vectors of 8 doubles to its
 * registers. The including file defines ISA(name). */

enum { WIDE = 8, TILE = 4 };
typedef double wide __attribute__((vector_size(64), aligned(8), may_alias));

/* Rotates `vectors` <= TILE vectors of columns; their part of the row stays in registers. */
static inline __attribute__((always_inline)) void rotate_tile(size_t vectors, size_t count, const double *c,
                                                              const double *s, double *row, double *y, size_t ldy,
                                                              size_t outputs, const double *z, double *w, size_t ldw)
{
    wide a[TILE];
    _Pragma("GCC unroll 4") for (size_t i = 0; i < vectors; i++) a[i] = *(const wide *)(row + WIDE * i);
    for (size_t t = 0; t < count; t++, y += ldy) {
        const double cosine = c[t], sine = s[t]; /* copies: stores to y might change c and s */
        _Pragma("GCC unroll 4") for (size_t i = 0; i < vectors; i++)
        {
            wide b = *(const wide *)(y + WIDE * i), next = cosine * a[i] + sine * b;
            *(wide *)(y + WIDE * i) = cosine * b - sine * a[i];
            a[i] = next;
        }
        for (size_t g = 0; g < outputs; g++, z++, w += ldw) {
            const double share = *z;
            _Pragma("GCC unroll 4") for (size_t i = 0; i < vectors; i++)
            {
                wide *at = (wide *)(w + WIDE * i);
                *at = *at - share * a[i];
            }
        }
    }
    _Pragma("GCC unroll 4") for (size_t i = 0; i < vectors; i++) * (wide *)(row + WIDE * i) = a[i];
}

void ISA(rotate)(size_t n, size_t count, const double *c, const double *s, double *row, double *y, size_t ldy,
                 size_t outputs, const double *z, double *w, size_t ldw)
{
    size_t j = 0;
    for (; j + TILE * WIDE <= n; j += TILE * WIDE)
        rotate_tile(TILE, count, c, s, row + j, y + j, ldy, outputs, z, w + j, ldw);
    /* the remaining vectors together, since the rotations of a single vector depend on each other */
    switch ((n - j) / WIDE) {
    case 1:
        rotate_tile(1, count, c, s, row + j, y + j, ldy, outputs, z, w + j, ldw);
        break;
    case 2:
        rotate_tile(2, count, c, s, row + j, y + j, ldy, outputs, z, w + j, ldw);
        break;
    case 3:
        rotate_tile(3, count, c, s, row + j, y + j, ldy, outputs, z, w + j, ldw);
        break;
    default:
        break;
    }
}
