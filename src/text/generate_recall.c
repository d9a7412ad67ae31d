/* Associative recall: pairs of keys and values among signs that mean nothing, and one key at the end. */
#include "generate.h"

enum { MOST_KEYS = 26 * 26 * 26, ANY = 0 };

/* A text is `length` tokens; a pair takes `pair` of them, and so does the question. */
typedef struct bo_recall {
    bo_recall_desc desc;
    size_t width; /* letters of a key */
    size_t pair;  /* of bytes: the letters and the value; a pair that is a word is one token */
    size_t body;  /* tokens before the question */
} bo_recall;

/* A line on its way. cells[t]: what begins at token t: a pair's number, or one of the signs (FILL + 0 … 3). */
typedef struct bo_riddle {
    bo_context *context;
    const bo_recall *recall;
    bo_rng *rng;
    uint16_t *keys; /* of the pairs */
    uint8_t *values;
    uint16_t *cells; /* body */
} bo_riddle;

static const char fill[] = {'.', ',', ':', ';'};
enum { FILL = MOST_KEYS };

/* ---- where things stand ----------------------------------------------------------------------------------------------------- */

/* Pairs first … first + count - 1 somewhere in [begin, end), each order of pairs and signs alike. */
static void place_pairs(const bo_riddle *riddle, size_t first, size_t count, size_t begin, size_t end)
{
    const size_t pair = riddle->recall->pair;
    for (size_t places = end - begin - count * (pair - 1), at = begin; places > 0; --places) {
        if (count > 0 && bo_rng_below(riddle->rng, places) < count) {
            riddle->cells[at] = (uint16_t)first++;
            at += pair;
            --count;
        } else {
            riddle->cells[at++] = (uint16_t)(FILL + bo_rng_below(riddle->rng, sizeof fill));
        }
    }
}

/* Pair 0 stands so that its value is `distance` tokens before the last one; the others where there is room, each place alike. */
static void place_around(const bo_riddle *riddle, size_t distance)
{
    const bo_recall *recall = riddle->recall;
    const size_t pair = recall->pair, start = recall->desc.length - distance - pair, behind = start + pair;
    const size_t others = recall->desc.pairs - 1;
    size_t room[2] = {start / pair, (recall->body - behind) / pair}, before = 0;
    for (size_t i = 0; i < others; ++i) {
        const bool here = bo_rng_below(riddle->rng, room[0] + room[1]) < room[0];
        before += here;
        --room[here ? 0 : 1];
    }
    riddle->cells[start] = 0;
    place_pairs(riddle, 1, before, 0, start);
    place_pairs(riddle, 1 + before, others - before, behind, recall->body);
}

/* ---- one line --------------------------------------------------------------------------------------------------------------- */

static char value_sign(const bo_recall *recall, size_t value)
{
    if (recall->desc.words) return (char)('A' + value);
    return (char)(value < 10 ? '0' + value : 'A' + value - 10);
}

static bo_status write_key(const bo_riddle *riddle, char before, size_t pair, bo_buffer *text)
{
    char word[8] = {before};
    size_t key = riddle->keys[pair];
    const size_t width = riddle->recall->width;
    for (size_t i = width; i > 0; --i, key /= 26) word[i] = (char)('a' + key % 26);
    return bo_buffer_append(riddle->context, text, before ? word : word + 1, before ? width + 1 : width);
}

static bo_status write_cell(const bo_riddle *riddle, uint16_t cell, bo_buffer *text)
{
    const bool words = riddle->recall->desc.words;
    if (cell >= FILL) {
        const char sign[2] = {' ', fill[cell - FILL]};
        return bo_buffer_append(riddle->context, text, words ? sign : sign + 1, words ? 2 : 1);
    }
    const char value = value_sign(riddle->recall, riddle->values[cell]);
    BO_TRY(write_key(riddle, words ? ' ' : 0, cell, text));
    return bo_buffer_append(riddle->context, text, &value, 1);
}

static bo_status write_line(const bo_riddle *riddle, size_t asked, bo_draft *out)
{
    const bo_recall *recall = riddle->recall;
    const char begin[2] = {value_sign(recall, riddle->values[asked]), '\t'};
    BO_TRY(bo_buffer_append(riddle->context, &out->text, begin, 2));
    for (size_t at = 0; at < recall->body; at += riddle->cells[at] < FILL ? recall->pair : 1)
        BO_TRY(write_cell(riddle, riddle->cells[at], &out->text));
    BO_TRY(write_key(riddle, recall->desc.words ? ' ' : '?', asked, &out->text));
    out->label = riddle->values[asked];
    out->tokens = recall->desc.length;
    out->kept = true;
    return bo_buffer_append(riddle->context, &out->text, "\n", 1);
}

static bo_status draw_riddle(const bo_riddle *riddle, bo_draft *out)
{
    const bo_recall_desc *desc = &riddle->recall->desc;
    bo_draw_distinct(riddle->rng, desc->keys, desc->pairs, riddle->keys);
    for (size_t i = 0; i < desc->pairs; ++i) riddle->values[i] = (uint8_t)bo_rng_below(riddle->rng, desc->values);
    if (desc->farthest == ANY) {
        place_pairs(riddle, 0, desc->pairs, 0, riddle->recall->body);
        return write_line(riddle, (size_t)bo_rng_below(riddle->rng, desc->pairs), out);
    }
    place_around(riddle, desc->nearest + (size_t)bo_rng_below(riddle->rng, desc->farthest - desc->nearest + 1));
    return write_line(riddle, 0, out);
}

static bo_status draw_line(bo_context *context, const void *what, bo_rng *rng, bo_draft *out)
{
    const bo_recall *recall = what;
    bo_riddle riddle = {.context = context, .recall = recall, .rng = rng};
    riddle.keys = bo_alloc_raw(context, recall->desc.keys, sizeof *riddle.keys, "keys");
    riddle.values = bo_alloc_raw(context, recall->desc.pairs, sizeof *riddle.values, "values");
    riddle.cells = bo_alloc_raw(context, recall->body, sizeof *riddle.cells, "a text");
    bo_status status = riddle.keys && riddle.values && riddle.cells ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = draw_riddle(&riddle, out);
    bo_free(riddle.keys);
    bo_free(riddle.values);
    bo_free(riddle.cells);
    return status;
}

/* ---- the whole -------------------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const bo_recall *recall)
{
    const bo_recall_desc *desc = &recall->desc;
    const size_t pair = recall->pair, values = desc->words ? 26 : BO_GENERATED_CLASSES;
    if (desc->keys > MOST_KEYS || desc->pairs > desc->keys)
        return bo_fail(context, BO_INVALID, "%zu pairs with different keys out of %zu: expected as many or more, to %d",
                       desc->pairs, desc->keys, MOST_KEYS);
    if (desc->values < 2 || desc->values > values)
        return bo_fail(context, BO_INVALID, "%zu values: expected 2 to %zu", desc->values, values);
    /* A pair at a given place may leave room of less than one on either side of it. */
    const size_t lost = desc->farthest == ANY || desc->pairs == 1 || pair == 1 ? 0 : 1;
    const size_t need = (desc->pairs + lost) * pair + pair;
    if (desc->length < need || desc->length > (size_t)1 << 30)
        return bo_fail(context, BO_INVALID, "%zu pairs in %zu tokens: expected %zu tokens or more, to 2^30",
                       desc->pairs, desc->length, need);
    const size_t farthest = desc->length - pair;
    if (desc->farthest != ANY && (desc->nearest < pair || desc->nearest > desc->farthest || desc->farthest > farthest))
        return bo_fail(context, BO_INVALID,
                       "values %zu to %zu tokens before the last one: of %zu tokens there are %zu to %zu",
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
    for (size_t most = 26; most < d->keys && most < MOST_KEYS; most *= 26) ++recall.width;
    recall.pair = d->words ? 1 : recall.width + 1;
    BO_TRY(check(context, &recall));
    recall.body = d->length - recall.pair;
    const bo_drawing drawing = {"text.recall", "these properties", false, &recall, draw_line};
    return bo_generate(context, &drawing, count, seed, write, user, made);
}
