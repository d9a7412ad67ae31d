/* Sums over rows. */
#include "columns.h"
#include "blocks.h"

enum {
    SUM_COLUMNS = 128, /* columns per task */
    SUM_ROWS = 128,    /* rows summed in float32 at a time, then in float64 */
};

typedef struct sum_job {
    size_t rows, columns;
    const float *x;
    bool add;
    float *out;
} sum_job;

/* Task: sums some columns. */
static void sum_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const sum_job *job = arg;
    size_t first = index * SUM_COLUMNS, rest = job->columns - first;
    size_t count = rest < SUM_COLUMNS ? rest : SUM_COLUMNS;
    double total[SUM_COLUMNS] = {0};
    for (size_t r0 = 0; r0 < job->rows; r0 += SUM_ROWS) {
        size_t end = job->rows - r0 < SUM_ROWS ? job->rows : r0 + SUM_ROWS;
        float part[SUM_COLUMNS] = {0};
        for (size_t r = r0; r < end; r++) {
            const float *row = job->x + r * job->columns + first;
            for (size_t j = 0; j < count; j++) part[j] += row[j];
        }
        for (size_t j = 0; j < count; j++) total[j] += (double)part[j];
    }
    for (size_t j = 0; j < count; j++) bo_store(&job->out[first + j], job->add, (float)total[j]);
}

void bo_sum_columns(bo_context *context, size_t rows, size_t columns, const float *x, bool add, float *out)
{
    sum_job job = {rows, columns, x, add, out};
    bo_parallel(context, bo_block_count(columns, SUM_COLUMNS), sum_task, &job);
}
