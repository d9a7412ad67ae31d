/* lora: where adapters may begin, what rank they need, what they cost. */
#include "lora.h"
#include "../tools/language.h"
#include <bochner/lora.h>
#include <ctype.h>
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "zero-zero",
     .statement = "Where A and B both begin at zero no gradient reaches either, and they stay zero for ever.",
     .number = "largest |number| in A and B after all steps",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0},
    {.name = "both-random",
     .statement = "Where both begin at random (Xavier) the model is another before the first step.",
     .number = "change of the output at step 0, of the output's length",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1},
    {.name = "one-zero",
     .statement = "With A random and B zero the model begins as it was, exactly.",
     .number = "change of the output at step 0, of the output's length",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0},
    {.name = "enough-rank",
     .statement = "A change of rank r* is learned by adapters of rank r*.",
     .number = "squared error left of the change, part of all, at r = r*",
     .rule = BO_LAB_AT_MOST,
     .bound = 1e-3},
    {.name = "too-little-rank",
     .statement = "With less rank what is left is the tail of its singular values, and no training takes that away.",
     .number = "squared error left at r = r* - 1 over that of the best matrix of this rank (Eckart-Young)",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.99,
     .upper = 1.05},
    {.name = "merged",
     .statement = "Merging trained adapters into the weights leaves the function as it is, to rounding.",
     .number = "largest difference of logits, of the largest |logit|",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0x1p-16}, /* 256 units of float32's last place: some hundred sums a logit */
    {.name = "few-parameters",
     .statement =
         "Adapters of rank 4 in all hidden layers find most of what training all weights finds in another text.",
     .number = "gain of rank 4 on the new text over that of all weights, each at its best rate",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.75},
    {.name = "gradient-faster",
     .statement = "Beginning with singular vectors of the gradient learns faster than beginning at random and zero.",
     .number = "gain over the first quarter of the steps over that of A random and B zero, each at its best rate",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1,
     .source = "course notes, LoRA; LoRA-GA (2407.05000)"},
};

static const bo_lab_table tables[] = {
    {.name = "beginnings",
     .title = "One layer: where A and B begin",
     .rows = "A and B",
     .values = "part of what the layer is, or is to learn",
     .picture = BO_LAB_BARS},
    {.name = "rank",
     .title = "One layer: error left of a change of rank 4",
     .rows = "rank of the adapter",
     .values = "squared error left, part of all",
     .theory = "best of this rank"},
    {.name = "models",
     .title = "A language model on another text, by rank",
     .rows = "rank",
     .values = "trained part of all weights; gain as part of that of all weights",
     .log_x = true},
    {.name = "starts",
     .title = "A language model on another text, by beginning (rank 4)",
     .rows = "beginning",
     .values = "nats a byte; change of logits: part of the largest",
     .picture = BO_LAB_NO_PICTURE},
};

/* ---- a language model -------------------------------------------------------------------------------------------- */

enum { RANK = 4, MOST_LOGITS = 256 };

typedef struct adapting {
    lab_run *run;
    lab_text text, other;
    bo_model *base;
    double before; /* loss of the base on the other text … */
    double early;  /* … and on what the first quarter of the steps trains on */
    double done;
    size_t steps;
} adapting;

static const bo_model_desc shape = {.layers = 2, .width = 64, .heads = 4, .context = 64, .mlp = BO_MLP_GELU};

/* Every word spelled backwards: other words of the same letters in the same sentences. */
static void turn_words(size_t count, char *text)
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
        lab_made_up_text(lab_seed(a->run) + 1000000, bytes, text);
        turn_words(bytes, text);
        for (size_t i = 0; i < bytes; i++) ids[i] = (unsigned char)text[i];
        status = lab_text_of(a->run, ids, train, ids + train, bytes - train, &a->other);
    }
    bo_free(text);
    bo_free(ids);
    return status;
}

/* How the early steps went: the mean training loss of the first quarter. */
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
    double loss, early; /* at the end on what is held out; training's of the first quarter */
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
    size_t taken;
    desc.seed = lab_seed(a->run);
    BO_TRY(bo_model_create(lab_context(a->run), &desc, a->text.tokenizer, out));
    const bo_status status = bo_model_adopt(lab_context(a->run), *out, a->base, &taken);
    if (status == BO_OK) return BO_OK;
    bo_model_destroy(*out);
    *out = NULL;
    return status;
}

/* rank 0: all weights are trained. */
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

/* The logits after some held-out tokens of the new text. */
static bo_status logits_of(adapting *a, const bo_model *model, float logits[MOST_LOGITS])
{
    int32_t ids[64];
    bo_session *session;
    BO_TRY(bo_corpus_read(lab_context(a->run), a->other.valid, 0, LAB_COUNT_OF(ids), ids));
    BO_TRY(bo_session_create(lab_context(a->run), model, NULL, &session));
    const bo_status status = bo_session_feed(lab_context(a->run), session, ids, LAB_COUNT_OF(ids), logits);
    bo_session_destroy(session);
    return status;
}

/* Largest difference, of the largest. */
static double difference(const float *a, const float *b)
{
    double most = 0, size = 0;
    for (size_t i = 0; i < MOST_LOGITS; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    return most / size;
}

static bo_status merge(adapting *a, bo_model *model, double *out)
{
    float adapted[MOST_LOGITS], merged[MOST_LOGITS];
    BO_TRY(logits_of(a, model, adapted));
    BO_TRY(bo_model_merge(lab_context(a->run), model));
    BO_TRY(logits_of(a, model, merged));
    *out = difference(merged, adapted);
    return BO_OK;
}

/* At each of the rates: the best of both numbers. *merged: how far merging changed the last one; may be NULL. */
static bo_status best(adapting *a, size_t rank, bo_lora_init init, outcome *out, double *merged)
{
    const size_t count = lab_size(a->run, 4, 2);
    *out = (outcome){INFINITY, INFINITY};
    for (size_t i = 0; i < count; i++) {
        const double rate = (rank ? 0.004 : 0.001) * pow(3, (double)i);
        bo_model *model;
        outcome now;
        BO_TRY(adapt(a, rank, init, &model));
        bo_status status = train(a, model, a->steps, rate, &now);
        if (status == BO_OK && merged) status = merge(a, model, merged);
        bo_model_destroy(model);
        BO_TRY(status);
        *out = (outcome){fmin(out->loss, now.loss), fmin(out->early, now.early)};
    }
    return BO_OK;
}

/* Ranks in powers of two, beginning at A random and B zero. */
static bo_status measure_ranks(adapting *a, const outcome *all, outcome *usual)
{
    const size_t most = lab_size(a->run, 32, RANK), factor = lab_size(a->run, 2, 4);
    const double parameters = (double)bo_model_parameters(a->base);
    double merged = 0;
    for (size_t rank = 1; rank <= most; rank *= factor) {
        outcome now;
        bo_model *model;
        BO_TRY(best(a, rank, BO_LORA_INIT_ZERO, &now, rank == RANK ? &merged : NULL));
        BO_TRY(adapt(a, rank, BO_LORA_INIT_ZERO, &model));
        lab_point(a->run, "models", "trained", (double)rank, (double)bo_model_parameters(model) / parameters - 1);
        lab_point(a->run, "models", "gain", (double)rank, (a->before - now.loss) / (a->before - all->loss));
        bo_model_destroy(model);
        if (rank != RANK) continue;
        *usual = now;
        lab_claim(a->run, "merged", merged);
        lab_claim(a->run, "few-parameters", (a->before - now.loss) / (a->before - all->loss));
    }
    return BO_OK;
}

static bo_status measure_starts(adapting *a, const outcome *usual)
{
    static const char *const names[BO_LORA_INIT_COUNT] = {"A random, B zero", "both random, less B0 A0",
                                                          "singular vectors of the weight, less B0 A0",
                                                          "singular vectors of the gradient, less B0 A0"};
    float before[MOST_LOGITS], logits[MOST_LOGITS];
    BO_TRY(logits_of(a, a->base, before));
    for (bo_lora_init init = BO_LORA_INIT_ZERO; init < BO_LORA_INIT_COUNT; init++) {
        bo_model *model;
        outcome now = *usual;
        BO_TRY(adapt(a, RANK, init, &model));
        bo_status status = logits_of(a, model, logits);
        bo_model_destroy(model);
        if (status == BO_OK && init != BO_LORA_INIT_ZERO) status = best(a, RANK, init, &now, NULL);
        BO_TRY(status);
        lab_cell(a->run, "starts", names[init], "logits changed at step 0", difference(logits, before));
        lab_cell(a->run, "starts", names[init], "loss of the first quarter", now.early);
        lab_cell(a->run, "starts", names[init], "loss at the end", now.loss);
        if (init == BO_LORA_INIT_GRADIENT)
            lab_claim(a->run, "gradient-faster", (a->early - now.early) / (a->early - usual->early));
    }
    return BO_OK;
}

/* The same batches at a rate that changes nothing. */
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
    outcome all, usual = {0};
    a->steps = lab_size(a->run, 100, 40);
    BO_TRY(bo_model_evaluate(lab_context(a->run), a->base, a->other.valid, 0, lab_size(a->run, 16384, 4096), &before));
    a->before = before.loss;
    BO_TRY(read_along(a));
    BO_TRY(best(a, 0, BO_LORA_INIT_ZERO, &all, NULL));
    lab_note(a->run,
             "The model loses %.3f nats a byte on the new text as it is, %.3f after training all of its weights.",
             a->before, all.loss);
    BO_TRY(measure_ranks(a, &all, &usual));
    return measure_starts(a, &usual);
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
     .title = "Low-rank adapters: where they begin, what rank they need",
     .claim =
         "A product B A beside a weight learns only if not both begin at zero, and leaves the model as it was only if "
         "one does; it learns a change of rank r* if and only if its own rank is as large; and few parameters find "
         "most of what all of them would.",
     .source = "course notes, LoRA; LoRA (2106.09685)",
     .method =
         "One layer: a frozen 32 x 32 matrix, random, is to become itself plus a matrix of rank 4 with equal singular "
         "values, through B A, by AdamW for 1000 full-batch steps with orthogonal inputs, so that the loss is the "
         "distance of matrices; four beginnings at rank 4, and ranks 1 to 8. A language model: two layers of width 64 "
         "learn a text for 400 steps, then another (made-up, every word spelled backwards) for 100 steps of 8 windows "
         "of 64 bytes, through adapters of all hidden layers by rank and by beginning, or with all weights, each at "
         "the best of three rates. Beginnings that are not zero are subtracted (W0 + B A - B0 A0), so that the model "
         "begins as it was. Gain is the fall of the held-out loss on the new text.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true},
    measure};
