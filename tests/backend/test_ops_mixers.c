/* Recurrent cells and products along tokens compared with differences of the reference, and in pieces. */
#include "subjects.h"
#include "cases_mixers.h"
#include "pieces.h"

SUBJECT(recurrent)
SUBJECT(mix)

static void recurrent_in_pieces(void **state)
{
    (void)state;
    harness h;
    harness_begin(&h);
    for (int cell = 0; cell < BO_RECURRENCE_COUNT; cell++) {
        bo_recurrent_attributes a = {.cell = (bo_recurrence)cell,
                                     .sequences = {.max_sequences = 3, .layer = PIECES_LAYER, .offset = 64}};
        op_case c = case_recurrent(&a, PIECES_ROWS, 5);
        c.name = "recurrent in pieces";
        pieces_check(&h, &c, bo_recurrent_state_bytes(a.cell, 5), 64);
    }
    harness_end(&h);
}

static void mix_in_pieces(void **state)
{
    (void)state;
    harness h;
    harness_begin(&h);
    bo_mix_attributes a = {
        .heads = 2, .causal = true, .sequences = {.max_sequences = 3, .layer = PIECES_LAYER, .offset = 128}};
    op_case c = case_mix(&a, PIECES_ROWS, 6, 13);
    c.name = "mix in pieces";
    pieces_check(&h, &c, bo_mix_state_bytes(6, 13), 128);
    harness_end(&h);
}

/* Pieces longer than the blocks of rows that are processed at a time, starting at tokens that are not the start of a
 * block. */
static void mix_in_long_pieces(void **state)
{
    (void)state;
    enum { TOKENS = 75, WIDTH = 3 };
    static const size_t cuts[] = {5, 50, 20};
    const bo_op *op = bo_backend_cpu()->ops[BO_OPERATION_MIX];
    bo_context *context = test_context(2);
    const bo_mix_attributes a = {.causal = true};
    static float x[TOKENS * WIDTH], w[TOKENS * TOKENS], whole[TOKENS * WIDTH], parts[TOKENS * WIDTH];
    bo_rng rng = bo_rng_make(3, 4);
    for (size_t i = 0; i < TOKENS * WIDTH; i++) x[i] = (float)bo_rng_normal(&rng);
    for (size_t i = 0; i < TOKENS * TOKENS; i++) w[i] = (float)bo_rng_normal(&rng);
    void *memory = bo_alloc(context, bo_mix_state_bytes(WIDTH, TOKENS), 1, "a memory");
    const bo_graph_pass fresh = {0}, continued = {.sequences = 1, .states = &memory};
    bo_op_call call = {.attributes = &a, .inputs = 2, .outputs = 1, .pass = &fresh};
    call.in[0] = (bo_tensor){.data = x, .rows = TOKENS, .columns = WIDTH};
    call.in[1] = (bo_tensor){.data = w, .rows = TOKENS, .columns = TOKENS};
    call.out[0] = (bo_tensor){.data = whole, .rows = TOKENS, .columns = WIDTH};
    assert_ok(context, op->forward(context, &call));
    call.pass = &continued;
    for (size_t i = 0, done = 0; i < sizeof cuts / sizeof *cuts; done += cuts[i++]) {
        call.in[0].rows = call.out[0].rows = cuts[i];
        call.in[0].data = x + done * WIDTH, call.out[0].data = parts + done * WIDTH;
        assert_ok(context, op->forward(context, &call));
    }
    for (size_t i = 0; i < TOKENS * WIDTH; i++)
        assert_close(parts[i], whole[i], 1e-4); /* 75 terms of size 10 at most */
    bo_free(memory);
    bo_context_destroy(context);
}

/* Invalid requests of a pass. */
static void refusals(void **state)
{
    (void)state;
    const bo_op *op = bo_backend_cpu()->ops[BO_OPERATION_MIX];
    bo_context *context = test_context(1);
    bo_mix_attributes a = {.causal = true, .sequences = {.max_sequences = 2}};
    float x[6 * 2] = {0}, w[4 * 4] = {0}, y[6 * 2],
                *memory = bo_alloc(context, bo_mix_state_bytes(2, 4), 1, "a memory");
    size_t lengths[2] = {5, 1};
    void *states[2] = {memory, memory};
    bo_graph_pass pass = {.sequences = 2, .lengths = lengths};
    bo_op_call call = {.attributes = &a, .inputs = 2, .pass = &pass, .in = {{.rows = 6, .columns = 2}}};
    call.in[1] = (bo_tensor){.rows = 4, .columns = 4};
    assert_ok(context, op->shape(context, &call));
    call.in[0].data = x, call.in[1].data = w, call.out[0].data = y;
    assert_fails(context, BO_INVALID, "4 tokens per sequence, found 5", op->forward(context, &call));
    lengths[0] = lengths[1] = 3, pass.states = states;
    *(uint32_t *)(void *)memory = 2;
    assert_fails(context, BO_INVALID, "4 tokens per sequence, found 5", op->forward(context, &call));
    call.again = true;
    assert_fails(context, BO_INVALID, "3 tokens are repeated, but the state has 2", op->forward(context, &call));
    call.again = false, a.causal = false, *(uint32_t *)(void *)memory = 0;
    assert_fails(context, BO_INVALID, "cannot be applied in pieces", op->forward(context, &call));
    a.causal = true, call.dout[0] = y;
    assert_fails(context, BO_INVALID, "has no gradients", op->backward(context, &call));
    bo_free(memory);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_recurrent),        cmocka_unit_test(of_mix),
        cmocka_unit_test(recurrent_in_pieces), cmocka_unit_test(mix_in_pieces),
        cmocka_unit_test(mix_in_long_pieces),  cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
