/* Shared by explain.c, which measures importance and curves, and explain_row.c, which explains one prediction. */
#ifndef BO_MACHINES_EXPLAIN_H
#define BO_MACHINES_EXPLAIN_H

#include <bochner/explain.h>

/* What is explained: a machine, the columns of its inputs, and rows. */
typedef struct bo_explained {
    const bo_machine *machine;
    size_t columns;
    const size_t *starts; /* NULL: every input is a column */
    size_t dim, outputs;
    size_t rows;
    const float *x;
    size_t ldx;
} bo_explained;

/* Checks the arguments of an explanation. */
bo_status bo_explained_make(bo_context *context, const bo_machine *machine, const bo_explain_desc *desc,
                            const bo_inputs *inputs, bo_explained *out);

static inline size_t bo_explained_first(const bo_explained *e, size_t column)
{
    return e->starts ? e->starts[column] : column;
}

static inline size_t bo_explained_inputs(const bo_explained *e, size_t column)
{
    return e->starts ? e->starts[column + 1] - e->starts[column] : 1;
}

/* Copies the inputs of a column from one row to another. */
void bo_explained_copy(const bo_explained *e, size_t column, const float *from, float *to);

/* Rows that are predicted together: x is capacity x dim, out capacity x outputs (targets or probabilities). Machines
 * that were fitted to sparse rows predict them as sparse rows, which is faster. */
typedef struct bo_explain_batch {
    size_t capacity;
    float *x;
    double *out;
    size_t *start; /* sparse: capacity + 1 */
    uint32_t *column;
    float *value; /* sparse: capacity x dim */
} bo_explain_batch;

bo_status bo_explain_batch_create(bo_context *context, const bo_explained *e, bo_explain_batch *out);
void bo_explain_batch_free(bo_explain_batch *batch);
/* Predicts the first rows into `out`. */
bo_status bo_explain_batch_run(bo_context *context, const bo_explained *e, bo_explain_batch *batch, size_t rows);
/* Compares the predictions of the first rows with true values. */
bo_status bo_explain_batch_test(bo_context *context, const bo_explained *e, bo_explain_batch *batch, size_t rows,
                                const double *y, bo_metrics *metrics);

/* Mean and standard error of numbers that are added one by one (Welford). */
typedef struct bo_repeats {
    size_t count;
    double mean, squares;
} bo_repeats;

void bo_repeats_add(bo_repeats *running, double value);
double bo_repeats_error(const bo_repeats *running); /* NAN for fewer than 2 numbers */

#endif
