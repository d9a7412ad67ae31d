/* Every allocation of a run on texts fails once: BO_MEMORY, nothing leaks, and a second call succeeds. */
#include "base/counting.h"
#include "lines.h"

typedef struct setting {
    counting counted;
    bo_context *context;
    bo_trainer_desc desc;
} setting;

/* A step and an evaluation; frees its objects. */
static bo_status work(void *what)
{
    setting *s = what;
    bo_trainer *trainer = (bo_trainer *)s;
    bo_training_score score;
    double loss;
    bo_status status = bo_trainer_create(s->context, &s->desc, &trainer);
    if (status != BO_OK) {
        assert_null(trainer);
        return status;
    }
    status = bo_trainer_step(s->context, trainer, &loss);
    if (status == BO_OK) status = bo_trainer_evaluate(s->context, trainer, &score);
    bo_trainer_destroy(trainer);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    runs *r = *state;
    static const char *const kinds[] = {"", "rfa-gate", "softmax", "favor++"};
    for (bo_model_task task = BO_MODEL_TASK_CLASSIFY; task <= BO_MODEL_TASK_TRANSLATE; task++) {
        setting s = {0};
        s.context = counting_context(&s.counted, 1);
        lines l = make_lines(r, task);
        bo_model_desc desc = model_desc(task, kinds[task], &l);
        bo_model *model = NULL;
        desc.layers = 1;
        assert_ok(s.context, bo_model_create(s.context, &desc, r->tokenizer, &model));
        s.desc = describe(r, model, &l, NULL);
        s.desc.eval_tokens = 100;
        assert_ok(s.context, work(&s)); /* the model has gradients from here on */
        counting_inject(&(injection){&s.counted, s.context, work, &s, 60, 7, "the sequences of a call"});
        bo_model_destroy(model);
        bo_context_destroy(s.context);
        assert_true(s.counted.live == 0);
        close_lines(&l);
    }
}

/* Epochs are laid out in existing memory: two epochs, step by step. */
static void steps_allocate_nothing(void **state)
{
    runs *r = *state;
    setting s = {0};
    s.context = counting_context(&s.counted, 2);
    lines l = make_lines(r, BO_MODEL_TASK_TRANSLATE);
    const bo_model_desc desc = model_desc(BO_MODEL_TASK_TRANSLATE, "rfa", &l);
    bo_model *model = NULL;
    bo_trainer *trainer;
    double loss;
    assert_ok(s.context, bo_model_create(s.context, &desc, r->tokenizer, &model));
    s.desc = describe(r, model, &l, NULL);
    s.desc.micro_batch = 2;
    assert_ok(s.context, bo_trainer_create(s.context, &s.desc, &trainer));
    assert_ok(s.context, bo_trainer_step(s.context, trainer, &loss));
    const size_t calls = s.counted.calls;
    for (int i = 0; i < 11; i++) assert_ok(s.context, bo_trainer_step(s.context, trainer, &loss));
    assert_int_equal(s.counted.calls, calls);
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
    close_lines(&l);
    bo_context_destroy(s.context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(steps_allocate_nothing, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
