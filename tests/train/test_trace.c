/* The trace of a training run: every operation of every layer, forward and backward, within the phases of the run. */
#include "runs.h"
#include "../base/traces.h"

/* Number of operations of a scope and a direction. */
static size_t operations(const trace_events *t, const char *scope, const char *direction)
{
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++)
        count += strcmp(t->event[i].category, "operation") == 0 &&
                 strcmp(trace_fact(&t->event[i], "scope"), scope) == 0 &&
                 strcmp(trace_fact(&t->event[i], "direction"), direction) == 0;
    return count;
}

/* Every operation is within its scope, and each scope within forward or backward. */
static void operations_are_placed(const trace_events *t)
{
    int64_t direction = 0, scope = 0;
    const char *name = "";
    for (size_t i = 0; i < t->count; i++) {
        const trace_event *e = &t->event[i];
        const bool graph = strcmp(e->category, "graph") == 0;
        if (graph && (strcmp(e->name, "forward") == 0 || strcmp(e->name, "backward") == 0))
            direction = e->end;
        else if (graph)
            scope = e->end, name = e->name;
        if (strcmp(e->category, "operation") != 0) continue;
        assert_true(e->end <= scope && scope <= direction);
        assert_string_equal(trace_fact(e, "scope"), name);
    }
}

static void train(runs *r, const char *path, int threads, bool checkpointing, bool bfloat16)
{
    bo_context *context = NULL;
    const bo_context_desc desc = {.threads = threads, .trace = path};
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    bo_model_desc of_model = runs_desc("rfa-gate");
    of_model.layers = 3;
    bo_model *model = NULL;
    assert_ok(context, bo_model_create(context, &of_model, r->tokenizer, &model));
    bo_trainer_desc run = runs_trainer(r, model, "traced");
    run.checkpointing = checkpointing;
    if (bfloat16) run.activations = BO_STORAGE_BFLOAT16;
    bo_trainer *trainer;
    assert_ok(context, bo_trainer_create(context, &run, &trainer));
    assert_ok(context, bo_trainer_run(context, trainer));
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
    bo_context_destroy(context);
    nftw(runs_path(r, "traced"), runs_remove, 8, FTW_DEPTH | FTW_PHYS);
}

static void every_layer(void **state)
{
    runs *r = *state;
    for (int way = 0; way < 3; way++) {
        char path[64];
        train(r, trace_path(path), way == 1 ? 4 : 1, way == 1, way == 2);
        trace_events t = trace_parse(path);
        const size_t steps = 12;
        for (size_t layer = 0; layer < 3; layer++) {
            char scope[64];
            for (int part = 0; part < 2; part++) {
                snprintf(scope, sizeof scope, "layer %zu %s", layer, part ? "mlp" : "attention");
                assert_true(operations(&t, scope, "forward") >= 3 * steps);
                assert_true(operations(&t, scope, "backward") >= 3 * steps);
                assert_true(operations(&t, scope, "backward") % steps == 0);
                assert_true((operations(&t, scope, "again") > 0) ==
                            (way == 1 && layer < 2)); /* the last segment is not recomputed */
                assert_true(trace_count(&t, "graph", scope) >= 2 * steps);
            }
        }
        assert_int_equal(trace_count(&t, "operation", "attention backward"), 3 * steps);
        assert_int_equal(trace_count(&t, "graph", "backward"), steps);
        assert_int_equal(trace_count(&t, "train", "step"), steps);
        assert_int_equal(trace_count(&t, "train", "batch"), steps);
        assert_int_equal(trace_count(&t, "train", "optimizer step"), steps);
        assert_int_equal(trace_count(&t, "train", "evaluation"), 3);
        assert_true(trace_count(&t, "train", "checkpoint") >= 1);
        assert_true((trace_count(&t, "task", NULL) > 0) == (way == 1));
        assert_true((trace_count(&t, "operation", "to bfloat16") > 0) == (way == 2));
        operations_are_placed(&t);
        trace_free(&t);
        unlink(path);
    }
}

/* Spans of operations have the shapes and bytes of the layer. */
static void spans_have_arguments(void **state)
{
    runs *r = *state;
    char path[64];
    train(r, trace_path(path), 1, false, false);
    trace_events t = trace_parse(path);
    size_t count = 0;
    for (size_t i = 0; i < t.count; i++) {
        const trace_event *e = &t.event[i];
        if (strcmp(e->name, "embed") != 0 || strcmp(trace_fact(e, "inputs"), "64x1, 256x16") != 0) continue;
        assert_string_equal(trace_fact(e, "outputs"), "64x16"); /* 4 sequences of 16 tokens, width 16 */
        assert_true(bo_json_member(e->args, "bytes")->number >= 64 * 16 * 4);
        count++;
    }
    assert_int_equal(count, 12);
    trace_free(&t);
    unlink(path);
}

/* Tracing does not change any bit. */
static void same_bits(void **state)
{
    runs *r = *state;
    bo_model *models[2];
    for (int way = 0; way < 2; way++) {
        char path[64];
        bo_context *context = NULL;
        const bo_context_desc desc = {.threads = 2, .trace = way ? trace_path(path) : ""};
        assert_int_equal(bo_context_create(&desc, &context), BO_OK);
        models[way] = runs_model(r, "rfa-gate");
        bo_trainer_desc run = runs_trainer(r, models[way], NULL);
        bo_trainer *trainer;
        assert_ok(context, bo_trainer_create(context, &run, &trainer));
        for (int i = 0; i < 4; i++) assert_ok(context, bo_trainer_step(context, trainer, NULL));
        bo_trainer_destroy(trainer);
        bo_context_destroy(context);
        if (way) unlink(path);
    }
    assert_true(runs_same_weights(models[0], models[1]));
    for (int way = 0; way < 2; way++) bo_model_destroy(models[way]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layer), cmocka_unit_test(spans_have_arguments),
                                       cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, runs_setup, runs_teardown);
}
