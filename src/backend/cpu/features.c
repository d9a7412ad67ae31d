/* φ(x), one block of rows per task, each in the workspace of its worker. Frequencies are constant, so backward only
 * computes dx. */
#include "cpu.h"
#include "blocks.h"
#include "../shapes.h"
#include "../../features/block.h"

enum { ROWS = BO_SIZE(64, 4) };

typedef struct job {
    const bo_op_call *call;
    const bo_features *features;
    size_t dim, count;              /* columns of x and of φ */
    size_t block_bytes, per_worker; /* bytes of the workspace of φ, and of it with the gradient to be added */
} job;

static job job_of(const bo_op_call *call)
{
    job j = {.call = call, .features = ((const bo_features_attributes *)call->attributes)->features};
    j.dim = call->in[0].columns, j.count = call->out[0].columns;
    j.block_bytes = bo_features_block_bytes(j.features, ROWS);
    j.per_worker = j.block_bytes + (call->din[0] && call->add[0] ? bo_padded_bytes(ROWS * j.dim * sizeof(float)) : 0);
    return j;
}

static size_t rows_of(const job *j, size_t index)
{
    size_t rest = j->call->in[0].rows - index * ROWS;
    return rest < ROWS ? rest : ROWS;
}

/* The workspace of a worker; NULL: the map needs no workspace. */
static char *scratch_of(const job *j, int worker)
{
    return j->per_worker ? (char *)j->call->scratch + (size_t)worker * j->per_worker : NULL;
}

static void forward_task(void *arg, size_t index, int worker)
{
    const job *j = arg;
    size_t first = index * ROWS;
    bo_features_forward(j->features, rows_of(j, index), (const float *)j->call->in[0].data + first * j->dim, j->dim,
                        (float *)j->call->out[0].data + first * j->count, j->count, NULL, scratch_of(j, worker));
}

static void backward_task(void *arg, size_t index, int worker)
{
    const job *j = arg;
    const bo_op_call *call = j->call;
    char *scratch = scratch_of(j, worker);
    size_t first = index * ROWS, rows = rows_of(j, index);
    float *dx = (float *)call->din[0] + first * j->dim, *to = call->add[0] ? (float *)(scratch + j->block_bytes) : dx;
    bo_features_block_backward(j->features, rows, (const float *)call->in[0].data + first * j->dim, j->dim,
                               (const float *)call->out[0].data + first * j->count, j->count,
                               (const float *)call->dout[0] + first * j->count, j->count, to, j->dim, scratch);
    for (size_t i = 0; call->add[0] && i < rows * j->dim; i++) dx[i] += to[i];
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    job j = job_of(call);
    bo_parallel(context, bo_block_count(call->in[0].rows, ROWS), forward_task, &j);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call) || !call->din[0]) return BO_OK;
    job j = job_of(call);
    bo_parallel(context, bo_block_count(call->in[0].rows, ROWS), backward_task, &j);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)gradients;
    job j = job_of(call);
    *saved = 0;
    *scratch = (size_t)bo_context_threads(context) * j.per_worker;
    return BO_OK;
}

/* Operations of the projections; for maps without frequencies, one product per feature. */
static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    job j = job_of(call);
    size_t frequencies = bo_features_frequencies(j.features);
    return 2.0 * (double)call->in[0].rows * (double)(frequencies ? frequencies * j.dim : j.count);
}

const bo_op bo_cpu_features = {
    .name = "features",
    .attributes = sizeof(bo_features_attributes),
    .reads_inputs = 1 << 0,
    .reads_outputs = 1 << 0,
    .shape = bo_shape_features,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
