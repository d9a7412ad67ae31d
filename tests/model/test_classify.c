/* Classification of texts: the same result one by one, in packs and in pieces; both directions are read; results are
 * counted; bad input. */
#include "base/counting.h"
#include "labelers.h"

enum { EXAMPLES = 20, LONG = 5000 };

typedef struct setting {
    bo_context *context;
    bo_tokenizer *tokenizer;
} setting;

static int setup(void **state)
{
    setting *s = calloc(1, sizeof *s);
    s->context = test_context(2);
    assert_ok(s->context, bo_tokenizer_create(s->context, &s->tokenizer));
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    setting *s = *state;
    bo_tokenizer_destroy(s->tokenizer);
    bo_context_destroy(s->context);
    free(s);
    return 0;
}

static double furthest(size_t count, const float *a, const float *b)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)a[i] - (double)b[i]));
    return largest;
}

/* Sums in another order: a few rounding errors of numbers of size 1, and a few more if denominators are clamped. */
#define ROUNDING 2e-5

/* ---- alone and packed -------------------------------------------------------------------------------------------- */

static void alone_as_together(const setting *s, const char *kind, bo_model_task task, bo_pooling pooling)
{
    size_t lengths[EXAMPLES];
    float together[EXAMPLES * CLASSES], alone[EXAMPLES * CLASSES];
    bo_model_desc desc = labeler_desc(kind, task);
    desc.pooling = pooling;
    for (size_t i = 0; i < EXAMPLES; i++) lengths[i] = 1 + i * i * 7 % 23;
    bo_model *model = labeler(s->context, &desc, s->tokenizer);
    bo_texts *texts = labeled_texts(s->context, s->tokenizer, &desc, EXAMPLES, lengths);
    assert_ok(s->context, bo_model_classify(s->context, model, texts, 0, EXAMPLES, together));
    for (size_t i = 0; i < EXAMPLES; i++) {
        double sum = 0;
        assert_ok(s->context, bo_model_classify(s->context, model, texts, i, 1, alone + i * CLASSES));
        for (size_t c = 0; c < CLASSES; c++) sum += (double)alone[i * CLASSES + c];
        assert_true(fabs(sum - 1) < 1e-6);
    }
    double largest = furthest(EXAMPLES * CLASSES, together, alone);
    if (!(largest <= ROUNDING)) fail_msg("%s: packs change probabilities by %g", kind, largest);
    if (!(furthest(CLASSES, together, together + CLASSES) > ROUNDING)) fail_msg("%s: all texts are alike", kind);
    bo_texts_close(texts);
    bo_model_destroy(model);
}

static void test_packs_change_nothing(void **state)
{
    const char *kind;
    for (size_t i = 0; (kind = test_kind(i)); i++)
        if (!test_same_word(kind, "mlp"))
            alone_as_together(*state, kind, i % 2 ? BO_MODEL_TASK_MATCH : BO_MODEL_TASK_CLASSIFY, (bo_pooling)(i % 4));
}

/* ---- long texts -------------------------------------------------------------------------------------------------- */

/* Reads example 0 in a graph that holds all of it. */
static void read_whole(const setting *s, const bo_model *model, const bo_texts *texts, float *out)
{
    bo_graph_pass pass = {0};
    double sum = 0;
    bo_text_pack *pack = labeled_pack(s->context, texts, 2 * LONG, 1, 1);
    bo_model_graph g = labeler_graph(s->context, model, pack, (bo_model_graph_desc){.outputs = true}, &pass);
    assert_ok(s->context, bo_graph_run(s->context, g.graph, &pass));
    assert_ok(s->context, bo_graph_read(s->context, g.graph, g.outputs, out));
    for (size_t c = 0; c < CLASSES; c++) sum += exp((double)out[c]);
    for (size_t c = 0; c < CLASSES; c++) out[c] = (float)(exp((double)out[c]) / sum);
    bo_model_graph_destroy(&g);
    bo_text_pack_destroy(pack);
}

static void whole_as_in_pieces(const setting *s, const char *kind, bo_model_desc desc)
{
    static const size_t lengths[] = {LONG, 30};
    float whole[CLASSES], found[2 * CLASSES], short_one[CLASSES];
    bo_model *model = labeler(s->context, &desc, s->tokenizer);
    bo_texts *texts = labeled_texts(s->context, s->tokenizer, &desc, 2, lengths);
    read_whole(s, model, texts, whole);
    assert_ok(s->context, bo_model_classify(s->context, model, texts, 0, 2, found));
    assert_ok(s->context, bo_model_classify(s->context, model, texts, 1, 1, short_one));
    double largest = furthest(CLASSES, whole, found);
    if (!(largest <= 10 * ROUNDING)) fail_msg("%s: pieces change probabilities by %g", kind, largest);
    assert_true(furthest(CLASSES, short_one, found + CLASSES) <= ROUNDING);
    bo_texts_close(texts);
    bo_model_destroy(model);
}

static void test_texts_of_any_length(void **state)
{
    static const struct {
        const char *kind;
        bo_model_task task;
        bo_pooling pooling;
        bool forward, streams;
        size_t window;
    } cases[] = {
        {"rfa", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MEAN, true, true, 0},
        {"rfa-gate", BO_MODEL_TASK_CLASSIFY, BO_POOLING_LAST, true, true, 0},
        {"favor", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MAX, true, true, 0},
        {"delta", BO_MODEL_TASK_MATCH, BO_POOLING_MEAN, true, true, 0},
        {"ridge", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MEAN, true, true, 0},
        {"ridge", BO_MODEL_TASK_MATCH, BO_POOLING_MEAN, false, false, 0},
        {"ssm", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MEAN, true, true, 0},
        {"gru", BO_MODEL_TASK_MATCH, BO_POOLING_LAST, true, true, 0},
        {"conv", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MAX, true, true, 0},
        {"softmax", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MEAN, true, true, 9},
        /* keeps every key, so the text is read whole */
        {"softmax", BO_MODEL_TASK_CLASSIFY, BO_POOLING_LAST, true, false, 0},
        {"rfa", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MEAN, false, false, 0},
        {"rfa-gate", BO_MODEL_TASK_MATCH, BO_POOLING_MEAN, false, false, 0},
    };
    setting *s = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_model_desc desc = labeler_desc(cases[i].kind, cases[i].task);
        desc.pooling = cases[i].pooling, desc.forward = cases[i].forward, desc.block.attention.window = cases[i].window;
        bo_model *model;
        assert_ok(s->context, bo_model_create(s->context, &desc, s->tokenizer, &model));
        assert_int_equal(bo_model_report(model)->state_bytes > 0, cases[i].streams);
        bo_model_destroy(model);
        whole_as_in_pieces(s, cases[i].kind, desc);
    }
}

/* A streaming model needs the same memory for a longer text. */
static void test_streams_in_constant_memory(void **state)
{
    setting *s = *state;
    size_t peaks[2];
    bo_model_desc desc = labeler_desc("rfa-gate", BO_MODEL_TASK_CLASSIFY);
    desc.forward = true;
    bo_model *model = labeler(s->context, &desc, s->tokenizer);
    for (size_t i = 0; i < 2; i++) {
        const size_t lengths[] = {LONG << 2 * i, 3};
        float found[CLASSES];
        bo_texts *texts = labeled_texts(s->context, s->tokenizer, &desc, 2, lengths);
        counting memory = {0};
        bo_context *context = counting_context(&memory, 1);
        assert_ok(context, bo_model_classify(context, model, texts, 0, 1, found));
        peaks[i] = atomic_load(&memory.peak);
        bo_context_destroy(context);
        bo_texts_close(texts);
    }
    assert_int_equal(peaks[0], peaks[1]);
    bo_model_destroy(model);
}

/* ---- both directions --------------------------------------------------------------------------------------------- */

/* Makes the mixer of a layer output zero. */
static void silence(bo_context *context, bo_model *model, size_t layer)
{
    static const float zeros[1 << 10];
    char name[80];
    const bool attends = bo_model_attention(model, 0);
    snprintf(name, sizeof name, "model.layers.%zu.%s.weight", layer, attends ? "self_attn.o_proj" : "mixer.out_proj");
    assert_ok(context, bo_weights_set(context, bo_model_weights(model), name, zeros));
}

/* Whether the vector of the first token depends on the last token, or the vector of the last token on the first, with
 * one layer disabled (-1: none). */
static bool sees_far_end(const setting *s, const char *kind, bo_pooling pooling, bool forward, int silent)
{
    static const char lines[] = "bad\tthe first\nbad\tthe firsu\ngood\tche first\n";
    const size_t other = pooling == BO_POOLING_LAST ? 2 : 1;
    float found[3 * CLASSES];
    bo_texts *texts;
    bo_model_desc desc = labeler_desc(kind, BO_MODEL_TASK_CLASSIFY);
    desc.pooling = pooling, desc.forward = forward;
    bo_model *model = labeler(s->context, &desc, s->tokenizer);
    if (silent >= 0) silence(s->context, model, (size_t)silent);
    bo_texts_desc texts_desc = {0};
    bo_model_preset_texts(model, false, &texts_desc);
    texts_desc.memory = lines, texts_desc.memory_bytes = strlen(lines);
    assert_ok(s->context, bo_texts_open(s->context, &texts_desc, &texts));
    assert_ok(s->context, bo_model_classify(s->context, model, texts, 0, 3, found));
    const bool differs = furthest(CLASSES, found, found + other * CLASSES) > 0;
    bo_texts_close(texts);
    bo_model_destroy(model);
    return differs;
}

static void test_both_sides_are_read(void **state)
{
    static const char *const kinds[] = {"softmax", "rfa", "favor", "ridge", "rfa-gate", "hybrid", "gla", "ssm", "gru"};
    enum { BOTH_WAYS = 4 };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int silent = -1; silent < LAYERS; silent++) {
            /* layer 0 reads forward, layer 1 backward */
            const bool first = i < BOTH_WAYS || silent != 1, last = i < BOTH_WAYS || silent != 0;
            if (sees_far_end(*state, kinds[i], BO_POOLING_FIRST, false, silent) != first ||
                sees_far_end(*state, kinds[i], BO_POOLING_LAST, false, silent) != last ||
                !sees_far_end(*state, kinds[i], BO_POOLING_LAST, true, silent))
                fail_msg("%s without layer %d: the wrong end is seen", kinds[i], silent);
        }
}

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

static void test_found_is_counted(void **state)
{
    setting *s = *state;
    size_t lengths[EXAMPLES], right = 0, tokens = 0;
    float p[EXAMPLES * CLASSES];
    double loss = 0;
    uint64_t confusion[CLASSES * CLASSES] = {0};
    bo_classification found;
    for (size_t i = 0; i < EXAMPLES; i++) tokens += lengths[i] = 3 + i % 5;
    bo_model_desc desc = labeler_desc("rfa", BO_MODEL_TASK_CLASSIFY);
    bo_model *model = labeler(s->context, &desc, s->tokenizer);
    bo_texts *texts = labeled_texts(s->context, s->tokenizer, &desc, EXAMPLES, lengths);
    assert_ok(s->context, bo_model_classify(s->context, model, texts, 0, EXAMPLES, p));
    for (size_t i = 0; i < EXAMPLES; i++) {
        const float *row = p + i * CLASSES;
        size_t predicted = row[1] > row[0] ? 1 : 0;
        if (row[2] > row[predicted]) predicted = 2;
        confusion[i % CLASSES * CLASSES + predicted]++;
        right += predicted == i % CLASSES;
        loss -= log((double)row[i % CLASSES]) / EXAMPLES;
    }
    bo_metrics *metrics;
    assert_ok(s->context, bo_model_evaluate_labels(s->context, model, texts, 0, &found, &metrics));
    assert_int_equal(found.examples, EXAMPLES);
    assert_int_equal(found.tokens, tokens);
    assert_int_equal(metrics->desc.classes, CLASSES);
    assert_memory_equal(metrics->confusion, confusion, sizeof confusion);
    assert_true(fabs(found.accuracy - (double)right / EXAMPLES) < 1e-12 && fabs(found.loss - loss) < 1e-5);
    bo_metrics_destroy(metrics);
    assert_ok(s->context, bo_model_evaluate_labels(s->context, model, texts, 7, &found, NULL));
    assert_int_equal(found.examples, 7);
    bo_texts_close(texts);
    bo_model_destroy(model);
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static bo_texts *open_lines(const setting *s, bo_texts_kind kind, const char *lines)
{
    bo_texts *texts;
    bo_texts_desc desc = {.kind = kind, .tokenizer = s->tokenizer, .memory = lines, .memory_bytes = strlen(lines)};
    assert_ok(s->context, bo_texts_open(s->context, &desc, &texts));
    return texts;
}

static void test_wrong_models_and_texts(void **state)
{
    setting *s = *state;
    float p[8 * CLASSES];
    bo_classification found;
    bo_metrics *metrics = (bo_metrics *)s;
    bo_session *session;
    bo_texts *alone = open_lines(s, BO_TEXTS_ALONE, "x\ny\n"), *pairs = open_lines(s, BO_TEXTS_ALONE_PAIR, "x\ty\n"),
             *unlabeled = open_lines(s, BO_TEXTS_LABELED, "no\tx\nyes\ty\n");
    bo_model_desc desc = labeler_desc("softmax", BO_MODEL_TASK_CLASSIFY), language = test_desc("softmax");
    bo_model *model = labeler(s->context, &desc, s->tokenizer), *other;
    assert_ok(s->context, bo_model_create(s->context, &language, s->tokenizer, &other));
    assert_fails(s->context, BO_INVALID, "task language", bo_model_classify(s->context, other, alone, 0, 1, p));
    assert_fails(s->context, BO_INVALID, "single texts", bo_model_classify(s->context, model, pairs, 0, 1, p));
    assert_fails(s->context, BO_INVALID, "1 to 3 are out of range: there are 2",
                 bo_model_classify(s->context, model, alone, 1, 2, p));
    assert_fails(s->context, BO_INVALID, "NULL", bo_model_classify(s->context, NULL, alone, 0, 1, p));
    assert_fails(s->context, BO_INVALID, "have no labels",
                 bo_model_evaluate_labels(s->context, model, alone, 0, &found, NULL));
    assert_fails(s->context, BO_INVALID, "do not have the labels",
                 bo_model_evaluate_labels(s->context, model, unlabeled, 0, &found, &metrics));
    assert_null(metrics);
    assert_fails(s->context, BO_INVALID, "bo_model_classify", bo_session_create(s->context, model, NULL, &session));
    assert_fails(s->context, BO_INVALID, "bo_model_classify",
                 bo_model_probe(s->context, model, (int32_t[]){1}, 1, &(double){0}));
    bo_model_destroy(other);
    desc.block.positions = BO_POSITIONS_LEARNED, desc.context = 4;
    assert_ok(s->context, bo_model_create(s->context, &desc, s->tokenizer, &other));
    bo_texts *longer = open_lines(s, BO_TEXTS_ALONE, "four\nseven..\n");
    assert_ok(s->context, bo_model_classify(s->context, other, longer, 0, 1, p));
    assert_fails(s->context, BO_INVALID, "line 2", bo_model_classify(s->context, other, longer, 0, 2, p));
    bo_model_destroy(other);
    const bo_texts_desc lines = {
        .kind = BO_TEXTS_ALONE, .tokenizer = s->tokenizer, .memory = "x\n\ny\n", .memory_bytes = 5, .empty = true};
    bo_texts *empty;
    assert_ok(s->context, bo_texts_open(s->context, &lines, &empty));
    assert_fails(s->context, BO_INVALID, "line 2: the text is empty",
                 bo_model_classify(s->context, model, empty, 0, 3, p));
    bo_texts_close(empty);
    desc = labeler_desc("softmax", BO_MODEL_TASK_CLASSIFY);
    desc.vocab = 100;
    assert_ok(s->context, bo_model_create(s->context, &desc, NULL, &other));
    assert_fails(s->context, BO_INVALID, "below 100", bo_model_classify(s->context, other, alone, 0, 1, p));
    bo_model_destroy(other);
    bo_model_destroy(model);
    bo_texts_close(longer);
    bo_texts_close(unlabeled);
    bo_texts_close(pairs);
    bo_texts_close(alone);
}

/* Every allocation fails once. */
static void test_starved(void **state)
{
    setting *s = *state;
    static const size_t lengths[] = {5, LONG, 4};
    for (int forward = 0; forward < 2; forward++) {
        bo_model_desc desc = labeler_desc("rfa", BO_MODEL_TASK_MATCH);
        desc.layers = 1, desc.forward = forward;
        bo_model *model;
        assert_ok(s->context, bo_model_create(s->context, &desc, s->tokenizer, &model));
        bo_texts *texts = labeled_texts(s->context, s->tokenizer, &desc, 3, lengths);
        for (size_t at = 1, reached = 1; reached; at++) {
            counting memory = {0};
            bo_context *context = counting_context(&memory, 1);
            const size_t before = atomic_load(&memory.live);
            bo_classification found;
            bo_metrics *metrics = (bo_metrics *)s;
            memory.fail_at = atomic_load(&memory.calls) + at;
            bo_status status = bo_model_evaluate_labels(context, model, texts, 0, &found, &metrics);
            reached = atomic_load(&memory.calls) >= memory.fail_at;
            assert_int_equal(status, reached ? BO_MEMORY : BO_OK);
            if (status != BO_OK) assert_null(metrics);
            bo_metrics_destroy(metrics);
            assert_int_equal(atomic_load(&memory.live), before);
            bo_context_destroy(context);
        }
        bo_texts_close(texts);
        bo_model_destroy(model);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_packs_change_nothing),
        TEST(test_texts_of_any_length),
        TEST(test_streams_in_constant_memory),
        TEST(test_both_sides_are_read),
        TEST(test_found_is_counted),
        TEST(test_wrong_models_and_texts),
        TEST(test_starved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
