/* DOTS_LINE, the product of a line that is read from memory with few rows. The elements of the line have type
 * DOTS_NUMBER; DOTS_LOAD loads a vector, and DOTS_LOAD_PART loads fewer than LANES elements. */

enum { DOTS_SUMS = 4 }; /* partial sums per product: enough to hide the latency of an addition */

/* Multiplies a line with one or two rows. Lines are processed one after the other, so that memory is read sequentially;
 * several lines at a time are read at half the speed. */
static inline __attribute__((always_inline)) void DOTS_LINE(size_t rows, size_t n, const DOTS_NUMBER *w, const float *x,
                                                            size_t ldx, float *out, size_t ldo)
{
    v sum[2][DOTS_SUMS];
    for (size_t r = 0; r < rows; r++)
        for (size_t s = 0; s < DOTS_SUMS; s++) sum[r][s] = v_set(0.0f);
    size_t i = 0;
    for (; i + DOTS_SUMS * LANES <= n; i += DOTS_SUMS * LANES) {
        bo_fetch_ahead(w + i, DOTS_SUMS * LANES * sizeof *w);
        for (size_t s = 0; s < DOTS_SUMS; s++) {
            v line = DOTS_LOAD(w + i + s * LANES);
            for (size_t r = 0; r < rows; r++) sum[r][s] = v_fma(line, v_load(x + r * ldx + i + s * LANES), sum[r][s]);
        }
    }
    for (; i + LANES <= n; i += LANES) {
        bo_fetch_ahead(w + i, LANES * sizeof *w);
        v line = DOTS_LOAD(w + i);
        for (size_t r = 0; r < rows; r++) sum[r][0] = v_fma(line, v_load(x + r * ldx + i), sum[r][0]);
    }
    if (i < n) {
        v line = DOTS_LOAD_PART(w + i, n - i);
        for (size_t r = 0; r < rows; r++) sum[r][1] = v_fma(line, v_load_part(x + r * ldx + i, n - i), sum[r][1]);
    }
    for (size_t r = 0; r < rows; r++)
        out[r * ldo] = v_sum(v_add(v_add(sum[r][0], sum[r][1]), v_add(sum[r][2], sum[r][3])));
}

#undef DOTS_LINE
#undef DOTS_NUMBER
#undef DOTS_LOAD
#undef DOTS_LOAD_PART
