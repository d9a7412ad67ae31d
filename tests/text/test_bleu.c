/* BLEU: cases counted by hand, random cases counted by brute force, and tokenization compared with the regular
 * expressions that define it. */
#include "testing.h"
#include "text/bleu.h"
#include <bochner/text.h>
#include <regex.h>

typedef struct pair {
    const char *hypothesis, *reference;
} pair;

static bo_bleu bleu_of(bo_context *context, const pair *pairs, size_t count, bool tokenize, bo_bleu_counts *counts)
{
    *counts = (bo_bleu_counts){0};
    for (size_t i = 0; i < count; i++)
        assert_ok(context, bo_bleu_add(context, counts, pairs[i].hypothesis, strlen(pairs[i].hypothesis),
                                       pairs[i].reference, strlen(pairs[i].reference), tokenize));
    bo_bleu bleu;
    bo_bleu_score(counts, &bleu);
    return bleu;
}

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

static void test_by_hand(void **state)
{
    (void)state;
    const struct {
        pair pairs[2];
        size_t count;
        uint64_t matches[4], totals[4], length, reference;
        double score;
    } cases[] = {
        /* Papineni's first candidate and first reference: 11 of 18 words (the: once), 8 pairs, 6 triples and 4 runs of
         * four. */
        {{{"It is a guide to action which ensures that the military always obeys the commands of the party",
           "It is a guide to action that ensures that the military will forever heed Party commands"}},
         1,
         {11, 8, 6, 4},
         {18, 17, 16, 15},
         18,
         16,
         100 * pow(11. / 18 * 8 / 17 * 6 / 16 * 4 / 15, 0.25)},
        /* Papineni: a word seven times that the reference has twice. */
        {{{"the the the the the the the", "the cat is on the mat"}}, 1, {2, 0, 0, 0}, {7, 6, 5, 4}, 7, 6, 0},
        {{{"a b c d e", "a b c d e"}}, 1, {5, 4, 3, 2}, {5, 4, 3, 2}, 5, 5, 100},
        /* Everything matches, but it is too short: e^(1 - 6/4). */
        {{{"a b c d", "a b c d e f"}}, 1, {4, 3, 2, 1}, {4, 3, 2, 1}, 4, 6, 100 * exp(-0.5)},
        /* Counts are over the corpus: a sentence without runs of four does not make the score 0. */
        {{{"x y", "x z"}, {"a b c d e", "a b c d f"}},
         2,
         {5, 3, 2, 1},
         {7, 5, 3, 2},
         7,
         7,
         100 * pow(5. / 7 * 3 / 5 * 2 / 3 * 1 / 2, 0.25)},
        {{{"", "a b"}}, 1, {0}, {0}, 0, 2, 0},
        {{{"a b c", "a b c"}}, 1, {3, 2, 1, 0}, {3, 2, 1, 0}, 3, 3, 0}, /* no run of four */
        {{{"", ""}}, 1, {0}, {0}, 0, 0, 0},
        {{{"a b c d", ""}}, 1, {0}, {4, 3, 2, 1}, 4, 0, 0},
        /* Counts are clipped per sentence, not over the corpus. */
        {{{"a a", "a"}, {"b", "a a a"}}, 2, {1, 0, 0, 0}, {3, 1, 0, 0}, 3, 4, 0},
    };
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_bleu_counts counts;
        bo_bleu found = bleu_of(context, cases[i].pairs, cases[i].count, false, &counts);
        assert_memory_equal(counts.matches, cases[i].matches, sizeof counts.matches);
        assert_memory_equal(counts.totals, cases[i].totals, sizeof counts.totals);
        assert_int_equal(found.length, cases[i].length);
        assert_int_equal(found.reference_length, cases[i].reference);
        assert_close(found.score, cases[i].score, 1e-10);
        for (int n = 0; n < 4; n++)
            if (counts.totals[n])
                assert_close(found.precisions[n], 100. * (double)counts.matches[n] / (double)counts.totals[n], 1e-12);
    }
    bo_bleu_counts counts;
    assert_close(bleu_of(context, cases[0].pairs, 1, false, &counts).score, 41.18, 0.005); /* the published value */
    assert_close(bleu_of(context, cases[3].pairs, 1, false, &counts).brevity_penalty, exp(-0.5), 1e-15);
    assert_close(bleu_of(context, cases[5].pairs, 1, false, &counts).brevity_penalty, 0, 0);
    bo_context_destroy(context);
}

/* White space is defined by Unicode; a byte that is not a character is part of a word. */
static void test_white_space(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const pair pairs[] = {{"  a\tb\xc2\xa0"
                           "c\xe3\x80\x80\x1c"
                           "d \xff\xc3 ",
                           "a b c d \xff\xc3"}};
    for (int tokenize = 0; tokenize < 2; tokenize++) {
        bo_bleu_counts counts;
        assert_close(bleu_of(context, pairs, 1, tokenize, &counts).score, 100, 1e-12);
        assert_int_equal(counts.length, 5);
    }
    bo_context_destroy(context);
}

/* ---- by brute force ---------------------------------------------------------------------------------------------- */

enum { MAX_WORDS = 24 };

static bool same_run(const char (*a)[4], const char (*b)[4], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(a[i], b[i]) != 0) return false;
    return true;
}

/* Each run of the hypothesis takes one equal run of the reference that is not taken yet. */
static uint64_t cross_out(const char (*hypothesis)[4], size_t count, const char (*reference)[4], size_t reference_count,
                          size_t n)
{
    bool matched[MAX_WORDS] = {false};
    uint64_t matches = 0;
    for (size_t i = 0; i + n <= count; i++)
        for (size_t j = 0; j + n <= reference_count; j++)
            if (!matched[j] && same_run(hypothesis + i, reference + j, n)) {
                matched[j] = true;
                matches++;
                break;
            }
    return matches;
}

static size_t draw_sentence(bo_rng *rng, char (*words)[4], char *text)
{
    const size_t count = (size_t)bo_rng_below(rng, MAX_WORDS);
    *text = 0;
    for (size_t i = 0; i < count; i++) {
        snprintf(words[i], sizeof words[i], "%s%c", bo_rng_below(rng, 4) ? "" : "x",
                 (char)('a' + bo_rng_below(rng, 3)));
        strcat(strcat(text, words[i]), bo_rng_below(rng, 2) ? " " : " \t ");
    }
    return count;
}

static void test_brute_force(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(4, bo_rng_stream("test.bleu", 0));
    bo_bleu_counts counts = {0}, expected = {0};
    for (int sentence = 0; sentence < 2000; sentence++) {
        char words[2][MAX_WORDS][4], text[2][MAX_WORDS * 8];
        size_t count[2];
        for (int i = 0; i < 2; i++) count[i] = draw_sentence(&rng, words[i], text[i]);
        assert_ok(context, bo_bleu_add(context, &counts, text[0], strlen(text[0]), text[1], strlen(text[1]), false));
        for (size_t n = 1; n <= 4; n++) {
            expected.matches[n - 1] +=
                cross_out((const char (*)[4])words[0], count[0], (const char (*)[4])words[1], count[1], n);
            expected.totals[n - 1] += count[0] >= n ? count[0] - n + 1 : 0;
        }
        expected.length += count[0];
        expected.reference_length += count[1];
        assert_memory_equal(&counts, &expected, sizeof counts);
    }
    assert_true(counts.matches[3] > 0);
    bo_context_destroy(context);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static void words_of(bo_context *context, const char *text, char *out, size_t size)
{
    bo_buffer spaced = {0};
    assert_ok(context, bo_bleu_tokenize(context, text, strlen(text), &spaced));
    size_t used = 0;
    for (size_t i = 0; i < spaced.length; i++) {
        const bool space = spaced.bytes[i] == ' ';
        if (space && (used == 0 || out[used - 1] == ' ')) continue;
        assert_true(used + 1 < size);
        out[used++] = spaced.bytes[i];
    }
    while (used > 0 && out[used - 1] == ' ') used--;
    out[used] = 0;
    bo_buffer_free(&spaced);
}

static void test_tokens(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"Hello, world!", "Hello , world !"},
        {"It cost 1,000.50 dollars.", "It cost 1,000.50 dollars ."},
        {"in 1984, then", "in 1984 , then"},
        {".5 and 5.", ". 5 and 5 ."},
        {"the U.S. team", "the U . S . team"},
        {"well-known 3-4 pages, A-3", "well-known 3 - 4 pages , A-3"},
        {"don't 'quote' \"this\"", "don't 'quote' \" this \""},
        {"a/b (c) [d] {e} 50% $5 #1 x@y.z", "a / b ( c ) [ d ] { e } 50 % $ 5 # 1 x @ y . z"},
        {"&quot;A &amp; B&quot; &lt;i&gt; &amp;lt;", "\" A & B \" < i > <"},
        {"exam-\nple two\nlines<skipped>", "example two lines"},
        {"wait...", "wait . . ."},
        {"caf\xc3\xa9, na\xc3\xafve. \xe2\x80\x9cyes\xe2\x80\x9d",
         "caf\xc3\xa9 , na\xc3\xafve . \xe2\x80\x9cyes\xe2\x80\x9d"},
        {"", ""},
    };
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char found[256];
        words_of(context, cases[i][0], found, sizeof found);
        assert_string_equal(found, cases[i][1]);
    }
    bo_context_destroy(context);
}

/* Replaces every match of `pattern` in *text by `form`, where 1 and 2 are its groups. */
static void replace_all(const char *pattern, const char *form, char *text, size_t size)
{
    regex_t compiled;
    regmatch_t groups[3];
    char out[4096];
    size_t used = 0;
    assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED), 0);
    const char *at = text;
    while (regexec(&compiled, at, 3, groups, 0) == 0) {
        memcpy(out + used, at, (size_t)groups[0].rm_so);
        used += (size_t)groups[0].rm_so;
        for (const char *sign = form; *sign; sign++) {
            const int group = *sign - '0';
            if (*sign == ' ')
                out[used++] = ' ';
            else
                for (regoff_t i = groups[group].rm_so; i < groups[group].rm_eo; i++) out[used++] = at[i];
        }
        at += groups[0].rm_eo;
    }
    regfree(&compiled);
    strcpy(out + used, at);
    assert_true(strlen(out) < size);
    strcpy(text, out);
}

static void test_tokens_are_the_expressions(void **state)
{
    (void)state;
    static const char signs[] = "aB09.,,..--'\"&%/(){}[]^_`~:;<>@!?  \xc3\xa9";
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(6, bo_rng_stream("test.bleu.tokens", 0));
    for (int i = 0; i < 500; i++) {
        char text[40], expected[4096];
        const size_t length = (size_t)bo_rng_below(&rng, sizeof text - 1);
        for (size_t c = 0; c < length; c++) text[c] = signs[bo_rng_below(&rng, sizeof signs - 1)];
        text[length] = 0;
        snprintf(expected, sizeof expected, " %s ", text);
        replace_all("([{-~[-` -&(-+:-@/])", " 1 ", expected, sizeof expected);
        replace_all("([^0-9])([.,])", "1 2 ", expected, sizeof expected);
        replace_all("([.,])([^0-9])", " 1 2", expected, sizeof expected);
        replace_all("([0-9])(-)", "1 2 ", expected, sizeof expected);
        bo_buffer found = {0};
        assert_ok(context, bo_bleu_tokenize(context, text, length, &found));
        assert_int_equal(found.length, strlen(expected));
        assert_memory_equal(found.bytes, expected, found.length);
        bo_buffer_free(&found);
    }
    bo_context_destroy(context);
}

/* A translation that differs only in punctuation, with and without tokenization. */
static void test_tokenized_score(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const pair raw[] = {{"He said, \"two dogs run.\"", "He said, \"three dogs run.\""}};
    const pair split[] = {{"He said , \" two dogs run . \"", "He said , \" three dogs run . \""}};
    bo_bleu_counts a, b;
    const double one = bleu_of(context, raw, 1, true, &a).score, two = bleu_of(context, split, 1, false, &b).score;
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(one == two && one > 0);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_white_space),
        cmocka_unit_test(test_brute_force),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_tokens_are_the_expressions),
        cmocka_unit_test(test_tokenized_score),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
