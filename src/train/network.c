/* The task `predict`: items are examples. A graph is a single example. */
#include "../model/enums.h"
#include "task.h"

typedef struct network_task {
    bo_train_task task;
    size_t *rows;                /* rows of a micro-batch */
    uint64_t examples, held_out; /* fingerprints of the data; computing them reads all of it */
} network_task;

static const bo_network *network_of(const bo_train_task *task)
{
    return task->desc->model->network;
}

static bool whole(const bo_train_task *task)
{
    return network_of(task)->input == BO_NETWORK_INPUT_GRAPH;
}

static bo_status check(bo_context *context, const bo_train_task *task)
{
    const bo_trainer_desc *desc = task->desc;
    const size_t ranks = desc->ranks ? (size_t)desc->ranks->size : 1;
    BO_TRY(bo_network_check(context, desc->model->network, desc->train.examples, true));
    if (desc->valid.examples) BO_TRY(bo_network_check(context, desc->model->network, desc->valid.examples, true));
    if (!bo_examples_rows(desc->train.examples, BO_SPLIT_TRAIN))
        return bo_fail(context, BO_INVALID, "training: there are no examples in the training part");
    if (desc->valid.examples && !bo_examples_rows(desc->valid.examples, BO_SPLIT_VALID))
        return bo_fail(context, BO_INVALID, "training: there are no examples in the validation part");
    if (whole(task) && desc->batch != 1)
        return bo_fail(context, BO_INVALID, "batch: a graph is a single example: expected 1, found %zu", desc->batch);
    if (desc->batch % ranks == 0) return BO_OK;
    return bo_fail(context, BO_INVALID, "batch: %zu examples cannot be divided evenly among %zu ranks", desc->batch,
                   ranks);
}

/* ---- graph and batch --------------------------------------------------------------------------------------------- */

/* Outputs of the layers, doubled for the values that they keep for the backward pass. */
static double item_bytes(const bo_train_task *task)
{
    const bo_network *network = network_of(task);
    const double numbers = (double)network->info.dim + 2 * bo_network_layer_numbers(network);
    return 4 * numbers * (whole(task) ? (double)task->desc->train.examples->rows : 1);
}

static bo_status open_graph(bo_context *context, bo_train_task *task, size_t micro_batch)
{
    network_task *self = (network_task *)task;
    const bo_examples *examples = task->desc->train.examples;
    const bo_model_graph_desc desc = {
        .data = examples, .examples = whole(task) ? bo_examples_rows(examples, BO_SPLIT_TRAIN) : micro_batch};
    self->rows = bo_alloc(context, desc.examples, sizeof *self->rows, "a batch");
    return self->rows ? bo_train_graph(context, task, desc) : BO_MEMORY;
}

static void close_graph(bo_train_task *task)
{
    network_task *self = (network_task *)task;
    bo_free(self->rows);
    self->rows = NULL;
}

static bo_status load(bo_context *context, bo_train_task *task, const bo_train_place *place, bo_graph_pass *pass)
{
    network_task *self = (network_task *)task;
    const bo_trainer_desc *desc = task->desc;
    const size_t share = desc->batch / (desc->ranks ? (size_t)desc->ranks->size : 1);
    const bo_model_batch batch = {.examples = desc->train.examples, .rows = self->rows};
    if (whole(task))
        for (size_t i = 0; i < task->graph.network.examples; i++)
            self->rows[i] = bo_examples_row(desc->train.examples, BO_SPLIT_TRAIN, i);
    else
        bo_examples_batch(desc->train.examples, desc->seed, place->step, desc->batch,
                          place->rank * share + place->first, place->count, self->rows);
    return bo_model_graph_fill(context, desc->model, &task->graph, &batch, pass);
}

static bo_status evaluate(bo_context *context, bo_train_task *task, bo_training_score *out)
{
    bo_examples_evaluation found;
    BO_TRY(bo_model_evaluate_examples(context, task->desc->model, task->desc->valid.examples, BO_SPLIT_VALID, &found));
    out->loss = found.loss;
    out->metric = network_of(task)->loss == BO_NETWORK_CROSS_ENTROPY ? found.accuracy : found.rmse;
    out->count = found.examples;
    return BO_OK;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static void settings(const bo_train_task *task, bo_json_text *text)
{
    const network_task *self = (const network_task *)task;
    bo_train_setting_code(text, "network", bo_network_fingerprint(network_of(task)));
    bo_train_setting_number(text, "width_multiplier", network_of(task)->multiplier);
    bo_train_setting_code(text, "examples", self->examples);
    bo_train_setting_code(text, "held_out", self->held_out);
}

static uint64_t fingerprint(const bo_train_task *task)
{
    return ((const network_task *)task)->examples;
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

static const bo_train_methods methods = {.subject = "network",
                                         .data = "examples",
                                         .unit = "examples",
                                         .check = check,
                                         .item_bytes = item_bytes,
                                         .open = open_graph,
                                         .close = close_graph,
                                         .load = load,
                                         .evaluate = evaluate,
                                         .settings = settings,
                                         .fingerprint = fingerprint};

bo_status bo_train_network(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out)
{
    if (!desc->model->network)
        return bo_fail(context, BO_INVALID, "training: found examples, but the model has the task %s",
                       bo_model_task_name(desc->model->desc.task));
    if (!desc->train.examples)
        return bo_fail(context, BO_INVALID, "training: a model of the task predict needs examples");
    network_task *self = bo_alloc(context, 1, sizeof *self, "a task");
    if (!self) return BO_MEMORY;
    self->task = (bo_train_task){.methods = &methods,
                                 .desc = desc,
                                 .metric = desc->model->network->loss == BO_NETWORK_CROSS_ENTROPY ? "accuracy" : "rmse",
                                 .units = 1,
                                 .evaluates = desc->valid.examples != NULL};
    self->examples = bo_examples_fingerprint(desc->train.examples);
    if (desc->valid.examples) self->held_out = bo_examples_fingerprint(desc->valid.examples);
    if (whole(&self->task))
        self->task.batch = 1, self->task.units = bo_examples_rows(desc->train.examples, BO_SPLIT_TRAIN);
    *out = &self->task;
    return BO_OK;
}
