/* The operations of polynomials and random features, in double. */
#ifndef BO_TEST_BACKEND_ORACLE_DEGREE_H
#define BO_TEST_BACKEND_ORACLE_DEGREE_H

static inline void plain_scale(plain_op *op)
{
    const plain_tensor *x = &op->in[0], *s = &op->in[1];
    for (size_t r = 0; r < x->rows; r++)
        for (size_t c = 0; c < x->columns; c++)
            op->out[0].x[r * x->columns + c] =
                plain_at(x, r, c) * plain_at(s, s->rows == 1 ? 0 : r, s->columns == 1 ? 0 : c);
}

static inline void plain_product(plain_op *op)
{
    const bo_product_attributes *a = op->attributes;
    const double powers[] = {a->first, a->second, a->third, a->fourth};
    for (size_t i = 0; i < plain_count(&op->in[0]); i++) {
        op->out[0].x[i] = 1;
        for (size_t k = 0; k < op->inputs; k++) {
            double x = op->in[k].x[i], power = powers[k];
            op->out[0].x[i] *= power == 0 || power == 1 ? x : pow(fabs(x), power);
        }
    }
}

/* The map has a separate float64 reference, which tests/features compares with closed forms. */
static inline void plain_features(plain_op *op)
{
    const bo_features_attributes *a = op->attributes;
    bo_context *created = op->context ? NULL : test_context(1), *context = created ? created : op->context;
    assert_ok(context, bo_features_apply_f64(context, a->features, op->in[0].rows, op->in[0].x, op->in[0].columns,
                                             op->out[0].x, op->out[0].columns));
    bo_context_destroy(created);
}

static inline void plain_shape_features(plain_op *op)
{
    op->out[0].columns = bo_features_describe(((const bo_features_attributes *)op->attributes)->features)->features;
}

static inline void plain_quadratic(plain_op *op)
{
    const plain_tensor *x = &op->in[0], *w = &op->in[1];
    size_t width = x->columns;
    for (size_t r = 0; r < x->rows; r++)
        for (size_t o = 0; o < w->rows; o++) {
            double sum = 0;
            for (size_t i = 0; i < width; i++)
                for (size_t j = 0; j < width; j++)
                    sum += plain_at(w, o, i * width + j) * plain_at(x, r, i) * plain_at(x, r, j);
            op->out[0].x[r * w->rows + o] = sum;
        }
}

static inline void plain_shape_quadratic(plain_op *op)
{
    op->out[0].columns = op->in[1].rows;
}

#endif
