/* Attention across a cut of the sequence. Rows of the matrix are prefixes, columns are suffixes, and an entry is one
 * output number of the last token. With r features and no denominator, the prefix contributes through r sums (Σ φ(k_j)
 * v_j of one coordinate) plus one term of the suffix alone, so the rank is at most r + 1. Softmax weights are not such
 * a sum. */
#include "separation.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- attention alone, with random q, k, v ------------------------------------------------------------------------ */

enum { DIM = 4, PREFIX = 8, SUFFIX = 4, TOKENS = PREFIX + SUFFIX, SETTINGS = 64, NUMBERS = SETTINGS * TOKENS * DIM };

/* Writes the rows of q, k and v of one prefix before those of every suffix. */
static void copy_prefix(const float *prefixes, size_t which, float *x)
{
    for (size_t s = 0; s < SETTINGS; s++)
        memcpy(x + s * TOKENS * DIM, prefixes + which * TOKENS * DIM, PREFIX * DIM * sizeof *x);
}

static bo_status fill_cut(lab_run *run, const bo_attention *attention, bo_rng *rng, float *buffer, double *matrix)
{
    float *prefixes[3], *x[3], *out = buffer + 6 * (size_t)NUMBERS;
    for (size_t i = 0; i < 6; i++) *(i < 3 ? &prefixes[i] : &x[i - 3]) = buffer + i * (size_t)NUMBERS;
    lab_fill_normal(rng, 1, 6 * (size_t)NUMBERS, buffer);
    for (size_t a = 0; a < SETTINGS; a++) {
        for (size_t i = 0; i < 3; i++) copy_prefix(prefixes[i], a, x[i]);
        const bo_attention_call call = {
            .sequences = SETTINGS, .tokens = TOKENS, .q = {x[0]}, .k = {x[1]}, .v = {x[2]}, .out = {out}};
        BO_TRY(bo_attention_forward(lab_context(run), attention, &call));
        for (size_t b = 0; b < SETTINGS; b++) matrix[a * SETTINGS + b] = (double)out[(b * TOKENS + TOKENS - 1) * DIM];
    }
    return BO_OK;
}

/* Counts singular values above 10⁻⁵ of the first. float32 rounds to 6 · 10⁻⁸, and errors of 64 rows may add up. */
static bo_status cut_rank(lab_run *run, const bo_attention_desc *desc, bo_rng *rng, double *matrix, size_t *rank)
{
    double values[SETTINGS];
    bo_attention *attention = NULL;
    float *buffer = bo_alloc_raw(lab_context(run), 7 * (size_t)NUMBERS, sizeof *buffer, "sequences");
    bo_status status = buffer ? bo_attention_create(lab_context(run), desc, &attention) : BO_MEMORY;
    if (status == BO_OK) status = fill_cut(run, attention, rng, buffer, matrix);
    if (status == BO_OK) status = bo_singular_values(lab_context(run), SETTINGS, SETTINGS, matrix, values);
    if (status == BO_OK) *rank = lab_numerical_rank(values, SETTINGS, 1e-5);
    bo_attention_destroy(attention);
    bo_free(buffer);
    return status;
}

static bo_status drawn(lab_run *run, bo_rng *rng, double *matrix)
{
    static const size_t features[] = {2, 4, 8, 16, 32};
    bo_attention_desc exact = {.kind = BO_ATTENTION_SOFTMAX, .heads = 1, .dim = DIM, .causal = true, .scale = 1};
    double largest = 0;
    size_t softmax, rank = 0, positive;
    BO_TRY(cut_rank(run, &exact, rng, matrix, &softmax));
    for (size_t i = 0; i < LAB_COUNT_OF(features); i++) {
        const size_t r = features[i];
        bo_attention_desc linear = {.kind = BO_ATTENTION_LINEAR,
                                    .heads = 1,
                                    .dim = DIM,
                                    .causal = true,
                                    .normalizer = BO_NORMALIZER_NONE,
                                    .features = {.kernel = BO_KERNEL_RBF, .features = r, .seed = lab_seed(run)}};
        bo_attention_desc favor = {.kind = BO_ATTENTION_FAVOR,
                                   .heads = 1,
                                   .dim = DIM,
                                   .causal = true,
                                   .features = {.features = r, .seed = lab_seed(run)}};
        BO_TRY(cut_rank(run, &linear, rng, matrix, &rank));
        BO_TRY(cut_rank(run, &favor, rng, matrix, &positive));
        lab_point(run, "cut", "features, no denominator", (double)r, (double)rank);
        lab_point(run, "cut", "features + 1", (double)r, (double)r + 1);
        lab_point(run, "cut", "positive features, normalized", (double)r, (double)positive);
        lab_point(run, "cut", "softmax", (double)r, (double)softmax);
        largest = fmax(largest, (double)rank / (double)(r + 1));
        if (r == 8) lab_claim(run, "cut-softmax", (double)softmax / (double)(r + 1));
    }
    lab_claim(run, "cut", largest);
    lab_note(run,
             "The bound r + 1 holds for attention without a denominator. With normalization by the sum of the "
             "weights, attention with r features is a quotient of two such functions, and its rank is not bounded by "
             "r (see the table).");
    return BO_OK;
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

enum { CONTEXT = 32, CUT = 24, BATCH = 64, LOGITS = 4, MAX_SETTINGS = 48 };

typedef struct cuts {
    lab_run *run;
    lab_text text;
    size_t settings;
    int32_t *prefixes, *suffixes; /* settings x CONTEXT, from the held-out text */
    int32_t ids[BATCH * CONTEXT];
    float *logits;  /* of one evaluation */
    double *matrix; /* LOGITS x settings x settings */
} cuts;

/* The logits used: those of frequent letters. */
static const int watched[LOGITS] = {' ', 'e', 'a', 't'};

static bo_status read_batch(cuts *c, lab_reader *reader, size_t first)
{
    const size_t n = c->settings, all = n * n;
    for (size_t w = 0; w < BATCH; w++) {
        const size_t at = (first + w) % all;
        memcpy(c->ids + w * CONTEXT, c->prefixes + at / n * CONTEXT, CUT * sizeof *c->ids);
        memcpy(c->ids + w * CONTEXT + CUT, c->suffixes + at % n * CONTEXT + CUT, (CONTEXT - CUT) * sizeof *c->ids);
    }
    BO_TRY(lab_reader_read(c->run, reader, c->ids, 0));
    BO_TRY(lab_reader_logits(c->run, reader, c->logits));
    for (size_t w = 0; w < BATCH && first + w < all; w++)
        for (size_t l = 0; l < LOGITS; l++)
            c->matrix[l * all + first + w] = (double)c->logits[((w + 1) * CONTEXT - 1) * 256 + (size_t)watched[l]];
    return BO_OK;
}

/* Subtracts the row means and column means. */
static void center(size_t n, double *matrix)
{
    double rows[MAX_SETTINGS] = {0}, columns[MAX_SETTINGS] = {0}, mean = 0;
    for (size_t i = 0; i < n * n; i++) {
        rows[i / n] += matrix[i] / (double)n;
        columns[i % n] += matrix[i] / (double)n;
        mean += matrix[i] / (double)(n * n);
    }
    for (size_t i = 0; i < n * n; i++) matrix[i] += mean - rows[i / n] - columns[i % n];
}

/* Ranks of the interaction of prefix and suffix in a logit, mean over some logits. */
typedef struct ranks {
    double effective, within; /* within: up to 1% of its size in d₂ */
} ranks;

static bo_status ranks_of(cuts *c, const bo_model *model, ranks *out)
{
    const size_t n = c->settings;
    lab_reader reader;
    bo_status status = lab_reader_open(c->run, model, &(lab_reading){.windows = BATCH, .logits = true}, &reader);
    for (size_t first = 0; status == BO_OK && first < n * n; first += BATCH) status = read_batch(c, &reader, first);
    lab_reader_close(&reader);
    *out = (ranks){0};
    for (size_t l = 0; status == BO_OK && l < LOGITS; l++) {
        double values[MAX_SETTINGS];
        center(n, c->matrix + l * n * n);
        status = bo_singular_values(lab_context(c->run), n, n, c->matrix + l * n * n, values);
        if (status == BO_OK) {
            out->effective += bo_effective_rank(values, n) / LOGITS;
            out->within += (double)bo_rank_within(values, n, 0.01) / LOGITS;
        }
    }
    return status;
}

typedef struct kind {
    const char *name, *preset; /* preset NULL: the degree-3 mixer, which is linear attention without features */
    size_t features;           /* 0: none */
    bool full;                 /* only in the full run */
} kind;

static const kind kinds[] = {{"softmax", "softmax", 0, false},          {"4 features", "favor", 4, false},
                             {"16 features", "favor", 16, true},        {"64 features", "favor", 64, false},
                             {"4 features, gate", "rfa-gate", 4, true}, {"degree-3 mixer", NULL, 0, true}};

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

/* Layer outputs to the residual stream start at zero, so a new model does not mix tokens. Models at initialization get
 * random matrices there instead. */
static bo_status draw_outputs(lab_run *run, bo_model *model, bo_rng *rng)
{
    enum { MAX_VALUES = 32 * 128 };
    float values[MAX_VALUES];
    for (size_t i = 0; i < bo_weights_describe(bo_model_weights(model))->count; i++) {
        const bo_weight w = *bo_weights_describe(bo_model_weights(model))->weight[i];
        if (!ends_with(w.name, ".o_proj.weight") && !ends_with(w.name, ".down_proj.weight")) continue;
        const size_t count = w.shape[0] * w.shape[1];
        if (count > MAX_VALUES)
            return bo_fail(lab_context(run), BO_UNSUPPORTED,
                           "%s has %zu numbers, more than this "
                           "experiment supports",
                           w.name, count);
        for (size_t j = 0; j < count; j++) values[j] = (float)(bo_rng_normal(rng) / sqrt((double)w.shape[1]));
        BO_TRY(bo_weights_set(lab_context(run), bo_model_weights(model), w.name, values));
    }
    return BO_OK;
}

static bo_status ranks_drawn(cuts *c, const bo_model_desc *desc, ranks *out)
{
    bo_rng rng = lab_rng(c->run, "lab.separation.outputs");
    bo_model *model;
    BO_TRY(bo_model_create(lab_context(c->run), desc, c->text.tokenizer, &model));
    bo_status status = draw_outputs(c->run, model, &rng);
    if (status == BO_OK) status = ranks_of(c, model, out);
    bo_model_destroy(model);
    return status;
}

static bo_status train_kind(cuts *c, const kind *k, double from, double to, ranks *before, ranks *after)
{
    bo_model *model;
    lab_trained trained;
    bo_model_desc desc = {.layers = 2, .width = 32, .block.heads = 2, .context = CONTEXT, .seed = lab_seed(c->run)};
    if (k->preset)
        bo_attention_preset(k->preset, &desc.block.attention);
    else
        desc.block.mixer = BO_MIXER_DEGREE_3;
    desc.block.attention.features.features = k->features;
    const lab_training training = {.batch = 32, .steps = lab_size(c->run, 1000, 50), .from = from, .to = to};
    BO_TRY(ranks_drawn(c, &desc, before));
    BO_TRY(lab_train_new(c->run, &desc, &c->text, &training, &model, &trained));
    const bo_status status = ranks_of(c, model, after);
    bo_model_destroy(model);
    if (status != BO_OK) return status;
    lab_cell(c->run, "trained", k->name, "initial", before->effective);
    lab_cell(c->run, "trained", k->name, "trained", after->effective);
    lab_cell(c->run, "trained-more", k->name, "rank up to 1%, initial", before->within);
    lab_cell(c->run, "trained-more", k->name, "rank up to 1%, trained", after->within);
    lab_cell(c->run, "trained-more", k->name, "loss, nats per byte", trained.loss);
    return BO_OK;
}

static bo_status train_all(cuts *c)
{
    ranks before[LAB_COUNT_OF(kinds)], after[LAB_COUNT_OF(kinds)];
    for (size_t i = 0; i < LAB_COUNT_OF(kinds); i++) {
        const double from = 0.7 + 0.3 * (double)i / LAB_COUNT_OF(kinds);
        if (kinds[i].full && lab_quick(c->run)) continue;
        BO_TRY(train_kind(c, &kinds[i], from, from + 0.3 / LAB_COUNT_OF(kinds), &before[i], &after[i]));
    }
    lab_claim(c->run, "trained-softmax", after[0].effective / after[1].effective);
    lab_claim(c->run, "trained-features", after[3].effective / after[1].effective);
    lab_claim(c->run, "training", after[0].effective / before[0].effective);
    return BO_OK;
}

static bo_status open_cuts(cuts *c, bo_rng *rng)
{
    bo_context *context = lab_context(c->run);
    const size_t n = c->settings;
    BO_TRY(lab_text_open(c->run, 0, &c->text));
    c->prefixes = bo_alloc_raw(context, n * CONTEXT, sizeof *c->prefixes, "prefixes");
    c->suffixes = bo_alloc_raw(context, n * CONTEXT, sizeof *c->suffixes, "suffixes");
    c->logits = bo_alloc_raw(context, (size_t)BATCH * CONTEXT * 256, sizeof *c->logits, "logits");
    c->matrix = bo_alloc_raw(context, LOGITS * n * n, sizeof *c->matrix, "a matricization");
    if (!c->prefixes || !c->suffixes || !c->logits || !c->matrix) return BO_MEMORY;
    for (size_t i = 0; i < 2 * n; i++) {
        const uint64_t at = bo_rng_below(rng, bo_corpus_tokens(c->text.valid) - CONTEXT);
        int32_t *window = i < n ? c->prefixes + i * CONTEXT : c->suffixes + (i - n) * CONTEXT;
        BO_TRY(bo_corpus_read(context, c->text.valid, at, CONTEXT, window));
    }
    return BO_OK;
}

bo_status lab_separation_attention(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.separation.attention");
    double *matrix = bo_alloc_raw(lab_context(run), SETTINGS * SETTINGS, sizeof *matrix, "a matricization");
    if (!matrix) return BO_MEMORY;
    bo_status status = drawn(run, &rng, matrix);
    bo_free(matrix);
    BO_TRY(status);
    cuts *c = bo_alloc(lab_context(run), 1, sizeof *c, "cuts of a text");
    if (!c) return BO_MEMORY;
    c->run = run;
    c->settings = lab_size(run, MAX_SETTINGS, 24);
    status = open_cuts(c, &rng);
    if (status == BO_OK) status = train_all(c);
    lab_text_close(&c->text);
    bo_free(c->prefixes);
    bo_free(c->suffixes);
    bo_free(c->logits);
    bo_free(c->matrix);
    bo_free(c);
    return status;
}
