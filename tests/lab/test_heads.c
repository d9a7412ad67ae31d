/* Individual heads of a model, with known answers. */
#include "sample.h"
#include "base/counting.h"
#include "lab/tools/heads.h"
#include "lab/tools/language.h"

enum { WIDTH = 8, HEADS = 2, DIM = 4, TOKENS = 6 };

static const bo_model_desc tiny = {.layers = 1,
                                   .width = WIDTH,
                                   .block.heads = HEADS,
                                   .context = TOKENS,
                                   .vocab = 256,
                                   .block.mlp = BO_MLP_NONE,
                                   .block.query_norm = BO_CHOICE_NO,
                                   .seed = 1};

static void test_normalize(void **state)
{
    (void)state;
    const float x[4] = {3, 4, 0, 0};
    double out[4];
    lab_normalize(2, 2, 1e-6, x, out);
    assert_close(out[0], 3 / sqrt(12.5), 1e-6); /* the mean square is (9 + 16) / 2 */
    assert_close(out[1], 4 / sqrt(12.5), 1e-6);
    assert_close(out[2], 0, 0);
}

/* Known projections: q and k of the head are zero except for one entry each. */
static void test_attention(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model *model;
    lab_head head;
    float q[WIDTH * WIDTH] = {0};
    double x[TOKENS * WIDTH], weights[TOKENS * TOKENS], qk[WIDTH * WIDTH];
    bo_model_desc desc = tiny;
    desc.block.positions = BO_POSITIONS_NONE;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    q[DIM * WIDTH + 2] = 4; /* the first entry of head 1, column 2 */
    assert_ok(context, bo_weights_set(context, bo_model_weights(model), "model.layers.0.self_attn.q_proj.weight", q));
    assert_ok(context, bo_weights_set(context, bo_model_weights(model), "model.layers.0.self_attn.k_proj.weight", q));
    assert_ok(context, lab_head_read(context, model, 0, 1, &head));
    assert_int_equal(head.dim, DIM);
    assert_close(head.scale, 0.5, 0); /* 1/√4 */
    assert_close(head.rope_base, 0, 0);
    assert_ok(context, lab_head_qk(context, &head, qk));
    for (size_t i = 0; i < WIDTH * WIDTH; i++) assert_close(qk[i], i == 2 * WIDTH + 2 ? 16 : 0, 1e-12);
    for (size_t i = 0; i < TOKENS * WIDTH; i++) x[i] = i % WIDTH == 2 ? 0.1 * (double)(i / WIDTH) : 1;
    assert_ok(context, lab_head_attention(context, &head, TOKENS, x, weights));
    /* Scores of row i are ½ · 16 · 0.1 i · 0.1 j. */
    for (size_t i = 0; i < TOKENS; i++) {
        double sum = 0;
        for (size_t j = 0; j <= i; j++) sum += exp(0.08 * (double)(i * j));
        for (size_t j = 0; j < TOKENS; j++)
            assert_close(weights[i * TOKENS + j], j <= i ? exp(0.08 * (double)(i * j)) / sum : 0, 1e-12);
    }
    lab_head_free(&head);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* With rotary positions, identical tokens differ only by their distance. */
static void test_turned(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model *model;
    lab_head head;
    double x[TOKENS * WIDTH], weights[TOKENS * TOKENS];
    assert_ok(context, bo_model_create(context, &tiny, NULL, &model));
    assert_ok(context, lab_head_read(context, model, 0, 0, &head));
    for (size_t i = 0; i < TOKENS * WIDTH; i++) x[i] = (double)(i % WIDTH) - 3;
    assert_ok(context, lab_head_attention(context, &head, TOKENS, x, weights));
    for (size_t i = 2; i < TOKENS; i++) /* a_i,i / a_i,i-1 is the same everywhere */
        assert_close(weights[i * TOKENS + i] / weights[i * TOKENS + i - 1], weights[TOKENS + 1] / weights[TOKENS],
                     1e-9);
    assert_true(fabs(weights[TOKENS + 1] / weights[TOKENS] - 1) > 1e-6);
    lab_head_free(&head);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bo_status check_heads(lab_run *run, const bo_model *model)
{
    const int32_t ids[TOKENS] = {1, 2, 3, 1, 2, 3};
    float stream[3 * TOKENS * WIDTH];
    double x[TOKENS * WIDTH], weights[TOKENS * TOKENS];
    lab_head head;
    BO_TRY(lab_stream(run, model, ids, stream));
    lab_normalize(TOKENS, WIDTH, 1e-6, stream, x);
    BO_TRY(lab_head_read(lab_context(run), model, 0, 0, &head));
    const bo_status status = lab_head_attention(lab_context(run), &head, TOKENS, x, weights);
    lab_head_free(&head);
    return status;
}

static bo_status measure(lab_run *run)
{
    bo_model *model;
    lab_claim(run, "mean", 0);
    lab_claim(run, "each", 0);
    BO_TRY(bo_model_create(lab_context(run), &tiny, NULL, &model));
    const bo_status status = check_heads(run, model);
    bo_model_destroy(model);
    return status;
}

typedef struct setting {
    counting counted;
    bo_context *context;
} setting;

static bo_status work(void *what)
{
    lab_experiment experiment = sample_experiment(measure);
    experiment.about.timed = true; /* on this thread */
    bo_lab_result *result;
    BO_TRY(lab_run_seeds(((setting *)what)->context, &experiment, &(bo_lab_options){.seeds = 1}, &result));
    bo_lab_result_destroy(result);
    return BO_OK;
}

static void test_memory(void **state)
{
    setting s = {0};
    (void)state;
    s.context = counting_context(&s.counted, 1);
    counting_inject(&(injection){&s.counted, s.context, work, &s, 60, 5, "the sequences of a call"});
    bo_context_destroy(s.context);
    assert_int_equal(s.counted.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_normalize), cmocka_unit_test(test_attention),
                                       cmocka_unit_test(test_turned), cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
