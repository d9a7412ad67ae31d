/* Test cases of recurrent cells and of products along tokens. */
#ifndef BO_TEST_BACKEND_CASES_MIXERS_H
#define BO_TEST_BACKEND_CASES_MIXERS_H

#include "backend/shapes.h"
#include "cases.h"

/* Sequences of a pass: with no token, with one, with more than are processed at a time; in any order. */
static const size_t case_lengths[][11] = {{0, 3, 1}, {1, 0, 2, 1, 3, 2, 1, 1, 2, 4, 0}};

static inline size_t case_length_sum(size_t i, size_t *sequences)
{
    size_t sum = 0;
    *sequences = i ? 11 : 3;
    for (size_t s = 0; s < *sequences; s++) sum += case_lengths[i][s];
    return sum;
}

/* ---- RECURRENT --------------------------------------------------------------------------------------------------- */

static inline op_case case_recurrent(const bo_recurrent_attributes *a, size_t rows, size_t size)
{
    size_t columns = bo_recurrent_gates(a->cell) * size;
    return (op_case){.op = BO_OPERATION_RECURRENT,
                     .attributes = a,
                     .inputs = 3,
                     .in = {{.rows = rows, .columns = columns},
                            {.rows = columns, .columns = size, .a = 1.2 / sqrt((double)size)},
                            {.rows = 1, .columns = columns, .a = 0.5}}};
}

static inline void cases_recurrent(op_visitor visit, void *user)
{
    static const struct {
        size_t sequences, tokens, size;
        bool large;
    } shapes[] = {{1, 1, 1, false},  {2, 3, 2, false},  {3, 2, 5, false}, {9, 3, 3, true},
                  {2, 20, 17, true}, {17, 4, 40, true}, {1, 2, 140, true}};
    char name[128];
    for (int cell = 0; cell < BO_RECURRENCE_COUNT; cell++) {
        bo_recurrent_attributes a = {.cell = (bo_recurrence)cell};
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            a.sequences.tokens = shapes[i].tokens;
            op_case c = case_recurrent(&a, shapes[i].sequences * shapes[i].tokens, shapes[i].size);
            c.name = CASE_NAME("recurrent cell %d, %zu x %zu tokens, %zu numbers", cell, shapes[i].sequences,
                               shapes[i].tokens, shapes[i].size);
            c.large = shapes[i].large, c.seed = i;
            visit(user, &c);
        }
        for (size_t i = 0; i < 2; i++) {
            size_t sequences, rows = case_length_sum(i, &sequences);
            a.sequences = (bo_sequences){.max_sequences = 12};
            op_case c = case_recurrent(&a, rows, 3);
            c.name = CASE_NAME("recurrent cell %d, lengths %zu", cell, i), c.large = true, c.seed = i;
            c.pass = (bo_graph_pass){.sequences = sequences, .lengths = case_lengths[i]};
            visit(user, &c);
        }
        a.sequences = (bo_sequences){.tokens = 4};
        op_case c = case_recurrent(&a, 8, 4);
        c.name = CASE_NAME("recurrent cell %d, closed gates", cell), c.in[0].a = 30, c.step = 1e-4;
        visit(user, &c);
    }
}

/* ---- MIX --------------------------------------------------------------------------------------------------------- */

static inline op_case case_mix(const bo_mix_attributes *a, size_t rows, size_t columns, size_t max_tokens)
{
    return (op_case){
        .op = BO_OPERATION_MIX,
        .attributes = a,
        .inputs = 2,
        .in = {{.rows = rows, .columns = columns}, {.rows = a->heads * max_tokens, .columns = max_tokens}}};
}

static inline void cases_mix(op_visitor visit, void *user)
{
    static const struct {
        size_t sequences, tokens, max_tokens, heads, dim;
        bool large;
    } shapes[] = {{1, 1, 1, 1, 1, false},  {2, 3, 4, 2, 3, false},   {3, 5, 5, 1, 2, false},
                  {2, 33, 40, 3, 5, true}, {1, 70, 70, 2, 17, true}, {3, 100, 130, 1, 4, true}};
    char name[128];
    for (int causal = 0; causal < 2; causal++) {
        bo_mix_attributes a = {.causal = causal};
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            a.sequences = (bo_sequences){.tokens = shapes[i].tokens}, a.heads = shapes[i].heads;
            op_case c =
                case_mix(&a, shapes[i].sequences * shapes[i].tokens, a.heads * shapes[i].dim, shapes[i].max_tokens);
            c.name = CASE_NAME("mix, causal %d, %zu x %zu of %zu tokens, %zu heads of %zu", causal, shapes[i].sequences,
                               shapes[i].tokens, shapes[i].max_tokens, a.heads, shapes[i].dim);
            c.large = shapes[i].large, c.seed = i;
            visit(user, &c);
        }
        for (size_t i = 0; i < 2; i++) {
            size_t sequences, rows = case_length_sum(i, &sequences);
            a.sequences = (bo_sequences){.max_sequences = 12}, a.heads = 2;
            op_case c = case_mix(&a, rows, 6, 5);
            c.name = CASE_NAME("mix, causal %d, lengths %zu", causal, i), c.large = i > 0, c.seed = i;
            c.pass = (bo_graph_pass){.sequences = sequences, .lengths = case_lengths[i]};
            visit(user, &c);
        }
    }
}

#endif
