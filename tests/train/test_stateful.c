/* Stateful training: each sequence continues where it ended in the previous step. Losses equal those of a session that
 * reads the same text, several windows per step have the gradient of one long window, and interrupted runs have the
 * same bits. */
#include "text/batches.h"
#include "runs.h"
#include "model/session.h"
#include "train/states.h"

enum { CONTEXT = 16, LANES = 4 };

static bo_trainer_desc stateful(runs *r, bo_model *model, const char *name, size_t windows)
{
    bo_trainer_desc desc = runs_trainer(r, model, name);
    desc.stateful = true;
    desc.state_windows = windows;
    return desc;
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

/* Scores the window of a lane after its previous windows. Resets the session where the lane or a document starts. */
static double score(bo_context *context, const bo_batches_desc *batches, uint64_t step, size_t lane,
                    bo_session *session)
{
    int32_t ids[CONTEXT], targets[CONTEXT], positions[CONTEXT];
    float losses[CONTEXT];
    size_t lengths[2], parts = 2; /* the trainer's capacity with micro-batches of one sequence */
    double sum = 0;
    assert_ok(context, bo_batches_fill(context, batches, step, lane, 1, ids, targets, positions, lengths, &parts));
    if (bo_batches_begins(batches, step, lane)) assert_ok(context, bo_session_reset(context, session));
    for (size_t i = 0, at = 0; i < parts; at += lengths[i++]) {
        if (i) assert_ok(context, bo_session_reset(context, session));
        assert_ok(
            context,
            bo_session_read(context, session,
                            &(bo_session_reading){
                                .ids = ids + at, .count = lengths[i], .losses = losses + at, .targets = targets + at}));
    }
    for (size_t i = 0; i < CONTEXT; i++) sum += (double)losses[i];
    return sum / CONTEXT;
}

/* New models ignore their states: output projections are zero. */
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

/* Steps with a learning rate of almost 0, compared with one session per lane, into the second epoch. */
static void compare_losses(runs *r, const char *kind, bool documents)
{
    enum { STEPS = 24 };
    const char *path = runs_path(r, "text");
    const bo_corpus_desc part = {
        .paths = &path, .path_count = 1, .tokenizer = r->tokenizer, .separator = "\n", .take = 0.05};
    bo_corpus *text;
    bo_model *model = runs_model(r, kind);
    bo_session *sessions[LANES];
    bo_trainer *trainer;
    shake(model->weights);
    assert_ok(r->context, bo_corpus_open(r->context, &part, &text));
    bo_trainer_desc desc = stateful(r, model, NULL, 1);
    desc.train.corpus = text;
    desc.valid.corpus = NULL;
    desc.documents = documents;
    desc.micro_batch = documents ? 1 : 2;
    desc.steps = STEPS;
    desc.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_SGD, .rate = 1e-20};
    const bo_batches_desc batches = {
        .corpus = text, .context = CONTEXT, .batch = LANES, .lanes = LANES, .seed = desc.seed, .documents = documents};
    assert_in_range(bo_batches_per_epoch(&batches) / LANES, 3, STEPS - 3);
    for (size_t i = 0; i < LANES; i++) assert_ok(r->context, bo_session_create(r->context, model, NULL, &sessions[i]));
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    for (uint64_t step = 0; step < STEPS; step++) {
        double found, expected = 0;
        for (size_t i = 0; i < LANES; i++) expected += score(r->context, &batches, step, i, sessions[i]) / LANES;
        assert_ok(r->context, bo_trainer_step(r->context, trainer, &found));
        if (!(fabs(found - expected) < 1e-5 * expected))
            fail_msg("%s, step %d: loss %g, expected %g", kind, (int)step, found, expected);
    }
    bo_trainer_destroy(trainer);
    for (size_t i = 0; i < LANES; i++) bo_session_destroy(sessions[i]);
    bo_model_destroy(model);
    bo_corpus_close(text);
}

static void losses_match_sessions(void **state)
{
    static const char *const kinds[] = {"rfa", "rfa-gate",    "linear", "retention",
                                        "gla", "gated-delta", "hybrid", "lstm"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        compare_losses(*state, kinds[i], false);
        compare_losses(*state, kinds[i], true);
    }
}

/* Validation reads the text as one window. */
static void validation_carries_the_state(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate");
    bo_trainer_desc desc = stateful(r, model, NULL, 1);
    bo_trainer *trainer;
    bo_training_score found;
    bo_evaluation whole, windows;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    assert_ok(r->context, bo_trainer_evaluate(r->context, trainer, &found));
    assert_ok(r->context,
              bo_model_evaluate(r->context, model, r->held_out, desc.eval_tokens, desc.eval_tokens, &whole));
    assert_ok(r->context, bo_model_evaluate(r->context, model, r->held_out, 0, desc.eval_tokens, &windows));
    assert_true(found.loss == whole.loss && found.loss != windows.loss);
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Weights after a few steps on a text of three windows: an epoch is two windows of `context` tokens from a random
 * place, or one of twice as many. */
static bo_model *train_short(runs *r, const char *kind, size_t context, size_t windows)
{
    char text[3 * CONTEXT + 1];
    for (size_t i = 0; i < 3 * CONTEXT; i++) text[i] = (char)('a' + (i * i + i / 5) % 7);
    text[3 * CONTEXT] = 0;
    FILE *file = fopen(runs_path(r, "three"), "w");
    fputs(text, file);
    fclose(file);
    bo_corpus *corpus = runs_open(r, "three", 0, 0);
    bo_model_desc shape = runs_desc(kind);
    shape.context = context;
    bo_model *model = runs_model_of(r, &shape);
    bo_trainer_desc desc = runs_trainer(r, model, NULL);
    bo_trainer *trainer;
    desc.train.corpus = corpus;
    desc.valid.corpus = NULL;
    desc.batch = 1;
    desc.steps = 4;
    desc.stateful = windows > 0;
    desc.state_windows = windows;
    desc.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_SGD, .rate = 0.1, .clip = -1};
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    bo_trainer_destroy(trainer);
    bo_corpus_close(corpus);
    return model;
}

/* The largest difference of two weights. */
static double largest(const bo_model *a, const bo_model *b)
{
    const float *x = bo_weights_data(a->weights), *y = bo_weights_data(b->weights);
    double largest = 0;
    for (size_t i = 0; i < bo_weights_floats(a->weights); i++)
        largest = fmax(largest, fabs((double)x[i] - (double)y[i]));
    return largest;
}

static void two_windows_are_a_long_one(void **state)
{
    runs *r = *state;
    static const char *const kinds[] = {"rfa", "rfa-gate", "gla", "delta", "retention", "gru", "lstm"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bo_model *whole = train_short(r, kinds[i], 2 * CONTEXT, 0), *two = train_short(r, kinds[i], CONTEXT, 2),
                 *initial = runs_model(r, kinds[i]);
        const double error = largest(two, whole), moved = largest(whole, initial);
        if (!(error < 1e-4 * moved)) fail_msg("%s: moved by %g, error %g", kinds[i], moved, error);
        bo_model_destroy(whole);
        bo_model_destroy(two);
        bo_model_destroy(initial);
    }
}

/* The gradients that window 0 of a step gets from window 1, all of whose state gradients are 1. */
static float flow(runs *r, bo_train_states *states, const bo_batches_desc *batches, uint64_t step)
{
    bo_graph_pass first = {0}, second = {0};
    int32_t positions[CONTEXT] = {0};
    const bo_train_segment one = {.batches = batches, .step = 2 * step},
                           two = {.batches = batches, .step = 2 * step + 1, .window = 1};
    assert_ok(r->context, bo_train_states_load(r->context, states, &two, positions, &second));
    assert_true(second.state_gradients && !second.final_gradients);
    second.state_gradients[0][0] = 1;
    assert_ok(r->context, bo_train_states_load(r->context, states, &one, positions, &first));
    assert_true(first.final_gradients && !first.state_gradients);
    return first.final_gradients[0][0];
}

/* An epoch of three windows ends within the second step of two windows: no gradient crosses its end. */
static void no_gradient_crosses_the_end_of_an_epoch(void **state)
{
    runs *r = *state;
    char text[4 * CONTEXT + 1];
    memset(text, 'a', 4 * CONTEXT);
    text[4 * CONTEXT] = 0;
    const bo_corpus_desc memory = {.memory = text, .memory_bytes = 4 * CONTEXT, .tokenizer = r->tokenizer};
    bo_model *model = runs_model(r, "rfa");
    bo_corpus *corpus;
    bo_train_states *states;
    assert_ok(r->context, bo_corpus_open(r->context, &memory, &corpus));
    const bo_batches_desc batches = {.corpus = corpus, .context = CONTEXT, .batch = 1, .lanes = 1};
    const bo_train_states_desc desc = {.model = model, .lanes = 1, .share = 1, .windows = 2, .micro_batch = 1};
    assert_int_equal(bo_batches_per_epoch(&batches), 3);
    assert_ok(r->context, bo_train_states_create(r->context, &desc, &states));
    assert_ok(r->context, bo_train_states_open(r->context, states, &desc));
    assert_true(flow(r, states, &batches, 0) == 1);
    assert_true(flow(r, states, &batches, 1) == 0);
    assert_true(flow(r, states, &batches, 2) == 1);
    bo_train_states_destroy(states);
    bo_corpus_close(corpus);
    bo_model_destroy(model);
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

typedef struct setting {
    const char *kind;
    size_t windows, micro_batch;
    bool documents;
    uint64_t redraw_every;
} setting;

static bool stop_at_five(void *user, const bo_training_report *report)
{
    (void)user;
    return report->step < 5;
}

/* Twelve steps in one process, or stopped after the fifth and resumed. */
static bo_model *run(runs *r, const setting *s, const char *name, bool parted, int threads)
{
    bo_context *context = test_context(threads);
    bo_model *model = NULL;
    for (int part = 0; part < (parted ? 2 : 1); part++) {
        bo_trainer *trainer;
        bo_model_desc shape = runs_desc(s->kind);
        shape.dropout = 0.1;
        bo_model_destroy(model);
        model = runs_model_of(r, &shape);
        bo_trainer_desc desc = stateful(r, model, name, s->windows);
        desc.micro_batch = s->micro_batch;
        desc.documents = s->documents;
        desc.redraw_every = s->redraw_every;
        desc.resume = part == 1;
        if (parted && part == 0) desc.report = stop_at_five, desc.eval_every = 5;
        assert_ok(context, bo_trainer_create(context, &desc, &trainer));
        assert_int_equal(bo_trainer_run(context, trainer), parted && part == 0 ? BO_CANCELED : BO_OK);
        bo_trainer_destroy(trainer);
    }
    bo_context_destroy(context);
    return model;
}

static void resumed_runs_and_threads_give_the_same_bits(void **state)
{
    runs *r = *state;
    static const setting settings[] = {{.kind = "rfa-gate", .windows = 1, .micro_batch = 4},
                                       {.kind = "rfa", .windows = 3, .micro_batch = 2, .documents = true},
                                       {.kind = "favor", .windows = 2, .micro_batch = 2, .redraw_every = 4},
                                       {.kind = "lstm", .windows = 2, .micro_batch = 4},
                                       {.kind = "favor#", .windows = 1, .micro_batch = 2, .redraw_every = 3}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char name[16];
        snprintf(name, sizeof name, "run-%zu", i);
        bo_model *whole = run(r, &settings[i], NULL, false, 1), *parted = run(r, &settings[i], name, true, 2);
        assert_true(runs_same_weights(whole, parted));
        bo_model_destroy(whole);
        bo_model_destroy(parted);
    }
}

/* Without its states a checkpoint is damaged: the one before it is used, which has the frequencies of an earlier
 * draw. */
static void lost_states_are_noticed(void **state)
{
    runs *r = *state;
    const setting s = {.kind = "rfa", .windows = 1, .micro_batch = 4, .documents = true, .redraw_every = 5};
    bo_model *whole = run(r, &s, "whole", false, 2), *model = runs_model(r, "rfa");
    bo_trainer_desc desc = stateful(r, model, "whole", 1);
    bo_trainer *trainer;
    desc.resume = true;
    desc.micro_batch = s.micro_batch;
    desc.documents = s.documents;
    desc.redraw_every = s.redraw_every;
    assert_true(runs_exists(r, "whole/checkpoints/step-8/states.safetensors"));
    assert_int_equal(unlink(runs_path(r, "whole/checkpoints/step-12/states.safetensors")), 0);
    bo_model_desc shape = runs_desc("rfa");
    shape.dropout = 0.1;
    bo_model_destroy(model);
    desc.model = model = runs_model_of(r, &shape);
    desc.directory = runs_path(r, "whole");
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    assert_true(runs_exists(r, "whole/checkpoints/step-12.damaged"));
    assert_true(runs_same_weights(whole, model));
    bo_trainer_destroy(trainer);
    bo_model_destroy(whole);
    bo_model_destroy(model);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refuse(runs *r, bo_trainer_desc desc, const char *message)
{
    bo_trainer *trainer;
    assert_fails(r->context, BO_INVALID, message, bo_trainer_create(r->context, &desc, &trainer));
    bo_model_destroy(desc.model);
}

static void kinds_without_carried_states_are_refused(void **state)
{
    runs *r = *state;
    refuse(r, stateful(r, runs_model(r, "softmax"), NULL, 1), "keeps all keys");
    refuse(r, stateful(r, runs_model(r, "ssm"), NULL, 1), "found mixer ssm");
    bo_model_desc learned = runs_desc("rfa");
    learned.block.positions = BO_POSITIONS_LEARNED;
    refuse(r, stateful(r, runs_model_of(r, &learned), NULL, 1), "learned positions");
    bo_trainer_desc desc = stateful(r, runs_model(r, "rfa"), NULL, 1);
    desc.batch = 4096;
    refuse(r, desc, "fewer than the 4096 sequences");
    desc = stateful(r, runs_model(r, "rfa"), NULL, 2);
    desc.stateful = false;
    refuse(r, desc, "need a stateful run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(losses_match_sessions, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(validation_carries_the_state, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(two_windows_are_a_long_one, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(no_gradient_crosses_the_end_of_an_epoch, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(resumed_runs_and_threads_give_the_same_bits, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(lost_states_are_noticed, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(kinds_without_carried_states_are_refused, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
