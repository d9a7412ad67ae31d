/* Each task handles some columns of the table and processes all rows in order. */
#include "scatter.h"
#include <string.h>

enum { COLUMNS = BO_SIZE(64, 4) };

typedef struct scatter {
    const bo_kernels *kernels;
    const int32_t *index;
    const float *dy;
    float *dtable;
    size_t rows, table_rows, width;
    bool add;
} scatter;

static void task(void *arg, size_t part, int worker)
{
    (void)worker;
    const scatter *s = arg;
    size_t first = part * COLUMNS, count = s->width - first < COLUMNS ? s->width - first : COLUMNS;
    for (size_t r = 0; !s->add && r < s->table_rows; r++)
        memset(s->dtable + r * s->width + first, 0, count * sizeof *s->dtable);
    for (size_t r = 0; r < s->rows; r++)
        s->kernels->axpy(count, 1.0f, s->dy + r * s->width + first, s->dtable + (size_t)s->index[r] * s->width + first);
}

void bo_scatter(bo_context *context, const bo_op_call *call, size_t indices, size_t table)
{
    if (!call->din[table]) return;
    scatter s = {.kernels = bo_context_kernels(context),
                 .index = call->in[indices].data,
                 .dy = call->dout[0],
                 .dtable = call->din[table],
                 .rows = call->in[indices].rows,
                 .table_rows = call->in[table].rows,
                 .width = call->in[table].columns,
                 .add = call->add[table]};
    bo_parallel(context, bo_block_count(s.width, COLUMNS), task, &s);
}
