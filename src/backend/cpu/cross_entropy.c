/* Cross-entropy of softmax(scale x Wᵀ + b), in blocks of rows of a few megabytes of logits. A run with gradients
 * computes the logits once: they are replaced in place by their gradient, p - e_target, from which dx, dW and db are
 * computed before the next block.
 *
 * With a teacher, a block has the logits of student and teacher. Their rows are multiplied as one matrix, so W is
 * packed once, and equal rows have bitwise equal logits: the divergence of a student that equals its teacher is exactly
 * 0. */
#include "cpu.h"
#include <math.h>
#include <string.h>
#include "blocks.h"
#include "stored.h"
#include "../shapes.h"
#include "../../math/linalg.h"
#include "../../math/panel.h"

enum {
    /* bytes of student logits; a teacher adds the same number. The rows of a block share the packing of W, which costs
     * more than a cache miss, and the logits of one task stay in cache */
    BLOCK_BYTES = 16 << 20,
    MIN_ROWS = 32,
    MAX_ROWS = 2048,
    TASK_FLOATS = 1 << 14, /* floats of logits per task */
    SUM_LENGTH = 1024,     /* exponentials per float32 partial sum; partial sums are added in float64 */
};

/* One block of rows. */
typedef struct job {
    const bo_kernels *kernels;
    size_t rows, task_rows, width, vocabulary;
    const int32_t *targets;
    float *logits, *losses;
    bool gradients;
    double scale, dmean; /* scale of the logits; gradient of the loss through the mean */
    double smoothing;
    double teacher; /* weight of the divergence from the teacher, whose logits follow the student's; 0: no teacher */
    const float *dlosses; /* additional gradients per row, or NULL */
    const float *bias;    /* NULL: none */
} job;

static bool has_bias(const bo_op_call *call)
{
    return ((const bo_cross_entropy_attributes *)call->attributes)->bias;
}

static double teacher_of(const bo_op_call *call)
{
    return ((const bo_cross_entropy_attributes *)call->attributes)->teacher;
}

/* Returns the rows of logits per row of x. */
static size_t distributions(const bo_op_call *call)
{
    return teacher_of(call) > 0 ? 2 : 1;
}

static double scale_of(const bo_op_call *call)
{
    const bo_cross_entropy_attributes *attributes = call->attributes;
    return attributes->scale != 0 ? attributes->scale : 1.0;
}

/* Returns the rows per block, if possible a multiple of the run length of the sums of dW. Each block packs W, which is
 * a larger share of the time in bfloat16, so bfloat16 blocks are larger. */
static size_t block_rows(const bo_context *context, const bo_op_call *call)
{
    size_t bytes = bo_context_precision(context) == BO_PRECISION_BFLOAT16 ? 4 * (size_t)BLOCK_BYTES : BLOCK_BYTES;
    size_t fit = bytes / sizeof(float) / call->in[1].rows;
    if (fit < MIN_ROWS) fit = MIN_ROWS;
    if (fit > MAX_ROWS) fit = MAX_ROWS;
    if (fit > BO_DEPTH32) fit -= fit % BO_DEPTH32;
    return fit < call->in[0].rows ? fit : call->in[0].rows;
}

/* Returns the floats of the logits of a block, rounded up to a cache line. */
static size_t logit_floats(const bo_context *context, const bo_op_call *call)
{
    return bo_padded(distributions(call) * block_rows(context, call) * call->in[1].rows);
}

/* Returns the floats of the stacked rows of student and teacher; 0 without a teacher. They follow the logits, and the
 * GEMM workspace follows them. */
static size_t stacked_floats(const bo_context *context, const bo_op_call *call)
{
    return teacher_of(call) > 0 ? bo_padded(distributions(call) * block_rows(context, call) * call->in[0].columns) : 0;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    size_t rows = block_rows(context, call), width = call->in[0].columns, vocabulary = call->in[1].rows;
    bo_gemm_product product = {.n = vocabulary, .stored = bo_stored_of(call->in[1].element)};
    size_t workspace =
        bo_gemm_shared_bytes(context, bo_context_precision(context), distributions(call) * rows, width, 1, &product);
    size_t dx = bo_gemm_bytes(context, bo_context_precision(context), rows, width, vocabulary),
           dw = bo_gemm_bytes(context, bo_context_precision(context), vocabulary, width, rows);
    if (gradients && dx > workspace) workspace = dx;
    if (gradients && dw > workspace) workspace = dw;
    *saved = 0;
    *scratch = (logit_floats(context, call) + stacked_floats(context, call)) * sizeof(float) + workspace;
    return BO_OK;
}

/* Returns Σ_j t_j l_j, where t is the smoothed target distribution. */
static double expected_logit(const job *j, const float *logits, int32_t target)
{
    double chosen = (double)logits[target];
    if (!(j->smoothing > 0)) return chosen;
    double mean = j->kernels->sum(j->vocabulary, logits) / (double)j->vocabulary;
    return (1 - j->smoothing) * chosen + j->smoothing * mean;
}

/* Computes the loss of a row, log Σ exp(l_j - max) + max - Σ_j t_j l_j, and replaces its logits by their gradients, p -
 * t. */
static void row_loss(const job *j, size_t index)
{
    float *logits = j->logits + index * j->vocabulary;
    int32_t target = j->targets[index];
    if (target < 0) {
        j->losses[index] = 0;
        if (j->gradients) memset(logits, 0, j->vocabulary * sizeof *logits);
        return;
    }
    if (j->bias) j->kernels->axpy(j->vocabulary, 1.0f, j->bias, logits);
    float largest = j->kernels->max(j->vocabulary, logits);
    double sum = 0, chosen = expected_logit(j, logits, target);
    for (size_t i = 0; i < j->vocabulary; i += SUM_LENGTH) {
        size_t count = j->vocabulary - i < SUM_LENGTH ? j->vocabulary - i : SUM_LENGTH;
        sum += (double)j->kernels->exp_sum(count, logits + i, -largest, logits + i);
    }
    j->losses[index] = (float)(log(sum) + ((double)largest - chosen));
    if (!j->gradients) return;
    double factor = j->scale * (j->dmean + (j->dlosses ? (double)j->dlosses[index] : 0));
    j->kernels->scale(j->vocabulary, (float)(factor / sum), logits, logits);
    logits[target] -= (float)((1 - j->smoothing) * factor);
    float rest = (float)(j->smoothing / (double)j->vocabulary * factor);
    for (size_t i = 0; j->smoothing > 0 && i < j->vocabulary; i++) logits[i] -= rest;
}

/* Sums over the classes of a row, in float64 over runs of SUM_LENGTH, for the logits l of the student and t of the
 * teacher, both minus their maximum. */
typedef struct pair_sums {
    double student, teacher; /* Σ exp(l_j), Σ exp(t_j) */
    double along;            /* Σ exp(t_j) (t_j - l_j) */
} pair_sums;

/* Replaces the logits of student and teacher by their exponentials and returns the sums. The maxima are subtracted
 * before the difference, as in the exponentials: l and t then have the rounding errors of the logits, which hardly
 * affect small divergences. */
static pair_sums exponentiate_pair(const job *j, float top, float teacher_top, float *logits, float *teacher)
{
    float difference[SUM_LENGTH];
    pair_sums sums = {0};
    for (size_t first = 0; first < j->vocabulary; first += SUM_LENGTH) {
        const size_t count = bo_min((size_t)SUM_LENGTH, j->vocabulary - first);
        float *l = logits + first, *t = teacher + first;
        for (size_t i = 0; i < count; i++) difference[i] = (t[i] - teacher_top) - (l[i] - top);
        sums.student += (double)j->kernels->exp_sum(count, l, -top, l);
        sums.teacher += (double)j->kernels->exp_sum(count, t, -teacher_top, t);
        /* a class of probability 0 counts as 0, even if both logits are -INFINITY */
        for (size_t i = 0; i < count; i++) difference[i] = t[i] > 0 ? difference[i] : 0;
        sums.along += j->kernels->dot(count, t, difference);
    }
    return sums;
}

/* The loss of a row with a teacher. KL(p' | p) = Σ_j p'_j (log p'_j - log p_j) = Σ_j p'_j (t_j - l_j) - log Σ exp(t_j)
 * + log Σ exp(l_j). The gradients are p - (1 - α) e_target - α p'. */
static void distilled_row_loss(const job *j, size_t index)
{
    float *logits = j->logits + index * j->vocabulary, *teacher = logits + j->rows * j->vocabulary;
    const int32_t target = j->targets[index];
    if (target < 0) {
        j->losses[index] = 0;
        if (j->gradients) memset(logits, 0, j->vocabulary * sizeof *logits);
        return;
    }
    if (j->bias) j->kernels->axpy(j->vocabulary, 1.0f, j->bias, logits);
    if (j->bias) j->kernels->axpy(j->vocabulary, 1.0f, j->bias, teacher);
    const float top = j->kernels->max(j->vocabulary, logits), teacher_top = j->kernels->max(j->vocabulary, teacher);
    const double chosen = (double)logits[target];
    const pair_sums sums = exponentiate_pair(j, top, teacher_top, logits, teacher);
    const double entropy = log(sums.student) + ((double)top - chosen);
    double divergence = sums.along / sums.teacher - log(sums.teacher / sums.student);
    if (divergence < 0) divergence = 0; /* rounding */
    /* the weight 0 excludes a target of probability 0 */
    j->losses[index] = (float)((j->teacher < 1 ? (1 - j->teacher) * entropy : 0) + j->teacher * divergence);
    if (!j->gradients) return;
    const double factor = j->scale * (j->dmean + (j->dlosses ? (double)j->dlosses[index] : 0));
    j->kernels->scale(j->vocabulary, (float)(factor / sums.student), logits, logits);
    j->kernels->axpy(j->vocabulary, (float)(-j->teacher * factor / sums.teacher), teacher, logits);
    logits[target] -= (float)((1 - j->teacher) * factor);
}

/* Task: processes some rows. */
static void rows_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const job *j = arg;
    size_t first = index * j->task_rows, end = bo_min(first + j->task_rows, j->rows);
    for (size_t i = first; i < end; i++) {
        if (j->teacher > 0)
            distilled_row_loss(j, i);
        else
            row_loss(j, i);
    }
}

/* Counts the rows that have a target. */
static bo_status count_targets(bo_context *context, const bo_op_call *call, size_t *count)
{
    const int32_t *targets = call->in[2].data;
    *count = 0;
    for (size_t i = 0; i < call->in[2].rows; i++) {
        if (targets[i] >= 0 && (size_t)targets[i] >= call->in[1].rows)
            return bo_fail(context, BO_INVALID, "cross-entropy: target %zu is %d, expected a number below %zu", i,
                           (int)targets[i], call->in[1].rows);
        *count += targets[i] >= 0;
    }
    return BO_OK;
}

/* Computes the logits of a block; `stacked` is memory for stacked_floats floats. */
static void compute_logits(bo_context *context, const bo_op_call *call, const job *j, size_t first, float *stacked,
                           void *workspace)
{
    const bo_tensor *weight = &call->in[1];
    const float *x = (const float *)call->in[0].data + first * j->width;
    if (j->teacher > 0) {
        const size_t count = j->rows * j->width;
        memcpy(stacked, x, count * sizeof *x);
        memcpy(stacked + count, (const float *)call->in[call->inputs - 1].data + first * j->width, count * sizeof *x);
        x = stacked;
    }
    bo_gemm_product product = {.n = j->vocabulary, .tb = true, .b = weight->data, .ldb = j->width};
    product.stored = bo_stored_of(weight->element);
    product.c = j->logits, product.ldc = j->vocabulary;
    bo_gemm_shared(context, bo_context_precision(context), false, distributions(call) * j->rows, j->width,
                   (float)j->scale, x, j->width, 1, &product, workspace);
}

/* Adds the gradient of the bias, a few columns at a time. The gradients in `logits` include the scale, which the bias
 * does not have. */
static void spread_bias(const job *j, bool add, float *out)
{
    enum { COLUMNS = BO_SIZE(64, 4) };
    for (size_t first = 0; first < j->vocabulary; first += COLUMNS) {
        const float *gradients = j->logits + first;
        const size_t count = bo_min((size_t)COLUMNS, j->vocabulary - first);
        double total[COLUMNS] = {0};
        for (size_t r = 0; r < j->rows; r++, gradients += j->vocabulary)
            for (size_t i = 0; i < count; i++) total[i] += (double)gradients[i];
        for (size_t i = 0; i < count; i++) bo_store(&out[first + i], add, (float)(total[i] / j->scale));
    }
}

/* Computes gradients from the gradients of the block's logits. */
static void spread(bo_context *context, const bo_op_call *call, const job *j, size_t first, void *workspace)
{
    size_t width = j->width;
    const float *x = (const float *)call->in[0].data + first * width;
    float *dx = call->din[0], *dw = call->din[1], *db = has_bias(call) ? call->din[3] : NULL;
    if (dx)
        bo_gemm_in(context, bo_context_precision(context), false, false, j->rows, width, j->vocabulary, 1.0f, j->logits,
                   j->vocabulary, call->in[1].data, width, call->add[0] ? 1.0f : 0.0f, dx + first * width, width,
                   workspace);
    if (dw)
        bo_gemm_in(context, bo_context_precision(context), true, false, j->vocabulary, width, j->rows, 1.0f, j->logits,
                   j->vocabulary, x, width, call->add[1] || first > 0 ? 1.0f : 0.0f, dw, width, workspace);
    if (db) spread_bias(j, call->add[3] || first > 0, db);
}

/* Computes losses and, if the call has them, gradients. */
static bo_status run(bo_context *context, const bo_op_call *call, bool gradients)
{
    size_t targets, n = call->in[0].rows, rows = block_rows(context, call);
    BO_TRY(count_targets(context, call, &targets));
    const float *dmean = call->dout[0], *dlosses = call->dout[1];
    double sum = 0;
    float *losses = call->out[1].data;
    job j = {.kernels = bo_context_kernels(context), .width = call->in[0].columns, .vocabulary = call->in[1].rows};
    j.task_rows = bo_ceil_div(TASK_FLOATS, j.vocabulary);
    j.logits = call->scratch;
    j.gradients = gradients;
    j.scale = scale_of(call);
    j.smoothing = ((const bo_cross_entropy_attributes *)call->attributes)->smoothing;
    j.teacher = teacher_of(call);
    if (has_bias(call)) j.bias = call->in[3].data;
    if (gradients && dmean && targets) j.dmean = (double)*dmean / (double)targets;
    float *stacked = j.logits + logit_floats(context, call);
    void *workspace = stacked + stacked_floats(context, call);
    for (size_t first = 0; first < n; first += rows) {
        j.rows = n - first < rows ? n - first : rows;
        j.targets = (const int32_t *)call->in[2].data + first;
        j.losses = losses + first;
        if (gradients && dlosses) j.dlosses = dlosses + first;
        compute_logits(context, call, &j, first, stacked, workspace);
        bo_parallel(context, bo_ceil_div(j.rows, j.task_rows), rows_task, &j);
        if (gradients) spread(context, call, &j, first, workspace);
    }
    for (size_t i = 0; i < n; i++) sum += (double)losses[i];
    *(float *)call->out[0].data = (float)(targets ? sum / (double)targets : 0);
    return BO_OK;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    return run(context, call, false);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    BO_TRY(bo_refuse_stored(context, call, "cross-entropy"));
    const size_t last = call->inputs - 1; /* a teacher is a constant */
    if (teacher_of(call) > 0 && call->din[last] && !call->add[last])
        memset(call->din[last], 0, bo_operand_floats(&call->in[last]) * sizeof(float));
    return run(context, call, !bo_backward_is_zero(call));
}

static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    return 2.0 * (double)(distributions(call) * call->in[0].rows) * (double)bo_operand_floats(&call->in[1]);
}

const bo_op bo_cpu_cross_entropy = {
    .name = "cross-entropy",
    .attributes = sizeof(bo_cross_entropy_attributes),
    .reads_inputs = 31,
    .stored_inputs = 1 << 1,
    .forward_in_backward = true,
    .shape = bo_shape_cross_entropy,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
