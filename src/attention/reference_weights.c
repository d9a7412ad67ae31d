/* Kinds with weights in float64, pair by pair. Query i sees the keys j < end (all, or j <= i if causal). Keys from
 * `window` on have explicit weights, earlier keys have weights from features:
 *
 *     window    a_ij = mix exp(s q_i·k_j), or |s q_i·k_j|^p
 *     features  a_ij = exp(ℓ_i + e_ij) (z_i·z_j),   e_ij = ℓ_j + log input weight of j + log(g_{j+1} … g_i)
 *
 * with φ = exp(ℓ) z (features/block.h). All quantities of query i are relative to exp(top), which is the unit of the
 * clamp: top = ℓ_i + R_i, R_i = max_j e_ij (0 for features without log scales), or the largest log weight in the window
 * if that is larger or if the features contribute nothing. */
#include <float.h>
#include <math.h>
#include "../features/block.h"
#include "linear.h"
#include "parameters.h"
#include "reference.h"

/* Arrays of one task. */
typedef struct work {
    bo_reference_task *task;
    const bo_features *map; /* NULL: explicit keys only */
    const double *w;        /* its frequencies */
    size_t count;
    double *zq, *lq, *zk, *lk; /* features and log scales */
    double *input;             /* log of the input weight of each key */
    double *factor, *product;  /* of the current query: a_ij relative to exp(top) is factor * product */
    double *n, *dn;            /* numerator of the current query, then its output; gradient of the numerator */
    double *dzq, *dzk;         /* gradients for constant log scales */
    double *flow;              /* dL/d log(g_1 … g_j); its sum from t on is the gradient of log g_t */
    double *dinput;
    void *block; /* scratch memory of the map */
} work;

static work carve(const bo_reference *of, bo_carver *carver)
{
    const bo_attention *attention = of->call.attention;
    size_t rows = attention->group * of->longest_queries, keys = of->longest_keys, count = attention->count;
    work w = {.count = count};
    w.zq = bo_carve_f64(carver, rows * count);
    w.lq = bo_carve_f64(carver, rows);
    w.zk = bo_carve_f64(carver, keys * count);
    w.lk = bo_carve_f64(carver, keys);
    w.input = bo_carve_f64(carver, keys);
    w.factor = bo_carve_f64(carver, keys);
    w.product = bo_carve_f64(carver, keys);
    w.n = bo_carve_f64(carver, attention->desc.value_dim);
    if (attention->features) w.block = bo_carve(carver, bo_features_block_f64_bytes(attention->features[0]), 1);
    if (!of->gradients) return w;
    w.dn = bo_carve_f64(carver, attention->desc.value_dim);
    w.dzq = bo_carve_f64(carver, rows * count);
    w.dzk = bo_carve_f64(carver, keys * count);
    w.flow = bo_carve_f64(carver, keys);
    w.dinput = bo_carve_f64(carver, keys);
    return w;
}

size_t bo_reference_weights_bytes(const bo_reference *of)
{
    bo_carver carver = {NULL, 0};
    carve(of, &carver);
    return carver.bytes;
}

/* ---- features ---------------------------------------------------------------------------------------------------- */

static bool is_hybrid(const bo_reference_task *task)
{
    return task->attention->traits & BO_TRAIT_FEATURES && task->attention->traits & BO_TRAIT_WINDOW;
}

/* Returns the log gate of token t. In the hybrid, a gate below the limit is 0. */
static double log_gate(const bo_reference_task *task, size_t t)
{
    if (!task->gate.at) return 0;
    double gate = *bo_row_f64(task->gate, t);
    return is_hybrid(task) && gate < (double)BO_MIN_LOG_GATE ? -INFINITY : gate;
}

/* True if every log scale is finite. */
static bool map_rows(work *w)
{
    const bo_reference_task *task = w->task;
    bool finite = true;
    bo_features_block_f64(w->map, w->w, task->rows, task->tq, w->zq, w->lq, w->block);
    bo_features_block_f64(w->map, w->w, task->keys, task->tk, w->zk, w->lk, w->block);
    for (size_t r = 0; r < task->rows; r++) finite = finite && isfinite(w->lq[r]);
    for (size_t j = 0; j < task->keys; j++) {
        finite = finite && isfinite(w->lk[j]);
        w->input[j] = 0;
        if (task->desc->gate == BO_GATE_CONVEX)
            w->input[j] = log(fmax(-expm1(*bo_row_f64(task->gate, j)), (double)BO_MIN_INPUT_WEIGHT));
    }
    return finite;
}

static void map_rows_backward(const work *w)
{
    const bo_reference_task *task = w->task;
    bo_features_block_backward_f64(w->map, w->w, task->rows, task->tq, w->zq, w->dzq, task->dtq, w->block);
    bo_features_block_backward_f64(w->map, w->w, task->keys, task->tk, w->zk, w->dzk, task->dtk, w->block);
}

/* ---- one query --------------------------------------------------------------------------------------------------- */

typedef struct query {
    size_t row, token, window, end; /* token: its position, if causal */
    double denominator;
    bool clamped; /* no gradient flows through the denominator */
    bool zero;    /* the output is 0 in a neighborhood of the inputs */
} query;

static query query_of(const work *w, size_t row)
{
    const bo_reference_task *task = w->task;
    const bo_attention_desc *d = task->desc;
    query at = {.row = row, .token = row % task->queries};
    at.end = d->causal ? at.token + 1 : task->keys;
    size_t begin = d->window && at.end > d->window ? at.end - d->window : 0;
    at.window = !w->map || is_hybrid(task) ? begin : at.end;
    return at;
}

static const double *raw_query(const work *w, const query *at)
{
    return w->task->q + at->row * w->task->desc->dim;
}

static double mix_of(const work *w, const query *at)
{
    const bo_reference_task *task = w->task;
    const double *mix = task->of->in->mix;
    return mix ? mix[task->key_head * task->group + at->row / task->queries] : 1;
}

/* Writes the log weights of the window to `factor`. Returns their maximum, or NaN if one of them is NaN. */
static double window_scores(const work *w, const query *at)
{
    const bo_attention_desc *d = w->task->desc;
    double top = -INFINITY, log_mix = log(mix_of(w, at));
    for (size_t j = at->window; j < at->end; j++) {
        double score = d->scale * bo_dot_f64(d->dim, raw_query(w, at), bo_row_f64(w->task->k, j));
        w->factor[j] = w->task->attention->traits & BO_TRAIT_POWER ? d->power * log(fabs(score)) : score + log_mix;
        w->product[j] = 1;
        if (w->factor[j] > top || isnan(w->factor[j])) top = w->factor[j];
    }
    return top;
}

/* Writes e_ij to `factor` and z_i·z_j to `product` for the keys before the window. Gates are summed from the latest key
 * on, so that a very small gate does not reduce precision. Returns R_i, or -INFINITY if there are no such keys. */
static double feature_scores(const work *w, const query *at)
{
    double top = w->task->attention->scaled || !at->window ? -INFINITY : 0, fade = 0;
    for (size_t j = at->end; j-- > 0;) {
        if (j < at->window) {
            w->factor[j] = w->lk[j] + w->input[j] + fade;
            w->product[j] = bo_dot_f64(w->count, w->zq + at->row * w->count, w->zk + j * w->count);
            if (w->task->attention->scaled) top = fmax(top, w->factor[j]);
        }
        fade += log_gate(w->task, j);
    }
    return top;
}

/* Replaces the logarithms of factors by exp(x - top). */
static void exponentiate(const work *w, size_t first, size_t end, double top)
{
    for (size_t j = first; j < end; j++) w->factor[j] = w->factor[j] == -INFINITY ? 0 : exp(w->factor[j] - top);
}

/* Computes factors and products of the query. False: it sees no keys. */
static bool weigh(const work *w, const query *at)
{
    double near = window_scores(w, at), far = -INFINITY, top = near;
    if (w->map) {
        double running = feature_scores(w, at), sum = 0;
        exponentiate(w, 0, at->window, running);
        for (size_t j = 0; j < at->window; j++) sum += w->factor[j] * w->product[j];
        /* sums of zero weight are excluded from the maximum of the hybrid: their log scale has no meaning */
        if (!(is_hybrid(w->task) && sum == 0)) far = w->lq[at->row] + running;
        top = isnan(near) ? NAN : fmax(near, far);
        for (size_t j = 0; j < at->window; j++) w->factor[j] *= far > -INFINITY ? exp(far - top) : 0;
    }
    exponentiate(w, at->window, at->end, top);
    return top != -INFINITY;
}

/* The rules of `normalizer` and `clamp` in attention.h. */
static void divide(const work *w, query *at, double sum)
{
    const bo_attention_desc *d = w->task->desc;
    bool none = d->normalizer == BO_NORMALIZER_NONE;
    at->clamped = none || (w->map && sum <= d->clamp);
    at->denominator = none ? 1 : at->clamped ? d->clamp : sum;
    at->zero = !none && at->denominator <= (double)FLT_MIN;
}

/* Computes the output of a query in w->n. */
static query compute_output(const work *w, size_t row)
{
    const bo_reference_task *task = w->task;
    size_t values = task->desc->value_dim;
    query at = query_of(w, row);
    double sum = 0;
    for (size_t c = 0; c < values; c++) w->n[c] = 0;
    at.zero = !weigh(w, &at);
    if (at.zero) return at;
    for (size_t j = w->map ? 0 : at.window; j < at.end; j++) {
        double a = w->factor[j] * w->product[j];
        sum += a;
        bo_axpy_f64(values, a, bo_row_f64(task->v, j), w->n);
    }
    divide(w, &at, sum);
    for (size_t c = 0; c < values; c++) w->n[c] = at.zero ? 0 : w->n[c] / at.denominator;
    return at;
}

/* ---- gradients of one query -------------------------------------------------------------------------------------- */

/* From dL/d log a_ij: d log |x|^p = p dx / x, and 0 at x = 0, where the weight is 0. */
static void window_backward(const work *w, const query *at, size_t j, double dlog)
{
    bo_reference_task *task = w->task;
    const bo_attention_desc *d = task->desc;
    const double *q = raw_query(w, at), *k = bo_row_f64(task->k, j);
    double dscore = dlog;
    if (task->attention->traits & BO_TRAIT_POWER) {
        double score = d->scale * bo_dot_f64(d->dim, q, k);
        dscore = score == 0 ? 0 : dlog * d->power / score;
    }
    bo_axpy_f64(d->dim, d->scale * dscore, k, task->dq + at->row * d->dim);
    bo_axpy_f64(d->dim, d->scale * dscore, q, task->dk + j * d->dim);
    if (task->attention->traits & BO_TRAIT_MIX)
        task->parameters[bo_parameter_offset(task->attention, BO_PARAMETER_MIX) + at->row / task->queries] +=
            dlog / mix_of(w, at);
}

/* From da = dL/da_ij in units of exp(-top). */
static void feature_backward(const work *w, const query *at, size_t j, double da)
{
    double slope = w->factor[j] * da, dlog = slope * w->product[j];
    bo_axpy_f64(w->count, slope, w->zk + j * w->count, w->dzq + at->row * w->count);
    bo_axpy_f64(w->count, slope, w->zq + at->row * w->count, w->dzk + j * w->count);
    w->dinput[j] += dlog;
    if (w->task->gate.at) w->flow[at->token] += dlog;
    w->flow[j] -= dlog;
}

/* o = n / d: dn = do / d, dd = -(do·o) / d. */
static void output_backward(const work *w, const query *at)
{
    bo_reference_task *task = w->task;
    size_t values = task->desc->value_dim;
    const double *dout = task->dout + at->row * values;
    if (at->zero) return;
    double dsum = at->clamped ? 0 : -bo_dot_f64(values, dout, w->n) / at->denominator;
    for (size_t c = 0; c < values; c++) w->dn[c] = dout[c] / at->denominator;
    for (size_t j = w->map ? 0 : at->window; j < at->end; j++) {
        if (w->factor[j] == 0) continue;
        double a = w->factor[j] * w->product[j], da = bo_dot_f64(values, w->dn, bo_row_f64(task->v, j)) + dsum;
        bo_axpy_f64(values, a, w->dn, task->dv + j * values);
        if (j < at->window)
            feature_backward(w, at, j, da);
        else
            window_backward(w, at, j, a * da);
    }
}

/* ---- a task ------------------------------------------------------------------------------------------------------ */

/* Gradients of gates, from the decays g_{j+1} … g_i and from the input weights 1 - g_j. */
static void gates_backward(const work *w)
{
    bo_reference_task *task = w->task;
    double sum = 0, *decay = task->parameters + bo_parameter_offset(task->attention, BO_PARAMETER_LOG_DECAY);
    for (size_t t = task->keys; t-- > 0;) {
        sum += w->flow[t];
        task->dgate[t] = sum;
        if (task->desc->gate == BO_GATE_CONVEX)
            task->dgate[t] += w->dinput[t] * bo_input_derivative(*bo_row_f64(task->gate, t));
        if (task->desc->gate == BO_GATE_FIXED) *decay += task->dgate[t];
    }
}

static void begin_backward(const work *w)
{
    const bo_reference_task *task = w->task;
    for (size_t i = 0; i < task->rows * w->count; i++) w->dzq[i] = 0;
    for (size_t i = 0; i < task->keys * w->count; i++) w->dzk[i] = 0;
    for (size_t j = 0; j < task->keys; j++) w->flow[j] = w->dinput[j] = 0;
}

void bo_reference_weights(bo_reference_task *task)
{
    const bo_reference *of = task->of;
    size_t values = task->desc->value_dim;
    bo_carver carver = {task->scratch, 0};
    work w = carve(of, &carver);
    w.task = task;
    w.map = bo_attention_features(task->attention, task->key_head);
    if (of->w) w.w = of->w + task->key_head * of->w_count;
    if (w.map && !map_rows(&w)) atomic_store(of->call.not_finite, true);
    if (of->gradients) begin_backward(&w);
    for (size_t row = 0; row < task->rows; row++) {
        if (bo_pass_stops(of->call.watch, 1)) return;
        query at = compute_output(&w, row);
        if (of->gradients)
            output_backward(&w, &at);
        else
            for (size_t c = 0; c < values; c++) task->out[row * values + c] = w.n[c];
    }
    if (!of->gradients || !w.map) return;
    map_rows_backward(&w);
    if (task->gate.at) gates_backward(&w);
}
