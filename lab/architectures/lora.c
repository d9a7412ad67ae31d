/* lora: initialization, required rank and cost of low-rank adapters. */
#include "lora.h"
#include <bochner/lora.h>
#include <ctype.h>
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "zero-zero",
     .statement = "If A and B both start at zero, no gradient reaches either and both stay zero.",
     .number = "largest absolute entry of A and B after all steps",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .passage = LAB_NOTES "line 767: \"If A, B are initialized to all zero ⇒ Zero gradient for A & B, No!\""},
    {.name = "both-random",
     .statement = "If both start at random (Xavier), the model changes before the first step.",
     .number = "change of the output at step 0, relative to the norm of the output",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1,
     .passage =
         LAB_NOTES "line 769: \"if both Xavier initialized, AB ≠ 0, and feature of pretrained model is not used\""},
    {.name = "one-zero",
     .statement = "With A random and B zero, the model starts exactly unchanged.",
     .number = "change of the output at step 0, relative to the norm of the output",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0},
    {.name = "enough-rank",
     .statement = "Adapters of rank r* learn a weight change of rank r*.",
     .number = "remaining squared error at r = r*, relative to the whole change",
     .rule = BO_LAB_AT_MOST,
     .bound = 1e-3},
    {.name = "too-little-rank",
     .statement = "With a smaller rank, the remaining error is the tail of the singular values, which training cannot "
                  "reduce.",
     .number = "remaining squared error at r = r* - 1 divided by that of the best matrix of this rank (Eckart-Young)",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.99,
     .upper = 1.05},
    {.name = "merged",
     .statement = "Merging trained adapters into the weights does not change the function, up to rounding.",
     .number = "largest difference of logits, relative to the largest |logit|",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0x1p-16}, /* 256 units in the last place of float32: about a hundred sums per logit */
    {.name = "few-parameters",
     .statement =
         "Adapters of rank 4 in all hidden layers achieve most of the improvement of full finetuning on another text.",
     .number = "loss improvement of rank 4 on the new text divided by that of full finetuning, each at its best "
               "learning rate",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.75},
    {.name = "gradient-faster",
     .statement = "Initializing with singular vectors of the gradient learns faster than A random and B zero.",
     .number = "loss improvement over the first quarter of the steps divided by that of A random and B zero, each at "
               "its best learning rate",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1,
     .source = "course notes, LoRA; LoRA-GA (arXiv 2407.05000)",
     .passage =
         LAB_NOTES "lines 761-763: \"By aligning initializations to natural gradient directions, we are likely to "
                   "be able to have more significant impacts faster\""},
};

static const bo_lab_table tables[] = {
    {.name = "beginnings",
     .title = "One layer: initialization of A and B",
     .rows = "A and B",
     .values = "fraction of the layer, or of the change to be learned",
     .plot = BO_LAB_BARS},
    {.name = "rank",
     .title = "One layer: remaining error of a change of rank 4",
     .rows = "rank of the adapter",
     .values = "remaining squared error, relative to the whole change",
     .theory = "best of this rank"},
    {.name = "models",
     .title = "A language model finetuned on another text, by rank",
     .rows = "rank",
     .values = "trained fraction of all weights; improvement relative to full finetuning",
     .log_x = true},
    {.name = "starts",
     .title = "A language model finetuned on another text, by initialization (rank 4)",
     .rows = "initialization",
     .values = "nats per byte; change of logits relative to the largest",
     .plot = BO_LAB_NO_PLOT},
};

/* ---- a language model -------------------------------------------------------------------------------------------- */

enum { RANK = 4, MAX_LOGITS = 256 };

typedef struct adapting {
    lab_run *run;
    lab_text text, other;
    bo_model *base;
    double before; /* loss of the base model on the other text … */
    double early;  /* … and on the training data of the first quarter of the steps */
    double done;
    size_t steps;
} adapting;

static const bo_model_desc shape = {
    .layers = 2, .width = 64, .block.heads = 4, .context = 64, .block.mlp = BO_MLP_GELU};

/* Reverses every word: the words change, but the letters and the sentence structure stay the same. */
static void reverse_words(size_t count, char *text)
{
    for (size_t begin = 0, end; begin < count; begin = end + 1) {
        for (end = begin; end < count && isalpha((unsigned char)text[end]);) end++;
        for (size_t i = begin, j = end; i + 1 < j; i++) {
            const char last = text[--j];
            text[j] = text[i];
            text[i] = last;
        }
    }
}

static bo_status open_other(adapting *a, size_t bytes)
{
    char *text = bo_alloc_raw(lab_context(a->run), bytes, 1, "a text");
    int32_t *ids = bo_alloc_raw(lab_context(a->run), bytes, sizeof *ids, "a text");
    bo_status status = text && ids ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        const size_t train = bytes - bytes / 10;
        lab_synthetic_text(lab_seed(a->run) + 1000000, bytes, text);
        reverse_words(bytes, text);
        for (size_t i = 0; i < bytes; i++) ids[i] = (unsigned char)text[i];
        status = lab_text_of(a->run, ids, train, ids + train, bytes - train, &a->other);
    }
    bo_free(text);
    bo_free(ids);
    return status;
}

/* The mean training loss over the first quarter of the steps. */
typedef struct early {
    uint64_t until;
    double sum;
} early;

static void watch(void *user, uint64_t step, double loss)
{
    early *e = user;
    if (step < e->until) e->sum += loss / (double)e->until;
}

typedef struct outcome {
    double loss, early; /* final held-out loss; training loss of the first quarter */
} outcome;

static bo_status train(adapting *a, bo_model *model, uint64_t steps, double rate, outcome *out)
{
    early e = {.until = a->steps / 4};
    lab_trained trained;
    const double part = 0.9 / (double)lab_size(a->run, 40, 13);
    const lab_training training = {.optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = rate},
                                   .batch = lab_size(a->run, 8, 4),
                                   .schedule = {.warmup = 4},
                                   .steps = steps,
                                   .eval_tokens = lab_size(a->run, 16384, 4096),
                                   .from = a->done,
                                   .to = fmin(1, a->done + part),
                                   .watch = watch,
                                   .user = &e};
    BO_TRY(lab_train(a->run, model, &a->other, &training, &trained));
    a->done = training.to;
    *out = (outcome){fmin(trained.loss, log(256)), isfinite(e.sum) ? fmin(e.sum, log(256)) : log(256)};
    return BO_OK;
}

static bo_status copy_base(adapting *a, bo_model **out)
{
    bo_model_desc desc = shape;
    size_t adopted;
    desc.seed = lab_seed(a->run);
    BO_TRY(bo_model_create(lab_context(a->run), &desc, a->text.tokenizer, out));
    const bo_status status = bo_model_adopt(lab_context(a->run), *out, a->base, &adopted);
    if (status == BO_OK) return BO_OK;
    bo_model_destroy(*out);
    *out = NULL;
    return status;
}

/* rank 0: trains all weights. */
static bo_status adapt(adapting *a, size_t rank, bo_lora_init init, bo_model **out)
{
    BO_TRY(copy_base(a, out));
    if (!rank) return BO_OK;
    const bo_lora_desc desc = {
        .rank = rank, .init = init, .data = a->other.train, .sequences = 32, .seed = lab_seed(a->run)};
    const bo_status status = bo_model_adapt(lab_context(a->run), *out, &desc);
    if (status == BO_OK) return BO_OK;
    bo_model_destroy(*out);
    *out = NULL;
    return status;
}

/* Computes the logits after some held-out tokens of the new text. */
static bo_status logits_of(adapting *a, const bo_model *model, float logits[MAX_LOGITS])
{
    int32_t ids[64];
    bo_session *session;
    BO_TRY(bo_corpus_read(lab_context(a->run), a->other.valid, 0, LAB_COUNT_OF(ids), ids));
    BO_TRY(bo_session_create(lab_context(a->run), model, NULL, &session));
    const bo_status status = bo_session_feed(lab_context(a->run), session, ids, LAB_COUNT_OF(ids), logits);
    bo_session_destroy(session);
    return status;
}

/* Largest difference, relative to the largest value. */
static double difference(const float *a, const float *b)
{
    double max = 0, size = 0;
    for (size_t i = 0; i < MAX_LOGITS; i++) {
        max = fmax(max, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    return max / size;
}

static bo_status merge(adapting *a, bo_model *model, double *out)
{
    float adapted[MAX_LOGITS], merged[MAX_LOGITS];
    BO_TRY(logits_of(a, model, adapted));
    BO_TRY(bo_model_merge(lab_context(a->run), model));
    BO_TRY(logits_of(a, model, merged));
    *out = difference(merged, adapted);
    return BO_OK;
}

/* Trains at each of the learning rates and returns the best of both numbers. *merged: the change due to merging of the
 * last model; may be NULL. */
static bo_status best(adapting *a, size_t rank, bo_lora_init init, outcome *out, double *merged)
{
    const size_t count = lab_size(a->run, 4, 2);
    *out = (outcome){INFINITY, INFINITY};
    for (size_t i = 0; i < count; i++) {
        const double rate = (rank ? 0.004 : 0.001) * pow(3, (double)i);
        bo_model *model;
        outcome result;
        BO_TRY(adapt(a, rank, init, &model));
        bo_status status = train(a, model, a->steps, rate, &result);
        if (status == BO_OK && merged) status = merge(a, model, merged);
        bo_model_destroy(model);
        BO_TRY(status);
        *out = (outcome){fmin(out->loss, result.loss), fmin(out->early, result.early)};
    }
    return BO_OK;
}

/* Trains ranks in powers of two, starting at A random and B zero. */
static bo_status measure_ranks(adapting *a, const outcome *all, outcome *default_start)
{
    const size_t max_rank = lab_size(a->run, 32, RANK), factor = lab_size(a->run, 2, 4);
    const double parameters = (double)bo_model_report(a->base)->parameters;
    double merged = 0;
    for (size_t rank = 1; rank <= max_rank; rank *= factor) {
        outcome result;
        bo_model *model;
        BO_TRY(best(a, rank, BO_LORA_INIT_ZERO, &result, rank == RANK ? &merged : NULL));
        BO_TRY(adapt(a, rank, BO_LORA_INIT_ZERO, &model));
        lab_point(a->run, "models", "trained", (double)rank,
                  (double)bo_model_report(model)->parameters / parameters - 1);
        lab_point(a->run, "models", "gain", (double)rank, (a->before - result.loss) / (a->before - all->loss));
        bo_model_destroy(model);
        if (rank != RANK) continue;
        *default_start = result;
        lab_claim(a->run, "merged", merged);
        lab_claim(a->run, "few-parameters", (a->before - result.loss) / (a->before - all->loss));
    }
    return BO_OK;
}

static bo_status measure_starts(adapting *a, const outcome *default_start)
{
    static const char *const names[BO_LORA_INIT_COUNT] = {"A random, B zero", "both random, minus B0 A0",
                                                          "singular vectors of the weight, minus B0 A0",
                                                          "singular vectors of the gradient, minus B0 A0"};
    float before[MAX_LOGITS], logits[MAX_LOGITS];
    BO_TRY(logits_of(a, a->base, before));
    for (bo_lora_init init = BO_LORA_INIT_ZERO; init < BO_LORA_INIT_COUNT; init++) {
        bo_model *model;
        outcome result = *default_start;
        BO_TRY(adapt(a, RANK, init, &model));
        bo_status status = logits_of(a, model, logits);
        bo_model_destroy(model);
        if (status == BO_OK && init != BO_LORA_INIT_ZERO) status = best(a, RANK, init, &result, NULL);
        BO_TRY(status);
        lab_cell(a->run, "starts", names[init], "change of logits at step 0", difference(logits, before));
        lab_cell(a->run, "starts", names[init], "loss over the first quarter", result.early);
        lab_cell(a->run, "starts", names[init], "final loss", result.loss);
        if (init == BO_LORA_INIT_GRADIENT)
            lab_claim(a->run, "gradient-faster", (a->early - result.early) / (a->early - default_start->early));
    }
    return BO_OK;
}

/* Evaluates the same batches at a learning rate that changes nothing. */
static bo_status read_along(adapting *a)
{
    bo_model *model;
    outcome as_it_is = {0};
    BO_TRY(copy_base(a, &model));
    const bo_status status = train(a, model, a->steps / 4, 1e-12, &as_it_is);
    a->early = as_it_is.early;
    bo_model_destroy(model);
    return status;
}

static bo_status measure_adapting(adapting *a)
{
    bo_evaluation before;
    outcome all, default_start = {0};
    a->steps = lab_size(a->run, 100, 40);
    BO_TRY(bo_model_evaluate(lab_context(a->run), a->base, a->other.valid, 0, lab_size(a->run, 16384, 4096), &before));
    a->before = before.loss;
    BO_TRY(read_along(a));
    BO_TRY(best(a, 0, BO_LORA_INIT_ZERO, &all, NULL));
    lab_note(a->run, "The base model has a loss of %.3f nats per byte on the new text, and %.3f after full finetuning.",
             a->before, all.loss);
    BO_TRY(measure_ranks(a, &all, &default_start));
    return measure_starts(a, &default_start);
}

static bo_status measure_model(adapting *a)
{
    const size_t bytes = (size_t)1 << 18;
    const lab_training training = {.optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = 0.01},
                                   .batch = lab_size(a->run, 8, 4),
                                   .steps = lab_size(a->run, 400, 120),
                                   .from = 0.05,
                                   .to = 0.1};
    lab_trained trained;
    BO_TRY(lab_text_open(a->run, bytes, &a->text));
    BO_TRY(open_other(a, bytes));
    BO_TRY(lab_train_new(a->run, &shape, &a->text, &training, &a->base, &trained));
    a->done = training.to;
    return measure_adapting(a);
}

static bo_status measure(lab_run *run)
{
    adapting a = {.run = run};
    BO_TRY(lab_lora_layer(run));
    const bo_status status = measure_model(&a);
    bo_model_destroy(a.base);
    lab_text_close(&a.text);
    lab_text_close(&a.other);
    return status;
}

const lab_experiment lab_lora = {
    {.name = "lora",
     .group = LAB_ARCHITECTURES,
     .title = "Low-rank adapters: initialization and required rank",
     .claim =
         "An adapter B A added to a weight learns only if A and B do not both start at zero, and leaves the model "
         "unchanged at the start only if one of them does. It learns a change of rank r* if and only if its rank is "
         "at least r*. A few parameters achieve most of the improvement of full finetuning.",
     .source = "course notes, LoRA; LoRA (arXiv 2106.09685)",
     .method =
         "One layer: a frozen random 32 x 32 matrix is to change by a matrix of rank 4 with equal singular values, "
         "learned through B A with AdamW in 1000 full-batch steps. Inputs are orthogonal, so the loss is the distance "
         "between matrices. Four initializations at rank 4 and ranks 1 to 8 are compared. Language model: two layers "
         "of width 64 learn a text for 400 steps, then another text (synthetic, with every word spelled backward) for "
         "100 steps of 8 windows of 64 bytes. Adapters of all hidden layers, by rank and by initialization, are "
         "compared with full finetuning, each at the best of three learning rates. Nonzero initial products are "
         "subtracted (W0 + B A - B0 A0), so that the model starts unchanged. Improvement is the decrease of held-out "
         "loss on the new text.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true},
    measure};
