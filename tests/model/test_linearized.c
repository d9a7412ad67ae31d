/* Linearized models, some of whose layers keep their attention: lists of layers, files, sessions, lanes, states, stored
 * weights, adapters, and replacements of attention that change nothing. */
#include <bochner/names.h>
#include "adapted.h"
#include "io/tensors.h"
#include "model/config.h"
#include "model/internal.h"
#include "model/lanes.h"

enum { DEEP = 4 };

static bo_model_desc deep_desc(const char *kind)
{
    bo_model_desc desc = test_desc(kind);
    desc.layers = DEEP;
    return desc;
}

/* Describes a linearized model: the layers of the list `kept` have the attention `replaced`, and the other layers have
 * the attention of `desc` in its place. `blocks` has one entry per layer. */
static void linearize(bo_context *context, bo_model_desc *desc, const bo_attention_desc *replaced, const char *kept,
                      bo_block *blocks)
{
    bool keeps[DEEP] = {false};
    assert_ok(context, bo_layers_list(context, "test", kept, desc, keeps));
    for (size_t i = 0; i < desc->layers; i++) {
        blocks[i] = desc->block;
        blocks[i].query_norm = bo_query_norm(&desc->block.attention); /* both attentions share its weights */
        *(keeps[i] ? &blocks[i].attention : &blocks[i].replaced) = *replaced;
        if (!keeps[i]) blocks[i].replaced.heads = desc->block.heads; /* softmax is all zero otherwise */
    }
    desc->blocks = blocks;
    desc->block_count = desc->layers;
}

/* A model whose other layers have softmax attention. */
static bo_model *mixed(bo_context *context, const char *kind, const char *kept)
{
    bo_model_desc desc = deep_desc(kind);
    bo_block blocks[DEEP];
    bo_model *model;
    linearize(context, &desc, &(bo_attention_desc){.heads = 0}, kept, blocks);
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    shake(context, model);
    return model;
}

static bool keeps(const bo_model *model, size_t layer)
{
    return !bo_block_replaces(bo_model_block(&model->desc, layer));
}

/* Presets whose frequencies are not drawn from data. */
static const char *mixed_kind(size_t index)
{
    for (size_t i = 0;; i++) {
        const char *name = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i);
        bo_attention_desc desc = {.features = {.features = 0}};
        if (!name) return NULL;
        assert_true(bo_attention_preset(name, &desc));
        if (desc.proposal == BO_PROPOSAL_NONE && desc.features.sampling != BO_SAMPLING_OPTIMAL && index-- == 0)
            return name;
    }
}

/* The logits of all rows, by one graph without states. */
static void logits_of(bo_context *context, const bo_model *model, const int32_t *ids, size_t count, float *logits)
{
    bo_model_graph g;
    int32_t positions[CONTEXT];
    for (size_t i = 0; i < count; i++) positions[i] = (int32_t)i;
    const bo_model_graph_desc desc = {.rows = count, .outputs = true, .chosen = count};
    assert_ok(context, bo_model_graph_create(context, model, &desc, &g));
    assert_ok(context, bo_graph_allocate(context, g.graph));
    assert_ok(context, bo_graph_write(context, g.graph, g.tokens, ids));
    if (g.positions) assert_ok(context, bo_graph_write(context, g.graph, g.positions, positions));
    assert_ok(context, bo_graph_run(context, g.graph, NULL));
    assert_ok(context, bo_graph_read(context, g.graph, g.outputs, logits));
    bo_model_graph_destroy(&g);
}

/* True if the models give the same bits. */
static bool same_logits(bo_context *context, const bo_model *a, const bo_model *b)
{
    const size_t vocab = a->desc.vocab, count = a->desc.context < 16 ? a->desc.context : 16;
    int32_t ids[16];
    float *logits = malloc(2 * count * vocab * sizeof *logits);
    for (size_t i = 0; i < count; i++) ids[i] = (int32_t)((7 * i + 3) % vocab);
    logits_of(context, a, ids, count, logits);
    logits_of(context, b, ids, count, logits + count * vocab);
    const bool same = memcmp(logits, logits + count * vocab, count * vocab * sizeof *logits) == 0;
    free(logits);
    return same;
}

/* ---- lists of layers --------------------------------------------------------------------------------------------- */

static void lists_of_layers(void **state)
{
    (void)state;
    static const struct {
        const char *list, *kept;
    } good[] = {{"", "...."},    {"0", "x..."},   {"3", "...x"},   {"0,2-3", "x.xx"}, {"1-3", ".xxx"},
                {"3,1", ".x.x"}, {"1,1", ".x.."}, {"1-1", ".x.."}, {"2-3,3", "..xx"}, {"00,02", "x.x."}};
    static const char *const malformed[] = {"a",    "0,", ",0",    "0-",   "-1",  "0--1",    "2-1",
                                            "0 1",  " 0", "0 ",    "0;1",  "+1",  "0x1",     "1.5",
                                            "0,,1", ",",  "0-1-2", "none", "0,b", "\xc3\xa9"};
    static const char *const outside[] = {"4", "0-4", "18446744073709551616", "0-99999999999999999999", "1,4"};
    static const char *const all[] = {"0-3", "0,1,2,3", "2-3,0-1", "0-2,1-3"};
    bo_context *context = test_context(1);
    const bo_model_desc softmax = deep_desc("softmax"), dark = deep_desc("dark");
    bo_model *teacher = test_model(context, &softmax, NULL), *model;
    bo_replacement_desc desc = {.attention = dark.block.attention};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        desc.kept_layers = good[i].list;
        assert_ok(context, bo_model_replace_attention(context, teacher, &desc, &model));
        for (size_t l = 0; l < DEEP; l++) {
            const bo_attention_kind kind = bo_attention_describe(bo_model_attention(model, l))->kind;
            assert_int_equal(keeps(model, l), good[i].kept[l] == 'x');
            assert_int_equal(kind, good[i].kept[l] == 'x' ? BO_ATTENTION_SOFTMAX : BO_ATTENTION_DARK);
        }
        bo_model_destroy(model);
    }
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        desc.kept_layers = malformed[i];
        assert_fails(context, BO_INVALID, "kept_layers must list",
                     bo_model_replace_attention(context, teacher, &desc, &model));
        assert_null(model);
    }
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        desc.kept_layers = outside[i];
        assert_fails(context, BO_INVALID, "must be below 4",
                     bo_model_replace_attention(context, teacher, &desc, &model));
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        desc.kept_layers = all[i];
        assert_fails(context, BO_INVALID, "at least one of 4 layers",
                     bo_model_replace_attention(context, teacher, &desc, &model));
    }
    bo_model_destroy(teacher);
    bo_context_destroy(context);
}

/* Other tasks and mixers replace no attention. A kind alone sets it. */
static void where_it_is_allowed(void **state)
{
    (void)state;
    static const char *const labels[] = {"no", "yes"};
    bo_context *context = test_context(1);
    bo_model *model;
    bo_model_desc desc = deep_desc("dark");
    desc.block.replaced.heads = desc.block.heads;
    desc.task = BO_MODEL_TASK_CLASSIFY, desc.classes = 2, desc.labels = labels;
    assert_fails(context, BO_INVALID, "task language", bo_model_create(context, &desc, NULL, &model));
    desc = deep_desc("lstm");
    desc.block.replaced.heads = desc.block.heads;
    assert_fails(context, BO_INVALID, "mixer attention", bo_model_create(context, &desc, NULL, &model));
    desc = deep_desc("dark");
    desc.block.replaced.kind = BO_ATTENTION_POWER;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_true(bo_model_is_linearized(&model->desc));
    bo_model_destroy(model);
    desc.block.replaced = (bo_attention_desc){.window = 3};
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_true(bo_model_is_linearized(&model->desc));
    assert_int_equal(model->desc.block.replaced.window, 3);
    bo_model_destroy(model);
    desc.block.replaced = (bo_attention_desc){0};
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_false(bo_model_is_linearized(&model->desc));
    bo_model_destroy(model);
    desc.block.replaced = (bo_attention_desc){.heads = 5};
    assert_fails(context, BO_INVALID, "heads", bo_model_create(context, &desc, NULL, &model));
    bo_context_destroy(context);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void check_file(test_directory *directory, const bo_model *model, const char *path)
{
    bo_context *context = directory->context;
    bo_model *again;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = path}));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = path}, NULL, &again));
    assert_int_equal(bo_model_fingerprint(model), bo_model_fingerprint(again));
    for (size_t i = 0; i < DEEP; i++) {
        const bo_block *a = bo_model_block(&model->desc, i), *b = bo_model_block(&again->desc, i);
        assert_int_equal(bo_block_replaces(a), bo_block_replaces(b));
        assert_int_equal(a->replaced.kind, b->replaced.kind);
        assert_int_equal(a->replaced.window, b->replaced.window);
        assert_close(a->replaced.scale, b->replaced.scale, 0);
    }
    assert_true(bo_model_is_linearized(&again->desc));
    assert_true(same_logits(context, model, again));
    bo_model_destroy(again);
}

static void round_trip(void **state)
{
    test_directory *directory = *state;
    static const char *const lists[] = {"", "0,2-3", "3"};
    for (size_t i = 0; mixed_kind(i); i++) {
        bo_model *model = mixed(directory->context, mixed_kind(i), lists[i % 3]);
        check_file(directory, model, test_path(directory, "directory"));
        check_file(directory, model, test_path(directory, "one.safetensors"));
        bo_model_destroy(model);
    }
}

/* The same weights with other kept layers, or another attention that is replaced, are another model: the state of one
 * does not fit the other. */
static void fingerprints_differ(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    uint64_t found[8];
    size_t count = 0;
    for (int i = 0; i < 8; i++) {
        bo_model *model;
        bo_model_desc desc = deep_desc("linear");
        bo_attention_desc replaced = {.heads = desc.block.heads};
        bo_block blocks[DEEP];
        desc.block.attention.gate = BO_GATE_NONE;
        if (i == 4) replaced.window = 5;
        if (i == 5) replaced.scale = 0.5;
        if (i == 6) replaced.kind = BO_ATTENTION_POWER;
        if (i == 7) replaced.kind = BO_ATTENTION_POWER, replaced.power = 4;
        if (i > 0) linearize(context, &desc, &replaced, i == 1 ? "0" : i == 2 ? "1" : i == 3 ? "0-1" : "", blocks);
        assert_ok(context, bo_model_create(context, &desc, NULL, &model));
        found[count] = bo_model_fingerprint(model);
        for (size_t j = 0; j < count; j++)
            if (found[j] == found[count]) fail_msg("models %zu and %zu have the same fingerprint", j, count);
        count++;
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* config.json of format 3 with a second attention: members that are missing or wrong. */
static void bad_configurations(void **state)
{
    test_directory *directory = *state;
    static const struct {
        const char *members, *message;
    } cases[] = {{"\"kept_attention\": {\"kind\": \"softmax\"}", "kept_layers"},
                 {"\"kept_attention\": {\"kind\": \"softmax\"}, \"kept_layers\": 3", "kept_layers"},
                 {"\"kept_attention\": {\"kind\": \"softmax\"}, \"kept_layers\": [0]", "kept_layers"},
                 {"\"kept_attention\": {\"kind\": \"soft\"}, \"kept_layers\": \"0\"", "kept_attention"},
                 {"\"kept_attention\": 3, \"kept_layers\": \"0\"", "kept_attention"},
                 {"\"kept_attention\": {\"kind\": \"softmax\"}, \"kept_layers\": \"7\"", "kept_layers"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        bo_config config;
        bo_model_desc resolved;
        snprintf(text, sizeof text,
                 "{\"model_type\": \"bochner\", \"bochner_format\": 3, \"vocab_size\": 100, \"hidden_size\": 16, "
                 "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"max_position_embeddings\": 32, "
                 "\"attention\": {\"kind\": \"dark\", \"features\": {\"features\": 8}}, %s}",
                 cases[i].members);
        bo_status status = bo_config_read(directory->context, "config.json", text, strlen(text), &config);
        if (status == BO_OK) {
            status = bo_model_resolve(directory->context, &config.desc, NULL, &resolved);
            if (status == BO_OK) bo_model_desc_release(&resolved);
            bo_config_free(&config);
        }
        if (status == BO_OK || !strstr(bo_context_error(directory->context), cases[i].message))
            fail_msg("%s: %s, %s", cases[i].members, bo_status_string(status), bo_context_error(directory->context));
    }
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

/* Losses are about 5.5 and pass four layers of float32 sums of dozens of terms: errors of several 1e-6; ridge attention
 * also solves linear systems. Twice the bound of test_sessions.c, for twice the layers. */
static void check_steps(bo_context *context, const char *kind, const bo_model *model)
{
    int32_t ids[CONTEXT + 1];
    float whole[CONTEXT], loss;
    bo_session *session;
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, whole));
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    for (size_t i = 0; i < CONTEXT; i++) {
        assert_ok(context, bo_session_read(context, session,
                                           &(bo_session_reading){
                                               .ids = ids + i, .count = 1, .losses = &loss, .targets = ids + i + 1}));
        if (!(fabsf(loss - whole[i]) <= 4e-4f))
            fail_msg("%s, token %zu: %g, expected %g", kind, i, (double)loss, (double)whole[i]);
    }
    bo_session_destroy(session);
}

static void steps_equal_the_whole(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; mixed_kind(i); i++) {
        bo_model *model = mixed(context, mixed_kind(i), "0,2");
        check_steps(context, mixed_kind(i), model);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* Only layers that keep softmax attention have a state that grows with the capacity, by 2 key heads x 8 columns of keys
 * and as many of values, of 4 bytes each. */
static void states_grow_with_kept_layers(void **state)
{
    (void)state;
    static const char *const lists[] = {"", "1", "0,2-3"};
    static const size_t kept[] = {0, 1, 3};
    bo_context *context = test_context(1);
    for (int i = 0; i < 3; i++) {
        bo_model *model = mixed(context, "dark", lists[i]);
        size_t small, large;
        assert_ok(context, bo_session_estimate(context, model, &(bo_session_desc){.capacity = 1024}, &small, NULL));
        assert_ok(context, bo_session_estimate(context, model, &(bo_session_desc){.capacity = 3072}, &large, NULL));
        assert_int_equal(large - small, kept[i] * 2048 * 2 * 2 * 8 * sizeof(float));
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

static void states_continue(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    static const char *const kinds[] = {"dark", "hybrid", "gla", "rfa-gate"};
    for (int k = 0; k < 4; k++) {
        bo_model *model = mixed(context, kinds[k], "0,3"), *other = mixed(context, kinds[k], "0,2");
        bo_session *session, *again, *wrong;
        int32_t ids[CONTEXT];
        float first[VOCAB], second[VOCAB];
        const char *path = test_path(directory, "state");
        test_tokens(CONTEXT, ids);
        assert_ok(context, bo_session_create(context, model, NULL, &session));
        assert_ok(context, bo_session_create(context, model, NULL, &again));
        assert_ok(context, bo_session_create(context, other, NULL, &wrong));
        assert_ok(context, bo_session_feed(context, session, ids, 20, first));
        assert_ok(context, bo_session_save(context, session, &(bo_sink){.path = path}));
        assert_ok(context, bo_session_load(context, again, &(bo_source){.path = path}));
        assert_int_not_equal(bo_session_load(context, wrong, &(bo_source){.path = path}), BO_OK);
        for (size_t i = 20; i < CONTEXT; i++) {
            assert_ok(context, bo_session_feed(context, session, ids + i, 1, first));
            assert_ok(context, bo_session_feed(context, again, ids + i, 1, second));
            assert_memory_equal(first, second, sizeof first);
        }
        bo_session_destroy(session), bo_session_destroy(again), bo_session_destroy(wrong);
        bo_model_destroy(model), bo_model_destroy(other);
    }
}

/* Lanes that read different texts token by token return the same as separate graphs. */
static void lanes_equal_the_whole(void **state)
{
    (void)state;
    enum { COUNT = 3, TOKENS = 24 };
    static float whole[COUNT][TOKENS * VOCAB], logits[COUNT * VOCAB];
    bo_context *context = test_context(2);
    static const char *const kinds[] = {"dark", "hybrid", "softmax", "delta"};
    for (int k = 0; k < 4; k++) {
        bo_model *model = mixed(context, kinds[k], "1-2");
        bo_lanes *lanes;
        int32_t ids[COUNT * TOKENS], step[COUNT];
        test_tokens(COUNT * TOKENS, ids);
        for (size_t l = 0; l < COUNT; l++) logits_of(context, model, ids + l * TOKENS, TOKENS, whole[l]);
        assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = COUNT}, &lanes));
        for (size_t l = 0; l < COUNT; l++) assert_ok(context, bo_lanes_restart(context, lanes, l));
        for (size_t t = 0; t < TOKENS; t++) {
            for (size_t l = 0; l < COUNT; l++) step[l] = ids[l * TOKENS + t];
            assert_ok(context, bo_lanes_step(context, lanes, COUNT, step, logits));
            for (size_t l = 0; l < COUNT; l++)
                for (size_t v = 0; v < VOCAB; v++) /* as in check_steps */
                    assert_close((double)logits[l * VOCAB + v], (double)whole[l][t * VOCAB + v], 4e-4);
        }
        bo_lanes_destroy(lanes);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Weights in fewer bits: sessions of the mixed model work, and BFLOAT16 survives a file bit for bit. */
static void stored_weights(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    for (int i = 0; i < 2; i++) {
        bo_model *model = mixed(context, i ? "hybrid" : "dark", "0,2"), *again;
        assert_ok(context, bo_model_set_storage(context, model, BO_STORAGE_BFLOAT16));
        check_steps(context, "bfloat16", model);
        assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = test_path(directory, "stored")}));
        assert_ok(context, bo_model_load(context, &(bo_source){.path = test_path(directory, "stored")},
                                         &(bo_model_load_desc){.storage = BO_STORAGE_BFLOAT16}, &again));
        assert_int_equal(bo_model_fingerprint(model), bo_model_fingerprint(again));
        assert_true(same_logits(context, model, again));
        bo_model_destroy(model), bo_model_destroy(again);
        model = mixed(context, i ? "hybrid" : "dark", "0,2");
        assert_ok(context, bo_model_set_storage(context, model, BO_STORAGE_INT8));
        check_steps(context, "int8", model);
        bo_model_destroy(model);
    }
}

/* Adapters of all layers, and new parameters trained in full: merged weights compute the same function, and unmerging
 * restores the model bit for bit. */
static void adapters(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    static float before[CONTEXT * VOCAB], after[CONTEXT * VOCAB];
    int32_t ids[CONTEXT];
    test_tokens(CONTEXT, ids);
    static const char *const kinds[] = {"dark", "hedgehog", "rfa-gate", "hybrid"};
    for (int k = 0; k < 4; k++) {
        bo_model *model = mixed(context, kinds[k], "1"), *same = mixed(context, kinds[k], "1"), *loaded;
        char *whole;
        assert_ok(context, bo_model_new_parameters(context, model, &whole));
        assert_true(*whole);
        const bo_lora_desc lora = {.rank = 2, .whole = whole};
        assert_ok(context, bo_model_try_adapters(context, model, &lora));
        assert_true(count_other(model, same) == 0 &&
                    bo_weights_count(model->weights) == bo_weights_count(same->weights));
        assert_ok(context, bo_model_adapt(context, model, &lora));
        bo_free(whole);
        move_adapters(model);
        assert_false(same_logits(context, model, same));
        logits_of(context, model, ids, CONTEXT, before);
        assert_ok(context, bo_model_merge(context, model));
        logits_of(context, model, ids, CONTEXT, after);
        /* logits of a few units; W0 + BA is rounded once more than W0 x + B(A x): a few 1e-7 per product, four
         * layers */
        for (size_t i = 0; i < CONTEXT * VOCAB; i++) assert_close((double)after[i], (double)before[i], 1e-3);
        assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = test_path(directory, "merged")}));
        assert_ok(context, bo_model_load(context, &(bo_source){.path = test_path(directory, "merged")}, NULL, &loaded));
        assert_true(same_logits(context, model, loaded));
        bo_model_destroy(loaded);
        assert_ok(context, bo_model_unmerge(context, model));
        logits_of(context, model, ids, CONTEXT, after);
        assert_memory_equal(before, after, sizeof before);
        bo_model_destroy(model), bo_model_destroy(same);
    }
}

/* ---- replacement ------------------------------------------------------------------------------------------------- */

static bo_replacement_desc windowed(size_t window, const char *kept)
{
    return (bo_replacement_desc){.attention = {.kind = BO_ATTENTION_SOFTMAX, .window = window}, .kept_layers = kept};
}

/* Softmax attention with a window as long as the context is the attention that it replaces: same bits. */
static void replaced_by_the_same(void **state)
{
    (void)state;
    static const char *const lists[] = {"0,1,3", "", "2"};
    bo_context *context = test_context(1);
    for (int i = 0; i < 12; i++) {
        bo_model_desc desc = deep_desc("softmax");
        desc.block.query_norm = i % 3 == 0 ? BO_CHOICE_AUTO : i % 3 == 1 ? BO_CHOICE_YES : BO_CHOICE_NO;
        desc.block.key_heads = i & 1 ? 1 : 2;
        desc.block.positions = i & 2 ? BO_POSITIONS_LEARNED : BO_POSITIONS_ROPE;
        desc.block.bias = i & 4;
        desc.untied = i & 1;
        bo_model *teacher = test_model(context, &desc, NULL), *student;
        const bo_replacement_desc same = windowed(CONTEXT, lists[i % 3]);
        assert_ok(context, bo_model_replace_attention(context, teacher, &same, &student));
        if (!same_logits(context, teacher, student)) fail_msg("case %d gives other logits", i);
        for (size_t w = 0; w < bo_weights_count(teacher->weights); w++)
            assert_non_null(bo_weights_find(student->weights, bo_weights_at(teacher->weights, w)->name));
        assert_int_equal(count_other(teacher, student), 0);
        bo_model_destroy(student);
        const bo_replacement_desc narrow = windowed(3, lists[i % 3]);
        assert_ok(context, bo_model_replace_attention(context, teacher, &narrow, &student));
        assert_false(same_logits(context, teacher, student));
        bo_model_destroy(student);
        bo_model_destroy(teacher);
    }
    bo_context_destroy(context);
}

/* Every kind that replaces another leaves all weights of the teacher as they are, with any norm of q and k. */
static void replaced_by_every_kind(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; mixed_kind(i); i++)
        for (int norm = 0; norm < 3; norm++) {
            bo_model_desc desc = deep_desc("softmax"), kind = deep_desc(mixed_kind(i));
            desc.block.query_norm = (bo_choice)norm;
            bo_model *teacher = test_model(context, &desc, NULL), *student;
            const bo_replacement_desc made = {.attention = kind.block.attention, .kept_layers = "1", .seed = 4};
            assert_ok(context, bo_model_replace_attention(context, teacher, &made, &student));
            assert_int_equal(count_other(teacher, student), 0);
            for (size_t w = 0; w < bo_weights_count(teacher->weights); w++)
                if (!bo_weights_find(student->weights, bo_weights_at(teacher->weights, w)->name))
                    fail_msg("%s: %s is missing", mixed_kind(i), bo_weights_at(teacher->weights, w)->name);
            check_steps(context, mixed_kind(i), student);
            bo_model_destroy(student);
            bo_model_destroy(teacher);
        }
    bo_context_destroy(context);
}

static bo_model *family(bo_context *context, const char *name)
{
    char path[1024];
    bo_model *model;
    snprintf(path, sizeof path, "%s/tests/data/families/%s", getenv("BOCHNER_SOURCE"), name);
    assert_ok(context, bo_model_load(context, &(bo_source){.path = path}, NULL, &model));
    return model;
}

/* Layers with a window are unchanged by default. Replaced layers keep their base of RoPE. */
static void families(void **state)
{
    (void)state;
    static const char *const names[] = {"gemma3",  "qwen2-window", "qwen3-window", "mistral", "llama3",
                                        "qwen2",   "phi3",         "gpt2",         "olmo2",   "stablelm-parallel",
                                        "granite", "gptj",         "smollm3"};
    bo_context *context = test_context(1);
    bo_attention_desc dark = {.features = {.features = 8}};
    assert_true(bo_attention_preset("dark", &dark));
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        bo_model *teacher = family(context, names[n]), *student;
        const bo_model_desc *d = &teacher->desc;
        size_t windows = 0;
        for (size_t l = 0; l < d->layers; l++) windows += bo_model_block(d, l)->attention.window != 0;
        const bo_replacement_desc plain = {.attention = dark};
        const bo_status status = bo_model_replace_attention(context, teacher, &plain, &student);
        if (status != (windows == d->layers ? BO_INVALID : BO_OK))
            fail_msg("%s: %s, %s", names[n], bo_status_string(status), bo_context_error(context));
        if (status == BO_OK) {
            for (size_t l = 0; l < d->layers; l++)
                assert_int_equal(keeps(student, l), bo_model_block(d, l)->attention.window != 0);
            bo_model_destroy(student);
        } else {
            assert_non_null(strstr(bo_context_error(context), "have a window"));
        }
        if (windows < d->layers) { /* layers that see all keys get a window as long as the context */
            const bo_replacement_desc same = windowed(d->context, NULL);
            assert_ok(context, bo_model_replace_attention(context, teacher, &same, &student));
            if (!same_logits(context, teacher, student)) fail_msg("%s gives other logits", names[n]);
            bo_model_destroy(student);
        }
        bo_model_destroy(teacher);
    }
    bo_context_destroy(context);
}

/* All layers get the window of some layers. These layers compute the same as before, with their base of RoPE. Layer 0
 * of gemma3 has a window and a local base. */
static void local_bases(void **state)
{
    (void)state;
    static float before[CONTEXT * 512], after[CONTEXT * 512];
    bo_context *context = test_context(1);
    bo_model *teacher = family(context, "gemma3"), *student;
    const bo_model_desc *d = &teacher->desc;
    const bo_block *local = bo_model_block(d, 0), *full = bo_model_block(d, 1);
    assert_true(local->attention.window && !full->attention.window && local->rope_base != full->rope_base);
    const bo_replacement_desc all = windowed(local->attention.window, "");
    assert_ok(context, bo_model_replace_attention(context, teacher, &all, &student));
    const bo_model *const models[] = {teacher, student};
    for (int m = 0; m < 2; m++) {
        bo_value stream[1 + 2 * 64];
        bo_model_graph g;
        int32_t ids[16], positions[16];
        for (int i = 0; i < 16; i++) ids[i] = (5 * i + 1) % 50, positions[i] = i;
        assert_true(d->layers <= 64 && d->width <= 512);
        const bo_model_graph_desc desc = {.rows = 16, .outputs = true, .chosen = 16, .stream = stream};
        assert_ok(context, bo_model_graph_create(context, models[m], &desc, &g));
        assert_ok(context, bo_graph_allocate(context, g.graph));
        assert_ok(context, bo_graph_write(context, g.graph, g.tokens, ids));
        assert_ok(context, bo_graph_write(context, g.graph, g.positions, positions));
        assert_ok(context, bo_graph_run(context, g.graph, NULL));
        assert_ok(context,
                  bo_graph_read(context, g.graph, stream[1], m ? after : before)); /* after attention of layer 0 */
        bo_model_graph_destroy(&g);
    }
    assert_memory_equal(before, after, 16 * d->width * sizeof(float));
    assert_false(same_logits(context, teacher, student)); /* layers that saw all keys have a window now */
    bo_model_destroy(student), bo_model_destroy(teacher);
    bo_context_destroy(context);
}

static void refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const char *const labels[] = {"no", "yes"};
    bo_model_desc desc = deep_desc("softmax"), dark = deep_desc("dark");
    bo_model *teacher = test_model(context, &desc, NULL), *student, *none;
    bo_replacement_desc made = {.attention = dark.block.attention};
    made.reserved[2] = 1;
    assert_fails(context, BO_INVALID, "reserved", bo_model_replace_attention(context, teacher, &made, &none));
    assert_null(none);
    made = (bo_replacement_desc){.attention = dark.block.attention, .kept_layers = "0-3"};
    assert_fails(context, BO_INVALID, "at least one", bo_model_replace_attention(context, teacher, &made, &none));
    made = (bo_replacement_desc){.attention = {.kind = (bo_attention_kind)99}};
    assert_fails(context, BO_INVALID, "unknown attention", bo_model_replace_attention(context, teacher, &made, &none));
    made = (bo_replacement_desc){.attention = dark.block.attention, .gate_first = 200, .gate_last = 1};
    assert_fails(context, BO_INVALID, "gate_first", bo_model_replace_attention(context, teacher, &made, &none));
    made = (bo_replacement_desc){.attention = dark.block.attention};
    assert_ok(context, bo_model_replace_attention(context, teacher, &made, &student));
    assert_fails(context, BO_INVALID, "linearized already", bo_model_replace_attention(context, student, &made, &none));
    bo_model_destroy(student);
    assert_ok(context, bo_model_adapt(context, teacher, &(bo_lora_desc){.rank = 2}));
    assert_fails(context, BO_INVALID, "merge the adapters", bo_model_replace_attention(context, teacher, &made, &none));
    assert_ok(context, bo_model_merge(context, teacher));
    assert_ok(context, bo_model_replace_attention(context, teacher, &made, &student));
    bo_model_destroy(student), bo_model_destroy(teacher);
    desc.block.output_norm = BO_CHOICE_YES;
    assert_ok(context, bo_model_create(context, &desc, NULL, &teacher));
    assert_fails(context, BO_INVALID, "output_norm", bo_model_replace_attention(context, teacher, &made, &none));
    bo_model_destroy(teacher);
    static const char *const kinds[] = {"dark", "lstm", "power"};
    for (int i = 0; i < 3; i++) {
        desc = deep_desc(kinds[i]);
        assert_ok(context, bo_model_create(context, &desc, NULL, &teacher));
        assert_fails(context, BO_INVALID, i == 1 ? "lstm" : kinds[i],
                     bo_model_replace_attention(context, teacher, &made, &none));
        bo_model_destroy(teacher);
    }
    desc = deep_desc("softmax");
    desc.task = BO_MODEL_TASK_CLASSIFY, desc.classes = 2, desc.labels = labels;
    assert_ok(context, bo_model_create(context, &desc, NULL, &teacher));
    assert_fails(context, BO_INVALID, "language model", bo_model_replace_attention(context, teacher, &made, &none));
    bo_model_destroy(teacher);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_layers),
        cmocka_unit_test(where_it_is_allowed),
        cmocka_unit_test_setup_teardown(round_trip, test_setup, directories_teardown),
        cmocka_unit_test(fingerprints_differ),
        cmocka_unit_test_setup_teardown(bad_configurations, test_setup, directories_teardown),
        cmocka_unit_test(steps_equal_the_whole),
        cmocka_unit_test(states_grow_with_kept_layers),
        cmocka_unit_test_setup_teardown(states_continue, test_setup, directories_teardown),
        cmocka_unit_test(lanes_equal_the_whole),
        cmocka_unit_test_setup_teardown(stored_weights, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(adapters, test_setup, directories_teardown),
        cmocka_unit_test(replaced_by_the_same),
        cmocka_unit_test(replaced_by_every_kind),
        cmocka_unit_test(families),
        cmocka_unit_test(local_bases),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
