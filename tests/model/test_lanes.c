/* Lanes: step-by-step decoding from states equals one graph of source and target, for every kind of attention and every
 * mixer; lanes that become copies of others; invalid calls. */
#include <bochner/names.h>
#include "text/packs.h"
#include "model/enums.h"
#include "base/counting.h"
#include "model/lanes.h"
#include "translators.h"

/* ---- steps and whole graphs -------------------------------------------------------------------------------------- */

/* TARGET_ROWS x WORDS logits of the pack. */
static float *whole_logits(bo_context *context, const bo_model *model, const pack *p)
{
    bo_graph_pass pass = {0};
    float *logits = malloc(TARGET_ROWS * PAIR_VOCAB * sizeof *logits);
    bo_model_graph_desc desc = {.outputs = true, .chosen = TARGET_ROWS};
    bo_model_graph g = pack_graph(context, model, p, &desc, &pass);
    assert_ok(context, bo_graph_run(context, g.graph, &pass));
    assert_ok(context, bo_graph_read(context, g.graph, g.outputs, logits));
    bo_model_graph_destroy(&g);
    return logits;
}

/* Feeds the targets to lanes of all sources; finished lanes are removed. */
static void check_steps(bo_context *context, const char *name, const bo_model *model, const pack *p)
{
    float *whole = whole_logits(context, model, p), logits[PAIRS * PAIR_VOCAB];
    bo_text_view sources[PAIRS];
    bo_lanes *lanes;
    size_t begin[PAIRS], of[PAIRS] = {0, 1, 2}, active = PAIRS;
    for (size_t s = 0, at = 0; s < PAIRS; at += target_lengths[s++]) begin[s] = at, sources[s] = pack_source(p, s);
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = PAIRS}, &lanes));
    assert_ok(context, bo_lanes_read(context, lanes, sources, PAIRS));
    for (size_t t = 0; active; t++) {
        int32_t ids[PAIRS];
        size_t from[PAIRS], left = 0;
        for (size_t i = 0; i < active; i++) ids[i] = p->packed.stream.tokens[begin[of[i]] + t];
        assert_ok(context, bo_lanes_step(context, lanes, active, ids, logits));
        for (size_t i = 0; i < active; i++)
            for (size_t w = 0; w < PAIR_VOCAB; w++) {
                double found = (double)logits[i * PAIR_VOCAB + w];
                double truth = (double)whole[(begin[of[i]] + t) * PAIR_VOCAB + w];
                if (!(fabs(found - truth) <= 2e-4))
                    fail_msg("%s: token %zu of target %zu, logit %zu: %g, expected %g", name, t, of[i], w, found,
                             truth);
            }
        for (size_t i = 0; i < active; i++)
            if (t + 1 < target_lengths[of[i]]) from[left] = i, of[left++] = of[i];
        assert_ok(context, bo_lanes_choose(context, lanes, active = left, from));
    }
    bo_lanes_destroy(lanes);
    free(whole);
}

/* An MLP along tokens has matrices of a fixed length; gates and windows depend on time, so cross attention cannot have
 * them. */
static bool is_refused(const char *kind, const char *cross_kind)
{
    bo_attention_desc desc = {0};
    if (cross_kind) assert_true(bo_attention_preset(cross_kind, &desc));
    return test_same_word(kind, "mlp") || desc.gate != BO_GATE_NONE || desc.kind == BO_ATTENTION_HYBRID;
}

/* NULL: the encoder, or cross attention, has the attention of the decoder. */
static void check_kind(bo_context *context, const char *kind, const char *encoder_kind, bo_cross cross,
                       const char *cross_kind)
{
    char name[96];
    pack p;
    bo_model_desc desc = translator_desc(kind);
    pack_create(&p);
    desc.cross = cross;
    if (cross_kind) assert_true(bo_attention_preset(cross_kind, &desc.block.cross_attention));
    if (encoder_kind) test_encode_kind(&desc, encoder_kind);
    desc.block.cross_attention.heads = cross_kind ? desc.block.heads : 0;
    if (is_refused(kind, cross_kind)) {
        bo_model *none;
        assert_int_equal(bo_model_create(context, &desc, NULL, &none), BO_INVALID);
        return;
    }
    snprintf(name, sizeof name, "%s, encoder %s, %s %s", kind, encoder_kind ? encoder_kind : "likewise",
             bo_cross_name(cross), cross_kind ? cross_kind : "");
    bo_model *model = translator(context, &desc);
    check_steps(context, name, model, &p);
    bo_model_destroy(model);
}

static void of_every_mixer(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; test_kind(i); i++) {
        check_kind(context, test_kind(i), NULL, BO_CROSS_ATTENTION, NULL);
        check_kind(context, test_kind(i), NULL, BO_CROSS_SUMMARY, NULL);
    }
    bo_context_destroy(context);
}

static void of_every_cross_attention(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i); i++)
        check_kind(context, i % 2 ? "gru" : "softmax", NULL, BO_CROSS_ATTENTION,
                   bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i));
    bo_context_destroy(context);
}

/* Decoders and encoders with blocks of several kinds. */
static void of_lists_of_blocks(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < LISTS; i++) {
        bo_block blocks[2 * LIST_BLOCKS];
        char name[32];
        pack p;
        pack_create(&p);
        snprintf(name, sizeof name, "list %zu", i);
        const bo_model_desc desc = translator_lists(i, blocks);
        bo_model *model = translator(context, &desc);
        check_steps(context, name, model, &p);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* Encoder, decoder and cross attention of different kinds: exact and linear, causal and not. */
static void of_mixed_parts(void **state)
{
    (void)state;
    static const char *const mixed[][3] = {
        /* decoder, encoder, cross attention */
        {"rfa", "softmax", NULL},       {"softmax", "rfa", NULL},       {"softmax", "rfa", "rfa"},
        {"rfa", "softmax", "softmax"},  {"rfa-gate", "softmax", "rfa"}, {"softmax", "rfa-gate", "favor"},
        {"delta", "hybrid", "softmax"}, {"favor", "gla", "delta"},      {"dark", "softmax", "rfa"},
        {"softmax", "dark", NULL},
    };
    bo_context *context = test_context(2);
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++)
        for (bo_cross cross = 0; cross < 2; cross++)
            check_kind(context, mixed[i][0], mixed[i][1], cross, cross == BO_CROSS_ATTENTION ? mixed[i][2] : NULL);
    bo_context_destroy(context);
}

/* ---- copies of lanes --------------------------------------------------------------------------------------------- */

/* The tokens that each lane has read, so that another lane can read the same. */
typedef struct past {
    size_t source, length;
    int32_t ids[16];
} past;

static void read_again(bo_context *context, const bo_model *model, const pack *p, const past *x, float *logits)
{
    bo_lanes *lane;
    bo_text_view source = pack_source(p, x->source);
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = 1}, &lane));
    if (model->desc.task == BO_MODEL_TASK_TRANSLATE) assert_ok(context, bo_lanes_read(context, lane, &source, 1));
    for (size_t i = 0; i < x->length; i++) assert_ok(context, bo_lanes_step(context, lane, 1, &x->ids[i], logits));
    bo_lanes_destroy(lane);
}

/* Permutations, duplicates, fewer lanes and more lanes again. */
static void check_choices(bo_context *context, const char *name, const bo_model *model)
{
    enum { LANES = 6, TURNS = 8 };
    static const struct {
        size_t active, from[LANES];
    } choices[] = {{6, {5, 4, 3, 2, 1, 0}}, {6, {0, 0, 0, 3, 3, 1}}, {2, {4, 2}},
                   {5, {1, 1, 0, 0, 1}},    {3, {4, 0, 4}},          {6, {2, 0, 1, 2, 2, 0}}};
    pack p;
    past lanes_past[LANES] = {{0}}, next[LANES];
    bo_text_view sources[PAIRS];
    float logits[LANES * PAIR_VOCAB], truth[PAIR_VOCAB];
    bo_lanes *lanes;
    size_t active = LANES;
    pack_create(&p);
    for (size_t s = 0; s < PAIRS; s++) sources[s] = pack_source(&p, s);
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = LANES}, &lanes));
    if (model->desc.task == BO_MODEL_TASK_TRANSLATE) assert_ok(context, bo_lanes_read(context, lanes, sources, PAIRS));
    for (size_t i = 0; i < LANES; i++) lanes_past[i].source = i / (LANES / PAIRS);
    for (size_t turn = 0; turn < TURNS; turn++) {
        int32_t ids[LANES];
        for (size_t i = 0; i < active; i++)
            ids[i] = lanes_past[i].ids[lanes_past[i].length++] = (int32_t)((7 * turn + 3 * i) % PAIR_VOCAB);
        assert_ok(context, bo_lanes_step(context, lanes, active, ids, logits));
        for (size_t i = 0; i < active; i++) {
            read_again(context, model, &p, &lanes_past[i], truth);
            for (size_t w = 0; w < PAIR_VOCAB; w++)
                if (!(fabsf(logits[i * PAIR_VOCAB + w] - truth[w]) <= 2e-4f))
                    fail_msg("%s: turn %zu, lane %zu: logit %zu is %g, expected %g", name, turn, i, w,
                             (double)logits[i * PAIR_VOCAB + w], (double)truth[w]);
        }
        size_t which = turn % (sizeof choices / sizeof *choices);
        for (size_t i = 0; i < choices[which].active; i++) next[i] = lanes_past[choices[which].from[i]];
        memcpy(lanes_past, next, sizeof next);
        active = choices[which].active;
        assert_ok(context, bo_lanes_choose(context, lanes, active, choices[which].from));
    }
    bo_lanes_destroy(lanes);
}

static void lanes_are_copied(void **state)
{
    (void)state;
    static const char *const kinds[] = {"softmax", "rfa-gate", "gru", "ssm"};
    bo_context *context = test_context(2);
    for (size_t i = 0; i < 2 * sizeof kinds / sizeof *kinds; i++) {
        bo_model_desc desc = translator_desc(kinds[i / 2]);
        if (i % 2) desc.task = BO_MODEL_TASK_LANGUAGE, desc.encoder_layers = 0;
        bo_model *model;
        assert_ok(context, bo_model_create(context, &desc, NULL, &model));
        shake(context, model);
        check_choices(context, kinds[i / 2], model);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* ---- many sources ------------------------------------------------------------------------------------------------ */

static void sizes_of_graphs(void **state)
{
    (void)state;
    bo_lanes lanes = {.chunk = 50};
    for (size_t n = 1; n < 5000; n++) {
        size_t below = bo_lanes_size_below(n), above = bo_lanes_size_above(n);
        assert_true(below <= n && n <= above && 4 * (above - n) < above);
        assert_true((below == n) == (above == n));
        if (n <= 64 && below < n) assert_int_equal(bo_lanes_size_below(n - below), n - below);
    }
    static const size_t blocks[][2] = {{1, 1},  {2, 2},   {3, 3},   {5, 4},   {7, 6},
                                       {11, 8}, {13, 12}, {49, 48}, {50, 50}, {900, 50}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        assert_int_equal(bo_lanes_block_below(&lanes, blocks[i][0]), blocks[i][1]);
}

/* More tokens than fit into one run of the encoder, with lengths that leave different amounts of padding. */
static void check_many(bo_context *context, const char *kind, bo_cross cross, size_t count)
{
    enum { MANY = 90, LONGEST = 21 };
    int32_t tokens[LONGEST * MANY], ids[MANY];
    bo_text_view sources[MANY];
    bo_model_desc desc = translator_desc(kind);
    bo_model *model;
    bo_lanes *lanes, *lane;
    float *logits = malloc(MANY * PAIR_VOCAB * sizeof *logits), alone[PAIR_VOCAB];
    desc.cross = cross;
    for (size_t i = 0; i < LONGEST * MANY; i++) tokens[i] = (int32_t)((7 * i + i / 11) % PAIR_VOCAB);
    for (size_t i = 0; i < MANY; i++)
        sources[i] = (bo_text_view){tokens + LONGEST * i, 1 + 13 * i % LONGEST}, ids[i] = END;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    shake(context, model);
    bo_lanes_desc sizes = {.count = count, .source = LONGEST};
    assert_ok(context, bo_lanes_create(context, model, &sizes, &lanes));
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = 1}, &lane));
    assert_ok(context,
              /* other sources were read before and are discarded */
              bo_lanes_read(context, lanes, sources + MANY - count, count));
    assert_ok(context, bo_lanes_read(context, lanes, sources, count));
    assert_ok(context, bo_lanes_step(context, lanes, count, ids, logits));
    for (size_t i = 0; i < count; i++) {
        assert_ok(context, bo_lanes_read(context, lane, &sources[i], 1));
        assert_ok(context, bo_lanes_step(context, lane, 1, ids, alone));
        for (size_t w = 0; w < PAIR_VOCAB; w++)
            if (!(fabsf(logits[i * PAIR_VOCAB + w] - alone[w]) <= 2e-4f))
                fail_msg("%s: source %zu of %zu: logit %zu is %g, expected %g", kind, i, count, w,
                         (double)logits[i * PAIR_VOCAB + w], (double)alone[w]);
    }
    int32_t next[MANY];
    assert_ok(context, bo_lanes_read(context, lanes, sources, count));
    assert_ok(context, bo_lanes_step_greedy(context, lanes, count, ids, next));
    for (size_t i = 0; i < count; i++) {
        int32_t best = 0;
        for (int32_t w = 1; w < PAIR_VOCAB; w++)
            if (logits[i * PAIR_VOCAB + (size_t)w] > logits[i * PAIR_VOCAB + (size_t)best]) best = w;
        assert_int_equal(next[i], best);
    }
    bo_lanes_destroy(lanes);
    bo_lanes_destroy(lane);
    bo_model_destroy(model);
    free(logits);
}

static void many_sources(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < 4; i++) {
        static const size_t counts[] = {90, 3, 61, 17};
        check_many(context, "softmax", BO_CROSS_ATTENTION, counts[i]);
        check_many(context, i % 2 ? "rfa" : "delta", BO_CROSS_ATTENTION, counts[i]);
        check_many(context, "gru", BO_CROSS_SUMMARY, counts[i]);
    }
    bo_context_destroy(context);
}

/* ---- sizes and memory -------------------------------------------------------------------------------------------- */

static size_t state_bytes(bo_context *context, const bo_model *model, size_t capacity, size_t source)
{
    bo_lanes *lanes;
    bo_lanes_desc desc = {.count = 2, .capacity = capacity, .source = source};
    assert_ok(context, bo_lanes_create(context, model, &desc, &lanes));
    size_t bytes = bo_lanes_state_bytes(lanes);
    bo_lanes_destroy(lanes);
    return bytes;
}

/* A state of features has a fixed size; softmax attention keeps every key of the text and of its source. */
static void states_stay_small(void **state)
{
    (void)state;
    static const char *const kinds[] = {"rfa", "favor", "gla", "gru", "softmax"};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bo_model_desc desc = translator_desc(kinds[i]);
        bo_model *model;
        if (test_same_word(kinds[i], "gru")) assert_true(bo_attention_preset("rfa", &desc.block.cross_attention));
        assert_ok(context, bo_model_create(context, &desc, NULL, &model));
        size_t small = state_bytes(context, model, 32, 32), long_text = state_bytes(context, model, 96, 32);
        size_t long_source = state_bytes(context, model, 32, 96);
        if (test_same_word(kinds[i], "softmax")) {
            const size_t keys = LAYERS * 64 * 2 * desc.width * sizeof(float); /* keys and values of 64 more tokens */
            assert_in_range(long_text - small, keys, keys + 1024);
            assert_in_range(long_source - small, keys, keys + 1024);
        } else {
            assert_int_equal(long_text, small);
            assert_int_equal(long_source, small);
        }
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

static void steps_allocate_nothing(void **state)
{
    (void)state;
    static const size_t from[] = {1, 1, 0, 2, 5, 5, 3};
    static const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7};
    for (size_t i = 0; i < 2; i++) {
        counting memory = {0};
        bo_context *context = counting_context(&memory, 1);
        bo_model_desc desc = translator_desc(i ? "gru" : "rfa-gate");
        bo_model *model;
        bo_lanes *lanes;
        pack p;
        float logits[7 * PAIR_VOCAB];
        pack_create(&p);
        desc.cross = i ? BO_CROSS_SUMMARY : BO_CROSS_ATTENTION;
        bo_text_view sources[] = {pack_source(&p, 0), pack_source(&p, 2)};
        assert_ok(context, bo_model_create(context, &desc, NULL, &model));
        assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = 7}, &lanes));
        assert_ok(context, bo_lanes_read(context, lanes, sources, 2));
        assert_ok(context, bo_lanes_step(context, lanes, 7, ids, logits));
        size_t before = atomic_load(&memory.calls);
        for (size_t t = 0; t < 9; t++) {
            assert_ok(context, bo_lanes_choose(context, lanes, 7, from));
            assert_ok(context, bo_lanes_step(context, lanes, 7, ids, logits));
        }
        assert_int_equal(atomic_load(&memory.calls), before);
        bo_lanes_destroy(lanes);
        bo_model_destroy(model);
        bo_context_destroy(context);
    }
}

/* There is one graph per number of lanes: none may reserve memory that only long sequences need. */
static void graphs_stay_small(void **state)
{
    (void)state;
    bo_context *context = test_context(4);
    const bo_model_desc desc = translator_desc("rfa");
    const int32_t id = 1;
    bo_model *model;
    bo_lanes *lanes;
    pack p;
    pack_create(&p);
    const bo_text_view source = pack_source(&p, 0);
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = 1}, &lanes));
    assert_ok(context, bo_lanes_read(context, lanes, &source, 1));
    assert_ok(context, bo_lanes_step(context, lanes, 1, &id, NULL));
    bo_model_graph *graph;
    assert_ok(context, bo_lanes_graph_for(context, lanes, BO_LANES_LAST, 1, 1, &graph));
    assert_in_range(bo_graph_describe(graph->graph)->bytes, 1, 3 << 20);
    bo_lanes_destroy(lanes);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void test_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc desc = translator_desc("softmax");
    bo_model *model;
    bo_lanes *lanes;
    pack p;
    const int32_t good[] = {1, 2}, bad[] = {1, PAIR_VOCAB};
    const size_t beyond[] = {0, 2};
    float logits[2 * PAIR_VOCAB];
    pack_create(&p);
    bo_text_view sources[] = {pack_source(&p, 0), {good, 0}, {bad, 2}, pack_source(&p, 2)};
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_fails(context, BO_INVALID, "count must be 1", bo_lanes_create(context, model, &(bo_lanes_desc){0}, &lanes));
    assert_fails(context, BO_INVALID, "argument 'model' is NULL",
                 bo_lanes_create(context, NULL, &(bo_lanes_desc){.count = 1}, &lanes));
    assert_fails(context, BO_INVALID, "positions are limited",
                 bo_lanes_create(context, model, &(bo_lanes_desc){.count = 1, .source = (size_t)1 << 40}, &lanes));
    bo_lanes_desc small = {.count = 2, .capacity = 3, .source = 8};
    assert_ok(context, bo_lanes_create(context, model, &small, &lanes));
    assert_fails(context, BO_INVALID, "no source has been read", bo_lanes_step(context, lanes, 2, good, logits));
    assert_fails(context, BO_INVALID, "1 to 2 sources", bo_lanes_read(context, lanes, sources, 3));
    assert_fails(context, BO_INVALID, "source 1 should have 1 to 8 tokens, found 0",
                 bo_lanes_read(context, lanes, sources, 2));
    assert_fails(context, BO_INVALID, "token 1 of source 0", bo_lanes_read(context, lanes, sources + 2, 1));
    assert_fails(context, BO_INVALID, "1 to 8 tokens, found 9", bo_lanes_read(context, lanes, sources + 3, 1));
    assert_ok(context, bo_lanes_read(context, lanes, sources, 1));
    assert_fails(context, BO_INVALID, "3 lanes are requested, but there are only 2",
                 bo_lanes_step(context, lanes, 3, good, logits));
    assert_fails(context, BO_INVALID, "lane 1: token 0", bo_lanes_step(context, lanes, 2, bad, logits));
    assert_fails(context, BO_INVALID, "continues lane 2", bo_lanes_choose(context, lanes, 2, beyond));
    for (size_t i = 0; i < 3; i++) assert_ok(context, bo_lanes_step(context, lanes, 2, good, logits));
    assert_fails(context, BO_INVALID, "lane 0: attention softmax keeps all keys, and its capacity is 3",
                 bo_lanes_step(context, lanes, 2, good, logits));
    assert_ok(context, bo_lanes_reset(context, lanes));
    assert_ok(context, bo_lanes_step(context, lanes, 2, good, NULL));
    bo_lanes_destroy(lanes);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_every_mixer),         cmocka_unit_test(of_every_cross_attention),
        cmocka_unit_test(of_mixed_parts),         cmocka_unit_test(of_lists_of_blocks),
        cmocka_unit_test(sizes_of_graphs),        cmocka_unit_test(many_sources),
        cmocka_unit_test(lanes_are_copied),       cmocka_unit_test(states_stay_small),
        cmocka_unit_test(steps_allocate_nothing), cmocka_unit_test(graphs_stay_small),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
