/* How well a model translates: the loss of the targets as they stand, pack by pack, and BLEU of what it says itself. */
#include <bochner/data.h>
#include <math.h>
#include "lanes.h"
#include "translate.h"

enum { ROWS = 1024, EXAMPLES = 64, SOME = 1024 }; /* of a pack; examples decoded at a time */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- loss --------------------------------------------------------------------------------------------------------------- */

typedef struct scoring {
    const bo_model *model;
    const bo_texts *texts;
    uint64_t most; /* examples, the first ones */
    bo_packs *packs;
    bo_text_pack *packed;
    bo_model_graph graph;
    float *losses;
    double nats;
    uint64_t tokens;
} scoring;

static bo_status open_scoring(bo_context *context, scoring *s)
{
    size_t rows[2] = {larger(ROWS, bo_texts_longest(s->texts, 0)), larger(ROWS, bo_texts_longest(s->texts, 1))};
    bo_packs_desc packs = {
        .texts = s->texts, .rows = {rows[0], rows[1]}, .most = EXAMPLES, .batch = 1, .in_order = true};
    BO_TRY(bo_packs_create(context, &packs, &s->packs));
    BO_TRY(bo_text_pack_create(context, s->texts, rows, EXAMPLES, bo_translate_end(s->model), &s->packed));
    s->losses = bo_alloc(context, rows[1], sizeof *s->losses, "losses");
    if (!s->losses) return BO_MEMORY;
    bo_model_graph_desc desc = {
        .rows = rows[1], .source_rows = rows[0], .most_sequences = s->packed->most_sequences, .loss = true};
    BO_TRY(bo_model_graph_create(context, s->model, &desc, &s->graph));
    return bo_graph_allocate(context, s->graph.graph);
}

static void close_scoring(scoring *s)
{
    bo_packs_destroy(s->packs);
    bo_text_pack_destroy(s->packed);
    bo_model_graph_destroy(&s->graph);
    bo_free(s->losses);
}

/* Packs are laid in order, but an example may overtake another into an earlier pack: those past the last are left out. */
static bo_status score_pack(bo_context *context, scoring *s, size_t *examples, size_t count)
{
    bo_pass pass = {0};
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++)
        if (examples[i] < s->most) examples[wanted++] = examples[i];
    if (!wanted) return BO_OK;
    BO_TRY(bo_text_pack_fill(context, s->packed, s->texts, examples, wanted));
    BO_TRY(bo_model_graph_fill(context, s->model, &s->graph, s->packed, &pass));
    BO_TRY(bo_graph_run(context, s->graph.graph, &pass));
    BO_TRY(bo_graph_read(context, s->graph.graph, s->graph.losses, s->losses));
    for (size_t i = 0; i < s->packed->stream.rows; i++) {
        if (s->packed->targets[i] < 0) continue;
        s->nats += (double)s->losses[i];
        s->tokens++;
    }
    return BO_OK;
}

static bo_status score_packs(bo_context *context, scoring *s)
{
    size_t examples[EXAMPLES], count;
    for (size_t i = 0, packs = bo_packs_of_epoch(s->packs); i < packs; i++) {
        BO_TRY(bo_progress(context, "evaluating", (double)i, (double)packs));
        BO_TRY(bo_packs_get(context, s->packs, i, 0, examples, &count));
        BO_TRY(score_pack(context, s, examples, count));
    }
    return BO_OK;
}

static bo_status score(bo_context *context, const bo_model *model, const bo_texts *texts, bo_translation *out)
{
    scoring s = {.model = model, .texts = texts, .most = out->examples};
    bo_status status = open_scoring(context, &s);
    if (status == BO_OK) status = score_packs(context, &s);
    close_scoring(&s);
    out->tokens = s.tokens;
    out->loss = s.tokens ? s.nats / (double)s.tokens : 0;
    out->perplexity = exp(out->loss);
    return status;
}

/* ---- BLEU --------------------------------------------------------------------------------------------------------------- */

static bo_status compare(bo_context *context, const bo_model *model, const bo_texts *texts, size_t example,
                         const bo_ids *ids, bool tokenize, bo_bleu_counts *counts)
{
    char *words;
    size_t bytes, reference_bytes;
    const char *reference = bo_texts_words(texts, example, 1, &reference_bytes);
    BO_TRY(bo_tokenizer_decode(context, model->tokenizer, ids->items, ids->count, &words, &bytes));
    bo_status status = bo_bleu_add(context, counts, words, bytes, reference, reference_bytes, tokenize);
    bo_text_free(words);
    return status;
}

static bo_status decode_some(bo_context *context, const bo_model *model, const bo_texts *texts, size_t first,
                             size_t count, const bo_translate_desc *desc, bool tokenize, bo_bleu_counts *counts)
{
    bo_ids *ids = bo_alloc(context, count, sizeof *ids, "translations");
    if (!ids) return BO_MEMORY;
    bo_status status = bo_model_translate(context, model, texts, first, count, desc, ids, NULL);
    for (size_t i = 0; status == BO_OK && i < count; i++)
        status = compare(context, model, texts, first + i, &ids[i], tokenize, counts);
    for (size_t i = 0; i < count; i++) bo_ids_free(&ids[i]);
    bo_free(ids);
    return status;
}

static bo_status decode(bo_context *context, const bo_model *model, const bo_texts *texts,
                        const bo_translate_desc *desc, bool tokenize, bo_translation *out)
{
    bo_bleu_counts counts = {0};
    double start = bo_seconds();
    for (size_t done = 0, some; done < out->examples; done += some) {
        some = out->examples - done < SOME ? (size_t)out->examples - done : SOME;
        BO_TRY(decode_some(context, model, texts, done, some, desc, tokenize, &counts));
    }
    out->seconds = bo_seconds() - start;
    out->bleu = bo_bleu_of(&counts);
    return BO_OK;
}

/* ---- both --------------------------------------------------------------------------------------------------------------- */

bo_status bo_model_evaluate_translation(bo_context *context, const bo_model *model, const bo_texts *texts,
                                        uint64_t most, const bo_translate_desc *desc, bool tokenize, bool decode_too,
                                        bo_translation *out)
{
    bo_translate_desc resolved;
    if (!out) return bo_fail(context, BO_INVALID, "translate: there is nowhere to put the result: out is NULL");
    *out = (bo_translation){0};
    BO_TRY(bo_translate_resolve(context, model, texts, desc, &resolved));
    if (bo_texts_kind_of(texts) != BO_TEXTS_PAIR)
        return bo_fail(context, BO_INVALID, "translate: expected sources with their targets, found texts alone");
    uint64_t count = bo_texts_count(texts);
    out->examples = most && most < count ? most : count;
    for (size_t i = 0; i < 2 * out->examples; i++) BO_TRY(bo_translate_check(context, model, texts, i / 2, i % 2));
    BO_TRY(bo_lanes_measure(context, model, resolved.beam, &out->state_bytes));
    BO_TRY(score(context, model, texts, out));
    return decode_too ? decode(context, model, texts, desc, tokenize, out) : BO_OK;
}
