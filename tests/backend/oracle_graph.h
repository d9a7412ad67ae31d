/* References for operations on graphs, and for operations that move elements or add noise. Part of oracle.h. */
#ifndef BO_TEST_BACKEND_ORACLE_GRAPH_H
#define BO_TEST_BACKEND_ORACLE_GRAPH_H

static inline void plain_reshape(plain_op *op)
{
    memcpy(op->out[0].x, op->in[0].x, plain_count(&op->in[0]) * sizeof(double));
}

static inline void plain_shape_reshape(plain_op *op)
{
    op->out[0].columns = ((const bo_reshape_attributes *)op->attributes)->columns;
    op->out[0].rows = plain_count(&op->in[0]) / op->out[0].columns;
}

static inline void plain_concat(plain_op *op)
{
    size_t before = 0;
    for (size_t i = 0; i < op->inputs; i++) {
        for (size_t r = 0; r < op->in[i].rows; r++)
            for (size_t c = 0; c < op->in[i].columns; c++)
                op->out[0].x[r * op->out[0].columns + before + c] = plain_at(&op->in[i], r, c);
        before += op->in[i].columns;
    }
}

static inline void plain_shape_concat(plain_op *op)
{
    op->out[0].columns = 0;
    for (size_t i = 0; i < op->inputs; i++) op->out[0].columns += op->in[i].columns;
}

/* Without dropout of edges, which has a separate test. */
static inline double plain_aggregate_at(const plain_op *op, size_t target, size_t column)
{
    const bo_aggregate_attributes *a = op->attributes;
    const int32_t *first = op->in[1].index;
    double sum = 0, largest = -INFINITY;
    for (int32_t e = first[target]; e < first[target + 1]; e++) {
        double x = plain_at(&op->in[0], (size_t)op->in[2].index[e], column);
        sum += x;
        largest = fmax(largest, x);
    }
    if (first[target] == first[target + 1]) return 0;
    if (a->kind == BO_AGGREGATE_MAX) return largest;
    return a->kind == BO_AGGREGATE_SUM ? sum : sum / (double)(first[target + 1] - first[target]);
}

static inline void plain_aggregate(plain_op *op)
{
    size_t columns = op->out[0].columns;
    for (size_t i = 0; i < plain_count(&op->out[0]); i++)
        op->out[0].x[i] = plain_aggregate_at(op, i / columns, i % columns);
}

static inline void plain_shape_aggregate(plain_op *op)
{
    op->out[0].rows = op->in[1].rows - 1;
}

/* `mask`: the factor, or the added noise. */
static inline void plain_noise(plain_op *op)
{
    const bo_noise_attributes *a = op->attributes;
    for (size_t i = 0; i < plain_count(&op->in[0]); i++) {
        double x = op->in[0].x[i], drawn = op->mask ? op->mask[i] : a->kind == BO_NOISE_NORMAL ? 0 : 1;
        op->out[0].x[i] = a->kind == BO_NOISE_NORMAL ? x + drawn : x * drawn;
    }
}

#endif
