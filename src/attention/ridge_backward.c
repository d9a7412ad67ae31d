/* The backward pass of ridge attention (arXiv 2506.05233). With x = (H + Λ)⁻¹q and y = (H + Λ)⁻¹ G dout:
 *
 *     dq = y        dΛ = -Σ_t x ∘ y
 *     R_t = g_{t+1} R_{t+1} + x_t [dout_t, -y_t]ᵀ        the gradient of [G, Hᵀ]
 *     u = R [v, k]        w = Rᵀk        dβ = k·u        dk = β (u + w_k)        dv = β w_v
 *     d log g_t = ⟨R_t, g_t [G, H]_{t-1}⟩
 *
 * Segments are processed from the last to the first: x and y of all tokens of a segment and, with a gate, the sums
 * before its chunks are recomputed from the state on the tape; then R is propagated backward over its chunks. */
#include <math.h>
#include <string.h>
#include "parameters.h"
#include "ridge.h"

typedef struct back_work {
    bo_attention_ridge ridge;
    const bo_call *call;
    size_t sequence, key_head, segment, wide; /* wide = value_dim + dim */
    bo_token_rows rows;
    float *x, *y;           /* of a segment's queries: group x segment x dim, y directly after x */
    float *sides;           /* q, then G dout, of each query head of a chunk: 2 group x chunk x dim */
    bo_ridge_factor factor; /* without a gate: the factor with the tail of the identity */
    bo_ridge_block block;
    float *gt;       /* Gᵀ: value_dim x dim */
    float *vt;       /* β v, transposed: value_dim x chunk; in the reverse pass [v, k]: wide x chunk */
    float *pairs;    /* [v, k]: chunk x wide */
    float *douts;    /* for a chunk's queries of one head: chunk x value_dim, or [dout, -y]: chunk x wide */
    float *r;        /* R: dim x wide */
    float *u, *ut;   /* chunk x dim, and transposed */
    float *w;        /* chunk x wide */
    float *scores;   /* chunk x chunk */
    double *dlambda; /* dim */
    bool gates;      /* gradients of gates are requested; only then are the following members set */
    float *starts;   /* the memory before each chunk of a segment */
    double *passed;  /* sum of the terms from before gate t to after it: chunk */
    double *later;   /* sum of the terms from token j to after the chunk: chunk */
} back_work;

static void carve_factor(back_work *work, bo_carver *carver)
{
    size_t dim = work->ridge.dim, width = bo_ridge_width(dim, dim);
    work->factor = (bo_ridge_factor){.dim = dim, .width = width};
    work->factor.rows = bo_carve(carver, bo_ridge_factor_numbers(dim, width), sizeof(double));
    work->block = bo_ridge_block_make(width, 2 * work->ridge.attention->group, carver);
}

static back_work back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                           const bo_attention_cost *plan, bo_carver *carver)
{
    size_t dim = attention->desc.dim, values = attention->desc.value_dim, wide = dim + values, chunk = plan->chunk;
    back_work work = {.ridge = bo_ridge_make(attention, in, key_head, chunk, 2 * attention->group, carver),
                      .key_head = key_head,
                      .segment = plan->segment,
                      .wide = wide};
    work.x = bo_carve_floats(carver, 2 * attention->group * plan->segment * dim);
    work.y = work.x ? work.x + attention->group * plan->segment * dim : NULL;
    work.sides = bo_carve_floats(carver, 2 * attention->group * chunk * dim);
    if (!work.ridge.gated) carve_factor(&work, carver);
    work.gt = bo_carve_floats(carver, values * dim);
    work.vt = bo_carve_floats(carver, wide * chunk);
    work.pairs = bo_carve_floats(carver, chunk * wide);
    work.douts = bo_carve_floats(carver, chunk * wide);
    work.r = bo_carve_floats(carver, dim * wide);
    work.u = bo_carve_floats(carver, chunk * dim);
    work.ut = bo_carve_floats(carver, chunk * dim);
    work.w = bo_carve_floats(carver, chunk * wide);
    work.scores = bo_carve_floats(carver, chunk * chunk);
    work.dlambda = bo_carve(carver, dim, sizeof(double));
    work.ridge.measures = false;
    if (!work.ridge.gated) return work;
    work.starts = bo_carve_floats(carver, plan->segment / chunk * bo_ridge_memory(attention));
    work.passed = bo_carve(carver, chunk, sizeof(double));
    work.later = bo_carve(carver, chunk, sizeof(double));
    return work;
}

size_t bo_ridge_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan)
{
    bo_carver carver = {0};
    back_make(attention, NULL, 0, plan, &carver);
    return carver.bytes;
}

/* Returns the rows of an array of a query head of the group, starting at token `first` of the sequence. */
static bo_rows query_rows(const back_work *work, const float *array, size_t width, size_t member, size_t first)
{
    const bo_attention *attention = work->call->attention;
    return bo_rows_from(bo_rows_at(work->call, array, attention->desc.heads, width, false, work->sequence,
                                   work->key_head * attention->group + member),
                        first);
}

/* Returns x or y of a query head, starting at the segment's token `local`. */
static float *kept(const back_work *work, float *of, size_t member, size_t local)
{
    return of + (member * work->segment + local) * work->ridge.dim;
}

/* Returns the memory before the chunk that starts at the segment's token `local`. */
static float *start_of(const back_work *work, size_t local)
{
    return work->starts + local / work->ridge.chunk * bo_ridge_memory(work->ridge.attention);
}

/* ---- x and y of a segment ---------------------------------------------------------------------------------------- */

/* Computes G_i dout_i for one query head's rows. */
static void pull(back_work *work, size_t member, size_t first, float *to)
{
    bo_attention_ridge *ridge = &work->ridge;
    size_t values = ridge->value_dim;
    bo_rows dout = query_rows(work, work->call->dout, values, member, first);
    for (size_t i = 0; i < ridge->rows; i++) {
        memcpy(work->douts + i * values, dout.at + i * dout.stride, values * sizeof *work->douts);
        ridge->active[i] = i;
    }
    bo_ridge_sums sums = {.m = work->gt, .at = work->vt, .c = ridge->k, .width = values, .out_width = ridge->dim};
    bo_ridge_product(ridge, &sums, ridge->rows, ridge->active, work->douts, to, ridge->dim);
}

/* Computes the right-hand sides of x and of y for every query head. False: a value is NaN or infinite. */
static bool load_sides(back_work *work, size_t first)
{
    const bo_call *call = work->call;
    bo_attention_ridge *ridge = &work->ridge;
    size_t group = call->attention->group, dim = ridge->dim, values = ridge->value_dim, each = ridge->chunk * dim;
    call->kernels->transpose(dim, values, ridge->memory, values, work->gt, dim);
    call->kernels->transpose(ridge->keys, values, ridge->vb, values, work->vt, ridge->chunk);
    for (size_t g = 0; g < group; g++) {
        bo_rows dout = query_rows(work, call->dout, values, g, first);
        if (!bo_ridge_queries(ridge, g, query_rows(work, call->in->q, dim, g, 0), first)) return false;
        if (!bo_rows_finite(call->kernels, ridge->rows, values, dout.at, dout.stride)) return false;
        memcpy(work->sides + g * each, ridge->q + g * each, each * sizeof *work->sides);
        pull(work, g, first, work->sides + (group + g) * each);
    }
    return true;
}

/* Processes a chunk with a gate. If x or y is solved directly, both are solved directly, with G dout recomputed in
 * double. */
static void iterate_chunk(back_work *work, size_t first, size_t local)
{
    bo_attention_ridge *ridge = &work->ridge;
    size_t group = work->call->attention->group, sides = 2 * group, dim = ridge->dim, chunk = ridge->chunk;
    bo_ridge_precondition(ridge);
    for (size_t a = 0; a < sides; a++)
        bo_ridge_iterate(ridge, a, work->sides + a * chunk * dim, kept(work, work->x, a, local));
    for (size_t i = 0; (i = bo_ridge_direct_next(ridge, sides, i)) < ridge->rows; i++)
        for (size_t a = 0; a < sides; a++) {
            if (!ridge->left[a * chunk + i] && !ridge->left[(a + group) % sides * chunk + i]) continue;
            if (a < group)
                bo_ridge_direct_query(ridge, work->sides + (a * chunk + i) * dim);
            else
                bo_ridge_direct_pull(ridge,
                                     query_rows(work, work->call->dout, ridge->value_dim, a - group, first + i).at);
            for (size_t j = 0; j < dim; j++) kept(work, work->x, a, local + i)[j] = (float)ridge->exact.x[j];
        }
}

static bool solve_chunk(back_work *work, size_t first, size_t local, size_t rows)
{
    bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim;
    if (!bo_ridge_keys(ridge, &work->rows, first, rows) || !load_sides(work, first)) return false;
    if (!ridge->gated) {
        bo_ridge_sweep sweep = {.factor = work->factor,
                                .block = &work->block,
                                .rhs = work->sides,
                                .out = kept(work, work->x, 0, local),
                                .tail = dim,
                                .row = dim,
                                .side = work->segment * dim};
        bo_ridge_sweep_run(ridge, &sweep);
        return true;
    }
    iterate_chunk(work, first, local);
    return true;
}

/* Processes the segment [first, end), from the memory at its start to that at its end. */
static bool replay(back_work *work, size_t first, size_t end)
{
    bo_attention_ridge *ridge = &work->ridge;
    for (size_t token = first; token < end; token += ridge->chunk) {
        size_t rows = bo_min(ridge->chunk, end - token);
        if (bo_pass_stops(work->call->watch, 0)) return false;
        if (work->gates)
            memcpy(start_of(work, token - first), ridge->memory, bo_ridge_memory(ridge->attention) * sizeof(float));
        if (work->call->dout ? !solve_chunk(work, token, token - first, rows)
                             : !bo_ridge_keys(ridge, &work->rows, token, rows))
            return false;
        bo_ridge_absorb(ridge);
    }
    return true;
}

/* ---- gates ------------------------------------------------------------------------------------------------------- */

/* d log g_t is the sum of all terms that pass gate t, from a token j < t or from before the chunk to a query i >= t or
 * to after the chunk. Every term has g_t as a factor, so that the gradient of a closed gate is 0. */

/* Adds the terms from before the chunk to after it, with R decayed, and from the chunk's tokens to after it. */
static void pass_through(back_work *work, const float *start)
{
    const bo_attention_ridge *ridge = &work->ridge;
    const bo_kernels *kernels = ridge->kernels;
    size_t dim = ridge->dim, values = ridge->value_dim;
    const float *h = start + bo_padded(dim * values);
    double through = 0;
    for (size_t i = 0; i < dim; i++)
        through += kernels->dot(values, start + i * values, work->r + i * work->wide) +
                   kernels->dot(dim, h + i * dim, work->r + i * work->wide + values);
    for (size_t j = 0; j < ridge->keys; j++) {
        work->passed[j] = through;
        work->later[j] = (double)ridge->beta[j] * kernels->dot(dim, ridge->k + j * dim, work->u + j * dim);
    }
}

/* Adds the terms from tokens to queries: work->scores are [dout, -y]·[v, k], decayed, ridge->scores are x·k. */
static void pass_within(back_work *work)
{
    const bo_attention_ridge *ridge = &work->ridge;
    for (size_t i = 1; i < ridge->keys; i++) {
        const float *decayed = work->scores + i * ridge->chunk, *plain = ridge->scores + i * ridge->chunk;
        double sum = 0;
        for (size_t t = 1; t <= i; t++) {
            sum += (double)ridge->beta[t - 1] * (double)decayed[t - 1] * (double)plain[t - 1];
            work->passed[t] += sum;
        }
    }
}

/* Adds the terms from before the chunk to queries; x is already decayed. The pairs are overwritten; their transpose is
 * still available. */
static void pass_from_start(back_work *work, const float *start, const float *x)
{
    const bo_attention_ridge *ridge = &work->ridge;
    const bo_kernels *kernels = ridge->kernels;
    size_t dim = ridge->dim, values = ridge->value_dim, wide = work->wide, rows = ridge->rows;
    float *products = work->pairs;
    double sum = 0;
    kernels->multiply(rows, values, dim, x, dim, 1, start, values, false, products, wide);
    kernels->multiply(rows, dim, dim, x, dim, 1, start + bo_padded(dim * values), dim, false, products + values, wide);
    for (size_t t = rows; t-- > 0;) {
        sum += kernels->dot(wide, products + t * wide, work->douts + t * wide);
        work->passed[t] += sum;
    }
}

/* ---- backward over a chunk --------------------------------------------------------------------------------------- */

/* Computes scores_ij = a_i·c_j; a is rows x width, ct width x chunk. */
static void score(const back_work *work, size_t width, const float *a, const float *ct, float *scores)
{
    const bo_attention_ridge *ridge = &work->ridge;
    ridge->kernels->multiply(ridge->rows, ridge->keys, width, a, width, 1, ct, ridge->chunk, false, scores,
                             ridge->chunk);
}

/* Computes exp(b_i - b_j) scores_ij for j <= i, else 0. */
static void decay(const back_work *work, float *scores)
{
    const bo_attention_ridge *ridge = &work->ridge;
    size_t chunk = ridge->chunk;
    for (size_t i = 0; i < ridge->rows; i++)
        for (size_t j = 0; j < ridge->keys; j++)
            scores[i * chunk + j] = j > i ? 0 : scores[i * chunk + j] * ridge->reach[i * chunk + j];
}

/* Computes [v, k], its transpose, and the gradients from later tokens: u_j = exp(b_T - b_j) R [v, k], w_j likewise with
 * Rᵀk. */
static void begin_chunk(back_work *work)
{
    bo_attention_ridge *ridge = &work->ridge;
    const bo_kernels *kernels = ridge->kernels;
    size_t dim = ridge->dim, values = ridge->value_dim, wide = work->wide, keys = ridge->keys, chunk = ridge->chunk;
    if (!keys) return;
    const float *reach = ridge->reach + (keys - 1) * chunk;
    for (size_t j = 0; j < keys; j++) {
        memcpy(work->pairs + j * wide, ridge->v + j * values, values * sizeof *work->pairs);
        memcpy(work->pairs + j * wide + values, ridge->k + j * dim, dim * sizeof *work->pairs);
    }
    kernels->transpose(keys, wide, work->pairs, wide, work->vt, chunk);
    kernels->multiply(dim, keys, wide, work->r, wide, 1, work->vt, chunk, false, work->ut, chunk);
    kernels->transpose(dim, keys, work->ut, chunk, work->u, dim);
    kernels->multiply(keys, wide, dim, ridge->k, dim, 1, work->r, wide, false, work->w, wide);
    for (size_t j = 0; j < keys; j++) {
        kernels->scale(dim, reach[j], work->u + j * dim, work->u + j * dim);
        kernels->scale(wide, reach[j], work->w + j * wide, work->w + j * wide);
    }
    kernels->scale(dim * wide, ridge->remains[keys - 1], work->r, work->r);
}

/* Computes [dout, -y] of one query head, and adds to dΛ. */
static void begin_member(back_work *work, size_t member, size_t first, const float *x, const float *y)
{
    const bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim, values = ridge->value_dim;
    bo_rows dout = query_rows(work, work->call->dout, values, member, first);
    for (size_t i = 0; i < ridge->rows; i++) {
        float *row = work->douts + i * work->wide;
        memcpy(row, dout.at + i * dout.stride, values * sizeof *row);
        for (size_t j = 0; j < dim; j++) {
            double product = (double)x[i * dim + j] * (double)y[i * dim + j];
            row[values + j] = -y[i * dim + j];
            work->dlambda[j] -= product;
        }
    }
}

static void back_member(back_work *work, size_t member, size_t first, size_t local)
{
    bo_attention_ridge *ridge = &work->ridge;
    const bo_kernels *kernels = ridge->kernels;
    size_t dim = ridge->dim, wide = work->wide, rows = ridge->rows, keys = ridge->keys, chunk = ridge->chunk;
    float *x = kept(work, work->x, member, local), *y = kept(work, work->y, member, local);
    bo_rows q = query_rows(work, work->call->in->q, dim, member, first);
    bo_rows dq = query_rows(work, work->call->gradients->q, dim, member, first);
    begin_member(work, member, first, x, y);
    if (dq.at)
        bo_row_transform_backward(&ridge->transform, BO_OF_QUERIES, rows, q.at, q.stride, y, dq.at, dq.stride, NULL);
    if (keys) {
        score(work, wide, work->douts, work->vt, work->scores);
        decay(work, work->scores);
        kernels->multiply(keys, dim, rows, work->scores, 1, chunk, x, dim, true, work->u, dim);
        score(work, dim, x, ridge->kt, ridge->scores);
        if (work->gates) pass_within(work);
        decay(work, ridge->scores);
        kernels->multiply(keys, wide, rows, ridge->scores, 1, chunk, work->douts, wide, true, work->w, wide);
    }
    for (size_t i = 0; ridge->gated && i < rows; i++) kernels->scale(dim, ridge->remains[i], x + i * dim, x + i * dim);
    if (work->gates && keys) pass_from_start(work, start_of(work, local), x);
    kernels->multiply(dim, wide, rows, x, 1, dim, work->douts, wide, true, work->r, wide);
}

/* Computes the gradients of the chunk's keys from u and w. */
static void write_key_gradients(back_work *work, size_t first)
{
    const bo_call *call = work->call;
    const bo_attention_desc *d = &call->attention->desc;
    const bo_attention_gradients *to = call->gradients;
    bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim, values = ridge->value_dim, sequence = work->sequence, head = work->key_head;
    bo_rows dk = bo_rows_from(bo_rows_at(call, to->k, d->key_heads, dim, true, sequence, head), first);
    bo_rows dv = bo_rows_from(bo_rows_at(call, to->v, d->key_heads, values, true, sequence, head), first);
    bo_rows dbeta = bo_rows_from(bo_rows_at(call, to->beta, d->key_heads, 1, true, sequence, head), first);
    for (size_t j = ridge->keys; j-- > 0;) {
        float beta = ridge->beta[j], *u = work->u + j * dim;
        const float *w = work->w + j * work->wide;
        double along = ridge->kernels->dot(dim, ridge->k + j * dim, u);
        if (dbeta.at) dbeta.at[j * dbeta.stride] = (float)along;
        if (dv.at) ridge->kernels->scale(values, beta, w, dv.at + j * dv.stride);
        for (size_t i = 0; i < dim; i++) u[i] = beta * (u[i] + w[values + i]);
    }
    bo_rows k = bo_rows_from(work->rows.k, first);
    if (dk.at && k.at)
        bo_row_transform_backward(&ridge->transform, BO_OF_KEYS, ridge->keys, k.at, k.stride, work->u, dk.at, dk.stride,
                                  NULL);
}

static void write_gate_gradients(back_work *work, size_t first)
{
    const bo_call *call = work->call;
    bo_rows to = bo_rows_at(call, call->gradients->log_gate, call->attention->desc.key_heads, 1, true, work->sequence,
                            work->key_head);
    double later = 0;
    for (size_t t = 0; t < work->ridge.keys; t++) {
        to.at[(first + t) * to.stride] = (float)(work->passed[t] + later);
        later += work->later[t];
    }
}

static bool back_chunk(back_work *work, size_t first, size_t local, size_t rows)
{
    if (bo_pass_stops(work->call->watch, rows) || !bo_ridge_keys(&work->ridge, &work->rows, first, rows)) return false;
    begin_chunk(work);
    if (work->gates) pass_through(work, start_of(work, local));
    for (size_t g = 0; work->call->dout && g < work->call->attention->group; g++) back_member(work, g, first, local);
    write_key_gradients(work, first);
    if (work->gates) write_gate_gradients(work, first);
    return true;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

/* Copies dG, and dH transposed. */
static void begin_gradient(back_work *work)
{
    const bo_attention *attention = work->call->attention;
    const bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim, values = ridge->value_dim;
    memset(work->r, 0, dim * work->wide * sizeof *work->r);
    memset(work->dlambda, 0, dim * sizeof *work->dlambda);
    if (!work->call->d_final) return;
    const float *from = bo_memory_gradient(attention, work->call->d_final[work->sequence], work->key_head);
    for (size_t i = 0; i < dim; i++) memcpy(work->r + i * work->wide, from + i * values, values * sizeof *from);
    ridge->kernels->transpose(dim, dim, from + dim * values, dim, work->r + values, work->wide);
}

static void end_gradient(back_work *work, float *parameters)
{
    const bo_attention *attention = work->call->attention;
    const bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim, values = ridge->value_dim;
    float *dlambda = parameters + bo_parameter_offset(attention, BO_PARAMETER_LAMBDA);
    for (size_t j = 0; j < dim; j++) dlambda[j] += (float)work->dlambda[j];
    if (!work->call->gradients->initial) return;
    float *to = bo_memory_gradient(attention, work->call->gradients->initial[work->sequence], work->key_head);
    for (size_t i = 0; i < dim; i++) memcpy(to + i * values, work->r + i * work->wide, values * sizeof *to);
    ridge->kernels->transpose(dim, dim, work->r + values, work->wide, to + dim * values, dim);
}

static bool reverse(back_work *work, const float *initial)
{
    const bo_call *call = work->call;
    bo_attention_ridge *ridge = &work->ridge;
    const bo_sequence *size = &call->sequences[work->sequence];
    size_t tokens = size->keys ? size->keys : size->queries, segment = work->segment, chunk = ridge->chunk;
    for (size_t segments = (tokens + segment - 1) / segment; segments-- > 0;) {
        size_t first = segments * segment, end = bo_min(first + segment, tokens);
        bool taped = segments && work->rows.k.at; /* without keys the memory does not change */
        bo_ridge_begin(ridge, taped ? bo_tape_memory(call, work->sequence, work->key_head, segments - 1) : initial);
        if (!ridge->gated) bo_ridge_factor_invert(work->factor, bo_ridge_factor_of(ridge));
        if (!replay(work, first, end)) return false;
        for (size_t chunks = (end - first + chunk - 1) / chunk; chunks-- > 0;) {
            size_t local = chunks * chunk;
            if (!back_chunk(work, first + local, local, bo_min(chunk, end - first - local))) return false;
        }
    }
    return true;
}

void bo_ridge_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch)
{
    bo_carver carver = {.at = scratch};
    back_work work = back_make(call->attention, call->in, key_head, &call->plan, &carver);
    void *initial = call->initial ? (void *)call->initial[sequence] : NULL;
    work.call = call;
    work.sequence = sequence;
    work.rows = bo_token_rows_at(call, sequence, key_head);
    work.gates = work.ridge.gated && call->gradients->log_gate && work.rows.k.at;
    begin_gradient(&work);
    if (!reverse(&work, initial ? bo_state_memory(call->attention, initial, key_head) : NULL)) bo_note_stop(call);
    end_gradient(&work, parameters);
}
