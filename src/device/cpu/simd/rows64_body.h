/* Passes over rows of doubles (kernels.h), for any instruction set. Compilers map the vectors of 8 doubles to its
 * registers. The including file defines ISA(name). */

enum { WIDE = 8, GROUP = 4 };
typedef double wide __attribute__((vector_size(64), aligned(8), may_alias));

/* Passed by address: passing a vector wider than a register by value depends on compiler flags, and clang warns about
 * it. */
static inline double sum_wide(const wide *x)
{
    const wide v = *x;
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

/* One pass over `rows` <= GROUP rows. dots: y is computed; adds: z is computed. */
static inline __attribute__((always_inline)) void pass_group(size_t rows, bool dots, bool adds, size_t n,
                                                             const double *a, size_t lda, const double *x, double *y,
                                                             const double *w, double *z)
{
    wide sums[GROUP] = {0};
    size_t j = 0;
    for (; j + WIDE <= n; j += WIDE) {
        wide xj = {0}, zj = {0};
        if (dots) xj = *(const wide *)(x + j);
        if (adds) zj = *(const wide *)(z + j);
        _Pragma("GCC unroll 4") for (size_t r = 0; r < rows; r++)
        {
            wide aj = *(const wide *)(a + r * lda + j);
            if (dots) sums[r] += aj * xj;
            if (adds) zj += w[r] * aj;
        }
        if (adds) *(wide *)(z + j) = zj;
    }
    _Pragma("GCC unroll 4") for (size_t r = 0; r < rows; r++)
    {
        double rest = 0;
        for (size_t p = j; p < n; p++) {
            if (dots) rest += a[r * lda + p] * x[p];
            if (adds) z[p] += w[r] * a[r * lda + p];
        }
        if (dots) y[r] += sum_wide(&sums[r]) + rest;
    }
}

static inline __attribute__((always_inline)) void pass_rows(bool dots, bool adds, size_t rows, size_t n,
                                                            const double *a, size_t lda, const double *x, double *y,
                                                            const double *w, double *z)
{
    size_t r = 0;
    for (; r + GROUP <= rows; r += GROUP) pass_group(GROUP, dots, adds, n, a + r * lda, lda, x, y + r, w + r, z);
    for (; r < rows; r++) pass_group(1, dots, adds, n, a + r * lda, lda, x, y + r, w + r, z);
}

void ISA(dots64)(size_t rows, size_t n, const double *a, size_t lda, const double *x, double *y)
{
    pass_rows(true, false, rows, n, a, lda, x, y, y, y);
}

void ISA(combine64)(size_t rows, size_t n, const double *a, size_t lda, const double *w, double *z)
{
    pass_rows(false, true, rows, n, a, lda, z, z, w, z);
}

void ISA(dots_combine64)(size_t rows, size_t n, const double *a, size_t lda, const double *x, double *y,
                         const double *w, double *z)
{
    pass_rows(true, true, rows, n, a, lda, x, y, w, z);
}

/* The row that the next rotation changes again stays in registers. */
static inline __attribute__((always_inline)) void rotate_tile64(size_t vectors, size_t count,
                                                                const bo_rotation *rotations, double *x, size_t ldx)
{
    wide p[GROUP];
    _Pragma("GCC unroll 4") for (size_t v = 0; v < vectors; v++) p[v] = *(const wide *)(x + WIDE * v);
    for (size_t i = 0; i < count; i++, x += ldx) {
        double c = rotations[i].c, s = rotations[i].s;
        _Pragma("GCC unroll 4") for (size_t v = 0; v < vectors; v++)
        {
            wide q = *(const wide *)(x + ldx + WIDE * v);
            *(wide *)(x + WIDE * v) = c * p[v] + s * q;
            p[v] = c * q - s * p[v];
        }
    }
    _Pragma("GCC unroll 4") for (size_t v = 0; v < vectors; v++) * (wide *)(x + WIDE * v) = p[v];
}

void ISA(rotate_rows64)(size_t count, size_t n, const bo_rotation *rotations, double *x, size_t ldx)
{
    size_t j = 0;
    for (; j + GROUP * WIDE <= n; j += GROUP * WIDE) rotate_tile64(GROUP, count, rotations, x + j, ldx);
    for (; j + WIDE <= n; j += WIDE) rotate_tile64(1, count, rotations, x + j, ldx);
    for (; j < n; j++) {
        double p = x[j], *to = x + j;
        for (size_t i = 0; i < count; i++, to += ldx) {
            double c = rotations[i].c, s = rotations[i].s, q = to[ldx];
            *to = c * p + s * q;
            p = c * q - s * p;
        }
        *to = p;
    }
}
