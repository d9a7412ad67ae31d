/* Test cases of operations on graphs, and of operations that move elements or add noise. */
#ifndef BO_TEST_BACKEND_CASES_GRAPH_H
#define BO_TEST_BACKEND_CASES_GRAPH_H

#include "cases.h"

static inline void cases_reshape(op_visitor visit, void *user)
{
    static const size_t shapes[][3] = {{1, 1, 1}, {6, 5, 15}, {8, 16, 128}, {3, 14, 7}, {5, 7, 35}, {35, 1, 7}};
    char name[128];
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        bo_reshape_attributes attributes = {.columns = shapes[n][2]};
        op_case c = {.name = CASE_NAME("%zu x %zu in rows of %zu", shapes[n][0], shapes[n][1], shapes[n][2]),
                     .op = BO_OPERATION_RESHAPE,
                     .attributes = &attributes,
                     .inputs = 1,
                     .in = {{.rows = shapes[n][0], .columns = shapes[n][1]}},
                     .exact = true,
                     .seed = n};
        visit(user, &c);
    }
}

static inline void cases_concat(op_visitor visit, void *user)
{
    char name[128];
    for (size_t n = 0; n < CASE_SIZES; n++)
        for (size_t inputs = 1; inputs <= 4; inputs++) {
            op_case c = {.name = CASE_NAME("concat %zu of %zu rows, %zu columns and more", inputs, case_sizes[n][0],
                                           case_sizes[n][1]),
                         .op = BO_OPERATION_CONCAT,
                         .inputs = inputs,
                         .exact = true,
                         .seed = n};
            for (size_t i = 0; i < inputs; i++)
                c.in[i] = (op_input){.rows = case_sizes[n][0], .columns = case_sizes[n][1] + 2 * i};
            visit(user, &c);
        }
}

/* Values far enough apart that a finite difference does not change the argmax. */
static inline void cases_aggregate(op_visitor visit, void *user)
{
    static const struct {
        size_t nodes, targets, edges, columns, named; /* named: neighbors are below this */
    } graphs[] = {{1, 1, 1, 1, 1}, {5, 5, 12, 3, 5}, {4, 9, 20, 17, 2}, {9, 4, 3, 33, 9}, {7, 7, 40, 16, 7}};
    static const char *const kinds[] = {"sum", "mean", "max"};
    char name[128];
    for (size_t n = 0; n < sizeof graphs / sizeof *graphs; n++)
        for (size_t kind = 0; kind < BO_AGGREGATE_COUNT; kind++)
            for (size_t training = 0; training < 2; training++) {
                bo_aggregate_attributes attributes = {.kind = (bo_aggregate_kind)kind, .dropout = training ? 0 : 0.5};
                op_case c = {.name = CASE_NAME("%s over %zu edges of %zu nodes into %zu, %zu columns", kinds[kind],
                                               graphs[n].edges, graphs[n].nodes, graphs[n].targets, graphs[n].columns),
                             .op = BO_OPERATION_AGGREGATE,
                             .attributes = &attributes,
                             .inputs = 3,
                             .in = {{.rows = graphs[n].nodes, .columns = graphs[n].columns},
                                    {.law = LAW_RISING, .rows = graphs[n].targets + 1, .columns = 1},
                                    {.law = LAW_BELOW, .rows = graphs[n].edges, .columns = 1}},
                             .pass = {.training = training, .seed = 4},
                             .step = 1e-5,
                             .seed = n};
                c.in[1].a = (double)graphs[n].edges, c.in[2].a = (double)graphs[n].named;
                visit(user, &c);
            }
}

static inline void cases_noise(op_visitor visit, void *user)
{
    static const double amounts[] = {0, 0.3, 0.9};
    static const char *const kinds[] = {"normal", "mask", "rows"};
    char name[128];
    for (size_t n = 0; n <= CASE_SIZES; n++)
        for (size_t kind = 0; kind < BO_NOISE_COUNT; kind++)
            for (size_t i = 0; i < 6; i++) {
                bo_noise_attributes attributes = {.kind = (bo_noise_kind)kind, .amount = amounts[i / 2], .stream = 3};
                size_t rows = n < CASE_SIZES ? case_sizes[n][0] : 1031, columns = n < CASE_SIZES ? case_sizes[n][1] : 9;
                op_case c = {.name = CASE_NAME("noise %s %g of %zu x %zu%s", kinds[kind], amounts[i / 2], rows, columns,
                                               i % 2 ? "" : ", not training"),
                             .op = BO_OPERATION_NOISE,
                             .attributes = &attributes,
                             .inputs = 1,
                             .in = {{.law = LAW_AWAY, .rows = rows, .columns = columns}},
                             .pass = {.training = i % 2, .seed = 77 + i},
                             .large = n == CASE_SIZES,
                             .seed = n};
                visit(user, &c);
            }
}

#endif
