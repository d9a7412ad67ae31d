/* The engine of ridge attention: chunks, forward, step. ridge.h has the formulas. */
#include <assert.h>
#include <math.h>
#include <string.h>
#include "linear.h"
#include "ridge.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t factor_floats(const bo_attention_desc *d)
{
    return bo_padded(bo_ridge_factor_numbers(d->dim, bo_ridge_width(d->dim, d->value_dim)) *
                     (sizeof(double) / sizeof(float)));
}

static size_t sums_floats(const bo_attention_desc *d)
{
    return bo_padded(d->dim * d->value_dim) + bo_padded(d->dim * d->dim);
}

size_t bo_ridge_memory(const bo_attention *attention)
{
    const bo_attention_desc *d = &attention->desc;
    return sums_floats(d) + (d->gate == BO_GATE_NONE ? factor_floats(d) + bo_padded(d->dim) : 0);
}

bo_ridge_factor bo_ridge_factor_of(const bo_attention_ridge *work)
{
    return (bo_ridge_factor){.dim = work->dim,
                             .width = bo_ridge_width(work->dim, work->value_dim),
                             .rows = (double *)(work->memory + sums_floats(&work->attention->desc))};
}

void bo_ridge_begin(bo_attention_ridge *work, const float *memory)
{
    size_t bytes = bo_ridge_memory(work->attention) * sizeof(float);
    if (memory)
        memcpy(work->memory, memory, bytes);
    else
        memset(work->memory, 0, bytes);
    bo_ridge_refit(work);
}

/* Returns the Λ that the factor was computed for. */
static float *fitted_lambda(const bo_attention_ridge *work)
{
    return work->memory + sums_floats(&work->attention->desc) + factor_floats(&work->attention->desc);
}

static void fit_factor(bo_attention_ridge *work)
{
    bo_ridge_factor_fit(bo_ridge_factor_of(work), work->value_dim, &work->exact, work->kernels, work->lambda);
    memcpy(fitted_lambda(work), work->lambda, work->dim * sizeof *work->lambda);
}

void bo_ridge_refit(bo_attention_ridge *work)
{
    if (work->gated || memcmp(fitted_lambda(work), work->lambda, work->dim * sizeof *work->lambda) == 0) return;
    bo_ridge_exact_load(&work->exact, work->memory, bo_ridge_h(work));
    fit_factor(work);
}

void bo_ridge_fit(bo_attention_ridge *work)
{
    const bo_ridge_exact *exact = &work->exact;
    size_t dim = work->dim, values = work->value_dim;
    float *h = bo_ridge_h(work);
    memset(work->memory, 0, bo_ridge_memory(work->attention) * sizeof *work->memory);
    for (size_t i = 0; i < dim; i++) {
        const double *row = exact->sums + i * exact->width;
        for (size_t j = 0; j < values; j++) work->memory[i * values + j] = (float)row[dim + j];
        for (size_t j = i; j < dim; j++) h[i * dim + j] = h[j * dim + i] = (float)row[j];
    }
    fit_factor(work);
}

bool bo_ridge_finite(const bo_attention_ridge *work)
{
    return work->kernels->finite(work->dim * work->value_dim, work->memory) &&
           work->kernels->finite(work->dim * work->dim, bo_ridge_h(work));
}

/* ---- workspace --------------------------------------------------------------------------------------------------- */

/* Allocates memory that only systems with a gate use. */
static void carve_solver(bo_attention_ridge *work, size_t sides, bo_carver *carver)
{
    size_t chunk = work->chunk, dim = work->dim, width = bo_ridge_width(dim, 0);
    work->direct = (bo_ridge_factor){.dim = dim, .width = width};
    work->direct.rows = bo_carve(carver, bo_ridge_factor_numbers(dim, width), sizeof(double));
    work->left = bo_carve(carver, sides * chunk, sizeof(bool));
    work->r = bo_carve_floats(carver, chunk * dim);
    work->p = bo_carve_floats(carver, chunk * dim);
    work->hp = bo_carve_floats(carver, chunk * dim);
    work->inverse = bo_carve_floats(carver, chunk * dim);
    work->z = bo_carve_floats(carver, dim);
    work->rz = bo_carve(carver, chunk, sizeof(double));
    work->goal = bo_carve(carver, chunk, sizeof(double));
    work->diagonal = bo_carve(carver, dim, sizeof(double));
}

bo_attention_ridge bo_ridge_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                 size_t chunk, size_t sides, bo_carver *carver)
{
    size_t dim = attention->desc.dim, values = attention->desc.value_dim;
    bo_attention_ridge work = {.attention = attention,
                               .kernels = attention->kernels,
                               .dim = dim,
                               .value_dim = values,
                               .chunk = chunk,
                               .gated = attention->desc.gate != BO_GATE_NONE};
    work.transform = bo_row_transform_make(attention, in, key_head, carver);
    work.memory = bo_carve_floats(carver, bo_ridge_memory(attention));
    work.lambda = bo_carve_floats(carver, dim);
    work.k = bo_carve_floats(carver, chunk * dim);
    work.kt = bo_carve_floats(carver, dim * chunk);
    work.kb = bo_carve_floats(carver, chunk * dim);
    work.v = bo_carve_floats(carver, chunk * values);
    work.vb = bo_carve_floats(carver, chunk * values);
    work.beta = bo_carve_floats(carver, chunk);
    work.q = bo_carve_floats(carver, attention->group * chunk * dim);
    work.b = bo_carve(carver, chunk + 1, sizeof(double));
    work.remains = bo_carve_floats(carver, chunk);
    work.reach = bo_carve_floats(carver, chunk * chunk);
    work.scores = bo_carve_floats(carver, chunk * chunk);
    work.x = bo_carve_floats(carver, chunk * dim);
    work.active = bo_carve(carver, chunk, sizeof(size_t));
    work.exact = bo_ridge_exact_make(dim, values, carver);
    if (work.gated)
        carve_solver(&work, sides, carver);
    else
        work.block = bo_ridge_block_make(bo_ridge_width(dim, values), attention->group, carver);
    work.measures = in && in->solves;
    for (size_t j = 0; carver->at && j < dim; j++) work.lambda[j] = in->lambda ? in->lambda[key_head * dim + j] : 1;
    return work;
}

/* ---- loading rows ------------------------------------------------------------------------------------------------ */

bool bo_ridge_rows(const bo_attention_ridge *work, bo_role role, size_t rows, bo_rows from, float *to)
{
    size_t dim = work->dim, ld;
    if (!bo_rows_finite(work->kernels, rows, dim, from.at, from.stride)) return false;
    const float *ready = bo_row_transform_forward(&work->transform, role, rows, from.at, from.stride, to, &ld);
    for (size_t i = 0; ready != to && i < rows; i++) memcpy(to + i * dim, ready + i * ld, dim * sizeof *to);
    return true;
}

/* Computes b, remains and reach. Sums of gates may be far larger than any relevant exponent, so their differences are
 * computed in double. */
static void weigh(bo_attention_ridge *work, bo_rows gate)
{
    work->b[0] = 0;
    for (size_t i = 0; i < work->rows; i++) {
        float *row = work->reach + i * work->chunk;
        bool gates = gate.at && i < work->keys;
        work->b[i + 1] = work->b[i] + (double)bo_log_gate(gates ? gate.at + i * gate.stride : NULL);
        work->remains[i] = (float)exp(work->b[i + 1]);
        for (size_t j = 0; !work->gated && j < work->keys; j++) row[j] = j > i ? 0 : 1;
        if (!work->gated) continue;
        for (size_t j = 0; j < work->keys; j++) row[j] = j > i ? -INFINITY : (float)(work->b[i + 1] - work->b[j + 1]);
        work->kernels->exp_below(work->keys, row, 0, row);
    }
}

bool bo_ridge_keys(bo_attention_ridge *work, const bo_token_rows *at, size_t first, size_t rows)
{
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, values = work->value_dim;
    bo_rows k = bo_rows_from(at->k, first), v = bo_rows_from(at->v, first), beta = bo_rows_from(at->beta, first);
    assert(rows <= work->chunk);
    work->rows = rows;
    work->keys = k.at ? rows : 0;
    if (k.at &&
        !(bo_ridge_rows(work, BO_OF_KEYS, rows, k, work->k) && bo_rows_finite(kernels, rows, values, v.at, v.stride)))
        return false;
    for (size_t j = 0; j < work->keys; j++) {
        work->beta[j] = beta.at ? beta.at[j * beta.stride] : 1;
        memcpy(work->v + j * values, v.at + j * v.stride, values * sizeof *work->v);
        kernels->scale(dim, work->beta[j], work->k + j * dim, work->kb + j * dim);
        kernels->scale(values, work->beta[j], work->v + j * values, work->vb + j * values);
    }
    kernels->transpose(work->keys, dim, work->k, dim, work->kt, work->chunk);
    weigh(work, bo_rows_from(at->gate, first));
    return true;
}

bool bo_ridge_queries(bo_attention_ridge *work, size_t member, bo_rows q, size_t first)
{
    return bo_ridge_rows(work, BO_OF_QUERIES, work->rows, bo_rows_from(q, first),
                         work->q + member * work->chunk * work->dim);
}

/* Computes M = exp(b_T) M + Σ_j exp(b_T - b_j) k_j c_jᵀ; c is multiplied by the weights in place. */
static void absorb_into(const bo_attention_ridge *work, size_t width, float *c, float *m)
{
    const bo_kernels *kernels = work->kernels;
    size_t last = work->keys - 1;
    for (size_t j = 0; work->gated && j < last; j++)
        kernels->scale(width, work->reach[last * work->chunk + j], c + j * width, c + j * width);
    if (work->gated) kernels->scale(work->dim * width, work->remains[last], m, m);
    kernels->multiply(work->dim, width, work->keys, work->k, 1, work->dim, c, width, true, m, width);
}

void bo_ridge_absorb(bo_attention_ridge *work)
{
    if (!work->keys) return;
    absorb_into(work, work->value_dim, work->vb, work->memory);
    absorb_into(work, work->dim, work->kb, bo_ridge_h(work));
}

/* ---- without a gate ---------------------------------------------------------------------------------------------- */

/* Writes a [x, y], then zeros; without y if it is NULL. */
static void widen(size_t n, double a, const float *x, size_t m, const float *y, size_t width, double *to)
{
    memset(to + n, 0, (width - n) * sizeof *to);
    for (size_t j = 0; j < n; j++) to[j] = a * (double)x[j];
    for (size_t j = 0; y && j < m; j++) to[n + j] = a * (double)y[j];
}

/* Fills the block with tokens [first, first + count) of the chunk and their right-hand sides. */
static void fill_block(const bo_attention_ridge *work, const bo_ridge_sweep *sweep, size_t first, size_t count)
{
    const bo_ridge_block *block = sweep->block;
    size_t dim = work->dim, values = work->value_dim, width = block->width;
    memset(block->tokens, 0, count * width * sizeof *block->tokens);
    for (size_t t = 0; t < count; t++) {
        size_t row = first + t;
        if (row < work->keys)
            widen(dim, sqrt((double)work->beta[row]), work->k + row * dim, values,
                  sweep->values ? work->v + row * values : NULL, width, block->tokens + t * width);
        for (size_t a = 0; a < block->sides; a++)
            widen(dim, 1, sweep->rhs + (a * work->chunk + row) * dim, 0, NULL, width,
                  block->rhs + (t * block->sides + a) * width);
    }
}

void bo_ridge_sweep_run(const bo_attention_ridge *work, const bo_ridge_sweep *sweep)
{
    const bo_ridge_block *block = sweep->block;
    for (size_t first = 0; first < work->rows; first += BO_RIDGE_BLOCK) {
        size_t count = bo_min(BO_RIDGE_BLOCK, work->rows - first);
        fill_block(work, sweep, first, count);
        bo_ridge_factor_update(sweep->factor, work->kernels, block, count);
        for (size_t n = 0; n < count * block->sides; n++) {
            const double *result = block->rhs + n * block->width + work->dim;
            float *to = sweep->out + n % block->sides * sweep->side + (first + n / block->sides) * sweep->row;
            for (size_t j = 0; j < sweep->tail; j++) to[j] = (float)-result[j];
        }
    }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static bo_ridge_sums ridge_sums_g(const bo_attention_ridge *work)
{
    return (bo_ridge_sums){
        .m = work->memory, .at = work->kt, .c = work->vb, .width = work->dim, .out_width = work->value_dim};
}

/* Processes bands of rows with nearly the same visible keys. */
void bo_ridge_product(const bo_attention_ridge *work, const bo_ridge_sums *sums, size_t count, const size_t *index,
                      const float *p, float *out, size_t ldo)
{
    const bo_kernels *kernels = work->kernels;
    size_t width = sums->width, values = sums->out_width;
    kernels->multiply(count, values, width, p, width, 1, sums->m, values, false, out, ldo);
    for (size_t first = 0; first < count; first += BO_BAND) {
        size_t rows = bo_min(BO_BAND, count - first), visible = bo_min(index[first + rows - 1] + 1, work->keys);
        float *scores = work->scores + first * work->chunk;
        kernels->multiply(rows, visible, width, p + first * width, width, 1, sums->at, work->chunk, false, scores,
                          work->chunk);
        for (size_t s = 0; s < rows; s++) {
            size_t i = index[first + s];
            const float *reach = work->reach + i * work->chunk;
            for (size_t j = 0; j < visible; j++)
                scores[s * work->chunk + j] = j > i ? 0 : scores[s * work->chunk + j] * reach[j];
            if (work->gated) kernels->scale(values, work->remains[i], out + (first + s) * ldo, out + (first + s) * ldo);
        }
        kernels->multiply(rows, values, visible, scores, work->chunk, 1, sums->c, values, true, out + first * ldo, ldo);
    }
}

/* ---- the engine -------------------------------------------------------------------------------------------------- */

/* The engine of ridge attention: plan, forward, step. */

/* ---- plan -------------------------------------------------------------------------------------------------------- */

/* With a gate, every step of conjugate gradients multiplies within the chunk, about dim (chunk + 16) operations per
 * product and row, in addition to 2 dim² with the sums: small chunks are best. Without a gate, only G and H are updated
 * chunk by chunk. */
static size_t choose_chunk(const bo_attention_desc *d)
{
    if (d->chunk) return d->chunk;
    return d->gate == BO_GATE_NONE ? 64 : 32;
}

static void plan(const bo_attention *attention, size_t longest_queries, size_t longest_keys, bo_attention_cost *out)
{
    bo_carver forward = {0};
    out->chunk = choose_chunk(&attention->desc);
    out->segment = bo_segment(out->chunk, bo_max(bo_max(longest_queries, longest_keys), 1));
    if (!attention->desc.causal) {
        out->forward_bytes = bo_ridge_pool_bytes(attention, out, false);
        out->backward_bytes = bo_ridge_pool_bytes(attention, out, true);
        return;
    }
    bo_ridge_make(attention, NULL, 0, out->chunk, attention->group, &forward);
    out->forward_bytes = forward.bytes;
    out->backward_bytes = bo_ridge_backward_bytes(attention, out);
}

static size_t memory_gradient(const bo_attention *attention)
{
    return attention->desc.dim * (attention->desc.value_dim + attention->desc.dim);
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

/* Combines sums and maxima, which do not depend on the order of the tasks. */
void bo_ridge_report(bo_solves *to, const bo_solves *from)
{
    if (!to) return;
    __atomic_fetch_add(&to->systems, from->systems, __ATOMIC_RELAXED);
    __atomic_fetch_add(&to->iterations, from->iterations, __ATOMIC_RELAXED);
    __atomic_fetch_add(&to->refactored, from->refactored, __ATOMIC_RELAXED);
    double residual = from->largest_residual, old;
    __atomic_load(&to->largest_residual, &old, __ATOMIC_RELAXED);
    while (old < residual && !__atomic_compare_exchange(&to->largest_residual, &old, &residual, false, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED))
        continue;
}

/* Without a gate: measures the residual of the factor's x for the chunk's last query, in the system with the state's
 * H. */
static void measure_factor(bo_attention_ridge *work, size_t member)
{
    size_t dim = work->dim;
    const float *q = work->q + (member * work->chunk + work->rows - 1) * dim, *h = bo_ridge_h(work);
    double *x = work->block.rhs, residual = 0, norm = work->kernels->dot(dim, q, q);
    for (size_t j = 0; j < dim; j++) x[j] = (double)q[j];
    bo_ridge_factor_solve(bo_ridge_factor_of(work), x);
    for (size_t i = 0; i < dim; i++) {
        double left = (double)work->lambda[i] * x[i] - (double)q[i];
        for (size_t j = 0; j < dim; j++) left += (double)h[i * dim + j] * x[j];
        residual += left * left;
    }
    if (norm > 0) work->solves.largest_residual = fmax(work->solves.largest_residual, sqrt(residual / norm));
}

/* ---- a chunk ----------------------------------------------------------------------------------------------------- */

/* Destinations of the rows of the group's query heads; row 0 is the chunk's first. */
typedef struct outputs {
    float *at;
    size_t row, head; /* strides of rows and heads */
} outputs;

/* Processes a chunk with a gate. */
static void iterate_chunk(bo_attention_ridge *work, const outputs *out)
{
    size_t group = work->attention->group, each = work->chunk * work->dim;
    bo_ridge_sums sums = ridge_sums_g(work);
    bo_ridge_precondition(work);
    for (size_t g = 0; g < group; g++) {
        bo_ridge_iterate(work, g, work->q + g * each, work->x);
        for (size_t i = 0; i < work->rows; i++) work->active[i] = i;
        bo_ridge_product(work, &sums, work->rows, work->active, work->x, out->at + g * out->head, out->row);
    }
    for (size_t i = 0; (i = bo_ridge_direct_next(work, group, i)) < work->rows; i++)
        for (size_t g = 0; g < group; g++) {
            if (!work->left[g * work->chunk + i]) continue;
            bo_ridge_direct_query(work, work->q + g * each + i * work->dim);
            bo_ridge_direct_output(work, out->at + g * out->head + i * out->row);
        }
}

/* Without a gate, the factor absorbs the chunk's keys while it solves for queries; this case has no queries. */
void bo_ridge_absorb_keys(bo_attention_ridge *work)
{
    bo_ridge_block block = work->block;
    block.sides = 0;
    bo_ridge_sweep sweep = {.factor = bo_ridge_factor_of(work), .block = &block, .values = true};
    if (!work->gated) bo_ridge_sweep_run(work, &sweep);
    bo_ridge_absorb(work);
}

/* Computes the outputs of the queries in work->q and absorbs the chunk's keys. False: overflow. */
static bool run_chunk(bo_attention_ridge *work, const outputs *out)
{
    size_t group = work->attention->group;
    if (work->gated) {
        iterate_chunk(work, out);
    } else {
        bo_ridge_sweep sweep = {.factor = bo_ridge_factor_of(work),
                                .block = &work->block,
                                .values = true,
                                .rhs = work->q,
                                .out = out->at,
                                .tail = work->value_dim,
                                .row = out->row,
                                .side = out->head};
        bo_ridge_sweep_run(work, &sweep);
        work->solves.systems += group * work->rows;
    }
    bo_ridge_absorb(work);
    for (size_t g = 0; g < group; g++) {
        if (!work->gated && work->measures) measure_factor(work, g);
        if (!bo_rows_finite(work->kernels, work->rows, work->value_dim, out->at + g * out->head, out->row))
            return false;
    }
    return true;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static bool forward_rows(const bo_call *call, size_t sequence, size_t key_head, bo_attention_ridge *work)
{
    const bo_attention *attention = call->attention;
    const bo_attention_desc *d = &attention->desc;
    bo_token_rows at = bo_token_rows_at(call, sequence, key_head);
    const bo_sequence *size = &call->sequences[sequence];
    size_t tokens = size->keys ? size->keys : size->queries, head = key_head * attention->group;
    for (size_t first = 0; first < tokens; first += work->chunk) {
        size_t rows = bo_min(work->chunk, tokens - first);
        if (bo_pass_stops(call->watch, rows)) return false;
        if (call->tape.top && at.k.at && first && first % call->plan.segment == 0)
            memcpy(bo_tape_memory(call, sequence, key_head, first / call->plan.segment - 1), work->memory,
                   bo_ridge_memory(attention) * sizeof(float));
        if (!bo_ridge_keys(work, &at, first, rows)) return false;
        if (call->shape->no_queries) {
            bo_ridge_absorb_keys(work);
            continue;
        }
        for (size_t g = 0; g < attention->group; g++) {
            bo_rows q = bo_rows_at(call, call->in->q, d->heads, d->dim, false, sequence, head + g);
            if (!bo_ridge_queries(work, g, q, first)) return false;
        }
        bo_rows out = bo_rows_at(call, call->out, d->heads, d->value_dim, false, sequence, head);
        bo_rows next = bo_rows_at(call, call->out, d->heads, d->value_dim, false, sequence, head + 1);
        outputs to = {bo_rows_from(out, first).at, out.stride, (size_t)(next.at - out.at)};
        if (!run_chunk(work, &to)) return false;
    }
    return true;
}

static void forward(const bo_call *call, size_t sequence, size_t key_head, void *scratch)
{
    const bo_attention *attention = call->attention;
    bo_carver carver = {.at = scratch};
    if (!attention->desc.causal) {
        bo_ridge_pool_forward(call, sequence, key_head, scratch);
        return;
    }
    bo_attention_ridge work = bo_ridge_make(attention, call->in, key_head, call->plan.chunk, attention->group, &carver);
    void *initial = call->initial ? (void *)call->initial[sequence] : NULL;
    bo_ridge_begin(&work, initial ? bo_state_memory(attention, initial, key_head) : NULL);
    if (!forward_rows(call, sequence, key_head, &work) || !bo_ridge_finite(&work)) {
        bo_note_stop(call);
        return;
    }
    if (call->final && call->sequences[sequence].keys) /* a read-only state does not change */
        memcpy(bo_state_memory(attention, call->final[sequence], key_head), work.memory,
               bo_ridge_memory(attention) * sizeof(float));
    bo_ridge_report(call->in->solves, &work.solves);
}

static void backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch)
{
    (call->attention->desc.causal ? bo_ridge_backward : bo_ridge_pool_backward)(call, sequence, key_head, parameters,
                                                                                scratch);
}

/* ---- step -------------------------------------------------------------------------------------------------------- */

static size_t step_bytes(const bo_attention *attention, size_t count)
{
    bo_carver carver = {0};
    (void)count;
    bo_ridge_make(attention, NULL, 0, 1, attention->group, &carver);
    return carver.bytes;
}

/* Returns the rows of a token; strides do not matter. */
static bo_token_rows token_at(const bo_attention_desc *d, const bo_attention_inputs *in, size_t at)
{
    return (bo_token_rows){.k = {in->k ? (float *)in->k + at * d->dim : NULL, d->dim},
                           .v = {in->v ? (float *)in->v + at * d->value_dim : NULL, d->value_dim},
                           .gate = {in->log_gate ? (float *)in->log_gate + at : NULL, 1},
                           .beta = {in->beta ? (float *)in->beta + at : NULL, 1}};
}

/* Sets the memory of a step: the state, or a copy if it is only read, because the factor may be recomputed and even
 * zero tokens write to it. With a gate, reading writes nothing. */
static void step_memory(bo_attention_ridge *work, float *private_memory, float *memory, bool read_only)
{
    work->memory = read_only && !work->gated ? private_memory : memory;
    if (work->memory == private_memory)
        bo_ridge_begin(work, memory);
    else
        bo_ridge_refit(work);
}

/* Processes a chunk of one token. */
static void step(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                 size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch)
{
    const bo_attention_desc *d = &attention->desc;
    bo_carver carver = {.at = scratch};
    bo_attention_ridge work = bo_ridge_make(attention, in, key_head, 1, attention->group, &carver);
    float *private_memory = work.memory;
    for (size_t s = first; s < first + count; s++) {
        size_t head = s * d->heads + key_head * attention->group;
        bo_token_rows at = token_at(d, in, s * d->key_heads + key_head);
        step_memory(&work, private_memory, bo_state_memory(attention, states[s], key_head), !in->k);
        bool finite = bo_ridge_keys(&work, &at, 0, 1);
        for (size_t g = 0; g < attention->group; g++) {
            bo_rows q = {(float *)in->q + (head + g) * d->dim, d->dim};
            finite = finite && bo_ridge_queries(&work, g, q, 0);
        }
        outputs to = {out + head * d->value_dim, d->value_dim, d->value_dim};
        if (!finite || !run_chunk(&work, &to) || !bo_ridge_finite(&work)) atomic_store(not_finite, true);
    }
    bo_ridge_report(in->solves, &work.solves);
}

/* H */
static size_t memory_second(const bo_attention *attention)
{
    return attention->desc.dim * attention->desc.dim;
}

/* Causal: two triangular systems, Gᵀx; k vᵀ, k kᵀ, the update of the factor. Otherwise: Wᵀq; k vᵀ, half of k kᵀ; the
 * factor and two triangular systems for each column of W. */
static bo_token_operations operations(const bo_attention *attention)
{
    double dim = (double)attention->desc.dim, values = (double)attention->desc.value_dim;
    if (attention->desc.causal)
        return (bo_token_operations){.query = 2 * dim * dim + 2 * dim * values,
                                     .key = 2 * dim * values + 4 * dim * dim};
    return (bo_token_operations){.query = 2 * dim * values,
                                 .key = 2 * dim * values + dim * dim,
                                 .sequence = dim * dim * dim / 3 + 2 * dim * dim * values};
}

const bo_engine bo_engine_ridge = {
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .tape_states = bo_segment_states,
    .memory = bo_ridge_memory,
    .memory_gradient = memory_gradient,
    .memory_second = memory_second,
    .operations = operations,
    .step_bytes = step_bytes,
    .step = step,
};
