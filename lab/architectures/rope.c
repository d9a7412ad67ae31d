/* rope: rotary positions (2104.09864) encode only distances; causal models without positions still learn them. */
#include <bochner/names.h>
#include "../experiment.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "relative",
     .statement =
         "The inner product of a rotated query at position i and a rotated key at position j depends only on i - j.",
     .number = "largest change of q·k / |q||k| when both move by up to 4000 positions",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-5,
     .source = "RoFormer (arXiv 2104.09864), course notes, RoPE",
     .passage = LAB_NOTES
     "lines 703-707: \"RoPE(z_t, t) = e^(jtw) z_t, hence RoPE(x, m)ᵀ RoPE(y, n)\". The text version has lost what "
     "follows; it is read as: depends only on m - n"},
    {.name = "closed-form",
     .statement =
         "This product is Re Σ exp(√-1 w_n (i - j)) z_n conj(y_n) with w_n = 10000^(-2(n - 1) / d), where pairs of "
         "numbers form the complex z_n and y_n.",
     .number = "largest difference of q·k / |q||k| from the formula",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-5,
     .source = "RoFormer (arXiv 2104.09864), course notes, RoPE"},
    {.name = "added",
     .statement = "Control: with added positions (sinusoids), inner products depend on both positions.",
     .number = "largest change of q·k / |q||k| when both move by up to 4000 positions",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 0.1},
    {.name = "shift",
     .statement = "The predictions of a trained model with rotary positions do not change if all positions are "
                  "shifted by 1000.",
     .number = "largest change of a logit relative to the size of the logits",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-3},
    {.name = "helps",
     .statement = "A causal model with rotary positions has a lower held-out loss than one without positions.",
     .number = "held-out loss without positions minus held-out loss with rotary positions, in nats per token",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02},
    {.name = "known",
     .statement = "The hidden states of a causal model without positions contain the position of a token.",
     .number = "held-out R² of the position by ridge regression from the best layer",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5,
     .source = "course notes, RoPE; Haviv et al. (arXiv 2203.16634)",
     .passage = LAB_NOTES "line 713: \"it might be possible for attention layer itself to learn to encode positional "
                          "information\""},
    {.name = "both-ways",
     .statement =
         "Control: with the same weights but without the causal mask, so that order cannot be known, the hidden "
         "states do not contain the position.",
     .number = "held-out R² of the position by ridge regression from the best layer",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.1},
};

static const bo_lab_table tables[] = {
    {.name = "loss",
     .title = "Held-out loss by kind of positions",
     .rows = "positions",
     .values = "held-out loss, nats per token",
     .plot = BO_LAB_BARS},
    {.name = "position",
     .title = "Accuracy of reading the position of a token from hidden states",
     .rows = "part of the model",
     .values = "held-out R² of ridge regression",
     .plot = BO_LAB_BARS},
    {.name = "shift",
     .title = "Held-out loss with shifted positions",
     .rows = "shift",
     .values = "change of the held-out loss, nats per token",
     .plot = BO_LAB_NO_PLOT},
};

/* ---- inner products ---------------------------------------------------------------------------------------------- */

enum { DIM = 64, POSITIONS = 64, SHIFTS = 5, MAX_SHIFT = 4000 };

/* One query and one key at POSITIONS consecutive positions: row i is at positions[i]. */
typedef struct turning {
    bo_graph *graph;
    bo_value x, positions, y;
    float rows[POSITIONS * DIM];
} turning;

static bo_status turning_open(lab_run *run, bo_weights *weights, bool rope, turning *t)
{
    bo_context *context = lab_context(run);
    BO_TRY(bo_graph_create(context, weights, &t->graph));
    t->x = bo_graph_input(t->graph, "x", BO_ELEMENT_FLOAT32, POSITIONS, DIM);
    t->positions = bo_graph_input(t->graph, "positions", BO_ELEMENT_INT32, POSITIONS, 1);
    if (rope)
        t->y = lab_graph_one(t->graph, BO_OPERATION_ROPE,
                             &(bo_rope_attributes){.dim = DIM, .layout = BO_ROPE_LAYOUT_NEIGHBORS}, 2,
                             (bo_value[]){t->x, t->positions});
    else
        t->y = lab_positions(t->graph, "positions", t->x, t->positions, BO_POSITIONS_SINUSOIDAL, POSITIONS);
    bo_graph_keep(t->graph, t->y);
    BO_TRY(bo_graph_compile(context, t->graph, &(bo_graph_compile_desc){0}));
    return bo_graph_allocate(context, t->graph);
}

/* Rotates x to the positions first, first + 1, … and writes the results to out. */
static bo_status turn(lab_run *run, turning *t, const float *x, int32_t first, float *out)
{
    int32_t positions[POSITIONS];
    for (size_t i = 0; i < POSITIONS; i++) {
        positions[i] = first + (int32_t)i;
        for (size_t c = 0; c < DIM; c++) t->rows[i * DIM + c] = x[c];
    }
    BO_TRY(bo_graph_write(lab_context(run), t->graph, t->x, t->rows));
    BO_TRY(bo_graph_write(lab_context(run), t->graph, t->positions, positions));
    BO_TRY(bo_graph_run(lab_context(run), t->graph, NULL));
    return bo_graph_read(lab_context(run), t->graph, t->y, out);
}

static double dot(const float *x, const float *y)
{
    double sum = 0;
    for (size_t c = 0; c < DIM; c++) sum += (double)x[c] * (double)y[c];
    return sum;
}

/* The formula: pairs (x_2n, x_2n+1) are complex numbers. */
static double closed_form(const float *q, const float *k, double distance)
{
    double sum = 0;
    for (size_t n = 0; n < DIM / 2; n++) {
        const double angle = distance * pow(10000, -2 * (double)n / DIM), a = q[2 * n], b = q[2 * n + 1];
        const double c = k[2 * n], d = k[2 * n + 1];
        sum += cos(angle) * (a * c + b * d) + sin(angle) * (a * d - b * c);
    }
    return sum;
}

typedef struct scores {
    float q[POSITIONS * DIM], k[POSITIONS * DIM];
    double first[POSITIONS * POSITIONS]; /* at the first shift */
    double change, error;                /* largest values */
} scores;

static void compare(scores *s, const float *q, const float *k, bool first)
{
    const double size = sqrt(dot(q, q) * dot(k, k));
    for (size_t i = 0; i < POSITIONS; i++)
        for (size_t j = 0; j < POSITIONS; j++) {
            const double score = dot(s->q + i * DIM, s->k + j * DIM) / size;
            if (first) s->first[i * POSITIONS + j] = score;
            s->change = fmax(s->change, fabs(score - s->first[i * POSITIONS + j]));
            s->error = fmax(s->error, fabs(score - closed_form(q, k, (double)i - (double)j) / size));
        }
}

static bo_status shift_scores(lab_run *run, turning *t, scores *s)
{
    float q[DIM], k[DIM];
    bo_rng rng = lab_rng(run, "lab.rope");
    for (size_t c = 0; c < DIM; c++) {
        q[c] = (float)bo_rng_normal(&rng);
        k[c] = (float)bo_rng_normal(&rng);
    }
    for (size_t shift = 0; shift < SHIFTS; shift++) {
        const int32_t by = (int32_t)(shift * MAX_SHIFT / (SHIFTS - 1));
        BO_TRY(turn(run, t, q, by, s->q));
        BO_TRY(turn(run, t, k, by, s->k));
        compare(s, q, k, shift == 0);
    }
    return BO_OK;
}

static bo_status measure_scores(lab_run *run, bool rope, double *change, double *error)
{
    bo_weights *weights;
    BO_TRY(bo_weights_create(lab_context(run), &weights));
    turning *t = bo_alloc(lab_context(run), 1, sizeof *t, "rotated queries");
    scores *s = bo_alloc(lab_context(run), 1, sizeof *s, "inner products");
    bo_status status = t && s ? turning_open(run, weights, rope, t) : BO_MEMORY;
    if (status == BO_OK) status = shift_scores(run, t, s);
    if (status == BO_OK) *change = s->change, *error = s->error;
    if (t) bo_graph_destroy(t->graph);
    bo_free(t);
    bo_free(s);
    bo_weights_destroy(weights);
    return status;
}

/* ---- reading positions ------------------------------------------------------------------------------------------- */

enum { WINDOWS = 96 }; /* for fitting; the same number for testing */

typedef struct places {
    float *z, *states, *y; /* rows x (width + 1), rows x width, rows */
    int32_t *ids;
} places;

static void places_free(places *p)
{
    bo_free(p->z);
    bo_free(p->states);
    bo_free(p->y);
    bo_free(p->ids);
}

static bo_status places_create(lab_run *run, const lab_reader *reader, size_t width, places *p)
{
    bo_context *context = lab_context(run);
    p->z = bo_alloc(context, reader->rows * (width + 1), sizeof *p->z, "hidden states");
    p->states = bo_alloc(context, reader->rows * width, sizeof *p->states, "hidden states");
    p->y = bo_alloc(context, reader->rows, sizeof *p->y, "positions");
    p->ids = bo_alloc(context, reader->rows, sizeof *p->ids, "tokens");
    if (!p->z || !p->states || !p->y || !p->ids) return BO_MEMORY;
    /* From -1 to 1 along a window. */
    for (size_t i = 0; i < reader->rows; i++)
        p->y[i] = 2 * (float)(i % reader->context) / (float)(reader->context - 1) - 1;
    return BO_OK;
}

/* Copies rows of a part of the residual stream and appends a column of ones. */
static bo_status copy_states(lab_run *run, lab_reader *reader, size_t part, size_t width, places *p)
{
    BO_TRY(lab_reader_part(run, reader, part, p->states));
    for (size_t i = 0; i < reader->rows; i++) {
        for (size_t c = 0; c < width; c++) p->z[i * (width + 1) + c] = p->states[i * width + c];
        p->z[i * (width + 1) + width] = 1;
    }
    return BO_OK;
}

/* Fits on the first half of the rows and returns R² on the second half. */
static bo_status position_r2(lab_run *run, const places *p, size_t rows, size_t width, double *out)
{
    float w[512];
    const size_t half = rows / 2;
    double square = 0, error = 0, total = 0;
    for (size_t i = 0; i < half * (width + 1); i++) square += (double)p->z[i] * (double)p->z[i];
    const lab_readout readout = {.rows = half,
                                 .features = width + 1,
                                 .outputs = 1,
                                 .z = p->z,
                                 .y = p->y,
                                 .lambda = 1e-4 * square / (double)(width + 1)};
    BO_TRY(lab_ridge_readout(lab_context(run), &readout, w));
    for (size_t i = half; i < rows; i++) {
        double guess = 0;
        for (size_t c = 0; c <= width; c++) guess += (double)w[c] * (double)p->z[i * (width + 1) + c];
        error += (guess - (double)p->y[i]) * (guess - (double)p->y[i]);
        total += (double)p->y[i] * (double)p->y[i]; /* their mean is 0 */
    }
    *out = 1 - error / total;
    return BO_OK;
}

static void name_part(size_t part, char name[48])
{
    if (part == 0)
        snprintf(name, 48, "embedding");
    else
        snprintf(name, 48, "layer %zu %s", (part + 1) / 2, part % 2 ? "attention" : "MLP");
}

static bo_status read_parts(lab_run *run, lab_reader *reader, const lab_text *text, size_t width, const char *column,
                            places *p, double *best)
{
    *best = -INFINITY;
    BO_TRY(places_create(run, reader, width, p));
    BO_TRY(lab_reader_held_out(run, reader, text, 0, p->ids));
    BO_TRY(lab_reader_read(run, reader, p->ids, 0));
    for (size_t part = 0; part < reader->parts; part++) {
        char name[48];
        double r2;
        BO_TRY(copy_states(run, reader, part, width, p));
        BO_TRY(position_r2(run, p, reader->rows, width, &r2));
        name_part(part, name);
        lab_cell(run, "position", name, column, r2);
        *best = fmax(*best, r2);
    }
    return BO_OK;
}

/* *best: the largest R² of the position over all parts. attentions: NULL for those of the model. */
static bo_status find_positions(lab_run *run, const bo_model *model, const lab_text *text, const char *column,
                                bo_attention *const *attentions, double *best)
{
    lab_reader reader;
    places p = {0};
    const lab_reading reading = {.windows = 2 * WINDOWS, .stream = true, .attentions = attentions};
    BO_TRY(lab_reader_open(run, model, &reading, &reader));
    const bo_status status = read_parts(run, &reader, text, bo_model_describe(model)->width, column, &p, best);
    places_free(&p);
    lab_reader_close(&reader);
    return status;
}

/* Uses the same weights without the causal mask. */
static bo_status find_both_ways(lab_run *run, const bo_model *model, const lab_text *text, double *best)
{
    enum { MAX_LAYERS = 8 };
    bo_attention *open[MAX_LAYERS] = {0};
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < bo_model_describe(model)->layers && i < MAX_LAYERS; i++) {
        bo_attention_desc desc = *bo_attention_describe(bo_model_attention(model, i));
        desc.causal = false;
        status = bo_attention_create(lab_context(run), &desc, &open[i]);
    }
    if (status == BO_OK) status = find_positions(run, model, text, "none, no mask", open, best);
    for (size_t i = 0; i < MAX_LAYERS; i++) bo_attention_destroy(open[i]);
    return status;
}

/* ---- shifted positions ------------------------------------------------------------------------------------------- */

typedef struct shifting {
    float *original, *shifted;
    int32_t *ids;
} shifting;

static bo_status shift_windows(lab_run *run, lab_reader *reader, const lab_text *text, const char *column, shifting *s,
                               double *change)
{
    const size_t vocab = lab_reader_vocab(reader);
    double square = 0;
    BO_TRY(lab_reader_held_out(run, reader, text, 0, s->ids));
    BO_TRY(lab_reader_read(run, reader, s->ids, 0));
    BO_TRY(lab_reader_logits(run, reader, s->original));
    for (size_t i = 0; i < reader->rows * vocab; i++) square += (double)s->original[i] * (double)s->original[i];
    const double size = sqrt(square / (double)(reader->rows * vocab));
    const double loss = lab_reader_loss(reader, s->original, s->ids);
    *change = 0;
    for (int32_t by = 10; by <= 1000; by *= 10) {
        BO_TRY(lab_reader_read(run, reader, s->ids, by));
        BO_TRY(lab_reader_logits(run, reader, s->shifted));
        for (size_t i = 0; i < reader->rows * vocab; i++)
            *change = fmax(*change, fabs((double)s->shifted[i] - (double)s->original[i]) / size);
        lab_point(run, "shift", column, by, lab_reader_loss(reader, s->shifted, s->ids) - loss);
    }
    return BO_OK;
}

static bo_status shift_model(lab_run *run, const bo_model *model, const lab_text *text, const char *column,
                             double *change)
{
    lab_reader reader;
    shifting s = {0};
    BO_TRY(lab_reader_open(run, model, &(lab_reading){.windows = 8, .logits = true}, &reader));
    const size_t numbers = reader.rows * bo_model_describe(model)->vocab;
    s.original = bo_alloc(lab_context(run), numbers, sizeof *s.original, "logits");
    s.shifted = bo_alloc(lab_context(run), numbers, sizeof *s.shifted, "logits");
    s.ids = bo_alloc(lab_context(run), reader.rows, sizeof *s.ids, "tokens");
    const bo_status status =
        s.original && s.shifted && s.ids ? shift_windows(run, &reader, text, column, &s, change) : BO_MEMORY;
    bo_free(s.original);
    bo_free(s.shifted);
    bo_free(s.ids);
    lab_reader_close(&reader);
    return status;
}

/* ---- the models -------------------------------------------------------------------------------------------------- */

enum { KINDS = 4 };
static const bo_positions kinds[KINDS] = {BO_POSITIONS_NONE, BO_POSITIONS_ROPE, BO_POSITIONS_LEARNED,
                                          BO_POSITIONS_SINUSOIDAL};

typedef struct found {
    double loss[KINDS];
    double known, both_ways, shift;
} found;

static bo_model_desc model_of(bo_positions positions)
{
    bo_model_desc desc = {.layers = 2, .width = 64, .block.heads = 4, .context = 64, .block.positions = positions};
    return desc;
}

/* Measures a trained model of one kind. */
static bo_status examine(lab_run *run, const bo_model *model, const lab_text *text, bo_positions kind, found *f)
{
    double best, change;
    const char *name = bo_enum_name(BO_ENUM_POSITIONS, kind);
    if (kind == BO_POSITIONS_ROPE || kind == BO_POSITIONS_SINUSOIDAL) {
        BO_TRY(shift_model(run, model, text, name, &change));
        if (kind == BO_POSITIONS_ROPE) f->shift = change;
    }
    if (kind == BO_POSITIONS_SINUSOIDAL) return BO_OK;
    BO_TRY(find_positions(run, model, text, name, NULL, &best));
    if (kind != BO_POSITIONS_NONE) return BO_OK;
    f->known = best;
    return find_both_ways(run, model, text, &f->both_ways);
}

static bo_status measure_kind(lab_run *run, const lab_text *text, size_t index, found *f)
{
    bo_model *model;
    lab_trained trained;
    const bo_model_desc desc = model_of(kinds[index]);
    const lab_training training = {.batch = lab_size(run, 16, 8),
                                   .steps = lab_size(run, 600, 120),
                                   .from = (double)index / KINDS,
                                   .to = (double)(index + 1) / KINDS};
    BO_TRY(lab_train_new(run, &desc, text, &training, &model, &trained));
    f->loss[index] = trained.loss;
    lab_cell(run, "loss", bo_enum_name(BO_ENUM_POSITIONS, kinds[index]), "loss", trained.loss);
    const bo_status status = examine(run, model, text, kinds[index], f);
    bo_model_destroy(model);
    return status;
}

static bo_status measure_models(lab_run *run, const lab_text *text)
{
    found f;
    for (size_t i = 0; i < KINDS; i++) BO_TRY(measure_kind(run, text, i, &f));
    lab_claim(run, "shift", f.shift);
    lab_claim(run, "helps", f.loss[0] - f.loss[1]);
    lab_claim(run, "known", f.known);
    lab_claim(run, "both-ways", f.both_ways);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    double change, error, unused;
    lab_text text;
    BO_TRY(measure_scores(run, true, &change, &error));
    lab_claim(run, "relative", change);
    lab_claim(run, "closed-form", error);
    BO_TRY(measure_scores(run, false, &change, &unused));
    lab_claim(run, "added", change);
    lab_note(
        run,
        "The text version of the course notes (founding document 002, line 711) has w = 10000^-2 · (i - 1)/d, where "
        "the exponent of the handwriting cannot be determined. Measured here is 10000^(-2(i - 1)/d), the formula of "
        "RoFormer.");
    BO_TRY(lab_text_open(run, 0, &text));
    const bo_status status = measure_models(run, &text);
    lab_text_close(&text);
    return status;
}

const lab_experiment lab_rope = {
    {.name = "rope",
     .group = LAB_ARCHITECTURES,
     .title = "Rotary positions, and models that infer positions",
     .claim = "With rotary positions, queries and keys depend only on their distance. A causal model without "
              "positions learns where its tokens are; without the causal mask it cannot.",
     .source = "RoFormer (arXiv 2104.09864); course notes, RoPE; Haviv et al. (arXiv 2203.16634)",
     .method = "A query and a key of 64 random numbers are rotated to 64 positions each, starting at 0, 1000, … 4000, "
               "and all inner products are compared. Byte-level language models with 2 layers, width 64, 4 heads and "
               "windows of 64 tokens are trained for 600 steps of 16 windows without positions and with rotary, "
               "learned and sinusoidal positions. Ridge regression on the residual stream of 96 held-out windows "
               "learns the position of a token in its window and is tested on 96 more. Windows start anywhere in the "
               "text, so the tokens alone do not reveal positions. Control: the same weights without the causal mask. "
               "Shifted positions: the same windows are read as if they started at 10, 100 and 1000.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true},
    measure};
