/* Language models in experiments: text, training and evaluation, compared with independent computations. */
#include "sample.h"
#include "base/counting.h"
#include "lab/features/dark_variance.h"
#include "lab/tools/reading.h"
#include <unistd.h>

enum { CONTEXT = 32, WINDOWS = 4, SCORED = 512 };

/* Results of a measurement, asserted by the test because seeds run on other threads. */
static struct {
    double windows, single;        /* accuracies, by windows and token by token */
    double read, scored;           /* losses of the same windows, by logits and by the session */
    double before, after, swapped; /* losses over the whole text */
    double again;                  /* the loss of a second identical training */
    bool diverged;
    size_t watched;
    double first, last; /* training losses */
} results;

static const bo_model_desc tiny = {.layers = 1, .width = 16, .block.heads = 2, .context = CONTEXT};

static bo_status measure_with(lab_run *run, bo_status (*measure)(lab_run *run, const lab_text *text))
{
    lab_text text;
    lab_claim(run, "mean", 0);
    lab_claim(run, "each", 0);
    BO_TRY(lab_text_open(run, 1 << 16, &text));
    const bo_status status = measure(run, &text);
    lab_text_close(&text);
    return status;
}

static void run_sample(bo_context *context, bo_status (*measure)(lab_run *run))
{
    static lab_experiment experiment;
    bo_lab_result *result;
    experiment = sample_experiment(measure);
    assert_ok(context, lab_run_seeds(context, &experiment, &(bo_lab_options){.seeds = 1}, &result));
    bo_lab_result_destroy(result);
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

static size_t first_of(const float *logits, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Token by token through a session. */
static bo_status single_accuracy(lab_run *run, const bo_model *model, const lab_text *text, double *out)
{
    bo_session *session;
    int32_t ids[CONTEXT];
    float logits[256];
    size_t hits = 0, guessed = 0;
    BO_TRY(bo_session_create(lab_context(run), model, NULL, &session));
    bo_status status = BO_OK;
    for (size_t at = 0; status == BO_OK && at < SCORED; at += CONTEXT) {
        status = bo_session_reset(lab_context(run), session);
        if (status == BO_OK) status = bo_corpus_read(lab_context(run), text->valid, at, CONTEXT, ids);
        for (size_t i = 0; status == BO_OK && i + 1 < CONTEXT; i++, guessed++) {
            status = bo_session_feed(lab_context(run), session, ids + i, 1, logits);
            hits += first_of(logits, 256) == (size_t)ids[i + 1];
        }
    }
    bo_session_destroy(session);
    *out = (double)hits / (double)guessed;
    return status;
}

static bo_status read_loss(lab_run *run, const bo_model *model, const lab_text *text, double *out)
{
    static float logits[WINDOWS * CONTEXT * 256];
    int32_t ids[WINDOWS * CONTEXT];
    lab_reader reader;
    BO_TRY(lab_reader_open(run, model, &(lab_reading){.windows = WINDOWS, .logits = true}, &reader));
    bo_status status = lab_reader_held_out(run, &reader, text, 0, ids);
    if (status == BO_OK) status = lab_reader_read(run, &reader, ids, 0);
    if (status == BO_OK) status = lab_reader_logits(run, &reader, logits);
    if (status == BO_OK) *out = lab_reader_loss(&reader, logits, ids);
    lab_reader_close(&reader);
    return status;
}

static bo_status scored_loss(lab_run *run, const bo_model *model, const lab_text *text, double *out)
{
    bo_session *session;
    int32_t ids[CONTEXT];
    float losses[CONTEXT];
    double sum = 0;
    BO_TRY(bo_session_create(lab_context(run), model, NULL, &session));
    bo_status status = BO_OK;
    for (size_t w = 0; status == BO_OK && w < WINDOWS; w++) {
        status = bo_session_reset(lab_context(run), session);
        if (status == BO_OK) status = bo_corpus_read(lab_context(run), text->valid, w * CONTEXT, CONTEXT, ids);
        if (status == BO_OK)
            status = bo_session_read(
                lab_context(run), session,
                &(bo_session_reading){.ids = ids, .count = CONTEXT - 1, .losses = losses, .targets = ids + 1});
        for (size_t i = 0; status == BO_OK && i + 1 < CONTEXT; i++) sum += (double)losses[i];
    }
    bo_session_destroy(session);
    *out = sum / (WINDOWS * (CONTEXT - 1));
    return status;
}

static bo_status examine(lab_run *run, const bo_model *model, const lab_text *text)
{
    bo_model *other;
    BO_TRY(lab_accuracy(run, model, text, SCORED, &results.windows));
    BO_TRY(single_accuracy(run, model, text, &results.single));
    BO_TRY(read_loss(run, model, text, &results.read));
    BO_TRY(scored_loss(run, model, text, &results.scored));
    BO_TRY(lab_loss(run, model, text, SCORED, &results.after));
    BO_TRY(lab_swap(run, &tiny, model, &other));
    const bo_status status = lab_loss(run, other, text, SCORED, &results.swapped);
    bo_model_destroy(other);
    return status;
}

static bo_status learn(lab_run *run, const lab_text *text)
{
    bo_model *model;
    lab_trained trained;
    BO_TRY(lab_train_new(run, &tiny, text, &(lab_training){.steps = 300, .batch = 8, .eval_tokens = SCORED}, &model,
                         &trained));
    results.before = trained.loss;
    const bo_status status = examine(run, model, text);
    bo_model_destroy(model);
    return status;
}

static bo_status measure_learning(lab_run *run)
{
    return measure_with(run, learn);
}

/* The hits of 496 predictions agree, except where two logits are nearly equal. */
static void test_learning(void **state)
{
    bo_context *context = test_context(1);
    (void)state;
    run_sample(context, measure_learning);
    assert_close(results.windows, results.single, 2.0 / 496);
    assert_true(results.windows > 0.25); /* spaces alone are every sixth byte */
    assert_close(results.read, results.scored, 1e-4);
    assert_close(results.before, results.after, 1e-12);
    assert_close(results.swapped, results.after, 1e-12);
    assert_true(results.after < 4);
    bo_context_destroy(context);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static void watch(void *user, uint64_t step, double loss)
{
    (void)user;
    if (step == 0) results.first = loss;
    results.last = loss;
    results.watched++;
}

static bo_status train_twice(lab_run *run, const lab_text *text)
{
    lab_training training = {.steps = 20, .batch = 2, .eval_tokens = SCORED, .watch = watch};
    lab_trained trained;
    bo_model *model;
    BO_TRY(lab_train_new(run, &tiny, text, &training, &model, &trained));
    bo_model_destroy(model);
    results.before = trained.loss;
    BO_TRY(lab_train_new(run, &tiny, text, &training, &model, &trained));
    bo_model_destroy(model);
    results.again = trained.loss;
    training.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_SGD, .rate = 1e30, .clip = -1};
    BO_TRY(lab_train_new(run, &tiny, text, &training, &model, &trained));
    bo_model_destroy(model);
    results.diverged = trained.diverged && trained.loss == (double)INFINITY;
    return BO_OK;
}

static bo_status measure_training(lab_run *run)
{
    return measure_with(run, train_twice);
}

static void test_training(void **state)
{
    bo_context *context = test_context(1);
    (void)state;
    results.watched = 0;
    run_sample(context, measure_training);
    assert_true(results.watched >= 40); /* includes those of the diverged run */
    assert_true(results.before == results.again);
    assert_true(results.diverged);
    bo_context_destroy(context);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void test_synthetic_text(void **state)
{
    enum { BYTES = 20000 };
    static char one[BYTES + 1], same[BYTES], other[BYTES];
    size_t ends = 0;
    (void)state;
    lab_synthetic_text(1, BYTES, one);
    lab_synthetic_text(1, BYTES, same);
    lab_synthetic_text(2, BYTES, other);
    assert_memory_equal(one, same, BYTES);
    assert_memory_not_equal(one, other, BYTES);
    for (size_t i = 0; i < BYTES; i++) {
        assert_true((one[i] >= ' ' && one[i] <= 'z') || one[i] == '\n');
        ends += one[i] == '.';
    }
    assert_true(ends > BYTES / 100); /* sentences of about thirty bytes */
    assert_non_null(strstr(one, " the "));
}

static void test_short_text(void **state)
{
    static lab_experiment experiment;
    char path[] = "/tmp/bochner-lab-XXXXXX";
    const int file = mkstemp(path);
    bo_context *context = test_context(1);
    bo_lab_result *result = NULL;
    (void)state;
    assert_true(file >= 0);
    close(file);
    experiment = sample_experiment(measure_learning);
    assert_fails(context, BO_INVALID, "bytes of text",
                 lab_run_seeds(context, &experiment, &(bo_lab_options){.seeds = 1, .text = path}, &result));
    assert_null(result);
    remove(path);
    bo_context_destroy(context);
}

/* ---- out of memory ----------------------------------------------------------------------------------------------- */

typedef struct setting {
    counting counted;
    bo_context *context;
} setting;

static bo_status train_little(lab_run *run, const lab_text *text)
{
    bo_model *model;
    lab_trained trained;
    double accuracy;
    BO_TRY(
        lab_train_new(run, &tiny, text, &(lab_training){.steps = 1, .batch = 1, .eval_tokens = 64}, &model, &trained));
    const bo_status status = lab_accuracy(run, model, text, CONTEXT, &accuracy);
    bo_model_destroy(model);
    return status;
}

static bo_status measure_little(lab_run *run)
{
    return measure_with(run, train_little);
}

static bo_status work(void *what)
{
    static lab_experiment experiment;
    setting *s = what;
    bo_lab_result *result = NULL;
    experiment = sample_experiment(measure_little);
    experiment.about.timed = true; /* on this thread */
    const bo_status status = lab_run_seeds(s->context, &experiment, &(bo_lab_options){.seeds = 1}, &result);
    bo_lab_result_destroy(result);
    return status;
}

static void test_memory(void **state)
{
    setting s = {0};
    (void)state;
    s.context = counting_context(&s.counted, 1);
    counting_inject(&(injection){&s.counted, s.context, work, &s, 40, 7, "the sequences of a call"});
    bo_context_destroy(s.context);
    assert_int_equal(s.counted.live, 0);
}

/* ---- closed forms ------------------------------------------------------------------------------------------------ */

/* E[estimate²] over w ~ N(0, v) by the trapezoidal rule: the mean over q and k for a given w is A(w)², A = E exp(2wq -
 * q²) = exp(2w²λ / (1 + 2λ)) / √(1 + 2λ), and the weight is (N(0, 1) / N(0, v))². */
static double by_quadrature(double lambda, double v)
{
    const double step = 1e-3, reach = 60;
    double sum = 0;
    for (double w = -reach; w <= reach; w += step) {
        const double log_square = 4 * w * w * lambda / (1 + 2 * lambda) - log(1 + 2 * lambda);
        const double log_weight = -w * w / 2 + w * w / (2 * v) + 0.5 * log(v); /* of the ratio of densities */
        const double log_density = -w * w / (2 * v) - 0.5 * log(6.283185307179586 * v);
        sum += exp(log_square + 2 * log_weight + log_density) * step;
    }
    return sum;
}

static void test_closed_forms(void **state)
{
    static const double lambdas[] = {0.01, 0.05, 0.1, 0.15};
    (void)state;
    for (size_t i = 0; i < LAB_COUNT_OF(lambdas); i++) {
        const double l = lambdas[i], best = (1 + 2 * l) / (1 - 2 * l);
        assert_close(lab_dark_log_isotropic(1, &l), log(by_quadrature(l, 1)), 1e-9);
        assert_close(lab_dark_log_optimal(1, &l), log(by_quadrature(l, best)), 1e-9);
        assert_true(by_quadrature(l, 1.2 * best) > by_quadrature(l, best));
        assert_true(by_quadrature(l, best / 1.2) > by_quadrature(l, best));
    }
    assert_true(isfinite(lab_dark_log_isotropic(2, (double[]){0.1, 0.166})));
    assert_true(isinf(lab_dark_log_isotropic(2, (double[]){0.1, 0.167})));
    assert_true(isfinite(lab_dark_log_optimal(1, (double[]){0.499})));
    assert_true(isinf(lab_dark_log_optimal(1, (double[]){0.5})));
    /* E exp(2qk) over q, k ~ N(0, λ) is E exp(2λ q²). */
    assert_close(lab_dark_log_kernel(1, (double[]){0.25}), -0.5 * log(1 - 4 * 0.0625), 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learning),   cmocka_unit_test(test_training),     cmocka_unit_test(test_synthetic_text),
        cmocka_unit_test(test_short_text), cmocka_unit_test(test_closed_forms), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
