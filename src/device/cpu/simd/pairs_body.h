/* Distances of pairs of rows, functions of them and sums of their gradients (kernels.h) in the vector operations of the
 * including file. Vectors hold neighboring rows of a panel. Small differences of the inputs are exact, so there is no
 * cancellation: equal rows have distance 0. Requires vector_body.h. */

enum { PAIR_ROWS = 4, PAIR_VECTORS = 2 }; /* sums in registers: at least eight chains hide the latency of additions */

static inline __attribute__((always_inline)) v pair_step(bo_distance distance, bool weighted, v difference, v weight,
                                                         v sum)
{
    if (distance == BO_DISTANCE_ABSOLUTES)
        return weighted ? v_fma(weight, v_size(difference), sum) : v_add(sum, v_size(difference));
    v other = weighted ? v_mul(weight, difference) : difference;
    if (distance == BO_DISTANCE_SQUARES) return v_fma(other, difference, sum);
    return v_mul(sum, v_fma(other, difference, v_set(1.0f)));
}

/* Writes lanes [column, column + LANES) of a row of `columns` elements. */
static inline void store_columns(float *out, size_t column, size_t columns, v x)
{
    if (column + LANES <= columns)
        v_store(out + column, x);
    else if (column < columns)
        v_store_part(out + column, columns - column, x);
}

static inline __attribute__((always_inline)) void distance_tile(bo_distance distance, bool weighted, size_t rows,
                                                                size_t column, size_t columns, size_t dim,
                                                                const float *x, size_t ldx, const float *weight,
                                                                const float *panel, float *out, size_t ldo)
{
    v sum[PAIR_ROWS][PAIR_VECTORS], start = v_set(distance == BO_DISTANCE_PRODUCT ? 1.0f : 0.0f), w = start;
    _Pragma("GCC unroll 4") for (size_t i = 0; i < rows; i++)
        _Pragma("GCC unroll 2") for (size_t l = 0; l < PAIR_VECTORS; l++) sum[i][l] = start;
    for (size_t p = 0; p < dim; p++) {
        v y[PAIR_VECTORS];
        if (weighted) w = v_set(weight[p]);
        _Pragma("GCC unroll 2") for (size_t l = 0; l < PAIR_VECTORS; l++) y[l] =
            v_load(panel + p * BO_PAIR_ROWS + column + l * LANES);
        _Pragma("GCC unroll 4") for (size_t i = 0; i < rows; i++)
        {
            v at = v_set(x[i * ldx + p]);
            _Pragma("GCC unroll 2") for (size_t l = 0; l < PAIR_VECTORS; l++) sum[i][l] =
                pair_step(distance, weighted, v_sub(at, y[l]), w, sum[i][l]);
        }
    }
    _Pragma("GCC unroll 4") for (size_t i = 0; i < rows; i++)
        _Pragma("GCC unroll 2") for (size_t l = 0; l < PAIR_VECTORS; l++)
            store_columns(out + i * ldo, column + l * LANES, columns, sum[i][l]);
}

static inline __attribute__((always_inline)) void distance_rows(bo_distance distance, bool weighted, size_t rows,
                                                                size_t columns, size_t dim, const float *x, size_t ldx,
                                                                const float *weight, const float *panel, float *out,
                                                                size_t ldo)
{
    for (size_t column = 0; column < columns; column += PAIR_VECTORS * LANES) {
        size_t i = 0;
        for (; i + PAIR_ROWS <= rows; i += PAIR_ROWS)
            distance_tile(distance, weighted, PAIR_ROWS, column, columns, dim, x + i * ldx, ldx, weight, panel,
                          out + i * ldo, ldo);
        for (; i < rows; i++)
            distance_tile(distance, weighted, 1, column, columns, dim, x + i * ldx, ldx, weight, panel, out + i * ldo,
                          ldo);
    }
}

void ISA(distances)(bo_distance distance, size_t rows, size_t columns, size_t dim, const float *x, size_t ldx,
                    const float *weight, const float *panel, float *out, size_t ldo)
{
    if (distance == BO_DISTANCE_SQUARES && weight)
        distance_rows(BO_DISTANCE_SQUARES, true, rows, columns, dim, x, ldx, weight, panel, out, ldo);
    else if (distance == BO_DISTANCE_SQUARES)
        distance_rows(BO_DISTANCE_SQUARES, false, rows, columns, dim, x, ldx, weight, panel, out, ldo);
    else if (distance == BO_DISTANCE_ABSOLUTES && weight)
        distance_rows(BO_DISTANCE_ABSOLUTES, true, rows, columns, dim, x, ldx, weight, panel, out, ldo);
    else if (distance == BO_DISTANCE_ABSOLUTES)
        distance_rows(BO_DISTANCE_ABSOLUTES, false, rows, columns, dim, x, ldx, weight, panel, out, ldo);
    else if (weight)
        distance_rows(BO_DISTANCE_PRODUCT, true, rows, columns, dim, x, ldx, weight, panel, out, ldo);
    else
        distance_rows(BO_DISTANCE_PRODUCT, false, rows, columns, dim, x, ldx, weight, panel, out, ldo);
}

/* exp(-a) for a >= 0, as in exp_below_vector, and 0 beyond BO_RADIAL_DEPTH. */
static inline v exp_minus(v a)
{
    v t = v_sub(v_set(0.0f), a), n = exp_whole(t), r = v_fnma(n, v_set(0x1.62e43p-1f), t);
    return v_scale_above(v_add(exp_rest(r), v_set(1.0f)), n, t, -BO_RADIAL_DEPTH);
}

/* x / s, or 0 where s is beyond exp(BO_RADIAL_DEPTH) */
static inline v reciprocal(float x, v s)
{
    return v_flush(v_div(v_set(x), s), v_sub(v_set(0.0f), s), -BO_RADIAL_LARGEST, 0.0f);
}

/* Beyond 100 the exponential is 0; the limit prevents inf times 0. NaN stays NaN. */
static inline v root_of(v scale, v s)
{
    return v_min(v_set(100.0f), v_mul(scale, v_sqrt(s)));
}

/* (1 + u)^-power; log(1 + u) = log t + (u - (t - 1)) / t with t = 1 + u rounded keeps the digits of small u. */
static inline v rational_power(v u, v power)
{
    v one = v_set(1.0f), t = v_add(one, u);
    v log1p = v_add(log_size_vector(t), v_div(v_sub(u, v_sub(t, one)), t));
    return exp_minus(v_mul(power, log1p));
}

static inline __attribute__((always_inline)) v radial_vector(bo_radial_form form, v scale, v power, v s)
{
    v one = v_set(1.0f), a;
    switch (form) {
    case BO_RADIAL_EXP:
        return exp_minus(v_mul(scale, s));
    case BO_RADIAL_ROOT:
        return exp_minus(root_of(scale, s));
    case BO_RADIAL_MATERN32:
        a = root_of(scale, s);
        return v_mul(v_add(one, a), exp_minus(a));
    case BO_RADIAL_MATERN52:
        a = root_of(scale, s);
        return v_mul(v_fma(v_mul(a, v_set(0x1.555556p-2f)), a, v_add(one, a)), exp_minus(a));
    case BO_RADIAL_RATIONAL: /* the limit keeps the logarithm in its range */
        return rational_power(v_min(v_set(1e37f), v_mul(scale, s)), power);
    default:
        return reciprocal(1.0f, s);
    }
}

static inline __attribute__((always_inline)) v derivative_vector(bo_radial_form form, v scale, v power, v s)
{
    v half = v_mul(scale, v_set(-0.5f)), root, a;
    switch (form) {
    case BO_RADIAL_EXP:
        return v_mul(v_sub(v_set(0.0f), scale), exp_minus(v_mul(scale, s)));
    case BO_RADIAL_ROOT:
        root = v_sqrt(s);
        a = v_min(v_set(100.0f), v_mul(scale, root));
        return v_choose_beyond(s, 0.0f, v_set(0.0f), v_mul(v_div(half, root), exp_minus(a)));
    case BO_RADIAL_MATERN32:
        return v_mul(v_mul(half, scale), exp_minus(root_of(scale, s)));
    case BO_RADIAL_MATERN52:
        a = root_of(scale, s);
        a = v_mul(v_add(v_set(1.0f), a), exp_minus(a));
        return v_mul(v_mul(half, v_mul(scale, v_set(0x1.555556p-2f))), a);
    case BO_RADIAL_RATIONAL:
        a = v_min(v_set(1e37f), v_mul(scale, s));
        return v_mul(v_mul(v_sub(v_set(0.0f), scale), power), v_div(rational_power(a, power), v_add(v_set(1.0f), a)));
    default:
        return reciprocal(-1.0f, s);
    }
}

static inline __attribute__((always_inline)) void radial_loop(bo_radial_form form, const bo_radial *radial,
                                                              bool derivative, size_t n, const float *s, float *y)
{
    v scale = v_set(radial->scale), power = v_set(radial->power);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        v at = v_load(s + i);
        v_store(y + i, derivative ? derivative_vector(form, scale, power, at) : radial_vector(form, scale, power, at));
    }
    if (i < n) {
        v at = v_load_part(s + i, n - i);
        v_store_part(y + i, n - i,
                     derivative ? derivative_vector(form, scale, power, at) : radial_vector(form, scale, power, at));
    }
}

static inline __attribute__((always_inline)) void radial_forms(const bo_radial *radial, bool derivative, size_t n,
                                                               const float *s, float *y)
{
    switch (radial->form) {
    case BO_RADIAL_EXP:
        radial_loop(BO_RADIAL_EXP, radial, derivative, n, s, y);
        break;
    case BO_RADIAL_ROOT:
        radial_loop(BO_RADIAL_ROOT, radial, derivative, n, s, y);
        break;
    case BO_RADIAL_MATERN32:
        radial_loop(BO_RADIAL_MATERN32, radial, derivative, n, s, y);
        break;
    case BO_RADIAL_MATERN52:
        radial_loop(BO_RADIAL_MATERN52, radial, derivative, n, s, y);
        break;
    case BO_RADIAL_RATIONAL:
        radial_loop(BO_RADIAL_RATIONAL, radial, derivative, n, s, y);
        break;
    case BO_RADIAL_RECIPROCAL:
        radial_loop(BO_RADIAL_RECIPROCAL, radial, derivative, n, s, y);
        break;
    }
}

void ISA(radial)(const bo_radial *radial, size_t n, const float *s, float *y)
{
    radial_forms(radial, false, n, s, y);
}

void ISA(radial_derivative)(const bo_radial *radial, size_t n, const float *s, float *y)
{
    radial_forms(radial, true, n, s, y);
}

/* The sign of d is d 2^127 cut to [-1, 1], which is exact if |d| >= 2^-127. */
static inline __attribute__((always_inline)) v pair_direction(bo_distance distance, v difference, v weight)
{
    if (distance == BO_DISTANCE_SQUARES) return difference;
    if (distance == BO_DISTANCE_ABSOLUTES)
        return v_min(v_set(1.0f), v_max(v_set(-1.0f), v_mul(difference, v_set(0x1p127f))));
    return v_div(difference, v_fma(v_mul(weight, difference), difference, v_set(1.0f)));
}

static inline __attribute__((always_inline)) void pair_sums_of(bo_distance distance, size_t dim, const float *x,
                                                               const float *weight, const float *panel,
                                                               const float *factor, float *sums)
{
    enum { PARTS = BO_PAIR_LANES / LANES, VECTORS = BO_PAIR_ROWS / LANES };
    v f[VECTORS], w = v_set(1.0f);
    _Pragma("GCC unroll 16") for (size_t l = 0; l < VECTORS; l++) f[l] = v_load(factor + l * LANES);
    for (size_t p = 0; p < dim; p++, panel += BO_PAIR_ROWS, sums += BO_PAIR_LANES) {
        v at = v_set(x[p]), sum[PARTS];
        if (weight) w = v_set(weight[p]);
        _Pragma("GCC unroll 4") for (size_t l = 0; l < PARTS; l++) sum[l] = v_load(sums + l * LANES);
        _Pragma("GCC unroll 16") for (size_t l = 0; l < VECTORS; l++)
        {
            v h = pair_direction(distance, v_sub(at, v_load(panel + l * LANES)), w);
            sum[l % PARTS] = v_fma(f[l], h, sum[l % PARTS]);
        }
        _Pragma("GCC unroll 4") for (size_t l = 0; l < PARTS; l++) v_store(sums + l * LANES, sum[l]);
    }
}

void ISA(pair_sums)(bo_distance distance, size_t dim, const float *x, const float *weight, const float *panel,
                    const float *factor, float *sums)
{
    if (distance == BO_DISTANCE_SQUARES)
        pair_sums_of(BO_DISTANCE_SQUARES, dim, x, NULL, panel, factor, sums);
    else if (distance == BO_DISTANCE_ABSOLUTES)
        pair_sums_of(BO_DISTANCE_ABSOLUTES, dim, x, NULL, panel, factor, sums);
    else
        pair_sums_of(BO_DISTANCE_PRODUCT, dim, x, weight, panel, factor, sums);
}
