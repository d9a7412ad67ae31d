/* Counts by shape compared with models and their graphs. */
#include <bochner/names.h>
#include "made_up.h"

typedef struct counted {
    bo_plan_counts counts;
    bo_training_cost plan;
} counted;

/* Both counts of one shape: by the formulas, and from the trainer. */
static counted count_both(bo_context *context, const bo_plan_shape *shape)
{
    counted out;
    bo_tokenizer *tokenizer;
    bo_corpus *corpus;
    bo_model *model;
    bo_model_desc desc;
    bo_trainer_desc training;
    assert_ok(context, bo_plan_count(context, shape, &out.counts));
    assert_ok(context, bo_plan_descriptors(context, shape, &desc, &training));
    assert_ok(context, bo_tokenizer_create(context, &tokenizer));
    assert_ok(context, bo_plan_noise(context, tokenizer, 4096, &corpus));
    assert_ok(context, bo_model_create(context, &desc, tokenizer, &model));
    training.model = model;
    training.train.corpus = corpus;
    training.steps = 1;
    assert_ok(context, bo_trainer_estimate(context, &training, &out.plan));
    bo_model_destroy(model);
    bo_corpus_close(corpus);
    bo_tokenizer_destroy(tokenizer);
    return out;
}

/* For every kind: the terms that the formulas ignore (gates, maps, norms) are small compared with projections and MLPs.
 * AdamW has no matrix products, which graphs do not count. */
static void counts_match_the_graph(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const char *name;
    for (size_t i = 0; (name = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i)); i++) {
        bo_plan_shape shape = made_up_shape(3, 96, 128, 2);
        shape.attention = name;
        shape.optimizer = BO_OPTIMIZER_ADAMW;
        const counted c = count_both(context, &shape);
        const double operations = c.counts.operations + c.counts.attention;
        if (fabs(operations / c.plan.operations - 1) > 0.03)
            fail_msg("%s: %g operations, the graph has %g", name, operations, c.plan.operations);
        if (fabs(c.counts.parameters / (double)c.plan.parameters - 1) > 0.06)
            fail_msg("%s: %g parameters, the model has %llu", name, c.counts.parameters,
                     (unsigned long long)c.plan.parameters);
        assert_true(c.counts.tokens == 256 && c.counts.layers == 3);
    }
    bo_context_destroy(context);
}

static void parameters_are_the_models(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_plan_shape shapes[] = {made_up_shape(1, 32, 16, 1), made_up_shape(5, 64, 16, 1),
                                    made_up_shape(2, 256, 16, 1)};
    for (size_t i = 0; i < 3; i++) {
        const counted c = count_both(context, &shapes[i]);
        assert_close(c.counts.parameters / (double)c.plan.parameters, 1, 0.005);
    }
    bo_context_destroy(context);
}

/* Muon on a d x d matrix: 5 (d³ + d³ + 2d³), on d x 4d: 5 (4 + 1 + 8) d³; a layer has 4 and 2 of them. */
static void muon_is_counted(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_shape shape = made_up_shape(2, 64, 64, 1);
    bo_plan_counts muon, adamw;
    assert_ok(context, bo_plan_count(context, &shape, &muon));
    shape.optimizer = BO_OPTIMIZER_ADAMW;
    assert_ok(context, bo_plan_count(context, &shape, &adamw));
    assert_close(muon.operations - adamw.operations, 2 * 5 * (4 * 4 + 2 * 13) * 64.0 * 64 * 64, 1);
    assert_true(muon.copies > adamw.copies);
    bo_context_destroy(context);
}

/* One layer: 3 (38 T d + 12 d²) forward and backward, scores written and read, and 8 per weight for AdamW. */
static void copies_are_counted(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_shape shape = made_up_shape(2, 64, 128, 3);
    bo_plan_counts two, three;
    shape.attention = "softmax";
    shape.optimizer = BO_OPTIMIZER_ADAMW;
    assert_ok(context, bo_plan_count(context, &shape, &two));
    shape.layers = 3;
    assert_ok(context, bo_plan_count(context, &shape, &three));
    const double d = 64, tokens = 3 * 128, scores = 2 * 3 * 128.0 * 129, weights = three.parameters - two.parameters;
    assert_close(three.copies - two.copies, 3 * (38 * tokens * d + 12 * d * d + scores) + 8 * weights, 1);
    bo_context_destroy(context);
}

/* Scores of softmax attention grow with the square of the context, features with the context; both are linear in the
 * batch. */
static void attention_grows_as_it_does(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const char *const names[] = {"softmax", "rfa-gate"};
    for (size_t i = 0; i < 2; i++) {
        bo_plan_counts once, longer, more;
        bo_plan_shape shape = made_up_shape(2, 64, 1024, 1);
        shape.attention = names[i];
        assert_ok(context, bo_plan_count(context, &shape, &once));
        shape.batch = 2;
        assert_ok(context, bo_plan_count(context, &shape, &more));
        shape.batch = 1, shape.context = 2048;
        assert_ok(context, bo_plan_count(context, &shape, &longer));
        assert_close(more.attention / once.attention, 2, 1e-9);
        assert_close(longer.attention / once.attention, i == 0 ? 4 : 2, 0.02);
        assert_true(longer.copies > 1.9 * once.copies - 1e7);
    }
    bo_context_destroy(context);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_counts counts;
    bo_plan_shape shape = made_up_shape(0, 64, 64, 1);
    assert_fails(context, BO_INVALID, "layers", bo_plan_count(context, &shape, &counts));
    shape = made_up_shape(1, 64, 64, 0);
    assert_fails(context, BO_INVALID, "batch", bo_plan_count(context, &shape, &counts));
    shape = made_up_shape(1, 64, (size_t)1 << 40, 1);
    assert_fails(context, BO_INVALID, "context", bo_plan_count(context, &shape, &counts));
    shape = made_up_shape(1, 64, 64, 1);
    shape.heads = 3;
    assert_fails(context, BO_INVALID, "divisor of the width 64, found 3", bo_plan_count(context, &shape, &counts));
    shape.heads = 2;
    shape.attention = "nothing";
    assert_fails(context, BO_INVALID, "unknown attention 'nothing'", bo_plan_count(context, &shape, &counts));
    shape.attention = NULL;
    shape.optimizer = (bo_optimizer_kind)77;
    assert_fails(context, BO_INVALID, "optimizer", bo_plan_count(context, &shape, &counts));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_match_the_graph),     cmocka_unit_test(parameters_are_the_models),
        cmocka_unit_test(copies_are_counted),         cmocka_unit_test(muon_is_counted),
        cmocka_unit_test(attention_grows_as_it_does), cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
