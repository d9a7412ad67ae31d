/* A training run on a disk that loses power at any moment: it resumes from the last complete checkpoint, or from a
 * newer one, and ends with the bits of an uninterrupted run. */
#ifndef BO_TEST_POWER_H
#define BO_TEST_POWER_H

#include "base/rng.h"
#include "faults/disk.h"
#include "train/runs.h"
#include "train/train.h"

enum { POWER_STATES = 1 << 16, POWER_STEPS = 5 };

/* A state of the disk after a crash, and the step from which the run resumed. */
typedef struct power_state {
    uint64_t hash, step;
} power_state;

typedef struct power_trial {
    runs *r;
    bo_context *context; /* with one thread: the work is too small for more */
    bo_model *expected;  /* after the uninterrupted run */
    size_t lines;        /* lines of its metrics */
    size_t damaged;      /* operations before the newest checkpoint was damaged; 0: undamaged */
    power_state *seen;
    size_t states, cases;
} power_trial;

static bo_model *power_model(const power_trial *t)
{
    bo_model *model;
    bo_model_desc desc = {
        .layers = 1, .width = 8, .block.heads = 1, .context = 8, .block.hidden = 4, .vocab = 256, .seed = 3};
    test_set_kind("rfa-gate", &desc);
    desc.block.attention.features.features = 8;
    assert_ok(t->context, bo_model_create(t->context, &desc, t->r->tokenizer, &model));
    return model;
}

/* Two levels of directories, an average of the weights, and evaluations between checkpoints. The first evaluation is
 * the best one, so that best/ and the newest checkpoint differ. */
static bo_trainer_desc power_desc(runs *r, bo_model *model, const char *directory)
{
    bo_trainer_desc desc = runs_trainer(r, model, NULL);
    desc.directory = directory;
    desc.batch = 1;
    desc.steps = POWER_STEPS;
    desc.eval_every = 2;
    desc.checkpoint_every = 2;
    desc.eval_tokens = 20;
    desc.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_ADAMW, .rate = 0.3, .average = 0.5};
    return desc;
}

static void power_train(power_trial *t, bo_trainer_desc desc, bool resume)
{
    bo_trainer *trainer;
    desc.resume = resume;
    assert_ok(t->context, bo_trainer_create(t->context, &desc, &trainer));
    assert_ok(t->context, bo_trainer_run(t->context, trainer));
    bo_trainer_destroy(trainer);
}

/* Appends a byte to training.json of the newest checkpoint, and flushes it. */
static void power_damage(power_trial *t, const char *directory)
{
    char path[3 * DISK_PATH];
    snprintf(path, sizeof path, "%s/checkpoints/step-%d/training.json", directory, POWER_STEPS);
    t->damaged = disk.count;
    const int file = open(path, O_WRONLY | O_APPEND);
    if (file < 0 || write(file, " ", 1) != 1 || fsync(file) != 0 || close(file) != 0) abort();
}

static uint64_t power_complete(const power_trial *t, size_t count);

/* Records a run. With `fallback`, its newest checkpoint is damaged at the end and the run is resumed: the last step is
 * computed again from the checkpoint before it. */
static void power_record(power_trial *t, bool fallback)
{
    enum {
        MIN_OPERATIONS = 200
    }; /* a run of 328 operations was recorded when this was written; far fewer operations mean that a hook is missing
        */
    char root[DISK_PATH], directory[2 * DISK_PATH];
    snprintf(root, sizeof root, "%s", runs_path(t->r, "whole"));
    snprintf(directory, sizeof directory, "%s/new/run", root);
    disk_flushes = false;
    if (mkdir(root, 0777) != 0) abort();
    t->context = test_context(1);
    t->expected = power_model(t);
    const bo_trainer_desc desc = power_desc(t->r, t->expected, directory);
    disk_watch(root);
    power_train(t, desc, false);
    assert_true(disk.count >= MIN_OPERATIONS);
    assert_int_equal(power_complete(t, disk.count), POWER_STEPS);
    if (fallback) {
        power_damage(t, directory);
        assert_int_equal(power_complete(t, disk.count), POWER_STEPS - 1);
        power_train(t, desc, true);
        assert_true(disk.count >= t->damaged + MIN_OPERATIONS / 5);
        assert_int_equal(power_complete(t, disk.count), POWER_STEPS);
    }
    disk_stop();
    t->lines = runs_lines(t->r, "whole/new/run/metrics.jsonl");
    t->seen = calloc(POWER_STATES, sizeof *t->seen);
}

/* The newest complete checkpoint after the first `count` operations: its directory has its final name, and the
 * directory of checkpoints was flushed afterwards. 0: none. */
static uint64_t power_complete(const power_trial *t, size_t count)
{
    uint64_t step = 0;
    for (size_t i = 0; i < count; i++) {
        const disk_operation *named = &disk.operations[i];
        if (named->kind != DISK_NAME || strncmp(named->name, "step-", 5) != 0 || strchr(named->name, '.')) continue;
        const uint64_t found = strtoull(named->name + 5, NULL, 10);
        if (t->damaged && i < t->damaged && t->damaged < count && found == POWER_STEPS) continue;
        for (size_t j = i + 1; j < count; j++)
            if (disk.operations[j].kind == DISK_FLUSH && disk.operations[j].object == named->directory) step = found;
    }
    return step;
}

/* Prints the operations with uncertain survival. */
static void power_explain(size_t count, const unsigned *survival)
{
    static const char *const kinds[] = {"write", "name", "remove", "flush"};
    for (size_t i = 0; i < count; i++) {
        const disk_operation *o = &disk.operations[i];
        if (disk_pending(i, count))
            fprintf(stderr, "  %zu %s object %d: %s in directory %d, %zu bytes: survives %u\n", i, kinds[o->kind],
                    o->object, o->name, o->directory, o->size, survival[i]);
    }
}

static bool power_same_file(power_trial *t, const char *name)
{
    char command[1024];
    snprintf(command, sizeof command, "cmp -s %s/whole/new/run/%s %s/crash/new/run/%s", t->r->directory, name,
             t->r->directory, name);
    return system(command) == 0;
}

/* Resumes the run in the directory crash/. Returns NULL, or a description of the error. */
static const char *power_resume(power_trial *t, bool compare_files, uint64_t *step)
{
    char directory[2 * DISK_PATH];
    bo_trainer *trainer;
    bo_model *model = power_model(t);
    snprintf(directory, sizeof directory, "%s/new/run", runs_path(t->r, "crash"));
    bo_trainer_desc desc = power_desc(t->r, model, directory);
    desc.resume = true;
    const char *wrong = NULL;
    if (bo_trainer_create(t->context, &desc, &trainer) != BO_OK) {
        bo_model_destroy(model);
        return bo_context_error(t->context);
    }
    *step = trainer->now.step;
    if (bo_trainer_run(t->context, trainer) != BO_OK) wrong = bo_context_error(t->context);
    bo_trainer_destroy(trainer);
    if (!wrong && !runs_same_weights(model, t->expected)) wrong = "the weights differ";
    if (!wrong && runs_lines(t->r, "crash/new/run/metrics.jsonl") != t->lines) wrong = "metrics are lost";
    if (!wrong && !runs_exists(t->r, "crash/new/run/best/model.safetensors")) wrong = "best/ is lost";
    if (!wrong && compare_files && !power_same_file(t, "model.safetensors")) wrong = "the files differ";
    if (!wrong && compare_files && !power_same_file(t, "best/model.safetensors")) wrong = "best/ differs";
    bo_model_destroy(model);
    return wrong;
}

static void power_clear(power_trial *t)
{
    nftw(runs_path(t->r, "crash"), runs_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* The power fails after `count` operations; survival: see disk_crash. Each state of the disk is tested once. */
static void power_fail(power_trial *t, size_t count, const unsigned *survival)
{
    static disk_state state;
    const uint64_t min_step = power_complete(t, count);
    disk_crash(count, survival, &state);
    const uint64_t hash = disk_restore(&state, 0, NULL, 1);
    power_state *seen = &t->seen[hash % POWER_STATES];
    t->cases++;
    while (seen->hash && seen->hash != hash) seen = seen + 1 < t->seen + POWER_STATES ? seen + 1 : t->seen;
    const char *wrong = NULL;
    if (!seen->hash) {
        if (++t->states == POWER_STATES) abort();
        seen->hash = hash;
        if (mkdir(runs_path(t->r, "crash"), 0777) != 0) abort();
        disk_restore(&state, 0, runs_path(t->r, "crash"), 1);
        wrong = power_resume(t, t->states % 16 == 0, &seen->step);
        if (!wrong) power_clear(t);
    }
    disk_state_free(&state);
    if (!wrong && seen->step < min_step) wrong = "a complete checkpoint is lost";
    if (!wrong) return;
    power_explain(count, survival);
    fail_msg("power failure after operation %zu of %zu: resumed from step %llu, complete was step %llu: %s", count,
             disk.count, (unsigned long long)seen->step, (unsigned long long)min_step, wrong);
}

/* All uncertain operations survive, none, each alone, all but one, and `random` random subsets with torn writes. */
static void power_fail_at(power_trial *t, size_t count, bool singles, size_t random)
{
    static unsigned survival[DISK_OPERATIONS];
    for (unsigned all = 0; all < 2; all++) {
        for (size_t i = 0; i < count; i++) survival[i] = all;
        power_fail(t, count, survival);
        for (size_t i = 0; singles && i < count; i++) {
            if (!disk_pending(i, count)) continue;
            survival[i] = !all;
            power_fail(t, count, survival);
            survival[i] = all;
        }
    }
    for (size_t which = 0; which < random; which++) {
        for (size_t i = 0; i < count; i++) {
            const uint64_t draw = bo_hash(1000 * count + which, i);
            survival[i] = draw % 3 < 2 ? (unsigned)(draw % 3) : 2 + (unsigned)(draw / 3 % 64);
        }
        power_fail(t, count, survival);
    }
}

static void power_finish(power_trial *t)
{
    print_message("%zu operations, %zu crashes, %zu different states of the disk\n", disk.count, t->cases, t->states);
    bo_model_destroy(t->expected);
    bo_context_destroy(t->context);
    free(t->seen);
    disk_free();
}

#endif
