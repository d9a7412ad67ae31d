/* BLEU and its tokenization. */
#include <bochner/text.h>
#include <math.h>
#include <stdlib.h>
#include "bleu.h"
#include "unicode.h"
#include "vocabulary.h"

/* ====================================================================================================================
 * The rules of mteval-v13a, each one pass over the text: SGML escapes are undone, then punctuation is separated. */

typedef bool is_fn(char c);

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_other(char c)
{
    return !is_digit(c);
}

static bool is_point(char c)
{
    return c == '.' || c == ',';
}

static bool is_dash(char c)
{
    return c == '-';
}

/* Punctuation of ASCII except ' , - . */
static bool is_sign(char c)
{
    return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
           (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/* Replaces every `what` by `with`, which is not longer. */
static void replace(bo_buffer *text, const char *what, const char *with)
{
    const size_t length = strlen(what), shorter = strlen(with);
    const char *from = text->bytes, *end = from + text->length;
    char *to = text->bytes;
    for (const char *found; (found = memmem(from, (size_t)(end - from), what, length)); from = found + length) {
        memmove(to, from, (size_t)(found - from));
        to += found - from;
        memcpy(to, with, shorter);
        to += shorter;
    }
    memmove(to, from, (size_t)(end - from));
    text->length = (size_t)(to - text->bytes) + (size_t)(end - from);
}

static bo_status set_signs_apart(bo_context *context, const bo_buffer *from, bo_buffer *to)
{
    to->length = 0;
    BO_TRY(bo_buffer_reserve(context, to, 3 * from->length));
    for (size_t i = 0; i < from->length; ++i) {
        const char c = from->bytes[i], apart[3] = {' ', c, ' '};
        const bool sign = is_sign(c);
        memcpy(to->bytes + to->length, sign ? apart : &c, sign ? 3 : 1);
        to->length += sign ? 3 : 1;
    }
    return BO_OK;
}

/* Rewrites two adjacent characters as `form`, in which 1 and 2 are placeholders for them. Matched characters are not
 * matched again. */
typedef struct bo_pair_rule {
    is_fn *first, *second;
    const char *form;
} bo_pair_rule;

static bo_status apply(bo_context *context, const bo_pair_rule *rule, const bo_buffer *from, bo_buffer *to)
{
    to->length = 0;
    BO_TRY(bo_buffer_reserve(context, to, 2 * from->length + 2));
    for (size_t i = 0; i < from->length; ++i) {
        const char *pair = from->bytes + i;
        if (i + 1 == from->length || !rule->first(pair[0]) || !rule->second(pair[1])) {
            to->bytes[to->length++] = *pair;
            continue;
        }
        for (const char *sign = rule->form; *sign; ++sign)
            to->bytes[to->length++] = *sign == ' ' ? ' ' : pair[*sign - '1'];
        ++i;
    }
    return BO_OK;
}

static bo_status tokenize(bo_context *context, const char *text, size_t bytes, bo_buffer work[2])
{
    static const char *const written[][2] = {{"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
                                             {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};
    static const bo_pair_rule rules[] = {
        {is_other, is_point, "1 2 "}, /* a period or comma that does not follow a digit */
        {is_point, is_other, " 1 2"}, /* … or that no digit follows */
        {is_digit, is_dash, "1 2 "},  /* a dash after a digit */
    };
    BO_TRY(bo_buffer_append(context, &work[0], " ", 1));
    BO_TRY(bo_buffer_append(context, &work[0], text, bytes));
    BO_TRY(bo_buffer_append(context, &work[0], " ", 1));
    for (size_t i = 0; i < sizeof written / sizeof *written; ++i) replace(&work[0], written[i][0], written[i][1]);
    BO_TRY(set_signs_apart(context, &work[0], &work[1]));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; ++i)
        BO_TRY(apply(context, &rules[i], &work[(i + 1) % 2], &work[i % 2]));
    return BO_OK; /* three rules: the result is in work[0] */
}

bo_status bo_bleu_tokenize(bo_context *context, const char *text, size_t bytes, bo_buffer *out)
{
    bo_buffer work[2] = {{0}};
    bo_status status = tokenize(context, text, bytes, work);
    if (status == BO_OK) status = bo_buffer_append(context, out, work[0].bytes, work[0].length);
    for (int i = 0; i < 2; ++i) bo_buffer_free(&work[i]);
    return status;
}

/* ====================================================================================================================
 * BLEU (Papineni, Roukos, Ward and Zhu 2002): BP exp(1/4 Σ log p_n). p_n is the fraction of the candidate's n-grams
 * that the reference contains, each counted at most as often as in the reference; BP = min(1, exp(1 - r/c)). Counts
 * are summed over the corpus first. */

enum { ORDERS = 4 };

/* The words of a text as numbers; equal words have equal numbers. */
typedef struct bo_words {
    int32_t *ids;
    size_t count;
} bo_words;

/* One n-gram; entries beyond n are 0. */
typedef struct bo_gram {
    int32_t ids[ORDERS];
} bo_gram;

/* Workspace for comparing two texts. */
typedef struct bo_comparison {
    bo_buffer texts[2]; /* tokens separated by white space */
    bo_spellings spellings;
    bo_lookup lookup;
    bo_words words[2];
    bo_gram *grams[2];
} bo_comparison;

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Unicode white space, and the four separators of ASCII. An invalid byte is not white space. */
static bool is_space(const char *text, size_t left, size_t *bytes)
{
    const bool space = bo_utf8_space(text, left, bytes) || (*text >= 0x1c && *text <= 0x1f);
    if (*bytes == 0) *bytes = 1;
    return space;
}

/* Returns the next word after `*at` and moves `*at` behind it. 0 bytes: no more words. */
static const char *next_word(const bo_buffer *text, size_t *at, size_t *bytes)
{
    size_t step;
    while (*at < text->length && is_space(text->bytes + *at, text->length - *at, &step)) *at += step;
    const size_t begin = *at;
    while (*at < text->length && !is_space(text->bytes + *at, text->length - *at, &step)) *at += step;
    *bytes = *at - begin;
    return *bytes ? text->bytes + begin : ""; /* an empty buffer has no address */
}

static size_t count_words(const bo_buffer *text)
{
    size_t count = 0, bytes;
    for (size_t at = 0; next_word(text, &at, &bytes), bytes > 0;) ++count;
    return count;
}

static void number_words(bo_comparison *comparison, int which)
{
    const bo_buffer *text = &comparison->texts[which];
    bo_words *words = &comparison->words[which];
    size_t at = 0, bytes;
    for (const char *word; word = next_word(text, &at, &bytes), bytes > 0;) {
        const int32_t number = (int32_t)comparison->spellings.count;
        bo_spellings_add(&comparison->spellings, word, bytes);
        const int32_t same = bo_lookup_add(&comparison->lookup, &comparison->spellings, number);
        words->ids[words->count++] = same >= 0 ? same : number;
    }
}

static bo_status find_words(bo_context *context, bo_comparison *comparison)
{
    size_t count[2], bytes = 0;
    for (int i = 0; i < 2; ++i) {
        count[i] = count_words(&comparison->texts[i]);
        bytes += comparison->texts[i].length;
        comparison->words[i].ids = bo_alloc_raw(context, count[i], sizeof *comparison->words[i].ids, "words");
        comparison->grams[i] = bo_alloc_raw(context, count[i], sizeof *comparison->grams[i], "n-grams");
        if (!comparison->words[i].ids || !comparison->grams[i]) return BO_MEMORY;
    }
    if (count[0] + count[1] > INT32_MAX) return bo_fail(context, BO_INVALID, "BLEU: the text has too many words");
    BO_TRY(bo_spellings_create(context, count[0] + count[1], bytes, &comparison->spellings));
    BO_TRY(bo_lookup_create(context, count[0] + count[1], &comparison->lookup));
    for (int i = 0; i < 2; ++i) number_words(comparison, i);
    return BO_OK;
}

/* ---- n-grams ----------------------------------------------------------------------------------------------------- */

static int compare_grams(const void *a, const void *b)
{
    const bo_gram *x = a, *y = b;
    for (int i = 0; i < ORDERS; ++i)
        if (x->ids[i] != y->ids[i]) return x->ids[i] < y->ids[i] ? -1 : 1;
    return 0;
}

/* Sorts all n-grams of the words and returns their number. */
static size_t sort_grams(const bo_words *words, size_t n, bo_gram *out)
{
    const size_t count = words->count < n ? 0 : words->count - n + 1;
    for (size_t i = 0; i < count; ++i) {
        out[i] = (bo_gram){{0}};
        memcpy(out[i].ids, words->ids + i, n * sizeof *words->ids);
    }
    qsort(out, count, sizeof *out, compare_grams);
    return count;
}

/* Counts the matching items of two sorted lists; each item matches at most once. */
static uint64_t count_matches(const bo_gram *a, size_t a_count, const bo_gram *b, size_t b_count)
{
    uint64_t matches = 0;
    for (size_t i = 0, j = 0; i < a_count && j < b_count;) {
        const int order = compare_grams(&a[i], &b[j]);
        matches += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    return matches;
}

static void count_all(bo_comparison *comparison, bo_bleu_counts *counts)
{
    for (size_t n = 1; n <= ORDERS; ++n) {
        size_t count[2];
        for (int i = 0; i < 2; ++i) count[i] = sort_grams(&comparison->words[i], n, comparison->grams[i]);
        counts->matches[n - 1] += count_matches(comparison->grams[0], count[0], comparison->grams[1], count[1]);
        counts->totals[n - 1] += count[0];
    }
    counts->length += comparison->words[0].count;
    counts->reference_length += comparison->words[1].count;
}

static bo_status compare(bo_context *context, bo_comparison *comparison, const char *const texts[2],
                         const size_t bytes[2], bool tokenize)
{
    for (int i = 0; i < 2; ++i) {
        bo_buffer *text = &comparison->texts[i];
        BO_TRY(tokenize ? bo_bleu_tokenize(context, texts[i], bytes[i], text)
                        : bo_buffer_append(context, text, texts[i], bytes[i]));
    }
    return find_words(context, comparison);
}

bo_status bo_bleu_add(bo_context *context, bo_bleu_counts *counts, const char *hypothesis, size_t bytes,
                      const char *reference, size_t reference_bytes, bool tokenize)
{
    BO_REQUIRE(context, counts);
    BO_REQUIRE_IF(context, bytes > 0, hypothesis);
    BO_REQUIRE_IF(context, reference_bytes > 0, reference);
    bo_comparison comparison = {0};
    BO_TRY(bo_check_reserved(context, "bo_bleu_counts", counts->reserved));
    bo_status status = compare(context, &comparison, (const char *const[2]){hypothesis, reference},
                               (const size_t[2]){bytes, reference_bytes}, tokenize);
    if (status == BO_OK) count_all(&comparison, counts);
    for (int i = 0; i < 2; ++i) {
        bo_buffer_free(&comparison.texts[i]);
        bo_free(comparison.words[i].ids);
        bo_free(comparison.grams[i]);
    }
    bo_spellings_free(&comparison.spellings);
    bo_free(comparison.lookup.slots);
    return status;
}

void bo_bleu_score(const bo_bleu_counts *counts, bo_bleu *out)
{
    if (!counts || !out) return;
    const double c = (double)counts->length, r = (double)counts->reference_length;
    bo_bleu bleu = {.length = counts->length, .reference_length = counts->reference_length};
    double logs = 0;
    for (int n = 0; n < ORDERS; ++n) {
        const double part = counts->totals[n] ? (double)counts->matches[n] / (double)counts->totals[n] : 0;
        bleu.precisions[n] = 100 * part;
        logs += log(part);
    }
    bleu.brevity_penalty = c >= r ? 1 : c > 0 ? exp(1 - r / c) : 0;
    bleu.score = 100 * bleu.brevity_penalty * exp(logs / ORDERS); /* exp(-inf) is 0 */
    *out = bleu;
}
