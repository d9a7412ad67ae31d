/* Evaluation of models: loss over the windows of a corpus, and translations against references. */
#include "../text/facts.h"
#include "../text/packs.h"
#include <bochner/data.h>
#include <math.h>
#include "../base/trace.h"
#include "internal.h"
#include "lanes.h"
#include "../text/tokenizer.h"
#include "translate.h"

/* ====================================================================================================================
 * Evaluation over the windows of a corpus. Short windows are batched. Long windows are read in pieces with a state. */

/* Tokens per graph of whole windows, and per piece of a longer window. A GPU needs more of them to be busy. */
enum { ROWS = 2048, PIECE = 512, DEVICE_ROWS = 32768, DEVICE_PIECE = 4096 };

typedef struct evaluator {
    const bo_model *model;
    const bo_corpus *corpus;
    size_t window;          /* tokens per window */
    size_t rows, piece;     /* tokens per graph of whole windows, and per piece of a longer window */
    uint64_t scored;        /* number of tokens to score: 1 … scored of the corpus */
    double nats, bytes;     /* totals so far */
    int32_t *ids, *targets; /* of one run; targets are shifted by one token */
    int32_t *positions;
    float *losses;
} evaluator;

static double bytes_of(const evaluator *e, int32_t id)
{
    const bo_tokenizer *tokenizer = e->model->tokenizer;
    size_t bytes = 1;
    if (bo_tokenizer_frames(tokenizer, id)) return 0;
    bo_tokenizer_piece(tokenizer, id, &bytes);
    return (double)bytes;
}

static void add_losses(evaluator *e, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (e->targets[i] < 0) continue;
        e->nats += (double)e->losses[i];
        e->bytes += bytes_of(e, e->targets[i]);
    }
}

static bo_status note_progress(bo_context *context, const evaluator *e, uint64_t done)
{
    return bo_progress(context, "evaluating", (double)done, (double)e->scored);
}

/* ---- short windows: several per run ------------------------------------------------------------------------------ */

/* Fills the inputs, starting at token `first`. Targets after the last token to score are ignored. */
static bo_status fill(bo_context *context, evaluator *e, uint64_t first, size_t rows)
{
    uint64_t left = e->scored - first;
    size_t count = left < rows ? (size_t)left : rows;
    BO_TRY(bo_corpus_read(context, e->corpus, first, count, e->ids));
    BO_TRY(bo_corpus_read(context, e->corpus, first + 1, count, e->targets));
    for (size_t i = count; i < rows; i++) {
        e->ids[i] = 0;
        e->targets[i] = -1;
    }
    for (size_t i = 0; i < rows; i++) e->positions[i] = (int32_t)(i % e->window);
    return BO_OK;
}

static bo_status run_windows(bo_context *context, evaluator *e, bo_model_graph *g, size_t rows)
{
    const bo_text_pack pack = {.stream = {.rows = rows, .tokens = e->ids, .positions = e->positions},
                               .labels = e->targets};
    BO_TRY(bo_graph_allocate(context, g->graph));
    for (uint64_t first = 0; first < e->scored; first += rows) {
        BO_TRY(note_progress(context, e, first));
        BO_TRY(fill(context, e, first, rows));
        BO_TRY(bo_model_graph_compute(context, e->model, g, &(bo_model_batch){.packed = &pack}, g->losses, e->losses));
        add_losses(e, rows);
    }
    return BO_OK;
}

static bo_status evaluate_windows(bo_context *context, evaluator *e, size_t rows)
{
    bo_model_graph graph;
    bo_model_graph_desc desc = {.rows = rows, .tokens = e->window, .loss = true};
    BO_TRY(bo_model_graph_create(context, e->model, &desc, &graph));
    bo_status status = run_windows(context, e, &graph, rows);
    bo_model_graph_destroy(&graph);
    return status;
}

/* ---- long windows: one at a time, in pieces ---------------------------------------------------------------------- */

static bo_status run_pieces(bo_context *context, evaluator *e, bo_session *session)
{
    for (uint64_t at = 0; at < e->scored;) {
        uint64_t left = e->scored - at, in_window = e->window - at % e->window;
        size_t count = e->piece;
        if (count > left) count = (size_t)left;
        if (count > in_window) count = (size_t)in_window;
        if (at % e->window == 0) BO_TRY(bo_session_reset(context, session));
        BO_TRY(note_progress(context, e, at));
        BO_TRY(bo_corpus_read(context, e->corpus, at, count, e->ids));
        BO_TRY(bo_corpus_read(context, e->corpus, at + 1, count, e->targets));
        BO_TRY(bo_session_read(
            context, session,
            &(bo_session_reading){.ids = e->ids, .count = count, .losses = e->losses, .targets = e->targets}));
        add_losses(e, count);
        at += count;
    }
    return BO_OK;
}

/* Returns the capacity of the KV cache: one window, or all tokens. */
static size_t max_kept(const evaluator *e)
{
    return e->window < e->scored ? e->window : (size_t)e->scored;
}

static bo_status evaluate_pieces(bo_context *context, evaluator *e)
{
    bo_session *session;
    bo_session_desc desc = {.chunk = e->piece, .capacity = max_kept(e)};
    BO_TRY(bo_session_create(context, e->model, &desc, &session));
    bo_status status = run_pieces(context, e, session);
    bo_session_destroy(session);
    return status;
}

/* ---- entry point ------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const evaluator *e)
{
    const bo_model *model = e->model;
    BO_TRY(bo_model_require_language(context, model, "evaluation"));
    if (!model->tokenizer) return bo_fail(context, BO_INVALID, "evaluation: the model has no tokenizer");
    if (bo_corpus_tokens(e->corpus) < 2)
        return bo_fail(context, BO_INVALID, "evaluation: the corpus has %llu tokens, expected at least 2",
                       (unsigned long long)bo_corpus_tokens(e->corpus));
    if (bo_model_max_tokens(&model->desc) && e->window > bo_model_max_tokens(&model->desc))
        return bo_fail(context, BO_INVALID, "evaluation: windows of %zu tokens, but the model has only %zu positions",
                       e->window, model->desc.context);
    return BO_OK;
}

static bo_status evaluate(bo_context *context, evaluator *e)
{
    const bool device = bo_device_is_gpu(bo_weights_device(e->model->weights));
    e->rows = device ? DEVICE_ROWS : ROWS;
    e->piece = device ? DEVICE_PIECE : PIECE;
    bool pieces = e->window > e->rows;
    size_t rows = pieces ? e->piece : e->rows / e->window * e->window;
    uint64_t needed = (e->scored + e->window - 1) / e->window * e->window;
    if (!pieces && rows > needed) rows = (size_t)needed;
    int32_t *numbers = bo_alloc(context, rows, 3 * sizeof *numbers, "tokens to evaluate");
    e->losses = bo_alloc(context, rows, sizeof *e->losses, "losses");
    bo_status status = numbers && e->losses ? BO_OK : BO_MEMORY;
    e->ids = numbers;
    e->targets = numbers ? numbers + rows : NULL;
    e->positions = numbers ? numbers + 2 * rows : NULL;
    if (status == BO_OK) status = pieces ? evaluate_pieces(context, e) : evaluate_windows(context, e, rows);
    bo_free(numbers);
    bo_free(e->losses);
    return status;
}

bo_status bo_model_evaluate(bo_context *context, const bo_model *model, const bo_corpus *corpus, size_t context_tokens,
                            uint64_t max_tokens, bo_evaluation *out)
{
    BO_REQUIRE(context, model, corpus, out);
    BO_SPAN(context, "model", "evaluate model");
    evaluator e = {.model = model, .corpus = corpus};
    double begin = bo_seconds();
    if (model) e.window = context_tokens ? context_tokens : model->desc.context;
    BO_TRY(check(context, &e));
    e.scored = bo_corpus_tokens(corpus) - 1;
    if (max_tokens && e.scored > max_tokens) e.scored = max_tokens;
    BO_TRY(evaluate(context, &e));
    double seconds = bo_seconds() - begin, loss = e.nats / (double)e.scored;
    *out = (bo_evaluation){.loss = loss,
                           .bits_per_byte = e.bytes > 0 ? e.nats / (e.bytes * log(2)) : NAN,
                           .perplexity = exp(loss),
                           .tokens = e.scored,
                           .seconds = seconds,
                           .tokens_per_second = (double)e.scored / seconds};
    return bo_session_estimate(context, model, &(bo_session_desc){.capacity = max_kept(&e)}, &out->state_bytes, NULL);
}

/* ====================================================================================================================
 * Evaluation of translations: the loss of the reference targets, pack by pack, and BLEU of the model's translations. */

enum { PACK_ROWS = 1024, EXAMPLES = 64, SOME = 1024 }; /* rows per pack; examples decoded at a time */

/* ---- loss -------------------------------------------------------------------------------------------------------- */

typedef struct scoring {
    const bo_model *model;
    const bo_texts *texts;
    uint64_t max_examples; /* number of examples to score, from the first */
    bo_packs *packs;
    bo_text_pack *packed;
    bo_model_graph graph;
    float *losses;
    double nats;
    uint64_t tokens;
} scoring;

static bo_status open_scoring(bo_context *context, scoring *s)
{
    size_t rows[2] = {bo_max(PACK_ROWS, bo_texts_longest(s->texts, 0)),
                      bo_max(PACK_ROWS, bo_texts_longest(s->texts, 1))};
    bo_packs_desc packs = {.texts = s->texts,
                           .rows = rows[0],
                           .target_rows = rows[1],
                           .max_examples = EXAMPLES,
                           .batch = 1,
                           .in_order = true};
    BO_TRY(bo_packs_create(context, &packs, &s->packs));
    BO_TRY(bo_text_pack_create(context, s->texts, rows, EXAMPLES, bo_translate_end(s->model), &s->packed));
    s->losses = bo_alloc(context, rows[1], sizeof *s->losses, "losses");
    if (!s->losses) return BO_MEMORY;
    bo_model_graph_desc desc = {
        .rows = rows[1], .source_rows = rows[0], .max_sequences = s->packed->max_sequences, .loss = true};
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

/* Scores a pack. An example may be moved into an earlier pack, so examples past the last one to score are skipped. */
static bo_status score_pack(bo_context *context, scoring *s, size_t *examples, size_t count)
{
    size_t scored = 0;
    for (size_t i = 0; i < count; i++)
        if (examples[i] < s->max_examples) examples[scored++] = examples[i];
    if (!scored) return BO_OK;
    BO_TRY(bo_text_pack_fill(context, s->packed, s->texts, examples, scored));
    BO_TRY(bo_model_graph_compute(context, s->model, &s->graph, &(bo_model_batch){.packed = s->packed}, s->graph.losses,
                                  s->losses));
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
    for (size_t i = 0, packs = bo_packs_per_epoch(s->packs); i < packs; i++) {
        BO_TRY(bo_progress(context, "evaluating", (double)i, (double)packs));
        BO_TRY(bo_packs_get(context, s->packs, i, 0, examples, &count));
        BO_TRY(score_pack(context, s, examples, count));
    }
    return BO_OK;
}

static bo_status score(bo_context *context, const bo_model *model, const bo_texts *texts, bo_translation *out)
{
    scoring s = {.model = model, .texts = texts, .max_examples = out->examples};
    bo_status status = open_scoring(context, &s);
    if (status == BO_OK) status = score_packs(context, &s);
    close_scoring(&s);
    out->tokens = s.tokens;
    out->loss = s.tokens ? s.nats / (double)s.tokens : 0;
    out->perplexity = exp(out->loss);
    return status;
}

/* ---- BLEU -------------------------------------------------------------------------------------------------------- */

static bo_status compare(bo_context *context, const bo_model *model, const bo_texts *texts, size_t example,
                         const bo_ids *ids, bool tokenize, bo_bleu_counts *counts)
{
    char *text;
    size_t bytes, reference_bytes;
    const char *reference = bo_texts_text(texts, example, 1, &reference_bytes);
    BO_TRY(bo_tokenizer_decode(context, model->tokenizer, ids->items, ids->count, &text, &bytes));
    bo_status status = bo_bleu_add(context, counts, text, bytes, reference, reference_bytes, tokenize);
    bo_free(text);
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
    bo_bleu_score(&counts, &out->bleu);
    return BO_OK;
}

/* ---- loss and BLEU ----------------------------------------------------------------------------------------------- */

bo_status bo_model_evaluate_translation(bo_context *context, const bo_model *model, const bo_texts *texts,
                                        uint64_t max_examples, const bo_translate_desc *desc, bool tokenize,
                                        bool decode_too, bo_translation *out)
{
    BO_REQUIRE(context, model, texts, out);
    bo_translate_desc resolved;
    *out = (bo_translation){0};
    BO_TRY(bo_translate_resolve(context, model, desc, &resolved));
    if (bo_texts_get_kind(texts) != BO_TEXTS_PAIR)
        return bo_fail(context, BO_INVALID, "translate: expected sources with targets, found texts without targets");
    uint64_t count = bo_texts_count(texts);
    out->examples = max_examples && max_examples < count ? max_examples : count;
    for (size_t i = 0; i < 2 * out->examples; i++) BO_TRY(bo_translate_check(context, model, texts, i / 2, i % 2));
    BO_TRY(bo_lanes_measure(context, model, &(bo_lanes_desc){.count = resolved.beam}, &out->state_bytes));
    BO_TRY(score(context, model, texts, out));
    return decode_too ? decode(context, model, texts, desc, tokenize, out) : BO_OK;
}
