/* Pairs of documents: noisy copies of one source or of two. */
#include "generate.h"

enum { LEAST_LETTERS = 3, MOST_LETTERS = 7, MOST_WORDS = 5040 /* 7! */, MOST_TOPIC = 1024 };

/* Words are orders of the first `letters` letters, spread evenly over all of them: the same for every seed, so that what one
 * file teaches another can ask. */
typedef struct bo_match {
    bo_match_desc desc;
    size_t letters, orders;  /* orders: letters! */
    size_t document, source; /* words of each */
} bo_match;

/* A line's working memory. */
typedef struct bo_scribe {
    bo_context *context;
    const bo_match *match;
    bo_rng *rng;
    uint16_t *topic;  /* words numbered below desc.words; the first desc.topic of them count */
    uint16_t *source; /* words */
    uint16_t *document;
} bo_scribe;

/* ---- words ---------------------------------------------------------------------------------------------------------------- */

/* Order number `rank` of the letters: its digits in the factorial number system say which of the letters left comes next. */
static void spell(const bo_match *match, size_t word, char *out)
{
    size_t rank = word * match->orders / match->desc.words, orders = match->orders;
    char left[MOST_LETTERS];
    for (size_t i = 0; i < match->letters; ++i) left[i] = (char)('a' + i);
    for (size_t i = 0; i < match->letters; ++i) {
        const size_t rest = match->letters - i;
        orders /= rest;
        const size_t which = rank / orders;
        rank %= orders;
        out[i] = left[which];
        memmove(left + which, left + which + 1, rest - which - 1);
    }
}

static uint16_t draw_word(const bo_scribe *scribe)
{
    return scribe->topic[bo_rng_below(scribe->rng, scribe->match->desc.topic)];
}

/* ---- sources and documents ------------------------------------------------------------------------------------------------ */

static void draw_topic(const bo_scribe *scribe)
{
    bo_draw_distinct(scribe->rng, scribe->match->desc.words, scribe->match->desc.topic, scribe->topic);
}

static void draw_source(const bo_scribe *scribe)
{
    for (size_t i = 0; i < scribe->match->source; ++i) scribe->source[i] = draw_word(scribe);
}

static void shuffle(bo_rng *rng, uint16_t *words, size_t count)
{
    for (size_t i = count; i > 1; --i) {
        const size_t other = (size_t)bo_rng_below(rng, i);
        const uint16_t word = words[i - 1];
        words[i - 1] = words[other];
        words[other] = word;
    }
}

/* A stretch of the source with its noise. Where too much was left out, the end is made up. */
static void draw_document(const bo_scribe *scribe)
{
    const bo_match *match = scribe->match;
    const bo_match_desc *desc = &match->desc;
    const size_t count = match->document, slack = (size_t)(desc->shift * (double)count);
    size_t at = (size_t)bo_rng_below(scribe->rng, slack + 1), made = 0;
    for (; made < count && at < match->source; ++at) {
        if (bo_rng_uniform(scribe->rng) < desc->drop) continue;
        const bool other = bo_rng_uniform(scribe->rng) < desc->replace;
        scribe->document[made++] = other ? draw_word(scribe) : scribe->source[at];
    }
    while (made < count) scribe->document[made++] = draw_word(scribe);
    if (desc->shuffle < 2) return;
    for (size_t i = 0, span = 1 + (size_t)bo_rng_below(scribe->rng, desc->shuffle); i < count;
         i += span, span = desc->shuffle) {
        const size_t left = count - i;
        shuffle(scribe->rng, scribe->document + i, left < span ? left : span);
    }
}

static bo_status write_document(const bo_scribe *scribe, char end, bo_buffer *text)
{
    const bo_match *match = scribe->match;
    const size_t letters = match->letters;
    BO_TRY(bo_buffer_reserve(scribe->context, text, match->document * (letters + 1)));
    for (size_t i = 0; i < match->document; ++i) {
        spell(match, scribe->document[i], text->bytes + text->length);
        text->bytes[text->length + letters] = i + 1 < match->document ? ' ' : end;
        text->length += letters + 1;
    }
    return BO_OK;
}

static bo_status write_line(const bo_scribe *scribe, bo_draft *out)
{
    const size_t label = (size_t)bo_rng_below(scribe->rng, 2);
    const char begin[2] = {(char)('0' + label), '\t'};
    BO_TRY(bo_buffer_append(scribe->context, &out->text, begin, 2));
    draw_topic(scribe);
    draw_source(scribe);
    draw_document(scribe);
    BO_TRY(write_document(scribe, '\t', &out->text));
    const bool same_words = scribe->match->desc.same_words;
    if (label == 0 && !same_words) {
        draw_topic(scribe);
        draw_source(scribe);
    }
    draw_document(scribe);
    if (label == 0 && same_words) shuffle(scribe->rng, scribe->document, scribe->match->document);
    BO_TRY(write_document(scribe, '\n', &out->text));
    out->label = label;
    out->tokens = out->text.length - 4; /* without label, tabs and newline */
    out->kept = true;
    return BO_OK;
}

static bo_status draw_line(bo_context *context, const void *what, bo_rng *rng, bo_draft *out)
{
    const bo_match *match = what;
    bo_scribe scribe = {.context = context, .match = match, .rng = rng};
    scribe.topic = bo_alloc_raw(context, match->desc.words, sizeof *scribe.topic, "a topic");
    scribe.source = bo_alloc_raw(context, match->source, sizeof *scribe.source, "a source");
    scribe.document = bo_alloc_raw(context, match->document, sizeof *scribe.document, "a document");
    bo_status status = scribe.topic && scribe.source && scribe.document ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = write_line(&scribe, out);
    bo_free(scribe.topic);
    bo_free(scribe.source);
    bo_free(scribe.document);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const bo_match_desc *desc)
{
    if (desc->words < 2 || desc->words > MOST_WORDS || desc->topic < 2 || desc->topic > MOST_TOPIC ||
        desc->topic > desc->words)
        return bo_fail(context, BO_INVALID,
                       "topics of %zu out of %zu words: expected 2 to %d, and a vocabulary of so many or more, to %d",
                       desc->topic, desc->words, MOST_TOPIC, MOST_WORDS);
    if (!(desc->drop >= 0 && desc->drop <= 0.9) || !(desc->replace >= 0 && desc->replace <= 0.9) ||
        !(desc->shift >= 0 && desc->shift <= 4))
        return bo_fail(context, BO_INVALID,
                       "%g of the words left out, %g replaced (expected 0 to 0.9 each), shifted by %g (0 to 4)",
                       desc->drop, desc->replace, desc->shift);
    if (desc->length > (size_t)1 << 30)
        return bo_fail(context, BO_INVALID, "documents of %zu bytes: expected at most 2^30", desc->length);
    return BO_OK;
}

bo_status bo_generate_match(bo_context *context, const bo_match_desc *desc, uint64_t count, uint64_t seed,
                            bo_write_fn write, void *user, bo_generated *made)
{
    bo_match match = {.desc = *desc};
    bo_match_desc *d = &match.desc;
    if (d->length == 0) d->length = 1000;
    if (d->words == 0) d->words = 500;
    if (d->topic == 0) d->topic = d->words < 30 ? d->words : 30;
    BO_TRY(check(context, d));
    for (match.orders = 1; match.letters < LEAST_LETTERS || match.orders < d->words;) match.orders *= ++match.letters;
    match.document = (d->length + 1) / (match.letters + 1);
    if (match.document < 2)
        return bo_fail(context, BO_INVALID, "documents of %zu bytes: expected two words of %zu letters or more",
                       d->length, match.letters);
    match.source = (size_t)((double)match.document * (d->shift + 1 / (1 - d->drop))) + 1;
    const bo_drawing drawing = {"text.match", "these properties", false, &match, draw_line};
    return bo_generate(context, &drawing, count, seed, write, user, made);
}
