/* Linear systems of 16 channels in the vector operations of the including file, which defines how many modes fit in its
 * registers: MODES in the forward pass, MODES_BACK in the backward pass. */

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

enum { ROW = BO_CHANNELS, PAIR = BO_COMPLEX_ROW };

/* A complex vector. */
typedef struct cv {
    v re, im;
} cv;

INLINE cv cv_load(const float *x)
{
    return (cv){v_load(x), v_load(x + ROW)};
}

INLINE void cv_store(float *x, cv a)
{
    v_store(x, a.re);
    v_store(x + ROW, a.im);
}

INLINE cv cv_zero(void)
{
    return (cv){v_set(0.0f), v_set(0.0f)};
}

/* sum + a b, and sum + conj(a) b */
INLINE cv cv_fma(cv a, cv b, cv sum)
{
    return (cv){v_fnma(a.im, b.im, v_fma(a.re, b.re, sum.re)), v_fma(a.im, b.re, v_fma(a.re, b.im, sum.im))};
}

INLINE cv cv_conj_fma(cv a, cv b, cv sum)
{
    return (cv){v_fma(a.im, b.im, v_fma(a.re, b.re, sum.re)), v_fnma(a.im, b.re, v_fma(a.re, b.im, sum.im))};
}

INLINE cv cv_add(cv a, cv b)
{
    return (cv){v_add(a.re, b.re), v_add(a.im, b.im)};
}

/* *x += a */
INLINE void cv_gather(float *x, cv a)
{
    cv_store(x, cv_add(cv_load(x), a));
}

/* ---- independent modes ------------------------------------------------------------------------------------------- */

INLINE cv next_mode(cv mu, cv s, v u)
{
    return cv_add(s, cv_fma(mu, s, (cv){u, v_set(0.0f)}));
}

INLINE void run_modes(size_t modes, const float *mu, const float *c, size_t tokens, float *s, const float *u, float *y)
{
    cv m[MODES], w[MODES], x[MODES];
    UNROLLED for (size_t i = 0; i < modes; i++)
    {
        m[i] = cv_load(mu + i * PAIR), w[i] = cv_load(c + i * PAIR), x[i] = cv_load(s + i * PAIR);
    }
    for (size_t t = 0; t < tokens; t++) {
        v in = v_load(u + t * ROW), sum = v_load(y + t * ROW);
        UNROLLED for (size_t i = 0; i < modes; i++)
        {
            x[i] = next_mode(m[i], x[i], in);
            sum = v_fnma(w[i].im, x[i].im, v_fma(w[i].re, x[i].re, sum));
        }
        v_store(y + t * ROW, sum);
    }
    UNROLLED for (size_t i = 0; i < modes; i++) cv_store(s + i * PAIR, x[i]);
}

/* Stores the states after each token: kept has `modes` complex rows per token. */
INLINE void keep_modes(size_t modes, const float *mu, size_t tokens, const float *s, const float *u, float *kept)
{
    cv m[MODES_BACK], x[MODES_BACK];
    UNROLLED for (size_t i = 0; i < modes; i++) m[i] = cv_load(mu + i * PAIR), x[i] = cv_load(s + i * PAIR);
    for (size_t t = 0; t < tokens; t++) {
        v in = v_load(u + t * ROW);
        UNROLLED for (size_t i = 0; i < modes; i++)
        {
            x[i] = next_mode(m[i], x[i], in);
            cv_store(kept + (t * modes + i) * PAIR, x[i]);
        }
    }
}

/* g_t = g_(t+1) + conj(μ) g_(t+1) + conj(c) dy_t; dμ = Σ conj(s_(t-1)) g_t, dc = Σ conj(s_t) dy_t, du_t = Re g_t */
INLINE void pull_modes(size_t modes, const float *mu, const float *c, size_t tokens, const float *s, const float *kept,
                       const float *dy, float *g, float *dmu, float *dc, float *du)
{
    cv m[MODES_BACK], w[MODES_BACK], x[MODES_BACK], into[MODES_BACK], sum_mu[MODES_BACK], sum_c[MODES_BACK];
    UNROLLED for (size_t i = 0; i < modes; i++)
    {
        m[i] = cv_load(mu + i * PAIR), w[i] = cv_load(c + i * PAIR), into[i] = cv_load(g + i * PAIR);
        x[i] = tokens ? cv_load(kept + ((tokens - 1) * modes + i) * PAIR) : cv_zero();
        sum_mu[i] = cv_zero(), sum_c[i] = cv_zero();
    }
    for (size_t t = tokens; t-- > 0;) {
        v out = v_load(dy + t * ROW), in = v_load(du + t * ROW);
        const float *before = t ? kept + (t - 1) * modes * PAIR : s;
        UNROLLED for (size_t i = 0; i < modes; i++)
        {
            sum_c[i].re = v_fma(x[i].re, out, sum_c[i].re), sum_c[i].im = v_fnma(x[i].im, out, sum_c[i].im);
            into[i].re = v_fma(w[i].re, out, into[i].re), into[i].im = v_fnma(w[i].im, out, into[i].im);
            in = v_add(in, into[i].re);
            x[i] = cv_load(before + i * PAIR);
            sum_mu[i] = cv_conj_fma(x[i], into[i], sum_mu[i]);
            into[i] = cv_add(into[i], cv_conj_fma(m[i], into[i], cv_zero()));
        }
        v_store(du + t * ROW, in);
    }
    UNROLLED for (size_t i = 0; i < modes; i++)
    {
        cv_store(g + i * PAIR, into[i]);
        cv_gather(dmu + i * PAIR, sum_mu[i]), cv_gather(dc + i * PAIR, sum_c[i]);
    }
}

INLINE void back_modes(size_t modes, const bo_systems *a, size_t first, size_t tokens, const float *s, const float *u,
                       const float *dy, float *g, float *work, const bo_systems_gradients *sums, float *du)
{
    size_t at = first * PAIR;
    keep_modes(modes, a->mu + at, tokens, s + at, u, work);
    pull_modes(modes, a->mu + at, a->c + at, tokens, s + at, work, dy, g + at, sums->mu + at, sums->c + at, du);
}

/* ---- coupled modes ----------------------------------------------------------------------------------------------- */

/* out_j = Σ_n m_nj x_n, or with conj(m) */
INLINE void project(const bo_systems *a, const float *m, const float *x, bool conjugate, cv *out)
{
    for (size_t j = 0; j < a->rank; j++) {
        cv sum = cv_zero();
        for (size_t n = 0; n < a->size; n++) {
            cv entry = cv_load(m + (n * a->rank + j) * PAIR), value = cv_load(x + n * PAIR);
            sum = conjugate ? cv_conj_fma(entry, value, sum) : cv_fma(entry, value, sum);
        }
        out[j] = sum;
    }
}

/* Computes one token: reads the state `s` and writes `to`, which may be s. */
INLINE void step_coupled(const bo_systems *a, const float *s, v u, float *to)
{
    cv projection[BO_SYSTEMS_RANK];
    project(a, a->q, s, false, projection);
    for (size_t n = 0; n < a->size; n++) {
        cv x = cv_load(s + n * PAIR), b = cv_load(a->b + n * PAIR);
        cv more = cv_fma(cv_load(a->mu + n * PAIR), x, (cv){v_mul(b.re, u), v_mul(b.im, u)});
        for (size_t j = 0; j < a->rank; j++)
            more = cv_fma(cv_load(a->p + (n * a->rank + j) * PAIR), projection[j], more);
        cv_store(to + n * PAIR, cv_add(x, more));
    }
}

INLINE v output(size_t size, const float *c, const float *s, v y)
{
    for (size_t n = 0; n < size; n++) {
        cv x = cv_load(s + n * PAIR), w = cv_load(c + n * PAIR);
        y = v_fnma(w.im, x.im, v_fma(w.re, x.re, y));
    }
    return y;
}

/* The backward pass of one token, from dy and the states before and after it. g is the gradient of the later state and
 * becomes the gradient of the earlier state. */
INLINE v pull_coupled(const bo_systems *a, const float *before, const float *after, v u, v dy, float *g,
                      const bo_systems_gradients *sums)
{
    cv projection[BO_SYSTEMS_RANK], flow[BO_SYSTEMS_RANK]; /* Qᵀ s and P* g */
    v du = v_set(0.0f);
    for (size_t n = 0; n < a->size; n++) {
        cv x = cv_load(after + n * PAIR), c = cv_load(a->c + n * PAIR), b = cv_load(a->b + n * PAIR);
        cv into = cv_load(g + n * PAIR);
        into.re = v_fma(c.re, dy, into.re), into.im = v_fnma(c.im, dy, into.im);
        cv_store(g + n * PAIR, into);
        cv_gather(sums->c + n * PAIR, (cv){v_mul(x.re, dy), v_mul(x.im, v_sub(v_set(0.0f), dy))});
        cv_gather(sums->b + n * PAIR, (cv){v_mul(into.re, u), v_mul(into.im, u)});
        du = v_fma(b.re, into.re, v_fma(b.im, into.im, du));
    }
    project(a, a->q, before, false, projection);
    project(a, a->p, g, true, flow);
    for (size_t n = 0; n < a->size; n++) {
        cv x = cv_load(before + n * PAIR), into = cv_load(g + n * PAIR);
        cv_store(sums->mu + n * PAIR, cv_conj_fma(x, into, cv_load(sums->mu + n * PAIR)));
        cv back = cv_conj_fma(cv_load(a->mu + n * PAIR), into, into);
        for (size_t j = 0; j < a->rank; j++) {
            size_t at = (n * a->rank + j) * PAIR;
            cv_store(sums->p + at, cv_conj_fma(projection[j], into, cv_load(sums->p + at)));
            cv_store(sums->q + at, cv_conj_fma(x, flow[j], cv_load(sums->q + at)));
            back = cv_conj_fma(cv_load(a->q + at), flow[j], back);
        }
        cv_store(g + n * PAIR, back);
    }
    return du;
}

INLINE void back_coupled(const bo_systems *a, size_t tokens, const float *s, const float *u, const float *dy, float *g,
                         float *work, const bo_systems_gradients *sums, float *du)
{
    size_t state = a->size * PAIR;
    for (size_t t = 0; t < tokens; t++)
        step_coupled(a, t ? work + (t - 1) * state : s, v_load(u + t * ROW), work + t * state);
    for (size_t t = tokens; t-- > 0;) {
        v in = pull_coupled(a, t ? work + (t - 1) * state : s, work + t * state, v_load(u + t * ROW),
                            v_load(dy + t * ROW), g, sums);
        v_store(du + t * ROW, v_add(v_load(du + t * ROW), in));
    }
}

/* ---- all lanes --------------------------------------------------------------------------------------------------- */

/* Returns a bo_systems whose rows start at lane l. */
INLINE bo_systems from_lane(const bo_systems *a, size_t l)
{
    bo_systems part = {a->size, a->rank, a->mu + l, a->c + l, NULL, NULL, NULL};
    if (a->rank) part.b = a->b + l, part.p = a->p + l, part.q = a->q + l;
    return part;
}

INLINE bo_systems_gradients gradients_from_lane(const bo_systems_gradients *sums, size_t l, bool coupled)
{
    bo_systems_gradients part = {sums->mu + l, sums->c + l, NULL, NULL, NULL};
    if (coupled) part.b = sums->b + l, part.p = sums->p + l, part.q = sums->q + l;
    return part;
}

static void run_lanes(const bo_systems *a, size_t tokens, float *s, const float *u, float *y)
{
    size_t n = 0;
    for (; !a->rank && n + MODES <= a->size; n += MODES)
        run_modes(MODES, a->mu + n * PAIR, a->c + n * PAIR, tokens, s + n * PAIR, u, y);
    for (; !a->rank && n < a->size; n++) run_modes(1, a->mu + n * PAIR, a->c + n * PAIR, tokens, s + n * PAIR, u, y);
    for (size_t t = 0; a->rank && t < tokens; t++) {
        step_coupled(a, s, v_load(u + t * ROW), s);
        v_store(y + t * ROW, output(a->size, a->c, s, v_load(y + t * ROW)));
    }
}

static void back_lanes(const bo_systems *a, size_t tokens, const float *s, const float *u, const float *dy, float *g,
                       float *work, const bo_systems_gradients *sums, float *du)
{
    size_t n = 0;
    for (; !a->rank && n + MODES_BACK <= a->size; n += MODES_BACK)
        back_modes(MODES_BACK, a, n, tokens, s, u, dy, g, work, sums, du);
    for (; !a->rank && n < a->size; n++) back_modes(1, a, n, tokens, s, u, dy, g, work, sums, du);
    if (a->rank) back_coupled(a, tokens, s, u, dy, g, work, sums, du);
}

static void run(const bo_systems *systems, size_t tokens, float *s, const float *u, float *y)
{
    for (size_t l = 0; l < BO_CHANNELS; l += LANES) {
        bo_systems part = from_lane(systems, l);
        run_lanes(&part, tokens, s + l, u + l, y + l);
    }
}

static void run_back(const bo_systems *systems, size_t tokens, const float *s, const float *u, const float *dy,
                     float *g, float *work, const bo_systems_gradients *sums, float *du)
{
    for (size_t l = 0; l < BO_CHANNELS; l += LANES) {
        bo_systems part = from_lane(systems, l);
        bo_systems_gradients gradients = gradients_from_lane(sums, l, systems->rank > 0);
        back_lanes(&part, tokens, s + l, u + l, dy + l, g + l, work + l, &gradients, du + l);
    }
}

static void read_states(size_t size, const float *c, size_t tokens, const float *s, float *y)
{
    for (size_t l = 0; l < BO_CHANNELS; l += LANES)
        for (size_t t = 0; t < tokens; t++)
            v_store(y + t * ROW + l, output(size, c + l, s + t * size * PAIR + l, v_load(y + t * ROW + l)));
}
