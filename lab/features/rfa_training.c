/* rfa-training: how random feature attention (2103.02143) is trained: states carried between windows, frequencies that
 * are redrawn, and the arc-cosine form. */
#include "../experiment.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "stateful",
     .statement =
         "Carrying the state from one window of 32 tokens to the next lowers the held-out loss of random feature "
         "attention with a gate.",
     .number = "held-out loss with an empty state in each window minus held-out loss with carried states, in training "
               "and validation, in nats per token",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02},
    {.name = "stateful-training",
     .statement = "Carried states lower the loss more if the model is trained with them.",
     .number =
         "held-out loss with carried states of a model trained with empty ones minus that of a model trained with "
         "carried states, in nats per token",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02},
    {.name = "gradient",
     .statement = "A gradient that flows through the states of 4 windows lowers the held-out loss further.",
     .number = "held-out loss with the gradient cut at each window minus held-out loss with the gradient through 4 "
               "windows, for the same tokens per step, in nats per token",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.01},
    {.name = "long-window",
     .statement = "Windows of 32 tokens with carried states reach the held-out loss of windows of 128 tokens.",
     .number = "held-out loss of windows of 32 tokens with carried states (gradient through 4 windows) minus held-out "
               "loss of windows of 128 tokens with empty states, in nats per token",
     .rule = BO_LAB_AT_MOST,
     .bound = 0},
    {.name = "arc-cosine",
     .statement = "The Gaussian form of random feature attention has a lower held-out loss than the arc-cosine form.",
     .number =
         "held-out loss of the arc-cosine form minus that of the Gaussian form, in nats per token, mean of with and "
         "without gate",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02},
    {.name = "redraw",
     .statement = "Redrawing the frequencies before each step lowers the held-out loss.",
     .number =
         "held-out loss with fixed frequencies minus held-out loss with frequencies redrawn in each step, in nats "
         "per token",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.01},
    {.name = "fixed-draw",
     .statement = "A model that is trained with fixed frequencies depends on them.",
     .number = "held-out loss with other frequencies minus held-out loss with those of training, in nats per token",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02},
    {.name = "redrawn-draw",
     .statement = "A model whose frequencies are redrawn in each step of training does not depend on its last draw.",
     .number =
         "held-out loss with other frequencies minus held-out loss with the last ones of training, in nats per token",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.02},
};

static const bo_lab_table tables[] = {
    {.name = "stateful",
     .title = "Held-out loss by training windows, in windows of the same length and with a carried state",
     .rows = "training windows",
     .values = "held-out loss, nats per token",
     .plot = BO_LAB_BARS},
    {.name = "kernel",
     .title = "Held-out loss of the Gaussian and the arc-cosine form",
     .rows = "attention",
     .values = "held-out loss, nats per token",
     .plot = BO_LAB_BARS},
    {.name = "redraw",
     .title = "Held-out loss by steps between draws, with the last draw and with another one",
     .rows = "steps between draws",
     .values = "held-out loss, nats per token",
     .plot = BO_LAB_BARS},
};

/* ---- models ------------------------------------------------------------------------------------------------------ */

enum { SHORT = 32, LONG = 128, WINDOWS = LONG / SHORT, SCORED = 16384 };

/* One training run. All runs process the same number of tokens per step. */
typedef struct variant {
    size_t context;
    bool plain, arc_cosine; /* plain: without gate */
    bool stateful;
    size_t windows; /* of a stateful run, per step */
    uint64_t redraw_every;
} variant;

enum { EMPTY, CARRIED, FLOWING, GATE, PLAIN, ARC_GATE, ARC_PLAIN, REDRAW_100, REDRAW_10, REDRAW_1, VARIANTS };

static const variant variants[VARIANTS] = {
    [EMPTY] = {.context = SHORT},
    [CARRIED] = {.context = SHORT, .stateful = true, .windows = 1},
    [FLOWING] = {.context = SHORT, .stateful = true, .windows = WINDOWS},
    [GATE] = {.context = LONG},
    [PLAIN] = {.context = LONG, .plain = true},
    [ARC_GATE] = {.context = LONG, .arc_cosine = true},
    [ARC_PLAIN] = {.context = LONG, .plain = true, .arc_cosine = true},
    [REDRAW_100] = {.context = LONG, .redraw_every = 100},
    [REDRAW_10] = {.context = LONG, .redraw_every = 10},
    [REDRAW_1] = {.context = LONG, .redraw_every = 1},
};

static bo_model_desc model_of(const variant *v)
{
    bo_model_desc desc = {.layers = 2, .width = 64, .block.heads = 4, .context = v->context};
    bo_attention_preset(v->plain ? "rfa" : "rfa-gate", &desc.block.attention);
    desc.block.attention.features.features = 128;
    if (v->arc_cosine) desc.block.attention.features.kernel = BO_KERNEL_ARCCOS;
    return desc;
}

/* The losses of a trained model in windows of its context, with a carried state, and with other frequencies. */
typedef struct losses {
    double windows, carried, redrawn;
} losses;

static bo_status carried_loss(lab_run *run, const bo_model *model, const lab_text *text, double *out)
{
    bo_evaluation found;
    BO_TRY(bo_model_evaluate(lab_context(run), model, text->valid, SCORED, SCORED, &found));
    *out = found.loss;
    return BO_OK;
}

static bo_status score(lab_run *run, bo_model *model, const lab_text *text, losses *out)
{
    BO_TRY(lab_loss(run, model, text, SCORED, &out->windows));
    BO_TRY(carried_loss(run, model, text, &out->carried));
    BO_TRY(lab_model_redraw(lab_context(run), model, 1));
    return lab_loss(run, model, text, SCORED, &out->redrawn);
}

static bo_status train(lab_run *run, const lab_text *text, size_t index, losses *out)
{
    const variant *v = &variants[index];
    const size_t tokens = lab_size(run, 1024, 512), windows = v->windows ? v->windows : 1;
    const bo_model_desc desc = model_of(v);
    const lab_training training = {.batch = tokens / v->context / windows,
                                   .steps = lab_size(run, 1000, 30),
                                   .eval_tokens = SCORED,
                                   .stateful = v->stateful,
                                   .state_windows = v->windows,
                                   .redraw_every = v->redraw_every,
                                   .from = (double)index / VARIANTS,
                                   .to = (double)(index + 1) / VARIANTS};
    lab_trained trained;
    bo_model *model;
    BO_TRY(lab_train_new(run, &desc, text, &training, &model, &trained));
    const bo_status status = score(run, model, text, out);
    bo_model_destroy(model);
    return status;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void note_states(lab_run *run, const losses *of)
{
    static const struct {
        size_t variant;
        const char *name;
    } rows[] = {{EMPTY, "32, empty states"},
                {CARRIED, "32, carried states"},
                {FLOWING, "32, carried states, gradient through 4 windows"},
                {GATE, "128, empty states"}};
    for (size_t i = 0; i < LAB_COUNT_OF(rows); i++) {
        lab_cell(run, "stateful", rows[i].name, "windows", of[rows[i].variant].windows);
        lab_cell(run, "stateful", rows[i].name, "carried state", of[rows[i].variant].carried);
    }
    lab_claim(run, "stateful", of[EMPTY].windows - of[CARRIED].carried);
    lab_claim(run, "stateful-training", of[EMPTY].carried - of[CARRIED].carried);
    lab_claim(run, "gradient", of[CARRIED].carried - of[FLOWING].carried);
    lab_claim(run, "long-window", of[FLOWING].carried - of[GATE].windows);
}

static void note_kernels(lab_run *run, const losses *of)
{
    lab_cell(run, "kernel", "rfa", "Gaussian", of[PLAIN].windows);
    lab_cell(run, "kernel", "rfa", "arc-cosine", of[ARC_PLAIN].windows);
    lab_cell(run, "kernel", "rfa-gate", "Gaussian", of[GATE].windows);
    lab_cell(run, "kernel", "rfa-gate", "arc-cosine", of[ARC_GATE].windows);
    lab_claim(run, "arc-cosine",
              (of[ARC_GATE].windows - of[GATE].windows + of[ARC_PLAIN].windows - of[PLAIN].windows) / 2);
}

static void note_draws(lab_run *run, const losses *of)
{
    static const struct {
        size_t variant;
        const char *name;
    } rows[] = {{GATE, "never"}, {REDRAW_100, "100"}, {REDRAW_10, "10"}, {REDRAW_1, "1"}};
    for (size_t i = 0; i < LAB_COUNT_OF(rows); i++) {
        lab_cell(run, "redraw", rows[i].name, "last draw", of[rows[i].variant].windows);
        lab_cell(run, "redraw", rows[i].name, "another draw", of[rows[i].variant].redrawn);
    }
    lab_claim(run, "redraw", of[GATE].windows - of[REDRAW_1].windows);
    lab_claim(run, "fixed-draw", of[GATE].redrawn - of[GATE].windows);
    lab_claim(run, "redrawn-draw", of[REDRAW_1].redrawn - of[REDRAW_1].windows);
}

static bo_status measure(lab_run *run)
{
    lab_text text;
    losses of[VARIANTS] = {{0}};
    BO_TRY(lab_text_open(run, 0, &text));
    bo_status status = BO_OK;
    for (size_t i = 0; i < VARIANTS && status == BO_OK; i++) status = train(run, &text, i, &of[i]);
    lab_text_close(&text);
    if (status != BO_OK) return status;
    note_states(run, of);
    note_kernels(run, of);
    note_draws(run, of);
    return BO_OK;
}

const lab_experiment lab_rfa_training = {
    {.name = "rfa-training",
     .group = LAB_FEATURES,
     .title = "Training of random feature attention",
     .claim =
         "Random feature attention is trained with states that are carried from one segment of a text to the next, "
         "with frequencies that are redrawn in each step, and in a Gaussian and an arc-cosine form. Carried states "
         "lower the loss of short windows.",
     .source = "Random Feature Attention (arXiv 2103.02143), section 4.1 and appendix",
     .method =
         "Byte-level language models with 2 layers, width 64, 4 heads and 128 features are trained for 1000 steps of "
         "1024 tokens. States: windows of 32 tokens, each with an empty state or with the state of the window "
         "before it; the gradient ends at each window (32 sequences per step), or flows through 4 consecutive "
         "windows in each step (8 sequences, so that the windows of a step come from fewer places of the text); "
         "and windows of 128 tokens (8 sequences). Kernels and draws: windows of 128 tokens. The first 16384 "
         "held-out tokens are scored in windows of the length of training and, with a carried state, as one "
         "window. Another draw replaces the frequencies of all layers after training.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true},
    measure};
