/* Fourier transforms of 16 channels and products of spectra, in the vector operations of the including file; include
 * after systems_body.h. Radix 4 with decimation in frequency in the forward transform and in time in the inverse. Each
 * reverses the order of the other, so that rows need not be reordered between them. The recursion is depth-first, so
 * that parts soon fit in the cache. */

INLINE cv cv_sub(cv a, cv b)
{
    return (cv){v_sub(a.re, b.re), v_sub(a.im, b.im)};
}

/* i a */
INLINE cv cv_turn(cv a)
{
    return (cv){v_sub(v_set(0.0f), a.im), a.re};
}

INLINE cv root(const float *roots, size_t k)
{
    return (cv){v_set(roots[2 * k]), v_set(roots[2 * k + 1])};
}

INLINE void halves(float *x)
{
    cv a = cv_load(x), b = cv_load(x + PAIR);
    cv_store(x, cv_add(a, b));
    cv_store(x + PAIR, cv_sub(a, b));
}

/* Combines row k of each quarter: x_0 ± x_2 and x_1 ± x_3, then their sums and differences. Quarters 1, 2, 3 then hold
 * the frequencies 2, 1, 3 modulo 4. */
INLINE void quarters(float *x, size_t quarter, cv w1, cv w2, cv w3)
{
    float *at[4] = {x, x + quarter * PAIR, x + 2 * quarter * PAIR, x + 3 * quarter * PAIR};
    cv x0 = cv_load(at[0]), x1 = cv_load(at[1]), x2 = cv_load(at[2]), x3 = cv_load(at[3]);
    cv even = cv_add(x0, x2), odd = cv_add(x1, x3), left = cv_sub(x0, x2), turned = cv_turn(cv_sub(x1, x3));
    cv_store(at[0], cv_add(even, odd));
    cv_store(at[1], cv_fma(w2, cv_sub(even, odd), cv_zero()));
    cv_store(at[2], cv_fma(w1, cv_sub(left, turned), cv_zero()));
    cv_store(at[3], cv_fma(w3, cv_add(left, turned), cv_zero()));
}

INLINE void quarters_back(float *x, size_t quarter, cv w1, cv w2, cv w3)
{
    float *at[4] = {x, x + quarter * PAIR, x + 2 * quarter * PAIR, x + 3 * quarter * PAIR};
    cv x0 = cv_load(at[0]), x1 = cv_conj_fma(w2, cv_load(at[1]), cv_zero());
    cv x2 = cv_conj_fma(w1, cv_load(at[2]), cv_zero()), x3 = cv_conj_fma(w3, cv_load(at[3]), cv_zero());
    cv even = cv_add(x0, x1), odd = cv_sub(x0, x1), left = cv_add(x2, x3), turned = cv_turn(cv_sub(x2, x3));
    cv_store(at[0], cv_add(even, left));
    cv_store(at[1], cv_add(odd, turned));
    cv_store(at[2], cv_sub(even, left));
    cv_store(at[3], cv_sub(odd, turned));
}

/* The roots of order n are every stride-th element of roots. */
static void spread(size_t n, size_t stride, const float *roots, float *x)
{
    size_t quarter = n / 4;
    if (n == 2) halves(x);
    if (n < 4) return;
    for (size_t k = 0; k < quarter; k++)
        quarters(x + k * PAIR, quarter, root(roots, k * stride), root(roots, 2 * k * stride),
                 root(roots, 3 * k * stride));
    for (size_t part = 0; part < 4; part++) spread(quarter, 4 * stride, roots, x + part * quarter * PAIR);
}

static void unite(size_t n, size_t stride, const float *roots, float *x)
{
    size_t quarter = n / 4;
    if (n == 2) halves(x);
    if (n < 4) return;
    for (size_t part = 0; part < 4; part++) unite(quarter, 4 * stride, roots, x + part * quarter * PAIR);
    for (size_t k = 0; k < quarter; k++)
        quarters_back(x + k * PAIR, quarter, root(roots, k * stride), root(roots, 2 * k * stride),
                      root(roots, 3 * k * stride));
}

static void fourier(size_t n, const float *roots, float *x)
{
    for (size_t l = 0; l < BO_CHANNELS; l += LANES) spread(n, 1, roots, x + l);
}

static void fourier_back(size_t n, const float *roots, float *x)
{
    for (size_t l = 0; l < BO_CHANNELS; l += LANES) unite(n, 1, roots, x + l);
}

static void multiply(size_t rows, const float *a, const float *b, bool conjugate, bool add, float *z)
{
    for (size_t l = 0; l < BO_CHANNELS; l += LANES)
        for (size_t i = l; i < rows * PAIR; i += PAIR) {
            cv sum = add ? cv_load(z + i) : cv_zero();
            cv left = cv_load(a + i), right = cv_load(b + i);
            cv_store(z + i, conjugate ? cv_conj_fma(right, left, sum) : cv_fma(right, left, sum));
        }
}
