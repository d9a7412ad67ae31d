/* Training on labeled texts and translations: models of each task learn, for any micro-batch; runs resume to the same
 * bits; mismatches are refused. */
#include "lines.h"

/* ---- learning ---------------------------------------------------------------------------------------------------- */

static bo_training_score train(runs *r, bo_model_task task, const char *kind, uint64_t steps)
{
    lines l = make_lines(r, task);
    bo_model *model = make_model(r, task, kind, &l);
    bo_trainer_desc desc = describe(r, model, &l, NULL);
    bo_trainer *trainer;
    bo_training_score score;
    desc.steps = steps;
    desc.eval_every = steps;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    assert_ok(r->context, bo_trainer_evaluate(r->context, trainer, &score));
    const bo_training_report *report = bo_trainer_report(trainer);
    assert_int_equal(report->step, steps);
    /* Tokens count those of texts: a pack of 64 is mostly full, in one stream or (translations) in two. */
    assert_true(report->tokens > steps * 4 * 32 && report->tokens <= steps * 4 * 64 * 2);
    assert_true(report->valid_loss == score.loss && report->valid_metric == score.metric);
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
    close_lines(&l);
    return score;
}

/* The probability of 90% correct predictions by chance for 48 examples is (48 choose 44) / 2^48 … < 1e-9. */
static void labels_are_learned(void **state)
{
    static const char *const kinds[] = {"softmax", "rfa-gate", "ridge", "ssm"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const bo_training_score score = train(*state, BO_MODEL_TASK_CLASSIFY, kinds[i], 100);
        assert_string_equal(score.name, "accuracy");
        assert_int_equal(score.count, EXAMPLES / 5);
        if (!(score.metric > 0.9)) fail_msg("%s: accuracy %g, loss %g", kinds[i], score.metric, score.loss);
    }
}

static void matches_are_learned(void **state)
{
    const bo_training_score score = train(*state, BO_MODEL_TASK_MATCH, "softmax", 80);
    if (!(score.metric > 0.9)) fail_msg("accuracy %g, loss %g", score.metric, score.loss);
}

/* With 4 characters and the end token, a perplexity below 1.6 means that most are read from the source: a model of the
 * lengths only has about 4. With ridge attention the same steps reach a higher perplexity. */
static void translations_are_learned(void **state)
{
    static const struct {
        const char *kind;
        double limit;
    } cases[] = {{"rfa", 1.6}, {"ridge", 2.5}, {"gru", 1.6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bo_training_score score = train(*state, BO_MODEL_TASK_TRANSLATE, cases[i].kind, 200);
        assert_string_equal(score.name, "perplexity");
        if (!(score.metric < cases[i].limit)) fail_msg("%s: perplexity %g", cases[i].kind, score.metric);
    }
}

/* ---- equivalent ways to compute a step --------------------------------------------------------------------------- */

/* The loss is the mean over all examples of a step: packs have different numbers of them, and parts of any size still
 * add up. */
static void parts_add_up(void **state)
{
    runs *r = *state;
    for (bo_model_task task = BO_MODEL_TASK_CLASSIFY; task <= BO_MODEL_TASK_TRANSLATE; task++) {
        double losses[2][3];
        lines l = make_lines(r, task);
        for (int way = 0; way < 2; way++) {
            bo_model *model = make_model(r, task, "softmax", &l);
            bo_trainer_desc desc = describe(r, model, &l, NULL);
            bo_trainer *trainer;
            desc.micro_batch = way ? 1 : 4;
            desc.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_SGD, .clip = -1};
            assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
            for (int i = 0; i < 3; i++) assert_ok(r->context, bo_trainer_step(r->context, trainer, &losses[way][i]));
            bo_trainer_destroy(trainer);
            bo_model_destroy(model);
        }
        for (int i = 0; i < 3; i++)
            assert_close(losses[1][i], losses[0][i], 2e-5); /* several hundred rounding errors of 6e-8 · 5.5 */
        close_lines(&l);
    }
}

/* Twelve steps in one process, or stopped after the fifth and resumed, with one thread and with two. */
static bool stop_at_five(void *user, const bo_training_report *report)
{
    (void)user;
    return report->step < 5;
}

static bo_model *run_parted(runs *r, bo_model_task task, const lines *l, const char *kind, const char *name,
                            bool parted, int threads)
{
    bo_context *context = test_context(threads);
    bo_model *model = NULL;
    for (int part = 0; part < (parted ? 2 : 1); part++) {
        bo_trainer *trainer;
        bo_model_destroy(model);
        model = make_model(r, task, kind, l);
        bo_trainer_desc desc = describe(r, model, l, parted ? name : NULL);
        desc.resume = part == 1;
        desc.eval_every = 5;
        desc.smoothing = 0.1;
        desc.calibrate_every = 3;
        desc.redraw_every = strcmp(kind, "softmax") == 0 ? 0 : 2;
        if (parted && part == 0) desc.report = stop_at_five;
        assert_ok(context, bo_trainer_create(context, &desc, &trainer));
        const bo_status status = bo_trainer_run(context, trainer);
        assert_int_equal(status, parted && part == 0 ? BO_CANCELED : BO_OK);
        bo_trainer_destroy(trainer);
    }
    bo_context_destroy(context);
    return model;
}

static void resumed_runs_and_threads_give_the_same_bits(void **state)
{
    runs *r = *state;
    static const char *const kinds[] = {"", "rfa-gate", "softmax", "favor++"};
    for (bo_model_task task = BO_MODEL_TASK_CLASSIFY; task <= BO_MODEL_TASK_TRANSLATE; task++) {
        char name[16];
        snprintf(name, sizeof name, "run-%d", (int)task);
        lines l = make_lines(r, task);
        bo_model *whole = run_parted(r, task, &l, kinds[task], name, false, 1);
        bo_model *parted = run_parted(r, task, &l, kinds[task], name, true, 2);
        assert_true(runs_same_weights(whole, parted));
        assert_true(bo_model_fingerprint(whole) == bo_model_fingerprint(parted)); /* it includes the frequencies */
        bo_model_destroy(whole);
        bo_model_destroy(parted);
        close_lines(&l);
    }
}

/* ---- mismatches -------------------------------------------------------------------------------------------------- */

static void mismatched_arguments_are_refused(void **state)
{
    runs *r = *state;
    lines l = make_lines(r, BO_MODEL_TASK_CLASSIFY), pairs = make_lines(r, BO_MODEL_TASK_TRANSLATE);
    bo_model *model = make_model(r, BO_MODEL_TASK_CLASSIFY, "softmax", &l), *language = runs_model(r, "softmax");
    bo_trainer_desc desc = describe(r, model, &l, NULL);
    bo_trainer *trainer;
    desc.train.texts = pairs.train;
    assert_fails(r->context, BO_INVALID, "classify", bo_trainer_create(r->context, &desc, &trainer));
    desc.train.texts = l.train;
    desc.pack = 8;
    assert_fails(r->context, BO_INVALID, "pack: expected at least", bo_trainer_create(r->context, &desc, &trainer));
    desc.pack = 0;
    desc.smoothing = 1;
    assert_fails(r->context, BO_INVALID, "smoothing", bo_trainer_create(r->context, &desc, &trainer));
    desc.smoothing = 0;
    desc.model = language;
    assert_fails(r->context, BO_INVALID, "corpus", bo_trainer_create(r->context, &desc, &trainer));
    desc.model = model;
    desc.train.texts = desc.valid.texts = NULL;
    desc.train.corpus = r->text;
    assert_fails(r->context, BO_INVALID, "labels", bo_trainer_create(r->context, &desc, &trainer));
    bo_model_destroy(model);
    bo_model_destroy(language);
    close_lines(&l);
    close_lines(&pairs);
}

/* A class that the model does not have, and a text longer than its position table: file and line are named. */
static void other_texts_are_refused(void **state)
{
    runs *r = *state;
    lines l = make_lines(r, BO_MODEL_TASK_CLASSIFY);
    bo_model_desc learned = model_desc(BO_MODEL_TASK_CLASSIFY, "softmax", &l);
    learned.block.positions = BO_POSITIONS_LEARNED;
    bo_model *model = runs_model_of(r, &learned);
    bo_trainer_desc desc = describe(r, model, &l, NULL);
    bo_trainer *trainer;
    const char *path = runs_path(r, "other.tsv");
    FILE *file = fopen(path, "w");
    fputs("with\tabc\nnever\tabc\n", file);
    fclose(file);
    bo_texts *other = open_lines(r, BO_MODEL_TASK_CLASSIFY, path, 0, 0);
    desc.valid.texts = other;
    assert_fails(r->context, BO_INVALID, "label", bo_trainer_create(r->context, &desc, &trainer));
    bo_texts_close(other);
    file = fopen(path, "w");
    fputs("with\tabc\nwithout\tabcdefghijklmnopqrstuvwxyzabcdefghijklm\n", file);
    fclose(file);
    other = open_lines(r, BO_MODEL_TASK_CLASSIFY, path, 0, 0);
    desc.valid.texts = other;
    assert_fails(r->context, BO_INVALID, "other.tsv, line 2", bo_trainer_create(r->context, &desc, &trainer));
    bo_texts_close(other);
    bo_model_destroy(model);
    close_lines(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(labels_are_learned, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(matches_are_learned, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(translations_are_learned, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(parts_add_up, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(resumed_runs_and_threads_give_the_same_bits, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(mismatched_arguments_are_refused, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(other_texts_are_refused, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
