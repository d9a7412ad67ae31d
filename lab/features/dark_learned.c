#include "dark_learned.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LAYERS = 2,
    HEADS = 4,
    DIM = 16,
    WIDTH = HEADS * DIM,
    TOKENS = 64,
    PARTS = 1 + 2 * LAYERS,
    STREAM = TOKENS * WIDTH
};

/* Sums over the queries and keys of one head. */
typedef struct sums {
    double products[DIM * DIM], count; /* Σ q qᵀ + k kᵀ */
    double squares, pairs;             /* Σ |q + k|² over tokens and their predecessors */
} sums;

typedef struct reading {
    float stream[PARTS * STREAM], m[HEADS * DIM * DIM];
    double x[STREAM], q[TOKENS * DIM], k[TOKENS * DIM];
    sums plain[LAYERS][HEADS], mapped[LAYERS][HEADS];
} reading;

static void add_products(const double *x, sums *out)
{
    for (size_t t = 0; t < TOKENS; t++, out->count++)
        for (size_t i = 0; i < DIM; i++)
            for (size_t j = 0; j < DIM; j++) out->products[i * DIM + j] += x[t * DIM + i] * x[t * DIM + j];
}

static void add_pairs(const double *q, const double *k, sums *out)
{
    for (size_t i = 0; i < TOKENS; i++)
        for (size_t j = 0; j <= i; j++, out->pairs++)
            for (size_t c = 0; c < DIM; c++) out->squares += pow(q[i * DIM + c] + k[j * DIM + c], 2);
}

static void add(const double *q, const double *k, sums *out)
{
    add_products(q, out);
    add_products(k, out);
    add_pairs(q, k, out);
}

/* Multiplies each row by M in place. */
static void map_rows(const float *m, double *x)
{
    for (size_t t = 0; t < TOKENS; t++) {
        double row[DIM] = {0};
        for (size_t i = 0; i < DIM; i++)
            for (size_t j = 0; j < DIM; j++) row[i] += (double)m[i * DIM + j] * x[t * DIM + j];
        memcpy(x + t * DIM, row, sizeof row);
    }
}

/* (tr Λ)² / tr Λ²: DIM if all directions have equal variance, 1 if only one has any. */
static double effective_dimension(const sums *s)
{
    double trace = 0, square = 0;
    for (size_t i = 0; i < DIM; i++) trace += s->products[i * DIM + i];
    for (size_t i = 0; i < DIM * DIM; i++) square += s->products[i] * s->products[i];
    return trace * trace / square;
}

static bo_status read_head(lab_run *run, reading *r, const bo_model *softmax, size_t layer, size_t index)
{
    lab_head head;
    BO_TRY(lab_head_read(lab_context(run), softmax, layer, index, &head));
    bo_status status = lab_head_turned(lab_context(run), &head, head.q, TOKENS, r->x, r->q);
    if (status == BO_OK) status = lab_head_turned(lab_context(run), &head, head.k, TOKENS, r->x, r->k);
    const double root = sqrt(head.scale); /* exp(scale q·k) equals exp(q·k) of the scaled vectors */
    for (size_t i = 0; i < TOKENS * DIM; i++) r->q[i] *= root, r->k[i] *= root;
    lab_head_free(&head);
    BO_TRY(status);
    add(r->q, r->k, &r->plain[layer][index]);
    map_rows(r->m + index * DIM * DIM, r->q);
    map_rows(r->m + index * DIM * DIM, r->k);
    add(r->q, r->k, &r->mapped[layer][index]);
    return BO_OK;
}

static bo_status read_window(lab_run *run, reading *r, const bo_model *softmax, const bo_model *dark,
                             const int32_t *ids)
{
    BO_TRY(lab_stream(run, softmax, ids, r->stream));
    for (size_t layer = 0; layer < LAYERS; layer++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%zu.self_attn.m", layer);
        BO_TRY(bo_weights_get(lab_context(run), bo_model_weights(dark), name, r->m, NULL));
        lab_normalize(TOKENS, WIDTH, bo_model_describe(softmax)->block.norm_epsilon, r->stream + 2 * layer * STREAM,
                      r->x);
        for (size_t h = 0; h < HEADS; h++) BO_TRY(read_head(run, r, softmax, layer, h));
    }
    return BO_OK;
}

static void conclude(lab_run *run, const reading *r)
{
    double dimensions = 0, lengths = 0;
    for (size_t layer = 0; layer < LAYERS; layer++)
        for (size_t h = 0; h < HEADS; h++) {
            const sums *a = &r->plain[layer][h], *b = &r->mapped[layer][h];
            const double before = effective_dimension(a), after = effective_dimension(b);
            const double long_before = a->squares / a->pairs, long_after = b->squares / b->pairs;
            char row[32];
            snprintf(row, sizeof row, "layer %zu, head %zu", layer, h + 1);
            lab_cell(run, "learned", row, "dimension, q and k", before);
            lab_cell(run, "learned", row, "dimension, Mq and Mk", after);
            lab_cell(run, "learned", row, "ln moment, q and k", long_before);
            lab_cell(run, "learned", row, "ln moment, Mq and Mk", long_after);
            dimensions += log(after / before) / (LAYERS * HEADS);
            lengths += log(long_after / long_before) / (LAYERS * HEADS);
        }
    lab_claim(run, "learned-geometry", exp(dimensions));
    lab_claim(run, "learned-variance", exp(lengths));
}

static bool fits(const bo_model *model)
{
    const bo_model_desc *d = bo_model_describe(model);
    return d->layers == LAYERS && d->block.heads == HEADS && d->block.head_dim == DIM && d->width == WIDTH &&
           d->context == TOKENS;
}

bo_status lab_dark_learned(lab_run *run, const lab_text *text, const bo_model *softmax, const bo_model *dark)
{
    enum { WINDOWS = 8 };
    if (!fits(softmax) || !fits(dark) || bo_attention_describe(bo_model_attention(dark, 0))->rank != DIM)
        return bo_fail(lab_context(run), BO_INVALID, "expected models with %d layers of %d heads of dimension %d",
                       LAYERS, HEADS, DIM);
    reading *r = bo_alloc(lab_context(run), 1, sizeof *r, "queries and keys");
    if (!r) return BO_MEMORY;
    bo_status status = BO_OK;
    for (uint64_t w = 0; status == BO_OK && w < WINDOWS; w++) {
        int32_t ids[TOKENS];
        status = bo_corpus_read(lab_context(run), text->valid, w * TOKENS, TOKENS, ids);
        if (status == BO_OK) status = read_window(run, r, softmax, dark, ids);
    }
    if (status == BO_OK) conclude(run, r);
    bo_free(r);
    return status;
}
