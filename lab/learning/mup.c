/* mup: does the best learning rate stay the same as a model grows wider? */
#include "../experiment.h"
#include "rates.h"
#include <bochner/widths.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const bo_lab_claim claims[] = {
    {.name = "stays",
     .statement = "Under μP, the best learning rate does not change with the width.",
     .number = "change of log2 of the best learning rate per doubling of the width",
     .rule = BO_LAB_BETWEEN,
     .bound = -0.3,
     .upper = 0.3},
    {.name = "falls",
     .statement = "In the standard parametrization, the best learning rate falls with the width (theory: as one over "
                  "the width).",
     .number = "change of log2 of the best learning rate per doubling of the width",
     .rule = BO_LAB_AT_MOST,
     .bound = -0.5},
    {.name = "transfer",
     .statement = "Under μP, the best learning rate of the smallest model is good enough for the largest.",
     .number = "held-out loss of the largest model at that rate minus its best held-out loss, in nats per byte",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.03},
    {.name = "no-transfer",
     .statement = "In the standard parametrization, transferring the learning rate costs more than under μP.",
     .number = "the same difference in the standard parametrization minus that under μP, in nats per byte",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.05},
    {.name = "activations",
     .statement = "Under μP, no activation grows with the width after some steps, including the logits.",
     .number = "largest exponent of mean |activation| as a power of the width",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.25},
    {.name = "spectral",
     .statement = "μP satisfies the spectral condition: the spectral norms of W and ΔW are proportional to √(fan out "
                  "/ fan in).",
     .number = "median over matrices of the |exponent| of |W| / √(fan out / fan in) as a power of the width, or of "
               "|ΔW|, whichever is larger",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.25,
     .source =
         "A Spectral Condition for Feature Learning (arXiv 2310.17813); course notes, maximal update parametrization"},
    {.name = "spectral-control",
     .statement = "AdamW in the standard parametrization violates the spectral condition: updates at a constant "
                  "learning rate grow with the fan in.",
     .number = "median over matrices of the |exponent| of |ΔW| / √(fan out / fan in) as a power of the width",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5,
     .source =
         "A Spectral Condition for Feature Learning (arXiv 2310.17813); course notes, maximal update parametrization"},
};

static const bo_lab_table tables[] = {
    {.name = "standard",
     .title = "Standard parametrization: held-out loss by learning rate, one line per width",
     .rows = "learning rate",
     .values = "held-out loss, nats per byte",
     .log_x = true},
    {.name = "mup",
     .title = "μP: held-out loss by learning rate, one line per width",
     .rows = "learning rate",
     .values = "held-out loss, nats per byte",
     .log_x = true},
    {.name = "best",
     .title = "Best learning rate by width",
     .rows = "width",
     .values = "learning rate",
     .log_x = true,
     .log_y = true,
     .theory = "1 / width"},
    {.name = "exponents",
     .title = "Exponents as a power of the width after the last step (0: constant)",
     .rows = "part",
     .values = "exponent",
     .plot = BO_LAB_BARS},
};

enum { MAX_WIDTHS = 4, HEAD = 16, STANDARD = 0, MUP = 1, SIDES = 2, MIN_WIDTH = 32, RATES = 7 };
static const bo_parametrization kinds[SIDES] = {BO_PARAMETRIZATION_STANDARD, BO_PARAMETRIZATION_MUP};
static const char *const table_names[SIDES] = {"standard", "mup"};

typedef struct sweep {
    lab_run *run;
    lab_text text;
    size_t widths;
    double width[MAX_WIDTHS];
    lab_rates rates[SIDES][MAX_WIDTHS];
    double done_work, all; /* work done, and total work */
} sweep;

static bo_model_desc shape(size_t width, size_t side)
{
    return (bo_model_desc){.layers = 2,
                           .width = width,
                           .block.heads = width / HEAD,
                           .context = 64,
                           .untied = true,
                           .block.mlp = BO_MLP_GELU,
                           .parametrization = kinds[side],
                           .base_width = MIN_WIDTH};
}

/* ---- transfer ---------------------------------------------------------------------------------------------------- */

static bo_status train(sweep *s, size_t side, size_t width, double rate, double *loss)
{
    const bo_model_desc desc = shape((size_t)s->width[width], side);
    const double work = s->width[width] * s->width[width];
    lab_training training = {.optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = rate},
                             .batch = lab_size(s->run, 4, 2),
                             .steps = lab_size(s->run, 120, 25),
                             .eval_tokens = lab_size(s->run, 8192, 2048),
                             .from = s->done_work / s->all};
    training.to = (s->done_work += work) / s->all;
    bo_model *model;
    lab_trained trained;
    BO_TRY(lab_train_new(s->run, &desc, &s->text, &training, &model, &trained));
    bo_model_destroy(model);
    *loss = fmin(trained.loss, log(256)); /* a diverged run counts as a uniform prediction */
    return BO_OK;
}

/* At its base width, μP equals the standard parametrization bit by bit, so nothing is trained twice. */
static bo_status sweep_width(sweep *s, size_t side, size_t width)
{
    lab_rates *r = &s->rates[side][width];
    char column[32];
    snprintf(column, sizeof column, "width %.0f", s->width[width]);
    *r = lab_rates_make(RATES, 0x1p-9, 2);
    for (size_t i = 0; i < r->count; i++) {
        if (side == MUP && width == 0)
            r->losses[i] = s->rates[STANDARD][0].losses[i];
        else
            BO_TRY(train(s, side, width, r->rates[i], &r->losses[i]));
        lab_point(s->run, table_names[side], column, r->rates[i], r->losses[i]);
    }
    return BO_OK;
}

/* Slope of log2 of the best rate over log2 of the width. */
static double drift(const sweep *s, size_t side)
{
    double best[MAX_WIDTHS];
    for (size_t w = 0; w < s->widths; w++) best[w] = lab_rates_between(&s->rates[side][w]);
    return lab_exponent(s->width, best, s->widths);
}

/* Loss of the largest model at the best rate of the smallest, minus its best loss. */
static double transfer_cost(const sweep *s, size_t side)
{
    const lab_rates *small = &s->rates[side][0], *large = &s->rates[side][s->widths - 1];
    return lab_rates_loss(large, lab_rates_between(small)) - large->losses[lab_rates_best(large)];
}

static bo_status measure_transfer(sweep *s)
{
    double squares = 0;
    for (size_t w = 0; w < s->widths; w++) squares += s->width[w] * s->width[w] * (w ? 2 : 1);
    s->all = 1.1 * squares * RATES; /* the remainder is the coordinate check */
    for (size_t side = 0; side < SIDES; side++)
        for (size_t w = 0; w < s->widths; w++) BO_TRY(sweep_width(s, side, w));
    for (size_t w = 0; w < s->widths; w++) {
        for (size_t side = 0; side < SIDES; side++)
            lab_point(s->run, "best", table_names[side], s->width[w], lab_rates_between(&s->rates[side][w]));
        lab_point(s->run, "best", "1 / width", s->width[w],
                  lab_rates_between(&s->rates[STANDARD][0]) * s->width[0] / s->width[w]);
    }
    lab_claim(s->run, "stays", drift(s, MUP));
    lab_claim(s->run, "falls", drift(s, STANDARD));
    lab_claim(s->run, "transfer", transfer_cost(s, MUP));
    lab_claim(s->run, "no-transfer", transfer_cost(s, STANDARD) - transfer_cost(s, MUP));
    const lab_rates *large[SIDES] = {&s->rates[STANDARD][s->widths - 1], &s->rates[MUP][s->widths - 1]};
    lab_note(s->run,
             "Each at its own best learning rate, the largest model reaches %.3f nats per byte in the standard "
             "parametrization and %.3f under μP: μP saves the search, not loss.",
             large[STANDARD]->losses[lab_rates_best(large[STANDARD])], large[MUP]->losses[lab_rates_best(large[MUP])]);
    return BO_OK;
}

/* ---- sizes of activations and updates ---------------------------------------------------------------------------- */

static double largest(double so_far, double slope)
{
    return isfinite(slope) ? fmax(so_far, slope) : so_far; /* a quantity that is 0 at all widths has no slope */
}

static void record_activations(lab_run *run, const bo_widths *w, size_t side, double *max)
{
    *max = -INFINITY;
    for (size_t i = 0; i < w->parts; i++) {
        const bo_widths_trend *trend = &w->activations[w->steps * w->parts + i];
        char row[64];
        snprintf(row, sizeof row, "activation, %s", trend->name);
        lab_cell(run, "exponents", row, table_names[side], trend->slope);
        *max = largest(*max, trend->slope);
    }
}

/* Shortens "model.layers.0.mlp.up_proj.weight" to "layer 0 up_proj". */
static void matrix_name(const char *name, char out[32])
{
    static const char layers[] = "model.layers.";
    const char *end = strrchr(name, '.'), *begin = end ? end : name;
    while (begin > name && begin[-1] != '.') begin--;
    const int length = end ? (int)(end - begin) : (int)strlen(name);
    if (strncmp(name, layers, sizeof layers - 1) == 0)
        snprintf(out, 32, "layer %c %.*s", name[sizeof layers - 1], length, begin);
    else
        snprintf(out, 32, "%.*s", length, begin);
}

/* Statistics of the |exponents| of norms and changes of all matrices. */
typedef struct spectral {
    double norm, change, max; /* medians, and the largest of both */
} spectral;

static spectral record_norms(lab_run *run, const bo_widths *w, size_t side)
{
    enum { MAX_TRENDS = 32 };
    double norms[MAX_TRENDS], changes[MAX_TRENDS], max = -INFINITY;
    size_t norm_count = 0, change_count = 0;
    for (size_t i = 0; i < w->matrices; i++) {
        const bo_widths_trend *norm = &w->norms[i], *change = &w->changes[i];
        char name[32], row[64];
        matrix_name(norm->name, name);
        max = largest(largest(max, fabs(norm->slope)), fabs(change->slope));
        if (norm_count < MAX_TRENDS && isfinite(norm->slope)) norms[norm_count++] = fabs(norm->slope);
        if (change_count < MAX_TRENDS && isfinite(change->slope)) changes[change_count++] = fabs(change->slope);
        if (strncmp(name, "layer 0", 7) == 0) continue; /* the table shows only the other layer */
        snprintf(row, sizeof row, "|ΔW|, %s", name);
        lab_cell(run, "exponents", row, table_names[side], change->slope);
    }
    return (spectral){lab_median(norms, norm_count), lab_median(changes, change_count), max};
}

static bo_status measure_sizes(sweep *s)
{
    size_t widths[MAX_WIDTHS];
    double grows[SIDES];
    spectral sizes[SIDES];
    for (size_t w = 0; w < s->widths; w++) widths[w] = (size_t)s->width[w];
    for (size_t side = 0; side < SIDES; side++) {
        bo_widths_desc desc = {.model = shape(MIN_WIDTH, side),
                               .widths = widths,
                               .width_count = s->widths,
                               .optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = 0x1p-7},
                               .seed = lab_seed(s->run)};
        desc.model.seed = lab_seed(s->run);
        bo_widths *checked;
        BO_TRY(bo_widths_measure(lab_context(s->run), &desc, &checked));
        record_activations(s->run, checked, side, &grows[side]);
        sizes[side] = record_norms(s->run, checked, side);
        bo_widths_destroy(checked);
        BO_TRY(lab_progress(s->run, 0.95));
    }
    lab_claim(s->run, "activations", grows[MUP]);
    lab_claim(s->run, "spectral", fmax(sizes[MUP].norm, sizes[MUP].change));
    lab_claim(s->run, "spectral-control", sizes[STANDARD].change);
    lab_note(
        s->run,
        "The largest |exponent| of any matrix, for |W| or for |ΔW| after the steps, is %.2f under μP and %.2f in the "
        "standard parametrization.",
        sizes[MUP].max, sizes[STANDARD].max);
    lab_note(s->run, "In the standard parametrization, the fastest growing activation has the exponent %.2f.",
             grows[STANDARD]);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    sweep s = {.run = run, .widths = lab_size(run, 4, 3)};
    for (size_t w = 0; w < s.widths; w++) s.width[w] = (double)((size_t)MIN_WIDTH << w);
    BO_TRY(lab_text_open(run, (size_t)1 << 18, &s.text));
    bo_status status = measure_transfer(&s);
    if (status == BO_OK) status = measure_sizes(&s);
    lab_text_close(&s.text);
    return status;
}

const lab_experiment lab_mup = {
    {.name = "mup",
     .group = LAB_LEARNING,
     .title = "Transfer of learning rates across widths (μP)",
     .claim = "Under the maximal-update parametrization (μP), the best learning rate of a small model is also the "
              "best of a large one, and activations and updates keep their size at every width. In the standard "
              "parametrization neither holds.",
     .source = "Tensor Programs V (arXiv 2203.03466)",
     .method =
         "Byte-level transformers with two layers, heads of dimension 16, widths 32, 64, 128 and 256 and untied "
         "embeddings learn a text with AdamW for 120 steps of 4 windows of 64 bytes (cosine schedule), at seven "
         "learning rates from 2⁻⁹ to 2⁻³. The base width of μP is 32, where both parametrizations are identical. The "
         "best rate is the minimum of a parabola through the best three; a loss above ln 256 counts as ln 256. Sizes: "
         "the same models take 5 steps at 2⁻⁷ on one sequence (coordinate check); exponents are slopes of logarithms "
         "over the logarithm of the width. Random components fall as one over the square root of the width, so only "
         "growth counts for activations.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true},
    measure};
