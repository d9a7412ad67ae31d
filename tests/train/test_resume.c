/* A run that was stopped or killed and resumed has the bits of an uninterrupted run. */
#include "runs.h"
#include "io/tensors.h"
#include <dirent.h>

static const char *const optimizers[] = {"muon", "adamw", "sgd", "sign", "linf"};

/* With all features that use random numbers or state. */
static bo_trainer_desc rich(runs *r, bo_model *model, const char *name, bo_optimizer_kind kind)
{
    bo_trainer_desc desc = runs_trainer(r, model, name);
    desc.optimizer = (bo_optimizer_desc){.kind = kind, .decay = 0.01, .average = 0.8};
    desc.micro_batch = 2;
    desc.documents = kind % 2;
    return desc;
}

static bo_model *rich_model(runs *r, const char *attention)
{
    bo_model_desc desc = runs_desc(attention);
    desc.dropout = 0.1;
    return runs_model_of(r, &desc);
}

typedef struct stopping {
    uint64_t at;
} stopping;

static bool stop_at(void *user, const bo_training_report *report)
{
    return report->step < ((const stopping *)user)->at;
}

/* Runs to the end, or stops at step `at` on request and is abandoned as if killed. */
static bo_status run_part(runs *r, bo_trainer_desc desc, uint64_t at)
{
    stopping where = {at};
    bo_trainer *trainer;
    desc.report = stop_at;
    desc.user = &where;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    const bo_status status = bo_trainer_run(r->context, trainer);
    bo_trainer_destroy(trainer);
    return status;
}

/* A whole run and a run in parts of one kind; each part has a new model. */
static void compare_runs(runs *r, const char *attention, bo_optimizer_kind kind, uint64_t calibrate_every,
                         uint64_t redraw_every)
{
    char whole[64], parted[64];
    snprintf(whole, sizeof whole, "whole-%s-%d", attention, (int)kind);
    snprintf(parted, sizeof parted, "parted-%s-%d", attention, (int)kind);
    bo_model *expected = rich_model(r, attention), *found = NULL;
    bo_trainer_desc desc = rich(r, expected, whole, kind);
    desc.calibrate_every = calibrate_every;
    desc.redraw_every = redraw_every;
    assert_ok(r->context, run_part(r, desc, UINT64_MAX));
    for (uint64_t at = 5; at <= 15; at += 5) {
        bo_model_destroy(found);
        found = rich_model(r, attention);
        desc = rich(r, found, parted, kind);
        desc.calibrate_every = calibrate_every;
        desc.redraw_every = redraw_every;
        desc.resume = true;
        assert_int_equal(run_part(r, desc, at), at < 12 ? BO_CANCELED : BO_OK);
    }
    if (!runs_same_weights(expected, found)) fail_msg("%s, %s: the resumed run differs", attention, optimizers[kind]);
    assert_true(bo_model_fingerprint(expected) == bo_model_fingerprint(found)); /* it includes the frequencies */
    snprintf(whole + strlen(whole), 20, "/metrics.jsonl");
    snprintf(parted + strlen(parted), 20, "/metrics.jsonl");
    assert_int_equal(runs_lines(r, whole), runs_lines(r, parted));
    bo_model_destroy(expected);
    bo_model_destroy(found);
}

static void every_optimizer_resumes(void **state)
{
    for (int kind = 0; kind < BO_OPTIMIZER_COUNT; kind++)
        compare_runs(*state, "rfa-gate", (bo_optimizer_kind)kind, 0, 0);
}

/* Frequencies drawn for data, once or repeatedly, are part of a run. */
static void calibrated_attention_resumes(void **state)
{
    compare_runs(*state, "favor++", BO_OPTIMIZER_MUON, 0, 0);
    compare_runs(*state, "favor#", BO_OPTIMIZER_ADAMW, 4, 0);
}

/* Redrawn frequencies equal those of an uninterrupted run, also after steps at which a draw was due. */
static void redrawn_attention_resumes(void **state)
{
    compare_runs(*state, "rfa-gate", BO_OPTIMIZER_SGD, 0, 5);
    compare_runs(*state, "dark", BO_OPTIMIZER_ADAMW, 0, 1);
    compare_runs(*state, "favor#", BO_OPTIMIZER_MUON, 4, 3);
}

static bo_status copy_file(runs *r, const char *from, const char *to)
{
    char command[512];
    snprintf(command, sizeof command, "cp -r %s/%s %s/%s", r->directory, from, r->directory, to);
    return system(command) == 0 ? BO_OK : BO_IO;
}

/* Killed while checkpoints were written or removed: partial files are removed, lines of later steps are cut, and a
 * complete but unpublished model is published. */
static void remains_are_swept(void **state)
{
    runs *r = *state;
    bo_model *expected = rich_model(r, "rfa-gate"), *found = rich_model(r, "rfa-gate");
    assert_ok(r->context, run_part(r, rich(r, expected, "whole", BO_OPTIMIZER_MUON), UINT64_MAX));
    bo_trainer_desc desc = rich(r, found, "killed", BO_OPTIMIZER_MUON);
    assert_int_equal(run_part(r, desc, 8), BO_CANCELED);
    assert_ok(r->context, copy_file(r, "killed/checkpoints/step-8", "killed/checkpoints/step-9.part"));
    assert_int_equal(truncate(runs_path(r, "killed/checkpoints/step-9.part/model.safetensors"), 100), 0);
    assert_int_equal(unlink(runs_path(r, "killed/model.safetensors")), 0);
    FILE *metrics = fopen(runs_path(r, "killed/metrics.jsonl"), "a");
    fputs("{\"step\": 9, \"steps\": 12}\n{\"step\": 10", metrics);
    fclose(metrics);
    bo_model_destroy(found);
    found = rich_model(r, "rfa-gate");
    desc = rich(r, found, "killed", BO_OPTIMIZER_MUON);
    desc.resume = true;
    bo_trainer *trainer;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_false(runs_exists(r, "killed/checkpoints/step-9.part"));
    assert_true(runs_exists(r, "killed/model.safetensors"));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    bo_trainer_destroy(trainer);
    assert_true(runs_same_weights(expected, found));
    assert_int_equal(runs_lines(r, "whole/metrics.jsonl"), runs_lines(r, "killed/metrics.jsonl"));
    bo_model_destroy(expected);
    bo_model_destroy(found);
}

/* A long run has more lines than fit into a megabyte: it resumes, and lines of completed steps are kept. */
static void long_metrics_stay(void **state)
{
    enum { LINES = 40000 };
    runs *r = *state;
    bo_model *model = rich_model(r, "softmax");
    bo_trainer_desc desc = rich(r, model, "long", BO_OPTIMIZER_ADAMW);
    assert_int_equal(run_part(r, desc, 8), BO_CANCELED);
    FILE *metrics = fopen(runs_path(r, "long/metrics.jsonl"), "w");
    for (int i = 0; i < LINES; i++) fputs("{\"step\": 8, \"steps\": 12, \"loss\": 1.25}\n", metrics);
    fputs("{\"step\": 9", metrics);
    fclose(metrics);
    desc = rich(r, model, "long", BO_OPTIMIZER_ADAMW);
    desc.resume = true;
    bo_trainer *trainer;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_int_equal(runs_lines(r, "long/metrics.jsonl"), LINES);
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
}

/* The directory contains models: last and best load, and the average if there is one. */
static void directory_is_a_model(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate"), *loaded;
    bo_trainer_desc desc = runs_trainer(r, model, "run");
    desc.checkpoint_every = 3;
    desc.keep = 3;
    assert_ok(r->context, run_part(r, desc, UINT64_MAX));
    assert_ok(r->context, bo_model_load(r->context, &(bo_source){.path = runs_path(r, "run")}, NULL, &loaded));
    assert_true(runs_same_weights(model, loaded));
    bo_model_destroy(loaded);
    assert_ok(r->context, bo_model_load(r->context, &(bo_source){.path = runs_path(r, "run/best")}, NULL, &loaded));
    bo_model_destroy(loaded);
    size_t kept = 0;
    DIR *directory = opendir(runs_path(r, "run/checkpoints"));
    for (struct dirent *entry; (entry = readdir(directory));) kept += entry->d_name[0] != '.';
    closedir(directory);
    assert_int_equal(kept, 3);
    assert_true(runs_exists(r, "run/checkpoints/step-12/optimizer.safetensors"));
    bo_model_destroy(model);
}

static bool not_evaluating(void *user, const char *what, double done, double total)
{
    (void)user, (void)done, (void)total;
    return strcmp(what, "evaluating") != 0;
}

/* Stopped during an evaluation: it is repeated, and the best model follows from it. */
static void evaluations_are_made_up_for(void **state)
{
    runs *r = *state;
    bo_context *impatient = NULL;
    const bo_context_desc how = {.threads = 2, .progress = not_evaluating};
    assert_int_equal(bo_context_create(&how, &impatient), BO_OK);
    bo_model *model = runs_model(r, "rfa-gate");
    bo_trainer_desc desc = runs_trainer(r, model, "run");
    bo_trainer *trainer;
    assert_ok(impatient, bo_trainer_create(impatient, &desc, &trainer));
    assert_int_equal(bo_trainer_run(impatient, trainer), BO_CANCELED);
    bo_trainer_destroy(trainer);
    bo_context_destroy(impatient);
    assert_true(runs_exists(r, "run/checkpoints/step-4") && !runs_exists(r, "run/best"));
    desc.directory = runs_path(r, "run");
    desc.resume = true;
    assert_int_equal(run_part(r, desc, 5), BO_CANCELED);
    assert_true(runs_exists(r, "run/best/model.safetensors"));
    bo_model_destroy(model);
}

/* ---- runs with other options ------------------------------------------------------------------------------------- */

static void refused(runs *r, const bo_trainer_desc *desc, const char *message)
{
    bo_trainer *trainer;
    assert_fails(r->context, BO_INVALID, message, bo_trainer_create(r->context, desc, &trainer));
    assert_null(trainer);
}

static void other_runs_are_refused(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate"), *other = runs_model(r, "linear");
    bo_model_desc deeper = runs_desc("rfa-gate");
    deeper.layers = 3;
    bo_model *deep = runs_model_of(r, &deeper);
    bo_trainer_desc good = runs_trainer(r, model, "run");
    assert_int_equal(run_part(r, good, 8), BO_CANCELED);
    refused(r, &good, "already contains a run, at step 8");
    good.resume = true;
    bo_trainer_desc desc = good;
    desc.train.corpus = r->noise;
    refused(r, &desc, "different corpus");
    desc = good;
    desc.model = other;
    refused(r, &desc, "different attention: expected \"rfa\", found \"linear\"");
    desc.model = deep;
    refused(r, &desc, "different layers: expected 2, found 3");
    desc = good;
    desc.batch = 8;
    refused(r, &desc, "different batch: expected 4, found 8");
    desc = good;
    desc.optimizer.kind = BO_OPTIMIZER_ADAMW;
    refused(r, &desc, "different optimizer: expected \"muon\", found \"adamw\"");
    desc = good;
    desc.optimizer.rate = 0.5;
    refused(r, &desc, "different rate");
    desc = good;
    desc.seed = 8;
    refused(r, &desc, "different seed");
    desc = good;
    desc.steps = 20;
    refused(r, &desc, "different number of steps: expected 12, found 20");
    desc = good;
    desc.steps = 0; /* unchanged */
    assert_ok(r->context, run_part(r, desc, UINT64_MAX));
    bo_model_destroy(model);
    bo_model_destroy(other);
    bo_model_destroy(deep);
}

/* Two trainers in one directory would overwrite each other. */
static void directory_is_locked(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate");
    bo_trainer_desc desc = runs_trainer(r, model, "run");
    bo_trainer *first;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &first));
    desc.resume = true;
    refused(r, &desc, "another process is training in this directory");
    bo_trainer_destroy(first);
    assert_ok(r->context, run_part(r, desc, UINT64_MAX));
    bo_model_destroy(model);
}

/* A damaged checkpoint is reported by name. */
static void damage_is_named(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate");
    bo_trainer_desc desc = runs_trainer(r, model, "run");
    bo_trainer *trainer;
    desc.keep = 1;
    assert_int_equal(run_part(r, desc, 8), BO_CANCELED);
    desc.resume = true;
    static const char *const files[] = {"training.json", "optimizer.safetensors", "model.safetensors", "config.json"};
    for (int i = 0; i < 3; i++) {
        char from[96], to[96];
        snprintf(from, sizeof from, "run/checkpoints/step-8/%s", files[i]);
        snprintf(to, sizeof to, "run/checkpoints/step-8/%s.kept", files[i]);
        assert_ok(r->context, copy_file(r, from, to));
        assert_int_equal(unlink(runs_path(r, from)), 0);
        FILE *file = fopen(runs_path(r, from), "w");
        fputs("{\"step\": 8}", file);
        fclose(file);
        runs_path(r, "run");
        const bo_status status = bo_trainer_create(r->context, &desc, &trainer);
        assert_true(status == BO_FORMAT || status == BO_IO || status == BO_INVALID);
        if (!strstr(bo_context_error(r->context), files[i])) fail_msg("%s: %s", files[i], bo_context_error(r->context));
        char command[512];
        snprintf(command, sizeof command, "mv %s/%s %s/%s", r->directory, to, r->directory, from);
        assert_int_equal(system(command), 0);
    }
    runs_path(r, "run");
    assert_ok(r->context, run_part(r, desc, UINT64_MAX));
    bo_model_destroy(model);
}

/* Truncates a file, or flips a bit of its last number. */
static void harm(const char *path, bool flip)
{
    if (!flip) assert_int_equal(truncate(path, 100), 0);
    if (!flip) return;
    FILE *file = fopen(path, "r+");
    assert_int_equal(fseek(file, -4, SEEK_END), 0);
    const int found = fgetc(file);
    assert_int_equal(fseek(file, -4, SEEK_END), 0);
    fputc(found ^ 1, file);
    fclose(file);
}

/* An older checkpoint replaces a damaged one, and the run ends with the same result. */
static void older_checkpoints_help(void **state)
{
    runs *r = *state;
    static const char *const files[] = {"training.json", "optimizer.safetensors", "model.safetensors"};
    bo_model *expected = rich_model(r, "rfa-gate");
    assert_ok(r->context, run_part(r, rich(r, expected, "whole", BO_OPTIMIZER_MUON), UINT64_MAX));
    for (int i = 0; i < 6; i++) {
        char damaged[128];
        bo_model *begun = rich_model(r, "rfa-gate"), *found = rich_model(r, "rfa-gate");
        snprintf(damaged, sizeof damaged, "run-%d/checkpoints/step-8/%s", i, files[i % 3]);
        bo_trainer_desc desc = rich(r, begun, "run-0", BO_OPTIMIZER_MUON);
        r->path[strlen(r->path) - 1] = (char)('0' + i);
        assert_int_equal(run_part(r, desc, 8), BO_CANCELED);
        harm(runs_path(r, damaged), i >= 3);
        desc = rich(r, found, "run-0", BO_OPTIMIZER_MUON);
        r->path[strlen(r->path) - 1] = (char)('0' + i);
        desc.resume = true;
        assert_ok(r->context, run_part(r, desc, UINT64_MAX));
        assert_true(runs_same_weights(expected, found));
        snprintf(damaged, sizeof damaged, "run-%d/checkpoints/step-8.damaged/%s", i, files[i % 3]);
        assert_true(runs_exists(r, damaged));
        bo_model_destroy(begun);
        bo_model_destroy(found);
    }
    bo_model_destroy(expected);
}

/* The last number of the optimizer state is infinite or NaN. */
static void states_are_finite(void **state)
{
    runs *r = *state;
    const float not_a_number = NAN;
    bo_model *model = runs_model(r, "rfa-gate");
    bo_trainer_desc desc = runs_trainer(r, model, "run");
    bo_trainer *trainer;
    desc.keep = 1;
    assert_int_equal(run_part(r, desc, 8), BO_CANCELED);
    static char bytes[1 << 17];
    FILE *file = fopen(runs_path(r, "run/checkpoints/step-8/optimizer.safetensors"), "r+");
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_in_range(size, 1000, sizeof bytes - 1);
    memcpy(bytes + size - sizeof not_a_number, &not_a_number, sizeof not_a_number);
    bo_tensors_seal(bytes, size);
    rewind(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    runs_path(r, "run");
    desc.resume = true;
    assert_fails(r->context, BO_FORMAT, "optimizer.safetensors: tensor '",
                 bo_trainer_create(r->context, &desc, &trainer));
    bo_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_optimizer_resumes, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(calibrated_attention_resumes, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(redrawn_attention_resumes, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(remains_are_swept, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(long_metrics_stay, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(directory_is_a_model, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(evaluations_are_made_up_for, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(older_checkpoints_help, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(states_are_finite, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(other_runs_are_refused, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(directory_is_locked, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(damage_is_named, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
