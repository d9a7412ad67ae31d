/* A case: an operation, its attributes, and inputs drawn from a distribution. */
#ifndef BO_TEST_BACKEND_CASE_H
#define BO_TEST_BACKEND_CASE_H

#include "oracle.h"

struct trial; /* for attention */

typedef enum op_law {
    LAW_NORMAL = 0, /* standard deviation a (0: 1), mean b */
    LAW_UNIFORM,    /* from a to b */
    /* normal with standard deviation a (0: 1), but not within 0.02 of 0, where functions may have a kink */
    LAW_AWAY,
    LAW_EVENLY,     /* from a to b in equal steps */
    LAW_BELOW,      /* int32 below a */
    LAW_TARGETS,    /* int32 below a, every third one negative */
    LAW_NOBODY,     /* int32, all -1 */
    LAW_PLACES,     /* int32: a, a + 1, …, restarting at a after b elements (0: never) */
    LAW_RISING,     /* int32 from 0 to a, slowly at first, so that some are equal */
    LAW_FEW,        /* int32 below a, nearly all equal */
    LAW_CERTAIN,    /* 0 or 1 */
    LAW_LIKE_FIRST, /* the first input, with every second element replaced by a larger one */
    LAW_NEAR_FIRST  /* the first input with noise of standard deviation b; 0: no noise */
} op_law;

typedef struct op_input {
    op_law law;
    size_t rows, columns;
    double a, b;
} op_input;

typedef struct op_case {
    const char *name;
    bo_operation op;
    const void *attributes;
    size_t inputs;
    op_input in[BO_OP_INPUTS];
    bo_graph_pass pass;
    bool exact;          /* outputs equal the reference rounded to float, bit by bit */
    bool large;          /* too large to differentiate by every element: random directions and some elements only */
    double step;         /* step of differences; 0: 1e-3 */
    double canceling;    /* magnitude of terms of a gradient that cancel by definition and leave only rounding errors */
    unsigned moved;      /* bit mask of weights without a gradient that forward may write in training */
    unsigned constants;  /* bit mask of floats without a gradient */
    struct trial *trial; /* ATTENTION: in[] follows the trial */
    uint64_t seed;
} op_case;

typedef void (*op_visitor)(void *user, const op_case *c);

static inline bool op_law_is_index(op_law law)
{
    return law >= LAW_BELOW && law <= LAW_FEW;
}

static inline int32_t op_draw_index(bo_rng *rng, const op_input *in, size_t i)
{
    int32_t any = in->a > 0 ? (int32_t)bo_rng_below(rng, (uint64_t)in->a) : 0;
    switch (in->law) {
    case LAW_TARGETS:
        return i % 3 == 1 ? -1 - (int32_t)(i % 2) : any;
    case LAW_NOBODY:
        return -1;
    case LAW_PLACES:
        return (int32_t)(in->a + (double)(in->b > 0 ? i % (size_t)in->b : i));
    case LAW_RISING:
        return (int32_t)(in->a * (double)(i * i) / (double)((in->rows - 1) * (in->rows - 1)));
    case LAW_FEW:
        return i % 7 == 6 ? any : (int32_t)in->a - 1;
    default:
        return any;
    }
}

static inline double op_draw(bo_rng *rng, const op_input *in, size_t i, const double *first)
{
    double deviation = in->a != 0 ? in->a : 1, x = 0;
    size_t last = in->rows * in->columns - 1;
    switch (in->law) {
    case LAW_UNIFORM:
        return in->a + (in->b - in->a) * bo_rng_uniform(rng);
    case LAW_AWAY:
        while (fabs(x) < 0.02) x = deviation * bo_rng_normal(rng);
        return x;
    case LAW_EVENLY:
        return in->a + (in->b - in->a) * (double)i / (double)(last ? last : 1);
    case LAW_CERTAIN:
        return (double)bo_rng_below(rng, 2);
    case LAW_LIKE_FIRST:
        return i % 2 ? first[i] + 1 + bo_rng_uniform(rng) : first[i];
    case LAW_NEAR_FIRST:
        return first[i] + in->b * bo_rng_normal(rng);
    default:
        return deviation * bo_rng_normal(rng) + in->b;
    }
}

/* Double operands with float values. */
static inline plain_op op_make(const op_case *c)
{
    plain_op op = {.kind = c->op, .attributes = c->attributes, .inputs = c->inputs, .pass = &c->pass};
    for (size_t k = 0; k < c->inputs; k++) {
        const op_input *in = &c->in[k];
        plain_tensor *t = &op.in[k];
        bo_rng rng = bo_rng_make(c->seed, bo_rng_stream("test.backend.case", k));
        *t = (plain_tensor){.rows = in->rows, .columns = in->columns};
        if (op_law_is_index(in->law)) {
            t->element = BO_ELEMENT_INT32;
            t->index = calloc(plain_count(t) + 1, sizeof *t->index);
            for (size_t i = 0; i < plain_count(t); i++) t->index[i] = op_draw_index(&rng, in, i);
            continue;
        }
        t->x = plain_zeros(plain_count(t));
        for (size_t i = 0; i < plain_count(t); i++) t->x[i] = (double)(float)op_draw(&rng, in, i, op.in[0].x);
    }
    plain_shape(&op);
    for (size_t o = 0; o < op.outputs; o++) op.out[o].x = plain_zeros(plain_count(&op.out[o]));
    return op;
}

static inline void op_drop(plain_op *op)
{
    for (size_t k = 0; k < op->inputs; k++) {
        free(op->in[k].x);
        free(op->in[k].index);
    }
    for (size_t o = 0; o < op->outputs; o++) free(op->out[o].x);
}

#endif
