/* Decoding with the hybrid: the sums take in the key that leaves the window, the window takes in the new one, and both
 * answer. */
#include "hybrid.h"
#include "linear.h"
#include <math.h>
#include <string.h>

typedef struct step_work {
    bo_linear_step_work far;
    float *k, *v; /* keys and values that leave: count x dim, count x value_dim */
    bo_softmax_tile tile;
} step_work;

static step_work carve(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t count,
                       bo_carver *carver)
{
    step_work work = {.far = bo_linear_step_make(attention, in, key_head, count, carver)};
    work.k = bo_carve_floats(carver, count * attention->desc.dim);
    work.v = bo_carve_floats(carver, count * attention->desc.value_dim);
    work.tile = bo_softmax_carve(attention, carver);
    return work;
}

size_t bo_hybrid_step_bytes(const bo_attention *attention, size_t count)
{
    bo_carver carver = {NULL, 0};
    carve(attention, NULL, 0, count, &carver);
    return carver.bytes;
}

/* One token of some sequences, for one key head. */
typedef struct step_at {
    const bo_attention *attention;
    const bo_attention_inputs *in;
    size_t first, count, key_head;
    void *const *states;
    float *out;
} step_at;

/* Does a key leave the window with this token? */
static bool leaves(const step_at *at, size_t row)
{
    return at->in->k && bo_attention_state_tokens(at->states[at->first + row]) >= at->attention->held;
}

/* Features of the keys that leave, and of the queries; false where their log scales are too large. */
static bool map_rows(const step_at *at, step_work *work)
{
    const bo_attention *attention = at->attention;
    const bo_attention_desc *desc = &attention->desc;
    size_t count = at->count;
    memset(work->k, 0, count * desc->dim * sizeof *work->k);
    for (size_t row = 0; row < count; row++) {
        if (!leaves(at, row)) continue;
        const void *state = at->states[at->first + row];
        bo_kv_cache kept = bo_kv_cache_in(attention, state, at->key_head);
        bo_kv_cache_read(attention->kernels, &kept, (size_t)bo_attention_state_tokens(state) - kept.ring, 1,
                         work->k + row * desc->dim, work->v + row * desc->value_dim);
    }
    bo_mapper_features(&work->far.mapper, BO_OF_KEYS, count, work->k, desc->dim, work->far.fk, work->far.lk);
    bo_linear_step_queries(attention, &work->far, at->in, at->first, count, at->key_head);
    return bo_log_scales_fit(count, work->far.lk) && bo_log_scales_fit(attention->group * count, work->far.lq);
}

/* The sums take in the key that leaves, if one does, and answer every query of the group: numerators to work->n. */
static void step_sums(const step_at *at, step_work *work, size_t row, bo_sums sums)
{
    const bo_attention *attention = at->attention;
    size_t features = attention->count;
    const float *v = leaves(at, row) ? work->v + row * attention->desc.value_dim : NULL;
    bo_sums_step(attention, sums, work->far.fk + row * features, work->far.lk[row], v, NULL,
                 work->far.fq + row * features, at->count * features, work->far.n);
}

/* Query heads [g, g + tile rows) of the group: the window's part joins the sums'. */
static bool step_window(const step_at *at, step_work *work, size_t row, size_t g, bo_sums sums)
{
    const bo_attention *attention = at->attention;
    size_t features = attention->count, values = attention->desc.value_dim, head = at->key_head * attention->group + g;
    float *out = at->out + ((at->first + row) * attention->desc.heads + head) * values;
    bool finite = true;
    for (size_t r = 0; r < work->tile.rows; r++) {
        size_t i = (g + r) * at->count + row;
        bo_hybrid_part far = {.numerator = work->far.n + (g + r) * values, .top = work->far.lq[i] + *sums.log_scale};
        far.denominator = (float)attention->kernels->dot(features, work->far.fq + i * features, sums.z);
        bo_hybrid_part_merge(attention, &far, bo_window_part(&work->tile, r, at->in, head + r));
        finite = finite && bo_linear_finite(attention, far.denominator, far.numerator);
        bo_normalize(attention, far.denominator, far.numerator, out + r * values);
    }
    return finite;
}

static bool step_one(const step_at *at, step_work *work, size_t row)
{
    const bo_attention *attention = at->attention;
    const bo_attention_desc *desc = &attention->desc;
    size_t sequence = at->first + row, group = attention->group, head = at->key_head * group;
    void *state = at->states[sequence];
    bo_sums sums = bo_state_sums(attention, state, at->key_head);
    step_sums(at, work, row, sums);
    bo_kv_cache kept = bo_kv_cache_in(attention, state, at->key_head);
    size_t tokens = bo_kv_cache_token(attention, at->in, sequence, at->key_head, state);
    bool finite = true;
    for (size_t g = 0, rows; g < group; g += rows) {
        rows = group - g < BO_SOFTMAX_TILE ? group - g : BO_SOFTMAX_TILE;
        bo_rows q = {(float *)at->in->q + (sequence * desc->heads + head + g) * desc->dim, desc->dim};
        bo_softmax_begin(&work->tile, 0, rows, q, desc->scale);
        bo_softmax_add(&work->tile, &kept, bo_kv_cache_first(tokens, kept.ring), tokens);
        finite = step_window(at, work, row, g, sums) && finite;
    }
    return finite;
}

void bo_hybrid_step(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                    size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch)
{
    const step_at at = {attention, in, first, count, key_head, states, out};
    bo_carver carver = {scratch, 0};
    step_work work = carve(attention, in, key_head, count, &carver);
    if (!map_rows(&at, &work)) atomic_store(not_finite, true);
    for (size_t row = 0; row < count; row++) {
        if (!step_one(&at, &work, row)) atomic_store(not_finite, true);
    }
}
