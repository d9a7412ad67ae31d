/* Associative recall: pairs of keys and values among bytes that mean nothing, and one key at the end. */
#include "generate.h"

enum { MOST_KEYS = 26 * 26 * 26, ANY = 0 };

typedef struct bo_recall {
    bo_recall_desc desc;
    size_t width; /* letters of a key; a pair is one byte more */
    size_t body;  /* bytes before the question */
} bo_recall;

static char value_sign(size_t value)
{
    return (char)(value < 10 ? '0' + value : 'A' + value - 10);
}

static void write_key(const bo_recall *recall, size_t key, char *out)
{
    for (size_t i = recall->width; i-- > 0; key /= 26) out[i] = (char)('a' + key % 26);
}

/* ---- one text --------------------------------------------------------------------------------------------------------------- */

/* Pairs first … first + count - 1, whose keys are `keys`, somewhere in [begin, end): each order of pairs and gaps alike. Value i
 * goes to values[i]. */
static void place_pairs(const bo_recall *recall, bo_rng *rng, const uint16_t *keys, size_t count, char *text,
                        size_t begin, size_t end, char *values)
{
    static const char fill[] = {'.', ',', ':', ';'};
    const size_t pair = recall->width + 1;
    for (size_t cells = end - begin - count * recall->width, at = begin; cells > 0; --cells) {
        if (count == 0 || bo_rng_below(rng, cells) >= count) {
            text[at++] = fill[bo_rng_below(rng, sizeof fill)];
            continue;
        }
        write_key(recall, *keys++, text + at);
        text[at + recall->width] = *values++ = value_sign((size_t)bo_rng_below(rng, recall->desc.values));
        at += pair;
        --count;
    }
}

/* Pair 0 stands so that its value is `distance` bytes before the last one; the others where there is room, each place alike. */
static void place_around(const bo_recall *recall, bo_rng *rng, const uint16_t *keys, size_t distance, char *text,
                         char *values)
{
    const size_t pair = recall->width + 1, start = recall->desc.length - distance - pair, behind = start + pair;
    const size_t others = recall->desc.pairs - 1;
    size_t room[2] = {start / pair, (recall->body - behind) / pair}, before = 0;
    for (size_t i = 0; i < others; ++i) {
        const bool here = bo_rng_below(rng, room[0] + room[1]) < room[0];
        before += here;
        --room[here ? 0 : 1];
    }
    place_pairs(recall, rng, keys, 1, text, start, behind, values);
    place_pairs(recall, rng, keys + 1, before, text, 0, start, values + 1);
    place_pairs(recall, rng, keys + 1 + before, others - before, text, behind, recall->body, values + 1 + before);
}

static bo_status write_line(bo_context *context, const bo_recall *recall, bo_rng *rng, const uint16_t *keys,
                            char *values, bo_draft *out)
{
    const bo_recall_desc *desc = &recall->desc;
    BO_TRY(bo_buffer_reserve(context, &out->text, desc->length + 3));
    char *text = out->text.bytes + 2;
    size_t asked = 0;
    if (desc->farthest == ANY) {
        place_pairs(recall, rng, keys, desc->pairs, text, 0, recall->body, values);
        asked = (size_t)bo_rng_below(rng, desc->pairs);
    } else {
        const size_t distance = desc->nearest + (size_t)bo_rng_below(rng, desc->farthest - desc->nearest + 1);
        place_around(recall, rng, keys, distance, text, values);
    }
    text[recall->body] = '?';
    write_key(recall, keys[asked], text + recall->body + 1);
    text[desc->length] = '\n';
    out->text.bytes[0] = values[asked];
    out->text.bytes[1] = '\t';
    out->text.length = desc->length + 3;
    out->label = (size_t)(values[asked] <= '9' ? values[asked] - '0' : values[asked] - 'A' + 10);
    out->tokens = desc->length;
    out->kept = true;
    return BO_OK;
}

static bo_status draw_line(bo_context *context, const void *what, bo_rng *rng, bo_draft *out)
{
    const bo_recall *recall = what;
    uint16_t *keys = bo_alloc_raw(context, recall->desc.keys, sizeof *keys, "keys");
    char *values = bo_alloc_raw(context, recall->desc.pairs, 1, "values");
    bo_status status = keys && values ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        bo_draw_distinct(rng, recall->desc.keys, recall->desc.pairs, keys);
        status = write_line(context, recall, rng, keys, values, out);
    }
    bo_free(keys);
    bo_free(values);
    return status;
}

/* ---- the whole -------------------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const bo_recall *recall)
{
    const bo_recall_desc *desc = &recall->desc;
    const size_t pair = recall->width + 1, question = pair;
    if (desc->keys > MOST_KEYS || desc->pairs > desc->keys)
        return bo_fail(context, BO_INVALID, "%zu pairs with different keys out of %zu: expected as many or more, to %d",
                       desc->pairs, desc->keys, MOST_KEYS);
    if (desc->values < 2 || desc->values > BO_GENERATED_CLASSES)
        return bo_fail(context, BO_INVALID, "%zu values: expected 2 to %d", desc->values, BO_GENERATED_CLASSES);
    /* A pair at a given place may leave room of less than one on either side of it. */
    const size_t lost = desc->farthest == ANY || desc->pairs == 1 ? 0 : 1,
                 need = (desc->pairs + lost) * pair + question;
    if (desc->length < need || desc->length > (size_t)1 << 30)
        return bo_fail(context, BO_INVALID, "%zu pairs in %zu bytes: expected %zu bytes or more, to 2^30", desc->pairs,
                       desc->length, need);
    const size_t farthest = desc->length - pair;
    if (desc->farthest != ANY && (desc->nearest < pair || desc->nearest > desc->farthest || desc->farthest > farthest))
        return bo_fail(context, BO_INVALID,
                       "values %zu to %zu bytes before the last one: in %zu bytes there are %zu to %zu", desc->nearest,
                       desc->farthest, desc->length, pair, farthest);
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
    BO_TRY(check(context, &recall));
    recall.body = d->length - 1 - recall.width;
    const bo_drawing drawing = {"text.recall", "these properties", false, &recall, draw_line};
    return bo_generate(context, &drawing, count, seed, write, user, made);
}
