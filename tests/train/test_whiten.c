/* Whitening before the first step: M of DARK, and of HYBRID with a rank, from the queries and keys of the training
 * text; once, also if gradients are computed several times; the same bits after a stop. */
#include "lines.h"
#include "model/capture.h"
#include "model/whiten.h"
#include <bochner/lora.h>

enum { DIM = 8, TOKENS = 4096 };

/* A model in which queries and keys of the second layer depend on M of the first. */
static void shake(bo_weights *weights)
{
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        bo_rng rng = bo_rng_make(4, i);
        float *values = weight->data;
        for (size_t j = 0; weight->role == BO_WEIGHT_ROLE_MATRIX && j < weight->rows * weight->columns; j++)
            values[j] += (float)(0.3 * bo_rng_normal(&rng));
    }
}

static bo_model *make_dark(runs *r, const char *kind)
{
    bo_model_desc desc = runs_desc(kind);
    desc.block.attention.rank = DIM; /* without it, hybrid has no M */
    bo_model *model = runs_model_of(r, &desc);
    shake(model->weights);
    return model;
}

/* Softmax attention becomes DARK, with adapters of the other weights. */
static bo_model *make_adapted(runs *r, const char *whole)
{
    bo_model *original = runs_model(r, "softmax"), *model;
    bo_replacement_desc replacement = {.kept_layers = "", .seed = 5};
    char *all = NULL;
    shake(original->weights);
    bo_attention_preset("dark", &replacement.attention);
    replacement.attention.features.features = 16;
    assert_ok(r->context, bo_model_replace_attention(r->context, original, &replacement, &model));
    assert_ok(r->context, bo_model_new_parameters(r->context, model, &all));
    assert_string_equal(all, "m");
    const bo_lora_desc lora = {.rank = 2, .whole = whole ? whole : all};
    assert_ok(r->context, bo_model_adapt(r->context, model, &lora));
    bo_model_destroy(original);
    bo_free(all);
    return model;
}

static bo_trainer_desc trainer_of(runs *r, bo_model *model, const char *name)
{
    bo_trainer_desc desc = runs_trainer(r, model, name);
    desc.whiten = true;
    return desc;
}

static const float *matrix(const bo_model *model, size_t layer)
{
    char name[64];
    snprintf(name, sizeof name, "model.layers.%zu.self_attn.m", layer);
    return bo_weights_find(model->weights, name)->data;
}

/* ---- the values of M --------------------------------------------------------------------------------------------- */

/* Adds half the covariance of the columns of one head. */
static void add_covariance(const float *x, size_t rows, size_t width, size_t head, double out[DIM][DIM])
{
    double mean[DIM] = {0};
    const float *at = x + head * DIM;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < DIM; i++) mean[i] += (double)at[r * width + i] / (double)rows;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < DIM; i++)
            for (size_t j = 0; j < DIM; j++)
                out[i][j] +=
                    ((double)at[r * width + i] - mean[i]) * ((double)at[r * width + j] - mean[j]) / (2 * (double)rows);
}

/* Λ of the documentation of bo_attention_whiten: 1% of it goes to the diagonal, which gets 1e-4 of its mean. */
static void shrink(double s[DIM][DIM])
{
    double trace = 0;
    for (size_t i = 0; i < DIM; i++) trace += s[i][i] / DIM;
    for (size_t i = 0; i < DIM; i++)
        for (size_t j = 0; j < DIM; j++) s[i][j] = i == j ? s[i][j] + 1e-4 * trace : 0.99 * s[i][j];
}

/* M Λ Mᵀ is a multiple of the identity. M is float32, and Λ has a condition number below 1e4: 1e-3 of the diagonal
 * leaves a margin; M = I differs by about 1. Returns the largest difference. */
static double anisotropy(const float *m, double s[DIM][DIM])
{
    double product[DIM][DIM] = {{0}}, trace = 0, worst = 0;
    for (size_t i = 0; i < DIM; i++)
        for (size_t j = 0; j < DIM; j++)
            for (size_t k = 0; k < DIM; k++)
                for (size_t l = 0; l < DIM; l++)
                    product[i][j] += (double)m[i * DIM + k] * s[k][l] * (double)m[j * DIM + l];
    for (size_t i = 0; i < DIM; i++) trace += product[i][i] / DIM;
    for (size_t i = 0; i < DIM; i++)
        for (size_t j = 0; j < DIM; j++) worst = fmax(worst, fabs(product[i][j] / trace - (i == j)));
    return worst;
}

/* 256 windows of 16 tokens, evenly spread over the text. */
static bo_capture *run_text(runs *r, const bo_model *model)
{
    const size_t window = model->desc.context, sequences = TOKENS / window;
    const uint64_t windows = bo_corpus_tokens(r->text) / window;
    const bo_capture_desc desc = {.tokens = window, .sequences = sequences, .parts = BO_CAPTURE_PART_ATTENTION};
    bo_capture *capture;
    int32_t ids[TOKENS];
    assert_true(windows > 4 * sequences);
    for (size_t i = 0; i < sequences; i++)
        assert_ok(r->context,
                  bo_corpus_read(r->context, r->text, windows * i / sequences * window, window, ids + i * window));
    assert_ok(r->context, bo_capture_create(r->context, model, &desc, &capture));
    assert_ok(r->context, bo_capture_run(r->context, capture, ids));
    return capture;
}

/* Compares M of a model with the queries and keys of `before` on the same tokens. */
static void check_queries(runs *r, const bo_model *model, const bo_model *before)
{
    const bo_model_desc *d = &model->desc;
    const size_t width = d->block.heads * DIM;
    bo_capture *capture = run_text(r, before);
    const size_t rows = bo_capture_rows(capture);
    float *q = malloc(rows * width * sizeof *q), *k = malloc(rows * width * sizeof *k);
    for (size_t l = 0; l < d->layers; l++) {
        assert_ok(r->context, bo_capture_read(r->context, capture, l, BO_CAPTURE_ARRAY_Q, q));
        assert_ok(r->context, bo_capture_read(r->context, capture, l, BO_CAPTURE_ARRAY_K, k));
        for (size_t h = 0; h < d->block.heads; h++) {
            double s[DIM][DIM] = {{0}};
            add_covariance(q, rows, width, h, s);
            add_covariance(k, rows, width, h, s);
            shrink(s);
            const double found = anisotropy(matrix(model, l) + h * DIM * DIM, s),
                         start = anisotropy(matrix(before, l) + h * DIM * DIM, s);
            assert_true(start > 0.1);
            if (!(found < 1e-3)) fail_msg("layer %zu head %zu: %g", l, h, found);
        }
    }
    free(q);
    free(k);
    bo_capture_destroy(capture);
}

/* One step that leaves M as it is. */
static void take_step(runs *r, bo_model *model)
{
    bo_trainer_desc desc = trainer_of(r, model, NULL);
    bo_trainer *trainer;
    desc.freeze = "*.self_attn.m";
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_step(r->context, trainer, NULL));
    bo_trainer_destroy(trainer);
}

static void m_whitens_queries_and_keys(void **state)
{
    runs *r = *state;
    static const char *const kinds[] = {"dark", "hybrid"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bo_model *model = make_dark(r, kinds[i]), *before = make_dark(r, kinds[i]);
        take_step(r, model);
        check_queries(r, model, before);
        bo_model_destroy(model);
        bo_model_destroy(before);
    }
    bo_model *model = make_adapted(r, NULL), *before = make_adapted(r, NULL);
    take_step(r, model);
    check_queries(r, model, before);
    bo_model_destroy(model);
    bo_model_destroy(before);
}

/* A time limit computes the gradients of the first step twice. */
static void once(void **state)
{
    runs *r = *state;
    bo_model *model = make_dark(r, "dark"), *before = make_dark(r, "dark");
    bo_trainer_desc desc = trainer_of(r, model, NULL);
    bo_trainer *trainer;
    desc.freeze = "*.self_attn.m";
    desc.steps = 0;
    desc.minutes = 0.002;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    bo_trainer_destroy(trainer);
    check_queries(r, model, before);
    bo_model_destroy(model);
    bo_model_destroy(before);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static bool stop_after_six(void *user, const bo_training_report *report)
{
    (void)user;
    return report->step < 6;
}

static void run(runs *r, const bo_trainer_desc *desc, bo_status expected)
{
    bo_trainer *trainer;
    assert_ok(r->context, bo_trainer_create(r->context, desc, &trainer));
    assert_int_equal(bo_trainer_run(r->context, trainer), expected);
    bo_trainer_destroy(trainer);
}

static void resumed_runs_have_the_same_bits(void **state)
{
    runs *r = *state;
    bo_model *whole = make_dark(r, "dark"), *parted = make_dark(r, "dark"), *plain = make_dark(r, "dark");
    bo_trainer *trainer;
    bo_trainer_desc desc = trainer_of(r, whole, "whole");
    run(r, &desc, BO_OK);
    desc = trainer_of(r, plain, NULL);
    desc.whiten = false;
    run(r, &desc, BO_OK);
    assert_false(runs_same_weights(whole, plain));
    desc = trainer_of(r, parted, "parted");
    desc.report = stop_after_six;
    run(r, &desc, BO_CANCELED);
    bo_model_destroy(parted);
    parted = make_dark(r, "dark");
    desc = trainer_of(r, parted, "parted");
    desc.resume = true;
    desc.whiten = false;
    assert_fails(r->context, BO_INVALID, "different whiten", bo_trainer_create(r->context, &desc, &trainer));
    desc.whiten = true;
    run(r, &desc, BO_OK);
    assert_true(runs_same_weights(whole, parted));
    bo_model_destroy(whole);
    bo_model_destroy(parted);
    bo_model_destroy(plain);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refuse(runs *r, bo_model *model, const char *message)
{
    bo_trainer *trainer;
    bo_trainer_desc desc = trainer_of(r, model, NULL);
    assert_fails(r->context, BO_INVALID, message, bo_trainer_create(r->context, &desc, &trainer));
    bo_model_destroy(model);
}

static void models_without_a_free_m_are_refused(void **state)
{
    runs *r = *state;
    static const char *const kinds[] = {"softmax", "rfa", "favor", "hybrid", "gru"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        refuse(r, runs_model(r, kinds[i]), "no layer of the model has a matrix M");
    bo_model_desc drawn = runs_desc("dark");
    drawn.block.attention.proposal = BO_PROPOSAL_OPRF;
    refuse(r, runs_model_of(r, &drawn), "drawn from data");
    refuse(r, make_adapted(r, ""), "the adapters freeze model.layers.0.self_attn.m");
    lines l = make_lines(r, BO_MODEL_TASK_CLASSIFY);
    bo_model *model = make_model(r, BO_MODEL_TASK_CLASSIFY, "dark", &l);
    bo_trainer *trainer;
    bo_trainer_desc desc = describe(r, model, &l, NULL);
    desc.whiten = true;
    assert_fails(r->context, BO_INVALID, "expected a language model", bo_trainer_create(r->context, &desc, &trainer));
    bo_model_destroy(model);
    close_lines(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(m_whitens_queries_and_keys, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(once, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(resumed_runs_have_the_same_bits, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(models_without_a_free_m_are_refused, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
