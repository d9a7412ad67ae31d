/* Translations of texts: sources of about the same length together, so that they end at about the same time. */
#include "translate.h"
#include <stdlib.h>
#include "beam.h"

/* MOST_BEAM: the work of a step grows with its square, and a stop is heard between steps. */
enum { TOGETHER = 64, MORE = 50, MOST_BEAM = 1024 };

/* ---- what is wanted --------------------------------------------------------------------------------------------------- */

bo_status bo_translate_resolve(bo_context *context, const bo_model *model, const bo_texts *texts,
                               const bo_translate_desc *desc, bo_translate_desc *out)
{
    if (!model || !texts)
        return bo_fail(context, BO_INVALID, "translate: the %s NULL", model ? "texts are" : "model is");
    if (model->desc.task != BO_MODEL_TRANSLATE)
        return bo_fail(context, BO_INVALID, "translate: the model's task is %s", bo_model_task_name(model->desc.task));
    if (!model->tokenizer) return bo_fail(context, BO_INVALID, "translate: the model has no tokenizer");
    *out = desc ? *desc : (bo_translate_desc){0};
    if (!out->beam) out->beam = 1;
    if (!(out->penalty <= 100))
        return bo_fail(context, BO_INVALID, "translate: penalty should be at most 100, found %g", out->penalty);
    if (out->beam > MOST_BEAM)
        return bo_fail(context, BO_INVALID, "translate: a beam has at most %d hypotheses, found %zu", MOST_BEAM,
                       out->beam);
    out->penalty = out->beam == 1 || out->penalty < 0 ? 0 : out->penalty == 0 ? 1 : out->penalty;
    if (!out->together) out->together = out->beam < TOGETHER ? TOGETHER / out->beam : 1;
    if (out->together > BO_LANES_MOST / out->beam) out->together = BO_LANES_MOST / out->beam;
    return BO_OK;
}

int32_t bo_translate_end(const bo_model *model)
{
    bo_texts_desc wanted;
    bo_model_texts(model, true, &wanted);
    return (int32_t)wanted.end - 1;
}

bo_status bo_translate_check(bo_context *context, const bo_model *model, const bo_texts *texts, size_t example,
                             size_t side)
{
    const bo_text_view text = bo_texts_get(texts, example, side);
    const size_t vocab = model->desc.vocab, most = model->desc.context + 1;
    const char *path;
    const size_t line = bo_texts_line(texts, example, &path);
    if (!text.count || text.ids[text.count - 1] != bo_translate_end(model))
        return bo_fail(context, BO_INVALID,
                       "%s, line %zu: the text does not end as the model's do: bo_model_texts says how", path, line);
    if (text.count > most)
        return bo_fail(context, BO_INVALID, "%s, line %zu: expected at most %zu tokens, the model's context, found %zu",
                       path, line, most - 1, text.count - 1);
    for (size_t i = 0; i < text.count; i++)
        if (text.ids[i] < 0 || (size_t)text.ids[i] >= vocab)
            return bo_fail(context, BO_INVALID, "%s, line %zu: expected ids below %zu, found %ld", path, line, vocab,
                           (long)text.ids[i]);
    return BO_OK;
}

/* Tokens of the translation of a source. */
static size_t most_tokens(const bo_model *model, const bo_translate_desc *desc, size_t source)
{
    size_t wanted = desc->most ? desc->most : 2 * source + MORE, context = model->desc.context;
    return wanted < context ? wanted : context;
}

/* ---- batches ---------------------------------------------------------------------------------------------------------- */

typedef struct entry {
    size_t example; /* counted from the first that is asked for */
    bo_text_view source;
} entry;

/* One batch after the other; of equal lengths the first come first. */
typedef struct batch {
    const bo_model *model;
    const bo_translate_desc *desc;
    bo_search search;
    bo_lanes *lanes;
    entry *entries;
    bo_text_view *sources; /* `together` of each: */
    size_t *most;
    bo_ids *ids;
    double *scores;
} batch;

static int longer_first(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->source.count != y->source.count) return x->source.count > y->source.count ? -1 : 1;
    return x->example < y->example ? -1 : x->example > y->example;
}

static bo_status allocate(bo_context *context, size_t count, batch *b)
{
    size_t together = b->desc->together;
    b->entries = bo_alloc(context, count, sizeof *b->entries, "sources");
    b->sources = bo_alloc(context, together, sizeof *b->sources, "sources");
    b->most = bo_alloc(context, together, sizeof *b->most, "sources");
    b->ids = bo_alloc(context, together, sizeof *b->ids, "translations");
    b->scores = bo_alloc(context, together, sizeof *b->scores, "translations");
    return b->entries && b->sources && b->most && b->ids && b->scores ? BO_OK : BO_MEMORY;
}

static void release(batch *b)
{
    for (size_t i = 0; b->ids && i < b->desc->together; i++) bo_ids_free(&b->ids[i]);
    void *const blocks[] = {b->entries, b->sources, b->most, b->ids, b->scores};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    bo_lanes_destroy(b->lanes);
}

/* Lanes for the longest of all sources and translations. */
static bo_status make_lanes(bo_context *context, batch *b, size_t count)
{
    size_t together = count < b->desc->together ? count : b->desc->together, most = 0;
    for (size_t i = 0; i < count; i++) {
        size_t found = most_tokens(b->model, b->desc, b->entries[i].source.count);
        most = found > most ? found : most;
    }
    bo_lanes_desc lanes = {.count = together * b->desc->beam, .capacity = most, .source = b->entries[0].source.count};
    return bo_lanes_create(context, b->model, &lanes, &b->lanes);
}

static bo_status translate_some(bo_context *context, batch *b, const entry *entries, size_t count, bo_ids *ids,
                                double *scores)
{
    for (size_t i = 0; i < count; i++) {
        b->sources[i] = entries[i].source;
        b->most[i] = most_tokens(b->model, b->desc, entries[i].source.count);
    }
    BO_TRY(bo_lanes_search(context, b->lanes, b->sources, count, &b->search, b->ids, b->scores));
    for (size_t i = 0; i < count; i++) {
        ids[entries[i].example] = b->ids[i];
        b->ids[i] = (bo_ids){0};
        if (scores) scores[entries[i].example] = b->scores[i];
    }
    return BO_OK;
}

static bo_status translate_all(bo_context *context, batch *b, const bo_texts *texts, size_t first, size_t count,
                               bo_ids *ids, double *scores)
{
    for (size_t i = 0; i < count; i++) {
        BO_TRY(bo_translate_check(context, b->model, texts, first + i, 0));
        b->entries[i] = (entry){i, bo_texts_get(texts, first + i, 0)};
    }
    qsort(b->entries, count, sizeof *b->entries, longer_first);
    BO_TRY(make_lanes(context, b, count));
    for (size_t done = 0, some; done < count; done += some) {
        some = count - done < b->desc->together ? count - done : b->desc->together;
        BO_TRY(bo_progress(context, "translating", (double)done, (double)count));
        BO_TRY(translate_some(context, b, b->entries + done, some, ids, scores));
    }
    return BO_OK;
}

bo_status bo_model_translate(bo_context *context, const bo_model *model, const bo_texts *texts, size_t first,
                             size_t count, const bo_translate_desc *desc, bo_ids *ids, double *scores)
{
    bo_translate_desc resolved;
    BO_TRY(bo_translate_resolve(context, model, texts, desc, &resolved));
    if (!ids && count)
        return bo_fail(context, BO_INVALID, "translate: there is nowhere to put translations: ids is NULL");
    if (first > bo_texts_count(texts) || count > bo_texts_count(texts) - first)
        return bo_fail(context, BO_INVALID, "translate: texts %zu to %zu of %zu", first, first + count,
                       bo_texts_count(texts));
    if (!count) return BO_OK;
    batch b = {.model = model, .desc = &resolved};
    bo_status status = allocate(context, count, &b);
    b.search =
        (bo_search){.beam = resolved.beam, .penalty = resolved.penalty, .end = bo_translate_end(model), .most = b.most};
    if (status == BO_OK) status = translate_all(context, &b, texts, first, count, ids, scores);
    for (size_t i = 0; status != BO_OK && i < count; i++) bo_ids_free(&ids[i]);
    release(&b);
    return status;
}
