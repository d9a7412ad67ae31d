/* Test cases of convolution, pooling and batch normalization. */
#ifndef BO_TEST_BACKEND_CASES_GRID_H
#define BO_TEST_BACKEND_CASES_GRID_H

#include "cases.h"

/* ---- convolution ------------------------------------------------------------------------------------------------- */

/* Images of size[0] x size[1] (width 0: from the pass or `tokens`), their windows and channels. */
typedef struct grid_case {
    size_t images, size[2], kernel[2], stride[2], before[2], after[2];
    size_t in, out, groups;
    bool bias, large;
} grid_case;

static inline bo_windows grid_windows(const grid_case *g)
{
    bo_axis_windows axes[2];
    for (size_t i = 0; i < 2; i++)
        axes[i] = (bo_axis_windows){g->size[i], g->kernel[i], g->stride[i], g->before[i], g->after[i]};
    return (bo_windows){axes[0], axes[1]};
}

static inline void case_convolution(op_visitor visit, void *user, const grid_case *g, op_case c,
                                    bo_convolution_attributes a)
{
    size_t taps = plain_or_one(g->kernel[0]) * plain_or_one(g->kernel[1]), in = g->in / plain_or_one(g->groups);
    a.windows = grid_windows(g), a.groups = g->groups, a.bias = g->bias;
    c.op = BO_OPERATION_CONVOLUTION, c.attributes = &a, c.inputs = g->bias ? 3 : 2, c.large = g->large;
    if (!c.in[0].rows) c.in[0].rows = g->images * g->size[0] * g->size[1];
    c.in[0].columns = g->in;
    c.in[1] = (op_input){.rows = g->out, .columns = taps * in, .a = 0.6};
    c.in[2] = (op_input){.rows = 1, .columns = g->out, .a = 0.5};
    visit(user, &c);
}

static inline void cases_convolution(op_visitor visit, void *user)
{
    static const grid_case cases[] = {
        {1, {1, 1}, {0}, {0}, {0}, {0}, 1, 1, 0, true, false},
        {2, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 2, 3, 1, true, false},
        {1, {7, 5}, {3, 2}, {2, 3}, {1, 0}, {0, 1}, 3, 4, 1, false, false},
        {2, {4, 3}, {1, 1}, {1, 1}, {0}, {0}, 3, 5, 0, true, false},       /* a single position */
        {1, {7, 6}, {2, 2}, {3, 3}, {0}, {0}, 2, 2, 1, true, false},       /* positions that no window covers */
        {1, {3, 3}, {5, 5}, {1, 1}, {2, 2}, {2, 2}, 1, 2, 1, true, false}, /* larger than the image */
        {1, {2, 3}, {2, 2}, {2, 1}, {4, 3}, {3, 5}, 2, 2, 1, true, false}, /* windows in the padding only */
        {2, {3, 4}, {3, 4}, {1, 1}, {0}, {0}, 3, 17, 1, false, false},     /* one window */
        {2, {1, 9}, {1, 4}, {1, 1}, {0, 3}, {0, 0}, 4, 4, 4, true, false}, /* depthwise */
        {1, {5, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 6, 6, 6, false, false},
        {1, {2, 2}, {2, 2}, {3, 3}, {4, 4}, {4, 4}, 3, 3, 3, true, false},
        {2, {4, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 6, 4, 2, true, false}, /* groups */
        {1, {4, 4}, {3, 3}, {1, 2}, {0, 1}, {0, 1}, 3, 6, 3, true, false},
        {1, {5, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 19, 70, 1, true, true}, /* two panels */
        {2, {1, 701}, {1, 3}, {1, 1}, {0, 1}, {0, 1}, 5, 9, 1, true, true}, /* wider than tiles */
        /* more terms than are summed in registers */
        {1, {1, 20}, {1, 3}, {1, 1}, {0, 0}, {0, 0}, 200, 8, 1, false, true},
        {1, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 100, 6, 1, false, true},
        {3, {4, 5}, {3, 2}, {2, 1}, {1, 0}, {1, 1}, 3, 133, 1, true, true}, /* so wide that columns are gathered */
        {3, {21, 30}, {3, 3}, {2, 2}, {1, 1}, {0, 1}, 3, 5, 1, true, true},
        {2, {11, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 40, 40, 40, true, true},
        {1, {26, 30}, {3, 5}, {1, 1}, {1, 2}, {1, 2}, 33, 3, 3, true, true},
    };
    char name[128];
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const grid_case *g = &cases[n];
        op_case c = {.name = CASE_NAME("convolution %zu: %zu of %zu x %zu, kernel %zu x %zu, %zu -> %zu in %zu", n,
                                       g->images, g->size[0], g->size[1], g->kernel[0], g->kernel[1], g->in, g->out,
                                       g->groups),
                     .seed = n};
        case_convolution(visit, user, g, c, (bo_convolution_attributes){.scale = n % 3 == 2 ? 0.6 : 0});
    }
}

/* Windows within sequences with a fixed number of tokens, or with lengths from a pass. */
static inline void cases_causal_convolution(op_visitor visit, void *user)
{
    static const size_t lengths[] = {3, 0, 5, 1}, long_lengths[] = {1, 290, 2, 610};
    static const grid_case cases[] = {
        {0, {1, 0}, {1, 4}, {1, 1}, {0, 3}, {0}, 3, 3, 3, true, false},
        {0, {1, 0}, {1, 3}, {1, 1}, {0, 2}, {0}, 2, 5, 1, true, false},
        {0, {0, 0}, {0, 2}, {0, 0}, {0, 1}, {0}, 4, 2, 2, false, false},
        {0, {1, 0}, {1, 1}, {1, 1}, {0, 0}, {0}, 2, 3, 1, true, false},
    };
    char name[128];
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        for (size_t how = 0; how < 4; how++) {
            op_case c = {.name = CASE_NAME("causal convolution %zu, way %zu", n, how), .in = {{.rows = 9}}, .seed = n};
            bo_convolution_attributes a = {.sequences = {.tokens = how == 1 ? 3 : 0, .max_sequences = 4}};
            grid_case g = cases[n];
            if (how >= 2) c.pass = (bo_graph_pass){.sequences = 4, .lengths = how == 2 ? lengths : long_lengths};
            if (how == 3) c.in[0].rows = 903, g.large = true;
            case_convolution(visit, user, &g, c, a);
        }
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

static inline void cases_pool(op_visitor visit, void *user)
{
    static const grid_case cases[] = {
        {1, {1, 1}, {0}, {0}, {0}, {0}, 1, 0, 0, false, false},
        {2, {4, 6}, {2, 2}, {2, 2}, {0}, {0}, 3, 0, 0, false, false},
        {1, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 2, 0, 0, false, false},
        {1, {5, 7}, {3, 2}, {2, 3}, {1, 0}, {2, 1}, 5, 0, 0, false, false},
        {2, {3, 4}, {3, 4}, {1, 1}, {0}, {0}, 17, 0, 0, false, false}, /* the whole image */
        {1, {6, 5}, {1, 2}, {3, 4}, {0}, {0}, 2, 0, 0, false, false},  /* positions that no window covers */
        {3, {1, 8}, {1, 3}, {1, 2}, {0, 2}, {0, 1}, 4, 0, 0, false, false},
        {7, {27, 28}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 6, 0, 0, false, true},
    };
    char name[128];
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        for (int kind = 0; kind < BO_POOL_COUNT; kind++) {
            const grid_case *g = &cases[n];
            bo_pool_attributes a = {.windows = grid_windows(g), .kind = (bo_pool_kind)kind};
            op_case c = {.name = CASE_NAME("pool %d, case %zu", kind, n),
                         .op = BO_OPERATION_POOL,
                         .attributes = &a,
                         .inputs = 1,
                         /* far enough apart that the step of a finite difference does not change the maximum */
                         .in = {{.rows = g->images * g->size[0] * g->size[1], .columns = g->in, .a = 5000}},
                         .large = g->large,
                         .exact = kind == BO_POOL_KIND_MAX,
                         .seed = n + 3};
            visit(user, &c);
        }
}

/* ---- batch normalization ----------------------------------------------------------------------------------------- */

static inline void cases_batch_norm(op_visitor visit, void *user)
{
    static const size_t shapes[][2] = {{2, 1}, {2, 3}, {7, 5}, {5, 33}, {40, 2}, {3, 130}, {1203, 17}};
    char name[128];
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++)
        for (unsigned training = 0; training < 2; training++) {
            size_t rows = shapes[n][0], columns = shapes[n][1];
            bo_batch_norm_attributes a = {.epsilon = n % 2 ? 0 : 1e-3, .momentum = n % 3 ? 0 : 0.3};
            op_case c = {.name = CASE_NAME("batch norm of %zu x %zu, training %u", rows, columns, training),
                         .op = BO_OPERATION_BATCH_NORM,
                         .attributes = &a,
                         .inputs = 5,
                         .in = {{.rows = rows, .columns = columns, .b = n == 2 ? 3 : 0.5},
                                {.rows = 1, .columns = columns, .a = 0.5, .b = 1},
                                {.rows = 1, .columns = columns, .a = 0.7},
                                {.rows = 1, .columns = columns, .a = 0.3},
                                {.law = LAW_UNIFORM, .rows = 1, .columns = columns, .a = 0.5, .b = 2}},
                         .pass = {.training = training},
                         .moved = 1 << 3 | 1 << 4,
                         .large = rows > 1000,
                         .canceling = rows < 4 && training ? 30 : 0, /* two rows are always normalized to ±1 */
                         .step = rows < 4 ? 1e-4 : 0,
                         .seed = n};
            visit(user, &c);
        }
}

#endif
