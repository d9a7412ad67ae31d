/* Products of few rows with a matrix that is read from memory, in the vector operations of the including file. */

enum {
    DOTS_LINES = 8,   /* long lines per iteration */
    DOTS_LONG = 2048, /* elements; a longer row and a line do not fit together in the L1 cache */
};

#define DOTS_LINE      dots_line
#define DOTS_NUMBER    float
#define DOTS_LOAD      v_load
#define DOTS_LOAD_PART v_load_part
#include "dots_line.h"

/* Processes several long lines at a time, so that the row is read from the second-level cache once for all of them. */
static inline __attribute__((always_inline)) void dots_long(size_t lines, size_t n, const float *w, size_t ldw,
                                                            const float *x, float *out)
{
    v sum[DOTS_LINES];
    for (size_t j = 0; j < lines; j++) sum[j] = v_set(0.0f);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        v row = v_load(x + i);
        for (size_t j = 0; j < lines; j++) sum[j] = v_fma(v_load(w + j * ldw + i), row, sum[j]);
    }
    for (size_t j = 0; j < lines; j++) {
        if (i < n) sum[j] = v_fma(v_load_part(w + j * ldw + i, n - i), v_load_part(x + i, n - i), sum[j]);
        out[j] = v_sum(sum[j]);
    }
}

static void dots_all_long(size_t lines, size_t rows, size_t n, const float *w, size_t ldw, const float *x, size_t ldx,
                          float *out, size_t ldo)
{
    size_t j = 0;
    for (; j + DOTS_LINES <= lines; j += DOTS_LINES)
        for (size_t r = 0; r < rows; r++) dots_long(DOTS_LINES, n, w + j * ldw, ldw, x + r * ldx, out + r * ldo + j);
    for (; j < lines; j++)
        for (size_t r = 0; r < rows; r++) dots_long(1, n, w + j * ldw, ldw, x + r * ldx, out + r * ldo + j);
}

void ISA(dots)(size_t lines, size_t rows, size_t n, const float *w, size_t ldw, const float *x, size_t ldx, float *out,
               size_t ldo)
{
    if (n > DOTS_LONG) {
        dots_all_long(lines, rows, n, w, ldw, x, ldx, out, ldo);
        return;
    }
    for (size_t j = 0; j < lines; j++) {
        size_t r = 0;
        for (; r + 2 <= rows; r += 2) dots_line(2, n, w + j * ldw, x + r * ldx, ldx, out + r * ldo + j, ldo);
        if (r < rows) dots_line(1, n, w + j * ldw, x + r * ldx, ldx, out + r * ldo + j, ldo);
    }
}
