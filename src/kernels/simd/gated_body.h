/* Kernels of a gate for each channel in the vector vocabulary of the includer. Lanes are channels; products of gates are
 * made one gate at a time, so every factor is at most 1 and nothing can overflow. */

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

enum { GATED_VECTORS = 4 }; /* of channels at a time */

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

/* Row i of the scores over some channels: w is q_i times the gates after key j, for j = i, i - 1, …, 0. vectors, and
 * rest = LANES, are known when compiling. */
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
            size_t here = c + 1 < vectors ? LANES : rest;
            sum = v_fma(w[c], load_some(k + j * ldk + c * LANES, here), sum);
            w[c] = v_mul(w[c], load_some(g + j * ldg + c * LANES, here));
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

/* Gradients of a vector of channels. Sums are taken by Horner's rule: multiplied by the next gate, then added to. */
static inline __attribute__((always_inline)) void gradients_vector(size_t rest, size_t rows, const float *w, size_t ldw,
                                                                   const float *q, const float *k, size_t ldk,
                                                                   const float *g, size_t ld, float *dq, float *dk,
                                                                   float *dlog)
{
    v past[BO_GATED_ROWS]; /* Σ_{j'<=j} w_ij' g_{j'+1} … g_j k_j' */
    for (size_t i = 0; i < rows; i++) {
        v sum = v_set(0.0f), flow = load_some(q + i * ld, rest);
        for (size_t j = 0; j <= i; j++) {
            v own = v_mul(v_set(w[i * ldw + j]), load_some(k + j * ldk, rest));
            past[j] = sum = v_fma(sum, load_some(g + j * ld, rest), own);
        }
        store_some(dq + i * ld, rest, v_add(load_some(dq + i * ld, rest), sum));
        for (size_t t = i; t > 0; t--) {
            flow = v_mul(flow, load_some(g + t * ld, rest));
            store_some(dlog + t * ld, rest, v_fma(flow, past[t - 1], load_some(dlog + t * ld, rest)));
        }
    }
    for (size_t j = 0; j < rows; j++) {
        v sum = v_set(0.0f);
        for (size_t i = rows; i-- > j;) {
            if (i + 1 < rows) sum = v_mul(sum, load_some(g + (i + 1) * ld, rest));
            sum = v_fma(v_set(w[i * ldw + j]), load_some(q + i * ld, rest), sum);
        }
        store_some(dk + j * ld, rest, v_add(load_some(dk + j * ld, rest), sum));
    }
}

static __attribute__((noinline)) void gradients_whole(size_t rows, const float *w, size_t ldw, const float *q,
                                                      const float *k, size_t ldk, const float *g, size_t ld, float *dq,
                                                      float *dk, float *dlog)
{
    gradients_vector(LANES, rows, w, ldw, q, k, ldk, g, ld, dq, dk, dlog);
}

void ISA(gated_gradients)(size_t rows, size_t n, const float *w, size_t ldw, const float *q, const float *k, size_t ldk,
                          const float *g, float *dq, float *dk, float *dlog)
{
    size_t c = 0;
    for (; c + LANES <= n; c += LANES)
        gradients_whole(rows, w, ldw, q + c, k + c, ldk, g + c, n, dq + c, dk + c, dlog + c);
    if (c < n) gradients_vector(n - c, rows, w, ldw, q + c, k + c, ldk, g + c, n, dq + c, dk + c, dlog + c);
}
