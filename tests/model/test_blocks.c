/* Models whose layers differ: the block of each layer, sessions, lanes, files, states, gradients, errors and limits. */
#include "adapted.h"
#include "gradients.h"
#include "io/tensors.h"
#include "model/config.h"
#include "model/internal.h"
#include "model/lanes.h"
#include "stacks.h"
#include "translators.h"

enum { ROWS = 2 * GRADIENT_WINDOW };

static bo_model *stack_model(bo_context *context, const stack *from)
{
    bo_block blocks[STACK_BLOCKS];
    const bo_model_desc desc = stack_desc(from, blocks);
    return test_model(context, &desc, NULL);
}

/* ---- lists of blocks --------------------------------------------------------------------------------------------- */

/* The list starts again after its last block, and ends with the last layer. */
static void lists_repeat(void **state)
{
    (void)state;
    static const struct {
        size_t repeat[3], layers;
        const char *which;
    } cases[] = {{{0, 0, 0}, 7, "0120120"},   {{5, 1, 0}, 7, "0000012"}, {{2, 3, 1}, 8, "00111200"},
                 {{1, 1, 1}, 2, "01"},        {{4096, 1, 1}, 3, "000"},  {{1, 4096, 4096}, 4, "0111"},
                 {{3, 0, 4096}, 6, "000122"}, {{2, 0, 0}, 1, "0"}};
    static const size_t windows[] = {3, 0, 5};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_model_desc desc = test_desc("softmax");
        bo_block blocks[3];
        bo_model *model;
        desc.layers = cases[i].layers, desc.blocks = blocks, desc.block_count = 3;
        for (size_t b = 0; b < 3; b++) {
            blocks[b] = desc.block;
            blocks[b].repeat = cases[i].repeat[b], blocks[b].attention.window = windows[b];
        }
        assert_ok(context, bo_model_create(context, &desc, NULL, &model));
        memset(blocks, 0, sizeof blocks); /* the list is copied */
        for (size_t l = 0; l < desc.layers; l++) {
            const size_t window = windows[cases[i].which[l] - '0'];
            assert_int_equal(bo_model_block(bo_model_describe(model), l)->attention.window, window);
            assert_int_equal(bo_attention_describe(bo_model_attention(model, l))->window, window);
        }
        assert_int_equal(bo_model_describe(model)->block.attention.window, windows[0]);
        bo_model_destroy(model);
    }
    assert_null(bo_model_block(NULL, 0));
    bo_context_destroy(context);
}

/* A list of equal blocks is the block of all layers: same weights, same bits, same files. */
static void a_list_of_equal_blocks(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    for (size_t count = 1; count <= 3; count++) {
        bo_model_desc desc = test_desc("rfa-gate"), list = desc;
        bo_block blocks[] = {desc.block, desc.block, desc.block};
        desc.layers = list.layers = 4;
        list.blocks = blocks, list.block_count = count;
        memset(&list.block, 0, sizeof list.block); /* ignored */
        bo_model *model = test_model(context, &desc, NULL), *same = test_model(context, &list, NULL);
        assert_int_equal(bo_model_fingerprint(model), bo_model_fingerprint(same));
        int32_t ids[CONTEXT + 1];
        float first[CONTEXT], second[CONTEXT];
        test_tokens(CONTEXT + 1, ids);
        assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, first));
        assert_ok(context, window_pass(context, same, ids, CONTEXT, NULL, second));
        assert_memory_equal(first, second, sizeof first);
        bo_model_destroy(same), bo_model_destroy(model);
    }
}

/* A descriptor of a model describes the same model again, also after one of its blocks has been changed. */
static void descriptors_can_be_changed(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < STACKS; i++) {
        bo_model *model = stack_model(context, &stacks[i]), *same, *other;
        bo_model_desc copy;
        assert_ok(context, bo_model_create(context, bo_model_describe(model), NULL, &same));
        assert_int_equal(bo_model_fingerprint(model), bo_model_fingerprint(same));
        assert_ok(context, bo_model_desc_copy(context, bo_model_describe(model), &copy));
        bo_model_destroy(same), bo_model_destroy(model);
        assert_ok(context, bo_model_create(context, &copy, NULL, &same));
        ((bo_block *)(uintptr_t)bo_model_block(&copy, 1))->norm_epsilon = 0.25;
        assert_ok(context, bo_model_create(context, &copy, NULL, &other));
        assert_close(bo_model_block(bo_model_describe(other), 1)->norm_epsilon, 0.25, 0);
        if (bo_model_fingerprint(same) == bo_model_fingerprint(other))
            fail_msg("%s: another epsilon in a block gives the same fingerprint", stacks[i].name);
        bo_model_desc_release(&copy);
        assert_null(copy.blocks);
        bo_model_destroy(other), bo_model_destroy(same);
    }
    bo_context_destroy(context);
}

static void other_epsilon(bo_block *b)
{
    b->norm_epsilon = 0.25;
}
static void other_base(bo_block *b)
{
    b->rope_base = 77;
}
static void other_factor(bo_block *b)
{
    b->residual_scale = 0.5;
}
static void other_norm(bo_block *b)
{
    b->norm = BO_NORM_LAYER;
}
static void other_temperature(bo_block *b)
{
    b->attention.temperature = 3;
}
static void other_output_norm(bo_block *b)
{
    b->output_norm = BO_CHOICE_YES;
}
static void other_cross(bo_block *b)
{
    b->cross_attention.temperature = 3;
}
static void other_scaling(bo_block *b)
{
    b->rope_scaling = (bo_rope_scaling){.kind = BO_ROPE_SCALING_KIND_LINEAR, .factor = 2};
}

static uint64_t fingerprint(bo_context *context, const bo_model_desc *desc)
{
    bo_model *model;
    assert_ok(context, bo_model_create(context, desc, NULL, &model));
    const uint64_t found = bo_model_fingerprint(model);
    bo_model_destroy(model);
    return found;
}

/* A change of one block of the decoder or of the encoder changes the fingerprint, and each change differently. */
static void fingerprints_differ(void **state)
{
    (void)state;
    static void (*const changes[])(bo_block *) = {other_epsilon,     other_base,        other_factor,  other_norm,
                                                  other_temperature, other_output_norm, other_scaling, other_cross};
    enum { CHANGES = sizeof changes / sizeof *changes };
    bo_context *context = test_context(1);
    for (int task = 0; task < 2; task++) {
        uint64_t found[1 + 3 * CHANGES];
        size_t count = 0;
        for (size_t place = 0; place < 3; place++)
            for (size_t c = 0; c < CHANGES; c++) {
                bo_model_desc desc = test_desc("rfa");
                bo_block blocks[] = {desc.block, desc.block, desc.block};
                const bool encodes = place == 2;
                desc.blocks = blocks, desc.block_count = 2;
                if (task) desc.task = BO_MODEL_TASK_TRANSLATE, desc.encoder = desc.block;
                if (task) blocks[0].cross_attention = blocks[1].cross_attention = desc.block.attention;
                if (place == 0 && c == 0) found[count++] = fingerprint(context, &desc);
                if ((encodes && (!task || changes[c] == other_cross)) || (!task && changes[c] == other_cross)) continue;
                changes[c](encodes ? &desc.encoder : &blocks[place]);
                found[count] = fingerprint(context, &desc);
                for (size_t i = 0; i < count; i++)
                    if (found[i] == found[count])
                        fail_msg("task %d: change %zu of block %zu has the fingerprint of model %zu", task, c, place,
                                 i);
                count++;
            }
    }
    bo_context_destroy(context);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* As in test_sessions.c, whose bound is for two layers. */
static void check_steps(bo_context *context, const char *name, const bo_model *model)
{
    static const size_t splits[][CONTEXT + 1] = {{CONTEXT}, {1, 1, 1, 5, 13, 27}, {31, 17}};
    int32_t ids[CONTEXT + 1];
    float whole[CONTEXT], losses[CONTEXT];
    const float bound = 1e-4f * (float)bo_model_describe(model)->layers;
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, whole));
    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++) {
        bo_session *session;
        assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.chunk = s == 1 ? 12 : 0}, &session));
        for (size_t i = 0, at = 0; splits[s][i]; at += splits[s][i++])
            assert_ok(context, bo_session_read(context, session,
                                               &(bo_session_reading){.ids = ids + at,
                                                                     .count = splits[s][i],
                                                                     .losses = losses + at,
                                                                     .targets = ids + at + 1}));
        for (size_t i = 0; i < CONTEXT; i++)
            if (!(fabsf(losses[i] - whole[i]) <= bound))
                fail_msg("%s, split %zu, token %zu: %g, expected %g", name, s, i, (double)losses[i], (double)whole[i]);
        bo_session_destroy(session);
    }
}

/* Lanes that read different texts return the same as a session for each text. */
static void check_lanes(bo_context *context, const char *name, const bo_model *model)
{
    enum { COUNT = 3, TOKENS = 16 };
    static float found[COUNT * VOCAB], expected[VOCAB];
    bo_session *sessions[COUNT];
    bo_lanes *lanes;
    int32_t ids[COUNT * TOKENS], step[COUNT];
    test_tokens(COUNT * TOKENS, ids);
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = COUNT}, &lanes));
    for (size_t l = 0; l < COUNT; l++) {
        assert_ok(context, bo_session_create(context, model, NULL, &sessions[l]));
        assert_ok(context, bo_lanes_restart(context, lanes, l));
    }
    for (size_t t = 0; t < TOKENS; t++) {
        for (size_t l = 0; l < COUNT; l++) step[l] = ids[l * TOKENS + t];
        assert_ok(context, bo_lanes_step(context, lanes, COUNT, step, found));
        for (size_t l = 0; l < COUNT; l++) {
            assert_ok(context, bo_session_feed(context, sessions[l], &step[l], 1, expected));
            for (size_t v = 0; v < VOCAB; v++)
                if (!(fabsf(found[l * VOCAB + v] - expected[v]) <= 4e-4f))
                    fail_msg("%s, lane %zu, token %zu: %g, expected %g", name, l, t, (double)found[l * VOCAB + v],
                             (double)expected[v]);
        }
    }
    for (size_t l = 0; l < COUNT; l++) bo_session_destroy(sessions[l]);
    bo_lanes_destroy(lanes);
}

static void steps_equal_the_whole(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < STACKS; i++) {
        bo_model *model = stack_model(context, &stacks[i]);
        check_steps(context, stacks[i].name, model);
        check_lanes(context, stacks[i].name, model);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* Only layers that attend to all keys have a state that grows with the capacity: by 2 key heads x 4 columns of keys and
 * of values, 4 bytes each, in layer 5 of 7. */
static void states_of_windows_do_not_grow(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model *model = stack_model(context, &stacks[0]);
    size_t small, large;
    assert_ok(context, bo_session_estimate(context, model, &(bo_session_desc){.capacity = 1024}, &small, NULL));
    assert_ok(context, bo_session_estimate(context, model, &(bo_session_desc){.capacity = 3072}, &large, NULL));
    assert_int_equal(large - small, 2048 * 2 * 2 * 4 * sizeof(float));
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void check_file(bo_context *context, const char *name, const bo_model *model, const char *path)
{
    bo_model *again;
    int32_t ids[CONTEXT + 1];
    float before[CONTEXT], after[CONTEXT];
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = path}));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = path}, NULL, &again));
    if (bo_model_fingerprint(model) != bo_model_fingerprint(again)) fail_msg("%s: another fingerprint", name);
    assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, before));
    assert_ok(context, window_pass(context, again, ids, CONTEXT, NULL, after));
    if (memcmp(before, after, sizeof before)) fail_msg("%s: other losses", name);
    bo_model_destroy(again);
}

static void files(void **state)
{
    test_directory *directory = *state;
    for (size_t i = 0; i < STACKS; i++) {
        bo_model *model = stack_model(directory->context, &stacks[i]);
        check_file(directory->context, stacks[i].name, model, test_path(directory, "directory"));
        check_file(directory->context, stacks[i].name, model, test_path(directory, "one.safetensors"));
        bo_model_destroy(model);
    }
}

/* A state continues in another session of the model, with the same bits; a model with other blocks refuses it. */
static void states_continue(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    for (size_t i = 0; i < STACKS; i++) {
        bo_block blocks[STACK_BLOCKS];
        bo_model_desc desc = stack_desc(&stacks[i], blocks);
        bo_model *model = test_model(context, &desc, NULL), *other;
        bo_session *session, *again, *wrong;
        int32_t ids[CONTEXT];
        float first[VOCAB], second[VOCAB];
        const char *path = test_path(directory, "state");
        blocks[0].rope_base = 77, blocks[0].norm_epsilon = 1e-4;
        assert_ok(context, bo_model_create(context, &desc, NULL, &other));
        test_tokens(CONTEXT, ids);
        assert_ok(context, bo_session_create(context, model, NULL, &session));
        assert_ok(context, bo_session_create(context, model, NULL, &again));
        assert_ok(context, bo_session_create(context, other, NULL, &wrong));
        assert_ok(context, bo_session_feed(context, session, ids, 20, first));
        assert_ok(context, bo_session_save(context, session, &(bo_sink){.path = path}));
        assert_ok(context, bo_session_load(context, again, &(bo_source){.path = path}));
        if (bo_session_load(context, wrong, &(bo_source){.path = path}) == BO_OK)
            fail_msg("%s: the state of another model", stacks[i].name);
        for (size_t t = 20; t < CONTEXT; t++) {
            assert_ok(context, bo_session_feed(context, session, ids + t, 1, first));
            assert_ok(context, bo_session_feed(context, again, ids + t, 1, second));
            assert_memory_equal(first, second, sizeof first);
        }
        bo_session_destroy(session), bo_session_destroy(again), bo_session_destroy(wrong);
        bo_model_destroy(model), bo_model_destroy(other);
    }
}

static bo_status read_blocks(bo_context *context, const char *members, bo_model_desc *out)
{
    char text[2048];
    bo_config config;
    snprintf(text, sizeof text,
             "{\"model_type\": \"bochner\", \"bochner_format\": 4, \"vocab_size\": 100, \"hidden_size\": 16, "
             "\"num_hidden_layers\": 4, \"max_position_embeddings\": 32, %s}",
             members);
    BO_TRY(bo_config_read(context, "config.json", text, strlen(text), &config));
    const bo_status status = bo_model_resolve(context, &config.desc, NULL, out);
    bo_config_free(&config);
    return status;
}

/* Members of "block" are defaults for all blocks. */
static void shared_members(void **state)
{
    bo_context *context = ((test_directory *)*state)->context;
    bo_model_desc d;
    assert_ok(context, read_blocks(context,
                                   "\"block\": {\"heads\": 2, \"mlp\": \"swiglu\", \"rope_base\": 500, \"attention\": "
                                   "{\"kind\": \"softmax\", \"scale\": 0.5}}, \"blocks\": [{\"repeat\": 2, "
                                   "\"attention\": {\"window\": 3}, \"rope_base\": 50}, {\"mlp\": \"gelu\"}]",
                                   &d));
    for (size_t i = 0; i < 4; i++) {
        const bo_block *b = bo_model_block(&d, i);
        assert_int_equal(b->heads, 2);
        assert_int_equal(b->mlp, i == 2 ? BO_MLP_GELU : BO_MLP_SWIGLU);
        assert_close(b->attention.scale, 0.5, 0);
        assert_int_equal(b->attention.window, i == 2 ? 0 : 3);
        assert_close(b->rope_base, i == 2 ? 500 : 50, 0);
    }
    bo_model_desc_release(&d);
}

static void bad_files(void **state)
{
    static const struct {
        const char *members, *message;
    } cases[] = {
        {"\"block\": {\"heads\": 2}", "\"blocks\" should be a list of 1 to 4096 blocks"},
        {"\"blocks\": []", "\"blocks\" should be a list of 1 to 4096 blocks"},
        {"\"blocks\": {\"heads\": 2}", "\"blocks\" should be a list"},
        {"\"blocks\": [{\"heads\": 2}, 3]", "block 1 of \"blocks\": should be a JSON object"},
        {"\"blocks\": [{\"heads\": 2}, {}]", "block 1 of \"blocks\": \"heads\" is missing"},
        {"\"blocks\": [{\"heads\": 2}, {\"heads\": \"2\"}]", "block 1 of \"blocks\": \"heads\" should be"},
        {"\"blocks\": [{\"heads\": 2}, {\"heads\": 2, \"head\": 2}]", "block 1 of \"blocks\": unknown member \"head\""},
        {"\"blocks\": [{\"heads\": 2, \"attention\": {\"kind\": \"soft\"}}]", "block 0 of \"blocks\": \"attention\""},
        {"\"blocks\": [{\"heads\": 2, \"replaced\": 3}]", "block 0 of \"blocks\": \"replaced\""},
        {"\"block\": {\"head\": 2}, \"blocks\": [{\"heads\": 2}]", "\"block\": unknown member \"head\""},
        {"\"block\": 3, \"blocks\": [{\"heads\": 2}]", "\"block\": should be a JSON object"},
        {"\"blocks\": [{\"heads\": 2}, {\"heads\": 3}]", "block 1: heads must divide width = 16"},
        {"\"blocks\": [{\"heads\": 2}, {\"heads\": 2, \"repeat\": 4097}]", "block 1: repeat must be at most 4096"},
        {"\"blocks\": [{\"heads\": 2, \"mlp\": \"custom\"}]", "custom"},
    };
    bo_context *context = ((test_directory *)*state)->context;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_model_desc d;
        const bo_status status = read_blocks(context, cases[i].members, &d);
        if (status == BO_OK || !strstr(bo_context_error(context), cases[i].message))
            fail_msg("%s: %s", cases[i].members, status ? bo_context_error(context) : "accepted");
    }
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static void gradients(void **state)
{
    (void)state;
    static const size_t lengths[] = {3, 0, 9, 2};
    bo_context *context = test_context(2);
    for (size_t i = 0; i < STACKS; i++) {
        bo_model *model = stack_model(context, &stacks[i]);
        const bo_graph_pass pass = {.sequences = i % 2 ? 4 : 0, .lengths = i % 2 ? lengths : NULL};
        reading r = reading_create(ROWS, &pass);
        float *found = gradients_of(context, model, &r, false);
        compare_gradients(context, stacks[i].name, model, &r, found);
        free(found);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

static void checkpoints_and_threads_change_nothing(void **state)
{
    (void)state;
    bo_context *contexts[] = {test_context(1), test_context(5)};
    for (size_t i = 0; i < STACKS; i++) {
        bo_block blocks[STACK_BLOCKS];
        bo_model_desc desc = stack_desc(&stacks[i], blocks);
        desc.dropout = 0.2;
        bo_model *model = test_model(contexts[0], &desc, NULL);
        reading r = reading_create(ROWS, &(bo_graph_pass){.training = true, .seed = 3});
        float *first = gradients_of(contexts[0], model, &r, false);
        for (size_t n = 1; n < 4; n++) {
            float *other = gradients_of(contexts[n % 2], model, &r, n / 2);
            if (memcmp(first, other, bo_weights_floats(model->weights) * sizeof *first))
                fail_msg("%s: gradients differ with %d threads%s", stacks[i].name, n % 2 ? 5 : 1,
                         n / 2 ? " and checkpoints" : "");
            free(other);
        }
        free(first);
        bo_model_destroy(model);
    }
    for (size_t i = 0; i < 2; i++) bo_context_destroy(contexts[i]);
}

/* ---- other tasks ------------------------------------------------------------------------------------------------- */

/* Windows in some of the layers, and kinds that alternate, also in models that classify. Causal layers alternate in
 * direction. Other layers attend to the whole text. */
static void classifiers(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    for (size_t i = 0; i < STACKS; i++)
        for (int forward = 0; forward < 2; forward++) {
            bo_block blocks[STACK_BLOCKS];
            bo_model_desc desc = stack_desc(&stacks[i], blocks);
            bo_model *model, *again;
            desc.task = BO_MODEL_TASK_CLASSIFY, desc.classes = 3, desc.forward = forward;
            assert_ok(context, bo_model_create(context, &desc, NULL, &model));
            for (size_t l = 0; l < desc.layers; l++) {
                if (!bo_model_attention(model, l)) continue;
                const bo_attention_desc *a = bo_attention_describe(bo_model_attention(model, l));
                assert_int_equal(a->causal, forward || bo_attention_looks_back(a));
            }
            assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
            assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &again));
            assert_int_equal(bo_model_fingerprint(model), bo_model_fingerprint(again));
            bo_model_destroy(again), bo_model_destroy(model);
        }
}

/* Decoders and encoders with blocks of several kinds: the encoder has separate blocks, or the blocks of the decoder. */
static void translators(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    for (size_t i = 0; i < LISTS; i++) {
        bo_block blocks[2 * LIST_BLOCKS];
        const bo_model_desc desc = translator_lists(i, blocks);
        bo_model *model = translator(context, &desc), *read;
        char *json, *other;
        for (size_t l = 0; l < desc.encoder_layers; l++) {
            const bo_block *requested = desc.encoder_block_count ? desc.encoder_blocks : desc.blocks;
            const size_t count = desc.encoder_block_count ? desc.encoder_block_count : desc.block_count;
            size_t b = 0;
            for (size_t at = l; at >= requested[b].repeat; b = (b + 1) % count) at -= requested[b].repeat;
            const bo_block *found = bo_block_at(&model->desc, bo_model_place(&model->desc, BO_MODEL_PART_ENCODER) + l);
            assert_int_equal(found->mixer, requested[b].mixer);
            assert_int_equal(found->attention.kind, requested[b].attention.kind);
            assert_int_equal(found->mlp, requested[b].mlp);
            assert_close(found->rope_base, requested[b].rope_base, 0);
        }
        assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
        assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
        assert_int_equal(bo_model_fingerprint(model), bo_model_fingerprint(read));
        assert_ok(context, bo_config_write(context, model, &json));
        assert_ok(context, bo_config_write(context, read, &other));
        assert_string_equal(json, other);
        bo_free(json), bo_free(other);
        bo_model_destroy(read), bo_model_destroy(model);
    }
}

/* ---- errors and limits ------------------------------------------------------------------------------------------- */

static void refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_model_desc base = test_desc("softmax");
    bo_block blocks[3];
    bo_model_desc desc;
    bo_model *model;
#define REFUSED(message, ...)                                                                                          \
    do {                                                                                                               \
        desc = base;                                                                                                   \
        for (int b = 0; b < 3; b++) blocks[b] = base.block;                                                            \
        desc.blocks = blocks, desc.block_count = 3;                                                                    \
        __VA_ARGS__;                                                                                                   \
        assert_fails(context, BO_INVALID, message, bo_model_create(context, &desc, NULL, &model));                     \
        assert_null(model);                                                                                            \
    } while (0)
    REFUSED("model: block 0: unknown mixer 77", blocks[0].mixer = (bo_mixer)77);
    REFUSED("model: block 1: unknown MLP 99", blocks[1].mlp = (bo_mlp)99);
    REFUSED("model: block 2: key_heads must divide heads = 2", blocks[2].key_heads = 4);
    REFUSED("block 1: heads must be at least 1", blocks[1].heads = 0);
    REFUSED("block 1: repeat must be at most 4096, found 4097", blocks[1].repeat = 4097);
    REFUSED("block 2: unknown attention 77", blocks[2].attention.kind = (bo_attention_kind)77);
    REFUSED("block 1: attention.heads must be 2 (or 0), found 5", blocks[1].attention.heads = 5);
    REFUSED("block 1: unknown residual rule 9", blocks[1].residual = (bo_residual)9);
    REFUSED("model: block 1: attention: window 7 does not apply to kind rfa",
            blocks[1].attention = (bo_attention_desc){.kind = BO_ATTENTION_RFA, .window = 7});
    REFUSED("bo_block", blocks[1].reserved[2] = 1);
    REFUSED("all blocks must have the same positions", blocks[1].positions = BO_POSITIONS_LEARNED);
    REFUSED("all blocks must have the same positions", blocks[1].positions = BO_POSITIONS_ROPE_NEIGHBORS);
    REFUSED("all blocks must have the same positions", blocks[0].positions = BO_POSITIONS_LEARNED;
            blocks[1].positions = blocks[2].positions = BO_POSITIONS_NONE);
    REFUSED("blocks and its count must be set together, found a list and 0", desc.block_count = 0);
    REFUSED("blocks and its count must be set together, found no list and 3", desc.blocks = NULL);
    REFUSED("blocks must be at most 4096 blocks, found 4097", desc.block_count = 4097);
    REFUSED("encoder_blocks and its count must be set together", desc.encoder_block_count = 1);
    REFUSED("encoder requires the task translate", desc.encoder = blocks[0]);
    REFUSED("requires the task translate", desc.encoder_blocks = blocks, desc.encoder_block_count = 1);
    REFUSED("layers must be at most 4096", desc.layers = 4097);
    REFUSED("as many columns in all heads", desc.task = BO_MODEL_TASK_TRANSLATE; blocks[1].head_dim = 4);
    REFUSED("residual rule sandwich does not support", desc.task = BO_MODEL_TASK_TRANSLATE;
            blocks[1].residual = BO_RESIDUAL_SANDWICH);
    REFUSED("task language", desc.task = BO_MODEL_TASK_CLASSIFY; desc.classes = 2; blocks[1].replaced.heads = 2);
    REFUSED("block 1: mixer mlp requires", desc.task = BO_MODEL_TASK_TRANSLATE; blocks[1].mixer = BO_MIXER_MLP);
    REFUSED("encoder block 1: unknown norm", desc.task = BO_MODEL_TASK_TRANSLATE; desc.encoder_blocks = blocks;
            desc.encoder_block_count = 2; desc.blocks = NULL, desc.block_count = 0; blocks[1].norm = (bo_norm)9);
    /* one block has no number */
    desc = base;
    desc.block.mixer = (bo_mixer)77;
    assert_fails(context, BO_INVALID, "model: unknown mixer 77", bo_model_create(context, &desc, NULL, &model));
    bo_context_destroy(context);
}

/* 4096 layers with separate blocks, and 4096 blocks for two layers. */
static void limits(void **state)
{
    (void)state;
    enum { MAX_LAYERS = 4096 };
    bo_context *context = test_context(1);
    bo_block *blocks = calloc(MAX_LAYERS, sizeof *blocks);
    bo_model_desc desc = {
        .layers = MAX_LAYERS, .width = 2, .context = 4, .vocab = 3, .blocks = blocks, .block_count = MAX_LAYERS};
    bo_model *model;
    for (size_t i = 0; i < MAX_LAYERS; i++)
        blocks[i] = (bo_block){.heads = 1, .mlp = BO_MLP_NONE, .attention.window = i % 3, .rope_base = 10 + (double)i};
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    for (size_t i = 0; i < MAX_LAYERS; i++) {
        assert_int_equal(bo_attention_describe(bo_model_attention(model, i))->window, i % 3);
        assert_close(bo_model_block(bo_model_describe(model), i)->rope_base, 10 + (double)i, 0);
    }
    assert_null(bo_model_attention(model, MAX_LAYERS));
    bo_model_destroy(model);
    desc.layers = 2;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_int_equal(bo_attention_describe(bo_model_attention(model, 1))->window, 1);
    bo_model_destroy(model);
    free(blocks);
    bo_context_destroy(context);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, test_setup, directories_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_repeat),
        TEST(a_list_of_equal_blocks),
        cmocka_unit_test(descriptors_can_be_changed),
        cmocka_unit_test(fingerprints_differ),
        cmocka_unit_test(steps_equal_the_whole),
        cmocka_unit_test(states_of_windows_do_not_grow),
        TEST(files),
        TEST(states_continue),
        TEST(shared_members),
        TEST(bad_files),
        cmocka_unit_test(gradients),
        cmocka_unit_test(checkpoints_and_threads_change_nothing),
        TEST(classifiers),
        TEST(translators),
        cmocka_unit_test(refusals),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
