/* The rows of a task of the float64 reference, and their transform before features or recurrences:
 *
 *     t = σ ∘ x / (|x| + e)   RFA; without σ GLA, DELTA, RIDGE with unit norm
 *     t = M x                 DARK, HYBRID with a rank
 *     t = W x + b             learned maps, W' and b' for keys if they are given
 *     t = x                   other kinds */
#include <math.h>
#include <string.h>
#include "parameters.h"
#include "reference.h"

bo_rows_f64 bo_rows_f64_at(const bo_call *call, const double *array, size_t heads, size_t width, bool keys,
                           size_t sequence, size_t head)
{
    size_t stride;
    if (!array) return (bo_rows_f64){NULL, 0};
    size_t first = bo_row_index(call, heads, width, keys, sequence, head, &stride);
    return (bo_rows_f64){(double *)array + first, stride};
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

/* Carves the arrays for the longest sequence, so that every task fits. */
static void carve_arrays(bo_reference_task *task, bo_carver *carver)
{
    const bo_reference *of = task->of;
    size_t rows = task->group * of->longest_queries, keys = of->longest_keys;
    size_t dim = task->desc->dim, values = task->desc->value_dim;
    task->q = bo_carve_f64(carver, rows * dim);
    task->tq = bo_carve_f64(carver, rows * task->width);
    task->tk = bo_carve_f64(carver, keys * task->width);
    if (!of->gradients) {
        task->out = bo_carve_f64(carver, rows * values);
        return;
    }
    task->dout = bo_carve_f64(carver, rows * values);
    task->dq = bo_carve_f64(carver, rows * dim);
    task->dk = bo_carve_f64(carver, keys * dim);
    task->dv = bo_carve_f64(carver, keys * values);
    task->dtq = bo_carve_f64(carver, rows * task->width);
    task->dtk = bo_carve_f64(carver, keys * task->width);
    task->dgate = bo_carve_f64(carver, keys * bo_max(bo_gate_width(task->desc), 1));
    task->dbeta = bo_carve_f64(carver, keys);
}

bo_reference_task bo_reference_task_make(const bo_reference *of, size_t sequence, size_t key_head, double *parameters,
                                         bo_carver *carver)
{
    const bo_call *call = &of->call;
    const bo_attention_desc *d = &call->attention->desc;
    bo_reference_task task = {.of = of,
                              .attention = call->attention,
                              .desc = d,
                              .sequence = sequence,
                              .key_head = key_head,
                              .group = call->attention->group,
                              .width = d->rank ? d->rank : d->dim,
                              .parameters = parameters};
    carve_arrays(&task, carver);
    if (!carver->at) return task;
    task.scratch = carver->at + carver->bytes;
    task.queries = call->sequences[sequence].queries;
    task.keys = call->sequences[sequence].keys;
    task.rows = task.group * task.queries;
    task.k = bo_rows_f64_at(call, of->in->k, d->key_heads, d->dim, true, sequence, key_head);
    task.v = bo_rows_f64_at(call, of->in->v, d->key_heads, d->value_dim, true, sequence, key_head);
    task.beta = bo_rows_f64_at(call, of->in->beta, d->key_heads, 1, true, sequence, key_head);
    task.gate = bo_rows_f64_at(call, of->in->log_gate, d->key_heads, bo_gate_width(d), true, sequence, key_head);
    task.fixed = of->in->log_decay ? of->in->log_decay[key_head] : bo_default_decay(key_head);
    return task;
}

/* Copies the rows of all query heads of the task from an array, or to it if `back`. */
static void copy_queries(const bo_reference_task *task, const double *array, size_t width, double *dense, bool back)
{
    for (size_t g = 0; array && g < task->group; g++) {
        bo_rows_f64 rows = bo_rows_f64_at(&task->of->call, array, task->desc->heads, width, false, task->sequence,
                                          task->key_head * task->group + g);
        for (size_t i = 0; i < task->queries; i++) {
            double *dense_row = dense + (g * task->queries + i) * width, *array_row = bo_row_f64(rows, i);
            memcpy(back ? array_row : dense_row, back ? dense_row : array_row, width * sizeof *dense_row);
        }
    }
}

/* Copies rows of keys to an array. */
static void write_keys(const bo_reference_task *task, const double *array, size_t width, const double *dense)
{
    bo_rows_f64 rows =
        bo_rows_f64_at(&task->of->call, array, task->desc->key_heads, width, true, task->sequence, task->key_head);
    for (size_t j = 0; array && j < task->keys; j++)
        memcpy(bo_row_f64(rows, j), dense + j * width, width * sizeof *dense);
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */

/* The parameters of one side, and the indices at which their gradients start. If a parameter is not given for the keys,
 * that of the queries is used, including its gradient. */
typedef struct side {
    bo_row_transform_type type;
    size_t dim, width;
    const double *sigma, *m, *bias; /* NULL: 1; the first rows of the identity; 0 */
    size_t dm, dbias;
} side;

static side side_of(const bo_reference_task *task, bo_role role)
{
    const bo_attention_inputs_f64 *in = task->of->in;
    size_t dim = task->desc->dim, width = task->width;
    bool has_key_m = role == BO_OF_KEYS && in->m_k, has_key_bias = role == BO_OF_KEYS && in->bias_k;
    const double *m = has_key_m ? in->m_k : in->m, *bias = has_key_bias ? in->bias_k : in->bias;
    return (side){.type = bo_row_transform_type_of(task->desc),
                  .dim = dim,
                  .width = width,
                  .sigma = in->sigma ? in->sigma + task->key_head * dim : NULL,
                  .m = m ? m + task->key_head * width * dim : NULL,
                  .bias = bias ? bias + task->key_head * width : NULL,
                  .dm = bo_parameter_offset(task->attention, has_key_m ? BO_PARAMETER_M_K : BO_PARAMETER_M),
                  .dbias =
                      bo_parameter_offset(task->attention, has_key_bias ? BO_PARAMETER_BIAS_K : BO_PARAMETER_BIAS)};
}

static void transform(const side *s, const double *x, double *t)
{
    double reach = sqrt(bo_dot_f64(s->dim, x, x)) + BO_NORM_EPSILON;
    for (size_t i = 0; i < s->width; i++) {
        if (s->type == BO_ROW_TRANSFORM_UNIT)
            t[i] = (s->sigma ? s->sigma[i] : 1) * x[i] / reach;
        else
            t[i] = (s->m ? bo_dot_f64(s->dim, s->m + i * s->dim, x) : x[i]) + (s->bias ? s->bias[i] : 0);
    }
}

/* t = σ ∘ x / (n + e): dx = σ ∘ dt / (n + e) - x (x·(σ ∘ dt)) / (n (n + e)²), dσ = dt ∘ x / (n + e) */
static void unit_backward(const side *s, const double *x, const double *dt, double *dx, double *dsigma)
{
    double norm = sqrt(bo_dot_f64(s->dim, x, x)), reach = norm + BO_NORM_EPSILON, inner = 0;
    for (size_t j = 0; j < s->dim; j++) {
        inner += x[j] * (s->sigma ? s->sigma[j] : 1) * dt[j];
        if (dsigma) dsigma[j] += dt[j] * x[j] / reach;
    }
    for (size_t j = 0; j < s->dim; j++) {
        dx[j] += (s->sigma ? s->sigma[j] : 1) * dt[j] / reach;
        if (norm > 0) dx[j] -= x[j] * inner / (norm * reach * reach);
    }
}

/* t = M x + b: dx = Mᵀ dt, dM = dt xᵀ, db = dt */
static void affine_backward(const side *s, const double *x, const double *dt, double *dx, double *parameters)
{
    for (size_t i = 0; i < s->width; i++) {
        if (s->m)
            bo_axpy_f64(s->dim, dt[i], s->m + i * s->dim, dx);
        else
            dx[i] += dt[i];
        if (s->type == BO_ROW_TRANSFORM_NONE) continue;
        bo_axpy_f64(s->dim, dt[i], x, parameters + s->dm + i * s->dim);
        if (s->type == BO_ROW_TRANSFORM_AFFINE) parameters[s->dbias + i] += dt[i];
    }
}

static void transform_backward(const bo_reference_task *task, const side *s, const double *x, const double *dt,
                               double *dx)
{
    if (s->type != BO_ROW_TRANSFORM_UNIT) {
        affine_backward(s, x, dt, dx, task->parameters);
        return;
    }
    bool has_sigma = task->attention->traits & BO_TRAIT_SIGMA;
    unit_backward(s, x, dt, dx,
                  has_sigma ? task->parameters + bo_parameter_offset(task->attention, BO_PARAMETER_SIGMA) : NULL);
}

/* ---- all rows ---------------------------------------------------------------------------------------------------- */

static void clear(double *array, size_t count)
{
    if (array) memset(array, 0, count * sizeof *array);
}

void bo_reference_rows_begin(bo_reference_task *task)
{
    const bo_attention_desc *d = task->desc;
    side of_q = side_of(task, BO_OF_QUERIES), of_k = side_of(task, BO_OF_KEYS);
    if (d->gate == BO_GATE_FIXED) task->gate = (bo_rows_f64){&task->fixed, 0};
    copy_queries(task, task->of->in->q, d->dim, task->q, false);
    for (size_t r = 0; r < task->rows; r++) transform(&of_q, task->q + r * d->dim, task->tq + r * task->width);
    for (size_t j = 0; j < task->keys; j++) transform(&of_k, bo_row_f64(task->k, j), task->tk + j * task->width);
    clear(task->out, task->rows * d->value_dim);
    if (!task->of->gradients) return;
    clear(task->dout, task->rows * d->value_dim);
    copy_queries(task, task->of->dout, d->value_dim, task->dout, false);
    clear(task->dq, task->rows * d->dim);
    clear(task->dk, task->keys * d->dim);
    clear(task->dv, task->keys * d->value_dim);
    clear(task->dtq, task->rows * task->width);
    clear(task->dtk, task->keys * task->width);
    clear(task->dgate, task->keys * bo_max(bo_gate_width(d), 1));
    clear(task->dbeta, task->keys);
}

void bo_reference_rows_backward(bo_reference_task *task)
{
    size_t dim = task->desc->dim, width = task->width;
    side of_q = side_of(task, BO_OF_QUERIES), of_k = side_of(task, BO_OF_KEYS);
    for (size_t r = 0; r < task->rows; r++)
        transform_backward(task, &of_q, task->q + r * dim, task->dtq + r * width, task->dq + r * dim);
    for (size_t j = 0; j < task->keys; j++)
        transform_backward(task, &of_k, bo_row_f64(task->k, j), task->dtk + j * width, task->dk + j * dim);
}

static bool all_finite(const double *array, size_t count)
{
    size_t i = 0;
    while (array && i < count && isfinite(array[i])) i++;
    return !array || i == count;
}

void bo_reference_rows_end(const bo_reference_task *task)
{
    const bo_attention_desc *d = task->desc;
    const bo_attention_gradients_f64 *g = task->of->gradients;
    bool finite = true;
    if (!g) {
        copy_queries(task, task->of->out, d->value_dim, task->out, true);
        finite = all_finite(task->out, task->rows * d->value_dim);
    } else {
        size_t gates = bo_gate_width(d);
        copy_queries(task, g->q, d->dim, task->dq, true);
        write_keys(task, g->k, d->dim, task->dk);
        write_keys(task, g->v, d->value_dim, task->dv);
        write_keys(task, g->log_gate, gates, task->dgate);
        write_keys(task, g->beta, 1, task->dbeta);
        finite = (!g->q || all_finite(task->dq, task->rows * d->dim)) &&
                 (!g->k || all_finite(task->dk, task->keys * d->dim)) &&
                 (!g->v || all_finite(task->dv, task->keys * d->value_dim)) &&
                 (!g->log_gate || all_finite(task->dgate, task->keys * gates)) &&
                 (!g->beta || all_finite(task->dbeta, task->keys));
    }
    if (!finite) atomic_store(task->of->call.not_finite, true);
}
