/* Batches: every window once per epoch, other offsets in the next epoch, any part of any step separately, runs of
 * documents. */
#include "text/facts.h"
#include "text/batches.h"
#include "texts.h"
#include "base/rng.h"

typedef struct setting {
    bo_context *context;
    bo_tokenizer *tokenizer;
    bo_corpus *corpus;
} setting;

static setting open_setting(void **state, const char *text, size_t length, const char *separator)
{
    test_directory *f = *state;
    setting s = {.context = f->context};
    const char *path = test_write(f, "text.txt", text, length);
    assert_ok(s.context, bo_tokenizer_create(s.context, &s.tokenizer));
    bo_corpus_desc desc = {.paths = &path, .path_count = 1, .tokenizer = s.tokenizer, .separator = separator};
    assert_ok(s.context, bo_corpus_open(s.context, &desc, &s.corpus));
    return s;
}

static void close_setting(setting *s)
{
    bo_corpus_close(s->corpus);
    bo_tokenizer_destroy(s->tokenizer);
}

/* Text in which any four consecutive bytes determine their position: its 7-bit digits. */
static void number_text(char *text, size_t length)
{
    for (size_t i = 0; i < length; i += 2) {
        text[i] = (char)(128 + (i / 2 & 127));
        if (i + 1 < length) text[i + 1] = (char)(i / 256 & 127);
    }
}

/* ---- the permutation --------------------------------------------------------------------------------------------- */

static void test_permutation(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097};
    static bool seen[5000];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (uint64_t number = 0; number < 4; number++) {
            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < counts[c]; i++) {
                uint64_t to = bo_permute(7, number, counts[c], i);
                assert_true(to < counts[c]);
                assert_false(seen[to]);
                seen[to] = true;
            }
        }
    uint64_t large = UINT64_C(1) << 40;
    for (uint64_t i = 0; i < 100; i++) assert_true(bo_permute(1, 2, large, i) < large);
}

/* Over many seeds each index goes to each position equally often: chi-squared of 36 cells with 25 degrees of freedom (a
 * doubly constrained 6 x 6 table) has mean 25 and standard deviation sqrt(50); five deviations above is 60. */
static void test_permutation_is_uniform(void **state)
{
    (void)state;
    enum { SIDE = 6, DRAWS = 6000 };
    double cells[SIDE][SIDE] = {{0}}, chi = 0;
    for (uint64_t number = 0; number < DRAWS; number++)
        for (uint64_t i = 0; i < SIDE; i++) cells[i][bo_permute(3, number, SIDE, i)]++;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            double expected = (double)DRAWS / SIDE, d = cells[i][j] - expected;
            chi += d * d / expected;
        }
    assert_true(chi < 60);
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static void test_epochs(void **state)
{
    enum { LENGTH = 5003, CONTEXT = 16, BATCH = 4, EPOCHS = 5 };
    static char text[LENGTH];
    number_text(text, LENGTH);
    setting s = open_setting(state, text, LENGTH, NULL);
    bo_batches_desc desc = {.corpus = s.corpus, .context = CONTEXT, .batch = BATCH, .seed = 11};
    const uint64_t windows = bo_batches_per_epoch(&desc);
    assert_int_equal(windows, (LENGTH - CONTEXT) / CONTEXT);
    int32_t tokens[BATCH * CONTEXT], targets[BATCH * CONTEXT];
    uint64_t offsets[EPOCHS];
    for (uint64_t epoch = 0, sequence = 0; epoch < EPOCHS; epoch++) {
        static bool covered[LENGTH];
        memset(covered, 0, sizeof covered);
        offsets[epoch] = LENGTH;
        for (uint64_t w = 0; w < windows; w++, sequence++) {
            assert_ok(s.context, bo_batches_fill(s.context, &desc, sequence / BATCH, (size_t)(sequence % BATCH), 1,
                                                 tokens, targets, NULL, NULL, NULL));
            size_t odd = tokens[0] < 128; /* the first byte is the second of its pair */
            size_t at = 0;
            for (; at + CONTEXT < LENGTH; at++) { /* find its position in the text */
                bool same = at % 2 == odd;
                for (size_t i = 0; same && i < CONTEXT; i++) same = (unsigned char)text[at + i] == tokens[i];
                if (same) break;
            }
            assert_true(at + CONTEXT < LENGTH);
            for (size_t i = 0; i < CONTEXT; i++) {
                assert_int_equal(targets[i], (unsigned char)text[at + i + 1]);
                assert_false(covered[at + i]);
                covered[at + i] = true;
            }
            if (at < offsets[epoch]) offsets[epoch] = at;
        }
    }
    size_t different = 0;
    for (size_t e = 1; e < EPOCHS; e++) different += offsets[e] != offsets[0];
    assert_true(different >= EPOCHS - 2);
    close_setting(&s);
}

/* A step in two parts has the same sequences as in one part, and so does every sequence requested separately. */
static void test_parts(void **state)
{
    enum { LENGTH = 3000, CONTEXT = 8, BATCH = 6 };
    static char text[LENGTH];
    number_text(text, LENGTH);
    setting s = open_setting(state, text, LENGTH, NULL);
    bo_batches_desc desc = {.corpus = s.corpus, .context = CONTEXT, .batch = BATCH, .seed = 2};
    for (uint64_t step = 0; step < 100; step += 33) {
        int32_t whole[2][BATCH * CONTEXT], part[2][BATCH * CONTEXT];
        assert_ok(s.context, bo_batches_fill(s.context, &desc, step, 0, BATCH, whole[0], whole[1], NULL, NULL, NULL));
        for (size_t p = 0; p < 3; p++) {
            bo_batches_desc share = desc;
            share.part = p;
            share.parts = 3;
            for (size_t i = 0; i < BATCH / 3; i++) {
                size_t at = (p * (BATCH / 3) + i) * CONTEXT;
                assert_ok(s.context,
                          bo_batches_fill(s.context, &share, step, i, 1, part[0] + at, part[1] + at, NULL, NULL, NULL));
            }
        }
        assert_memory_equal(whole, part, sizeof whole);
    }
    close_setting(&s);
}

/* With lanes, a sequence continues the sequence of the previous step until its epoch ends; an epoch uses no token
 * twice; parts agree with the whole. */
static void test_lanes(void **state)
{
    enum { LENGTH = 1003, CONTEXT = 8, BATCH = 6, EPOCHS = 3 };
    static char text[LENGTH];
    number_text(text, LENGTH);
    setting s = open_setting(state, text, LENGTH, NULL);
    bo_batches_desc desc = {.corpus = s.corpus, .context = CONTEXT, .batch = BATCH, .lanes = BATCH, .seed = 3};
    const uint64_t length = bo_batches_per_epoch(&desc) / BATCH;
    int32_t tokens[BATCH * CONTEXT], targets[BATCH * CONTEXT], last[BATCH], part[2][CONTEXT];
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        size_t covered[128 * 128] = {0}, used = 0;
        for (uint64_t step = epoch * length; step < (epoch + 1) * length; step++) {
            assert_ok(s.context, bo_batches_fill(s.context, &desc, step, 0, BATCH, tokens, targets, NULL, NULL, NULL));
            for (size_t lane = 0; lane < BATCH; lane++) {
                const int32_t *part_tokens = tokens + lane * CONTEXT;
                assert_true(bo_batches_begins(&desc, step, lane) == (step % length == 0));
                if (step % length) assert_int_equal(part_tokens[0], last[lane]);
                last[lane] = targets[lane * CONTEXT + CONTEXT - 1];
                for (size_t i = 0; i + 1 < CONTEXT; i++) /* even bytes and their successors are numbers */
                    if (part_tokens[i] >= 128) covered[(part_tokens[i] - 128) + 128 * part_tokens[i + 1]]++, used++;
                bo_batches_desc share = desc;
                share.part = lane / 2, share.parts = BATCH / 2;
                assert_ok(s.context,
                          bo_batches_fill(s.context, &share, step, lane % 2, 1, part[0], part[1], NULL, NULL, NULL));
                assert_memory_equal(part[0], part_tokens, sizeof part[0]);
                assert_true(bo_batches_begins(&share, step, lane % 2) == bo_batches_begins(&desc, step, lane));
            }
        }
        assert_true(used > LENGTH / 3);
        for (size_t i = 0; i < 128 * 128; i++) assert_in_range(covered[i], 0, 1);
    }
    close_setting(&s);
}

/* ---- documents --------------------------------------------------------------------------------------------------- */

static void test_documents(void **state)
{
    enum { CONTEXT = 10, BATCH = 3 };
    static const char text[] = "aaa|bb|c|ddddddddddddddddddd|ee|ffff|ggggggg|hhhhhhhhhhhhhhh|ii";
    setting s = open_setting(state, text, sizeof text - 1, "|");
    assert_int_equal(bo_corpus_documents(s.corpus), 9);
    bo_batches_desc desc = {.corpus = s.corpus, .context = CONTEXT, .batch = BATCH, .seed = 5, .documents = true};
    for (uint64_t step = 0; step < 40; step++) {
        int32_t tokens[BATCH * CONTEXT], targets[BATCH * CONTEXT], positions[BATCH * CONTEXT];
        size_t lengths[BATCH * CONTEXT], runs = BATCH * CONTEXT, row = 0;
        assert_ok(s.context,
                  bo_batches_fill(s.context, &desc, step, 0, BATCH, tokens, targets, positions, lengths, &runs));
        for (size_t r = 0; r < runs; r++) { /* each document is one character */
            assert_true(row / CONTEXT == (row + lengths[r] - 1) / CONTEXT);
            for (size_t i = 0; i < lengths[r]; i++, row++) {
                assert_int_equal(positions[row], i);
                assert_int_equal(tokens[row], tokens[row - i]);
            }
            if (row % CONTEXT) assert_true(tokens[row] != tokens[row - 1]);
        }
        assert_int_equal(row, BATCH * CONTEXT);
        int32_t alone[BATCH * CONTEXT]; /* positions without lengths are the same */
        assert_ok(s.context, bo_batches_fill(s.context, &desc, step, 0, BATCH, tokens, targets, alone, NULL, NULL));
        assert_memory_equal(alone, positions, sizeof alone);
        runs = BATCH; /* space for one run per window: no run spans two windows */
        assert_ok(s.context,
                  bo_batches_fill(s.context, &desc, step, 0, BATCH, tokens, targets, positions, lengths, &runs));
        assert_int_equal(runs, BATCH);
        for (size_t r = 0; r < BATCH; r++) assert_int_equal(lengths[r], CONTEXT);
    }
    close_setting(&s);
}

/* ---- invalid input ----------------------------------------------------------------------------------------------- */

/* A lane starts again where a document starts exactly at its window. */
static void test_lanes_of_documents(void **state)
{
    enum { CONTEXT = 5, DOCUMENTS = 30 };
    char text[8 * DOCUMENTS + 1];
    for (int i = 0; i < DOCUMENTS; i++) snprintf(text + 8 * i, 9, "%c%c%c%c%c%c%c|", 'a', 'b', 'c', 'd', 'e', 'f', 'g');
    setting s = open_setting(state, text, 8 * DOCUMENTS, "|");
    bo_batches_desc desc = {
        .corpus = s.corpus, .context = CONTEXT, .batch = 2, .lanes = 2, .seed = 5, .documents = true};
    const uint64_t length = bo_batches_per_epoch(&desc) / 2;
    size_t begun = 0;
    for (uint64_t step = 0; step < 4 * length; step++)
        for (size_t lane = 0; lane < 2; lane++) {
            int32_t tokens[CONTEXT], targets[CONTEXT];
            assert_ok(s.context, bo_batches_fill(s.context, &desc, step, lane, 1, tokens, targets, NULL, NULL, NULL));
            const bool begins = bo_batches_begins(&desc, step, lane);
            assert_true(begins == (tokens[0] == 'a' || step % length == 0));
            begun += begins && step % length;
        }
    assert_true(begun > 0);
    close_setting(&s);
}

static void test_refusals(void **state)
{
    setting s = open_setting(state, "0123456789", 10, NULL);
    bo_batches_desc desc = {.corpus = s.corpus, .context = 10, .batch = 2};
    assert_fails(s.context, BO_INVALID, "10 tokens, fewer than the 11", bo_batches_check(s.context, &desc));
    desc.context = 9;
    assert_ok(s.context, bo_batches_check(s.context, &desc));
    assert_int_equal(bo_batches_per_epoch(&desc), 1);
    int32_t tokens[18], targets[18];
    size_t lengths[2], runs = 1;
    assert_ok(s.context, bo_batches_fill(s.context, &desc, 3, 0, 2, tokens, targets, NULL, NULL, NULL));
    assert_int_equal(tokens[0], '0');
    assert_int_equal(targets[17], '9');
    assert_fails(s.context, BO_INVALID, "holds 1 runs",
                 bo_batches_fill(s.context, &desc, 3, 0, 2, tokens, targets, NULL, lengths, &runs));
    assert_fails(s.context, BO_INVALID, "a step has 2",
                 bo_batches_fill(s.context, &desc, 3, 1, 2, tokens, targets, NULL, NULL, NULL));
    desc.lanes = 1;
    assert_fails(s.context, BO_INVALID, "as many lanes as sequences, 2, found 1", bo_batches_check(s.context, &desc));
    desc.lanes = 2;
    assert_fails(s.context, BO_INVALID, "1 windows of 9 tokens, fewer than the 2", bo_batches_check(s.context, &desc));
    assert_true(bo_batches_begins(&desc, 1, 0));
    desc.lanes = 0;
    assert_true(bo_batches_begins(&desc, 1, 0));
    desc.parts = 3;
    assert_fails(s.context, BO_INVALID, "evenly", bo_batches_check(s.context, &desc));
    close_setting(&s);
}

int main(void)
{
#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_permutation_is_uniform),
        WITH_DIRECTORY(test_epochs),
        WITH_DIRECTORY(test_parts),
        WITH_DIRECTORY(test_lanes),
        WITH_DIRECTORY(test_documents),
        WITH_DIRECTORY(test_lanes_of_documents),
        WITH_DIRECTORY(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
