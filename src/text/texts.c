/* Texts as ids: files of lines, encoded, with their labels. */
#include "facts.h"
#include "../base/trace.h"
#include "encoder.h"
#include "lines.h"
#include "../base/rng.h"

#include <stdio.h>
#include <string.h>

/* Text t is side t % sides of example t / sides. Its ids are ids[starts[t]] to ids[starts[t + 1]]. */
struct bo_texts {
    bo_texts_kind kind;
    bo_lines lines;
    bo_ids ids;
    size_t *starts; /* text count + 1 */
    const char **labels;
    uint64_t tokens[BO_MAX_SIDES];
    size_t longest[BO_MAX_SIDES];
    size_t cut;
    bo_texts_info info; /* for bo_texts_describe */
};

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

enum { TEXTS_A_TASK = BO_SIZE(64, 2), TASKS_A_THREAD = 8 };

/* The results of one task for TEXTS_A_TASK texts, or fewer at the end. */
typedef struct bo_batch_ids {
    bo_ids ids;
    size_t ends[TEXTS_A_TASK]; /* end of each text in ids */
    bo_status status;
    size_t failed; /* texts before the one that failed or has a character without a token */
    bo_missed missed;
} bo_batch_ids;

typedef struct bo_encoding {
    bo_texts *texts;
    const bo_texts_desc *desc;
    bo_encoders encoders;
    bo_batch_ids *batches; /* results of this round */
    size_t round;          /* their number */
    size_t first, count;   /* first text of this round, and total number */
    /* Number of texts that exceed the maximum length, and the one with the smallest line number (texts are processed in
     * any order). */
    size_t refused, longer, longer_tokens;
} bo_encoding;

static const char *text_of(const bo_texts *texts, size_t t, size_t *bytes)
{
    const bo_line *line = &texts->lines.items[t / texts->lines.sides];
    const size_t side = t % texts->lines.sides;
    *bytes = line->bytes[side];
    return line->text[side];
}

static void describe_line(const bo_texts *texts, size_t t, char *out, size_t size)
{
    const bo_line *line = &texts->lines.items[t / texts->lines.sides];
    snprintf(out, size, "%s, line %zu", texts->lines.paths[line->file], line->number);
}

static bool comes_before(const bo_line *a, const bo_line *b)
{
    return a->file < b->file || (a->file == b->file && a->number < b->number);
}

static void refuse_later(bo_encoding *encoding, size_t t, size_t count)
{
    const bo_line *lines = encoding->texts->lines.items;
    const size_t sides = encoding->texts->lines.sides;
    if (encoding->refused++ && !comes_before(&lines[t / sides], &lines[encoding->longer / sides])) return;
    encoding->longer = t;
    encoding->longer_tokens = count;
}

static bo_status check_lengths(bo_context *context, const bo_encoding *encoding)
{
    const bo_texts *texts = encoding->texts;
    char where[4200], more[64] = "";
    if (encoding->refused == 0) return BO_OK;
    describe_line(texts, encoding->longer, where, sizeof where);
    if (encoding->refused > 1) snprintf(more, sizeof more, "; %zu texts are too long", encoding->refused);
    return bo_fail(context, BO_FORMAT, "%s: expected at most %zu tokens, found a %s of %zu%s", where,
                   encoding->desc->longest, bo_side_name(texts->kind, encoding->longer % texts->lines.sides),
                   encoding->longer_tokens, more);
}

/* Appends the ids of text t, truncated if necessary, and its end token. */
static bo_status add_text(bo_context *context, bo_encoding *encoding, size_t t, const int32_t *ids, size_t count)
{
    bo_texts *texts = encoding->texts;
    const bo_texts_desc *desc = encoding->desc;
    const size_t side = t % texts->lines.sides;
    char where[4200];
    if (count == 0 && !desc->empty) {
        describe_line(texts, t, where, sizeof where);
        return bo_fail(context, BO_FORMAT, "%s: the %s has no tokens", where, bo_side_name(texts->kind, side));
    }
    if (desc->longest && count > desc->longest) {
        if (!desc->cut) refuse_later(encoding, t, count);
        count = desc->longest;
        ++texts->cut;
    }
    BO_TRY(bo_ids_reserve(context, &texts->ids, count + 1));
    if (count > 0) memcpy(texts->ids.items + texts->ids.count, ids, count * sizeof *ids);
    texts->ids.count += count;
    if (desc->end) {
        texts->ids.items[texts->ids.count++] = (int32_t)(desc->end - 1);
        ++count;
    }
    texts->starts[t + 1] = texts->ids.count;
    texts->tokens[side] += count;
    if (count > texts->longest[side]) texts->longest[side] = count;
    return BO_OK;
}

static void encode_batch(void *arg, size_t index, int worker)
{
    bo_encoding *encoding = arg;
    bo_batch_ids *batch = &encoding->batches[index];
    bo_encoder *encoder = &encoding->encoders.items[worker];
    const size_t first = encoding->first + index * TEXTS_A_TASK, left = encoding->count - first;
    batch->ids.count = 0;
    batch->status = BO_OK;
    batch->missed.bytes = 0;
    for (size_t i = 0; i < TEXTS_A_TASK && i < left; ++i) {
        size_t bytes;
        const char *text = text_of(encoding->texts, first + i, &bytes);
        batch->failed = i;
        batch->status = bo_encoder_run(encoder, text, bytes, &batch->ids);
        batch->missed = encoder->missed;
        if (batch->status != BO_OK || batch->missed.bytes > 0) return;
        batch->ends[i] = batch->ids.count;
    }
}

static bo_status collect_batch(bo_context *context, bo_encoding *encoding, size_t index)
{
    const bo_batch_ids *batch = &encoding->batches[index];
    const size_t first = encoding->first + index * TEXTS_A_TASK, left = encoding->count - first;
    if (batch->status != BO_OK) return bo_encoders_failed(context, &encoding->encoders, batch->status);
    for (size_t i = 0, begin = 0; i < TEXTS_A_TASK && i < left; begin = batch->ends[i++]) {
        if (batch->missed.bytes > 0 && i == batch->failed) {
            char where[4200];
            describe_line(encoding->texts, first + i, where, sizeof where);
            return bo_missed_report(context, &batch->missed, where, batch->missed.place, "of the text");
        }
        const int32_t *ids = batch->ids.items ? batch->ids.items + begin : NULL; /* NULL: all texts are empty */
        BO_TRY(add_text(context, encoding, first + i, ids, batch->ends[i] - begin));
    }
    return BO_OK;
}

static bo_status encode_rounds(bo_context *context, bo_encoding *encoding, size_t bytes)
{
    BO_TRY(bo_encoders_create(context, encoding->desc->tokenizer, false, bytes, &encoding->encoders));
    encoding->round = (size_t)encoding->encoders.count * TASKS_A_THREAD;
    encoding->batches = bo_alloc(context, encoding->round, sizeof *encoding->batches, "encoded texts");
    if (!encoding->batches) return BO_MEMORY;
    while (encoding->first < encoding->count) {
        const size_t left = (encoding->count - encoding->first + TEXTS_A_TASK - 1) / TEXTS_A_TASK;
        const size_t tasks = left < encoding->round ? left : encoding->round;
        BO_TRY(bo_progress(context, "encoding", (double)encoding->first, (double)encoding->count));
        bo_parallel(context, tasks, encode_batch, encoding);
        for (size_t i = 0; i < tasks; ++i) BO_TRY(collect_batch(context, encoding, i));
        encoding->first += tasks * TEXTS_A_TASK;
    }
    return BO_OK;
}

static bo_status encode_bytes(bo_context *context, bo_encoding *encoding, size_t total)
{
    bo_ids ids = {0};
    bo_status status = bo_ids_reserve(context, &encoding->texts->ids, total + encoding->count);
    for (size_t t = 0; status == BO_OK && t < encoding->count; ++t) {
        size_t bytes;
        const char *text = text_of(encoding->texts, t, &bytes);
        ids.count = 0;
        status = bo_tokenizer_encode(context, encoding->desc->tokenizer, text, bytes, false, &ids);
        if (status == BO_OK) status = add_text(context, encoding, t, ids.items, ids.count);
    }
    bo_ids_free(&ids);
    return status;
}

static bo_status encode(bo_context *context, const bo_texts_desc *desc, bo_texts *texts)
{
    bo_encoding encoding = {.texts = texts, .desc = desc, .count = texts->lines.count * texts->lines.sides};
    texts->starts = bo_alloc(context, encoding.count + 1, sizeof *texts->starts, "the starts of texts");
    if (!texts->starts) return BO_MEMORY;
    size_t total = 0;
    for (size_t t = 0, bytes; t < encoding.count; ++t, total += bytes) text_of(texts, t, &bytes);
    bo_status status = bo_tokenizer_is_raw(desc->tokenizer) ? encode_bytes(context, &encoding, total)
                                                            : encode_rounds(context, &encoding, total);
    for (size_t i = 0; encoding.batches && i < encoding.round; ++i) bo_ids_free(&encoding.batches[i].ids);
    bo_free(encoding.batches);
    bo_encoders_free(&encoding.encoders);
    return status == BO_OK ? check_lengths(context, &encoding) : status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const bo_texts_desc *desc)
{
    if (desc->end > INT32_MAX)
        return bo_fail(context, BO_INVALID, "texts: token %zu cannot be the end of a text", desc->end - 1);
    return BO_OK;
}

static bo_status name_labels(bo_context *context, bo_texts *texts)
{
    const bo_categories *classes = &texts->lines.classes;
    if (classes->count == 0) return BO_OK;
    texts->labels = bo_alloc(context, classes->count, sizeof *texts->labels, "classes");
    if (!texts->labels) return BO_MEMORY;
    for (size_t i = 0; i < classes->count; ++i) texts->labels[i] = classes->items[i].text;
    return BO_OK;
}

static void describe(bo_texts *texts)
{
    texts->info = (bo_texts_info){.count = texts->lines.count,
                                  .sides = texts->lines.sides,
                                  .classes = texts->lines.classes.count,
                                  .labels = texts->labels,
                                  .kind = texts->kind,
                                  .truncated = texts->cut};
    for (size_t side = 0; side < texts->lines.sides; side++) {
        texts->info.longest[side] = texts->longest[side];
        texts->info.tokens[side] = texts->tokens[side];
    }
}

bo_status bo_texts_open(bo_context *context, const bo_texts_desc *desc, bo_texts **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    BO_REQUIRE(context, desc->tokenizer);
    BO_SPAN(context, "text", "tokenize texts");
    BO_TRY(check(context, desc));
    bo_texts *texts = bo_alloc(context, 1, sizeof *texts, "texts");
    if (!texts) return BO_MEMORY;
    texts->kind = desc->kind;
    bo_status status = bo_lines_open(context, desc, &texts->lines);
    if (status == BO_OK) status = name_labels(context, texts);
    if (status == BO_OK) status = encode(context, desc, texts);
    if (status == BO_OK) describe(texts);
    if (status == BO_OK)
        *out = texts;
    else
        bo_texts_close(texts);
    return status;
}

void bo_texts_close(bo_texts *texts)
{
    if (!texts) return;
    bo_lines_close(&texts->lines);
    bo_ids_free(&texts->ids);
    bo_free(texts->starts);
    bo_free(texts->labels);
    bo_free(texts);
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

static bool exists(const bo_texts *texts, size_t example, size_t side)
{
    return example < texts->lines.count && side < texts->lines.sides;
}

const bo_texts_info *bo_texts_describe(const bo_texts *texts)
{
    return texts ? &texts->info : NULL;
}

void bo_texts_get(const bo_texts *texts, size_t example, size_t side, bo_text *out)
{
    if (!out) return;
    *out = (bo_text){.label = -1};
    if (!texts || !exists(texts, example, side)) return;
    out->ids = bo_texts_ids(texts, example, side, &out->count);
    out->text = bo_texts_text(texts, example, side, &out->bytes);
    out->label = bo_texts_label(texts, example);
}

bo_texts_kind bo_texts_get_kind(const bo_texts *texts)
{
    return texts ? texts->kind : 0;
}

size_t bo_texts_count(const bo_texts *texts)
{
    return texts ? texts->lines.count : 0;
}

size_t bo_texts_sides(const bo_texts *texts)
{
    return texts ? texts->lines.sides : 0;
}

uint64_t bo_texts_tokens(const bo_texts *texts, size_t side)
{
    if (!texts) return 0;
    return side < texts->lines.sides ? texts->tokens[side] : 0;
}

size_t bo_texts_longest(const bo_texts *texts, size_t side)
{
    if (!texts) return 0;
    return side < texts->lines.sides ? texts->longest[side] : 0;
}

size_t bo_texts_truncated(const bo_texts *texts)
{
    return texts ? texts->cut : 0;
}

size_t bo_texts_classes(const bo_texts *texts)
{
    return texts ? texts->lines.classes.count : 0;
}

const char *const *bo_texts_class_names(const bo_texts *texts)
{
    return texts ? texts->labels : NULL;
}

/* FNV-1a over the kind, the classes, the labels, and the length and ids of every text. */
uint64_t bo_texts_fingerprint(const bo_texts *texts)
{
    if (!texts) return 0;
    const uint64_t prime = 1099511628211u;
    const size_t count = texts->lines.count, sides = texts->lines.sides;
    uint64_t hash = bo_rng_stream("text.texts", (uint64_t)texts->kind);
    for (size_t i = 0; i < texts->lines.classes.count; ++i)
        hash = (hash ^ bo_hash_bytes(texts->labels[i], strlen(texts->labels[i]))) * prime;
    for (size_t i = 0; i < count; ++i) hash = (hash ^ (uint32_t)texts->lines.items[i].label) * prime;
    for (size_t t = 0; t < count * sides; ++t) hash = (hash ^ texts->starts[t + 1]) * prime;
    for (size_t i = 0; i < texts->ids.count; ++i) hash = (hash ^ (uint32_t)texts->ids.items[i]) * prime;
    return hash;
}

const int32_t *bo_texts_ids(const bo_texts *texts, size_t example, size_t side, size_t *count)
{
    if (!texts || !count) return NULL;
    *count = 0;
    if (!exists(texts, example, side)) return NULL;
    const size_t t = example * texts->lines.sides + side;
    *count = texts->starts[t + 1] - texts->starts[t];
    return texts->ids.items + texts->starts[t];
}

int32_t bo_texts_label(const bo_texts *texts, size_t example)
{
    if (!texts) return -1;
    return exists(texts, example, 0) ? texts->lines.items[example].label : -1;
}

size_t bo_texts_line(const bo_texts *texts, size_t example, const char **path)
{
    if (!texts) return 0;
    if (path) *path = NULL;
    if (!exists(texts, example, 0)) return 0;
    const bo_line *line = &texts->lines.items[example];
    if (path) *path = texts->lines.paths[line->file];
    return line->number;
}

const char *bo_texts_text(const bo_texts *texts, size_t example, size_t side, size_t *bytes)
{
    if (!texts || !bytes) return NULL;
    *bytes = 0;
    if (!exists(texts, example, side)) return NULL;
    const bo_line *line = &texts->lines.items[example];
    *bytes = line->bytes[side];
    return line->text[side];
}
