/* Operations on rows of the source use its lengths and have no state, for any pass over the stream; their outputs and
 * gradients are bitwise equal to operations on a stream with these lengths. */
#include <bochner/names.h>
#include "calls.h"
#include "cases_attention.h"
#include "cases_grid.h"
#include "cases_mixers.h"
#include "cases_ssm.h"

enum { SEQUENCES = 4, ROWS = 12 };
static const size_t source[SEQUENCES] = {5, 0, 6, 1}, stream[SEQUENCES] = {90, 1, 0, 7};

/* An operation on the stream and on the source. */
typedef struct twins {
    const void *of_stream, *of_source;
} twins;

static test_call call_of(const op_case *c, const plain_op *op, const void *attributes, const bo_graph_pass *pass,
                         float *data[BO_OP_INPUTS])
{
    test_call t = test_begin(c->op, attributes);
    t.call.pass = pass;
    for (size_t k = 0; k < op->inputs; k++)
        test_input(&t, data[k], BO_ELEMENT_FLOAT32, op->in[k].rows, op->in[k].columns);
    return t;
}

static void assert_same(const char *name, const test_call *a, const test_call *b)
{
    if (memcmp(test_out(a), test_out(b), test_out_bytes(a))) fail_msg("%s: other outputs", name);
    for (size_t k = 0; k < a->call.inputs; k++) {
        size_t bytes = a->call.in[k].rows * a->call.in[k].columns * sizeof(float);
        if (memcmp(a->call.din[k], b->call.din[k], bytes)) fail_msg("%s: another gradient of input %zu", name, k);
    }
}

/* The states of the pass are invalid addresses, so any access to them is detected. */
static void check(bo_context *context, const op_case *c, const plain_op *op, twins both)
{
    void *states[2 * SEQUENCES];
    float *data[BO_OP_INPUTS];
    for (size_t s = 0; s < 2 * SEQUENCES; s++) states[s] = (void *)(uintptr_t)8;
    const bo_graph_pass alone = {.sequences = SEQUENCES, .lengths = source};
    const bo_graph_pass beside = {
        .sequences = SEQUENCES, .lengths = stream, .source_lengths = source, .states = states};
    for (size_t k = 0; k < op->inputs; k++) {
        data[k] = test_floats(plain_count(&op->in[k]), 0);
        for (size_t i = 0; i < plain_count(&op->in[k]); i++) data[k][i] = (float)op->in[k].x[i];
    }
    test_call expected = call_of(c, op, both.of_stream, &alone, data),
              found = call_of(c, op, both.of_source, &beside, data);
    test_forward(context, &expected, true);
    test_forward(context, &found, true);
    float *dout = test_normals(test_out_bytes(&found) / sizeof(float), 3);
    test_backward(context, &expected, dout, false);
    test_backward(context, &found, dout, false);
    assert_same(c->name, &found, &expected);
    free(dout);
    test_end(&expected);
    test_end(&found);
    for (size_t k = 0; k < op->inputs; k++) free(data[k]);
}

static void check_case(bo_context *context, op_case c, const char *name, twins both)
{
    c.name = name;
    plain_op op = op_make(&c);
    check(context, &c, &op, both);
    op_drop(&op);
}

static void mixers_use_source_lengths(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    const bo_sequences target_sequences = {.max_sequences = SEQUENCES},
                       source_sequences = {.max_sequences = SEQUENCES, .layer = 1, .source = true};
    for (int cell = 0; cell < BO_RECURRENCE_COUNT; cell++) {
        bo_recurrent_attributes a = {target_sequences, (bo_recurrence)cell},
                                b = {source_sequences, (bo_recurrence)cell};
        check_case(context, case_recurrent(&a, ROWS, 3), "recurrent", (twins){&a, &b});
    }
    for (int causal = 0; causal < 2; causal++) {
        bo_mix_attributes a = {target_sequences, 2, causal}, b = {source_sequences, 2, causal};
        check_case(context, case_mix(&a, ROWS, 6, 7), "mix", (twins){&a, &b});
    }
    for (size_t kind = 0; kind < BO_SSM_COUNT; kind++)
        for (size_t form = 0; form < BO_SSM_FORM_COUNT; form++) {
            bo_ssm_attributes a = {target_sequences, (bo_ssm)kind, (bo_ssm_form)form, 3, 2}, b = a;
            b.sequences = source_sequences;
            check_case(context, case_ssm(&a, ROWS, 5), "ssm", (twins){&a, &b});
        }
    bo_convolution_attributes a = {.windows = {.height = {.kernel = 1}, .width = {.kernel = 4, .before = 3}},
                                   .groups = 3,
                                   .sequences = target_sequences},
                              b = a;
    b.sequences = source_sequences;
    op_case c = {.op = BO_OPERATION_CONVOLUTION, .attributes = &a, .inputs = 2};
    c.in[0] = (op_input){.rows = ROWS, .columns = 3}, c.in[1] = (op_input){.rows = 3, .columns = 4};
    check_case(context, c, "causal convolution", (twins){&a, &b});
    bo_context_destroy(context);
}

static void attention_uses_source_lengths(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    const char *preset;
    for (size_t i = 0; (preset = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i)); i++) {
        trial_desc desc = {.name = preset,
                           .attention = attention_preset(context, preset, (bo_attention_desc){.heads = 2, .dim = 5}),
                           .shape = {SEQUENCES, .lengths = source, .layout = BO_LAYOUT_TOKENS_FIRST}};
        trial t = trial_make(context, &desc);
        bo_attention_attributes a = {.attention = t.attention, .given = attention_bits(&t), .max_sequences = SEQUENCES};
        bo_attention_attributes b = a;
        b.source = true, b.layer = 1;
        op_case c = {.name = preset, .op = BO_OPERATION_ATTENTION, .attributes = &a};
        plain_op op = attention_plain(&t, &a);
        check(context, &c, &op, (twins){&a, &b});
        op_drop(&op);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

static void refuses_lengths_that_do_not_fit(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const size_t few[] = {5, 1};
    const bo_graph_pass pass = {.sequences = 2, .lengths = stream, .source_lengths = few};
    bo_recurrent_attributes a = {{.max_sequences = 2, .source = true}, BO_RECURRENCE_GRU};
    op_case c = case_recurrent(&a, ROWS, 2);
    plain_op op = op_make(&c);
    float *data = test_floats(ROWS * 6, 0), *one[BO_OP_INPUTS] = {data, data, data};
    test_call t = call_of(&c, &op, &a, &pass, one);
    assert_ok(context, t.op->shape(context, &t.call));
    assert_fails(context, BO_INVALID, "6 of the pass's 12 rows belong to no sequence", t.op->forward(context, &t.call));
    free(data);
    op_drop(&op);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixers_use_source_lengths),
        cmocka_unit_test(attention_uses_source_lengths),
        cmocka_unit_test(refuses_lengths_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
