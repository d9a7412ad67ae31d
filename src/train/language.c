/* Language modeling as a task: a model learns to predict the next token of a text. Items are windows of the
 * text. */
#include "../text/facts.h"
#include "../text/batches.h"
#include <math.h>
#include <string.h>
#include "../model/enums.h"
#include "../base/trace.h"
#include "../model/whiten.h"
#include "models.h"
#include "states.h"

/* Buffers for the batch of one graph run, in host memory. */
typedef struct language_batch {
    int32_t *tokens, *targets, *positions; /* micro_batch x window each */
    int32_t *chosen;                       /* the rows whose loss is computed; NULL: all */
    size_t *lengths;                       /* lengths of the runs of documents; NULL: each window is one run */
    size_t capacity;                       /* capacity in runs */
} language_batch;

typedef struct language_task {
    bo_train_task task;
    language_batch batch;
    bo_train_states *states; /* NULL: not carried, or not created yet */
    bool whitened;           /* this trainer has set M; the gradients of step 0 may be computed more than once */
} language_task;

static const bo_model *model_of(const bo_train_task *task)
{
    return task->desc->model;
}

/* Tokens per sequence. */
static size_t window_of(const bo_trainer_desc *desc)
{
    return desc->window ? desc->window : desc->model->desc.context;
}

static double share_of(const bo_trainer_desc *desc)
{
    return desc->imitate != BO_IMITATION_LOGITS ? 0 : desc->share > 0 ? desc->share : 0.9;
}

/* Rows of a graph whose loss is computed. */
static size_t scored_of(const bo_trainer_desc *desc, size_t rows)
{
    return desc->imitate == BO_IMITATION_LOGITS && desc->sparsity > 1 ? bo_max(rows / desc->sparsity, 1) : rows;
}

static bo_batches_desc batches_of(const bo_train_task *task, size_t rank)
{
    const bo_trainer_desc *desc = task->desc;
    return (bo_batches_desc){.corpus = desc->train.corpus,
                             .context = window_of(desc),
                             .batch = desc->batch,
                             .part = rank,
                             .parts = desc->ranks ? (size_t)desc->ranks->size : 1,
                             .seed = desc->seed,
                             .documents = desc->documents,
                             .lanes = desc->stateful ? desc->batch : 0};
}

/* ---- states of a stateful run ------------------------------------------------------------------------------------ */

static size_t max_runs(const bo_trainer_desc *desc, size_t micro_batch)
{
    return desc->documents ? micro_batch * (1 + window_of(desc) / 16) : 0;
}

static bo_train_states_desc states_of(const bo_trainer_desc *desc, size_t micro_batch)
{
    const size_t share = desc->batch / (desc->ranks ? (size_t)desc->ranks->size : 1);
    return (bo_train_states_desc){.model = desc->model,
                                  .lanes = desc->batch,
                                  .first = desc->ranks ? (size_t)desc->ranks->rank * share : 0,
                                  .share = share,
                                  .windows = desc->state_windows > 1 ? desc->state_windows : 1,
                                  .micro_batch = micro_batch,
                                  .max_runs = max_runs(desc, micro_batch)};
}

static bo_status check_states(bo_context *context, const bo_trainer_desc *desc)
{
    enum { MAX_WINDOWS = 1024 };
    if (desc->state_windows > 1 && !desc->stateful)
        return bo_fail(context, BO_INVALID, "state_windows: %zu windows per step need a stateful run",
                       desc->state_windows);
    if (desc->state_windows > MAX_WINDOWS)
        return bo_fail(context, BO_INVALID, "state_windows: expected at most %d, found %zu", MAX_WINDOWS,
                       desc->state_windows);
    if (!desc->stateful) return BO_OK;
    return bo_train_states_check(context, desc->model);
}

/* Creates empty states if they do not exist. */
static bo_status make_states(bo_context *context, language_task *self)
{
    const bo_train_states_desc desc = states_of(self->task.desc, self->task.desc->micro_batch);
    return self->states ? BO_OK : bo_train_states_create(context, &desc, &self->states);
}

/* Every rank uses the same text and therefore gets the same M. A resumed run has M in its weights. */
static bo_status whiten(bo_context *context, language_task *self, uint64_t step)
{
    enum { TOKENS = 4096 };
    const bo_trainer_desc *desc = self->task.desc;
    if (!desc->whiten || step || self->whitened) return BO_OK;
    BO_SPAN(context, "train", "whiten");
    BO_TRY(bo_model_whiten_windows(context, desc->model, desc->train.corpus, window_of(desc), TOKENS, 0));
    self->whitened = true;
    return BO_OK;
}

static bo_status prepare(bo_context *context, bo_train_task *task, uint64_t step)
{
    language_task *self = (language_task *)task;
    BO_TRY(whiten(context, self, step));
    if (!task->desc->stateful) return bo_train_model_prepare(context, task, step);
    const bo_train_states_desc desc = states_of(task->desc, task->desc->micro_batch);
    BO_TRY(make_states(context, self));
    BO_TRY(bo_train_states_open(context, self->states, &desc));
    const bo_status status = bo_train_model_prepare(context, task, step);
    /* also after a failure: a repeated step may find the frequencies already drawn */
    const bo_status reset = task->redrawn ? bo_train_states_reset(context, self->states) : BO_OK;
    return status == BO_OK ? reset : status;
}

static void advance(bo_train_task *task)
{
    if (task->desc->stateful) bo_train_states_advance(((language_task *)task)->states);
}

static bo_status gather_state(bo_context *context, bo_train_task *task)
{
    language_task *self = (language_task *)task;
    BO_TRY(make_states(context, self));
    return task->desc->ranks ? bo_train_states_gather(context, self->states, task->desc->ranks) : BO_OK;
}

static bo_status write_state(bo_context *context, bo_train_task *task, const char *path)
{
    language_task *self = (language_task *)task;
    BO_TRY(make_states(context, self));
    return bo_train_states_write(context, self->states, path);
}

static bo_status read_state(bo_context *context, bo_train_task *task, const char *path)
{
    language_task *self = (language_task *)task;
    BO_TRY(make_states(context, self));
    return bo_train_states_read(context, self->states, path);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* ATTENTION trains parameters of the replaced layers only. */
static bo_status check_imitation(bo_context *context, const bo_trainer_desc *desc)
{
    const bo_model *model = desc->model;
    if (!(desc->share >= 0 && desc->share <= 1))
        return bo_fail(context, BO_INVALID, "share: expected a number from 0 to 1, found %g", desc->share);
    if (desc->imitate == BO_IMITATION_NONE) return BO_OK;
    if ((unsigned)desc->imitate > BO_IMITATION_LOGITS)
        return bo_fail(context, BO_INVALID, "imitate: unknown value %d", (int)desc->imitate);
    if (!bo_model_is_linearized(&model->desc))
        return bo_fail(context, BO_INVALID, "imitate: the model is not linearized, so it has no teacher");
    if (desc->stateful || desc->documents)
        return bo_fail(context, BO_INVALID,
                       "imitate: not possible for a run that is stateful or restarts at documents");
    const bool adapted = model->adapter && !model->adapter->aside;
    if (desc->imitate == BO_IMITATION_ATTENTION && adapted)
        return bo_fail(context, BO_INVALID, "imitate: attention must be trained before adapters are added");
    if (desc->imitate == BO_IMITATION_LOGITS && !adapted)
        return bo_fail(context, BO_INVALID,
                       "imitate: logits require adapters; without them, training would change the teacher too");
    return desc->imitate == BO_IMITATION_LOGITS ? bo_model_check_fixed(context, model) : BO_OK;
}

/* Adapters freeze M, unless it is trained in full. */
static bo_status check_whitening(bo_context *context, const bo_trainer_desc *desc)
{
    const bo_model *model = desc->model;
    BO_TRY(bo_model_whiten_check(context, model));
    for (size_t i = 0; i < bo_weights_count(model->weights) && model->adapter; i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i);
        const char *end = strrchr(weight->name, '.');
        if (!end || strcmp(end, ".m") != 0 || !weight->frozen) continue;
        return bo_fail(context, BO_INVALID,
                       "whiten: the adapters freeze %s; add m to the layers that are trained in full", weight->name);
    }
    return BO_OK;
}

static bo_status check(bo_context *context, const bo_train_task *task)
{
    const bo_batches_desc batches = batches_of(task, 0);
    const size_t max_tokens = model_of(task)->desc.context;
    if (model_of(task)->desc.task != BO_MODEL_TASK_LANGUAGE)
        return bo_fail(context, BO_INVALID,
                       "training: a model with task %s is trained on labeled texts (%s), not on a corpus",
                       bo_model_task_name(model_of(task)->desc.task),
                       model_of(task)->desc.task == BO_MODEL_TASK_TRANSLATE ? "translations" : "labels");
    if (batches.context > max_tokens)
        return bo_fail(context, BO_INVALID, "window: expected at most %zu, the context of the model, found %zu",
                       max_tokens, batches.context);
    BO_TRY(bo_train_model_check(context, task));
    BO_TRY(check_states(context, task->desc));
    BO_TRY(check_imitation(context, task->desc));
    if (task->desc->whiten) BO_TRY(check_whitening(context, task->desc));
    return bo_batches_check(context, &batches);
}

/* ---- graph and batch --------------------------------------------------------------------------------------------- */

static double item_bytes(const bo_train_task *task)
{
    return (double)window_of(task->desc) * bo_train_model_row_bytes(task, model_of(task)->desc.layers);
}

static bo_status make_batch(bo_context *context, language_batch *batch, const bo_model_graph_desc *graph)
{
    batch->tokens = bo_alloc(context, graph->rows, sizeof(int32_t), "a batch");
    batch->targets = bo_alloc(context, graph->rows, sizeof(int32_t), "a batch");
    batch->positions = bo_alloc(context, graph->rows, sizeof(int32_t), "a batch");
    batch->capacity = graph->max_sequences;
    const bool some = graph->scored != graph->rows;
    if (batch->capacity) batch->lengths = bo_alloc(context, batch->capacity, sizeof(size_t), "lengths of documents");
    if (some) batch->chosen = bo_alloc(context, graph->scored, sizeof(int32_t), "a batch");
    return batch->tokens && batch->targets && batch->positions && (!batch->capacity || batch->lengths) &&
                   (!some || batch->chosen)
               ? BO_OK
               : BO_MEMORY;
}

static bo_status open_graph(bo_context *context, bo_train_task *task, size_t micro_batch)
{
    language_task *self = (language_task *)task;
    const size_t window = window_of(task->desc);
    const bo_model_graph_desc desc = {
        .rows = micro_batch * window,
        .tokens = window,
        .max_sequences = max_runs(task->desc, micro_batch),
        .imitate = task->desc->imitate,
        .share = share_of(task->desc),
        .scored = scored_of(task->desc, micro_batch * window),
    };
    BO_TRY(make_batch(context, &self->batch, &desc));
    return bo_train_graph(context, task, desc);
}

static void close_graph(bo_train_task *task)
{
    language_task *self = (language_task *)task;
    bo_free(self->batch.tokens);
    bo_free(self->batch.targets);
    bo_free(self->batch.positions);
    bo_free(self->batch.lengths);
    bo_free(self->batch.chosen);
    self->batch = (language_batch){0};
    bo_train_states_destroy(self->states);
    self->states = NULL;
}

/* Writes every sparsity-th row of the micro-batch. The first row depends on the step. */
static bo_status write_chosen(bo_context *context, const language_task *self, uint64_t step)
{
    const bo_trainer_desc *desc = self->task.desc;
    const size_t rows = desc->micro_batch * window_of(desc), count = scored_of(desc, rows);
    const size_t from =
        (size_t)(step % (desc->sparsity + rows % desc->sparsity)) % rows; /* so that all rows are used */
    for (size_t i = 0; i < count; i++) {
        self->batch.chosen[i] = (int32_t)bo_min(from + i * desc->sparsity, rows - 1);
        self->batch.targets[i] = self->batch.targets[self->batch.chosen[i]]; /* index >= i: not overwritten yet */
    }
    return bo_graph_write(context, self->task.graph.graph, self->task.graph.chosen, self->batch.chosen);
}

static bo_status load(bo_context *context, bo_train_task *task, const bo_train_place *place, bo_graph_pass *pass)
{
    const language_task *self = (const language_task *)task;
    const language_batch *batch = &self->batch;
    const bo_text_pack pack = {.stream = {.tokens = batch->tokens, .positions = batch->positions},
                               .labels = batch->targets};
    const bo_batches_desc batches = batches_of(task, place->rank);
    const uint64_t step = place->step * task->windows + place->window; /* of the batches */
    size_t runs = batch->capacity;
    BO_TRY(bo_batches_fill(context, &batches, step, place->first, place->count, batch->tokens, batch->targets,
                           batch->positions, batch->lengths, batch->lengths ? &runs : NULL));
    if (batch->lengths) pass->sequences = runs, pass->lengths = batch->lengths;
    if (self->states && !place->reset) {
        const bo_train_segment segment = {&batches, step, place->window, place->first, runs, batch->lengths};
        BO_TRY(bo_train_states_load(context, self->states, &segment, batch->positions, pass));
    }
    if (task->graph.chosen) BO_TRY(write_chosen(context, self, step));
    return bo_model_graph_fill(context, model_of(task), &task->graph, &(bo_model_batch){.packed = &pack}, pass);
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* The mean over the linearized layers. */
static bo_status evaluate_attention(bo_context *context, const bo_trainer_desc *desc, bo_training_score *out)
{
    const size_t layers = desc->model->desc.layers;
    double sum = 0, count = 0;
    double *errors = bo_alloc(context, layers, sizeof *errors, "errors of layers");
    if (!errors) return BO_MEMORY;
    const bo_status status =
        bo_model_imitation(context, desc->model, desc->valid.corpus, window_of(desc), desc->eval_tokens, errors);
    for (size_t i = 0; i < layers; i++)
        if (!isnan(errors[i])) sum += errors[i], count++;
    bo_free(errors);
    *out = (bo_training_score){.loss = sum / count, .metric = NAN};
    return status;
}

static bo_status evaluate(bo_context *context, bo_train_task *task, bo_training_score *out)
{
    bo_evaluation found;
    const bo_trainer_desc *desc = task->desc;
    if (desc->imitate == BO_IMITATION_ATTENTION) return evaluate_attention(context, desc, out);
    /* with carried states, the text is a single window */
    const uint64_t all = bo_corpus_tokens(desc->valid.corpus), max_tokens = desc->eval_tokens;
    const size_t window =
        desc->stateful ? (size_t)(max_tokens && max_tokens < all ? max_tokens : all) : window_of(desc);
    BO_TRY(bo_model_evaluate(context, desc->model, desc->valid.corpus, window, max_tokens, &found));
    out->loss = found.loss;
    out->metric = found.bits_per_byte;
    out->count = found.tokens;
    return BO_OK;
}

static bo_status plan(bo_context *context, const bo_train_task *task, bo_training_cost *out)
{
    size_t session;
    const bo_session_desc desc = {.capacity = window_of(task->desc)};
    BO_TRY(bo_session_estimate(context, model_of(task), &desc, &out->state_bytes, &session));
    out->all_bytes += session;
    if (task->desc->stateful) {
        const bo_train_states_desc states = states_of(task->desc, out->micro_batch);
        out->all_bytes += bo_train_states_bytes(&states);
    }
    return BO_OK;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static void settings(const bo_train_task *task, bo_json_text *text)
{
    const bo_trainer_desc *desc = task->desc;
    bo_train_model_settings(task, text);
    bo_train_setting_code(text, "corpus", bo_corpus_fingerprint(desc->train.corpus));
    bo_train_setting_code(text, "validation_corpus",
                          desc->valid.corpus ? bo_corpus_fingerprint(desc->valid.corpus) : 0);
    bo_train_setting_number(text, "documents", desc->documents);
    bo_train_setting_number(text, "calibrate_every", (double)desc->calibrate_every);
    /* omitted for the default, so that runs of earlier versions can be resumed */
    if (desc->stateful) bo_train_setting_number(text, "state_windows", (double)task->windows);
    if (desc->whiten) bo_train_setting_number(text, "whiten", 1);
    if (desc->imitate) bo_train_setting_number(text, "imitate", (double)desc->imitate);
    if (desc->imitate == BO_IMITATION_LOGITS) bo_train_setting_number(text, "share", share_of(desc));
    if (desc->imitate == BO_IMITATION_LOGITS && desc->sparsity > 1)
        bo_train_setting_number(text, "sparsity", (double)desc->sparsity);
    if (window_of(desc) != desc->model->desc.context) bo_train_setting_number(text, "window", (double)window_of(desc));
}

static uint64_t fingerprint(const bo_train_task *task)
{
    return bo_corpus_fingerprint(task->desc->train.corpus);
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

static const bo_train_methods methods = {.subject = "model",
                                         .data = "text",
                                         .unit = "tokens",
                                         .check = check,
                                         .item_bytes = item_bytes,
                                         .open = open_graph,
                                         .close = close_graph,
                                         .load = load,
                                         .prepare = prepare,
                                         .advance = advance,
                                         .evaluate = evaluate,
                                         .gather_state = gather_state,
                                         .write_state = write_state,
                                         .read_state = read_state,
                                         .settings = settings,
                                         .fingerprint = fingerprint,
                                         .plan = plan};

bo_status bo_train_language(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out)
{
    if (!desc->model || !desc->train.corpus) return bo_fail(context, BO_INVALID, "training needs a model and a text");
    language_task *self = bo_alloc(context, 1, sizeof *self, "a task");
    if (!self) return BO_MEMORY;
    const size_t windows = desc->state_windows > 1 ? desc->state_windows : 1;
    self->task = (bo_train_task){.methods = &methods,
                                 .desc = desc,
                                 .metric = "bits_per_byte",
                                 .units = window_of(desc) * windows,
                                 .windows = windows,
                                 .state_file = desc->stateful ? BO_TRAIN_STATES_FILE : NULL,
                                 .evaluates = desc->valid.corpus != NULL};
    *out = &self->task;
    return BO_OK;
}
