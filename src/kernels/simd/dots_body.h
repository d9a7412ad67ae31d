/* Products of few rows with a matrix that comes from memory, in the vector vocabulary of the includer. */

enum {
    DOTS_SUMS = 4,    /* of a product at once: as many as hide the latency of one */
    DOTS_LINES = 8,   /* of long ones at once */
    DOTS_LONG = 2048, /* numbers: a longer row does not stay in the first-level cache beside a line */
};

/* A line with one row or two. Line after line, so that memory is read in the order in which it lies: several lines at a
 * time come in at half the speed. */
static inline __attribute__((always_inline)) void dots_line(size_t rows, size_t n, const float *w, const float *x,
                                                            size_t ldx, float *out, size_t ldo)
{
    v sum[2][DOTS_SUMS];
    for (size_t r = 0; r < rows; r++)
        for (size_t s = 0; s < DOTS_SUMS; s++) sum[r][s] = v_set(0.0f);
    size_t i = 0;
    for (; i + DOTS_SUMS * LANES <= n; i += DOTS_SUMS * LANES) {
        for (size_t s = 0; s < DOTS_SUMS; s++) {
            v line = v_load(w + i + s * LANES);
            for (size_t r = 0; r < rows; r++) sum[r][s] = v_fma(line, v_load(x + r * ldx + i + s * LANES), sum[r][s]);
        }
    }
    for (; i + LANES <= n; i += LANES) {
        v line = v_load(w + i);
        for (size_t r = 0; r < rows; r++) sum[r][0] = v_fma(line, v_load(x + r * ldx + i), sum[r][0]);
    }
    if (i < n) {
        v line = v_load_part(w + i, n - i);
        for (size_t r = 0; r < rows; r++) sum[r][1] = v_fma(line, v_load_part(x + r * ldx + i, n - i), sum[r][1]);
    }
    for (size_t r = 0; r < rows; r++)
        out[r * ldo] = v_sum(v_add(v_add(sum[r][0], sum[r][1]), v_add(sum[r][2], sum[r][3])));
}

/* Long lines, some at a time: the row comes from the second-level cache once for all of them. */
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
