/* Muon on the CPU (Jordan et al. 2024): momentum that is approximately orthogonalized by Newton-Schulz iterations.
 *
 * X has no more rows than columns: a tall matrix is transposed, so that A = XXᵀ is as small as possible. */
#include "updates.h"
#include <math.h>
#include "../../math/linalg.h"
#include "../../math/panel.h"

/* Matrices up to this side are processed one per thread: their products are too small to be shared. */
enum { SMALL_SIDE = BO_SIZE(512, 8) };

/* The memory of one matrix, as offsets in floats: x and y (rows x columns), a and b (rows x rows), and workspace of
 * their products. */
typedef struct layout {
    size_t rows, columns; /* of X */
    size_t y, a, b, workspace, bytes;
} layout;

/* An iteration multiplies small singular values by 3.4, and with them the rounding errors of earlier iterations. Only
 * the last two are computed in bfloat16: with all five, a language model had a higher loss after 400 steps (by
 * 0.4%). */
static bo_precision precision_of(const bo_context *context, size_t step, size_t steps)
{
    return step + 2 < steps ? BO_PRECISION_FLOAT32 : bo_context_precision(context);
}

static size_t product_bytes(bo_context *context, bo_precision precision, const layout *l)
{
    return bo_max(bo_gemm_bytes(context, precision, l->rows, l->rows, l->columns),
                  bo_max(bo_gemm_bytes(context, precision, l->rows, l->rows, l->rows),
                         bo_gemm_bytes(context, precision, l->rows, l->columns, l->rows)));
}

static layout plan(bo_context *context, size_t rows, size_t columns)
{
    layout l = {.rows = bo_min(rows, columns), .columns = bo_max(rows, columns)};
    size_t x = bo_round_up(l.rows * l.columns, 16), square = bo_round_up(l.rows * l.rows, 16);
    l.y = x;
    l.a = 2 * x;
    l.b = l.a + square;
    l.workspace = l.b + square;
    size_t workspace = bo_max(product_bytes(context, BO_PRECISION_FLOAT32, &l),
                              product_bytes(context, bo_context_precision(context), &l));
    l.bytes = l.workspace * sizeof(float) + bo_round_up(workspace, 64);
    return l;
}

static bool small(size_t rows, size_t columns)
{
    return bo_min(rows, columns) <= SMALL_SIDE;
}

size_t bo_cpu_muon_bytes(bo_context *context, size_t rows, size_t columns)
{
    size_t copies = small(rows, columns) ? (size_t)bo_context_threads(context) : 1;
    return plan(context, rows, columns).bytes * copies;
}

/* ---- one matrix -------------------------------------------------------------------------------------------------- */

/* v = nesterov ? (1 - μ) g + μ m : m after m = μ m + (1 - μ) g */
static void direction_loop(const bo_rule_numbers *k, size_t n, const float *g, float *restrict m, float *restrict v,
                           float *w)
{
    (void)w;
    float rest = k->rest * k->scale, mu = k->momentum, g_factor = k->nesterov ? rest : 0,
          m_factor = k->nesterov ? mu : 1;
    if (!m) {
        for (size_t i = 0; i < n; i++) v[i] = k->scale * g[i];
        return;
    }
    for (size_t i = 0; i < n; i++) {
        m[i] = mu * m[i] + rest * g[i];
        v[i] = g_factor * g[i] + m_factor * m[i];
    }
}

static void scale_loop(const bo_rule_numbers *k, size_t n, const float *g, float *m, float *v, float *restrict w)
{
    (void)g, (void)m, (void)v;
    for (size_t i = 0; i < n; i++) w[i] *= k->scale;
}

/* b = cA² + bA + aI, or ½(3I - A) */
static void polynomial(bo_context *context, bo_precision precision, bo_newton_schulz iteration, size_t n,
                       const float *a, float *b, void *workspace)
{
    float one;
    if (iteration == BO_NEWTON_SCHULZ_QUINTIC) {
        bo_gemm_symmetric(context, precision, false, n, n, 2.0315f, a, n, -4.7750f, a, b, n, workspace);
        one = 3.4445f;
    } else {
        bo_context_kernels(context)->scale(n * n, -0.5f, a, b);
        one = 1.5f;
    }
    for (size_t i = 0; i < n; i++) b[i * n + i] += one;
}

/* Orthogonalizes x (norm <= 1) with y as workspace. Returns x or y, which has the result. */
static float *orthogonalize(bo_context *context, bo_newton_schulz iteration, size_t steps, const layout *l, float *base)
{
    float *x = base, *y = base + l->y, *a = base + l->a, *b = base + l->b, *workspace = base + l->workspace;
    size_t r = l->rows, c = l->columns;
    for (size_t step = 0; step < steps; step++) {
        bo_precision precision = precision_of(context, step, steps);
        bo_gemm_symmetric(context, precision, false, r, c, 1, x, c, 0, NULL, a, r, workspace);
        polynomial(context, precision, iteration, r, a, b, workspace);
        bo_gemm_in(context, precision, false, false, r, c, r, 1, b, r, x, c, 0, y, c, workspace);
        float *previous = x;
        x = y;
        y = previous;
    }
    return x;
}

/* Cannot fail: the sums and updates of this backend do not fail. */
static void update(bo_context *context, const bo_rule *rule, bo_newton_schulz iteration, size_t steps,
                   const bo_muon_matrix *matrix, float *scratch)
{
    const bo_kernels *kernels = bo_context_kernels(context);
    layout l = plan(context, matrix->rows, matrix->columns);
    size_t count = matrix->rows * matrix->columns;
    bool tall = matrix->rows > matrix->columns;
    bo_rule_numbers k = bo_momentum_numbers(rule, &matrix->rates);
    float *u = tall ? scratch + l.y : scratch;
    bo_update_blocks(context, &k, direction_loop, count, matrix->g, matrix->m, u, NULL);
    k.scale = (float)(1 / (sqrt(bo_cpu_sum_squares(context, count, u)) + 1e-7));
    bo_update_blocks(context, &k, scale_loop, count, NULL, NULL, NULL, u);
    if (tall) kernels->transpose(l.columns, l.rows, u, l.rows, scratch, l.columns);
    float *x = orthogonalize(context, iteration, steps, &l, scratch);
    if (tall) {
        float *transposed = x == scratch ? scratch + l.y : scratch;
        kernels->transpose(l.rows, l.columns, x, l.columns, transposed, l.rows);
        x = transposed;
    }
    const bo_rule plain = {.scale = 1, .rate = rule->rate};
    const bo_update step = {.count = count, .g = x, .w = matrix->w, .rates = matrix->rates};
    bo_cpu_updates.sgd(context, &plain, 1, &step);
}

/* ---- many matrices ----------------------------------------------------------------------------------------------- */

typedef struct job {
    bo_context *context;
    const bo_rule *rule;
    bo_newton_schulz iteration;
    size_t steps;
    const bo_muon_matrix *matrices;
    char *scratch;
    size_t stride; /* bytes per worker */
} job;

static void small_task(void *arg, size_t index, int worker)
{
    const job *j = arg;
    const bo_muon_matrix *matrix = &j->matrices[index];
    if (!small(matrix->rows, matrix->columns)) return;
    update(j->context, j->rule, j->iteration, j->steps, matrix, (float *)(j->scratch + (size_t)worker * j->stride));
}

bo_status bo_cpu_muon(bo_context *context, const bo_rule *rule, bo_newton_schulz iteration, size_t steps, size_t count,
                      const bo_muon_matrix *matrices, void *scratch)
{
    job j = {context, rule, iteration, steps, matrices, scratch, 0};
    for (size_t i = 0; i < count; i++) {
        const bo_muon_matrix *matrix = &matrices[i];
        if (small(matrix->rows, matrix->columns)) {
            j.stride = bo_max(j.stride, plan(context, matrix->rows, matrix->columns).bytes);
        } else {
            update(context, rule, iteration, steps, matrix, scratch);
        }
    }
    bo_parallel(context, count, small_task, &j);
    return BO_OK;
}
