/* Products without repeats (kernels.h) in the vector operations of the including file. */

void ISA(triangle)(size_t n, const float *a, const float *t, float head, float diagonal, float off_diagonal, float *out)
{
    for (size_t i = 0; i < n; out += n - i, i++) {
        size_t count = n - i, j = 0;
        v factor = v_set(off_diagonal * a[i]);
        for (; j + LANES <= count; j += LANES) v_store(out + j, v_mul(factor, v_load(t + i + j)));
        if (j < count) v_store_part(out + j, count - j, v_mul(factor, v_load_part(t + i + j, count - j)));
        out[0] = (i ? diagonal : head) * a[i] * t[i];
    }
}

/* Returns the index at which row i starts. */
static inline size_t row_start(size_t n, size_t i)
{
    return i * (2 * n - i + 1) / 2;
}

/* Processes LANES rows starting at `first` and LANES columns starting at `column`, of which `width` exist: sum[i] += g
 * t per lane; returns Σ a_i g_i. On the diagonal (column = first) row i starts at lane i; the memory before lane i
 * belongs to other rows. */
static inline __attribute__((always_inline)) v tile(size_t n, size_t first, size_t column, size_t width, const float *a,
                                                    const float *g, v t, v sum[LANES], size_t rows, bool diagonal)
{
    v down = v_set(0.0f);
    const float *row = g + row_start(n, first) + (column - first);
    _Pragma("GCC unroll 16") for (size_t i = 0; i < LANES; i++)
    {
        if (i == rows) break;
        v value = width == LANES ? v_load(row) : v_load_part(row, width);
        if (diagonal) value = v_part(i, v_set(0.0f), value);
        sum[i] = v_fma(value, t, sum[i]);
        down = v_fma(v_set(a[first + i]), value, down);
        row += n - first - i - 1;
    }
    return down;
}

static inline v load_block(const float *p, size_t n)
{
    return n == LANES ? v_load(p) : v_load_part(p, n);
}

/* Computes y[i] += x[i] for the first n <= LANES elements. */
static inline void add_block(size_t n, v x, float *y)
{
    if (n == LANES)
        v_store(y, v_add(x, v_load(y)));
    else
        v_store_part(y, n, v_add(x, v_load_part(y, n)));
}

static inline v sum_of_rows(v sum[LANES])
{
    v_transpose(sum);
    v total = sum[0];
    _Pragma("GCC unroll 15") for (int i = 1; i < LANES; i++) total = v_add(total, sum[i]);
    return total;
}

/* Returns the diagonal of `rows` rows, starting at row `first`. */
static inline v diagonal_of(size_t n, size_t first, size_t rows, const float *g)
{
    float corner[LANES];
    const float *at = g + row_start(n, first);
    for (size_t i = 0; i < rows; at += n - first - i, i++) corner[i] = *at;
    return load_block(corner, rows);
}

/* Processes tiles as if the diagonal also had the factor `off_diagonal`, then adds the difference on the diagonal. */
void ISA(triangle_back)(size_t n, const float *a, const float *t, float head, float diagonal, float off_diagonal,
                        const float *g, float *da, float *dt)
{
    v factor = v_set(off_diagonal);
    for (size_t first = 0; first < n; first += LANES) {
        size_t rows = n - first < LANES ? n - first : LANES, column = first + LANES;
        v sum[LANES], more = v_set(diagonal - off_diagonal), t_block = load_block(t + first, rows);
        _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) sum[i] = v_set(0.0f);
        if (first == 0) more = v_part(1, v_set(head - off_diagonal), more);
        more = v_mul(more, diagonal_of(n, first, rows, g));
        v down = tile(n, first, first, rows, a, g, t_block, sum, rows, true);
        add_block(rows, v_fma(more, load_block(a + first, rows), v_mul(factor, down)), dt + first);
        for (; column + LANES <= n; column += LANES) {
            down = tile(n, first, column, LANES, a, g, v_load(t + column), sum, LANES, false);
            add_block(LANES, v_mul(factor, down), dt + column);
        }
        if (column < n) {
            down = tile(n, first, column, n - column, a, g, v_load_part(t + column, n - column), sum, LANES, false);
            add_block(n - column, v_mul(factor, down), dt + column);
        }
        add_block(rows, v_fma(more, t_block, v_mul(factor, sum_of_rows(sum))), da + first);
    }
}
