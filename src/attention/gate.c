/* The gate of RFA-Gate (Peng et al., arXiv 2103.02143): log g = log sigmoid(u), u = x·w_h + b_h. The input of attention
 * is log g, which is accurate for g near 0 and near 1. */
#include "gate.h"
#include <math.h>
#include "../base/base.h"
#include "../math/linalg.h"

static bo_status check_sizes(bo_context *context, size_t width, size_t heads)
{
    if (width == 0 || heads == 0)
        return bo_fail(context, BO_INVALID, "gate: width and heads must be at least 1, found %zu and %zu", width,
                       heads);
    return BO_OK;
}

enum { BLOCK = BO_SIZE(4096, 8) }; /* gates per task */

static size_t block_end(size_t block, size_t count)
{
    return (block + 1) * BLOCK < count ? (block + 1) * BLOCK : count;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

typedef struct forward_job {
    size_t count, heads;
    const float *b;
    float *log_gate; /* holds x wᵀ before the call */
} forward_job;

/* log sigmoid(u) = min(u, 0) - log(1 + exp(-|u|)); NaN if u is NaN or infinite */
static void forward_task(void *arg, size_t block, int worker)
{
    const forward_job *job = arg;
    size_t end = block_end(block, job->count);
    (void)worker;
    for (size_t i = block * BLOCK; i < end; i++) {
        float u = job->log_gate[i] + (job->b ? job->b[i % job->heads] : 0);
        job->log_gate[i] = isfinite(u) ? fminf(u, 0) - log1pf(expf(-fabsf(u))) : NAN;
    }
}

static bo_status check_gates(bo_context *context, size_t tokens, size_t heads, const float *log_gate)
{
    for (size_t i = 0; i < tokens * heads; i++)
        if (isnan(log_gate[i]))
            return bo_fail(context, BO_NUMERIC,
                           "gate of token %zu, head %zu: x·w + b is NaN or infinite; x, w or b contains NaN, infinity "
                           "or numbers that "
                           "are too large",
                           i / heads, i % heads);
    return BO_OK;
}

bo_status bo_gate_forward(bo_context *context, size_t tokens, size_t width, size_t heads, const float *x,
                          const float *w, const float *b, float *log_gate)
{
    BO_REQUIRE_IF(context, tokens > 0, x, w, log_gate);
    BO_TRY(check_sizes(context, width, heads));
    if (tokens == 0) return BO_OK;
    BO_TRY(bo_gemm(context, false, true, tokens, heads, width, 1, x, width, w, width, 0, log_gate, heads));
    forward_job job = {tokens * heads, heads, b, log_gate};
    bo_parallel(context, (job.count + BLOCK - 1) / BLOCK, forward_task, &job);
    return check_gates(context, tokens, heads, log_gate);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

typedef struct backward_job {
    size_t tokens, heads;
    const float *log_gate, *dlog_gate;
    float *du, *db;
} backward_job;

/* d log sigmoid(u) / du = 1 - g */
static void logit_task(void *arg, size_t block, int worker)
{
    const backward_job *job = arg;
    size_t end = block_end(block, job->tokens * job->heads);
    (void)worker;
    for (size_t i = block * BLOCK; i < end; i++) job->du[i] = -expm1f(job->log_gate[i]) * job->dlog_gate[i];
}

static void bias_task(void *arg, size_t head, int worker)
{
    const backward_job *job = arg;
    double sum = 0;
    (void)worker;
    for (size_t t = 0; t < job->tokens; t++) sum += (double)job->du[t * job->heads + head];
    job->db[head] = (float)sum;
}

bo_status bo_gate_backward(bo_context *context, size_t tokens, size_t width, size_t heads, const float *x,
                           const float *w, const float *log_gate, const float *dlog_gate, float *dx, float *dw,
                           float *db)
{
    BO_REQUIRE_IF(context, tokens > 0, log_gate, dlog_gate);
    BO_REQUIRE_IF(context, tokens > 0 && dw, x);
    BO_REQUIRE_IF(context, tokens > 0 && dx, w);
    BO_TRY(check_sizes(context, width, heads));
    float *du = bo_alloc_raw(context, tokens * heads, sizeof *du, "gradients of gates");
    if (!du) return BO_MEMORY;
    backward_job job = {tokens, heads, log_gate, dlog_gate, du, db};
    bo_parallel(context, (tokens * heads + BLOCK - 1) / BLOCK, logit_task, &job);
    bo_status status = BO_OK;
    if (dx) status = bo_gemm(context, false, false, tokens, width, heads, 1, du, heads, w, width, 0, dx, width);
    if (dw && status == BO_OK)
        status = bo_gemm(context, true, false, heads, width, tokens, 1, du, heads, x, width, 0, dw, width);
    if (db && status == BO_OK) bo_parallel(context, heads, bias_task, &job);
    bo_free(du);
    return status;
}
