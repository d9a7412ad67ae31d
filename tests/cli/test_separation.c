/* Separation rank of the blocks of a language model: no interaction in the embedding, rank one where it is known,
 * growth with attention, bad input, memory. */
#include "base/counting.h"
#include "cli/shared/separation.h"
#include "model/models.h"

/* The embedding of the last token does not depend on the first half, and an MLP acts on single tokens. Without
 * attention (its output projection is zero when a model is created) no place interacts. */
static void without_interaction(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("softmax");
    bo_model *model;
    bo_separation *places;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_ok(context, bo_separation_measure(context, model, NULL, 0, NULL, &places));
    for (size_t p = 0; p < 1 + 2 * LAYERS; p++) assert_true(places[p].effective == 0 && places[p].share == 0);
    bo_free(places);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* With queries of 0, attention is the mean of the values of all tokens: a sum of a function of A and one of B, which do
 * not interact. */
static void of_a_sum(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("softmax");
    desc.block.query_norm = BO_CHOICE_NO, desc.block.positions = BO_POSITIONS_NONE;
    bo_model *model = test_model(context, &desc, NULL);
    float *zeros = calloc(desc.width * desc.width, sizeof *zeros);
    bo_separation *places;
    assert_ok(context,
              bo_weights_set(context, bo_model_weights(model), "model.layers.0.self_attn.q_proj.weight", zeros));
    assert_ok(context, bo_separation_measure(context, model, NULL, 0, NULL, &places));
    assert_true(places[1].effective == 0 && places[1].share == 0);
    assert_true(places[2].effective > 1); /* the MLP multiplies them */
    bo_free(places);
    free(zeros);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* Gated linear attention with one head of dimension 2: the last token reads q(B)ᵀ D(B) S(A) with a state S of two rows
 * and the gates D of the second half, so that what depends on A enters through two numbers. The rank is 2. */
static void known_rank(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc desc = {.layers = 1,
                          .width = 16,
                          .block.heads = 1,
                          .block.head_dim = 2,
                          .context = 16,
                          .vocab = VOCAB,
                          .block.mlp = BO_MLP_NONE,
                          .block.positions = BO_POSITIONS_NONE,
                          .block.query_norm = BO_CHOICE_NO,
                          .block.output_norm = BO_CHOICE_NO,
                          .seed = 3};
    bo_attention_preset("gla", &desc.block.attention);
    bo_model *model = test_model(context, &desc, NULL);
    bo_separation *places;
    assert_ok(context, bo_separation_measure(context, model, NULL, 0, NULL, &places));
    assert_true(places[1].effective > 1 && places[1].effective <= 2.001);
    assert_true(places[1].within <= 2);
    assert_true(places[1].share > 0);
    bo_free(places);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* Softmax attention has more than the memory of two numbers above, and two layers more than one. The same seed gives
 * the same bits for any number of threads. */
static void growth(void **state)
{
    (void)state;
    bo_context *context = test_context(1), *many = test_context(3);
    bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL);
    bo_separation *places, *again;
    int32_t ids[100];
    test_tokens(100, ids);
    assert_ok(context, bo_separation_measure(context, model, ids, 100, NULL, &places));
    assert_ok(many, bo_separation_measure(many, model, ids, 100, NULL, &again));
    assert_memory_equal(places, again, (1 + 2 * LAYERS) * sizeof *places);
    assert_true(places[0].effective == 0);
    assert_true(places[1].effective > 2 && places[2 * LAYERS].effective > places[1].effective);
    assert_true(places[2 * LAYERS].within <= 23);
    bo_free(places);
    bo_free(again);
    bo_model_destroy(model);
    bo_context_destroy(context);
    bo_context_destroy(many);
}

typedef struct failing_call {
    bo_context *context;
    const bo_model *model;
} failing_call;

static bo_status measure(void *what)
{
    const failing_call *s = what;
    bo_separation *places;
    BO_TRY(bo_separation_measure(s->context, s->model, NULL, 0, &(bo_separation_desc){.settings = 3}, &places));
    bo_free(places);
    return BO_OK;
}

static void bad_input_and_memory(void **state)
{
    (void)state;
    counting memory = {0};
    bo_context *context = counting_context(&memory, 1);
    bo_model_desc desc = test_desc("softmax");
    failing_call s = {context, test_model(context, &desc, NULL)};
    bo_separation *places;
    int32_t ids[4] = {0};
    assert_fails(context, BO_INVALID, "the text has 4 tokens, expected at least 8",
                 bo_separation_measure(context, s.model, ids, 4, NULL, &places));
    assert_fails(context, BO_INVALID, "expected an even number of tokens",
                 bo_separation_measure(context, s.model, NULL, 0, &(bo_separation_desc){.tokens = 7}, &places));
    counting_inject(&(injection){&memory, context, measure, &s, 60, 7, "the sequences of a call"});
    bo_model_destroy((bo_model *)s.model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_interaction), cmocka_unit_test(of_a_sum),
                                       cmocka_unit_test(known_rank), cmocka_unit_test(growth),
                                       cmocka_unit_test(bad_input_and_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
