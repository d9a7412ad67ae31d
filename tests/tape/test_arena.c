/* Memory of tensors: tensors in use at the same time never overlap, and the arena is little larger than the peak of
 * memory in use. */
#include "transformer.h"

/* The peak of bytes in use over all steps: a lower bound for any plan. */
static size_t min_bytes(const bo_graph *graph)
{
    size_t max_bytes = 0;
    for (size_t s = 0; s < graph->steps.count; s++) {
        size_t now = 0;
        for (uint32_t b = 1; b < graph->pieces.count; b++) {
            const bo_arena_piece *piece = bo_arena_piece_at(graph, b);
            if (piece->placement == BO_PLACEMENT_ARENA && piece->first <= s && s <= piece->last) now += piece->bytes;
        }
        if (now > max_bytes) max_bytes = now;
    }
    return max_bytes;
}

static void check_apart(const bo_graph *graph)
{
    for (uint32_t b = 1; b < graph->pieces.count; b++) {
        const bo_arena_piece *one = bo_arena_piece_at(graph, b);
        if (one->placement != BO_PLACEMENT_ARENA) continue;
        assert_int_equal(one->offset % 64 + one->bytes % 64, 0);
        assert_true(one->offset + one->bytes <= graph->info.bytes);
        for (uint32_t c = 1; c < b; c++) {
            const bo_arena_piece *other = bo_arena_piece_at(graph, c);
            bool meet =
                other->placement == BO_PLACEMENT_ARENA && one->first <= other->last && other->first <= one->last;
            if (meet && one->offset < other->offset + other->bytes && other->offset < one->offset + one->bytes)
                fail_msg("pieces %u and %u overlap", b, c);
        }
    }
}

static size_t planned(transformer *t, bool gradients, bool checkpoint, double excess)
{
    transformer_plan(t, (bo_graph_compile_desc){.gradients = gradients, .checkpoint = checkpoint});
    size_t lower = min_bytes(t->graph), bytes = bo_graph_describe(t->graph)->bytes;
    check_apart(t->graph);
    if (bytes < lower || (double)bytes > (double)lower * (1 + excess))
        fail_msg("%s, %zu layers%s%s: %zu bytes, at least %zu", t->desc->attention, t->desc->layers,
                 gradients ? ", gradients" : "", checkpoint ? ", checkpoints" : "", bytes, lower);
    return bytes;
}

static void transformers_take_little_more_than_the_minimum(void **state)
{
    (void)state;
    static const transformer_desc descs[] = {
        {.layers = 4, .width = 128, .heads = 4, .tokens = 256, .sequences = 8, .vocab = 256, .attention = "rfa-gate"},
        {.layers = 6, .width = 384, .heads = 6, .tokens = 1024, .sequences = 2, .vocab = 8192, .attention = "softmax"},
        {.layers = 6, .width = 384, .heads = 6, .tokens = 16384, .sequences = 1, .vocab = 8192, .attention = "favor"},
        {.layers = 12,
         .width = 256,
         .heads = 8,
         .tokens = 300,
         .sequences = 3,
         .vocab = 999,
         .attention = "softmax",
         .dropout = 0.1,
         .gated_mlp = true},
        {.layers = 3, .width = 64, .heads = 2, .tokens = 1, .sequences = 1, .vocab = 256, .attention = "rfa-gate"},
    };
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
        transformer t = transformer_create(context, bo_device_cpu(), &descs[i]);
        size_t inference = planned(&t, false, false, 0.03), all = planned(&t, true, false, 0.03),
               again = planned(&t, true, true, 0.03);
        assert_true(inference <= again && again <= all);
        transformer_drop(&t);
    }
    bo_context_destroy(context);
}

/* With checkpoints an additional layer costs only its first tensor. */
static void a_checkpointed_layer_costs_one_tensor(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    size_t bytes[2];
    transformer_desc desc = {
        .width = 64, .heads = 2, .tokens = 512, .sequences = 1, .vocab = 256, .attention = "softmax"};
    for (size_t i = 0; i < 2; i++) {
        desc.layers = 4 + 4 * i;
        transformer t = transformer_create(context, bo_device_cpu(), &desc);
        bytes[i] = planned(&t, true, true, 0.05);
        transformer_drop(&t);
    }
    size_t tensor = desc.tokens * desc.width * sizeof(float);
    assert_true(bytes[1] - bytes[0] <= 4 * tensor + tensor / 2);
    bo_context_destroy(context);
}

/* Values that wait for backward need half of the memory; the rest, the working set of a few steps, hardly changes. */
static void rounded_values_take_half(void **state)
{
    (void)state;
    static const transformer_desc descs[] = {
        {.layers = 6, .width = 128, .heads = 4, .tokens = 256, .sequences = 8, .vocab = 256, .attention = "softmax"},
        {.layers = 6, .width = 128, .heads = 4, .tokens = 512, .sequences = 2, .vocab = 999, .attention = "favor"},
    };
    bo_context *context = test_context(1);
    for (size_t i = 0; i < 4; i++) {
        transformer t = transformer_create(context, bo_device_cpu(), &descs[i / 2]);
        bo_graph_compile_desc desc = {.gradients = true, .checkpoint = i % 2};
        double all = (double)planned(&t, true, desc.checkpoint, 0.05);
        desc.bfloat16 = true;
        transformer_plan(&t, desc);
        check_apart(t.graph);
        assert_true((double)bo_graph_describe(t.graph)->bytes < 1.05 * (double)min_bytes(t.graph));
        assert_true((double)bo_graph_describe(t.graph)->bytes < (desc.checkpoint ? 0.85 : 0.6) * all);
        desc.gradients = false; /* no value waits */
        transformer_plan(&t, desc);
        size_t forward = bo_graph_describe(t.graph)->bytes;
        assert_int_equal(forward, planned(&t, false, false, 0.05));
        transformer_drop(&t);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transformers_take_little_more_than_the_minimum),
        cmocka_unit_test(a_checkpointed_layer_costs_one_tensor),
        cmocka_unit_test(rounded_values_take_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
