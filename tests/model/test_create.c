/* Models made from descriptors: presets, defaults, invalid descriptors, weights adopted from another model,
 * evaluation. */
#include <bochner/text.h>
#include <pthread.h>
#include "io/files.h"
#include "models.h"

static void test_presets(void **unused)
{
    (void)unused;
    bo_model_desc desc = {0};
    assert_true(bo_model_preset("Tiny", &desc));
    assert_int_equal(desc.layers, 4);
    assert_int_equal(desc.width, 128);
    assert_int_equal(desc.block.heads, 4);
    assert_int_equal(desc.context, 256);
    assert_false(bo_model_preset("huge", &desc));
    assert_false(bo_model_preset(NULL, &desc));
    size_t count = 0;
    while (bo_model_preset_name(count)) assert_true(bo_model_preset(bo_model_preset_name(count++), &desc));
    assert_int_equal(count, 3);
}

/* The parameter count of GPT-2: embeddings, then 12 width² per layer and gains. */
static void test_shape(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    bo_model_desc desc = {
        .layers = 3, .width = 32, .block.heads = 4, .context = 16, .vocab = 100, .block.query_norm = BO_CHOICE_NO};
    bo_model *model;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_int_equal(bo_model_report(model)->parameters, 100 * 32 + 3 * (12 * 32 * 32 + 2 * 32) + 32);
    assert_int_equal(bo_model_describe(model)->block.hidden, 128);
    assert_int_equal(bo_model_describe(model)->block.head_dim, 8);
    assert_true(bo_model_report(model)->bytes >= 4 * bo_model_report(model)->parameters);
    assert_non_null(bo_model_attention(model, 2));
    assert_null(bo_model_attention(model, 3));
    assert_null(bo_weights_at(bo_model_weights(model), bo_weights_count(bo_model_weights(model))));
    float x[4];
    assert_fails(context, BO_INVALID, "no weight 'nonsense'",
                 bo_weights_get(context, bo_model_weights(model), "nonsense", x, NULL));
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* Initial values of gates, σ and decays. */
static void test_begins(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("rfa-gate");
    bo_model *model;
    float bias[4], sigma[32], decay[2], gain[8];
    desc.block.heads = 4;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_ok(context,
              bo_weights_get(context, bo_model_weights(model), "model.layers.1.self_attn.g_proj.bias", bias, NULL));
    assert_close((double)bias[0], bo_model_describe(model)->block.gate_first, 1e-6);
    assert_close((double)bias[3], bo_model_describe(model)->block.gate_last, 1e-6);
    assert_close((double)(bias[1] - bias[0]), (double)(bias[2] - bias[1]), 1e-5);
    desc.block.sigma = 0.5;
    bo_model_destroy(model);
    desc.block.heads = 2;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_ok(context, bo_weights_get(context, bo_model_weights(model), "model.layers.0.self_attn.sigma", sigma, NULL));
    for (size_t i = 0; i < 16; i++) assert_close((double)sigma[i], 0.5, 0);
    bo_model_destroy(model);
    desc = test_desc("retention");
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_ok(context, bo_weights_get(context, bo_model_weights(model), "model.layers.0.self_attn.decay", decay, NULL));
    for (int h = 0; h < 2; h++) assert_close(1 / (1 + exp(-(double)decay[h])), 1 - ldexp(1, -5 - h), 1e-6);
    bo_model_destroy(model);
    desc = test_desc("favor"); /* |√s k| = σ: s = 1/√8, |k| = √8 gain */
    desc.block.sigma = 1.25;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_ok(context,
              bo_weights_get(context, bo_model_weights(model), "model.layers.0.self_attn.k_norm.weight", gain, NULL));
    assert_close((double)gain[0] * sqrt(8 / sqrt(8)), 1.25, 1e-6);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* Every layer and key head has different frequencies, which depend on the seed. */
static void test_frequencies(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("favor");
    float w[6][1024];
    for (size_t i = 0; i < 6; i++) {
        bo_model *model;
        desc.seed = i < 4 ? 7 : 3 + i; /* 7, 8 */
        assert_ok(context, bo_model_create(context, &desc, NULL, &model));
        const bo_features *map = bo_attention_features(bo_model_attention(model, i / 2 % 2), i % 2);
        assert_int_equal(bo_features_frequencies(map) * 8, 1024);
        assert_ok(context, bo_features_get_frequencies(context, map, w[i]));
        bo_model_destroy(model);
    }
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < i; j++)
            if ((memcmp(w[i], w[j], sizeof w[i]) == 0) != (i == 4 && j == 0)) fail_msg("maps %zu and %zu", i, j);
    bo_context_destroy(context);
}

static void test_refused(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    bo_model *model;
    const bo_model_desc good = test_desc("rfa-gate");
    bo_model_desc d;
#define REFUSED(message, ...)                                                                                          \
    do {                                                                                                               \
        d = good;                                                                                                      \
        __VA_ARGS__;                                                                                                   \
        assert_fails(context, BO_INVALID, message, bo_model_create(context, &d, NULL, &model));                        \
        assert_null(model);                                                                                            \
    } while (0)
    REFUSED("layers must be at least 1", d.layers = 0);
    REFUSED("width must be at most", d.width = (size_t)1 << 40);
    REFUSED("heads must divide width = 16", d.block.heads = 3);
    REFUSED("key_heads must divide heads = 2", d.block.key_heads = 4);
    REFUSED("head_dim must be even", d.block.head_dim = 5);
    REFUSED("vocab must be at least 1", d.vocab = 0);
    REFUSED("context must be at least 1", d.context = 0);
    REFUSED("dropout must be in [0, 1), found 1", d.dropout = 1);
    REFUSED("dropout", d.dropout = NAN);
    REFUSED("norm_epsilon", d.block.norm_epsilon = -1);
    REFUSED("sigma", d.block.sigma = INFINITY);
    REFUSED("gate_first and gate_last", d.block.gate_first = NAN);
    REFUSED("gate_first and gate_last", d.block.gate_last = 1e300);
    REFUSED("unknown MLP 99", d.block.mlp = (bo_mlp)99);
    REFUSED("unknown norm", d.block.norm = (bo_norm)9);
    REFUSED("unknown mixer 77", d.block.mixer = (bo_mixer)77);
    REFUSED("unknown state-space system 5", d.block.mixer = BO_MIXER_SSM, d.block.ssm = (bo_ssm)5);
    REFUSED("state_size must be at most", d.block.mixer = BO_MIXER_SSM, d.block.state_size = (size_t)1 << 40);
    REFUSED("state_rank must be at most state_size = 2, found 3", d.block.mixer = BO_MIXER_SSM,
            d.block.ssm = BO_SSM_CLOSED, d.block.state_size = 2, d.block.state_rank = 3);
    REFUSED("kernel must be at most", d.block.mixer = BO_MIXER_CONV, d.block.kernel = (size_t)1 << 40);
    REFUSED("unknown positions", d.block.positions = (bo_positions)9);
    REFUSED("unknown attention", d.block.attention.kind = (bo_attention_kind)77);
    REFUSED("query_norm", d.block.query_norm = (bo_choice)3);
    REFUSED("attention.dim must be 8", d.block.attention.dim = 4);
    REFUSED("attention.heads must be 2", d.block.attention.heads = 4);
    REFUSED("custom", d.block.attention.features.kernel = BO_KERNEL_CUSTOM);
    REFUSED("length_scales", d.block.attention.features.length_scales = (const float[8]){1});
    REFUSED("window", d.block.attention.window = 3);
    assert_fails(context, BO_INVALID, "argument 'desc' is NULL", bo_model_create(context, NULL, NULL, &model));
    bo_context_destroy(context);
}

/* ---- adopting ---------------------------------------------------------------------------------------------------- */

static void test_adopt(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("softmax");
    bo_model *teacher = test_model(context, &desc, NULL), *twin, *other;
    int32_t ids[CONTEXT + 1];
    float first[CONTEXT], second[CONTEXT], norm[16], copied_norm[16];
    size_t copied, weights = bo_weights_count(bo_model_weights(teacher));
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, bo_model_create(context, &desc, NULL, &twin));
    assert_ok(context, bo_model_adopt(context, twin, teacher, &copied));
    assert_int_equal(copied, weights);
    assert_int_equal(directory->infos, 0);
    assert_ok(context, window_pass(context, teacher, ids, CONTEXT, NULL, first));
    assert_ok(context, window_pass(context, twin, ids, CONTEXT, NULL, second));
    assert_memory_equal(first, second, sizeof first);
    desc = test_desc("rfa-gate"); /* has no norms of q and k, but σ and the matrix and bias of a gate */
    assert_ok(context, bo_model_create(context, &desc, NULL, &other));
    assert_ok(context, bo_model_adopt(context, other, teacher, &copied));
    assert_int_equal(copied, weights - LAYERS * 2);
    assert_int_equal(directory->infos, LAYERS * (2 + 3 + 1)); /* left out, new, and new frequencies */
    assert_ok(context, bo_weights_get(context, bo_model_weights(teacher), "model.norm.weight", copied_norm, NULL));
    assert_ok(context, bo_weights_get(context, bo_model_weights(other), "model.norm.weight", norm, NULL));
    assert_memory_equal(norm, copied_norm, sizeof norm);
    bo_model_destroy(twin);
    directory->infos = 0;
    desc.seed = 1234; /* different frequencies: the frequencies of the first model are adopted */
    assert_ok(context, bo_model_create(context, &desc, NULL, &twin));
    assert_true(bo_model_fingerprint(twin) != bo_model_fingerprint(other));
    assert_ok(context, bo_model_adopt(context, twin, other, &copied));
    assert_true(bo_model_fingerprint(twin) == bo_model_fingerprint(other));
    assert_int_equal(directory->infos, 0);
    bo_model_destroy(twin);
    desc.vocab = 300;
    assert_ok(context, bo_model_create(context, &desc, NULL, &twin));
    assert_ok(context, bo_model_adopt(context, twin, other, &copied));
    assert_int_equal(copied, bo_weights_count(bo_model_weights(twin)) - 1);
    assert_non_null(strstr(directory->last_log, "shape differs"));
    bo_model_destroy(twin);
    bo_model_destroy(other);
    bo_model_destroy(teacher);
}

/* Rows of tokens of another tokenizer are not adopted, with a warning; positions are adopted. */
static void test_adopt_tokens(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    static const char plain[] = "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}";
    bo_tokenizer *bytes, *again, *other;
    bo_model *teacher, *pupil;
    bo_model_desc desc = test_desc("softmax");
    desc.untied = true;
    desc.block.positions = BO_POSITIONS_LEARNED;
    desc.context = desc.vocab;
    size_t copied;
    assert_ok(context, bo_tokenizer_create(context, &bytes));
    assert_ok(context, bo_tokenizer_create(context, &again));
    assert_ok(context,
              bo_tokenizer_load(context, &(bo_source){.path = test_text(directory, "plain.json", plain)}, &other));
    assert_ok(context, bo_model_create(context, &desc, bytes, &teacher));
    const struct {
        const bo_tokenizer *tokenizer;
        size_t fewer;
        int warnings;
    } cases[] = {{again, 0, 0}, {other, 2, 1}};
    for (size_t i = 0; i < 2; i++) {
        directory->warnings = 0;
        assert_ok(context, bo_model_create(context, &desc, cases[i].tokenizer, &pupil));
        assert_ok(context, bo_model_adopt(context, pupil, teacher, &copied));
        assert_int_equal(copied, bo_weights_count(bo_model_weights(pupil)) - cases[i].fewer);
        assert_int_equal(directory->warnings, cases[i].warnings);
        bo_model_destroy(pupil);
    }
    bo_model_destroy(teacher);
    bo_tokenizer_destroy(bytes);
    bo_tokenizer_destroy(again);
    bo_tokenizer_destroy(other);
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* Every token but the first counts once, in windows without earlier context. */
static void check_evaluation(bo_context *context, const bo_model *model, const bo_corpus *corpus, const int32_t *ids,
                             size_t scored, size_t window, uint64_t max_tokens)
{
    bo_evaluation found;
    double nats = 0;
    for (size_t at = 0; at < scored; at += window) {
        size_t count = scored - at < window ? scored - at : window;
        float losses[CONTEXT];
        assert_ok(context, window_pass(context, model, ids + at, count, NULL, losses));
        for (size_t i = 0; i < count; i++) nats += (double)losses[i];
    }
    assert_ok(context, bo_model_evaluate(context, model, corpus, window, max_tokens, &found));
    assert_int_equal(found.tokens, scored);
    assert_close(found.loss, nats / (double)scored, 1e-5);
    assert_close(found.bits_per_byte, nats / (double)scored / log(2), 1e-5); /* a token is a byte */
    assert_close(found.perplexity, exp(found.loss), 1e-9 * found.perplexity);
    assert_true(found.state_bytes > 0 && found.tokens_per_second > 0);
}

/* A text shorter than one window is one short window; a single token cannot be scored. */
static void check_short_texts(test_directory *directory, const bo_model *model, const char *text, const int32_t *ids)
{
    bo_context *context = directory->context;
    static const size_t lengths[] = {1, 2, 7, CONTEXT - 1, CONTEXT};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const char *path = test_write(directory, "short", text, lengths[i]);
        const bo_corpus_desc desc = {.paths = &path, .path_count = 1, .tokenizer = bo_model_tokenizer(model)};
        bo_corpus *corpus;
        bo_evaluation found;
        assert_ok(context, bo_corpus_open(context, &desc, &corpus));
        if (lengths[i] > 1)
            check_evaluation(context, model, corpus, ids, lengths[i] - 1, CONTEXT, 0);
        else
            assert_fails(context, BO_INVALID, "at least 2", bo_model_evaluate(context, model, corpus, 0, 0, &found));
        bo_corpus_close(corpus);
    }
}

/* Windows that are too long for one graph; each starts without context. */
static void check_long_windows(bo_context *context, const bo_model *model, const bo_corpus *corpus, const int32_t *ids,
                               size_t scored)
{
    enum { WINDOW = 2100 };
    static float losses[WINDOW];
    bo_evaluation found;
    bo_session *session;
    double nats = 0;
    assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.chunk = 64}, &session));
    for (size_t at = 0; at < scored; at += WINDOW) {
        size_t count = scored - at < WINDOW ? scored - at : WINDOW;
        assert_ok(context, bo_session_reset(context, session));
        assert_ok(context,
                  bo_session_read(context, session,
                                  &(bo_session_reading){
                                      .ids = ids + at, .count = count, .losses = losses, .targets = ids + at + 1}));
        for (size_t i = 0; i < count; i++) nats += (double)losses[i];
    }
    assert_ok(context, bo_model_evaluate(context, model, corpus, WINDOW, 0, &found));
    assert_close(found.loss, nats / (double)scored, 1e-6);
    bo_session_destroy(session);
}

static void test_evaluate(void **state)
{
    enum { TOKENS = 5000 };
    test_directory *directory = *state;
    bo_context *context = directory->context;
    static int32_t ids[TOKENS];
    char text[TOKENS];
    bo_tokenizer *bytes;
    bo_corpus *corpus;
    bo_evaluation whole, pieces;
    test_tokens(TOKENS, ids);
    for (size_t i = 0; i < TOKENS; i++) text[i] = (char)(ids[i] = ids[i] % 95 + 32);
    const char *path = test_write(directory, "text", text, sizeof text);
    assert_ok(context, bo_tokenizer_create(context, &bytes));
    assert_ok(context,
              bo_corpus_open(context, &(bo_corpus_desc){.paths = &path, .path_count = 1, .tokenizer = bytes}, &corpus));
    bo_model_desc desc = test_desc("rfa-gate");
    bo_model *model = test_model(context, &desc, bytes);
    check_evaluation(context, model, corpus, ids, TOKENS - 1, CONTEXT, 0);
    check_evaluation(context, model, corpus, ids, TOKENS - 1, 7, 0);
    check_evaluation(context, model, corpus, ids, 100, CONTEXT, 100);
    check_evaluation(context, model, corpus, ids, 1, 1, 1);
    check_short_texts(directory, model, text, ids);
    /* one window of all tokens, with a state, and with graphs of the maximum length */
    assert_ok(context, bo_model_evaluate(context, model, corpus, 2048, 2048, &whole));
    assert_ok(context, bo_model_evaluate(context, model, corpus, 1000000, 2048, &pieces));
    assert_close(whole.loss, pieces.loss, 1e-4);
    assert_int_equal(whole.state_bytes, pieces.state_bytes);
    check_long_windows(context, model, corpus, ids, TOKENS - 1);
    bo_model_destroy(model);
    desc = test_desc("softmax");
    model = test_model(context, &desc, bytes);
    assert_ok(context, bo_model_evaluate(context, model, corpus, 2048, 2048, &whole));
    /* memory does not grow further */
    assert_ok(context, bo_model_evaluate(context, model, corpus, (size_t)1 << 60, 2048, &pieces));
    assert_close(whole.loss, pieces.loss, 1e-4);
    assert_int_equal(whole.state_bytes, pieces.state_bytes);
    bo_corpus_close(corpus);
    bo_model_destroy(model);
    bo_tokenizer_destroy(bytes);
}

/* ---- sharing ----------------------------------------------------------------------------------------------------- */

typedef struct reader {
    const bo_model *model;
    float logits[VOCAB];
    bo_status status;
} reader;

static void *read_alone(void *user)
{
    reader *r = user;
    bo_context *context;
    bo_session *session = NULL;
    int32_t ids[CONTEXT];
    test_tokens(CONTEXT, ids);
    if (bo_context_create(&(bo_context_desc){.threads = 1}, &context) != BO_OK) return NULL;
    r->status = bo_session_create(context, r->model, NULL, &session);
    for (size_t i = 0; r->status == BO_OK && i < CONTEXT; i++)
        r->status = bo_session_feed(context, session, ids + i, 1, r->logits);
    bo_session_destroy(session);
    bo_context_destroy(context);
    return NULL;
}

static void test_shared(void **unused)
{
    (void)unused;
    enum { READERS = 4 };
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("hybrid");
    bo_model *model = test_model(context, &desc, NULL);
    static reader readers[READERS];
    pthread_t threads[READERS];
    for (size_t i = 0; i < READERS; i++) {
        readers[i] = (reader){.model = model, .status = BO_INVALID};
        assert_int_equal(pthread_create(&threads[i], NULL, read_alone, &readers[i]), 0);
    }
    for (size_t i = 0; i < READERS; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(readers[i].status, BO_OK);
        assert_memory_equal(readers[i].logits, readers[0].logits, sizeof readers[0].logits);
    }
    bo_model_destroy(model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_shape),
        cmocka_unit_test(test_begins),
        cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_refused),
        cmocka_unit_test_setup_teardown(test_adopt, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_adopt_tokens, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_evaluate, test_setup, test_teardown),
        cmocka_unit_test(test_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
