/* Test cases of state-space systems. */
#ifndef BO_TEST_BACKEND_CASES_SSM_H
#define BO_TEST_BACKEND_CASES_SSM_H

#include "nn/enums.h"
#include "cases.h"

/* x and the parameters of a kind; slow and fast systems in one case. */
static inline op_case case_ssm(const bo_ssm_attributes *a, size_t rows, size_t channels)
{
    op_case c = {.op = BO_OPERATION_SSM, .attributes = a, .inputs = 2};
    size_t rank = a->rank ? a->rank : 1, n = a->size;
    c.in[0] = (op_input){.rows = rows, .columns = channels};
    c.in[1] = (op_input){.law = LAW_UNIFORM, .rows = channels, .columns = 1, .a = -5, .b = 0.5};
    if (a->kind != BO_SSM_CLOSED) {
        c.in[c.inputs++] = (op_input){.rows = channels, .columns = n};
        c.in[c.inputs++] = (op_input){.rows = channels, .columns = n, .a = 3};
    }
    if (a->kind == BO_SSM_LOW_RANK)
        for (size_t i = 0; i < 2; i++)
            c.in[c.inputs++] = (op_input){.rows = channels, .columns = 2 * n * rank, .a = 0.6};
    if (a->kind == BO_SSM_CLOSED) {
        c.in[c.inputs++] = (op_input){.rows = channels, .columns = n * rank, .a = 0.6};
        c.in[c.inputs++] = (op_input){.rows = channels, .columns = n};
    }
    c.in[c.inputs++] = (op_input){.rows = channels, .columns = a->kind == BO_SSM_CLOSED ? n : 2 * n};
    c.in[c.inputs++] = (op_input){.rows = channels, .columns = 1};
    return c;
}

typedef struct ssm_shape {
    size_t sequences, tokens, channels, size, rank;
    bool large;
} ssm_shape;

static inline void cases_ssm(op_visitor visit, void *user)
{
    static const ssm_shape shapes[] = {{1, 1, 1, 1, 1, false}, {2, 5, 3, 2, 1, false}, {3, 4, 2, 3, 2, false},
                                       {1, 6, 1, 5, 3, false}, {3, 66, 5, 4, 1, true}, {1, 130, 17, 3, 2, true}};
    static const size_t lengths[][3] = {{0, 7, 2}, {1, 130, 9}, {70, 0, 70}};
    char name[128];
    for (size_t kind = 0; kind < BO_SSM_COUNT; kind++)
        for (size_t form = 1; form < BO_SSM_FORM_COUNT; form++) {
            bo_ssm_attributes a = {.kind = (bo_ssm)kind, .form = (bo_ssm_form)form};
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                const ssm_shape *s = &shapes[i];
                a.sequences = (bo_sequences){.tokens = s->tokens}, a.size = s->size, a.rank = s->rank;
                op_case c = case_ssm(&a, s->sequences * s->tokens, s->channels);
                c.name = CASE_NAME("ssm %s, form %zu, %zu x %zu tokens, %zu channels of %zu, rank %zu",
                                   bo_ssm_name(a.kind), form, s->sequences, s->tokens, s->channels, s->size, s->rank);
                c.large = s->large, c.seed = i;
                visit(user, &c);
            }
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
                size_t rows = lengths[i][0] + lengths[i][1] + lengths[i][2];
                a.sequences = (bo_sequences){.max_sequences = 4}, a.size = 3, a.rank = 2;
                op_case c = case_ssm(&a, rows, 5);
                c.name = CASE_NAME("ssm %s, form %zu, lengths %zu", bo_ssm_name(a.kind), form, i);
                c.large = i > 0, c.seed = i;
                c.pass = (bo_graph_pass){.sequences = 3, .lengths = lengths[i]};
                visit(user, &c);
            }
        }
}

#endif
