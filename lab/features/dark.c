/* dark: features whose frequencies know the data (DARKFormer, 2603.04127): their variance, and models that use them. */
#include "../tools/language.h"
#include "../statistics.h"
#include "dark_learned.h"
#include "dark_variance.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "closed-forms",
     .statement = "Second moments of the estimate are those of the closed forms, for isotropic frequencies, for "
                  "frequencies from N(0, Σ*), Σ* = (I + 2Λ)(I - 2Λ)⁻¹, and for a whitened kernel.",
     .number = "largest |log(measured / closed form)| of the variance",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.15},
    {.name = "gain",
     .statement =
         "On anisotropic data (condition 64) frequencies from N(0, Σ*) have clearly less variance than isotropic ones.",
     .number = "variance of isotropic frequencies / variance with Σ*",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.3},
    {.name = "whitened",
     .statement = "The variance of a whitened kernel, M = Λ^-½ up to a factor, does not depend on anisotropy.",
     .number = "variance at condition 64 / variance at condition 1",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.9,
     .upper = 1.1},
    {.name = "sixth",
     .statement = "Isotropic frequencies have an infinite variance where an eigenvalue of Λ is past 1/6.",
     .number = "growth exponent of the second moment with the number of draws, at λ = 0.4 less at λ = 0.1",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.15},
    {.name = "half",
     .statement = "With Σ* this happens past 1/2 only.",
     .number = "growth exponent of the second moment with the number of draws, at λ = 0.7 less at λ = 0.4",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.15},
    {.name = "finetuning",
     .statement = "A softmax model finetuned with DARK attention predicts more tokens than one finetuned with FAVOR+.",
     .number = "next-token accuracy of DARK - that of FAVOR+, after finetuning",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.01},
    {.name = "frozen",
     .statement = "Where the projections to q and k stay frozen, so that M cannot be folded into them, it does so too.",
     .number = "next-token accuracy of DARK - that of FAVOR+, after finetuning with W_Q and W_K frozen",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.01,
     .source =
         "exp((Mq)·(Mk)) is FAVOR+ of Mq and Mk: with free projections a full M adds nothing that can be expressed"},
    {.name = "learned-geometry",
     .statement = "M, learned while the projections stay frozen, makes queries and keys less anisotropic.",
     .number = "effective dimension (tr Λ)²/tr Λ² of Mq and Mk / that of q and k, geometric mean over heads",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "learned-variance",
     .statement = "Estimates of the kernel that it learned have less variance than those of softmax's.",
     .number = "mean |M(q + k)|², which is ln of an estimate's E[estimate²] / kernel², / mean |q + k|², geometric mean "
               "over heads",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.9},
    {.name = "mostly",
     .statement = "DARK narrows the gap to softmax in finetuning more than in pretraining.",
     .number = "gain of accuracy over FAVOR+ in finetuning less the gain in pretraining",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0},
    {.name = "rate",
     .statement = "DARK bears larger learning rates than FAVOR+ before it diverges.",
     .number = "highest rate of DARK over that of FAVOR+, in octaves",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5},
    {.name = "useful-rate",
     .statement = "DARK still learns at larger rates than FAVOR+.",
     .number = "highest rate at which DARK ends within 0.5 nats of the best run over that of FAVOR+, in octaves",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5},
    {.name = "spikes",
     .statement = "DARK has fewer loss spikes.",
     .number = "spikes of FAVOR+ less those of DARK, in 100 steps, over the rates at which neither diverges",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5},
};

static const bo_lab_table tables[] = {
    {.name = "variance",
     .title = "Variance of one frequency's estimate of exp(q·k) by anisotropy, at a fixed trace",
     .rows = "condition number of Λ",
     .values = "variance / E[exp(q·k)²]",
     .log_x = true,
     .theory = "isotropic, closed form"},
    {.name = "threshold",
     .title = "Where second moments have no mean: growth of their sample mean with the number of draws",
     .rows = "λ",
     .values = "exponent; 0 where the mean is finite",
     .theory = "isotropic, predicted"},
    {.name = "accuracy",
     .title = "Next-token accuracy, trained from scratch and finetuned from softmax",
     .rows = "attention",
     .values = "share of tokens predicted",
     .picture = BO_LAB_BARS},
    {.name = "learned",
     .title = "Queries and keys of the softmax model, and what the learned M makes of them",
     .rows = "head",
     .values = "effective dimension, of 16; ln of the relative second moment",
     .picture = BO_LAB_BARS},
    {.name = "stability",
     .title = "Training loss at the end by learning rate (AdamW, constant, gradients not clipped); empty: diverged",
     .rows = "learning rate",
     .values = "nats a token",
     .log_x = true},
};

/* ---- models ------------------------------------------------------------------------------------------------------ */

enum { SOFTMAX, FAVOR, LEARNED, DARK, PROPOSAL, KINDS };
static const char *const names[KINDS] = {"softmax", "FAVOR+", "learned features", "DARK", "FAVOR+ from N(0, Σ*)"};
static const char *const presets[KINDS] = {"softmax", "favor", "hedgehog", "dark", "favor"};

/* q and k are not normalized, as in the models of the paper: after training they are as large and as anisotropic as
 * they please. */
static bo_model_desc model_of(size_t kind)
{
    bo_model_desc desc = {.layers = 2, .width = 64, .heads = 4, .context = 64, .query_norm = BO_CHOICE_NO};
    bo_attention_preset(presets[kind], &desc.attention);
    if (kind == FAVOR || kind == DARK || kind == PROPOSAL) desc.attention.features.features = 64;
    if (kind == PROPOSAL) desc.attention.proposal = BO_PROPOSAL_GAUSSIAN;
    return desc;
}

enum { SCORED = 8192 };

typedef struct outcome {
    double pretrained, finetuned, frozen; /* accuracies */
} outcome;

static bo_status pretrain(lab_run *run, const lab_text *text, size_t kind, bo_model **model, outcome *out)
{
    lab_trained trained;
    const bo_model_desc desc = model_of(kind);
    const lab_training training = {.batch = lab_size(run, 16, 8),
                                   .steps = lab_size(run, 400, 40),
                                   .eval_tokens = 1024,
                                   .from = 0.2 + 0.3 * (double)kind / KINDS,
                                   .to = 0.2 + 0.3 * (double)(kind + 1) / KINDS};
    BO_TRY(lab_train_new(run, &desc, text, &training, model, &trained));
    BO_TRY(lab_accuracy(run, *model, text, SCORED, &out->pretrained));
    lab_cell(run, "accuracy", names[kind], "from scratch", out->pretrained);
    return BO_OK;
}

/* With a quarter of the steps and half of the rates; frozen: projections to q and k stay as they are. */
static bo_status finetune(lab_run *run, const lab_text *text, size_t kind, const bo_model *softmax, bool frozen,
                          double *accuracy)
{
    bo_model *model;
    lab_trained trained;
    const bo_model_desc desc = model_of(kind);
    const double place = (double)(kind + (frozen ? KINDS : 0)) / (2 * KINDS);
    const lab_training training = {.optimizer = {.rate = 0.01, .other_rate = 1.5e-3},
                                   .batch = lab_size(run, 16, 8),
                                   .steps = lab_size(run, 100, 12),
                                   .eval_tokens = 1024,
                                   .freeze = frozen ? "*q_proj*,*k_proj*" : NULL,
                                   .from = 0.5 + 0.2 * place,
                                   .to = 0.5 + 0.2 * place + 0.1 / KINDS};
    BO_TRY(lab_swap(run, &desc, softmax, &model));
    bo_status status = lab_train(run, model, text, &training, &trained);
    if (status == BO_OK) status = lab_accuracy(run, model, text, SCORED, accuracy);
    if (status == BO_OK && frozen && kind == DARK) status = lab_dark_learned(run, text, softmax, model);
    bo_model_destroy(model);
    lab_cell(run, "accuracy", names[kind], frozen ? "finetuned, W_Q and W_K frozen" : "finetuned", *accuracy);
    return status;
}

static bo_status finetune_all(lab_run *run, const lab_text *text, const bo_model *softmax, outcome *found)
{
    for (size_t kind = SOFTMAX; kind < KINDS; kind++)
        BO_TRY(finetune(run, text, kind, softmax, false, &found[kind].finetuned));
    for (size_t kind = SOFTMAX; kind < KINDS; kind++)
        BO_TRY(finetune(run, text, kind, softmax, true, &found[kind].frozen));
    return BO_OK;
}

static bo_status measure_accuracy(lab_run *run, const lab_text *text)
{
    outcome found[KINDS] = {0};
    bo_model *softmax = NULL;
    bo_status status = pretrain(run, text, SOFTMAX, &softmax, &found[SOFTMAX]);
    for (size_t kind = FAVOR; status == BO_OK && kind < KINDS; kind++) {
        bo_model *model = NULL;
        status = pretrain(run, text, kind, &model, &found[kind]);
        bo_model_destroy(model);
    }
    if (status == BO_OK) status = finetune_all(run, text, softmax, found);
    bo_model_destroy(softmax);
    if (status != BO_OK) return status;
    const double finetuned = found[DARK].finetuned - found[FAVOR].finetuned;
    lab_claim(run, "finetuning", finetuned);
    lab_claim(run, "frozen", found[DARK].frozen - found[FAVOR].frozen);
    lab_claim(run, "mostly", finetuned - (found[DARK].pretrained - found[FAVOR].pretrained));
    return BO_OK;
}

/* ---- stability --------------------------------------------------------------------------------------------------- */

enum { RATES = 13, RECENT = 15, MOST_STEPS = 256 };
static const double least_rate = 1.0 / 256, spike = 0.5; /* nats above the median of the steps before */

/* The losses of a run. */
typedef struct history {
    double losses[MOST_STEPS];
    size_t count;
} history;

static void remember(void *user, uint64_t step, double loss)
{
    history *h = user;
    if (step < MOST_STEPS) h->losses[h->count++] = loss;
}

static size_t spikes_in(const history *h)
{
    size_t spikes = 0;
    for (size_t i = RECENT; i < h->count; i++)
        spikes += h->losses[i] > lab_median(h->losses + i - RECENT, RECENT) + spike;
    return spikes;
}

typedef struct stability {
    bool stable[RATES];
    double last[RATES];   /* loss at the end; INFINITY where it diverged */
    double spikes[RATES]; /* in 100 steps */
} stability;

static bo_status try_rate(lab_run *run, const lab_text *text, size_t kind, size_t index, stability *out)
{
    bo_model *model;
    lab_trained trained;
    history h = {0};
    const double rate = ldexp(least_rate, (int)index);
    const bo_model_desc desc = model_of(kind);
    const lab_training training = {.optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = rate, .clip = -1},
                                   .schedule = {.kind = BO_SCHEDULE_CONSTANT},
                                   .batch = lab_size(run, 8, 4),
                                   .steps = lab_size(run, 120, 24),
                                   .eval_tokens = 256,
                                   .watch = remember,
                                   .user = &h,
                                   .from = 0.7 + 0.3 * (double)(index * 2 + (kind == DARK)) / (2.0 * RATES),
                                   .to = 0.7 + 0.3 * (double)(index * 2 + 1 + (kind == DARK)) / (2.0 * RATES)};
    BO_TRY(lab_train_new(run, &desc, text, &training, &model, &trained));
    bo_model_destroy(model);
    out->stable[index] = !trained.diverged && trained.last < h.losses[0];
    out->last[index] = out->stable[index] ? trained.last : INFINITY;
    out->spikes[index] = 100.0 * (double)spikes_in(&h) / (double)training.steps;
    if (out->stable[index]) lab_point(run, "stability", names[kind], rate, trained.last);
    return BO_OK;
}

/* The octave of the highest rate below the first that diverges; -1: none. */
static double highest(const stability *s)
{
    size_t i = 0;
    while (i < RATES && s->stable[i]) i++;
    return (double)i - 1;
}

/* The octave of the highest rate whose run ends below `wanted`; -1: none. */
static double highest_below(const stability *s, double wanted)
{
    size_t i = RATES;
    while (i > 0 && s->last[i - 1] > wanted) i--;
    return (double)i - 1;
}

static double least_of_both(const stability *a, const stability *b)
{
    double least = INFINITY;
    for (size_t i = 0; i < RATES; i++) least = fmin(least, fmin(a->last[i], b->last[i]));
    return least;
}

static bo_status measure_stability(lab_run *run, const lab_text *text)
{
    stability favor = {0}, dark = {0};
    const size_t step = lab_size(run, 1, 3);
    double more = 0;
    size_t both = 0;
    for (size_t i = 0; i < RATES; i += step) {
        BO_TRY(try_rate(run, text, FAVOR, i, &favor));
        BO_TRY(try_rate(run, text, DARK, i, &dark));
        for (size_t j = i + 1; j < i + step && j < RATES; j++) /* left out: as the one before */
            favor.stable[j] = favor.stable[i], dark.stable[j] = dark.stable[i], favor.last[j] = favor.last[i],
            dark.last[j] = dark.last[i];
        if (!favor.stable[i] || !dark.stable[i]) continue;
        more += favor.spikes[i] - dark.spikes[i];
        both++;
    }
    lab_claim(run, "rate", highest(&dark) - highest(&favor));
    const double useful = least_of_both(&favor, &dark) + 0.5; /* nats */
    lab_claim(run, "useful-rate", highest_below(&dark, useful) - highest_below(&favor, useful));
    lab_claim(run, "spikes", both ? more / (double)both : NAN);
    return BO_OK;
}

static bo_status measure_models(lab_run *run, const lab_text *text)
{
    BO_TRY(measure_accuracy(run, text));
    return measure_stability(run, text);
}

static bo_status measure(lab_run *run)
{
    lab_text text;
    BO_TRY(lab_dark_variance(run));
    BO_TRY(lab_dark_thresholds(run));
    BO_TRY(lab_text_open(run, 0, &text));
    const bo_status status = measure_models(run, &text);
    lab_text_close(&text);
    return status;
}

const lab_experiment lab_dark = {
    {.name = "dark",
     .group = LAB_FEATURES,
     .title = "Positive features that know the geometry of queries and keys",
     .claim =
         "For Gaussian queries and keys the variance of positive features is least when frequencies are drawn from "
         "N(0, Σ*), and finite up to λ = 1/2 instead of 1/6. A model whose attention learns its geometry comes closer "
         "to softmax than isotropic features do, most when a softmax model is finetuned, and trains more stably.",
     .source = "DARKFormer (2603.04127)",
     .method =
         "Variance: q, k ~ N(0, Λ) in 8 dimensions with geometric spectra of trace 0.22, 128 draws of 4096 "
         "independent frequencies; the law is estimated from 8192 queries and keys. Thresholds: one dimension, the "
         "median of means over blocks of 64 to 4096 frequencies, fitted by a power of the size. Models of bytes with "
         "2 layers, width 64, 4 heads, windows of 64 tokens and 64 features, queries and keys not normalized, are "
         "trained from scratch for 400 steps of 16 windows; the softmax model then gets the other attentions in its "
         "place and 100 further steps at half the rates, as it does itself, once with all weights and once without "
         "those that make q and k. M begins as the identity; what it then makes of queries and keys is looked at over "
         "512 held-out bytes (an estimate's E[estimate²] / kernel² is exp|q + k|²). Stability: 120 steps of AdamW at "
         "constant rates from 1/256 to 16 in octaves, 8 windows a step, gradients not clipped; a run diverged if a "
         "loss was not finite or its last tenth was above its first step, which norms and bounded steps let happen at "
         "very large rates only; so the highest rate that is still of use is compared too. A spike is a step 0.5 nats "
         "above the median of the 15 before. FAVOR+ and DARK differ in M alone.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true},
    measure};
