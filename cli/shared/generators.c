/* Generated lines. The output does not depend on the number of threads, because line n has its own random numbers. */
#include "generators.h"
#include <stdio.h>
#include <stdlib.h>
#include "../../src/base/rng.h"
#include "../../src/text/buffer.h"
#include "../../src/text/vocabulary.h"

/* A candidate line. */
typedef struct bo_draft {
    bo_buffer text; /* label, tab, text, newline */
    bool kept;      /* false: rejected */
    size_t label, tokens;
} bo_draft;

/* The generator of one kind of lines. */
typedef struct bo_drawing {
    const char *name;        /* name of its random number stream */
    const char *requirement; /* for error messages: the requirement on lines */
    bool distinct;           /* duplicates are rejected */
    const void *desc;
    /* Fills in the draft, whose text is empty. `context` belongs to the worker. */
    bo_status (*draw)(bo_context *context, const void *desc, bo_rng *rng, bo_draft *out);
} bo_drawing;

enum {
    DRAFTS_PER_THREAD = 64,
    MAX_REJECTED = 1 << 20, /* consecutive rejected drafts, after which generation fails */
};

/* The drafts of a round, drawn on the thread pool and accepted in order. */
typedef struct bo_generating {
    const bo_drawing *drawing;
    uint64_t seed;
    bo_context **contexts; /* by worker */
    int workers;
    bo_draft *drafts;
    bo_status *statuses;
    size_t round;
    uint64_t first;  /* first draft of this round */
    size_t rejected; /* drafts since the last accepted one */
    bo_buffer block;

    /* Hashes of the accepted lines if they must be distinct: open addressing, at most half full, 0 is empty. */
    uint64_t *seen;
    size_t places;
} bo_generating;

static void draw_task(void *arg, size_t index, int worker)
{
    bo_generating *g = arg;
    bo_draft *draft = &g->drafts[index];
    bo_rng rng = bo_rng_make(g->seed, bo_rng_stream(g->drawing->name, g->first + index));
    draft->text.length = 0;
    draft->kept = false;
    g->statuses[index] = g->drawing->draw(g->contexts[worker], g->drawing->desc, &rng, draft);
}

/* ---- distinct lines ---------------------------------------------------------------------------------------------- */

static uint64_t *place_of(const bo_generating *g, uint64_t hash)
{
    size_t at = (size_t)hash & (g->places - 1);
    while (g->seen[at] && g->seen[at] != hash) at = (at + 1) & (g->places - 1);
    return &g->seen[at];
}

static bo_status grow(bo_context *context, bo_generating *g)
{
    bo_generating larger = {.places = g->places ? 2 * g->places : 1024};
    larger.seen = bo_alloc(context, larger.places, sizeof *larger.seen, "distinct lines");
    if (!larger.seen) return BO_MEMORY;
    for (size_t i = 0; i < g->places; ++i)
        if (g->seen[i]) *place_of(&larger, g->seen[i]) = g->seen[i];
    bo_free(g->seen);
    g->seen = larger.seen;
    g->places = larger.places;
    return BO_OK;
}

static bo_status keep_distinct(bo_context *context, bo_generating *g, uint64_t lines, bo_draft *draft)
{
    const uint64_t hash = bo_hash_bytes(draft->text.bytes, draft->text.length) | 1;
    if (2 * lines >= g->places) BO_TRY(grow(context, g));
    uint64_t *place = place_of(g, hash);
    draft->kept = *place == 0;
    *place = hash;
    return BO_OK;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static bo_status flush(bo_context *context, bo_generating *g, bo_write_fn write, void *user)
{
    const bool written = g->block.length == 0 || write(user, g->block.bytes, g->block.length);
    g->block.length = 0;
    return written ? BO_OK : bo_fail(context, BO_IO, "generated lines could not be written");
}

static bo_status accept_draft(bo_context *context, bo_generating *g, bo_draft *draft, bo_generated *made)
{
    if (draft->kept && g->drawing->distinct) BO_TRY(keep_distinct(context, g, made->lines, draft));
    if (!draft->kept) return BO_OK;
    BO_TRY(bo_buffer_append(context, &g->block, draft->text.bytes, draft->text.length));
    ++made->lines;
    ++made->labels[draft->label];
    made->bytes += draft->text.length;
    made->tokens += draft->tokens;
    return BO_OK;
}

static bo_status accept_round(bo_context *context, bo_generating *g, uint64_t count, bo_generated *made)
{
    for (size_t i = 0; i < g->round; ++i)
        if (g->statuses[i] != BO_OK)
            return bo_fail(context, g->statuses[i], "%s: a line could not be drawn: %s", g->drawing->name,
                           bo_status_string(g->statuses[i]));
    for (size_t i = 0; i < g->round && made->lines < count; ++i) {
        BO_TRY(accept_draft(context, g, &g->drafts[i], made));
        ++made->tried;
        g->rejected = g->drafts[i].kept ? 0 : g->rejected + 1;
        if (g->rejected == MAX_REJECTED)
            return bo_fail(context, BO_INVALID,
                           "after %llu lines, %d consecutive drafts were rejected; expected a "
                           "new line with %s",
                           (unsigned long long)made->lines, MAX_REJECTED, g->drawing->requirement);
    }
    return BO_OK;
}

static bo_status run(bo_context *context, bo_generating *g, uint64_t count, bo_write_fn write, void *user,
                     bo_generated *made)
{
    for (; made->lines < count; g->first += g->round) {
        BO_TRY(bo_progress(context, "drawing lines", (double)made->lines, (double)count));
        bo_parallel(context, g->round, draw_task, g);
        BO_TRY(accept_round(context, g, count, made));
        BO_TRY(flush(context, g, write, user));
    }
    return BO_OK;
}

static bo_status prepare(bo_context *context, bo_generating *g)
{
    const int workers = bo_context_describe(context)->threads;
    g->round = (size_t)workers * DRAFTS_PER_THREAD;
    g->contexts = bo_alloc(context, (size_t)workers, sizeof *g->contexts, "drawing lines");
    g->drafts = bo_alloc(context, g->round, sizeof *g->drafts, "drawing lines");
    g->statuses = bo_alloc(context, g->round, sizeof *g->statuses, "drawing lines");
    if (!g->contexts || !g->drafts || !g->statuses) return BO_MEMORY;
    for (; g->workers < workers; ++g->workers) BO_TRY(bo_context_branch(context, &g->contexts[g->workers]));
    return BO_OK;
}

static bo_status generate(bo_context *context, const bo_drawing *drawing, uint64_t count, uint64_t seed,
                          bo_write_fn write, void *user, bo_generated *made)
{
    bo_generating g = {.drawing = drawing, .seed = seed};
    bo_generated unwanted;
    if (!made) made = &unwanted;
    *made = (bo_generated){0};
    bo_status status = prepare(context, &g);
    if (status == BO_OK) status = run(context, &g, count, write, user, made);
    for (int w = 0; w < g.workers; ++w) bo_context_destroy(g.contexts[w]);
    for (size_t i = 0; g.drafts && i < g.round; ++i) bo_buffer_free(&g.drafts[i].text);
    bo_buffer_free(&g.block);
    bo_free(g.contexts);
    bo_free(g.drafts);
    bo_free(g.statuses);
    bo_free(g.seen);
    return status;
}

/* Fills the first `count` entries of `out`, which has capacity for `from` entries, with distinct numbers below `from`,
 * in any order. */
static void draw_distinct(bo_rng *rng, size_t from, size_t count, uint16_t *out)
{
    for (size_t i = 0; i < from; ++i) out[i] = (uint16_t)i;
    for (size_t i = 0; i < count; ++i) {
        const size_t other = i + (size_t)bo_rng_below(rng, from - i);
        const uint16_t chosen = out[other];
        out[other] = out[i];
        out[i] = chosen;
    }
}

/* ====================================================================================================================
 * ListOps: trees are drawn from the root, written in order, and evaluated on return. */

enum { MAX_DEPTH = 64, MAX_ARGUMENTS = 64, OPERATIONS = 4 };

typedef struct bo_tree {
    bo_context *context;
    const bo_listops_desc *desc;
    bo_rng *rng;
    bo_buffer *text;
    size_t tokens;
} bo_tree;

static bo_status write_token(bo_tree *tree, char symbol, const char *word)
{
    ++tree->tokens;
    if (!tree->desc->words) return bo_buffer_append(tree->context, tree->text, &symbol, 1);
    BO_TRY(bo_buffer_append(tree->context, tree->text, " ", tree->tokens > 1 ? 1 : 0));
    return bo_buffer_append(tree->context, tree->text, word, strlen(word));
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static int minimum(int *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[0];
}

static int maximum_value(int *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count - 1];
}

static int median(int *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static int sum(int *values, size_t count)
{
    int total = 0;
    for (size_t i = 0; i < count; ++i) total += values[i];
    return total % 10;
}

static const struct {
    char symbol;
    const char *word;
    int (*of)(int *values, size_t count); /* may reorder them */
} operations[OPERATIONS] = {
    {'m', "[MIN", minimum}, {'M', "[MAX", maximum_value}, {'d', "[MED", median}, {'s', "[SM", sum}};

/* ---- trees ------------------------------------------------------------------------------------------------------- */

/* A tree that is too long is not completed, because it will be rejected. */
static bo_status draw_value(bo_tree *tree, size_t depth, int *value)
{
    *value = 0;
    if (tree->tokens >= tree->desc->max_tokens) return BO_OK;
    if (depth == tree->desc->depth || bo_rng_below(tree->rng, 4) > 0) {
        *value = (int)bo_rng_below(tree->rng, 10);
        const char digit[2] = {(char)('0' + *value), 0};
        return write_token(tree, *digit, digit);
    }
    int values[MAX_ARGUMENTS];
    const size_t operation = (size_t)bo_rng_below(tree->rng, OPERATIONS);
    const size_t count = 2 + (size_t)bo_rng_below(tree->rng, tree->desc->arguments - 1);
    BO_TRY(write_token(tree, operations[operation].symbol, operations[operation].word));
    for (size_t i = 0; i < count; ++i) BO_TRY(draw_value(tree, depth + 1, &values[i]));
    *value = operations[operation].of(values, count);
    return write_token(tree, ']', "]");
}

static bo_status draw_listops(bo_context *context, const void *what, bo_rng *rng, bo_draft *out)
{
    const bo_listops_desc *desc = what;
    bo_tree tree = {.context = context, .desc = desc, .rng = rng, .text = &out->text};
    int value;
    BO_TRY(bo_buffer_append(context, &out->text, "0\t", 2));
    BO_TRY(draw_value(&tree, 1, &value));
    out->text.bytes[0] = (char)('0' + value);
    out->label = (size_t)value;
    out->tokens = tree.tokens;
    out->kept = tree.tokens > desc->min_tokens && tree.tokens < desc->max_tokens;
    return bo_buffer_append(context, &out->text, "\n", 1);
}

bo_status bo_generate_listops(bo_context *context, const bo_listops_desc *desc, uint64_t count, uint64_t seed,
                              bo_write_fn write, void *user, bo_generated *made)
{
    bo_listops_desc d = *desc;
    if (d.min_tokens == 0 && d.max_tokens == 0) d.min_tokens = 500;
    if (d.max_tokens == 0) d.max_tokens = 2000;
    if (d.depth == 0) d.depth = 10;
    if (d.arguments == 0) d.arguments = 10;
    if (d.depth > MAX_DEPTH || d.arguments < 2 || d.arguments > MAX_ARGUMENTS)
        return bo_fail(context, BO_INVALID,
                       "ListOps of depth %zu with %zu arguments: expected depth 1 to %d and 2 to "
                       "%d arguments",
                       d.depth, d.arguments, MAX_DEPTH, MAX_ARGUMENTS);
    if (d.max_tokens < d.min_tokens + 2)
        return bo_fail(context, BO_INVALID, "ListOps: no length is greater than %zu and less than %zu tokens",
                       d.min_tokens, d.max_tokens);
    char requirement[96];
    snprintf(requirement, sizeof requirement, "more than %zu and fewer than %zu tokens", d.min_tokens, d.max_tokens);
    const bo_drawing drawing = {"text.listops", requirement, true, &d, draw_listops};
    return generate(context, &drawing, count, seed, write, user, made);
}

/* ====================================================================================================================
 * Pairs of documents: noisy copies of one source or of two sources. */

enum { MIN_LETTERS = 3, MAX_LETTERS = 7, MAX_WORDS = 5040 /* 7! */, MAX_TOPIC = 1024 };

/* Words are permutations of the first `letters` letters, evenly spaced among all permutations. They are the same for
 * every seed, so that one file can be used for training and another for testing. */
typedef struct bo_match {
    bo_match_desc desc;
    size_t letters, orders;  /* number of permutations: letters! */
    size_t document, source; /* words of a source, and of a document */
} bo_match;

/* Buffers for one line. */
typedef struct bo_match_writer {
    bo_context *context;
    const bo_match *match;
    bo_rng *rng;
    uint16_t *topic;  /* word numbers below desc.words; only the first desc.topic entries are used */
    uint16_t *source; /* words */
    uint16_t *document;
} bo_match_writer;

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Permutation number `rank` of the letters: its digits in the factorial number system select from the remaining
 * letters. */
static void spell(const bo_match *match, size_t word, char *out)
{
    size_t rank = word * match->orders / match->desc.words, orders = match->orders;
    char left[MAX_LETTERS];
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

static uint16_t draw_word(const bo_match_writer *writer)
{
    return writer->topic[bo_rng_below(writer->rng, writer->match->desc.topic)];
}

/* ---- sources and documents --------------------------------------------------------------------------------------- */

static void draw_topic(const bo_match_writer *writer)
{
    draw_distinct(writer->rng, writer->match->desc.words, writer->match->desc.topic, writer->topic);
}

static void draw_source(const bo_match_writer *writer)
{
    for (size_t i = 0; i < writer->match->source; ++i) writer->source[i] = draw_word(writer);
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

/* A section of the source with its noise. If too many words were dropped, random words fill the end. */
static void draw_document(const bo_match_writer *writer)
{
    const bo_match *match = writer->match;
    const bo_match_desc *desc = &match->desc;
    const size_t count = match->document, slack = (size_t)(desc->shift * (double)count);
    size_t at = (size_t)bo_rng_below(writer->rng, slack + 1), made = 0;
    for (; made < count && at < match->source; ++at) {
        if (bo_rng_uniform(writer->rng) < desc->drop) continue;
        const bool other = bo_rng_uniform(writer->rng) < desc->replace;
        writer->document[made++] = other ? draw_word(writer) : writer->source[at];
    }
    while (made < count) writer->document[made++] = draw_word(writer);
    if (desc->shuffle < 2) return;
    for (size_t i = 0, span = 1 + (size_t)bo_rng_below(writer->rng, desc->shuffle); i < count;
         i += span, span = desc->shuffle) {
        const size_t left = count - i;
        shuffle(writer->rng, writer->document + i, left < span ? left : span);
    }
}

static bo_status write_document(const bo_match_writer *writer, char end, bo_buffer *text)
{
    const bo_match *match = writer->match;
    const size_t letters = match->letters;
    BO_TRY(bo_buffer_reserve(writer->context, text, match->document * (letters + 1)));
    for (size_t i = 0; i < match->document; ++i) {
        spell(match, writer->document[i], text->bytes + text->length);
        text->bytes[text->length + letters] = i + 1 < match->document ? ' ' : end;
        text->length += letters + 1;
    }
    return BO_OK;
}

static bo_status write_match(const bo_match_writer *writer, bo_draft *out)
{
    const size_t label = (size_t)bo_rng_below(writer->rng, 2);
    const char begin[2] = {(char)('0' + label), '\t'};
    BO_TRY(bo_buffer_append(writer->context, &out->text, begin, 2));
    draw_topic(writer);
    draw_source(writer);
    draw_document(writer);
    BO_TRY(write_document(writer, '\t', &out->text));
    const bool same_words = writer->match->desc.same_words;
    if (label == 0 && !same_words) {
        draw_topic(writer);
        draw_source(writer);
    }
    draw_document(writer);
    if (label == 0 && same_words) shuffle(writer->rng, writer->document, writer->match->document);
    BO_TRY(write_document(writer, '\n', &out->text));
    out->label = label;
    out->tokens = out->text.length - 4; /* without label, tabs and newline */
    out->kept = true;
    return BO_OK;
}

static bo_status draw_match(bo_context *context, const void *what, bo_rng *rng, bo_draft *out)
{
    const bo_match *match = what;
    bo_match_writer writer = {.context = context, .match = match, .rng = rng};
    writer.topic = bo_alloc_raw(context, match->desc.words, sizeof *writer.topic, "a topic");
    writer.source = bo_alloc_raw(context, match->source, sizeof *writer.source, "a source");
    writer.document = bo_alloc_raw(context, match->document, sizeof *writer.document, "a document");
    bo_status status = writer.topic && writer.source && writer.document ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = write_match(&writer, out);
    bo_free(writer.topic);
    bo_free(writer.source);
    bo_free(writer.document);
    return status;
}

/* ---- documents --------------------------------------------------------------------------------------------------- */

static bo_status check_match(bo_context *context, const bo_match_desc *desc)
{
    if (desc->words < 2 || desc->words > MAX_WORDS || desc->topic < 2 || desc->topic > MAX_TOPIC ||
        desc->topic > desc->words)
        return bo_fail(context, BO_INVALID,
                       "topics of %zu out of %zu words: expected topics of 2 to %d words and a vocabulary of at least "
                       "as many, at most %d",
                       desc->topic, desc->words, MAX_TOPIC, MAX_WORDS);
    if (!(desc->drop >= 0 && desc->drop <= 0.9) || !(desc->replace >= 0 && desc->replace <= 0.9) ||
        !(desc->shift >= 0 && desc->shift <= 4))
        return bo_fail(context, BO_INVALID,
                       "%g of the words dropped, %g replaced (expected 0 to 0.9 each), shifted by %g (expected 0 to 4)",
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
    BO_TRY(check_match(context, d));
    for (match.orders = 1; match.letters < MIN_LETTERS || match.orders < d->words;) match.orders *= ++match.letters;
    match.document = (d->length + 1) / (match.letters + 1);
    if (match.document < 2)
        return bo_fail(context, BO_INVALID, "documents of %zu bytes: expected at least two words of %zu letters",
                       d->length, match.letters);
    match.source = (size_t)((double)match.document * (d->shift + 1 / (1 - d->drop))) + 1;
    const bo_drawing drawing = {"text.match", "these properties", false, &match, draw_match};
    return generate(context, &drawing, count, seed, write, user, made);
}

/* ====================================================================================================================
 * Associative recall: key-value pairs among filler characters, and one key at the end. */

enum { MAX_KEYS = 26 * 26 * 26, ANY = 0 };

/* A text has `length` tokens. A pair and the question have `pair` tokens each. */
typedef struct bo_recall {
    bo_recall_desc desc;
    size_t width; /* letters of a key */
    size_t pair;  /* in bytes: the letters and the value; with words a pair is one token */
    size_t body;  /* tokens before the question */
} bo_recall;

/* A line in progress. cells[t]: the content at token t: the number of a pair, or one of the filler characters (FILL + 0
 * … 3). */
typedef struct bo_recall_text {
    bo_context *context;
    const bo_recall *recall;
    bo_rng *rng;
    uint16_t *keys; /* of the pairs */
    uint8_t *values;
    uint16_t *cells; /* body */
} bo_recall_text;

static const char fill[] = {'.', ',', ':', ';'};
enum { FILL = MAX_KEYS };

/* ---- placement --------------------------------------------------------------------------------------------------- */

/* Places pairs first … first + count - 1 in [begin, end), with all orders of pairs and fillers equally likely. */
static void place_pairs(const bo_recall_text *sample, size_t first, size_t count, size_t begin, size_t end)
{
    const size_t pair = sample->recall->pair;
    for (size_t places = end - begin - count * (pair - 1), at = begin; places > 0; --places) {
        if (count > 0 && bo_rng_below(sample->rng, places) < count) {
            sample->cells[at] = (uint16_t)first++;
            at += pair;
            --count;
        } else {
            sample->cells[at++] = (uint16_t)(FILL + bo_rng_below(sample->rng, sizeof fill));
        }
    }
}

/* Places pair 0 so that its value is `distance` tokens before the last token; other pairs are placed uniformly in the
 * remaining space. */
static void place_around(const bo_recall_text *sample, size_t distance)
{
    const bo_recall *recall = sample->recall;
    const size_t pair = recall->pair, start = recall->desc.length - distance - pair, after_pair = start + pair;
    const size_t other_pairs = recall->desc.pairs - 1;
    size_t free_places[2] = {start / pair, (recall->body - after_pair) / pair}, before = 0;
    for (size_t i = 0; i < other_pairs; ++i) {
        const bool is_before = bo_rng_below(sample->rng, free_places[0] + free_places[1]) < free_places[0];
        before += is_before;
        --free_places[is_before ? 0 : 1];
    }
    sample->cells[start] = 0;
    place_pairs(sample, 1, before, 0, start);
    place_pairs(sample, 1 + before, other_pairs - before, after_pair, recall->body);
}

/* ---- one line ---------------------------------------------------------------------------------------------------- */

static char value_sign(const bo_recall *recall, size_t value)
{
    if (recall->desc.words) return (char)('A' + value);
    return (char)(value < 10 ? '0' + value : 'A' + value - 10);
}

static bo_status write_key(const bo_recall_text *sample, char before, size_t pair, bo_buffer *text)
{
    char word[8] = {before};
    size_t key = sample->keys[pair];
    const size_t width = sample->recall->width;
    for (size_t i = width; i > 0; --i, key /= 26) word[i] = (char)('a' + key % 26);
    return bo_buffer_append(sample->context, text, before ? word : word + 1, before ? width + 1 : width);
}

static bo_status write_cell(const bo_recall_text *sample, uint16_t cell, bo_buffer *text)
{
    const bool words = sample->recall->desc.words;
    if (cell >= FILL) {
        const char sign[2] = {' ', fill[cell - FILL]};
        return bo_buffer_append(sample->context, text, words ? sign : sign + 1, words ? 2 : 1);
    }
    const char value = value_sign(sample->recall, sample->values[cell]);
    BO_TRY(write_key(sample, words ? ' ' : 0, cell, text));
    return bo_buffer_append(sample->context, text, &value, 1);
}

static bo_status write_recall(const bo_recall_text *sample, size_t requested, bo_draft *out)
{
    const bo_recall *recall = sample->recall;
    const char begin[2] = {value_sign(recall, sample->values[requested]), '\t'};
    BO_TRY(bo_buffer_append(sample->context, &out->text, begin, 2));
    for (size_t at = 0; at < recall->body; at += sample->cells[at] < FILL ? recall->pair : 1)
        BO_TRY(write_cell(sample, sample->cells[at], &out->text));
    BO_TRY(write_key(sample, recall->desc.words ? ' ' : '?', requested, &out->text));
    out->label = sample->values[requested];
    out->tokens = recall->desc.length;
    out->kept = true;
    return bo_buffer_append(sample->context, &out->text, "\n", 1);
}

static bo_status draw_recall_text(const bo_recall_text *sample, bo_draft *out)
{
    const bo_recall_desc *desc = &sample->recall->desc;
    draw_distinct(sample->rng, desc->keys, desc->pairs, sample->keys);
    for (size_t i = 0; i < desc->pairs; ++i) sample->values[i] = (uint8_t)bo_rng_below(sample->rng, desc->values);
    if (desc->farthest == ANY) {
        place_pairs(sample, 0, desc->pairs, 0, sample->recall->body);
        return write_recall(sample, (size_t)bo_rng_below(sample->rng, desc->pairs), out);
    }
    place_around(sample, desc->nearest + (size_t)bo_rng_below(sample->rng, desc->farthest - desc->nearest + 1));
    return write_recall(sample, 0, out);
}

static bo_status draw_recall(bo_context *context, const void *what, bo_rng *rng, bo_draft *out)
{
    const bo_recall *recall = what;
    bo_recall_text sample = {.context = context, .recall = recall, .rng = rng};
    sample.keys = bo_alloc_raw(context, recall->desc.keys, sizeof *sample.keys, "keys");
    sample.values = bo_alloc_raw(context, recall->desc.pairs, sizeof *sample.values, "values");
    sample.cells = bo_alloc_raw(context, recall->body, sizeof *sample.cells, "a text");
    bo_status status = sample.keys && sample.values && sample.cells ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = draw_recall_text(&sample, out);
    bo_free(sample.keys);
    bo_free(sample.values);
    bo_free(sample.cells);
    return status;
}

/* ---- recall ------------------------------------------------------------------------------------------------------ */

static bo_status check_recall(bo_context *context, const bo_recall *recall)
{
    const bo_recall_desc *desc = &recall->desc;
    const size_t pair = recall->pair, values = desc->words ? 26 : BO_GENERATED_CLASSES;
    if (desc->keys > MAX_KEYS || desc->pairs > desc->keys)
        return bo_fail(context, BO_INVALID,
                       "%zu pairs with different keys out of %zu: expected at least as many keys "
                       "as pairs, at most %d",
                       desc->pairs, desc->keys, MAX_KEYS);
    if (desc->values < 2 || desc->values > values)
        return bo_fail(context, BO_INVALID, "%zu values: expected 2 to %zu", desc->values, values);
    /* A pair at a given position may leave less than the space of a pair on each side. */
    const size_t lost = desc->farthest == ANY || desc->pairs == 1 || pair == 1 ? 0 : 1;
    const size_t need = (desc->pairs + lost) * pair + pair;
    if (desc->length < need || desc->length > (size_t)1 << 30)
        return bo_fail(context, BO_INVALID, "%zu pairs in %zu tokens: expected %zu to 2^30 tokens", desc->pairs,
                       desc->length, need);
    const size_t farthest = desc->length - pair;
    if (desc->farthest != ANY && (desc->nearest < pair || desc->nearest > desc->farthest || desc->farthest > farthest))
        return bo_fail(context, BO_INVALID,
                       "values %zu to %zu tokens before the last one: in %zu tokens the possible distances are %zu to "
                       "%zu",
                       desc->nearest, desc->farthest, desc->length, pair, farthest);
    return BO_OK;
}

bo_status bo_generate_recall(bo_context *context, const bo_recall_desc *desc, uint64_t count, uint64_t seed,
                             bo_write_fn write, void *user, bo_generated *made)
{
    bo_recall recall = {.desc = *desc, .width = 1};
    bo_recall_desc *d = &recall.desc;
    if (d->length == 0) d->length = 256;
    if (d->pairs == 0) d->pairs = 8;
    if (d->keys == 0) d->keys = d->pairs > 26 ? d->pairs : 26;
    if (d->values == 0) d->values = 10;
    if (d->farthest == 0) d->farthest = d->nearest;
    if (d->nearest == 0) d->nearest = d->farthest;
    for (size_t capacity = 26; capacity < d->keys && capacity < MAX_KEYS; capacity *= 26) ++recall.width;
    recall.pair = d->words ? 1 : recall.width + 1;
    BO_TRY(check_recall(context, &recall));
    recall.body = d->length - recall.pair;
    const bo_drawing drawing = {"text.recall", "these properties", false, &recall, draw_recall};
    return generate(context, &drawing, count, seed, write, user, made);
}
