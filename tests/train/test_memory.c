/* Every allocation of a run fails once: BO_MEMORY, nothing leaks, and a second call succeeds. A step allocates
 * nothing. */
#include "base/counting.h"
#include "runs.h"
#include "train/states.h"

typedef struct setting {
    counting counted;
    bo_context *context;
    bo_trainer_desc desc;
    bool resume;
} setting;

/* A step, an evaluation and a checkpoint; frees its objects. */
static bo_status work(void *what)
{
    setting *s = what;
    bo_trainer *trainer = (bo_trainer *)s;
    bo_status status = bo_trainer_create(s->context, &s->desc, &trainer);
    if (status != BO_OK) {
        assert_null(trainer);
        return status;
    }
    bo_training_score evaluation;
    double loss;
    status = bo_trainer_step(s->context, trainer, &loss);
    if (status == BO_OK) status = bo_trainer_evaluate(s->context, trainer, &evaluation);
    if (status == BO_OK && s->desc.directory) status = bo_trainer_checkpoint(s->context, trainer);
    bo_trainer_destroy(trainer);
    return status;
}

/* The count of operations may be missing. */
static void inject(setting *s)
{
    counting_inject(&(injection){&s->counted, s->context, work, s, 60, 7, "the sequences of a call"});
}

static void fail_everywhere(runs *r, bool stateful)
{
    setting s = {0};
    s.context = counting_context(&s.counted, 1);
    bo_model_desc desc = runs_desc("rfa-gate");
    bo_model *model = NULL;
    desc.layers = 1;
    assert_ok(s.context, bo_model_create(s.context, &desc, r->tokenizer, &model));
    s.desc = runs_trainer(r, model, NULL);
    s.desc.optimizer.average = 0.5;
    s.desc.documents = true;
    s.desc.stateful = stateful;
    s.desc.state_windows = stateful ? 2 : 0;
    assert_ok(s.context, work(&s)); /* the model has gradients from here on */
    inject(&s);
    bo_model_destroy(model);
    bo_context_destroy(s.context);
    assert_true(s.counted.live == 0);
}

static void every_allocation_may_fail(void **state)
{
    fail_everywhere(*state, false);
    fail_everywhere(*state, true);
}

/* With a directory: the run is resumed again and again from the remaining files. */
static void fail_checkpoints(runs *r, const char *kind, bool stateful)
{
    setting s = {0};
    s.context = counting_context(&s.counted, 1);
    bo_model_desc desc = runs_desc(kind);
    bo_model *model = NULL;
    desc.layers = 1;
    assert_ok(s.context, bo_model_create(s.context, &desc, r->tokenizer, &model));
    s.desc = runs_trainer(r, model, kind);
    s.desc.stateful = stateful;
    s.desc.steps = 100000;
    s.desc.resume = true;
    assert_ok(s.context, work(&s));
    inject(&s);
    bo_model_destroy(model);
    bo_context_destroy(s.context);
    assert_true(s.counted.live == 0);
}

static void checkpoints_may_fail(void **state)
{
    fail_checkpoints(*state, "softmax", false);
    fail_checkpoints(*state, "rfa", true);
}

static void count_in_steps(runs *r, bool stateful)
{
    counting counted = {0};
    bo_context *context = counting_context(&counted, 2);
    bo_model_desc desc = runs_desc("rfa-gate");
    bo_model *model = NULL;
    bo_trainer *trainer;
    double loss;
    assert_ok(context, bo_model_create(context, &desc, r->tokenizer, &model));
    bo_trainer_desc run = runs_trainer(r, model, NULL);
    run.micro_batch = 2;
    run.stateful = stateful;
    run.state_windows = stateful ? 3 : 0;
    assert_ok(context, bo_trainer_create(context, &run, &trainer));
    assert_ok(context, bo_trainer_step(context, trainer, &loss));
    const size_t calls = counted.calls;
    for (int i = 0; i < 5; i++) assert_ok(context, bo_trainer_step(context, trainer, &loss));
    assert_int_equal(counted.calls, calls);
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

static void steps_allocate_nothing(void **state)
{
    count_in_steps(*state, false);
    count_in_steps(*state, true);
}

/* The plan of a stateful run counts all memory of its states. */
static void states_are_planned(void **state)
{
    runs *r = *state;
    static const char *const kinds[] = {"rfa", "lstm"};
    for (size_t i = 0; i < 8; i++) {
        counting counted = {0};
        bo_context *context = counting_context(&counted, 1);
        bo_model *model = runs_model(r, kinds[i % 2]);
        const bo_train_states_desc desc = {.model = model,
                                           .lanes = 6,
                                           .share = 6,
                                           .windows = i & 2 ? 3 : 1,
                                           .micro_batch = 2,
                                           .max_runs = i & 4 ? 130 : 0};
        bo_train_states *states;
        const size_t before = counted.bytes, blocks = counted.live;
        assert_ok(context, bo_train_states_create(context, &desc, &states));
        assert_ok(context, bo_train_states_open(context, states, &desc));
        const size_t headers = 64 * (counted.live - blocks); /* of bo_alloc */
        assert_int_equal(counted.bytes - before - headers, bo_train_states_bytes(&desc));
        bo_train_states_destroy(states);
        bo_model_destroy(model);
        bo_context_destroy(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(checkpoints_may_fail, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(steps_allocate_nothing, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(states_are_planned, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
