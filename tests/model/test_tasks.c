/* Models that classify or translate: valid and invalid descriptors, their directories, weights adopted from a language
 * model, and operations that all models share. */
#include <bochner/lora.h>
#include "io/files.h"
#include "labelers.h"
#include "model/config.h"
#include "model/internal.h"
#include "features/fingerprint.h"

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

static bo_model_desc translator(const char *kind)
{
    bo_model_desc desc = test_desc(kind);
    desc.task = BO_MODEL_TASK_TRANSLATE;
    return desc;
}

typedef void (*change)(bo_model_desc *desc);

static void no_classes(bo_model_desc *d)
{
    d->classes = 1;
}
static void many_classes(bo_model_desc *d)
{
    d->classes = 1 << 15, d->labels = NULL;
}
static void twice(bo_model_desc *d)
{
    static const char *const labels[] = {"a", "b", "a"};
    d->labels = labels;
}
static void empty(bo_model_desc *d)
{
    static const char *const labels[] = {"a", " ", "c"};
    d->labels = labels;
}
static void colored(bo_model_desc *d)
{
    static const char *const labels[] = {"\x1b[31mred", "b", "c"};
    d->labels = labels;
}
static void as_language(bo_model_desc *d)
{
    d->task = BO_MODEL_TASK_LANGUAGE;
}
static void with_encoder(bo_model_desc *d)
{
    d->encoder_layers = 2;
}
static void by_mlp(bo_model_desc *d)
{
    d->block.mixer = BO_MIXER_MLP;
}
static void first_forward(bo_model_desc *d)
{
    d->forward = true, d->pooling = BO_POOLING_FIRST;
}
static void other_task(bo_model_desc *d)
{
    d->task = (bo_model_task)9;
}
static void other_pooling(bo_model_desc *d)
{
    d->pooling = (bo_pooling)9;
}

static void test_refused(void **state)
{
    static const struct {
        change change;
        const char *message;
    } cases[] = {{no_classes, "2 to 16384 classes, found 1"},
                 {many_classes, "found 32768"},
                 {twice, "found 'a' twice"},
                 {empty, "label 1 of 3 is empty"},
                 {colored, "label 0 must have no control characters"},
                 {as_language, "require the task classify or match"},
                 {with_encoder, "require the task translate"},
                 {by_mlp, "mixer mlp requires sequences of a fixed length"},
                 {first_forward, "does not depend on later ones"},
                 {other_task, "unknown task 9"},
                 {other_pooling, "unknown pooling 9"}};
    test_directory *directory = *state;
    bo_model *model;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_model_desc desc = labeler_desc("rfa", BO_MODEL_TASK_CLASSIFY);
        cases[i].change(&desc);
        assert_fails(directory->context, BO_INVALID, cases[i].message,
                     bo_model_create(directory->context, &desc, NULL, &model));
    }
    bo_model_desc desc = translator("rfa");
    desc.parametrization = BO_PARAMETRIZATION_UNIT;
    assert_fails(directory->context, BO_INVALID, "has two", bo_model_create(directory->context, &desc, NULL, &model));
    desc = translator("rfa");
    desc.block.cross_attention = (bo_attention_desc){.kind = BO_ATTENTION_RFA, .gate = BO_GATE_CONVEX};
    assert_fails(directory->context, BO_INVALID, "no gate", bo_model_create(directory->context, &desc, NULL, &model));
    desc = translator("rfa");
    test_encode(&desc, &(bo_attention_desc){.kind = BO_ATTENTION_RFA, .window = 5});
    assert_fails(directory->context, BO_INVALID, "window", bo_model_create(directory->context, &desc, NULL, &model));
}

static const bo_attention_desc *attention_of(const bo_model *model, bo_model_part part)
{
    return bo_attention_describe(model->attentions[bo_model_place(bo_model_describe(model), part)]);
}

static bool in_encoder(const bo_weight *weight)
{
    return strncmp(weight->name, "model.encoder.", strlen("model.encoder.")) == 0;
}

static size_t count_weights(const bo_model *model, bool encoder)
{
    size_t count = 0;
    for (size_t i = 0; i < bo_weights_count(bo_model_weights(model)); i++)
        count += in_encoder(bo_weights_at(bo_model_weights(model), i)) == encoder;
    return count;
}

static bool has_weight(const bo_model *model, const char *name)
{
    for (size_t i = 0; i < bo_weights_count(bo_model_weights(model)); i++)
        if (strcmp(bo_weights_at(bo_model_weights(model), i)->name, name) == 0) return true;
    return false;
}

/* Encoder and decoder have the weights of translators of one kind. */
static void check_weights(const bo_model *model, const bo_model *encoder, const bo_model *decoder)
{
    for (size_t i = 0; i < bo_weights_count(bo_model_weights(model)); i++) {
        const bo_weight *weight = bo_weights_at(bo_model_weights(model), i);
        if (!has_weight(in_encoder(weight) ? encoder : decoder, weight->name))
            fail_msg("%s is a weight of another kind", weight->name);
    }
    assert_int_equal(count_weights(model, true), count_weights(encoder, true));
    assert_int_equal(count_weights(model, false), count_weights(decoder, false));
}

/* Encoder, decoder and cross attention of different kinds. Cross attention follows the decoder; layers of the encoder
 * alternate if the attention of the encoder is causal. */
static void test_mixed_parts(void **state)
{
    static const struct {
        const char *decoder, *encoder;
        bool causal; /* the encoder's kind */
        bo_attention_kind kinds[3];
    } cases[] = {{"rfa", "softmax", false, {BO_ATTENTION_RFA, BO_ATTENTION_RFA, BO_ATTENTION_SOFTMAX}},
                 {"softmax", "rfa", false, {BO_ATTENTION_SOFTMAX, BO_ATTENTION_SOFTMAX, BO_ATTENTION_RFA}},
                 {"rfa-gate", "softmax", false, {BO_ATTENTION_RFA, BO_ATTENTION_RFA, BO_ATTENTION_SOFTMAX}},
                 {"softmax", "rfa-gate", true, {BO_ATTENTION_SOFTMAX, BO_ATTENTION_SOFTMAX, BO_ATTENTION_RFA}}};
    test_directory *directory = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_model_desc desc = translator(cases[i].decoder), other = translator(cases[i].encoder);
        bo_model *model, *encoder, *decoder;
        assert_ok(directory->context, bo_model_create(directory->context, &desc, NULL, &decoder));
        assert_ok(directory->context, bo_model_create(directory->context, &other, NULL, &encoder));
        test_encode_kind(&desc, cases[i].encoder);
        assert_ok(directory->context, bo_model_create(directory->context, &desc, NULL, &model));
        for (bo_model_part part = 0; part < 3; part++)
            assert_int_equal(attention_of(model, part)->kind, cases[i].kinds[part]);
        assert_true(attention_of(model, BO_MODEL_PART_LAYERS)->causal);
        assert_int_equal(attention_of(model, BO_MODEL_PART_ENCODER)->causal, cases[i].causal);
        assert_int_equal(bo_model_alternates(bo_model_describe(model)), cases[i].causal);
        check_weights(model, encoder, decoder);
        bo_model_destroy(model);
        bo_model_destroy(encoder);
        bo_model_destroy(decoder);
    }
}

/* The direction of attention for each task. */
static void test_directions(void **state)
{
    static const struct {
        const char *kind;
        bool causal; /* by definition of the kind */
        bo_attention_kind cross;
    } cases[] = {{"softmax", false, BO_ATTENTION_SOFTMAX},  {"rfa", false, BO_ATTENTION_RFA},
                 {"rfa-gate", true, BO_ATTENTION_RFA},      {"hybrid", true, BO_ATTENTION_FAVOR},
                 {"delta", true, BO_ATTENTION_DELTA},       {"ridge", false, BO_ATTENTION_RIDGE},
                 {"gated-ridge", true, BO_ATTENTION_RIDGE}, {"gru", true, BO_ATTENTION_SOFTMAX}};
    test_directory *directory = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_model_desc desc = labeler_desc(cases[i].kind, BO_MODEL_TASK_CLASSIFY), forward = desc;
        bo_model *model;
        forward.forward = true;
        assert_ok(directory->context, bo_model_create(directory->context, &desc, NULL, &model));
        if (bo_model_attention(model, 0))
            assert_int_equal(bo_attention_describe(bo_model_attention(model, 0))->causal, cases[i].causal);
        assert_int_equal(bo_model_alternates(bo_model_describe(model)), cases[i].causal);
        bo_model_destroy(model);
        assert_ok(directory->context, bo_model_create(directory->context, &forward, NULL, &model));
        if (bo_model_attention(model, 0)) assert_true(bo_attention_describe(bo_model_attention(model, 0))->causal);
        assert_false(bo_model_alternates(bo_model_describe(model)));
        bo_model_destroy(model);
        desc = translator(cases[i].kind);
        assert_ok(directory->context, bo_model_create(directory->context, &desc, NULL, &model));
        const bo_model_desc *d = bo_model_describe(model);
        const bo_attention *encoder = model->attentions[bo_model_place(d, BO_MODEL_PART_ENCODER)];
        assert_int_equal(d->block.cross_attention.kind, cases[i].cross);
        assert_int_equal(d->block.cross_attention.gate, BO_GATE_NONE);
        assert_int_equal(d->encoder_layers, LAYERS);
        if (encoder) assert_int_equal(bo_attention_describe(encoder)->causal, cases[i].causal);
        if (cases[i].cross == BO_ATTENTION_RIDGE) /* the whole source is one pool, also if the layers have a gate */
            assert_false(bo_attention_describe(model->attentions[bo_model_place(d, BO_MODEL_PART_CROSS)])->causal);
        bo_model_destroy(model);
    }
}

/* Across, a hybrid with an M is the attention of its features. */
static void test_ranks_across(void **state)
{
    test_directory *directory = *state;
    bo_model_desc desc = translator("hybrid");
    bo_model *model;
    desc.block.attention.rank = 2;
    assert_ok(directory->context, bo_model_create(directory->context, &desc, NULL, &model));
    const bo_attention_desc *cross = &bo_model_describe(model)->block.cross_attention;
    assert_int_equal(cross->kind, BO_ATTENTION_DARK);
    assert_int_equal(cross->rank, 2);
    bo_model_destroy(model);
}

/* A window looks backward: attention without a causal mask would refuse it. */
static void test_windows_alternate(void **state)
{
    test_directory *directory = *state;
    bo_model *model;
    bo_model_desc desc = labeler_desc("softmax", BO_MODEL_TASK_CLASSIFY);
    desc.block.attention.window = 5;
    assert_ok(directory->context, bo_model_create(directory->context, &desc, NULL, &model));
    assert_true(bo_model_alternates(bo_model_describe(model)));
    bo_model_destroy(model);
}

/* Softmax attention with a window counts as set, although its kind is zero. */
static void test_window_of_the_encoder(void **state)
{
    test_directory *directory = *state;
    bo_model *model;
    bo_model_desc desc = translator("rfa");
    test_encode(&desc, &(bo_attention_desc){.window = 5});
    assert_ok(directory->context, bo_model_create(directory->context, &desc, NULL, &model));
    const bo_model_desc *d = bo_model_describe(model);
    assert_int_equal(d->encoder.attention.kind, BO_ATTENTION_SOFTMAX);
    assert_int_equal(d->encoder.attention.window, 5);
    bo_model_destroy(model);
    desc.block.cross_attention.window = 5;
    assert_fails(directory->context, BO_INVALID, "cross_attention must have no gate and no window",
                 bo_model_create(directory->context, &desc, NULL, &model));
}

/* A tokenizer without an end token gets one. */
static void test_vocabulary_of_translators(void **state)
{
    test_directory *directory = *state;
    bo_tokenizer *bytes;
    bo_model *model;
    bo_texts_desc texts = {0};
    bo_model_desc desc = translator("softmax");
    desc.vocab = 0;
    assert_ok(directory->context, bo_tokenizer_create(directory->context, &bytes));
    assert_ok(directory->context, bo_model_create(directory->context, &desc, bytes, &model));
    assert_int_equal(bo_model_describe(model)->vocab, 257);
    bo_model_preset_texts(model, false, &texts);
    assert_int_equal(texts.kind, BO_TEXTS_PAIR);
    assert_int_equal(texts.end, 257);
    assert_int_equal(texts.longest, CONTEXT);
    bo_model_destroy(model);
    desc.vocab = 256;
    assert_fails(directory->context, BO_INVALID, "256 ids and an end",
                 bo_model_create(directory->context, &desc, bytes, &model));
    bo_tokenizer_destroy(bytes);
}

/* ---- directories ------------------------------------------------------------------------------------------------- */

static void check_trip(test_directory *directory, const bo_model_desc *desc)
{
    bo_context *context = directory->context;
    bo_model *model, *read, *again;
    char *json, *other;
    assert_ok(context, bo_model_create(context, desc, NULL, &model));
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    assert_true(bo_model_fingerprint(model) == bo_model_fingerprint(read));
    assert_ok(context, bo_config_write(context, model, &json));
    assert_ok(context, bo_config_write(context, read, &other));
    assert_string_equal(json, other);
    bo_free(other);
    assert_ok(context, bo_model_create(context, bo_model_describe(read), NULL, &again));
    assert_ok(context, bo_config_write(context, again, &other));
    assert_string_equal(json, other);
    for (size_t i = 0; i < desc->classes; i++)
        assert_string_equal(bo_model_describe(again)->labels[i], bo_model_describe(model)->labels[i]);
    bo_free(json);
    bo_free(other);
    bo_model_destroy(model);
    bo_model_destroy(read);
    bo_model_destroy(again);
}

static void test_trips(void **state)
{
    static const char *const odd[] = {"\"", "ähnlich\\", "{\xe2\x80\xa8}"};
    const char *kind;
    for (size_t i = 0; (kind = test_kind(i)); i++) {
        if (test_same_word(kind, "mlp")) continue;
        bo_model_desc desc = labeler_desc(kind, i % 2 ? BO_MODEL_TASK_CLASSIFY : BO_MODEL_TASK_MATCH),
                      pairs = translator(kind);
        desc.pooling = (bo_pooling)(1 + i % 3), desc.forward = i % 3 != 1;
        desc.labels = i % 4 == 1 ? odd : i % 4 == 2 ? NULL : desc.labels;
        check_trip(*state, &desc);
        pairs.encoder_layers = 1, pairs.cross = (bo_cross)(i % 2);
        if (i % 3 == 0) pairs.block.mlp = BO_MLP_RANDOM_FEATURES;
        check_trip(*state, &pairs);
        pairs.cross = BO_CROSS_ATTENTION;
        pairs.block.cross_attention = (bo_attention_desc){.kind = BO_ATTENTION_SOFTMAX, .heads = pairs.block.heads};
        check_trip(*state, &pairs);
        if (pairs.block.mixer != BO_MIXER_ATTENTION) continue;
        const bool exact = pairs.block.attention.kind == BO_ATTENTION_SOFTMAX && !pairs.block.attention.window;
        test_encode_kind(&pairs, exact ? "rfa-gate" : "softmax");
        check_trip(*state, &pairs);
    }
}

/* A change of config.json and the resulting error message; without a message the model still loads. */
typedef struct lie {
    const char *old, *new, *message;
} lie;

/* Replaces the first occurrence after `where`. */
static void expect_lies_refused(test_directory *directory, const bo_model_desc *desc, const char *where, size_t count,
                                const lie *lies)
{
    bo_context *context = directory->context;
    bo_model *model, *read;
    char *config, text[16384];
    assert_ok(context, bo_model_create(context, desc, NULL, &model));
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    assert_ok(context, bo_config_write(context, model, &config));
    for (size_t i = 0; i < count; i++) {
        const char *at = strstr(strstr(config, where), lies[i].old);
        if (!at) fail_msg("config.json lacks %s", lies[i].old);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - config), config, lies[i].new, at + strlen(lies[i].old));
        test_text(directory, "config.json", text);
        bo_status status = bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read);
        const bool fine = !*lies[i].message;
        if (status != (fine ? BO_OK : BO_FORMAT) || (!fine && !strstr(bo_context_error(context), lies[i].message)))
            fail_msg("%s instead of %s: %s: %s", lies[i].new, lies[i].old, bo_status_string(status),
                     status ? bo_context_error(context) : "");
        bo_model_destroy(read);
    }
    bo_free(config);
    bo_model_destroy(model);
}

/* Large sizes in a small file do not allocate memory before the weights are found to be present. */
static void test_lies_about_sizes(void **state)
{
    static const lie lies[] = {{"\"features\": 8,", "\"features\": 1048576,", "the configuration needs"}};
    static const lie large[] = {{"\"encoder_layers\": 2", "\"encoder_layers\": 4096", "the configuration needs"}};
    bo_model_desc desc = translator("rfa");
    desc.block.cross_attention = desc.block.attention;
    desc.block.cross_attention.features.features = 8, desc.encoder_layers = 2;
    expect_lies_refused(*state, &desc, "\"cross_attention\"", 1, lies);
    test_encode(&desc, &desc.block.cross_attention);
    expect_lies_refused(*state, &desc, "\"encoder_blocks\"", 1, lies);
    expect_lies_refused(*state, &desc, "", 1, large);
}

static void test_lies(void **state)
{
    static const lie lies[] = {
        {"\"task\": \"match\"", "\"task\": \"judge\"",
         "\"task\" should be one of language, classify, match, translate, predict, found \"judge\""},
        {"\"task\": \"match\"", "\"task\": \"classify\"", "match.bias"},
        {"\"task\": \"match\"", "\"task\": \"language\"", "is not part of the model"},
        {"\"pooling\": \"mean\"", "\"pooling\": \"sum\"", "\"pooling\" should be one of mean, "},
        {"\"forward\": false", "\"forward\": 0", "true or false"},
        {"\"id2label\"", "\"id2name\"", "\"id2label\" should be an object"},
        {"\"id2label\": {", "\"id2label\": 3, \"other\": {", "\"id2label\" should be an object"},
        {"\"id2label\": {", "\"id2label\": {}, \"other\": {", "\"id2label\" should be an object"},
        {"\"1\": \"fair\"", "\"0\": \"fair\"", "found \"0\" twice"},
        {"\"1\": \"fair\"", "\"3\": \"fair\"", "found \"3\""},
        {"\"1\": \"fair\"", "\"x\": \"fair\"", "found \"x\""},
        {"\"1\": \"fair\"", "\"-1\": \"fair\"", "found \"-1\""},
        {"\"1\": \"fair\"", "\"1\": 7", "should be a label"},
        {"\"1\": \"fair\"", "\"1\": \"\"", "should be a label"},
        {"\"1\": \"fair\"", "\"1\": \"fair\\u0000\"", "contains \\u0000"},
        {"\"1\": \"fair\"", "\"1\": \"bad\"", "contradicts \"id2label\""},
        {"\"2\": \"good\"", "\"2\": \"good\", \"3\": \"best\"", "the 4 labels"},
        {"\"fair\": 1", "\"fair\": 2", "\"fair\" contradicts"},
        {"\"fair\": 1", "\"faire\": 1", "\"faire\" contradicts"},
        {"\"label2id\": {", "\"label2id\": {\"bad\": 0}, \"other\": {", "the 3 labels"},
        {"\"label2id\"", "\"labels\"", ""}, /* optional: the model loads */
    };
    const bo_model_desc desc = labeler_desc("rfa", BO_MODEL_TASK_MATCH);
    expect_lies_refused(*state, &desc, "", sizeof lies / sizeof *lies, lies);
}

/* In files of format 1, encoders with ridge attention read in alternating directions. */
static void test_earlier_encoders(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    static const struct {
        const char *task, *kind, *gate;
        bool refused;
    } cases[] = {{"\"task\": \"classify\", \"id2label\": {\"0\": \"bad\", \"1\": \"good\"}", "ridge", "none", true},
                 {"\"task\": \"translate\"", "ridge", "none", true},
                 {"\"task\": \"classify\", \"id2label\": {\"0\": \"bad\", \"1\": \"good\"}", "ridge", "decay", false},
                 {"\"task\": \"language\"", "ridge", "none", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int format = 1; format <= 2; format++) {
            char text[1024];
            bo_config config;
            bo_model_desc resolved;
            snprintf(text, sizeof text,
                     "{\"model_type\": \"bochner\", \"bochner_format\": %d, \"vocab_size\": 100, \"hidden_size\": 16, "
                     "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"max_position_embeddings\": 32, %s, "
                     "\"attention\": {\"kind\": \"%s\", \"gate\": \"%s\", \"features\": {\"features\": 8}}}",
                     format, cases[i].task, cases[i].kind, cases[i].gate);
            const bo_status status = bo_config_read(context, "config.json", text, strlen(text), &config);
            if (cases[i].refused && format == 1) {
                assert_fails(context, BO_VERSION, "ridge attention read forward and backward", status);
                continue;
            }
            assert_ok(context, status);
            assert_ok(context, bo_model_resolve(context, &config.desc, NULL, &resolved));
            assert_int_equal(resolved.block.attention.kind, BO_ATTENTION_RIDGE);
            bo_model_desc_release(&resolved);
            bo_config_free(&config);
        }
}

/* Without "encoder_blocks" the encoder has the blocks of the decoder. */
static void test_lies_about_parts(void **state)
{
    static const lie missing[] = {{"\"encoder_blocks\"", "\"unknown\"", ""}};
    static const lie lies[] = {
        {"\"encoder_blocks\": [", "\"encoder_blocks\": 3, \"other\": [", "\"encoder_blocks\""},
        {"\"encoder_blocks\": [", "\"encoder_blocks\": [], \"other\": [", "\"encoder_blocks\""},
        {"\"kind\": \"softmax\"", "\"kind\": \"hardmax\"", "block 0 of \"encoder_blocks\""},
        {"\"kind\": \"softmax\"", "\"kind\": \"rfa\"", "capacity"},
        {"\"encoder_blocks\"", "\"unknown\"", "model.encoder.layers.0"}, /* the encoder lacks weights of rfa */
    };
    bo_model_desc desc = translator("rfa");
    expect_lies_refused(*state, &desc, "", 1, missing);
    test_encode_kind(&desc, "softmax");
    expect_lies_refused(*state, &desc, "\"encoder_blocks\"", sizeof lies / sizeof *lies, lies);
}

/* ---- other models ------------------------------------------------------------------------------------------------ */

static bool same_weight(bo_context *context, const bo_model *a, const bo_model *b, const char *name)
{
    static float first[1 << 14], second[1 << 14];
    assert_ok(context, bo_weights_get(context, bo_model_weights(a), name, first, NULL));
    assert_ok(context, bo_weights_get(context, bo_model_weights(b), name, second, NULL));
    return memcmp(first, second, 64 * sizeof *first) == 0;
}

/* A language model provides embeddings and layers; the classification head is new. */
static void test_adopted(void **state)
{
    test_directory *directory = *state;
    bo_model_desc language = test_desc("rfa"), desc = labeler_desc("rfa", BO_MODEL_TASK_CLASSIFY),
                  pairs = translator("rfa");
    bo_model *from, *model;
    size_t copied;
    language.seed = 99;
    assert_ok(directory->context, bo_model_create(directory->context, &language, NULL, &from));
    shake(directory->context, from);
    assert_ok(directory->context, bo_model_create(directory->context, &desc, NULL, &model));
    assert_ok(directory->context, bo_model_adopt(directory->context, model, from, &copied));
    assert_int_equal(copied, bo_weights_count(bo_model_weights(from)));
    assert_int_equal(bo_weights_count(bo_model_weights(model)), copied + 1);
    assert_true(same_weight(directory->context, model, from, "model.embed_tokens.weight"));
    assert_true(same_weight(directory->context, model, from, "model.layers.1.mlp.up_proj.weight"));
    assert_int_equal(bo_features_fingerprint(bo_attention_features(bo_model_attention(model, 1), 0)),
                     bo_features_fingerprint(bo_attention_features(bo_model_attention(from, 1), 0)));
    bo_model_destroy(model);
    assert_ok(directory->context, bo_model_create(directory->context, &pairs, NULL, &model));
    assert_ok(directory->context, bo_model_adopt(directory->context, model, from, &copied));
    assert_int_equal(copied, bo_weights_count(bo_model_weights(from)));
    assert_true(same_weight(directory->context, model, from, "model.layers.1.mlp.up_proj.weight"));
    bo_model_destroy(model);
    bo_model_destroy(from);
}

static uint64_t fingerprint(bo_context *context, const bo_model_desc *desc)
{
    bo_model *model;
    assert_ok(context, bo_model_create(context, desc, NULL, &model));
    const uint64_t found = bo_model_fingerprint(model);
    bo_model_destroy(model);
    return found;
}

static void rename_label(bo_model_desc *d)
{
    static const char *const labels[] = {"bad", "fair", "best"};
    d->labels = labels;
}
static void pool_largest(bo_model_desc *d)
{
    d->pooling = BO_POOLING_MAX;
}
static void read_forwards(bo_model_desc *d)
{
    d->forward = true;
}

/* The fingerprint changes with the attention of the encoder, but not if that of the decoder is written out. */
static void test_fingerprints_of_parts(void **state)
{
    test_directory *directory = *state;
    bo_model_desc desc = translator("rfa");
    const uint64_t plain = fingerprint(directory->context, &desc);
    test_encode(&desc, &desc.block.attention);
    assert_true(plain == fingerprint(directory->context, &desc));
    desc.encoder.attention.temperature = 2;
    assert_true(plain != fingerprint(directory->context, &desc));
}

static void test_fingerprints(void **state)
{
    static const change changes[] = {rename_label, pool_largest, read_forwards};
    test_directory *directory = *state;
    const bo_model_desc desc = labeler_desc("rfa", BO_MODEL_TASK_CLASSIFY);
    const uint64_t plain = fingerprint(directory->context, &desc);
    assert_true(plain == fingerprint(directory->context, &desc));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        bo_model_desc other = desc;
        changes[i](&other);
        assert_true(plain != fingerprint(directory->context, &other));
    }
}

/* Stored in fewer bits, with adapters, or at another width by the rules of μP: classification still works. */
static void test_other_forms(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    static const size_t lengths[] = {6, 11};
    float before[2 * CLASSES], after[2 * CLASSES];
    bo_tokenizer *bytes;
    bo_model *model;
    bo_model_desc desc = labeler_desc("rfa", BO_MODEL_TASK_MATCH), wide;
    desc.width = 64, desc.block.heads = 4, desc.block.hidden = 64;
    assert_ok(context, bo_tokenizer_create(context, &bytes));
    bo_texts *texts = labeled_texts(context, bytes, &desc, 2, lengths);
    model = labeler(context, &desc, bytes);
    assert_ok(context, bo_model_classify(context, model, texts, 0, 2, before));
    assert_ok(context, bo_model_adapt(context, model, &(bo_lora_desc){.rank = 2}));
    assert_ok(context, bo_model_classify(context, model, texts, 0, 2, after));
    assert_memory_equal(before, after, sizeof before); /* adapters have no effect initially */
    bo_model_destroy(model);
    model = labeler(context, &desc, bytes);
    assert_ok(context, bo_model_set_storage(context, model, BO_STORAGE_BFLOAT16));
    assert_ok(context, bo_model_classify(context, model, texts, 0, 2, after));
    for (size_t i = 0; i < 2 * CLASSES; i++) assert_true(fabsf(before[i] - after[i]) < 0.05f);
    assert_true(memcmp(before, after, sizeof before) != 0);
    bo_model_destroy(model);
    desc.parametrization = BO_PARAMETRIZATION_MUP, desc.base_width = 32;
    assert_ok(context, bo_model_widen(context, &desc, 128, &wide));
    assert_ok(context, bo_model_create(context, &wide, bytes, &model));
    assert_ok(context, bo_model_classify(context, model, texts, 0, 2, after));
    bo_model_destroy(model);
    bo_model_desc_release(&wide);
    desc = translator("rfa");
    desc.parametrization = BO_PARAMETRIZATION_MUP, desc.base_width = 8, desc.block.heads = 2, desc.vocab = 0;
    desc.block.cross_attention = (bo_attention_desc){.kind = BO_ATTENTION_SOFTMAX, .heads = 2};
    test_encode_kind(&desc, "softmax");
    assert_ok(context, bo_model_widen(context, &desc, 32, &wide));
    assert_ok(context, bo_model_create(context, &wide, bytes, &model));
    bo_model_destroy(model);
    bo_model_desc_release(&wide);
    bo_texts_close(texts);
    bo_tokenizer_destroy(bytes);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, test_setup, test_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_refused),
        TEST(test_directions),
        TEST(test_ranks_across),
        TEST(test_windows_alternate),
        TEST(test_window_of_the_encoder),
        TEST(test_vocabulary_of_translators),
        TEST(test_trips),
        TEST(test_lies),
        TEST(test_lies_about_sizes),
        TEST(test_earlier_encoders),
        TEST(test_adopted),
        TEST(test_fingerprints),
        TEST(test_other_forms),
        TEST(test_mixed_parts),
        TEST(test_lies_about_parts),
        TEST(test_fingerprints_of_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
