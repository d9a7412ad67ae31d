/* dark: positive features whose frequencies are adapted to the data (DARKFormer, 2603.04127): their variance, and
 * models that use them. */
#include "dark_learned.h"
#include "dark_variance.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "closed-forms",
     .statement = "The measured second moments of the kernel estimate equal the closed forms for isotropic "
                  "frequencies, for frequencies from N(0, Σ*) with Σ* = (I + 2Λ)(I - 2Λ)⁻¹, and for a whitened kernel.",
     .number = "largest |log(measured variance / closed form)|",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.15},
    {.name = "gain",
     .statement =
         "On anisotropic data (condition number 64), frequencies from N(0, Σ*) have at least 1.3 times less variance "
         "than isotropic ones.",
     .number = "variance with isotropic frequencies divided by variance with frequencies from N(0, Σ*)",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.3,
     .passage =
         LAB_PAPERS "line 16: \"queries and keys are typically anisotropic. This induces high Monte Carlo "
                    "variance in isotropic sampling schemes […]. Importance sampling can address this by adapting "
                    "the sampling distribution to the input geometry\""},
    {.name = "whitened",
     .statement = "The variance of a whitened kernel, with M proportional to Λ^-½, does not depend on the anisotropy "
                  "of the data.",
     .number = "variance at condition number 64 divided by variance at condition number 1",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.9,
     .upper = 1.1},
    {.name = "sixth",
     .statement = "Isotropic frequencies have infinite variance if an eigenvalue of Λ exceeds 1/6.",
     .number = "growth exponent of the second moment in the number of draws, at λ = 0.4 minus at λ = 0.1",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.15},
    {.name = "half",
     .statement = "With frequencies from N(0, Σ*), the variance becomes infinite only if an eigenvalue of Λ exceeds "
                  "1/2.",
     .number = "growth exponent of the second moment in the number of draws, at λ = 0.7 minus at λ = 0.4",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.15},
    {.name = "finetuning",
     .statement = "A softmax model finetuned with DARK attention predicts more tokens correctly than one finetuned "
                  "with FAVOR+.",
     .number = "next-token accuracy with DARK minus next-token accuracy with FAVOR+, after finetuning",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.01,
     .passage =
         LAB_PAPERS "line 16: \"DARKFormer narrows the performance gap with exact softmax attention, particularly "
                    "in finetuning regimes\""},
    {.name = "frozen",
     .statement = "DARK attention is also more accurate than FAVOR+ if the query and key projections stay frozen in "
                  "finetuning, so that they cannot absorb M.",
     .number = "next-token accuracy with DARK minus next-token accuracy with FAVOR+, after finetuning with W_Q and "
               "W_K frozen",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.01,
     .source =
         "exp((Mq)·(Mk)) is FAVOR+ applied to Mq and Mk, so with trainable projections a full M adds no expressive "
         "power"},
    {.name = "learned-geometry",
     .statement = "A matrix M that is learned while the projections stay frozen makes queries and keys less "
                  "anisotropic.",
     .number = "effective dimension (tr Λ)²/tr Λ² of Mq and Mk divided by that of q and k, geometric mean over heads",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "learned-variance",
     .statement = "Estimates of the learned kernel have less variance than estimates of the softmax kernel.",
     .number = "mean |M(q + k)|² divided by mean |q + k|², where |q + k|² = ln(E[estimate²] / kernel²), geometric "
               "mean over heads",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.9},
    {.name = "mostly",
     .statement = "DARK narrows the gap to softmax more in finetuning than in pretraining.",
     .number = "accuracy gain over FAVOR+ in finetuning minus accuracy gain in pretraining",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0,
     .passage = LAB_PAPERS "line 16: \"narrows the performance gap with exact softmax attention, particularly in "
                           "finetuning regimes\""},
    {.name = "rate",
     .statement = "DARK tolerates larger learning rates than FAVOR+ before training diverges.",
     .number = "log2 of the highest stable learning rate of DARK divided by that of FAVOR+",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5,
     .source = LAB_PAPERS "line 16: \"exhibits better training stability\", without a measure; we chose this measure"},
    {.name = "useful-rate",
     .statement = "DARK still learns at larger learning rates than FAVOR+.",
     .number = "log2 of the highest learning rate at which DARK ends within 0.5 nats of the best run, divided by that "
               "of FAVOR+",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5,
     .source = LAB_PAPERS "line 16: \"exhibits better training stability\", without a measure; we chose this measure"},
    {.name = "spikes",
     .statement = "Training with DARK has fewer loss spikes than training with FAVOR+.",
     .number = "spikes per 100 steps with FAVOR+ minus spikes per 100 steps with DARK, over the learning rates at "
               "which neither diverges",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5,
     .source = LAB_PAPERS "line 16: \"exhibits better training stability\", without a measure; we chose this measure"},
};

static const bo_lab_table tables[] = {
    {.name = "variance",
     .title = "Variance of the estimate of exp(q·k) from one frequency, by anisotropy at constant trace",
     .rows = "condition number of Λ",
     .values = "variance / E[exp(q·k)²]",
     .log_x = true,
     .theory = "isotropic, closed form"},
    {.name = "threshold",
     .title = "Growth of the sample mean of the second moment with the number of draws",
     .rows = "λ",
     .values = "growth exponent (0 if the mean is finite)",
     .theory = "isotropic, predicted"},
    {.name = "accuracy",
     .title = "Next-token accuracy, trained from scratch and finetuned from softmax",
     .rows = "attention",
     .values = "fraction of tokens predicted correctly",
     .plot = BO_LAB_BARS},
    {.name = "learned",
     .title = "Queries and keys of the softmax model, before and after the learned M",
     .rows = "head",
     .values = "effective dimension (at most 16); ln of the relative second moment",
     .plot = BO_LAB_BARS},
    {.name = "stability",
     .title = "Final training loss by learning rate (AdamW, constant rate, no gradient clipping); empty cells diverged",
     .rows = "learning rate",
     .values = "nats per token",
     .log_x = true},
};

/* ---- models ------------------------------------------------------------------------------------------------------ */

enum { SOFTMAX, FAVOR, LEARNED, DARK, PROPOSAL, KINDS };
static const char *const names[KINDS] = {"softmax", "FAVOR+", "learned features", "DARK", "FAVOR+ from N(0, Σ*)"};
static const char *const presets[KINDS] = {"softmax", "favor", "hedgehog", "dark", "favor"};

/* Queries and keys are not normalized, as in the paper's models, so their size and anisotropy after training are
 * unconstrained. */
static bo_model_desc model_of(size_t kind)
{
    bo_model_desc desc = {.layers = 2, .width = 64, .block.heads = 4, .context = 64, .block.query_norm = BO_CHOICE_NO};
    bo_attention_preset(presets[kind], &desc.block.attention);
    if (kind == FAVOR || kind == DARK || kind == PROPOSAL) desc.block.attention.features.features = 64;
    if (kind == PROPOSAL) desc.block.attention.proposal = BO_PROPOSAL_GAUSSIAN;
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

/* Finetunes with a quarter of the steps and half of the learning rates. frozen: the query and key projections are not
 * trained. */
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

enum { RATES = 13, RECENT = 15, MAX_STEPS = 256 };
static const double min_rate = 1.0 / 256, spike_height = 0.5; /* nats above the median of the previous steps */

/* The losses of one training run. */
typedef struct history {
    double losses[MAX_STEPS];
    size_t count;
} history;

static void record_loss(void *user, uint64_t step, double loss)
{
    history *h = user;
    if (step < MAX_STEPS) h->losses[h->count++] = loss;
}

static size_t spikes_in(const history *h)
{
    size_t spikes = 0;
    for (size_t i = RECENT; i < h->count; i++)
        spikes += h->losses[i] > lab_median(h->losses + i - RECENT, RECENT) + spike_height;
    return spikes;
}

typedef struct stability {
    bool stable[RATES];
    double last[RATES];   /* final loss; INFINITY if the run diverged */
    double spikes[RATES]; /* per 100 steps */
} stability;

static bo_status try_rate(lab_run *run, const lab_text *text, size_t kind, size_t index, stability *out)
{
    bo_model *model;
    lab_trained trained;
    history h = {0};
    const double rate = ldexp(min_rate, (int)index);
    const bo_model_desc desc = model_of(kind);
    const lab_training training = {.optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = rate, .clip = -1},
                                   .schedule = {.kind = BO_SCHEDULE_CONSTANT},
                                   .batch = lab_size(run, 8, 4),
                                   .steps = lab_size(run, 120, 24),
                                   .eval_tokens = 256,
                                   .watch = record_loss,
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

/* Returns log2 of the highest rate below the first that diverges, relative to the lowest rate; -1 if there is none. */
static double highest(const stability *s)
{
    size_t i = 0;
    while (i < RATES && s->stable[i]) i++;
    return (double)i - 1;
}

/* Returns log2 of the highest rate whose run ends below `target_loss`, relative to the lowest rate; -1 if there is
 * none. */
static double highest_below(const stability *s, double target_loss)
{
    size_t i = RATES;
    while (i > 0 && s->last[i - 1] > target_loss) i--;
    return (double)i - 1;
}

static double min_of_both(const stability *a, const stability *b)
{
    double min = INFINITY;
    for (size_t i = 0; i < RATES; i++) min = fmin(min, fmin(a->last[i], b->last[i]));
    return min;
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
        /* not run in quick mode: copied from the previous rate */
        for (size_t j = i + 1; j < i + step && j < RATES; j++)
            favor.stable[j] = favor.stable[i], dark.stable[j] = dark.stable[i], favor.last[j] = favor.last[i],
            dark.last[j] = dark.last[i];
        if (!favor.stable[i] || !dark.stable[i]) continue;
        more += favor.spikes[i] - dark.spikes[i];
        both++;
    }
    lab_claim(run, "rate", highest(&dark) - highest(&favor));
    const double useful = min_of_both(&favor, &dark) + 0.5; /* nats */
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
     .title = "Positive features adapted to the geometry of queries and keys",
     .claim =
         "For Gaussian queries and keys with covariance Λ, positive features have the least variance if their "
         "frequencies are drawn from N(0, Σ*); the variance is then finite up to λ = 1/2 instead of 1/6. A model "
         "whose attention learns this geometry (DARK) comes closer to softmax than isotropic features (FAVOR+) do, "
         "most of all when a softmax model is finetuned, and its training is more stable.",
     .source = "DARKFormer (arXiv 2603.04127)",
     .method =
         "Variance: q, k ~ N(0, Λ) in 8 dimensions with geometric spectra of trace 0.22 and 128 draws of 4096 "
         "independent frequencies; Σ* is estimated from 8192 queries and keys. Thresholds: in one dimension, the "
         "median of means over blocks of 64 to 4096 frequencies is fitted by a power of the block size. Models: "
         "byte-level language models with 2 layers, width 64, 4 heads, windows of 64 tokens and 64 features, without "
         "normalization of queries and keys, are trained from scratch for 400 steps of 16 windows. The softmax model "
         "is then finetuned with each attention, including softmax, for 100 further steps at half the learning rates, "
         "once with all weights and once with the query and key projections frozen. M starts as the identity. Its "
         "effect on queries and keys is measured on 512 held-out bytes (for one estimate, E[estimate²] / kernel² is "
         "exp|q + k|²). Stability: 120 steps of AdamW at constant learning rates from 1/256 to 16 in factors of two, "
         "8 windows per step, without gradient clipping. A run counts as diverged if a loss is NaN or infinite or the "
         "mean "
         "of its last tenth exceeds the loss of the first step. With normalization and bounded steps this happens "
         "only at very large rates, so the highest rate that is still useful is compared too. A spike is a step whose "
         "loss is 0.5 nats above the median of the previous 15. FAVOR+ and DARK differ only in M.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true},
    measure};
