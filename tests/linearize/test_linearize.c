/* Linearization from end to end: the student learns, its directory can be loaded, a call that is stopped anywhere is
 * resumed with the same bits, and refused calls neither overwrite nor leave files. */
#include "base/counting.h"
#include "model/internal.h"
#include "train/runs.h"
#include <bochner/linearize.h>

enum { TRANSFER = 6, FINETUNE = 6, EVERY = 2 }; /* the trainer reports every second of so few steps */

/* A teacher that was trained for a moment, as sharp attention is learned. */
static bo_model *make_teacher(runs *r)
{
    bo_model *model = runs_model(r, "softmax");
    bo_trainer_desc desc = runs_trainer(r, model, NULL);
    bo_trainer *trainer;
    desc.steps = 80;
    desc.eval_every = 80;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    bo_trainer_destroy(trainer);
    return model;
}

typedef struct followed {
    /* the call stops when the run of this stage has reported this step; step 0: never */
    bo_linearize_stage stage;
    uint64_t step;
    uint64_t steps[3]; /* reported by stage */
    double first[3], last[3];
    size_t calibrated, transferred;
    double errors[8];
    double start, chosen; /* sums over the heads */
} followed;

static bool follow(void *user, bo_linearize_stage stage, const bo_training_report *report)
{
    followed *f = user;
    if (!f->steps[stage]) f->first[stage] = report->loss;
    f->steps[stage] = report->step;
    f->last[stage] = report->loss;
    return !(f->step && f->stage == stage && report->step >= f->step);
}

static void calibrated(void *user, const bo_head_fit *fits, size_t count)
{
    followed *f = user;
    f->calibrated = count;
    for (size_t i = 0; i < count; i++) f->start += fits[i].start, f->chosen += fits[i].error;
}

static void transferred(void *user, const double *errors, size_t layers)
{
    followed *f = user;
    f->transferred = layers;
    memcpy(f->errors, errors, layers * sizeof *errors);
}

static bo_linearize_desc desc_of(runs *r, const bo_model *teacher, const char *kind, const char *directory, followed *f)
{
    bo_linearize_desc desc = {.teacher = teacher,
                              .train = r->text,
                              .valid = r->held_out,
                              .directory = directory,
                              .kept_layers = "",
                              .calibration_tokens = 256,
                              .transfer_steps = TRANSFER,
                              .finetune_steps = FINETUNE,
                              .batch = 4,
                              .rank = 2,
                              .eval_tokens = 200,
                              .seed = 9,
                              .report = follow,
                              .calibrated = calibrated,
                              .transferred = transferred,
                              .user = f};
    assert_true(bo_attention_preset(kind, &desc.attention));
    if (bo_attention_has(&desc.attention, BO_TRAIT_DRAWS)) desc.attention.features.features = 32;
    if (strcmp(kind, "dark") == 0) desc.attention.gate = BO_GATE_DECAY;
    return desc;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static double perplexity(runs *r, const bo_model *model)
{
    bo_evaluation found;
    assert_ok(r->context, bo_model_evaluate(r->context, model, r->held_out, 0, 0, &found));
    return found.perplexity;
}

static void student_learns(void **state)
{
    runs *r = *state;
    bo_model *teacher = make_teacher(r), *student, *bare, *loaded;
    followed f = {0};
    char directory[160];
    uint64_t before, after;
    snprintf(directory, sizeof directory, "%s", runs_path(r, "linear"));
    bo_linearize_desc desc = desc_of(r, teacher, "dark", directory, &f);
    desc.transfer_steps = 60;
    desc.finetune_steps = 60;
    desc.attention.features.features = 8; /* coarse, so that training can improve it */
    assert_ok(r->context, bo_model_digest(r->context, teacher, &before));
    assert_ok(r->context, bo_linearize(r->context, &desc, &student));
    assert_ok(r->context, bo_model_digest(r->context, teacher, &after));
    assert_int_equal(before, after); /* the teacher is not changed */
    assert_int_equal(f.calibrated, 4);
    assert_true(f.chosen <= f.start);
    assert_int_equal(f.transferred, 2);
    assert_int_equal(f.steps[BO_LINEARIZE_STAGE_TRANSFER], 60);
    assert_int_equal(f.steps[BO_LINEARIZE_STAGE_FINETUNE], 60);
    assert_true(f.last[BO_LINEARIZE_STAGE_TRANSFER] < f.first[BO_LINEARIZE_STAGE_TRANSFER]);
    assert_true(f.last[BO_LINEARIZE_STAGE_FINETUNE] < f.first[BO_LINEARIZE_STAGE_FINETUNE]);
    /* better than the same attention without training */
    followed g = {0};
    snprintf(directory, sizeof directory, "%s", runs_path(r, "bare"));
    desc.user = &g;
    desc.transfer_steps = desc.finetune_steps = UINT64_MAX;
    assert_ok(r->context, bo_linearize(r->context, &desc, &bare));
    assert_int_equal(g.steps[1] + g.steps[2], 0);
    for (int l = 0; l < 2; l++) assert_true(f.errors[l] < g.errors[l]);
    bo_agreement with, without;
    assert_ok(r->context, bo_model_agreement(r->context, teacher, student, r->held_out, 0, 0, &with));
    assert_ok(r->context, bo_model_agreement(r->context, teacher, bare, r->held_out, 0, 0, &without));
    assert_true(with.divergence < without.divergence);
    const double made = perplexity(r, student);
    assert_true(isfinite(made) && made < perplexity(r, bare));
    /* the directory contains the student */
    assert_ok(r->context, bo_model_load(r->context, &(bo_source){.path = runs_path(r, "linear")}, NULL, &loaded));
    assert_true(perplexity(r, loaded) == made);
    assert_true(runs_exists(r, "linear/adapter/adapter_model.safetensors") &&
                runs_exists(r, "linear/transfer/metrics.jsonl"));
    assert_false(runs_exists(r, "bare/adapter") || runs_exists(r, "bare/transfer") || runs_exists(r, "bare/finetune"));
    bo_model_destroy(loaded), bo_model_destroy(bare), bo_model_destroy(student), bo_model_destroy(teacher);
}

/* Unless `merge` is set, the directory stores the adapters separately, so that the weights before merging can be
 * restored. */
static void merged_or_apart(void **state)
{
    runs *r = *state;
    bo_model *teacher = make_teacher(r), *student, *base, *apart;
    for (int merge = 0; merge < 2; merge++) {
        followed f = {0};
        char directory[160];
        snprintf(directory, sizeof directory, "%s", runs_path(r, merge ? "merged" : "apart"));
        bo_linearize_desc desc = desc_of(r, teacher, "hedgehog", directory, &f);
        desc.merge = merge;
        desc.attention.rank = 0;
        assert_ok(r->context, bo_linearize(r->context, &desc, &student));
        assert_int_equal(runs_exists(r, merge ? "merged/adapter" : "apart/adapter"), !merge);
        assert_int_equal(bo_model_unmerge(r->context, student), merge ? BO_INVALID : BO_OK);
        bo_model_destroy(student);
    }
    assert_ok(r->context, bo_model_load(r->context, &(bo_source){.path = runs_path(r, "merged")}, NULL, &base));
    assert_ok(r->context, bo_model_load(r->context, &(bo_source){.path = runs_path(r, "apart")}, NULL, &apart));
    assert_true(runs_same_weights(base, apart));
    bo_model_destroy(base), bo_model_destroy(apart), bo_model_destroy(teacher);
}

/* ---- stopping and resuming --------------------------------------------------------------------------------------- */

/* Linearizes in one call, or in two with a stop in between. out NULL is allowed. */
static bo_model *linearize(runs *r, const bo_model *teacher, const char *kind, const char *name,
                           bo_linearize_stage stage, uint64_t step)
{
    followed f = {.stage = stage, .step = step};
    char directory[160];
    bo_model *student = (bo_model *)r;
    snprintf(directory, sizeof directory, "%s", runs_path(r, name));
    bo_linearize_desc desc = desc_of(r, teacher, kind, directory, &f);
    if (strcmp(kind, "favor++") == 0) desc.attention.gate = BO_GATE_NONE, desc.transfer_steps = UINT64_MAX;
    if (step) {
        assert_int_equal(bo_linearize(r->context, &desc, &student), BO_CANCELED);
        assert_null(student);
        assert_fails(r->context, BO_INVALID, "already contains a linearization", bo_linearize(r->context, &desc, NULL));
        f = (followed){0};
        desc.resume = true;
    }
    assert_ok(r->context, bo_linearize(r->context, &desc, &student));
    if (step) { /* both runs were reported, also the one that was complete */
        if (desc.transfer_steps != UINT64_MAX) assert_int_equal(f.steps[BO_LINEARIZE_STAGE_TRANSFER], TRANSFER);
        assert_int_equal(f.steps[BO_LINEARIZE_STAGE_FINETUNE], FINETUNE);
        assert_int_equal(f.transferred, 2);
    }
    return student;
}

static void resumed_to_the_same_bits(void **state)
{
    runs *r = *state;
    bo_context *context = r->context;
    bo_model *teacher = make_teacher(r);
    static const char *const kinds[] = {"dark", "hedgehog", "favor++"};
    for (int k = 0; k < 3; k++) {
        char name[40];
        snprintf(name, sizeof name, "whole-%d", k);
        bo_model *whole = linearize(r, teacher, kinds[k], name, 0, 0);
        for (int stage = k == 2 ? 2 : 1; stage < 3; stage++)
            for (uint64_t step = EVERY; step <= TRANSFER; step += EVERY) {
                if (stage == 2 && step == FINETUNE) continue; /* the student is complete */
                snprintf(name, sizeof name, "parted-%d-%d-%d", k, stage, (int)step);
                r->context = test_context(step == EVERY ? 1 : 3);
                bo_model *parted = linearize(r, teacher, kinds[k], name, (bo_linearize_stage)stage, step);
                bo_context_destroy(r->context);
                r->context = context;
                if (!runs_same_weights(whole, parted))
                    fail_msg("%s, stopped in stage %d after step %d: other weights", kinds[k], stage, (int)step);
                bo_model_destroy(parted);
            }
        bo_model_destroy(whole);
    }
    bo_model_destroy(teacher);
}

/* A progress callback cancels the call anywhere, in particular during the calibration. */
typedef struct canceler {
    int left;
} canceler;

static bool cancel(void *user, const char *stage, double done, double total)
{
    canceler *c = user;
    (void)stage, (void)done, (void)total;
    return c->left-- > 0;
}

static void canceled_by_progress(void **state)
{
    runs *r = *state;
    bo_context *context = r->context;
    bo_model *teacher = make_teacher(r), *whole = linearize(r, teacher, "dark", "whole", 0, 0), *student;
    size_t canceled = 0;
    for (int after = 0; after < 40; after += after < 4 ? 1 : 9) {
        followed f = {0};
        canceler c = {after};
        char directory[160], name[40];
        snprintf(name, sizeof name, "canceled-%d", after);
        snprintf(directory, sizeof directory, "%s", runs_path(r, name));
        bo_linearize_desc desc = desc_of(r, teacher, "dark", directory, &f);
        const bo_context_desc with = {.threads = 1, .progress = cancel, .user = &c};
        assert_int_equal(bo_context_create(&with, &r->context), BO_OK);
        const bo_status status = bo_linearize(r->context, &desc, &student);
        assert_true(status == BO_CANCELED || status == BO_OK);
        canceled += status == BO_CANCELED;
        bo_model_destroy(student);
        bo_context_destroy(r->context);
        r->context = context;
        desc.resume = true;
        assert_ok(r->context, bo_linearize(r->context, &desc, &student));
        assert_true(runs_same_weights(whole, student));
        bo_model_destroy(student);
    }
    assert_true(canceled >= 3);
    bo_model_destroy(whole), bo_model_destroy(teacher);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refused(runs *r, const bo_linearize_desc *desc, const char *message)
{
    bo_model *student = (bo_model *)r;
    assert_fails(r->context, BO_INVALID, message, bo_linearize(r->context, desc, &student));
    assert_null(student);
    assert_false(runs_exists(r, "never"));
}

static void refusals(void **state)
{
    runs *r = *state;
    bo_model *teacher = make_teacher(r);
    followed f = {0};
    char directory[160];
    snprintf(directory, sizeof directory, "%s", runs_path(r, "never"));
    const bo_linearize_desc good = desc_of(r, teacher, "dark", directory, &f);
    bo_linearize_desc desc = good;
#define REFUSED(message, ...)                                                                                          \
    do {                                                                                                               \
        desc = good;                                                                                                   \
        __VA_ARGS__;                                                                                                   \
        refused(r, &desc, message);                                                                                    \
    } while (0)
    REFUSED("NULL", desc.teacher = NULL);
    REFUSED("NULL", desc.train = NULL);
    REFUSED("NULL", desc.directory = NULL);
    REFUSED("reserved", desc.reserved[3] = 1);
    REFUSED("minutes or steps", desc.minutes = 1);
    REFUSED("minutes", desc.minutes = -1);
    REFUSED("minutes", desc.minutes = NAN);
    REFUSED("transfer_share", desc.transfer_share = 1);
    REFUSED("transfer_share", desc.transfer_share = -0.1);
    REFUSED("share", desc.share = 1.5);
    REFUSED("share", desc.share = NAN);
    REFUSED("softmax attention without a window", desc.attention = (bo_attention_desc){0});
    REFUSED("power attention without a window", desc.attention = (bo_attention_desc){.kind = BO_ATTENTION_POWER});
    REFUSED("unknown attention", desc.attention.kind = (bo_attention_kind)77);
    REFUSED("rank 17", desc.rank = 17);
    REFUSED("alpha", desc.alpha = -1);
    REFUSED("x_proj", desc.targets = "q_proj,x_proj");
    REFUSED("window: expected at most 16", desc.window = 17);
    REFUSED("gate_first", desc.gate = 101);
    REFUSED("kept_layers", desc.kept_layers = "0-1");
    REFUSED("kept_layers", desc.kept_layers = "2");
    REFUSED("kept_layers", desc.kept_layers = "first");
    bo_model *other = runs_model(r, "dark");
    REFUSED("dark attention", desc.teacher = other);
    bo_model_destroy(other);
    /* texts that are too short, for training or for evaluation */
    FILE *file = fopen(runs_path(r, "few"), "w");
    fputs("sixteen letters.", file);
    fclose(file);
    bo_corpus *few = runs_open(r, "few", 0, 0.9), *enough = runs_open(r, "few", 0, 0);
    REFUSED("the training text has", desc.train = few);
    REFUSED("the training text has", desc.train = enough); /* one window, and no token after it */
    REFUSED("the validation text has", desc.valid = few);
    bo_corpus_close(few), bo_corpus_close(enough);
    desc = good;
    desc.directory = runs_path(r, "text"); /* a file */
    assert_int_equal(bo_linearize(r->context, &desc, NULL), BO_IO);
    bo_model_destroy(teacher);
}

/* A directory with a model, in particular the teacher, or with another run is left as it is. */
static void nothing_is_overwritten(void **state)
{
    runs *r = *state;
    bo_model *teacher = make_teacher(r), *again, *student;
    followed f = {0};
    char directory[160], file[200];
    snprintf(directory, sizeof directory, "%s", runs_path(r, "teacher"));
    assert_ok(r->context, bo_model_save(r->context, teacher, &(bo_sink){.path = directory}));
    bo_linearize_desc desc = desc_of(r, teacher, "dark", directory, &f);
    for (int resume = 0; resume < 2; resume++) {
        desc.resume = resume;
        assert_fails(r->context, BO_INVALID, "already contains a model", bo_linearize(r->context, &desc, NULL));
    }
    assert_false(runs_exists(r, "teacher/transfer"));
    assert_ok(r->context, bo_model_load(r->context, &(bo_source){.path = directory}, NULL, &again));
    assert_true(runs_same_weights(teacher, again));
    bo_model_destroy(again);
    /* settings of another run */
    snprintf(directory, sizeof directory, "%s", runs_path(r, "linear"));
    desc = desc_of(r, teacher, "dark", directory, &f);
    assert_ok(r->context, bo_linearize(r->context, &desc, NULL));
    assert_fails(r->context, BO_INVALID, "already contains a linearization", bo_linearize(r->context, &desc, NULL));
    desc.resume = true;
    desc.batch = 5;
    assert_fails(r->context, BO_INVALID, "different batch", bo_linearize(r->context, &desc, NULL));
    desc = desc_of(r, teacher, "rfa", directory, &f);
    desc.resume = true;
    assert_fails(r->context, BO_INVALID, "different attention", bo_linearize(r->context, &desc, NULL));
    desc = desc_of(r, teacher, "dark", directory, &f);
    desc.resume = true;
    desc.kept_layers = "1";
    assert_fails(r->context, BO_INVALID, "different", bo_linearize(r->context, &desc, NULL));
    desc.kept_layers = "";
    assert_ok(r->context, bo_linearize(r->context, &desc, &student));
    bo_model_destroy(student);
    snprintf(file, sizeof file, "%s/config.json", directory);
    assert_int_equal(access(file, F_OK), 0);
    bo_model_destroy(teacher);
}

/* A skipped stage leaves all minutes to the other; both may be skipped. */
static void stages_may_be_skipped(void **state)
{
    runs *r = *state;
    bo_model *teacher = make_teacher(r);
    for (int i = 0; i < 6; i++) {
        followed f = {0};
        char directory[160], name[40];
        snprintf(name, sizeof name, "skipped-%d", i);
        snprintf(directory, sizeof directory, "%s", runs_path(r, name));
        bo_linearize_desc desc = desc_of(r, teacher, "dark", directory, &f);
        desc.minutes = i < 3 ? 0.002 : 0;
        desc.transfer_steps = i % 3 == 0 ? UINT64_MAX : i < 3 ? 0 : 2;
        desc.finetune_steps = i % 3 == 1 ? UINT64_MAX : i < 3 ? 0 : 2;
        desc.valid = i & 1 ? NULL : r->held_out;
        assert_ok(r->context, bo_linearize(r->context, &desc, NULL));
        assert_int_equal(f.steps[BO_LINEARIZE_STAGE_TRANSFER] > 0, i % 3 != 0);
        assert_int_equal(f.steps[BO_LINEARIZE_STAGE_FINETUNE] > 0, i % 3 != 1);
    }
    bo_model_destroy(teacher);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

typedef struct starving {
    bo_context *context;
    bo_linearize_desc desc;
} starving;

static bo_status whole(void *what)
{
    const starving *s = what;
    return bo_linearize(s->context, &s->desc, NULL);
}

/* The call is repeatedly resumed from the files of an earlier one. Steps allocate no memory. After the first thousand
 * allocations, only every 97th is tested. */
static void every_allocation_may_fail(void **state)
{
    runs *r = *state;
    counting counted = {0};
    starving s = {.context = counting_context(&counted, 1)};
    bo_model *teacher = make_teacher(r);
    char directory[160];
    snprintf(directory, sizeof directory, "%s", runs_path(r, "starved"));
    followed f = {0};
    s.desc = desc_of(r, teacher, "dark", directory, &f);
    s.desc.resume = true;
    s.desc.transfer_steps = s.desc.finetune_steps = 1;
    s.desc.merge = true;
    assert_ok(s.context, whole(&s));
    counting_inject(&(injection){&counted, s.context, whole, &s, 20, 97, "the sequences of a call"});
    bo_model_destroy(teacher);
    bo_context_destroy(s.context);
    assert_true(counted.live == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(student_learns, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(merged_or_apart, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(resumed_to_the_same_bits, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(canceled_by_progress, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(refusals, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(nothing_is_overwritten, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(stages_may_be_skipped, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
