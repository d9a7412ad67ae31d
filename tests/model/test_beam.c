/* Beam search: greedy decoding is a beam of one, wide beams find the best text, and narrow beams find the result of a
 * simple beam search that reads every hypothesis from the start. Sources do not affect each other. */
#include "text/packs.h"
#include "model/lanes.h"
#include "model/translate.h"
#include "translators.h"

enum { SMALL = 5, LAST = SMALL - 1, MAX_TOKENS = 4, MAX_TEXTS = 1024 };

/* A partial text: log p of all its tokens; the last may be `end`. */
typedef struct text {
    int32_t ids[MAX_TOKENS];
    size_t length;
    double log_p;
    bool ended;
} text;

typedef struct truth {
    bo_context *context;
    bo_lanes *lane; /* a beam of one */
    bo_text_view source;
    const bo_search *search;
    text best;
    double score;
} truth;

/* log p of all possible next tokens, computed by reading the text from the start. */
static void followers(const truth *t, const text *x, double *log_p)
{
    float logits[SMALL];
    int32_t begin = LAST;
    double total = 0;
    assert_ok(t->context, bo_lanes_read(t->context, t->lane, &t->source, 1));
    assert_ok(t->context, bo_lanes_step(t->context, t->lane, 1, &begin, logits));
    for (size_t i = 0; i < x->length; i++)
        assert_ok(t->context, bo_lanes_step(t->context, t->lane, 1, &x->ids[i], logits));
    for (size_t i = 0; i < SMALL; i++) total += exp((double)logits[i]);
    for (size_t i = 0; i < SMALL; i++) log_p[i] = (double)logits[i] - log(total);
}

static text with(const text *x, int32_t id, double log_p)
{
    text y = *x;
    y.ids[y.length++] = id;
    y.log_p += log_p;
    y.ended = id == LAST || y.length == MAX_TOKENS;
    return y;
}

static void keep_best(truth *t, const text *x)
{
    double score = bo_search_score(t->search, x->log_p, x->length);
    if (score > t->score) t->score = score, t->best = *x;
}

/* All possible texts. */
static void try_all(truth *t, const text *x)
{
    double log_p[SMALL];
    followers(t, x, log_p);
    for (int32_t id = 0; id < SMALL; id++) {
        text y = with(x, id, log_p[id]);
        if (y.ended)
            keep_best(t, &y);
        else
            try_all(t, &y);
    }
}

static int likelier_first(const void *a, const void *b)
{
    const text *x = a, *y = b;
    return x->log_p > y->log_p ? -1 : x->log_p < y->log_p;
}

/* The `width` most likely texts of each length; finished ones are removed. */
static void try_beam(truth *t)
{
    static text alive[MAX_TEXTS], next[MAX_TEXTS];
    size_t width = t->search->beam, count = 1;
    alive[0] = (text){0};
    while (count && width) {
        size_t found = 0, kept = 0;
        for (size_t i = 0; i < count; i++) {
            double log_p[SMALL];
            followers(t, &alive[i], log_p);
            for (int32_t id = 0; id < SMALL; id++) next[found++] = with(&alive[i], id, log_p[id]);
        }
        qsort(next, found, sizeof *next, likelier_first);
        for (size_t i = 0, all = found < width ? found : width; i < all; i++)
            if (next[i].ended)
                keep_best(t, &next[i]), width--;
            else
                alive[kept++] = next[i];
        count = kept;
    }
}

/* The text does not start with the most likely token, so its hypothesis was not the first of its beam. */
static bool is_detour(const truth *t)
{
    double log_p[SMALL];
    followers(t, &(text){0}, log_p);
    for (size_t i = 0; i < SMALL; i++)
        if (log_p[i] > log_p[t->best.ids[0]]) return true;
    return false;
}

/* Searches all sources together and compares with each source alone. Returns how many of the best texts were
 * detours. */
static size_t check(bo_context *context, const bo_model *model, size_t beam, double penalty, bool exhaustive)
{
    static const int32_t source_ids[] = {1, 3, 0, LAST, 2, LAST, 0, 0, 1, 2, LAST};
    const bo_text_view sources[] = {{source_ids, 4}, {source_ids + 4, 2}, {source_ids + 6, 5}};
    const size_t max_tokens[] = {MAX_TOKENS, MAX_TOKENS, MAX_TOKENS};
    bo_search search = {.beam = beam, .penalty = penalty, .end = LAST, .max_tokens = max_tokens};
    bo_ids ids[3] = {{0}};
    double scores[3];
    bo_lanes *lanes, *lane;
    size_t detours = 0;
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = 3 * beam + 1}, &lanes));
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = 1}, &lane));
    assert_ok(context, bo_lanes_search(context, lanes, sources, 3, &search, ids, scores));
    for (size_t s = 0; s < 3; s++) {
        truth t = {.context = context, .lane = lane, .source = sources[s], .search = &search, .score = -INFINITY};
        if (exhaustive)
            try_all(&t, &(text){0});
        else
            try_beam(&t);
        size_t length = t.best.length - (t.best.ids[t.best.length - 1] == LAST);
        assert_close(scores[s], t.best.log_p, 1e-4);
        assert_int_equal(ids[s].count, length);
        assert_memory_equal(ids[s].items, t.best.ids, length * sizeof *t.best.ids);
        bo_ids_free(&ids[s]);
        detours += is_detour(&t);
    }
    bo_lanes_destroy(lanes);
    bo_lanes_destroy(lane);
    return detours;
}

/* Makes all tokens nearly equally likely and the end unlikely: the logit of the end depends on column 0, which is 1
 * after the last norm. */
static void ponder(bo_context *context, bo_model *model)
{
    enum { WIDTH = 8 };
    float head[SMALL * WIDTH], gain[WIDTH], bias[WIDTH];
    assert_ok(context, bo_weights_get(context, bo_model_weights(model), "lm_head.weight", head, NULL));
    assert_ok(context, bo_weights_get(context, bo_model_weights(model), "model.norm.weight", gain, NULL));
    assert_ok(context, bo_weights_get(context, bo_model_weights(model), "model.norm.bias", bias, NULL));
    for (size_t i = 0; i < SMALL * WIDTH; i++) head[i] *= i % WIDTH == 0 || i / WIDTH == LAST ? 0 : 2;
    gain[0] = 0, bias[0] = 1, head[LAST * WIDTH] = -2;
    assert_ok(context, bo_weights_set(context, bo_model_weights(model), "lm_head.weight", head));
    assert_ok(context, bo_weights_set(context, bo_model_weights(model), "model.norm.weight", gain));
    assert_ok(context, bo_weights_set(context, bo_model_weights(model), "model.norm.bias", bias));
}

static size_t check_kind(bo_context *context, const char *kind, bo_cross cross, uint64_t seed)
{
    bo_model_desc desc = translator_desc(kind);
    bo_model *model;
    size_t detours = 0;
    desc.vocab = SMALL, desc.cross = cross, desc.seed = seed, desc.untied = true, desc.encoder_layers = 1;
    desc.block.norm = BO_NORM_LAYER;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    shake(context, model);
    ponder(context, model);
    assert_int_equal(check(context, model, 1, 0, false), 0);
    detours += check(context, model, 2, 0.6, false);
    detours += check(context, model, 3, 1, false);
    check(context, model, 256, seed % 2 ? 0 : 1, true); /* wider than the number of texts */
    bo_model_destroy(model);
    return detours;
}

static void of_several_kinds(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    size_t detours = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        detours += check_kind(context, "softmax", BO_CROSS_ATTENTION, seed);
        detours += check_kind(context, "rfa", BO_CROSS_ATTENTION, seed);
        detours += check_kind(context, "gru", BO_CROSS_SUMMARY, seed);
    }
    assert_true(detours >= 10);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_several_kinds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
