/* Classification, matching and translation as a task. Items are packs of whole examples (texts.h), so that a step has a
 * fixed number of tokens rather than of examples.
 *
 * The packs of a step are a function of (seed, step). The packs of a micro-batch are consecutive in the rows of one
 * graph. The loss is the mean over the examples of the step (for translations: over the tokens of its targets); each
 * micro-batch is weighted by its number of examples or tokens. Runs with another micro-batch size or number of ranks
 * therefore use the same examples and get the same gradients, up to rounding and to dropout, which is drawn per
 * micro-batch. */
#include "../text/facts.h"
#include "../text/packs.h"
#include <bochner/generate.h>
#include <assert.h>
#include <string.h>
#include "../model/enums.h"
#include "../attention/enums.h"
#include "models.h"

/* Default tokens per pack and per step. An epoch has a minimum number of steps, even with few texts. */
enum { PACK = 2048, MIN_PACK = 64, STEP = 8 * PACK, TRANSLATION_STEP = 2 * PACK, STEPS_OF_EPOCH = 16 };

/* Invariant: packs, packed and examples exist between open and close. */
typedef struct texts_task {
    bo_train_task task;
    bool translates;
    size_t rows[2];      /* rows of a pack; [1] holds the targets of translations */
    size_t max_examples; /* maximum number of examples per pack */
    bo_packs *packs;
    bo_text_pack *packed; /* packs of a micro-batch */
    size_t *examples;     /* examples of a micro-batch */
    uint64_t weighed;     /* the step of whole_weight */
    double whole_weight;  /* total weight of that step */
} texts_task;

static const bo_model *model_of(const bo_train_task *task)
{
    return task->desc->model;
}

/* ---- packs ------------------------------------------------------------------------------------------------------- */

/* Returns the rows of an example in the stream of `side`. */
static size_t rows_of(const bo_texts *texts, bool translates, size_t example, size_t side)
{
    size_t rows = bo_text_at(texts, example, side).count;
    if (!translates && bo_texts_sides(texts) == 2) rows += bo_text_at(texts, example, 1).count;
    return rows;
}

static size_t max_rows(const bo_texts *texts, bool translates, size_t side)
{
    size_t largest = 1;
    for (size_t i = 0; i < bo_texts_count(texts); i++) {
        const size_t rows = rows_of(texts, translates, i, side);
        if (rows > largest) largest = rows;
    }
    return largest;
}

/* Rounds rows up to a block size of the engine, with many divisors. */
static size_t whole_blocks(size_t rows)
{
    return (rows + 31) / 32 * 32;
}

static uint64_t all_tokens(const bo_texts *texts)
{
    return bo_texts_tokens(texts, 0) + (bo_texts_sides(texts) == 2 ? bo_texts_tokens(texts, 1) : 0);
}

/* Returns the number of training tokens: of the targets, or of all texts; at least 1. */
static double tokens_of(const texts_task *self)
{
    const bo_texts *texts = self->task.desc->train.texts;
    const uint64_t tokens = self->translates ? bo_texts_tokens(texts, 1) : all_tokens(texts);
    return tokens ? (double)tokens : 1;
}

static size_t main_rows(const texts_task *self)
{
    return self->rows[self->translates ? 1 : 0];
}

/* Sources have more rows than targets in proportion to their tokens, so that both fill up together. A limit on the
 * number of examples, one and a half times the average that fits, bounds per-example memory. */
static void size_packs(texts_task *self)
{
    const bo_texts *texts = self->task.desc->train.texts;
    const size_t count = bo_texts_count(texts), main = self->translates ? 1 : 0;
    const double tokens = tokens_of(self), default_step = self->translates ? TRANSLATION_STEP : STEP;
    const size_t step = (size_t)(tokens / STEPS_OF_EPOCH < default_step ? tokens / STEPS_OF_EPOCH : default_step);
    const size_t pack = self->task.desc->pack, longest = max_rows(texts, self->translates, main);
    const size_t fitting = step / 2 < PACK ? bo_max(step / 2, MIN_PACK) : PACK;
    self->rows[main] = pack ? bo_max(pack, longest) : whole_blocks(bo_max(fitting, longest));
    if (self->translates) {
        const double ratio = (double)bo_texts_tokens(texts, 0) / tokens;
        const size_t sources = (size_t)((double)self->rows[1] * ratio);
        self->rows[0] = whole_blocks(bo_max(sources, max_rows(texts, true, 0)));
    }
    const size_t bound = (size_t)(1.5 * (double)self->rows[main] * (double)count / tokens) + 8;
    self->max_examples = bound < count ? bound : count;
    self->task.batch = bo_max(step / self->rows[main], 2);
}

/* ---- compatibility checks ---------------------------------------------------------------------------------------- */

static bo_status check_labels(bo_context *context, const bo_texts *texts, const bo_texts_desc *expected)
{
    const char *const *labels = bo_texts_class_names(texts);
    if (!labels || bo_texts_classes(texts) != expected->classes)
        return bo_fail(context, BO_INVALID, "texts: expected the %zu classes of the model, found %zu",
                       expected->classes, labels ? bo_texts_classes(texts) : 0);
    for (size_t i = 0; expected->labels && i < expected->classes; i++)
        if (strcmp(labels[i], expected->labels[i]) != 0)
            return bo_fail(context, BO_INVALID, "texts: expected the label '%s' of the model as class %zu, found '%s'",
                           expected->labels[i], i, labels[i]);
    return BO_OK;
}

static bo_status check_lengths(bo_context *context, const bo_texts *texts, size_t longest)
{
    for (size_t side = 0; longest && side < bo_texts_sides(texts); side++)
        for (size_t i = 0; bo_texts_longest(texts, side) > longest && i < bo_texts_count(texts); i++) {
            const size_t tokens = bo_text_at(texts, i, side).count;
            const char *path;
            const size_t line = bo_texts_line(texts, i, &path);
            if (tokens > longest)
                return bo_fail(context, BO_INVALID,
                               "%s, line %zu: expected at most %zu tokens (the model's context), found %zu", path, line,
                               longest, tokens);
        }
    return BO_OK;
}

static bo_status check_texts(bo_context *context, const bo_model *model, const bo_texts *texts)
{
    bo_texts_desc expected = {0};
    bo_model_preset_texts(model, false, &expected);
    if (bo_texts_get_kind(texts) != expected.kind)
        return bo_fail(context, BO_INVALID, "texts: a model with task %s needs texts of kind %d, found kind %d",
                       bo_model_task_name(model->desc.task), (int)expected.kind, (int)bo_texts_get_kind(texts));
    if (model->desc.task != BO_MODEL_TASK_TRANSLATE) BO_TRY(check_labels(context, texts, &expected));
    return check_lengths(context, texts, expected.longest ? expected.longest + (expected.end > 0) : 0);
}

static bo_status check(bo_context *context, const bo_train_task *task)
{
    const texts_task *self = (const texts_task *)task;
    const bo_trainer_desc *desc = task->desc;
    const size_t rows = main_rows(self);
    if (desc->model->desc.task == BO_MODEL_TASK_LANGUAGE)
        return bo_fail(context, BO_INVALID, "training: a language model is trained on a corpus, not on labeled texts");
    if (desc->pack && desc->pack < rows)
        return bo_fail(context, BO_INVALID,
                       "pack: expected at least %zu tokens, the length of the longest example, found %zu", rows,
                       desc->pack);
    if (!(desc->smoothing >= 0 && desc->smoothing < 1))
        return bo_fail(context, BO_INVALID, "smoothing: expected a number in [0, 1), found %g", desc->smoothing);
    BO_TRY(bo_train_model_check(context, task));
    BO_TRY(check_texts(context, desc->model, desc->train.texts));
    return desc->valid.texts ? check_texts(context, desc->model, desc->valid.texts) : BO_OK;
}

/* ---- graph and batch --------------------------------------------------------------------------------------------- */

static double item_bytes(const bo_train_task *task)
{
    const texts_task *self = (const texts_task *)task;
    const bo_model_desc *d = &model_of(task)->desc;
    if (!self->translates) return (double)self->rows[0] * bo_train_model_row_bytes(task, d->layers);
    return (double)self->rows[0] * bo_train_model_row_bytes(task, d->encoder_layers) +
           (double)self->rows[1] * 1.5 * bo_train_model_row_bytes(task, d->layers);
}

static bo_status make_batch(bo_context *context, texts_task *self, size_t micro_batch)
{
    const bo_trainer_desc *desc = self->task.desc;
    const bo_packs_desc packs = {.texts = desc->train.texts,
                                 .rows = self->rows[0],
                                 .target_rows = self->rows[1],
                                 .max_examples = self->max_examples,
                                 .batch = desc->batch,
                                 .seed = desc->seed};
    const size_t rows[2] = {micro_batch * self->rows[0], micro_batch * self->rows[1]};
    bo_texts_desc expected = {0};
    bo_model_preset_texts(desc->model, false, &expected);
    BO_TRY(bo_packs_create(context, &packs, &self->packs));
    self->examples = bo_alloc(context, micro_batch * self->max_examples, sizeof *self->examples, "a batch");
    if (!self->examples) return BO_MEMORY;
    return bo_text_pack_create(context, desc->train.texts, rows, micro_batch * self->max_examples,
                               (int32_t)expected.end - 1, &self->packed);
}

/* Returns the number of sequences for estimating the cost of a pack: equal lengths that divide its rows, near the mean
 * number of texts. State-space layers plan for that length, but the filler may be longer than any text. The result for
 * them is 0: one sequence of all rows. */
static bool has_systems(const bo_model_desc *d)
{
    for (int part = BO_MODEL_PART_LAYERS; part <= BO_MODEL_PART_ENCODER; part += BO_MODEL_PART_ENCODER) {
        const bo_block_list list = bo_blocks_of(d, (bo_model_part)part);
        for (size_t i = 0; i < list.count; i++)
            if (list.blocks[i].mixer == BO_MIXER_SSM) return true;
    }
    return false;
}

static size_t default_sequences(const texts_task *self)
{
    if (has_systems(&model_of(&self->task)->desc)) return 0;
    const bo_texts *texts = self->task.desc->train.texts;
    const size_t texts_each = self->translates ? 1 : bo_texts_sides(texts);
    size_t count = (size_t)((double)(main_rows(self) * bo_texts_count(texts) * texts_each) / tokens_of(self));
    while (count > 1 && (self->rows[0] % count || self->rows[1] % count)) count--;
    return bo_max(count, 1);
}

static bo_status open_graph(bo_context *context, bo_train_task *task, size_t micro_batch)
{
    texts_task *self = (texts_task *)task;
    const bo_trainer_desc *desc = task->desc;
    BO_TRY(make_batch(context, self, micro_batch));
    const size_t sequences = default_sequences(self);
    const bo_model_graph_desc graph = {
        .rows = self->packed->stream.rows,
        .tokens = sequences ? main_rows(self) / sequences : 0,
        .source_tokens = sequences && self->translates ? self->rows[0] / sequences : 0,
        .max_sequences = self->packed->max_sequences,
        .examples = self->packed->max_examples,
        .source_rows = self->packed->source.rows,
        .smoothing = desc->smoothing,
    };
    BO_TRY(bo_train_graph(context, task, graph));
    task->units = (size_t)(all_tokens(desc->train.texts) / bo_packs_per_epoch(self->packs)); /* on average */
    self->weighed = UINT64_MAX;
    return BO_OK;
}

static void close_graph(bo_train_task *task)
{
    texts_task *self = (texts_task *)task;
    bo_text_pack_destroy(self->packed);
    bo_packs_destroy(self->packs);
    bo_free(self->examples);
    self->packed = NULL;
    self->packs = NULL;
    self->examples = NULL;
}

/* Returns the weight of these examples in the mean. */
static double weight_of(const texts_task *self, const size_t *examples, size_t count)
{
    double weight = 0;
    for (size_t i = 0; self->translates && i < count; i++)
        weight += (double)bo_text_at(self->task.desc->train.texts, examples[i], 1).count;
    return self->translates ? weight : (double)count;
}

/* Computes the weight of all packs of a step, on all ranks. */
static bo_status weigh_step(bo_context *context, texts_task *self, uint64_t step)
{
    if (self->weighed == step) return BO_OK;
    self->weighed = UINT64_MAX;
    self->whole_weight = 0;
    for (size_t i = 0; i < self->task.desc->batch; i++) {
        size_t count;
        BO_TRY(bo_packs_get(context, self->packs, step, i, self->examples, &count));
        self->whole_weight += weight_of(self, self->examples, count);
    }
    self->weighed = step;
    return BO_OK;
}

static bo_status load(bo_context *context, bo_train_task *task, const bo_train_place *place, bo_graph_pass *pass)
{
    texts_task *self = (texts_task *)task;
    const bo_trainer_desc *desc = task->desc;
    const size_t ranks = desc->ranks ? (size_t)desc->ranks->size : 1, first = place->rank * (desc->batch / ranks);
    size_t count = 0;
    assert(self->packs && self->packed && self->examples);
    BO_TRY(weigh_step(context, self, place->step));
    for (size_t i = 0; i < place->count; i++) {
        size_t more;
        BO_TRY(
            bo_packs_get(context, self->packs, place->step, first + place->first + i, self->examples + count, &more));
        count += more;
    }
    const double even = self->whole_weight * (double)place->count / (double)desc->batch;
    task->weight = weight_of(self, self->examples, count) / even;
    BO_TRY(bo_text_pack_fill(context, self->packed, desc->train.texts, self->examples, count));
    return bo_model_graph_fill(context, desc->model, &task->graph, &(bo_model_batch){.packed = self->packed}, pass);
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* Returns the number of examples that have about this many tokens; 0: all. */
static uint64_t max_examples(const bo_texts *texts, uint64_t tokens)
{
    if (!tokens) return 0;
    const double limit = (double)tokens / (double)all_tokens(texts) * (double)bo_texts_count(texts);
    return limit < 1 ? 1 : limit < (double)bo_texts_count(texts) ? (uint64_t)limit : 0;
}

static bo_status evaluate_labels(bo_context *context, const bo_trainer_desc *desc, uint64_t limit,
                                 bo_training_score *out)
{
    bo_classification found;
    BO_TRY(bo_model_evaluate_labels(context, desc->model, desc->valid.texts, limit, &found, NULL));
    out->loss = found.loss;
    out->metric = found.accuracy;
    out->count = found.examples;
    return BO_OK;
}

static bo_status evaluate(bo_context *context, bo_train_task *task, bo_training_score *out)
{
    const bo_trainer_desc *desc = task->desc;
    const uint64_t limit = max_examples(desc->valid.texts, desc->eval_tokens);
    if (!((const texts_task *)task)->translates) return evaluate_labels(context, desc, limit, out);
    bo_translation found;
    BO_TRY(bo_model_evaluate_translation(context, desc->model, desc->valid.texts, limit, NULL, false, false, &found));
    out->loss = found.loss;
    out->metric = found.perplexity;
    out->count = found.tokens;
    return BO_OK;
}

static bo_status plan(bo_context *context, const bo_train_task *task, bo_training_cost *out)
{
    const texts_task *self = (const texts_task *)task;
    out->state_bytes = bo_model_state_bytes(model_of(task));
    if (self->translates) BO_TRY(bo_session_estimate(context, model_of(task), NULL, &out->state_bytes, NULL));
    out->batch = task->desc->batch;
    out->items_of_epoch = bo_packs_per_epoch(self->packs);
    out->item_tokens = main_rows(self);
    out->fill = bo_packs_occupancy(self->packs);
    return BO_OK;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/* Writes settings that the fingerprint of a model with data-dependent frequencies does not cover. */
static void task_settings(const bo_model_desc *d, bo_json_text *text)
{
    bo_train_setting_word(text, "task", bo_model_task_name(d->task));
    if (d->task == BO_MODEL_TASK_TRANSLATE) {
        bo_train_setting_number(text, "encoder_layers", (double)d->encoder_layers);
        bo_train_setting_word(text, "cross", bo_cross_name(d->cross));
        bo_train_setting_word(text, "cross_attention",
                              bo_attention_kind_name(bo_model_main_block(d)->cross_attention.kind));
    } else {
        bo_train_setting_word(text, "pooling", bo_pooling_name(d->pooling));
        bo_train_setting_number(text, "forward", d->forward);
    }
}

/* Writes the settings of the texts before those of the model, because the texts determine its classes. */
static void settings(const bo_train_task *task, bo_json_text *text)
{
    const bo_trainer_desc *desc = task->desc;
    const texts_task *self = (const texts_task *)task;
    task_settings(&desc->model->desc, text);
    bo_train_setting_code(text, "texts", bo_texts_fingerprint(desc->train.texts));
    bo_train_setting_code(text, "validation_texts", desc->valid.texts ? bo_texts_fingerprint(desc->valid.texts) : 0);
    bo_train_model_settings(task, text);
    bo_train_setting_number(text, "pack", (double)main_rows(self));
    bo_train_setting_number(text, "smoothing", desc->smoothing);
    bo_train_setting_number(text, "calibrate_every", (double)desc->calibrate_every);
}

static uint64_t fingerprint(const bo_train_task *task)
{
    return bo_texts_fingerprint(task->desc->train.texts);
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

static const bo_train_methods methods = {.subject = "model",
                                         .data = "texts",
                                         .unit = "tokens",
                                         .check = check,
                                         .item_bytes = item_bytes,
                                         .open = open_graph,
                                         .close = close_graph,
                                         .load = load,
                                         .prepare = bo_train_model_prepare,
                                         .evaluate = evaluate,
                                         .settings = settings,
                                         .fingerprint = fingerprint,
                                         .plan = plan};

bo_status bo_train_texts(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out)
{
    if (!desc->model || !desc->train.texts)
        return bo_fail(context, BO_INVALID, "training: the model or the texts are NULL");
    texts_task *self = bo_alloc(context, 1, sizeof *self, "a task");
    if (!self) return BO_MEMORY;
    self->task = (bo_train_task){.methods = &methods, .desc = desc, .evaluates = desc->valid.texts != NULL};
    self->translates =
        desc->model->desc.task == BO_MODEL_TASK_TRANSLATE && bo_texts_get_kind(desc->train.texts) == BO_TEXTS_PAIR;
    self->task.metric = self->translates ? "perplexity" : "accuracy";
    size_packs(self);
    *out = &self->task;
    return BO_OK;
}
