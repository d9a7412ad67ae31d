/* Language models as a task. */
#include "language.h"

static const char *const files[] = {"config.json", "tokenizer.json", "model.safetensors", NULL};
static const char *const adapter_files[] = {"adapter_config.json", "tokenizer.json", "adapter_model.safetensors", NULL};

static const bo_model *model_of(const bo_train_task *task)
{
    return task->desc->model;
}

static bo_batches_desc batches_of(const bo_train_task *task, size_t rank)
{
    const bo_trainer_desc *desc = task->desc;
    return (bo_batches_desc){.corpus = desc->train,
                             .context = desc->model->desc.context,
                             .batch = desc->batch,
                             .part = rank,
                             .parts = desc->ranks ? (size_t)desc->ranks->size : 1,
                             .seed = desc->seed,
                             .documents = desc->documents};
}

static bo_status check(bo_context *context, const bo_train_task *task)
{
    const bo_batches_desc batches = batches_of(task, 0);
    const bo_adapter *adapter = model_of(task)->adapter;
    if (adapter && adapter->aside)
        return bo_fail(context, BO_INVALID, "training: the adapters of the model are merged");
    if (adapter && task->desc->calibrate_every)
        return bo_fail(context, BO_INVALID, "calibrate: an adapter has no frequencies of its own");
    return bo_batches_check(context, &batches);
}

/* ---- graph and batch ---------------------------------------------------------------------------------------------------- */

static double item_bytes(const bo_train_task *task)
{
    const bo_model_desc *d = &model_of(task)->desc;
    const double heads = (double)d->heads * (double)d->head_dim, inner = d->mlp == BO_MLP_NONE ? 0 : (double)d->hidden;
    const double layer = 6 * (double)d->width + 8 * heads + 3 * inner;
    const double layers = task->desc->checkpointing ? 1 + 0.1 * (double)d->layers : (double)d->layers;
    const double bytes = task->desc->activations == BO_STORAGE_BFLOAT16 ? 2 : 4;
    return (double)d->context * (bytes * layer * layers + 4 * 4 * (double)d->width);
}

static bo_status make_batch(bo_context *context, bo_language_batch *batch, const bo_model_graph_desc *graph)
{
    batch->tokens = bo_alloc(context, graph->rows, sizeof(int32_t), "a batch");
    batch->targets = bo_alloc(context, graph->rows, sizeof(int32_t), "a batch");
    batch->positions = bo_alloc(context, graph->rows, sizeof(int32_t), "a batch");
    batch->room = graph->most_sequences;
    if (batch->room) batch->lengths = bo_alloc(context, batch->room, sizeof(size_t), "lengths of documents");
    return batch->tokens && batch->targets && batch->positions && (!batch->room || batch->lengths) ? BO_OK : BO_MEMORY;
}

static bo_status open_graph(bo_context *context, bo_train_task *task, size_t micro_batch)
{
    bo_language_task *own = (bo_language_task *)task;
    const size_t window = model_of(task)->desc.context;
    const bo_model_graph_desc desc = {
        .rows = micro_batch * window,
        .tokens = window,
        .most_sequences = task->desc->documents ? micro_batch * (1 + window / 16) : 0,
        .loss = true,
        .gradients = true,
        .checkpoint = task->desc->checkpointing,
        .bfloat16 = task->desc->activations == BO_STORAGE_BFLOAT16,
    };
    BO_TRY(make_batch(context, &own->batch, &desc));
    BO_TRY(bo_model_graph_create(context, model_of(task), &desc, &own->graph));
    task->graph = own->graph.graph;
    task->loss = own->graph.loss;
    return BO_OK;
}

static void close_graph(bo_train_task *task)
{
    bo_language_task *own = (bo_language_task *)task;
    bo_model_graph_destroy(&own->graph);
    bo_free(own->batch.tokens);
    bo_free(own->batch.targets);
    bo_free(own->batch.positions);
    bo_free(own->batch.lengths);
    own->batch = (bo_language_batch){0};
}

static bo_status load(bo_context *context, bo_train_task *task, const bo_train_place *place, bo_pass *pass)
{
    const bo_language_task *own = (const bo_language_task *)task;
    const bo_language_batch *batch = &own->batch;
    const bo_model_graph *graph = &own->graph;
    const bo_batches_desc batches = batches_of(task, place->rank);
    size_t runs = batch->room;
    BO_TRY(bo_batches_fill(context, &batches, place->step, place->first, place->count, batch->tokens, batch->targets,
                           batch->positions, batch->lengths, batch->lengths ? &runs : NULL));
    if (batch->lengths) pass->sequences = runs, pass->lengths = batch->lengths;
    BO_TRY(bo_graph_write(context, graph->graph, graph->tokens, batch->tokens));
    if (graph->positions) BO_TRY(bo_graph_write(context, graph->graph, graph->positions, batch->positions));
    return bo_graph_write(context, graph->graph, graph->targets, batch->targets);
}

/* ---- what it is worth ---------------------------------------------------------------------------------------------------- */

static bo_status evaluate(bo_context *context, bo_train_task *task, bo_training_score *out)
{
    bo_evaluation found;
    const bo_trainer_desc *desc = task->desc;
    BO_TRY(bo_model_evaluate(context, desc->model, desc->valid, 0, desc->eval_tokens, &found));
    out->loss = found.loss;
    out->metric = found.bits_per_byte;
    out->count = found.tokens;
    return BO_OK;
}

static bo_status plan(bo_context *context, const bo_train_task *task, bo_trainer_plan *out)
{
    size_t session;
    BO_TRY(bo_session_memory(context, model_of(task), NULL, &out->state_bytes, &session));
    out->all_bytes += session;
    return BO_OK;
}

/* ---- files --------------------------------------------------------------------------------------------------------------- */

static bo_status write_model(bo_context *context, const bo_train_task *task, const char *folder)
{
    return bo_model_write(context, model_of(task), folder);
}

static bo_status read_model(bo_context *context, bo_train_task *task, const char *folder)
{
    return bo_model_read(context, task->desc->model, folder);
}

static void adapter_settings(bo_json_text *text, const bo_adapter *adapter)
{
    bo_train_setting_number(text, "lora_rank", (double)adapter->lora.rank);
    bo_train_setting_number(text, "lora_alpha", adapter->lora.alpha);
    bo_train_setting_word(text, "lora_init", bo_lora_init_name(adapter->lora.init));
    bo_train_setting_code(text, "base", adapter->digest);
}

static void settings(const bo_train_task *task, bo_json_text *text)
{
    const bo_trainer_desc *desc = task->desc;
    const bo_model_desc *d = &desc->model->desc;
    bo_train_setting_number(text, "layers", (double)d->layers);
    bo_train_setting_number(text, "width", (double)d->width);
    bo_train_setting_number(text, "heads", (double)d->heads);
    bo_train_setting_number(text, "key_heads", (double)d->key_heads);
    bo_train_setting_number(text, "hidden", (double)d->hidden);
    bo_train_setting_number(text, "context", (double)d->context);
    bo_train_setting_number(text, "vocab", (double)d->vocab);
    bo_train_setting_word(text, "attention", bo_attention_name(d->attention.kind));
    bo_train_setting_word(text, "gate", bo_gate_name(d->attention.gate));
    bo_train_setting_number(text, "features", (double)d->attention.features.features);
    bo_train_setting_word(text, "mlp", bo_mlp_name(d->mlp));
    bo_train_setting_word(text, "norm", bo_norm_name(d->norm));
    bo_train_setting_word(text, "positions", bo_positions_name(d->positions));
    bo_train_setting_number(text, "dropout", d->dropout);
    if (desc->model->adapter) adapter_settings(text, desc->model->adapter);
    if (!bo_language_calibrates(desc->model)) /* the fingerprint knows the frequencies */
        bo_train_setting_code(text, "model", bo_model_fingerprint(desc->model));
    bo_train_setting_code(text, "corpus", bo_corpus_fingerprint(desc->train));
    bo_train_setting_code(text, "validation_corpus", desc->valid ? bo_corpus_fingerprint(desc->valid) : 0);
    bo_train_setting_number(text, "documents", desc->documents);
    bo_train_setting_number(text, "calibrate_every", (double)desc->calibrate_every);
}

static void fingerprints(const bo_train_task *task, uint64_t *subject, uint64_t *data)
{
    *subject = bo_model_fingerprint(model_of(task));
    *data = bo_corpus_fingerprint(task->desc->train);
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

static const bo_train_methods methods = {.subject = "model",
                                         .data = "text",
                                         .unit = "tokens",
                                         .check = check,
                                         .item_bytes = item_bytes,
                                         .open = open_graph,
                                         .close = close_graph,
                                         .load = load,
                                         .prepare = bo_language_calibrate,
                                         .evaluate = evaluate,
                                         .write = write_model,
                                         .read = read_model,
                                         .settings = settings,
                                         .fingerprints = fingerprints,
                                         .plan = plan};

bo_status bo_train_language(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out)
{
    if (!desc->model || !desc->train) return bo_fail(context, BO_INVALID, "training needs a model and a text");
    bo_language_task *own = bo_alloc(context, 1, sizeof *own, "a task");
    if (!own) return BO_MEMORY;
    own->task = (bo_train_task){.methods = &methods,
                                .desc = desc,
                                .weights = desc->model->weights,
                                .metric = "bits_per_byte",
                                .files = desc->model->adapter ? adapter_files : files,
                                .units = desc->model->desc.context,
                                .evaluates = desc->valid != NULL};
    *out = &own->task;
    return BO_OK;
}
