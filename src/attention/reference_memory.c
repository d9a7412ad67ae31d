/* Recurrent memories in float64, token by token:
 *
 *     GLA      o_t = s S_tᵀ q_t,  S_t = diag(g_t) S_{t-1} + k_t v_tᵀ                            (2312.06635)
 *     DELTA    o_t = s S_tᵀ q_t,  S_t = A + β_t k_t u_tᵀ,  A = g_t S_{t-1},  u_t = v_t - Aᵀ k_t   (2406.06484,
 *                                                                                             2412.06464)
 *     RIDGE    o_t = S_tᵀ x_t,  (H_t + Λ) x_t = q_t,  S_t = g_t S_{t-1} + β_t k_t v_tᵀ,
 *              H_t = g_t H_{t-1} + β_t k_t k_tᵀ                                                 (2506.05233)
 *
 * q and k are transformed rows. A causal query reads the state after its key, other queries the state after all keys.
 * Backward stores the states of all steps and runs the recurrences in reverse. */
#include <math.h>
#include <string.h>
#include "parameters.h"
#include "reference.h"

/* Arrays of one task. */
typedef struct work {
    bo_reference_task *task;
    size_t dim, values;
    bool ridge, delta, keeps; /* keeps: all states are stored, else only the current one */
    double *s, *h;            /* states: dim x values, dim x dim */
    double *factor;           /* L of H + Λ = L Lᵀ */
    double *x, *y;            /* solutions of linear systems */
    double *u, *du;           /* DELTA: u_t and its gradient */
    double *ds, *dh;          /* dL/dS and dL/dH of the current state */
} work;

static work carve(const bo_reference *of, bo_carver *carver)
{
    const bo_attention *attention = of->call.attention;
    size_t dim = attention->desc.dim, values = attention->desc.value_dim;
    work w = {.dim = dim,
              .values = values,
              .ridge = attention->engine == &bo_engine_ridge,
              .delta = attention->engine == &bo_engine_delta,
              .keeps = of->gradients != NULL};
    size_t states = w.keeps ? of->longest_keys + 1 : 1, square = w.ridge ? dim * dim : 0;
    w.s = bo_carve_f64(carver, states * dim * values);
    w.h = bo_carve_f64(carver, states * square);
    w.factor = bo_carve_f64(carver, square);
    w.x = bo_carve_f64(carver, dim);
    w.y = bo_carve_f64(carver, dim);
    w.u = bo_carve_f64(carver, values);
    w.du = bo_carve_f64(carver, values);
    w.ds = bo_carve_f64(carver, dim * values);
    w.dh = bo_carve_f64(carver, square);
    return w;
}

size_t bo_reference_memory_bytes(const bo_reference *of)
{
    bo_carver carver = {NULL, 0};
    carve(of, &carver);
    return carver.bytes;
}

/* Returns S or H after t keys. */
static double *state_s(const work *w, size_t t)
{
    return w->s + (w->keeps ? t : 0) * w->dim * w->values;
}

static double *state_h(const work *w, size_t t)
{
    return w->h + (w->keeps ? t : 0) * w->dim * w->dim;
}

/* Returns the gate of key t for row i of the state. */
static double gate_of(const work *w, size_t t, size_t i)
{
    const bo_reference_task *task = w->task;
    if (!task->gate.at) return 1;
    return exp(bo_row_f64(task->gate, t)[task->attention->traits & BO_TRAIT_CHANNELS ? i : 0]);
}

static double beta_of(const work *w, size_t t)
{
    return w->task->beta.at ? *bo_row_f64(w->task->beta, t) : 1;
}

static double scale_of(const work *w)
{
    return w->ridge ? 1 : w->task->desc->scale;
}

/* ---- linear systems ---------------------------------------------------------------------------------------------- */

/* Factorizes H + Λ = L Lᵀ (Cholesky). Without rounding, every pivot is at least λ, because H is positive
 * semidefinite. */
static void factorize(const work *w, const double *h)
{
    const bo_reference_task *task = w->task;
    const double *lambda = task->of->in->lambda ? task->of->in->lambda + task->key_head * w->dim : NULL;
    size_t n = w->dim;
    for (size_t i = 0; i < n; i++) {
        double *row = w->factor + i * n, ridge = lambda ? lambda[i] : 1;
        for (size_t j = 0; j < i; j++)
            row[j] = (h[i * n + j] - bo_dot_f64(j, row, w->factor + j * n)) / w->factor[j * n + j];
        row[i] = sqrt(fmax(h[i * n + i] + ridge - bo_dot_f64(i, row, row), ridge));
    }
}

/* Solves L Lᵀ x = b; x may be b. */
static void solve(const work *w, const double *b, double *x)
{
    size_t n = w->dim;
    for (size_t i = 0; i < n; i++) x[i] = (b[i] - bo_dot_f64(i, w->factor + i * n, x)) / w->factor[i * n + i];
    for (size_t i = n; i-- > 0;) {
        for (size_t j = i + 1; j < n; j++) x[i] -= w->factor[j * n + i] * x[j];
        x[i] /= w->factor[i * n + i];
    }
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* DELTA: computes u = v - g Sᵀ k from the state before key t. */
static void find_error(const work *w, size_t t)
{
    const double *k = w->task->tk + t * w->dim, *before = state_s(w, t);
    double gate = gate_of(w, t, 0);
    memcpy(w->u, bo_row_f64(w->task->v, t), w->values * sizeof *w->u);
    for (size_t i = 0; i < w->dim; i++) bo_axpy_f64(w->values, -gate * k[i], before + i * w->values, w->u);
}

/* Computes the state after key t. */
static void absorb(const work *w, size_t t)
{
    const double *k = w->task->tk + t * w->dim, *added = bo_row_f64(w->task->v, t), *before = state_s(w, t);
    double *after = state_s(w, t + 1), beta = beta_of(w, t);
    if (w->delta) find_error(w, t), added = w->u;
    for (size_t i = 0; i < w->dim; i++) {
        double gate = gate_of(w, t, i);
        for (size_t c = 0; c < w->values; c++)
            after[i * w->values + c] = gate * before[i * w->values + c] + beta * k[i] * added[c];
        for (size_t j = 0; w->ridge && j < w->dim; j++)
            state_h(w, t + 1)[i * w->dim + j] = gate * state_h(w, t)[i * w->dim + j] + beta * k[i] * k[j];
    }
}

/* Computes the outputs of queries [first, end) of every head from the state after t keys. */
static void compute_outputs(const work *w, size_t first, size_t end, size_t t)
{
    const bo_reference_task *task = w->task;
    if (w->ridge) factorize(w, state_h(w, t));
    for (size_t row = 0; row < task->rows; row++) {
        size_t token = row % task->queries;
        if (token < first || token >= end) continue;
        const double *x = task->tq + row * w->dim;
        if (w->ridge) solve(w, x, w->x), x = w->x;
        for (size_t i = 0; i < w->dim; i++)
            bo_axpy_f64(w->values, scale_of(w) * x[i], state_s(w, t) + i * w->values, task->out + row * w->values);
    }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* o = s Sᵀ x: dx = s S do, dS = s x doᵀ. RIDGE, with x = (H + Λ)⁻¹ q: dq = y, dH = -y xᵀ, dΛ = -x ∘ y, where
 * y = (H + Λ)⁻¹ dx. */
static void output_row_backward(const work *w, size_t row, size_t t)
{
    bo_reference_task *task = w->task;
    const double *x = task->tq + row * w->dim, *dout = task->dout + row * w->values, *s = state_s(w, t);
    double *dx = task->dtq + row * w->dim;
    for (size_t i = 0; i < w->dim; i++) dx[i] = scale_of(w) * bo_dot_f64(w->values, s + i * w->values, dout);
    if (w->ridge) {
        double *dlambda = task->parameters + bo_parameter_offset(task->attention, BO_PARAMETER_LAMBDA);
        solve(w, x, w->x), x = w->x;
        solve(w, dx, w->y);
        for (size_t i = 0; i < w->dim; i++) {
            dx[i] = w->y[i];
            dlambda[i] -= x[i] * w->y[i];
            bo_axpy_f64(w->dim, -w->y[i], x, w->dh + i * w->dim);
        }
    }
    for (size_t i = 0; i < w->dim; i++) bo_axpy_f64(w->values, scale_of(w) * x[i], dout, w->ds + i * w->values);
}

static void outputs_backward(const work *w, size_t first, size_t end, size_t t)
{
    const bo_reference_task *task = w->task;
    if (w->ridge) factorize(w, state_h(w, t));
    for (size_t row = 0; row < task->rows; row++)
        if (row % task->queries >= first && row % task->queries < end) output_row_backward(w, row, t);
}

/* S = A + β k uᵀ, u = v - Aᵀ k: du = β dSᵀ k, dk = β dS u - A du, dβ = kᵀ dS u, dA = dS - k duᵀ. */
static void delta_backward(const work *w, size_t t)
{
    bo_reference_task *task = w->task;
    const double *k = task->tk + t * w->dim, *before = state_s(w, t);
    double beta = beta_of(w, t), gate = gate_of(w, t, 0);
    find_error(w, t);
    memset(w->du, 0, w->values * sizeof *w->du);
    for (size_t i = 0; i < w->dim; i++) bo_axpy_f64(w->values, beta * k[i], w->ds + i * w->values, w->du);
    memcpy(task->dv + t * w->values, w->du, w->values * sizeof *w->du);
    for (size_t i = 0; i < w->dim; i++) {
        double along = bo_dot_f64(w->values, w->ds + i * w->values, w->u);
        task->dtk[t * w->dim + i] = beta * along - gate * bo_dot_f64(w->values, before + i * w->values, w->du);
        task->dbeta[t] += k[i] * along;
        bo_axpy_f64(w->values, -k[i], w->du, w->ds + i * w->values);
    }
}

/* S = A + β k vᵀ, H = B + β k kᵀ: dv = β dSᵀ k, dk = β (dS v + (dH + dHᵀ) k), dβ = kᵀ dS v + kᵀ dH k. */
static void plain_backward(const work *w, size_t t)
{
    bo_reference_task *task = w->task;
    const double *k = task->tk + t * w->dim, *v = bo_row_f64(task->v, t);
    double beta = beta_of(w, t), *dk = task->dtk + t * w->dim;
    for (size_t i = 0; i < w->dim; i++) {
        double along = bo_dot_f64(w->values, w->ds + i * w->values, v);
        bo_axpy_f64(w->values, beta * k[i], w->ds + i * w->values, task->dv + t * w->values);
        task->dbeta[t] += k[i] * along;
        dk[i] += beta * along;
        for (size_t j = 0; w->ridge && j < w->dim; j++) {
            dk[i] += beta * (w->dh[i * w->dim + j] + w->dh[j * w->dim + i]) * k[j];
            task->dbeta[t] += k[i] * w->dh[i * w->dim + j] * k[j];
        }
    }
}

/* A = g S and B = g H: the gradient of log g, then dS and dH of the state before. */
static void gate_backward(const work *w, size_t t)
{
    bo_reference_task *task = w->task;
    bool channels = task->attention->traits & BO_TRAIT_CHANNELS;
    for (size_t i = 0; i < w->dim; i++) {
        double gate = gate_of(w, t, i), *ds = w->ds + i * w->values, *dh = w->dh + i * w->dim;
        double inner = bo_dot_f64(w->values, ds, state_s(w, t) + i * w->values);
        if (w->ridge) inner += bo_dot_f64(w->dim, dh, state_h(w, t) + i * w->dim);
        task->dgate[channels ? t * w->dim + i : t] += gate * inner;
        for (size_t c = 0; c < w->values; c++) ds[c] *= gate;
        for (size_t j = 0; w->ridge && j < w->dim; j++) dh[j] *= gate;
    }
}

static void run_backward(const work *w)
{
    const bo_reference_task *task = w->task;
    bool causal = task->desc->causal;
    memset(w->ds, 0, w->dim * w->values * sizeof *w->ds);
    if (w->ridge) memset(w->dh, 0, w->dim * w->dim * sizeof *w->dh);
    if (!causal) outputs_backward(w, 0, task->queries, task->keys);
    for (size_t t = task->keys; t-- > 0;) {
        if (bo_pass_stops(task->of->call.watch, 1)) return;
        if (causal) outputs_backward(w, t, t + 1, t + 1);
        (w->delta ? delta_backward : plain_backward)(w, t);
        if (task->gate.at) gate_backward(w, t);
    }
}

/* ---- a task ------------------------------------------------------------------------------------------------------ */

void bo_reference_memory(bo_reference_task *task)
{
    bool causal = task->desc->causal;
    bo_carver carver = {task->scratch, 0};
    work w = carve(task->of, &carver);
    w.task = task;
    memset(w.s, 0, w.dim * w.values * sizeof *w.s);
    if (w.ridge) memset(w.h, 0, w.dim * w.dim * sizeof *w.h);
    for (size_t t = 0; t < task->keys; t++) {
        if (bo_pass_stops(task->of->call.watch, 1)) return;
        absorb(&w, t);
        if (causal && task->out) compute_outputs(&w, t, t + 1, t + 1);
    }
    if (!causal && task->out) compute_outputs(&w, 0, task->queries, task->keys);
    if (!task->out) run_backward(&w);
}
