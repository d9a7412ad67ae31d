/* Training against a teacher: which weights change, refused settings, and runs that are stopped after any step and
 * resumed with the same bits, for any number of threads; and comparisons of models with their teachers on a text. */
#include "runs.h"
#include "model/internal.h"

/* A teacher whose attention is not flat. */
static bo_model *make_teacher(runs *r)
{
    bo_model *model = runs_model(r, "softmax");
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i);
        bo_rng rng = bo_rng_make(4, i);
        float *values = weight->data;
        for (size_t j = 0; weight->role == BO_WEIGHT_ROLE_MATRIX && j < weight->rows * weight->columns; j++)
            values[j] += (float)(0.3 * bo_rng_normal(&rng));
    }
    return model;
}

static bo_model *make_student(runs *r, const bo_model *teacher, const char *kind, size_t window, const char *kept)
{
    bo_replacement_desc desc = {.kept_layers = kept, .gate_first = 3, .gate_last = 3, .seed = 5};
    bo_model *student;
    assert_true(bo_attention_preset(kind, &desc.attention));
    if (bo_attention_has(&desc.attention, BO_TRAIT_DRAWS)) desc.attention.features.features = 16;
    desc.attention.window = window;
    assert_ok(r->context, bo_model_replace_attention(r->context, teacher, &desc, &student));
    return student;
}

static void add_adapters(runs *r, bo_model *student, const char *base)
{
    char *whole, directory[160];
    snprintf(directory, sizeof directory, "%s", runs_path(r, base));
    assert_ok(r->context, bo_model_save(r->context, student, &(bo_sink){.path = directory}));
    assert_ok(r->context, bo_model_new_parameters(r->context, student, &whole));
    const bo_lora_desc lora = {.rank = 2, .whole = whole, .base = directory, .targets = "q_proj,k_proj,v_proj,o_proj"};
    assert_ok(r->context, bo_model_adapt(r->context, student, &lora));
    bo_free(whole);
}

static bo_trainer_desc trainer_of(runs *r, bo_model *model, bo_imitation imitate, const char *name)
{
    bo_trainer_desc desc = runs_trainer(r, model, name);
    desc.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_ADAMW, .rate = 0.01};
    desc.imitate = imitate;
    desc.steps = 6;
    desc.eval_every = 2;
    return desc;
}

/* ---- weights that move ------------------------------------------------------------------------------------------- */

/* Weights shared with the teacher keep their bits. All other weights change. */
static void check_moved(const bo_model *teacher, const bo_model *before, const bo_model *after)
{
    size_t moved = 0;
    for (size_t i = 0; i < bo_weights_count(after->weights); i++) {
        const bo_weight *now = bo_weights_at(after->weights, i), *old = bo_weights_find(before->weights, now->name);
        const bool shared = bo_weights_find(teacher->weights, now->name);
        const bool same = old && memcmp(now->data, old->data, now->rows * now->columns * sizeof(float)) == 0;
        if (shared && !same) fail_msg("%s belongs to the teacher and moved", now->name);
        if (!shared && same) fail_msg("%s is new and stayed", now->name);
        moved += !shared;
    }
    assert_true(moved > 0);
}

static void only_new_parameters_move(void **state)
{
    runs *r = *state;
    static const struct {
        const char *kind;
        size_t window;
    } cases[] = {{"dark", 0}, {"rfa-gate", 0}, {"hedgehog", 0}, {"hybrid", 4}, {"gla", 0}};
    bo_model *teacher = make_teacher(r);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int imitate = BO_IMITATION_ATTENTION; imitate <= BO_IMITATION_LOGITS; imitate++) {
            bo_model *model = make_student(r, teacher, cases[c].kind, cases[c].window, c & 1 ? "1" : "");
            bo_model *before = make_student(r, teacher, cases[c].kind, cases[c].window, c & 1 ? "1" : "");
            if (imitate == BO_IMITATION_LOGITS) add_adapters(r, model, "base");
            bo_trainer_desc desc = trainer_of(r, model, (bo_imitation)imitate, NULL);
            bo_training_cost plan;
            bo_trainer *trainer;
            double first = 0, loss = 0;
            assert_ok(r->context, bo_trainer_estimate(r->context, &desc, &plan));
            assert_true(plan.trained > 0 && plan.trained < plan.parameters);
            desc.steps = 30;
            assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
            for (int i = 0; i < 30; i++) {
                assert_ok(r->context, bo_trainer_step(r->context, trainer, &loss));
                if (i == 0) first = loss;
            }
            if (!(loss < first))
                fail_msg("%s, imitation %d: loss %g, at first %g", cases[c].kind, imitate, loss, first);
            bo_trainer_destroy(trainer);
            check_moved(teacher, before, model);
            bo_model_destroy(model), bo_model_destroy(before);
        }
    bo_model_destroy(teacher);
}

/* The flags of weights are as before when the trainer is gone. */
static void frozen_only_during_training(void **state)
{
    runs *r = *state;
    bo_model *teacher = make_teacher(r), *model = make_student(r, teacher, "dark", 0, "");
    bo_trainer_desc desc = trainer_of(r, model, BO_IMITATION_ATTENTION, NULL);
    bo_trainer *trainer;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    bo_trainer_destroy(trainer);
    for (size_t i = 0; i < bo_weights_count(model->weights); i++)
        assert_false(bo_weights_at(model->weights, i)->frozen);
    bo_model_destroy(model), bo_model_destroy(teacher);
}

/* ---- resuming ---------------------------------------------------------------------------------------------------- */

typedef struct stopper {
    uint64_t after; /* the step after which the run stops; 0: never */
} stopper;

static bool stop(void *user, const bo_training_report *report)
{
    const stopper *s = user;
    return !s->after || report->step < s->after;
}

/* One run of six steps, stopped after `after` of them (0: not at all) and then resumed with another model object. */
static bo_model *run_parts(runs *r, const bo_model *teacher, bo_imitation imitate, uint64_t after, int threads)
{
    bo_context *before = r->context;
    char name[64], base[64];
    stopper s = {after};
    snprintf(name, sizeof name, "run-%d-%d-%d", (int)imitate, (int)after, threads);
    snprintf(base, sizeof base, "base-%d", (int)imitate);
    r->context = test_context(threads);
    for (int part = 0;; part++) {
        bo_model *model = make_student(r, teacher, "dark", 0, "1");
        if (imitate == BO_IMITATION_LOGITS) add_adapters(r, model, base);
        bo_trainer_desc desc = trainer_of(r, model, imitate, name);
        bo_trainer *trainer;
        desc.sparsity = imitate == BO_IMITATION_LOGITS ? 3 : 0;
        desc.resume = part > 0;
        desc.report = stop;
        desc.user = &s;
        assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
        const bo_status status = bo_trainer_run(r->context, trainer);
        assert_int_equal(status, s.after ? BO_CANCELED : BO_OK);
        assert_int_equal(bo_trainer_report(trainer)->step, s.after ? s.after : 6);
        bo_trainer_destroy(trainer);
        s.after = 0;
        if (status == BO_OK) {
            bo_context_destroy(r->context);
            r->context = before;
            return model;
        }
        bo_model_destroy(model);
    }
}

static void resumed_to_the_same_bits(void **state)
{
    runs *r = *state;
    bo_model *teacher = make_teacher(r);
    for (int imitate = BO_IMITATION_ATTENTION; imitate <= BO_IMITATION_LOGITS; imitate++) {
        bo_model *whole = run_parts(r, teacher, (bo_imitation)imitate, 0, 2);
        for (uint64_t after = 1; after < 6; after++) {
            bo_model *parted = run_parts(r, teacher, (bo_imitation)imitate, after, after & 1 ? 1 : 3);
            if (!runs_same_weights(whole, parted))
                fail_msg("imitation %d, stopped after step %d: other weights", imitate, (int)after);
            bo_model_destroy(parted);
        }
        bo_model_destroy(whole);
    }
    bo_model_destroy(teacher);
}

/* With every N-th token, N steps compute the loss of each token once. The text has one window, which is every sequence
 * of every step, so the mean over the N steps is the loss of all tokens. */
static void every_token_has_its_turn(void **state)
{
    runs *r = *state;
    enum { SPARSITY = 4 };
    bo_model *teacher = make_teacher(r);
    double means[2] = {0, 0};
    FILE *file = fopen(runs_path(r, "few"), "w");
    fputs("seventeen letters", file);
    fclose(file);
    bo_corpus *few = runs_open(r, "few", 0, 0);
    assert_int_equal(bo_corpus_tokens(few), 17);
    for (int sparse = 0; sparse < 2; sparse++) {
        bo_model *model = make_student(r, teacher, "dark", 0, "");
        add_adapters(r, model, "base");
        bo_trainer_desc desc = trainer_of(r, model, BO_IMITATION_LOGITS, NULL);
        desc.train.corpus = few;
        desc.optimizer.rate = 1e-12; /* below the rounding of the weights */
        desc.steps = SPARSITY;
        desc.sparsity = sparse ? SPARSITY : 0;
        bo_trainer *trainer;
        assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
        for (int i = 0; i < SPARSITY; i++) {
            double loss;
            assert_ok(r->context, bo_trainer_step(r->context, trainer, &loss));
            assert_true(isfinite(loss) && loss > 0);
            means[sparse] += loss / SPARSITY;
        }
        bo_trainer_destroy(trainer);
        bo_model_destroy(model);
    }
    assert_close(means[1], means[0], 1e-5 * means[0]); /* means of 16 and 64 terms in float32 */
    bo_corpus_close(few);
    bo_model_destroy(teacher);
}

/* A loss at fewer tokens than one is at one token. */
static void sparsity_beyond_the_batch(void **state)
{
    runs *r = *state;
    bo_model *teacher = make_teacher(r), *model = make_student(r, teacher, "dark", 0, "");
    add_adapters(r, model, "base");
    static const size_t sparsities[] = {1, 2, 63, 64, 65, 1000, SIZE_MAX};
    for (size_t i = 0; i < sizeof sparsities / sizeof *sparsities; i++) {
        bo_trainer_desc desc = trainer_of(r, model, BO_IMITATION_LOGITS, NULL);
        bo_trainer *trainer;
        double loss;
        desc.sparsity = sparsities[i];
        assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
        for (int s = 0; s < 3; s++) assert_ok(r->context, bo_trainer_step(r->context, trainer, &loss));
        assert_true(isfinite(loss));
        bo_trainer_destroy(trainer);
    }
    bo_model_destroy(model), bo_model_destroy(teacher);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refusals(void **state)
{
    runs *r = *state;
    bo_context *c = r->context;
    bo_model *teacher = make_teacher(r), *model = make_student(r, teacher, "dark", 0, ""), *none;
    bo_trainer *trainer;
    bo_trainer_desc desc = trainer_of(r, teacher, BO_IMITATION_ATTENTION, NULL);
    assert_fails(c, BO_INVALID, "is not linearized", bo_trainer_create(c, &desc, &trainer));
    assert_null(trainer);
    desc = trainer_of(r, model, BO_IMITATION_LOGITS, NULL);
    assert_fails(c, BO_INVALID, "training would change the teacher", bo_trainer_create(c, &desc, &trainer));
    desc = trainer_of(r, model, (bo_imitation)3, NULL);
    assert_fails(c, BO_INVALID, "unknown value 3", bo_trainer_create(c, &desc, &trainer));
    desc = trainer_of(r, model, BO_IMITATION_ATTENTION, NULL);
    desc.documents = true;
    assert_fails(c, BO_INVALID, "restarts at documents", bo_trainer_create(c, &desc, &trainer));
    desc.documents = false;
    desc.stateful = true;
    assert_fails(c, BO_INVALID, "stateful", bo_trainer_create(c, &desc, &trainer));
    const double shares[] = {-0.1, 1.1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        desc = trainer_of(r, model, BO_IMITATION_ATTENTION, NULL);
        desc.share = shares[i];
        assert_fails(c, BO_INVALID, "share", bo_trainer_create(c, &desc, &trainer));
    }
    add_adapters(r, model, "base");
    desc = trainer_of(r, model, BO_IMITATION_ATTENTION, NULL);
    assert_fails(c, BO_INVALID, "before adapters", bo_trainer_create(c, &desc, &trainer));
    bo_model_destroy(model);
    none = make_student(r, teacher, "softmax", 4, ""); /* a window alone has no parameters */
    desc = trainer_of(r, none, BO_IMITATION_ATTENTION, NULL);
    assert_fails(c, BO_INVALID, "nothing", bo_trainer_create(c, &desc, &trainer));
    bo_model_destroy(none), bo_model_destroy(teacher);
}

/* A run is not resumed with another imitation or share. */
static void settings_belong_to_the_run(void **state)
{
    runs *r = *state;
    bo_model *teacher = make_teacher(r), *model = make_student(r, teacher, "dark", 0, "");
    bo_trainer *trainer;
    add_adapters(r, model, "base");
    bo_trainer_desc desc = trainer_of(r, model, BO_IMITATION_LOGITS, "run");
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    bo_trainer_destroy(trainer);
    desc = trainer_of(r, model, BO_IMITATION_LOGITS, "run");
    desc.resume = true;
    desc.share = 0.5;
    assert_fails(r->context, BO_INVALID, "different share", bo_trainer_create(r->context, &desc, &trainer));
    desc.share = 0;
    desc.sparsity = 2;
    assert_fails(r->context, BO_INVALID, "different sparsity", bo_trainer_create(r->context, &desc, &trainer));
    desc.sparsity = 1;
    desc.share = 0.9; /* the defaults, stated */
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    bo_trainer_destroy(trainer);
    desc.imitate = BO_IMITATION_NONE;
    assert_fails(r->context, BO_INVALID, "imitate", bo_trainer_create(r->context, &desc, &trainer));
    bo_model_destroy(model), bo_model_destroy(teacher);
}

/* ---- comparisons on a text --------------------------------------------------------------------------------------- */

static void imitation_on_a_text(void **state)
{
    runs *r = *state;
    bo_context *c = r->context;
    bo_model *teacher = make_teacher(r), *same = make_student(r, teacher, "softmax", 16, "1");
    bo_model *other = make_student(r, teacher, "softmax", 3, "0");
    double errors[2] = {7, 7}, again[2];
    assert_ok(c, bo_model_imitation(c, same, r->held_out, 0, 0, errors));
    assert_true(errors[0] == 0 && isnan(errors[1]));
    assert_ok(c, bo_model_imitation(c, other, r->held_out, 0, 200, errors));
    assert_true(isnan(errors[0]) && errors[1] > 0 && errors[1] < 10);
    assert_ok(c, bo_model_imitation(c, other, r->held_out, 0, 1, again)); /* one window at least */
    assert_true(again[1] > 0);
    assert_ok(c,
              bo_model_imitation(c, other, r->held_out, 3, 0, errors)); /* a window of three tokens sees all of them */
    assert_true(errors[1] == 0);
    assert_fails(c, BO_INVALID, "linearized", bo_model_imitation(c, teacher, r->held_out, 0, 0, errors));
    const size_t all = (size_t)bo_corpus_tokens(r->noise);
    assert_fails(c, BO_INVALID, "at least one window", bo_model_imitation(c, other, r->noise, all + 1, 0, errors));
    bo_model_destroy(same), bo_model_destroy(other), bo_model_destroy(teacher);
}

/* Learned positions end at the context. */
static void windows_beyond_the_context(void **state)
{
    runs *r = *state;
    bo_context *c = r->context;
    bo_model_desc desc = runs_desc("softmax");
    desc.block.positions = BO_POSITIONS_LEARNED;
    bo_model *teacher = runs_model_of(r, &desc), *student = make_student(r, teacher, "dark", 0, "1");
    double errors[2];
    bo_agreement found;
    assert_int_equal(bo_model_imitation(c, student, r->held_out, 17, 0, errors), BO_INVALID);
    assert_int_equal(bo_model_agreement(c, teacher, student, r->held_out, 17, 0, &found), BO_INVALID);
    assert_ok(c, bo_model_agreement(c, teacher, student, r->held_out, 16, 0, &found));
    bo_model_destroy(student), bo_model_destroy(teacher);
}

static void agreement_on_a_text(void **state)
{
    runs *r = *state;
    bo_context *c = r->context;
    bo_model *teacher = make_teacher(r), *same = make_student(r, teacher, "softmax", 16, "");
    bo_model *other = make_student(r, teacher, "dark", 0, "");
    bo_agreement found;
    assert_ok(c, bo_model_agreement(c, teacher, same, r->held_out, 0, 0, &found));
    assert_int_equal(found.tokens, bo_corpus_tokens(r->held_out) / 16 * 16);
    assert_true(found.greedy == 1 && found.divergence == 0);
    assert_ok(c, bo_model_agreement(c, teacher, other, r->held_out, 0, 100, &found));
    assert_int_equal(found.tokens, 96);
    assert_true(found.greedy < 1 && found.divergence > 0);
    assert_ok(
        c, bo_model_agreement(c, teacher, other, r->held_out, 1, 1, &found)); /* a token that attends only to itself */
    assert_int_equal(found.tokens, 1);
    bo_model_desc desc = runs_desc("softmax");
    desc.vocab = 300;
    bo_model *larger = runs_model_of(r, &desc);
    assert_fails(c, BO_INVALID, "256 and 300", bo_model_agreement(c, teacher, larger, r->held_out, 0, 0, &found));
    bo_model_destroy(larger), bo_model_destroy(same), bo_model_destroy(other), bo_model_destroy(teacher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_new_parameters_move, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(frozen_only_during_training, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(resumed_to_the_same_bits, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(every_token_has_its_turn, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(sparsity_beyond_the_batch, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(refusals, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(settings_belong_to_the_run, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(imitation_on_a_text, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(windows_beyond_the_context, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(agreement_on_a_text, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
