/* The operations of the CPU in whole graphs: the same bits with poisoned dead memory, with checkpoints and with any
 * number of threads; runs allocate nothing. */
#include "watch.h"
#include "transformer.h"
#include "../base/counting.h"

/* ---- the operations of the CPU, watched -------------------------------------------------------------------------- */

#define WATCHED(kind)                                                                                                  \
    static bo_status forward_##kind(bo_context *context, const bo_op_call *call)                                       \
    {                                                                                                                  \
        BO_TRY(before_call(context, call));                                                                            \
        return bo_backend_cpu()->ops[BO_OPERATION_##kind]->forward(context, call);                                     \
    }                                                                                                                  \
    static bo_status backward_##kind(bo_context *context, const bo_op_call *call)                                      \
    {                                                                                                                  \
        BO_TRY(before_call(context, call));                                                                            \
        return bo_backend_cpu()->ops[BO_OPERATION_##kind]->backward(context, call);                                    \
    }
WATCHED(EMBED)
WATCHED(LINEAR)
WATCHED(NORM)
WATCHED(DROPOUT)
WATCHED(ROPE)
WATCHED(ATTENTION)
WATCHED(UNARY)
WATCHED(GLU)
WATCHED(CROSS_ENTROPY)

/* `passes`: gradients of residuals are passed on instead of copied. */
static bo_device *watched_device(bool passes)
{
    static const struct {
        bo_operation kind;
        bo_status (*forward)(bo_context *, const bo_op_call *), (*backward)(bo_context *, const bo_op_call *);
    } watchers[] = {{BO_OPERATION_EMBED, forward_EMBED, backward_EMBED},
                    {BO_OPERATION_LINEAR, forward_LINEAR, backward_LINEAR},
                    {BO_OPERATION_NORM, forward_NORM, backward_NORM},
                    {BO_OPERATION_DROPOUT, forward_DROPOUT, backward_DROPOUT},
                    {BO_OPERATION_ROPE, forward_ROPE, backward_ROPE},
                    {BO_OPERATION_ATTENTION, forward_ATTENTION, backward_ATTENTION},
                    {BO_OPERATION_UNARY, forward_UNARY, backward_UNARY},
                    {BO_OPERATION_GLU, forward_GLU, backward_GLU},
                    {BO_OPERATION_CROSS_ENTROPY, forward_CROSS_ENTROPY, backward_CROSS_ENTROPY}};
    static bo_op ops[BO_OPERATION_COUNT];
    static const bo_op *table[BO_OPERATION_COUNT];
    static bo_backend backend;
    for (size_t i = 0; i < sizeof watchers / sizeof *watchers; i++) {
        bo_operation kind = watchers[i].kind;
        ops[kind] = *bo_backend_cpu()->ops[kind];
        ops[kind].forward = watchers[i].forward;
        ops[kind].backward = watchers[i].backward;
        if (!passes) ops[kind].passes = NULL;
        table[kind] = &ops[kind];
    }
    backend = *bo_backend_cpu();
    backend.ops = table;
    backend.narrow = watched_narrow;
    backend.widen = watched_widen;
    return device_with(&backend);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

typedef struct outcome {
    float loss;
    float *gradients;
    size_t floats;
} outcome;

static void write_inputs(transformer *t)
{
    enum { MAX_ROWS = 1024 };
    size_t rows = t->desc->tokens * t->desc->sequences;
    int32_t tokens[MAX_ROWS], targets[MAX_ROWS], positions[MAX_ROWS];
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.tape", 1));
    assert_true(rows <= MAX_ROWS);
    for (size_t i = 0; i < rows; i++) {
        tokens[i] = (int32_t)bo_rng_below(&rng, t->desc->vocab);
        targets[i] = i % 7 ? (int32_t)bo_rng_below(&rng, t->desc->vocab) : -1;
        positions[i] = (int32_t)(i % t->desc->tokens);
    }
    assert_ok(t->context, bo_graph_write(t->context, t->graph, t->tokens, tokens));
    assert_ok(t->context, bo_graph_write(t->context, t->graph, t->targets, targets));
    assert_ok(t->context, bo_graph_write(t->context, t->graph, t->positions, positions));
}

static void prepare(transformer *t, bo_graph_compile_desc desc)
{
    transformer_plan(t, desc);
    assert_ok(t->context, bo_weights_allocate(t->context, t->weights, true));
    assert_ok(t->context, bo_weights_init(t->context, t->weights, 5));
    assert_ok(t->context, bo_graph_allocate(t->context, t->graph));
    write_inputs(t);
}

typedef struct manner {
    int threads;
    bool gradients, checkpoint, bfloat16, copied, poisoned;
} manner;

static outcome run(const transformer_desc *desc, manner options)
{
    outcome out;
    bo_context *context = test_context(options.threads);
    transformer t = transformer_create(context, watched_device(!options.copied), desc);
    bo_graph_pass pass = {.training = true, .seed = 11};
    bo_graph_compile_desc plan = {
        .gradients = options.gradients, .checkpoint = options.checkpoint, .bfloat16 = options.bfloat16};
    prepare(&t, plan);
    watch_begin(options.poisoned ? t.graph : NULL);
    assert_ok(context, bo_graph_run(context, t.graph, &pass));
    watch_begin(NULL);
    assert_ok(context, bo_graph_read(context, t.graph, t.loss, &out.loss));
    out.floats = bo_weights_floats(t.weights);
    out.gradients = calloc(out.floats, sizeof(float));
    memcpy(out.gradients, bo_weights_gradients(t.weights)->data, out.floats * sizeof(float));
    transformer_drop(&t);
    bo_context_destroy(context);
    return out;
}

static void check_same(const char *label, const outcome *a, const outcome *b)
{
    if (memcmp(&a->loss, &b->loss, sizeof(float)))
        fail_msg("%s: loss %.9g and %.9g", label, (double)a->loss, (double)b->loss);
    for (size_t i = 0; i < a->floats; i++)
        if (memcmp(a->gradients + i, b->gradients + i, sizeof(float)))
            fail_msg("%s: gradient %zu is %.9g and %.9g", label, i, (double)a->gradients[i], (double)b->gradients[i]);
}

static const transformer_desc descs[] = {
    {.layers = 3, .width = 32, .heads = 2, .tokens = 40, .sequences = 3, .vocab = 61, .attention = "rfa-gate"},
    {.layers = 3,
     .width = 24,
     .heads = 3,
     .tokens = 33,
     .sequences = 2,
     .vocab = 300,
     .attention = "softmax",
     .dropout = 0.2,
     .gated_mlp = true},
    {.layers = 2, .width = 32, .heads = 2, .tokens = 50, .sequences = 1, .vocab = 20, .attention = "favor"},
};
enum { DESCS = sizeof descs / sizeof *descs };

static void memory_checkpoints_and_threads_change_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < DESCS; i++) {
        outcome plain = run(&descs[i], (manner){.threads = 1, .gradients = true});
        outcome poisoned = run(&descs[i], (manner){.threads = 1, .gradients = true, .poisoned = true});
        outcome again = run(&descs[i], (manner){.threads = 2, .gradients = true, .checkpoint = true, .poisoned = true});
        outcome copied = run(&descs[i], (manner){.threads = 1, .gradients = true, .copied = true});
        outcome forward = run(&descs[i], (manner){.threads = 1, .poisoned = true});
        double sum = 0;
        check_same("poisoned", &plain, &poisoned);
        check_same("checkpointed", &plain, &again);
        check_same("copied", &plain, &copied);
        assert_true(isfinite(plain.loss) && plain.loss > 0);
        for (size_t j = 0; j < plain.floats; j++) sum += fabs((double)plain.gradients[j]);
        assert_true(isfinite(sum) && sum > 0);
        /* Forward only may sum in another order than forward within backward: two sums of losses of about log v each
         * agree up to rounding. */
        assert_close(forward.loss, plain.loss, 1e-5 * plain.loss);
        free(plain.gradients), free(forward.gradients), free(poisoned.gradients), free(again.gradients),
            free(copied.gradients);
    }
}

/* |a - b| / |a| of the gradients. */
static double distance(const outcome *a, const outcome *b)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < a->floats; i++) {
        difference +=
            ((double)a->gradients[i] - (double)b->gradients[i]) * ((double)a->gradients[i] - (double)b->gradients[i]);
        size += (double)a->gradients[i] * (double)a->gradients[i];
    }
    return sqrt(difference / size);
}

/* The loss has the same bits; gradients differ by rounding errors of 2^-8, which grow only as the root of their number;
 * the number of threads and poisoned memory do not change any bit. */
static void values_may_wait_as_bfloat16(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * DESCS; i++) {
        const transformer_desc *desc = &descs[i / 2];
        manner options = {.threads = 1, .gradients = true, .checkpoint = i % 2};
        outcome exact = run(desc, options);
        options.bfloat16 = true;
        outcome half = run(desc, options);
        options.threads = 2, options.poisoned = true;
        outcome poisoned = run(desc, options);
        check_same("poisoned", &half, &poisoned);
        assert_memory_equal(&exact.loss, &half.loss, sizeof(float));
        double off = distance(&exact, &half);
        if (!(off > 0 && off < 0x1p-6)) fail_msg("%s: gradients are off by %g", desc->attention, off);
        free(exact.gradients), free(half.gradients), free(poisoned.gradients);
    }
}

/* Along the gradient the loss changes as predicted: tests all operations and the tape together. */
static void the_gradient_is_one(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < DESCS; i++) {
        transformer t = transformer_create(context, bo_device_cpu(), &descs[i]);
        prepare(&t, (bo_graph_compile_desc){.gradients = true, .checkpoint = true});
        bo_graph_pass pass = {.training = true, .seed = 11};
        assert_ok(context, bo_graph_run(context, t.graph, &pass));
        size_t floats = bo_weights_floats(t.weights);
        float *w = bo_weights_data(t.weights), *start = calloc(floats, sizeof *w), *g = calloc(floats, sizeof *g);
        memcpy(start, w, floats * sizeof *w);
        memcpy(g, bo_weights_gradients(t.weights)->data, floats * sizeof *g);
        double squares = 0, slope = 0, step = 2e-3;
        for (size_t j = 0; j < floats; j++) squares += (double)g[j] * (double)g[j];
        for (int sign = -1; sign <= 1; sign += 2) {
            float loss;
            for (size_t j = 0; j < floats; j++)
                w[j] = (float)((double)start[j] + sign * step * (double)g[j] / sqrt(squares));
            assert_ok(context, bo_graph_run(context, t.graph, &pass));
            assert_ok(context, bo_graph_read(context, t.graph, t.loss, &loss));
            slope += sign * (double)loss / (2 * step);
        }
        /* The loss has an error of about 1e-6, which division by 2 step makes 3e-4; the third derivative adds step². */
        assert_close(slope / sqrt(squares), 1, 5e-3);
        free(start), free(g);
        transformer_drop(&t);
    }
    bo_context_destroy(context);
}

static void runs_allocate_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < DESCS; i++) {
        counting c = {0};
        bo_context *context = counting_context(&c, 1);
        transformer t = transformer_create(context, bo_device_cpu(), &descs[i]);
        bo_graph_pass pass = {.training = true, .seed = 3};
        prepare(&t, (bo_graph_compile_desc){.gradients = true, .checkpoint = true});
        size_t before = c.calls;
        for (int n = 0; n < 2; n++) assert_ok(context, bo_graph_run(context, t.graph, &pass));
        if (c.calls != before) fail_msg("%s: %zu allocations in a run", descs[i].attention, c.calls - before);
        transformer_drop(&t);
        bo_context_destroy(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_checkpoints_and_threads_change_no_bit),
        cmocka_unit_test(values_may_wait_as_bfloat16),
        cmocka_unit_test(the_gradient_is_one),
        cmocka_unit_test(runs_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
