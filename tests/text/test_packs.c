/* Packs: every example once per epoch, within the rows of each side, well filled, and a function of seed and step;
 * packs in memory. */
#include "text/facts.h"
#include "texts.h"
#include "text/packs.h"

typedef struct setting {
    test_directory *directory;
    bo_context *context;
    bo_tokenizer *bytes;
    bo_texts *texts;
} setting;

typedef size_t length_fn(bo_rng *rng, size_t side, size_t before);

/* Reviews: log-normal lengths around 900 bytes, truncated at 4096. */
static size_t review_length(bo_rng *rng, size_t side, size_t before)
{
    (void)side, (void)before;
    const double length = 900 * exp(0.6 * bo_rng_normal(rng));
    return length < 4076 ? 20 + (size_t)length : 4096;
}

/* Sentences: about 13 tokens; target and source differ by a few. */
static size_t sentence_length(bo_rng *rng, size_t side, size_t before)
{
    if (side == 0) return 4 + (size_t)(10 * exp(0.45 * bo_rng_normal(rng)));
    const double length = (double)before + 2 * bo_rng_normal(rng);
    return length < 2 ? 2 : (size_t)length;
}

static size_t short_length(bo_rng *rng, size_t side, size_t before)
{
    (void)side, (void)before;
    return 1 + (size_t)bo_rng_below(rng, 12);
}

/* The texts of example i start with a byte of i. */
static setting open_setting(void **state, bo_texts_kind kind, size_t count, length_fn *length_of)
{
    test_directory *f = *state;
    setting s = {.directory = f, .context = f->context};
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.packs", (uint64_t)kind));
    const bool labeled = kind != BO_TEXTS_PAIR;
    const size_t sides = kind == BO_TEXTS_LABELED ? 1 : 2;
    char *text = malloc(count * sides * 4200);
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (labeled) bytes += (size_t)sprintf(text + bytes, "%zu\t", i % 3);
        for (size_t side = 0, length = 0; side < sides; side++) {
            length = length_of(&rng, side, length);
            if (side) text[bytes++] = '\t';
            memset(text + bytes, (int)('a' + i % 26), length);
            bytes += length;
        }
        text[bytes++] = '\n';
    }
    const char *path = test_write(f, "packs.tsv", text, bytes);
    free(text);
    assert_ok(s.context, bo_tokenizer_create(s.context, &s.bytes));
    bo_texts_desc desc = {
        .kind = kind, .paths = &path, .path_count = 1, .tokenizer = s.bytes, .end = kind == BO_TEXTS_PAIR ? 1 : 0};
    assert_ok(s.context, bo_texts_open(s.context, &desc, &s.texts));
    return s;
}

static void close_setting(setting *s)
{
    bo_texts_close(s->texts);
    bo_tokenizer_destroy(s->bytes);
}

static bo_packs *create_packs(const setting *s, bo_packs_desc desc)
{
    bo_packs *packs;
    desc.texts = s->texts;
    assert_ok(s->context, bo_packs_create(s->context, &desc, &packs));
    return packs;
}

/* The rows that an example needs on both sides, counted independently. */
static void add_need(const setting *s, size_t example, size_t need[2])
{
    const bool pair = bo_texts_get_kind(s->texts) == BO_TEXTS_PAIR;
    for (size_t side = 0; side < bo_texts_sides(s->texts); side++)
        need[pair ? side : 0] += bo_text_at(s->texts, example, side).count;
}

/* Takes packs until every example occurred once: within the rows, none twice. Returns the number of packs. */
static size_t take_epoch(const setting *s, bo_packs *packs, const bo_packs_desc *desc, uint64_t *at, size_t *order)
{
    const size_t count = bo_texts_count(s->texts);
    bool *seen = calloc(count, sizeof *seen);
    size_t *examples = malloc(desc->max_examples * sizeof *examples), used_examples = 0, used = 0, tokens = 0;
    for (; used_examples < count; used++, ++*at) {
        size_t in = 0, need[2] = {0, 0};
        assert_ok(s->context,
                  bo_packs_get(s->context, packs, *at / desc->batch, (size_t)(*at % desc->batch), examples, &in));
        assert_true(in > 0 && in <= desc->max_examples);
        for (size_t i = 0; i < in; i++) {
            assert_true(examples[i] < count);
            assert_false(seen[examples[i]]);
            seen[examples[i]] = true;
            if (order) order[used_examples] = examples[i];
            used_examples++;
            add_need(s, examples[i], need);
        }
        assert_true(need[0] <= desc->rows && need[1] <= desc->target_rows);
        tokens += need[0] + need[1];
    }
    assert_int_equal(used_examples, count);
    assert_int_equal(tokens, bo_texts_tokens(s->texts, 0) + bo_texts_tokens(s->texts, 1));
    free(seen);
    free(examples);
    return used;
}

/* ---- the layout -------------------------------------------------------------------------------------------------- */

static void expect_full(void **state, bo_texts_kind kind, size_t count, length_fn *length_of, bo_packs_desc desc)
{
    setting s = open_setting(state, kind, count, length_of);
    desc.seed = 5;
    bo_packs *packs = create_packs(&s, desc);
    uint64_t at = 0;
    const size_t used = take_epoch(&s, packs, &desc, &at, NULL);
    assert_int_equal(used, bo_packs_per_epoch(packs));
    const double tokens = (double)(bo_texts_tokens(s.texts, 0) + bo_texts_tokens(s.texts, 1));
    assert_close(bo_packs_occupancy(packs), tokens / (double)used / (double)(desc.rows + desc.target_rows), 1e-12);
    assert_true(bo_packs_occupancy(packs) >= 0.95);
    bo_packs_destroy(packs);
    close_setting(&s);
}

static void test_reviews_fill(void **state)
{
    expect_full(state, BO_TEXTS_LABELED, 5000, review_length,
                (bo_packs_desc){.rows = 4096, .max_examples = 256, .batch = 4});
}

static void test_pairs_fill(void **state)
{
    expect_full(state, BO_TEXTS_LABELED_PAIR, 2000, review_length,
                (bo_packs_desc){.rows = 8192, .max_examples = 64, .batch = 2});
}

static void test_sentences_fill(void **state)
{
    expect_full(state, BO_TEXTS_PAIR, 5000, sentence_length,
                (bo_packs_desc){.rows = 512, .target_rows = 512, .max_examples = 256, .batch = 4});
}

/* Epochs follow without a gap, each in another order; any pack can be requested at any time. */
static void test_epochs(void **state)
{
    enum { COUNT = 3000, EPOCHS = 4, BATCH = 3, MAX_EXAMPLES = 16 };
    setting s = open_setting(state, BO_TEXTS_LABELED, COUNT, short_length);
    const bo_packs_desc desc = {.rows = 40, .max_examples = MAX_EXAMPLES, .batch = BATCH, .seed = 9};
    bo_packs *packs = create_packs(&s, desc);
    static size_t order[EPOCHS][COUNT];
    uint64_t at = 0, ends[EPOCHS];
    for (size_t e = 0; e < EPOCHS; e++) {
        take_epoch(&s, packs, &desc, &at, order[e]);
        ends[e] = at;
        size_t same = 0;
        for (size_t i = 0; e > 0 && i < COUNT; i++) same += order[e][i] == order[e - 1][i];
        assert_true(same < 12); /* Poisson distributed with mean 1 */
    }
    size_t tail = COUNT;
    bo_packs *fresh = create_packs(&s, desc); /* a resumed run */
    for (uint64_t p = ends[2] + 5; p-- > ends[2] - 5;) {
        size_t one[MAX_EXAMPLES], two[MAX_EXAMPLES], count_one, count_two;
        assert_ok(s.context, bo_packs_get(s.context, packs, p / BATCH, (size_t)(p % BATCH), one, &count_one));
        assert_ok(s.context, bo_packs_get(s.context, fresh, p / BATCH, (size_t)(p % BATCH), two, &count_two));
        assert_int_equal(count_one, count_two);
        assert_memory_equal(one, two, count_one * sizeof *one);
        if (p >= ends[2]) continue;
        tail -= count_one; /* back in the previous epoch, whose order is known */
        assert_memory_equal(one, order[2] + tail, count_one * sizeof *one);
    }
    bo_packs_destroy(fresh);
    bo_packs_destroy(packs);
    close_setting(&s);
}

/* Long and short examples are mixed: packs are not sorted by length. */
static void test_order_is_fair(void **state)
{
    enum { COUNT = 2000, MAX_EXAMPLES = 64 };
    setting s = open_setting(state, BO_TEXTS_LABELED, COUNT, short_length);
    const bo_packs_desc desc = {.rows = 48, .max_examples = MAX_EXAMPLES, .batch = 1, .seed = 2};
    bo_packs *packs = create_packs(&s, desc);
    double length = 0, used_examples = 0;
    const size_t half = bo_packs_per_epoch(packs) / 2;
    for (size_t p = 0; p < half; p++) {
        size_t examples[MAX_EXAMPLES], count;
        assert_ok(s.context, bo_packs_get(s.context, packs, p, 0, examples, &count));
        for (size_t i = 0; i < count; i++, used_examples++) length += (double)bo_text_at(s.texts, examples[i], 0).count;
    }
    /* Half of the examples, drawn without replacement: lengths 1 to 12 have variance 143 / 12, and five standard
     * deviations are 0.4. */
    assert_close(length / used_examples, (double)bo_texts_tokens(s.texts, 0) / COUNT, 5 * sqrt(143.0 / 12 / COUNT));
    bo_packs_destroy(packs);
    close_setting(&s);
}

static void test_in_order(void **state)
{
    setting s = open_setting(state, BO_TEXTS_LABELED, 100, short_length);
    const bo_packs_desc desc = {.rows = 24, .max_examples = 8, .batch = 4, .in_order = true};
    bo_packs *packs = create_packs(&s, desc);
    uint64_t at = 0;
    size_t examples[8], count = 1;
    take_epoch(&s, packs, &desc, &at, NULL);
    assert_ok(s.context, bo_packs_get(s.context, packs, at / 4 + 1, 0, examples, &count));
    assert_int_equal(count, 0);
    bo_packs_destroy(packs);
    close_setting(&s);
}

/* An example that fills all rows is alone; `max_examples` bounds the number of short examples in a pack. */
static void test_bounds(void **state)
{
    test_directory *f = *state;
    const char *path = test_text(f, "b.tsv", "0\taaaaaaaa\n1\tb\n0\tc\n1\td\n0\te\n1\tf\n");
    setting s = {.directory = f, .context = f->context};
    assert_ok(s.context, bo_tokenizer_create(s.context, &s.bytes));
    bo_texts_desc texts = {.paths = &path, .path_count = 1, .tokenizer = s.bytes};
    assert_ok(s.context, bo_texts_open(s.context, &texts, &s.texts));
    bo_packs *packs = create_packs(&s, (bo_packs_desc){.rows = 8, .max_examples = 2, .batch = 1});
    assert_int_equal(bo_packs_per_epoch(packs), 1 + 3);
    for (size_t p = 0; p < 4; p++) {
        size_t examples[2], count;
        assert_ok(s.context, bo_packs_get(s.context, packs, p, 0, examples, &count));
        for (size_t i = 0; i < count; i++) assert_true(examples[i] != 0 || count == 1);
    }
    bo_packs_destroy(packs);
    const struct {
        bo_packs_desc desc;
        const char *message;
    } cases[] = {
        {{.texts = s.texts, .rows = 7, .max_examples = 2, .batch = 1},
         "b.tsv, line 1: packs have 7 rows, found 8 tokens"},
        {{.texts = s.texts, .rows = 8, .max_examples = 0, .batch = 1}, "at most 0 examples"},
        {{.texts = s.texts, .rows = 8, .max_examples = 1}, "0 packs per step"},
        {{.texts = s.texts, .rows = 8, .target_rows = 8, .max_examples = 1, .batch = 1}, "8 and 8 rows"},
        {{.rows = 8, .max_examples = 1, .batch = 1}, "texts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(s.context, BO_INVALID, cases[i].message, bo_packs_create(s.context, &cases[i].desc, &packs));
    close_setting(&s);
}

/* ---- in memory --------------------------------------------------------------------------------------------------- */

/* Tokens, positions and lengths describe the same texts; reversing twice restores the order. */
static void expect_stream(const bo_packed_stream *stream, const bo_text_pack *packed, const bo_text_view *texts,
                          int32_t begin)
{
    size_t row = 0;
    for (size_t q = 0; q < packed->sequences; q++) {
        const size_t first = row, length = stream->lengths[q];
        const bool rest = q >= packed->texts;
        if (!rest) assert_int_equal(length, texts[q].count);
        for (size_t i = 0; i < length; i++, row++) {
            const int32_t shifted = i == 0 ? begin : texts[rest ? 0 : q].ids[i - 1];
            if (!rest) assert_int_equal(stream->tokens[row], begin >= 0 ? shifted : texts[q].ids[i]);
            assert_int_equal(stream->positions[row], rest ? 0 : i);
            assert_int_equal(stream->reversal[row], first + length - 1 - i);
        }
    }
    assert_int_equal(row, stream->rows);
}

static void test_packed(void **state)
{
    enum { COUNT = 40, MAX_EXAMPLES = 6, BEGIN = 7 };
    static const bo_texts_kind kinds[] = {BO_TEXTS_LABELED, BO_TEXTS_LABELED_PAIR, BO_TEXTS_PAIR};
    for (size_t k = 0; k < 3; k++) {
        setting s = open_setting(state, kinds[k], COUNT, short_length);
        const bool pair = kinds[k] == BO_TEXTS_PAIR;
        const size_t rows[2] = {60, pair ? 70 : 0}, sides = bo_texts_sides(s.texts), each = pair ? 1 : sides;
        bo_text_pack *packed;
        assert_ok(s.context, bo_text_pack_create(s.context, s.texts, rows, MAX_EXAMPLES, BEGIN, &packed));
        assert_int_equal(packed->texts, 0);
        assert_int_equal(packed->max_sequences, MAX_EXAMPLES * each + 1);
        assert_int_equal(packed->stream.rows, pair ? 70 : 60);
        assert_int_equal(packed->source.rows, pair ? 60 : 0);
        for (size_t count = 0; count <= 3; count++) { /* a smaller pack after a larger one must leave no remains */
            const size_t examples[] = {5, 17, 2};
            bo_text_view views[2 * MAX_EXAMPLES], sources[MAX_EXAMPLES];
            assert_ok(s.context, bo_text_pack_fill(s.context, packed, s.texts, examples, 3 - count));
            assert_int_equal(packed->examples, 3 - count);
            assert_int_equal(packed->texts, (3 - count) * each);
            assert_true(packed->sequences > packed->texts && packed->sequences <= packed->max_sequences);
            for (size_t i = 0; i < 3 - count; i++) {
                sources[i] = bo_text_at(s.texts, examples[i], 0);
                for (size_t e = 0; e < each; e++) views[i * each + e] = bo_text_at(s.texts, examples[i], pair ? 1 : e);
                assert_int_equal(packed->labels[i], pair ? -1 : (int)(examples[i] % 3));
            }
            for (size_t i = 3 - count; i < MAX_EXAMPLES; i++) assert_int_equal(packed->labels[i], -1);
            expect_stream(&packed->stream, packed, views, pair ? BEGIN : -1);
            if (!pair) continue;
            expect_stream(&packed->source, packed, sources, -1);
            size_t row = 0;
            for (size_t i = 0; i < 3 - count; i++)
                for (size_t t = 0; t < views[i].count; t++) assert_int_equal(packed->targets[row++], views[i].ids[t]);
            while (row < 70) assert_int_equal(packed->targets[row++], -1);
        }
        const size_t many[] = {0, 1, 2, 3, 4, 5, 6};
        assert_fails(s.context, BO_INVALID, "cannot hold 7", bo_text_pack_fill(s.context, packed, s.texts, many, 7));
        bo_text_pack_destroy(packed);
        close_setting(&s);
    }
}

/* The padding of a pack is split into sequences if they fit, in the same way in both streams. */
static void test_rest(void **state)
{
    enum { COUNT = 40, MAX_EXAMPLES = 6 };
    setting s = open_setting(state, BO_TEXTS_PAIR, COUNT, short_length);
    const size_t rows[2] = {300, 1000}, example = 3;
    bo_text_pack *packed;
    assert_ok(s.context, bo_text_pack_create(s.context, s.texts, rows, MAX_EXAMPLES, 0, &packed));
    for (size_t count = 0; count < 2; count++) {
        assert_ok(s.context, bo_text_pack_fill(s.context, packed, s.texts, &example, count));
        assert_int_equal(packed->texts, count);
        assert_int_equal(packed->sequences, MAX_EXAMPLES + 1);
        const bo_packed_stream *const streams[] = {&packed->source, &packed->stream};
        for (size_t i = 0; i < 2; i++) {
            size_t sum = 0;
            for (size_t q = 0; q < packed->sequences; q++) {
                sum += streams[i]->lengths[q];
                assert_true(q < count || streams[i]->lengths[q] <= rows[i] / (MAX_EXAMPLES + 1 - count) + 1);
            }
            assert_int_equal(sum, rows[i]);
        }
    }
    bo_text_pack_destroy(packed);
    close_setting(&s);
}

int main(void)
{
#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DIRECTORY(test_reviews_fill), WITH_DIRECTORY(test_pairs_fill),    WITH_DIRECTORY(test_sentences_fill),
        WITH_DIRECTORY(test_epochs),       WITH_DIRECTORY(test_order_is_fair), WITH_DIRECTORY(test_in_order),
        WITH_DIRECTORY(test_bounds),       WITH_DIRECTORY(test_packed),        WITH_DIRECTORY(test_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
