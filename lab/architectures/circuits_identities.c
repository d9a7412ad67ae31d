/* circuits: the outputs of the heads of a layer, separately and combined. */
#include "circuits.h"
#include <math.h>
#include <stdio.h>

static void subtract(const float *stream, size_t layer, float *out)
{
    const float *before = stream + 2 * layer * STREAM, *after = before + STREAM;
    for (size_t i = 0; i < STREAM; i++) out[i] = after[i] - before[i];
}

/* Computes the output of each head with the other columns of W_O set to zero. */
static bo_status split_layer(lab_scene *s, size_t layer)
{
    char name[64];
    snprintf(name, sizeof name, "model.layers.%zu.self_attn.o_proj.weight", layer);
    BO_TRY(lab_stream(s->run, s->model, s->tokens, s->stream));
    subtract(s->stream, layer, s->together);
    BO_TRY(bo_weights_get(s->context, bo_model_weights(s->model), name, s->projection, NULL));
    bo_status status = BO_OK;
    for (size_t h = 0; status == BO_OK && h < HEADS; h++) {
        for (size_t i = 0; i < SQUARE; i++) s->masked[i] = i % WIDTH / DIM == h ? s->projection[i] : 0;
        status = bo_weights_set(s->context, bo_model_weights(s->model), name, s->masked);
        if (status == BO_OK) status = lab_stream(s->run, s->model, s->tokens, s->other);
        subtract(s->other, layer, s->written[h]);
    }
    BO_TRY(bo_weights_set(s->context, bo_model_weights(s->model), name, s->projection));
    return status;
}

/* ---- identities -------------------------------------------------------------------------------------------------- */

typedef struct identities {
    double sum, formula; /* largest differences, relative to the largest output */
    /* component of an output outside the column space of its head (largest) and outside that of the next head (mean) */
    double column_space, neighbor;
    double rank, rank_together;
} identities;

static double largest(size_t count, const float *x)
{
    double max = 0;
    for (size_t i = 0; i < count; i++) max = fmax(max, fabs((double)x[i]));
    return max;
}

static double sum_difference(const lab_scene *s)
{
    double max = 0;
    for (size_t i = 0; i < STREAM; i++) {
        double sum = 0;
        for (size_t h = 0; h < HEADS; h++) sum += (double)s->written[h][i];
        max = fmax(max, fabs(sum - (double)s->together[i]));
    }
    return max / largest(STREAM, s->together);
}

/* Computes A X (W_O W_V)ᵀ in float64 and leaves the circuit in s->circuit. */
static bo_status formula_difference(lab_scene *s, const lab_head *head, size_t h, double *out)
{
    BO_TRY(lab_head_ov(s->context, head, s->circuit));
    BO_TRY(lab_head_attention(s->context, head, TOKENS, s->x, s->weights));
    BO_TRY(lab_multiply(s->context, false, false, TOKENS, WIDTH, TOKENS, 1, s->weights, TOKENS, s->x, WIDTH, 0,
                        s->mixed, WIDTH));
    BO_TRY(lab_multiply(s->context, false, true, TOKENS, WIDTH, WIDTH, 1, s->mixed, WIDTH, s->circuit, WIDTH, 0,
                        s->formula, WIDTH));
    *out = 0;
    for (size_t i = 0; i < STREAM; i++) *out = fmax(*out, fabs(s->formula[i] - (double)s->written[h][i]));
    *out /= largest(STREAM, s->written[h]);
    return BO_OK;
}

/* Returns the component of an output outside the first DIM columns of s->u, relative to its norm. */
static double outside(const lab_scene *s, const float *write)
{
    double all = 0, within = 0;
    for (size_t t = 0; t < TOKENS; t++) {
        const float *row = write + t * WIDTH;
        for (size_t i = 0; i < WIDTH; i++) all += (double)row[i] * (double)row[i];
        for (size_t k = 0; k < DIM; k++) {
            double dot = 0;
            for (size_t i = 0; i < WIDTH; i++) dot += s->u[i * WIDTH + k] * (double)row[i];
            within += dot * dot;
        }
    }
    return sqrt(fmax(0, all - within) / all);
}

/* Counts the singular values of the output above the rounding error of float32. */
static bo_status rank_of(lab_scene *s, const float *write, double *out)
{
    for (size_t i = 0; i < STREAM; i++) s->mixed[i] = (double)write[i];
    BO_TRY(lab_svd(s->context, TOKENS, WIDTH, s->mixed, s->u, s->values, s->vt));
    *out = 0;
    for (size_t i = 0; i < WIDTH; i++) *out += s->values[i] > 1e-5 * s->values[0];
    return BO_OK;
}

static bo_status compare_head(lab_scene *s, size_t layer, size_t h, identities *out)
{
    lab_head head;
    double difference = 0, rank = 0;
    BO_TRY(lab_head_read(s->context, s->model, layer, h, &head));
    bo_status status = formula_difference(s, &head, h, &difference);
    lab_head_free(&head);
    if (status == BO_OK) status = rank_of(s, s->written[h], &rank);
    if (status == BO_OK) status = lab_svd(s->context, WIDTH, WIDTH, s->circuit, s->u, s->values, s->vt);
    BO_TRY(status);
    out->formula = fmax(out->formula, difference);
    out->column_space = fmax(out->column_space, outside(s, s->written[h]));
    out->neighbor += outside(s, s->written[(h + 1) % HEADS]) / (LAYERS * HEADS);
    out->rank += rank / (LAYERS * HEADS);
    return BO_OK;
}

static bo_status compare_layer(lab_scene *s, size_t layer, identities *out)
{
    double rank;
    BO_TRY(split_layer(s, layer));
    out->sum = fmax(out->sum, sum_difference(s));
    lab_normalize(TOKENS, WIDTH, bo_model_describe(s->model)->block.norm_epsilon, s->stream + 2 * layer * STREAM, s->x);
    for (size_t h = 0; h < HEADS; h++) BO_TRY(compare_head(s, layer, h, out));
    BO_TRY(rank_of(s, s->together, &rank));
    out->rank_together += rank / LAYERS;
    return BO_OK;
}

bo_status lab_circuits_identities(lab_scene *s)
{
    identities found = {0};
    bo_rng rng = lab_rng(s->run, "lab.circuits.identities");
    for (size_t i = 0; i < TOKENS; i++)
        s->tokens[i] = (int32_t)bo_rng_below(&rng, 256); /* more tokens than the stream has dimensions */
    for (size_t layer = 0; layer < LAYERS; layer++) BO_TRY(compare_layer(s, layer, &found));
    lab_claim(s->run, "concatenation", found.sum);
    lab_claim(s->run, "formula", found.formula);
    lab_claim(s->run, "column-space", found.column_space);
    lab_claim(s->run, "other-space", found.neighbor);
    lab_cell(s->run, "writes", "one head", "rank", found.rank);
    lab_cell(s->run, "writes", "one head", "outside Col(W_O W_V)", found.column_space);
    lab_cell(s->run, "writes", "one head", "outside the space of another head", found.neighbor);
    lab_cell(s->run, "writes", "all heads of a layer", "rank", found.rank_together);
    return BO_OK;
}
