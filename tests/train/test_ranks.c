/* Data-parallel training with threads as ranks: the same curve as with one rank, the same bits on every rank, and
 * agreement on stopping, evaluations and failures. */
#include "runs.h"
#include <pthread.h>

enum { MAX_RANKS = 4 };

/* Sums in the order of the ranks, like the program with MPI. */
typedef struct meeting {
    pthread_barrier_t barrier;
    int size;
    void *parts[MAX_RANKS];
} meeting;

typedef struct member {
    meeting *met;
    int rank;
    runs *r;
    char directory[160];
    bo_trainer_desc desc;
    uint64_t stop_at; /* requests a stop after this step; UINT64_MAX: never */
    double losses[12], valid;
    uint64_t steps;
    bo_status status;
    bo_model *model;
    const char *kind; /* of the model; NULL: rfa-gate */
    bool spoil;       /* one weight is NaN */
} member;

static void *wait_for_all(member *m, void *values)
{
    m->met->parts[m->rank] = values;
    pthread_barrier_wait(&m->met->barrier);
    return values;
}

static bo_status sum(void *user, double *values, size_t count)
{
    member *m = user;
    double *total = calloc(count, sizeof *total);
    wait_for_all(m, values);
    for (int rank = 0; rank < m->met->size; rank++)
        for (size_t i = 0; i < count; i++) total[i] += ((double *)m->met->parts[rank])[i];
    pthread_barrier_wait(&m->met->barrier); /* all ranks have read */
    memcpy(values, total, count * sizeof *total);
    free(total);
    return BO_OK;
}

static bo_status sum_f32(void *user, float *values, size_t count)
{
    member *m = user;
    float *total = calloc(count, sizeof *total);
    wait_for_all(m, values);
    for (int rank = 0; rank < m->met->size; rank++)
        for (size_t i = 0; i < count; i++) total[i] += ((float *)m->met->parts[rank])[i];
    pthread_barrier_wait(&m->met->barrier);
    memcpy(values, total, count * sizeof *total);
    free(total);
    return BO_OK;
}

static bool note(void *user, const bo_training_report *report)
{
    member *m = user;
    if (report->step <= 12) m->losses[report->step - 1] = report->loss;
    m->valid = report->valid_loss;
    return report->step < m->stop_at;
}

static void *work(void *argument)
{
    member *m = argument;
    bo_context *context = test_context(1);
    bo_collective ranks = {.rank = m->rank, .size = m->met->size, .sum = sum, .sum_f32 = sum_f32, .user = m};
    bo_trainer *trainer = NULL;
    bo_model_desc desc = runs_desc(m->kind ? m->kind : "rfa-gate");
    assert_ok(context, bo_model_create(context, &desc, m->r->tokenizer, &m->model));
    m->desc.model = m->model;
    m->desc.ranks = &ranks;
    m->desc.report = note;
    m->desc.user = m;
    if (m->spoil) ((float *)bo_weights_data(m->model->weights))[0] = NAN;
    m->status = bo_trainer_create(context, &m->desc, &trainer);
    if (m->status == BO_OK) m->status = bo_trainer_run(context, trainer);
    if (trainer) m->steps = bo_trainer_report(trainer)->step;
    bo_trainer_destroy(trainer);
    bo_context_destroy(context);
    return NULL;
}

/* `size` ranks run the same descriptor; the caller destroys the models. */
static void run_all(member *members, int size)
{
    meeting met = {.size = size};
    pthread_t threads[MAX_RANKS];
    pthread_barrier_init(&met.barrier, NULL, (unsigned)size);
    for (int i = 0; i < size; i++) {
        members[i].met = &met;
        members[i].rank = i;
        pthread_create(&threads[i], NULL, work, &members[i]);
    }
    for (int i = 0; i < size; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&met.barrier);
}

static void prepare(runs *r, member *members, int size, const char *name, bool stateful)
{
    for (int i = 0; i < size; i++) {
        members[i] = (member){.r = r, .stop_at = UINT64_MAX, .desc = runs_trainer(r, NULL, NULL)};
        members[i].desc.eval_every = 4;
        members[i].desc.redraw_every = stateful ? 9 : 3;
        members[i].desc.stateful = stateful;
        members[i].desc.state_windows = stateful ? 2 : 0;
        if (!name) continue;
        snprintf(members[i].directory, sizeof members[i].directory, "%s", runs_path(r, name));
        members[i].desc.directory = members[i].directory;
    }
}

static void destroy(member *members, int size)
{
    for (int i = 0; i < size; i++) bo_model_destroy(members[i].model);
}

/* The batch is the same; only the order of its sums differs. */
static void compare_curves(runs *r, bool stateful)
{
    member alone, ranks[MAX_RANKS];
    prepare(r, &alone, 1, NULL, stateful);
    run_all(&alone, 1);
    assert_int_equal(alone.status, BO_OK);
    for (int size = 2; size <= MAX_RANKS; size += 2) {
        prepare(r, ranks, size, NULL, stateful);
        run_all(ranks, size);
        for (int i = 0; i < size; i++) {
            assert_int_equal(ranks[i].status, BO_OK);
            assert_true(runs_same_weights(ranks[0].model, ranks[i].model));
            assert_true(bo_model_fingerprint(ranks[i].model) == bo_model_fingerprint(alone.model)); /* frequencies */
        }
        for (int step = 0; step < 12; step++) assert_close(ranks[0].losses[step], alone.losses[step], 1e-4);
        assert_close(ranks[0].valid, alone.valid, 1e-4);
        destroy(ranks, size);
    }
    destroy(&alone, 1);
}

static void the_curve_is_the_same(void **state)
{
    compare_curves(*state, false);
    compare_curves(*state, true);
}

/* Frequencies that are drawn from data: the lanes of the ranks are at different places in their documents. */
static void calibrations_are_the_same(void **state)
{
    member ranks[2];
    prepare(*state, ranks, 2, NULL, true);
    for (int i = 0; i < 2; i++) {
        ranks[i].kind = "favor#";
        ranks[i].desc.documents = true;
        ranks[i].desc.redraw_every = 0;
        ranks[i].desc.calibrate_every = 5;
    }
    run_all(ranks, 2);
    for (int i = 0; i < 2; i++) assert_int_equal(ranks[i].status, BO_OK);
    assert_true(bo_model_fingerprint(ranks[0].model) == bo_model_fingerprint(ranks[1].model));
    assert_true(runs_same_weights(ranks[0].model, ranks[1].model));
    destroy(ranks, 2);
}

/* A stop is requested on rank 0. All ranks stop at the same step, and after resuming have the bits of an uninterrupted
 * run. */
static void stop_and_resume(runs *r, const char *name, bool stateful)
{
    member whole[2], parted[2];
    prepare(r, whole, 2, NULL, stateful);
    run_all(whole, 2);
    for (uint64_t at = 6; at <= 8; at += 2) { /* between two checkpoints, and at a checkpoint */
        prepare(r, parted, 2, name, stateful);
        for (int i = 0; i < 2; i++) parted[i].desc.resume = true;
        parted[0].stop_at = at;
        run_all(parted, 2);
        assert_true(parted[0].status == BO_CANCELED && parted[1].status == BO_CANCELED);
        assert_true(parted[0].steps == at && parted[1].steps == at);
        destroy(parted, 2);
    }
    prepare(r, parted, 2, name, stateful);
    for (int i = 0; i < 2; i++) parted[i].desc.resume = true;
    run_all(parted, 2);
    assert_true(parted[0].status == BO_OK && parted[1].status == BO_OK);
    assert_true(runs_same_weights(whole[0].model, parted[0].model) &&
                runs_same_weights(whole[1].model, parted[1].model));
    destroy(whole, 2);
    destroy(parted, 2);
}

static void stopping_is_agreed(void **state)
{
    stop_and_resume(*state, "ranks", false);
    stop_and_resume(*state, "stateful", true);
}

/* One rank fails: the other does not wait forever. */
static void failure_is_agreed(void **state)
{
    member members[2];
    prepare(*state, members, 2, NULL, false);
    members[1].spoil = true;
    run_all(members, 2);
    assert_true(members[0].status != BO_OK && members[1].status == BO_NUMERIC);
    destroy(members, 2);
}

/* Only rank 0 has the directory of the run: no rank continues, because they would start from different steps. */
static void other_directories_are_refused(void **state)
{
    member members[2];
    prepare(*state, members, 2, "first", false);
    members[0].stop_at = 6;
    run_all(members, 2);
    destroy(members, 2);
    prepare(*state, members, 2, "first", false);
    for (int i = 0; i < 2; i++) members[i].desc.resume = true;
    strcat(members[1].directory, "-elsewhere");
    run_all(members, 2);
    assert_true(members[0].status == BO_IO && members[1].status == BO_INVALID);
    destroy(members, 2);
}

/* A name that no weight has, on one rank. */
static void failure_before_the_start_is_agreed(void **state)
{
    member members[2];
    prepare(*state, members, 2, NULL, false);
    members[1].desc.freeze = "nothing";
    run_all(members, 2);
    assert_true(members[0].status == BO_IO && members[1].status == BO_INVALID);
    destroy(members, 2);
}

static void minutes_are_agreed(void **state)
{
    member members[2];
    prepare(*state, members, 2, NULL, false);
    for (int i = 0; i < 2; i++) {
        members[i].desc.steps = 0;
        members[i].desc.minutes = 0.01;
    }
    run_all(members, 2);
    assert_true(members[0].status == BO_OK && members[1].status == BO_OK);
    assert_true(members[0].steps == members[1].steps && members[0].steps > 3);
    destroy(members, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_curve_is_the_same, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(calibrations_are_the_same, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(stopping_is_agreed, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(failure_is_agreed, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(other_directories_are_refused, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(failure_before_the_start_is_agreed, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(minutes_are_agreed, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
