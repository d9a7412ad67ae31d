/* Kernels with one gate per channel, in the vector operations of the including file. Lanes are channels. Products of
 * gates are computed one gate at a time: every factor is at most 1, so nothing overflows. */

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

enum { GATED_VECTORS = 4 }; /* vectors of channels processed at a time */

static inline __attribute__((always_inline)) v load_some(const float *x, size_t rest)
{
    return rest == LANES ? v_load(x) : v_load_part(x, rest);
}

static inline __attribute__((always_inline)) void store_some(float *x, size_t rest, v value)
{
    if (rest == LANES) {
        v_store(x, value);
    } else {
        v_store_part(x, rest, value);
    }
}

void ISA(product)(size_t n, const float *x, const float *y, bool add, float *z)
{
    size_t i = 0;
    if (add) {
        for (; i + LANES <= n; i += LANES) v_store(z + i, v_fma(v_load(x + i), v_load(y + i), v_load(z + i)));
    } else {
        for (; i + LANES <= n; i += LANES) v_store(z + i, v_mul(v_load(x + i), v_load(y + i)));
    }
    if (i == n) return;
    size_t rest = n - i;
    v last = add ? v_load_part(z + i, rest) : v_set(0.0f);
    v_store_part(z + i, rest, v_fma(v_load_part(x + i, rest), v_load_part(y + i, rest), last));
}

/* Computes row i of the scores over some channels. w is q_i times the gates after key j, for j = i, i - 1, …, 0.
 * vectors and rest = LANES are compile-time constants. */
static inline __attribute__((always_inline)) void score_row(size_t vectors, size_t rest, size_t i, const float *q,
                                                            const float *k, size_t ldk, const float *g, size_t ldg,
                                                            bool add, float *out)
{
    v w[GATED_VECTORS];
    UNROLLED for (size_t c = 0; c < vectors; c++)
    {
        w[c] = load_some(q + c * LANES, c + 1 < vectors ? LANES : rest);
    }
    for (size_t j = i + 1; j-- > 0;) {
        v sum = v_set(0.0f);
        UNROLLED for (size_t c = 0; c < vectors; c++)
        {
            size_t count = c + 1 < vectors ? LANES : rest;
            sum = v_fma(w[c], load_some(k + j * ldk + c * LANES, count), sum);
            w[c] = v_mul(w[c], load_some(g + j * ldg + c * LANES, count));
        }
        float score = v_sum(sum);
        out[j] = add ? out[j] + score : score;
    }
}

static __attribute__((noinline)) void score_wide(size_t rows, const float *q, size_t ldq, const float *k, size_t ldk,
                                                 const float *g, size_t ldg, bool add, float *out, size_t ldo)
{
    for (size_t i = 0; i < rows; i++)
        score_row(GATED_VECTORS, LANES, i, q + i * ldq, k, ldk, g, ldg, add, out + i * ldo);
}

static __attribute__((noinline)) void score_narrow(size_t rest, size_t rows, const float *q, size_t ldq, const float *k,
                                                   size_t ldk, const float *g, size_t ldg, bool add, float *out,
                                                   size_t ldo)
{
    for (size_t i = 0; i < rows; i++) score_row(1, rest, i, q + i * ldq, k, ldk, g, ldg, add, out + i * ldo);
}

void ISA(gated_scores)(size_t rows, size_t n, const float *q, size_t ldq, const float *k, size_t ldk, const float *g,
                       size_t ldg, float *out, size_t ldo)
{
    enum { WIDE = GATED_VECTORS * LANES };
    size_t c = 0;
    for (; c + WIDE <= n; c += WIDE) score_wide(rows, q + c, ldq, k + c, ldk, g + c, ldg, c > 0, out, ldo);
    for (; c < n; c += LANES) {
        size_t rest = n - c < LANES ? n - c : LANES;
        score_narrow(rest, rows, q + c, ldq, k + c, ldk, g + c, ldg, c > 0, out, ldo);
    }
}

/* The operands of gated_gradients that all rows share; see kernels.h. */
typedef struct gated {
    size_t rows, ldw, ldk, ld;
    const float *w, *q, *k, *g;
    float *dq, *dk, *dlog;
} gated;

/* Gradients of a vector of channels by Horner's rule: sums are multiplied by the next gate, then added to. Two rows at
 * a time (count = 2) share the loads of keys and gates. count and rest = LANES are compile-time constants. */

/* Computes dq of rows i and i + 1, and the sums that reach them through earlier gates. */
static inline __attribute__((always_inline)) void pull(size_t count, size_t rest, const gated *x, size_t i, size_t c)
{
    v past[2][BO_GATED_ROWS]; /* Σ_{j'<=j} w_ij' g_{j'+1} … g_j k_j' */
    v sum[2] = {v_set(0.0f), v_set(0.0f)}, flow[2] = {load_some(x->q + i * x->ld + c, rest), v_set(0.0f)};
    const float *w = x->w + i * x->ldw;
    for (size_t j = 0; j <= i; j++) {
        v key = load_some(x->k + j * x->ldk + c, rest), gate = load_some(x->g + j * x->ld + c, rest);
        UNROLLED for (size_t r = 0; r < count; r++)
        {
            past[r][j] = sum[r] = v_fma(sum[r], gate, v_mul(v_set(w[r * x->ldw + j]), key));
        }
    }
    if (count == 2) { /* key and gate of the later row */
        size_t next = (i + 1) * x->ld + c;
        v key = load_some(x->k + (i + 1) * x->ldk + c, rest), gate = load_some(x->g + next, rest);
        flow[1] = v_mul(load_some(x->q + next, rest), gate);
        store_some(x->dlog + next, rest, v_fma(flow[1], sum[1], load_some(x->dlog + next, rest)));
        sum[1] = v_fma(sum[1], gate, v_mul(v_set(w[x->ldw + i + 1]), key));
        store_some(x->dq + next, rest, v_add(load_some(x->dq + next, rest), sum[1]));
    }
    store_some(x->dq + i * x->ld + c, rest, v_add(load_some(x->dq + i * x->ld + c, rest), sum[0]));
    for (size_t t = i; t > 0; t--) {
        v gate = load_some(x->g + t * x->ld + c, rest), through = load_some(x->dlog + t * x->ld + c, rest);
        UNROLLED for (size_t r = 0; r < count; r++)
        {
            flow[r] = v_mul(flow[r], gate);
            through = v_fma(flow[r], past[r][t - 1], through);
        }
        store_some(x->dlog + t * x->ld + c, rest, through);
    }
}

/* Computes dk of rows j - 1 and, if count = 2, j - 2. */
static inline __attribute__((always_inline)) void push(size_t count, size_t rest, const gated *x, size_t j, size_t c)
{
    v sum[2] = {v_set(0.0f), v_set(0.0f)};
    for (size_t i = x->rows; i-- > j - 1;) {
        v query = load_some(x->q + i * x->ld + c, rest);
        v gate = i + 1 < x->rows ? load_some(x->g + (i + 1) * x->ld + c, rest) : v_set(0.0f);
        UNROLLED for (size_t r = 0; r < count; r++)
        {
            sum[r] = v_fma(sum[r], gate, v_mul(v_set(x->w[i * x->ldw + j - 1 - r]), query));
        }
    }
    float *dk = x->dk + (j - 1) * x->ld + c;
    store_some(dk, rest, v_add(load_some(dk, rest), sum[0]));
    if (count == 1) return;
    v corner = v_mul(v_set(x->w[(j - 2) * x->ldw + j - 2]), load_some(x->q + (j - 2) * x->ld + c, rest));
    sum[1] = v_fma(sum[1], load_some(x->g + (j - 1) * x->ld + c, rest), corner);
    store_some(dk - x->ld, rest, v_add(load_some(dk - x->ld, rest), sum[1]));
}

static inline __attribute__((always_inline)) void gradients_vector(size_t rest, const gated *x, size_t c)
{
    size_t i = 0, j = x->rows;
    for (; i + 2 <= x->rows; i += 2) pull(2, rest, x, i, c);
    if (i < x->rows) pull(1, rest, x, i, c);
    for (; j >= 2; j -= 2) push(2, rest, x, j, c);
    if (j > 0) push(1, rest, x, j, c);
}

static __attribute__((noinline)) void gradients_whole(const gated *x, size_t c)
{
    gradients_vector(LANES, x, c);
}

void ISA(gated_gradients)(size_t rows, size_t n, const float *w, size_t ldw, const float *q, const float *k, size_t ldk,
                          const float *g, float *dq, float *dk, float *dlog)
{
    const gated all = {rows, ldw, ldk, n, w, q, k, g, dq, dk, dlog};
    size_t c = 0;
    for (; c + LANES <= n; c += LANES) gradients_whole(&all, c);
    if (c < n) gradients_vector(n - c, &all, c);
}
