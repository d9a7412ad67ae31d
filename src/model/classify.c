/* Classification of texts of any length. */
#include "../text/facts.h"
#include "../text/packs.h"
#include <bochner/tasks.h>
#include <math.h>
#include <string.h>
#include "../math/metrics.h"
#include "enums.h"
#include "../base/trace.h"
#include "../base/carver.h"
#include "internal.h"
#include "lanes.h"

/* ====================================================================================================================
 * Reading a text of any length in pieces, in constant memory: layers continue from their states, and the pooled
 * vector is accumulated over the pieces. */

enum { PIECE_ROWS = BO_SIZE(1024, 8) }; /* rows per piece */

/* A graph over a fixed number of rows that reads one piece of the text at a time. If the last piece is shorter, the
 * remaining rows are padding whose output is ignored. The text and the padding are two lanes. */
typedef struct piece_reader {
    const bo_model *model;
    bo_lanes *lanes;
    bo_model_graph *graph;       /* that of the lanes */
    int32_t *tokens, *positions; /* of one piece */
    float *pooled;               /* pooled vector of one piece */
    double *sums;                /* pooled vector of the text so far */
} piece_reader;

/* True if texts can be read in pieces: every layer must be causal and have a state of fixed size. */
static bool pieces_fit(const bo_model *model)
{
    return model->desc.forward && !bo_model_keeper(model);
}

size_t bo_model_state_bytes(const bo_model *model)
{
    size_t bytes = 0;
    if (!model || model->network || !pieces_fit(model)) return 0;
    for (size_t i = 0; i < model->desc.layers; i++) bytes += bo_layer_state_room(&model->desc, i, model->attentions[i]);
    return bytes;
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

static bo_status allocate(bo_context *context, piece_reader *p)
{
    static const char what[] = "a text read in pieces";
    const bo_model_desc *d = &p->model->desc;
    p->tokens = bo_alloc(context, PIECE_ROWS, sizeof *p->tokens, what);
    p->positions = bo_alloc(context, PIECE_ROWS, sizeof *p->positions, what);
    p->pooled = bo_alloc(context, d->width, sizeof *p->pooled, what);
    p->sums = bo_alloc(context, d->width, sizeof *p->sums, what);
    if (!p->tokens || !p->positions || !p->pooled || !p->sums) return BO_MEMORY;
    BO_TRY(bo_lanes_make(context, p->model, &(bo_lanes_desc){.count = 2}, 0, false, &p->lanes));
    for (size_t i = 0; i < 2; i++) BO_TRY(bo_lanes_reserve(context, p->lanes, i));
    return bo_lanes_graph_for(context, p->lanes, BO_LANES_POOLED, 2, PIECE_ROWS, &p->graph);
}

static void pieces_destroy(piece_reader *p)
{
    if (!p) return;
    bo_lanes_destroy(p->lanes);
    bo_free(p->tokens);
    bo_free(p->positions);
    bo_free(p->pooled);
    bo_free(p->sums);
    bo_free(p);
}

static bo_status pieces_create(bo_context *context, const bo_model *model, piece_reader **out)
{
    piece_reader *pieces = bo_alloc(context, 1, sizeof *pieces, "a text read in pieces");
    if (!pieces) return BO_MEMORY;
    pieces->model = model;
    bo_status status = allocate(context, pieces);
    if (status == BO_OK)
        *out = pieces;
    else
        pieces_destroy(pieces);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bo_status begin(bo_context *context, piece_reader *p)
{
    const bo_model_desc *d = &p->model->desc;
    for (size_t i = 0; i < d->width; i++) p->sums[i] = d->pooling == BO_POOLING_MAX ? -INFINITY : 0;
    return bo_lanes_reset(context, p->lanes);
}

/* Selects the rows to pool: all rows of the piece, or the last one. */
static bo_status write_pooling(bo_context *context, const piece_reader *p, size_t count, int32_t *scratch)
{
    const bo_model_graph *g = p->graph;
    const int32_t first[2] = {0, (int32_t)count}, last = (int32_t)count - 1;
    if (!g->first) return bo_graph_write(context, g->graph, g->places, &last);
    for (size_t i = 0; i < PIECE_ROWS; i++) scratch[i] = (int32_t)i;
    BO_TRY(bo_graph_write(context, g->graph, g->first, first));
    return bo_graph_write(context, g->graph, g->places, scratch);
}

static bo_status run(bo_context *context, piece_reader *p, const int32_t *ids, size_t done, size_t count)
{
    const size_t lengths[2] = {count, PIECE_ROWS - count};
    const bo_model_graph *g = p->graph;
    const bo_graph_pass pass = {.sequences = 2, .lengths = lengths, .states = bo_lanes_table(p->lanes, 0, 2)};
    BO_TRY(write_pooling(context, p, count, p->positions));
    memcpy(p->tokens, ids, count * sizeof *ids);
    memset(p->tokens + count, 0, (PIECE_ROWS - count) * sizeof *ids);
    for (size_t i = 0; i < PIECE_ROWS; i++) p->positions[i] = i < count ? (int32_t)(done + i) : 0;
    BO_TRY(bo_graph_write(context, g->graph, g->tokens, p->tokens));
    if (g->positions) BO_TRY(bo_graph_write(context, g->graph, g->positions, p->positions));
    BO_TRY(bo_graph_run(context, g->graph, &pass));
    return bo_graph_read(context, g->graph, g->summary, p->pooled);
}

/* Adds the pooled vector of a piece to that of the text. */
static void carry(piece_reader *p, size_t count, size_t all)
{
    const bo_model_desc *d = &p->model->desc;
    for (size_t i = 0; i < d->width; i++) {
        const double now = (double)p->pooled[i];
        if (d->pooling == BO_POOLING_MEAN)
            p->sums[i] += now * (double)count / (double)all;
        else if (d->pooling == BO_POOLING_LAST || now > p->sums[i])
            p->sums[i] = now;
    }
}

/* Computes the pooled vector (width) of a text. */
static bo_status pieces_read(bo_context *context, piece_reader *p, bo_text_view text, float *pooled)
{
    BO_TRY(begin(context, p));
    for (size_t done = 0; done < text.count;) {
        const size_t left = text.count - done, count = left < PIECE_ROWS ? left : PIECE_ROWS;
        BO_TRY(run(context, p, text.ids + done, done, count));
        carry(p, count, text.count);
        done += count;
    }
    for (size_t i = 0; i < p->model->desc.width; i++) pooled[i] = text.count ? (float)p->sums[i] : 0;
    return BO_OK;
}

/* ====================================================================================================================
 * Classification: short texts in packs, long texts alone or in pieces. */

enum {
    ROWS = 4096,
    LEAST_ROWS = 64,
    LEAST_TOKENS = 16,
    BLOCK = 1024
}; /* tokens per pack; assumed minimum of the average tokens per example; examples per block */

/* A graph over packs of one size. */
typedef struct packer {
    size_t rows, most; /* maximum tokens and examples; rows 0: not created yet */
    bo_model_graph graph;
    bo_text_pack *pack;
} packer;

/* Computes the logits of the examples of one set of texts. Long examples do not fit into packs of the usual size. */
typedef struct labeler {
    const bo_model *model;
    const bo_texts *texts;
    packer usual, whole;
    piece_reader *pieces; /* reader of long texts, if they are read in pieces */
    bo_model_graph head;  /* classification head for their pooled vectors */
    size_t *chosen;       /* examples of the next pack */
    float *logits;        /* logits of one pack */
    float *pooled;        /* pooled vectors of the texts of one example */
    size_t done, all;     /* number of examples */
} labeler;

/* ---- selection of texts ------------------------------------------------------------------------------------------ */

void bo_model_preset_texts(const bo_model *model, bool alone, bo_texts_desc *desc)
{
    if (!model || !desc) return;
    const bo_model_desc *d = &model->desc;
    const bool pairs = d->task == BO_MODEL_TASK_MATCH, translates = d->task == BO_MODEL_TASK_TRANSLATE;
    const int32_t end = model->tokenizer ? bo_tokenizer_end(model->tokenizer) : -1;
    desc->tokenizer = model->tokenizer;
    desc->labels = d->labels;
    desc->classes = d->classes;
    desc->kind = pairs ? BO_TEXTS_LABELED_PAIR : translates ? BO_TEXTS_PAIR : BO_TEXTS_LABELED;
    if (alone) desc->kind = pairs ? BO_TEXTS_ALONE_PAIR : BO_TEXTS_ALONE;
    desc->longest = translates ? d->context : bo_model_most_tokens(d);
    desc->end = 0;
    if (translates && model->tokenizer) desc->end = (end >= 0 ? (size_t)end : bo_tokenizer_vocab(model->tokenizer)) + 1;
}

static bo_status check(bo_context *context, const bo_model *model, const bo_texts *texts)
{
    const bo_model_desc *d = &model->desc;
    if (!d->labels)
        return bo_fail(context, BO_INVALID,
                       "labels: a model with the task %s has no labels; expected the task classify or match",
                       bo_model_task_name(d->task));
    if (bo_texts_get_kind(texts) == BO_TEXTS_PAIR ||
        bo_texts_sides(texts) != (d->task == BO_MODEL_TASK_MATCH ? 2u : 1u))
        return bo_fail(context, BO_INVALID, "labels: a model with the task %s takes %s (see bo_model_preset_texts)",
                       bo_model_task_name(d->task), d->task == BO_MODEL_TASK_MATCH ? "pairs of texts" : "single texts");
    return BO_OK;
}

static size_t tokens_of(const bo_texts *texts, size_t example)
{
    size_t tokens = 0;
    for (size_t side = 0; side < bo_texts_sides(texts); side++) tokens += bo_text_at(texts, example, side).count;
    return tokens;
}

/* Checks that token ids and positions are within the tables of the model: texts may come from another tokenizer. */
static bo_status check_example(bo_context *context, const labeler *l, size_t example)
{
    const size_t most = bo_model_most_tokens(&l->model->desc), vocab = l->model->desc.vocab;
    for (size_t side = 0; side < bo_texts_sides(l->texts); side++) {
        const bo_text_view text = bo_text_at(l->texts, example, side);
        const char *path;
        const size_t line = bo_texts_line(l->texts, example, &path);
        if (!text.count) return bo_fail(context, BO_INVALID, "%s, line %zu: the text is empty", path, line);
        if (most && text.count > most)
            return bo_fail(context, BO_INVALID,
                           "%s, line %zu: the text has %zu tokens, but the model has only %zu positions", path, line,
                           text.count, most);
        for (size_t i = 0; i < text.count; i++)
            if (text.ids[i] < 0 || (size_t)text.ids[i] >= vocab)
                return bo_fail(context, BO_INVALID, "%s, line %zu: token %zu should be an id below %zu, found %ld",
                               path, line, i, vocab, (long)text.ids[i]);
    }
    return BO_OK;
}

/* ---- packs ------------------------------------------------------------------------------------------------------- */

static void packer_free(packer *p)
{
    bo_model_graph_destroy(&p->graph);
    bo_text_pack_destroy(p->pack);
    *p = (packer){0};
}

static bo_status packer_make(bo_context *context, const labeler *l, size_t rows, size_t most, packer *out)
{
    packer_free(out);
    BO_TRY(bo_text_pack_create(context, l->texts, (size_t[2]){rows, 0}, most, 0, &out->pack));
    bo_model_graph_desc desc = {
        .rows = rows, .most_sequences = out->pack->max_sequences, .examples = most, .outputs = true};
    BO_TRY(bo_model_graph_create(context, l->model, &desc, &out->graph));
    BO_TRY(bo_graph_allocate(context, out->graph.graph));
    out->rows = rows;
    out->most = most;
    return BO_OK;
}

/* Computes the logits of examples l->chosen[0 … count - 1]. */
static bo_status run_pack(bo_context *context, labeler *l, packer *p, size_t count, float *out)
{
    const bo_model_batch batch = {.packed = p->pack};
    BO_TRY(bo_text_pack_fill(context, p->pack, l->texts, l->chosen, count));
    BO_TRY(bo_model_graph_compute(context, l->model, &p->graph, &batch, p->graph.outputs, l->logits));
    memcpy(out, l->logits, count * l->model->desc.classes * sizeof *out);
    return BO_OK;
}

/* ---- long examples ----------------------------------------------------------------------------------------------- */

/* Reads an example in a graph of about its size. An existing graph is reused if it is at most a quarter too long. */
static bo_status read_whole(bo_context *context, labeler *l, size_t example, float *out)
{
    const size_t tokens = tokens_of(l->texts, example), step = tokens / 8 + 1;
    if (l->whole.rows < tokens || l->whole.rows - tokens > tokens / 4)
        BO_TRY(packer_make(context, l, (tokens + step - 1) / step * step, 1, &l->whole));
    l->chosen[0] = example;
    return run_pack(context, l, &l->whole, 1, out);
}

static bo_status make_pieces(bo_context *context, labeler *l)
{
    bo_model_graph_desc desc = {.rows = 1, .examples = 1, .outputs = true, .half = BO_HALF_TARGET};
    if (l->pieces) return BO_OK;
    if (!l->head.graph) BO_TRY(bo_model_graph_create(context, l->model, &desc, &l->head));
    BO_TRY(bo_graph_allocate(context, l->head.graph));
    return pieces_create(context, l->model, &l->pieces);
}

static bo_status read_in_pieces(bo_context *context, labeler *l, size_t example, float *out)
{
    const size_t width = l->model->desc.width;
    BO_TRY(make_pieces(context, l));
    for (size_t side = 0; side < bo_texts_sides(l->texts); side++)
        BO_TRY(pieces_read(context, l->pieces, bo_text_at(l->texts, example, side), l->pooled + side * width));
    BO_TRY(bo_graph_write(context, l->head.graph, l->head.summary, l->pooled));
    BO_TRY(bo_graph_write_sides(context, &l->head, 1));
    BO_TRY(bo_graph_run(context, l->head.graph, NULL));
    return bo_graph_read(context, l->head.graph, l->head.outputs, out);
}

/* ---- all examples ------------------------------------------------------------------------------------------------ */

static void labeler_free(labeler *l)
{
    packer_free(&l->usual);
    packer_free(&l->whole);
    pieces_destroy(l->pieces);
    bo_model_graph_destroy(&l->head);
    bo_free(l->chosen);
    bo_free(l->logits);
    bo_free(l->pooled);
}

/* Makes a labeler with packs for `count` examples, starting at `first`, no larger than needed. */
static bo_status labeler_make(bo_context *context, labeler *l, size_t first, size_t count)
{
    static const char what[] = "labels of texts";
    const bo_model_desc *d = &l->model->desc;
    size_t tokens = 0, rows = LEAST_ROWS;
    for (size_t i = 0; i < count && tokens < ROWS; i++) tokens += tokens_of(l->texts, first + i);
    while (rows < tokens && rows < ROWS) rows *= 2;
    const size_t most = bo_min(count, rows / LEAST_TOKENS);
    l->chosen = bo_alloc(context, most, sizeof *l->chosen, what);
    l->logits = bo_alloc(context, most * d->classes, sizeof *l->logits, what);
    l->pooled = bo_alloc(context, 2 * d->width, sizeof *l->pooled, what);
    if (!l->chosen || !l->logits || !l->pooled) return BO_MEMORY;
    return packer_make(context, l, rows, most, &l->usual);
}

/* Returns how many of `count` examples fit into the next pack; 0: the first does not fit. */
static size_t choose(const labeler *l, size_t first, size_t count)
{
    size_t open = 0, filled = 0;
    while (open < count && open < l->usual.most) {
        filled += tokens_of(l->texts, first + open);
        if (filled > l->usual.rows) break;
        l->chosen[open] = first + open;
        open++;
    }
    return open;
}

/* Computes the logits of examples in the order of the texts. */
static bo_status label_some(bo_context *context, labeler *l, size_t first, size_t count, float *logits)
{
    const size_t classes = l->model->desc.classes;
    for (size_t i = 0; i < count; i++) BO_TRY(check_example(context, l, first + i));
    for (size_t i = 0; i < count;) {
        const size_t together = choose(l, first + i, count - i);
        float *out = logits + i * classes;
        BO_TRY(bo_progress(context, "labeling", (double)l->done, (double)l->all));
        if (together)
            BO_TRY(run_pack(context, l, &l->usual, together, out));
        else
            BO_TRY((pieces_fit(l->model) ? read_in_pieces : read_whole)(context, l, first + i, out));
        i += together ? together : 1;
        l->done += together ? together : 1;
    }
    return BO_OK;
}

static double log_sum(size_t classes, const float *logits)
{
    double top = (double)logits[0], sum = 0;
    for (size_t i = 1; i < classes; i++) top = fmax(top, (double)logits[i]);
    for (size_t i = 0; i < classes; i++) sum += exp((double)logits[i] - top);
    return top + log(sum);
}

bo_status bo_model_classify(bo_context *context, const bo_model *model, const bo_texts *texts, size_t first,
                            size_t count, float *probabilities)
{
    BO_REQUIRE(context, model, texts);
    BO_REQUIRE_IF(context, count > 0, probabilities);
    BO_SPAN(context, "model", "classify texts");
    BO_TRY(check(context, model, texts));
    if (first > bo_texts_count(texts) || count > bo_texts_count(texts) - first)
        return bo_fail(context, BO_INVALID, "labels: examples %zu to %zu are out of range: there are %zu", first,
                       first + count, bo_texts_count(texts));
    if (!count) return BO_OK;
    const size_t classes = model->desc.classes;
    labeler l = {.model = model, .texts = texts, .all = count};
    bo_status status = labeler_make(context, &l, first, count);
    if (status == BO_OK) status = label_some(context, &l, first, count, probabilities);
    for (size_t i = 0; i < count && status == BO_OK; i++) {
        float *row = probabilities + i * classes;
        const double all = log_sum(classes, row);
        for (size_t c = 0; c < classes; c++) row[c] = (float)exp((double)row[c] - all);
    }
    labeler_free(&l);
    return status;
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* Checks that the labels of the texts are those of the model, in the same order. */
static bo_status check_labels(bo_context *context, const bo_model_desc *d, const bo_texts *texts)
{
    const char *const *names = bo_texts_class_names(texts);
    bool same = names && bo_texts_classes(texts) == d->classes;
    for (size_t i = 0; same && i < d->classes; i++) same = strcmp(names[i], d->labels[i]) == 0;
    if (same) return BO_OK;
    return bo_fail(context, BO_INVALID, "labels: the texts %s (see bo_model_preset_texts)",
                   names ? "do not have the labels of the model" : "have no labels");
}

static bo_status count_block(bo_context *context, const labeler *l, size_t first, size_t count, const float *logits,
                             bo_metrics *metrics, uint64_t *tokens)
{
    const size_t classes = l->model->desc.classes;
    for (size_t i = 0; i < count; i++) {
        const float *row = logits + i * classes;
        const size_t label = (size_t)bo_texts_label(l->texts, first + i);
        size_t said = 0;
        for (size_t c = 1; c < classes; c++)
            if (row[c] > row[said]) said = c;
        BO_TRY(bo_metrics_add_class(context, metrics, label, said, log_sum(classes, row) - (double)row[label]));
        *tokens += tokens_of(l->texts, first + i);
    }
    return BO_OK;
}

static bo_status evaluate(bo_context *context, labeler *l, float *logits, bo_metrics *metrics, uint64_t *tokens)
{
    BO_TRY(labeler_make(context, l, 0, l->all));
    for (size_t first = 0; first < l->all; first += BLOCK) {
        const size_t count = bo_min(l->all - first, BLOCK);
        BO_TRY(label_some(context, l, first, count, logits));
        BO_TRY(count_block(context, l, first, count, logits, metrics, tokens));
    }
    return BO_OK;
}

bo_status bo_model_evaluate_labels(bo_context *context, const bo_model *model, const bo_texts *texts, uint64_t most,
                                   bo_classification *out, bo_metrics **metrics)
{
    if (metrics) *metrics = NULL;
    BO_REQUIRE(context, model, texts, out);
    *out = (bo_classification){0};
    BO_TRY(check(context, model, texts));
    BO_TRY(check_labels(context, &model->desc, texts));
    const double begin = bo_seconds();
    const size_t classes = model->desc.classes, all = bo_texts_count(texts);
    labeler l = {.model = model, .texts = texts, .all = most && most < all ? (size_t)most : all};
    const bo_metrics_desc desc = {.classes = classes, .labels = model->desc.labels};
    bo_classification found = {.examples = l.all};
    bo_metrics *sums = NULL;
    float *logits = bo_alloc(context, bo_min(l.all, BLOCK) * classes, sizeof *logits, "logits");
    bo_status status = logits ? bo_metrics_create(context, &desc, &sums) : BO_MEMORY;
    if (status == BO_OK) status = evaluate(context, &l, logits, sums, &found.tokens);
    labeler_free(&l);
    bo_free(logits);
    if (status == BO_OK) {
        found.accuracy = bo_metrics_accuracy(sums);
        found.loss = bo_metrics_log_loss(sums);
        found.seconds = bo_seconds() - begin;
        *out = found;
    }
    if (status == BO_OK && metrics)
        *metrics = sums;
    else
        bo_metrics_destroy(sums);
    return status;
}
