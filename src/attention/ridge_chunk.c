/* A chunk of ridge attention: ridge.h has the formulas. */
#include <math.h>
#include <string.h>
#include "linear.h"
#include "ridge.h"

/* ---- memory ---------------------------------------------------------------------------------------------------- */

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

void bo_ridge_refit(bo_attention_ridge *work)
{
    if (work->gated) return;
    float *fitted = work->memory + sums_floats(&work->attention->desc) + factor_floats(&work->attention->desc);
    if (memcmp(fitted, work->lambda, work->dim * sizeof *fitted) == 0) return;
    bo_ridge_exact_load(&work->exact, work->memory, bo_ridge_h(work));
    bo_ridge_factor_fit(bo_ridge_factor_of(work), work->value_dim, &work->exact, work->kernels, work->lambda);
    memcpy(fitted, work->lambda, work->dim * sizeof *fitted);
}

/* ---- work space ------------------------------------------------------------------------------------------------ */

/* What only systems with a gate need. */
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
    work.front = bo_row_transform_make(attention, in, key_head, carver);
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

/* ---- taking rows in -------------------------------------------------------------------------------------------- */

/* Rows behind the front, one after the other; false: not finite. */
static bool take_rows(const bo_attention_ridge *work, bo_role role, size_t rows, bo_rows from, float *to)
{
    size_t dim = work->dim, ld;
    if (!bo_rows_finite(work->kernels, rows, dim, from.at, from.stride)) return false;
    const float *ready = bo_row_transform_forward(&work->front, role, rows, from.at, from.stride, to, &ld);
    for (size_t i = 0; ready != to && i < rows; i++) memcpy(to + i * dim, ready + i * ld, dim * sizeof *to);
    return true;
}

/* b, remains and reach. Sums of gates may be far larger than any exponent that counts, so they cancel in double. */
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
    work->rows = rows;
    work->keys = k.at ? rows : 0;
    if (k.at &&
        !(take_rows(work, BO_OF_KEYS, rows, k, work->k) && bo_rows_finite(kernels, rows, values, v.at, v.stride)))
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
    return take_rows(work, BO_OF_QUERIES, work->rows, bo_rows_from(q, first),
                     work->q + member * work->chunk * work->dim);
}

/* M = exp(b_T) M + Σ_j exp(b_T - b_j) k_j c_jᵀ; c is weighed in place. */
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

/* ---- without a gate -------------------------------------------------------------------------------------------- */

/* a [x, y], then zeros; without y where it is NULL. */
static void widen(size_t n, double a, const float *x, size_t m, const float *y, size_t width, double *to)
{
    memset(to + n, 0, (width - n) * sizeof *to);
    for (size_t j = 0; j < n; j++) to[j] = a * (double)x[j];
    for (size_t j = 0; y && j < m; j++) to[n + j] = a * (double)y[j];
}

/* Tokens [first, first + count) of the chunk and their right-hand sides. */
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
            widen(dim, 1, sweep->asked + (a * work->chunk + row) * dim, 0, NULL, width,
                  block->asked + (t * block->sides + a) * width);
    }
}

void bo_ridge_sweep_run(const bo_attention_ridge *work, const bo_ridge_sweep *sweep)
{
    const bo_ridge_block *block = sweep->block;
    for (size_t first = 0; first < work->rows; first += BO_RIDGE_BLOCK) {
        size_t count = bo_least(BO_RIDGE_BLOCK, work->rows - first);
        fill_block(work, sweep, first, count);
        bo_ridge_factor_take(sweep->factor, work->kernels, block, count);
        for (size_t n = 0; n < count * block->sides; n++) {
            const double *answer = block->asked + n * block->width + work->dim;
            float *to = sweep->out + n % block->sides * sweep->side + (first + n / block->sides) * sweep->row;
            for (size_t j = 0; j < sweep->tail; j++) to[j] = (float)-answer[j];
        }
    }
}

/* ---- products -------------------------------------------------------------------------------------------------- */

bo_ridge_sums bo_ridge_sums_g(const bo_attention_ridge *work)
{
    return (bo_ridge_sums){
        .m = work->memory, .at = work->kt, .c = work->vb, .width = work->dim, .out_width = work->value_dim};
}

/* Bands of rows that see nearly the same keys. */
void bo_ridge_product(const bo_attention_ridge *work, const bo_ridge_sums *sums, size_t count, const size_t *index,
                      const float *p, float *out, size_t ldo)
{
    const bo_kernels *kernels = work->kernels;
    size_t width = sums->width, values = sums->out_width;
    kernels->multiply(count, values, width, p, width, 1, sums->m, values, false, out, ldo);
    for (size_t first = 0; first < count; first += BO_BAND) {
        size_t rows = bo_least(BO_BAND, count - first), seen = bo_least(index[first + rows - 1] + 1, work->keys);
        float *scores = work->scores + first * work->chunk;
        kernels->multiply(rows, seen, width, p + first * width, width, 1, sums->at, work->chunk, false, scores,
                          work->chunk);
        for (size_t s = 0; s < rows; s++) {
            size_t i = index[first + s];
            const float *reach = work->reach + i * work->chunk;
            for (size_t j = 0; j < seen; j++)
                scores[s * work->chunk + j] = j > i ? 0 : scores[s * work->chunk + j] * reach[j];
            if (work->gated) kernels->scale(values, work->remains[i], out + (first + s) * ldo, out + (first + s) * ldo);
        }
        kernels->multiply(rows, values, seen, scores, work->chunk, 1, sums->c, values, true, out + first * ldo, ldo);
    }
}
