/* Adapters of a model. They replace the weights of the model by a set with adapters, or by a set into which the
 * adapters are merged. */
#include "../text/batches.h"
#include <math.h>
#include <stdlib.h>
#include "../nn/enums.h"
#include "../nn/lora.h"
#include "adapter.h"
#include "files.h"

enum { SEQUENCES = 32 };

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

void bo_adapter_destroy(bo_adapter *adapter)
{
    if (!adapter) return;
    bo_weights_destroy(adapter->aside);
    bo_free(adapter->lora.targets);
    bo_free(adapter->lora.whole);
    bo_free(adapter->whole);
    bo_free(adapter->base);
    bo_free(adapter);
}

/* Returns the layers that are trained in full by default. A classification head is small, and newly initialized if the
 * model was created from another model. */
static const char *default_whole(bo_model_task task)
{
    return task == BO_MODEL_TASK_CLASSIFY ? "score" : task == BO_MODEL_TASK_MATCH ? "match,score" : "";
}

/* Makes the path absolute, so that the adapter can be loaded from any directory. */
static bo_status name_base(bo_context *context, const char *base, bo_adapter *adapter)
{
    char *whole = realpath(base, NULL), *name = bo_strdup(context, whole ? whole : base);
    free(whole);
    if (!name) return BO_MEMORY;
    bo_free(adapter->base);
    adapter->base = name;
    return BO_OK;
}

static bo_status create(bo_context *context, const bo_model *model, const bo_lora_desc *desc, bool any_rank,
                        bo_adapter **out)
{
    bo_adapter *adapter = *out = bo_alloc(context, 1, sizeof *adapter, "an adapter");
    if (!adapter) return BO_MEMORY;
    const char *layers = desc->whole ? desc->whole : default_whole(model->desc.task);
    adapter->lora = (bo_lora){.rank = desc->rank, .init = desc->init, .any_rank = any_rank};
    adapter->lora.alpha = desc->alpha != 0 ? desc->alpha : 2 * (double)desc->rank;
    BO_TRY(bo_block_targets(context, &model->desc, desc->targets ? desc->targets : "all", &adapter->lora.targets));
    adapter->lora.whole = bo_strdup(context, layers);
    if (!adapter->lora.whole) return BO_MEMORY;
    return desc->base ? name_base(context, desc->base, adapter) : BO_OK;
}

static bo_status check_storage(bo_context *context, const bo_model *model)
{
    const bo_storage storage = bo_model_storage(model);
    if (storage == BO_STORAGE_FLOAT32) return BO_OK;
    return bo_fail(context, BO_INVALID, "lora: the weights are stored as %s, expected float32",
                   bo_storage_name(storage));
}

static bo_status check_base(bo_context *context, const char *base)
{
    if (bo_model_is_whole(context, base)) return BO_OK;
    return bo_fail(context, BO_INVALID, "lora: the base %s is not a model; if it is an adapter, merge it first", base);
}

static bo_status check(bo_context *context, const bo_model *model, const bo_lora_desc *desc)
{
    BO_TRY(bo_check_reserved(context, "bo_lora_desc", desc->reserved));
    BO_TRY(bo_model_require_text(context, model, "lora"));
    if (model->adapter) return bo_fail(context, BO_INVALID, "lora: the model already has adapters");
    BO_TRY(check_storage(context, model));
    if (desc->base) BO_TRY(check_base(context, desc->base));
    if (desc->rank < 1) return bo_fail(context, BO_INVALID, "lora: expected a rank of at least 1, found 0");
    if (!(desc->alpha >= 0 && isfinite(desc->alpha)))
        return bo_fail(context, BO_INVALID, "lora: expected an alpha of at least 0, found %g", desc->alpha);
    if (desc->window > model->desc.context)
        return bo_fail(context, BO_INVALID, "lora: window: expected at most %zu, the context of the model, found %zu",
                       model->desc.context, desc->window);
    if ((unsigned)desc->init >= BO_LORA_INIT_COUNT)
        return bo_fail(context, BO_INVALID, "lora: unknown initialization %d", (int)desc->init);
    if (desc->init == BO_LORA_INIT_GRADIENT && !desc->data)
        return bo_fail(context, BO_INVALID, "lora: initialization from the gradient needs a text");
    if (desc->init == BO_LORA_INIT_GRADIENT)
        BO_TRY(bo_model_require_language(context, model, "lora: initialization from the gradient"));
    return BO_OK;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Tokens, targets and positions of one window. */
typedef struct window {
    bo_batches_desc batches;
    int32_t *tokens, *targets, *positions;
} window;

static bo_status add_gradient(bo_context *context, const bo_model_graph *g, const window *w, size_t index)
{
    const bo_graph_pass pass = {.loss_scale = (float)(1 / (double)w->batches.batch)};
    BO_TRY(bo_batches_fill(context, &w->batches, 0, index, 1, w->tokens, w->targets, w->positions, NULL, NULL));
    BO_TRY(bo_graph_write(context, g->graph, g->tokens, w->tokens));
    BO_TRY(bo_graph_write(context, g->graph, g->targets, w->targets));
    if (g->positions) BO_TRY(bo_graph_write(context, g->graph, g->positions, w->positions));
    return bo_graph_run(context, g->graph, &pass);
}

static bo_status run_windows(bo_context *context, bo_model *model, const window *w)
{
    const size_t rows = w->batches.context;
    bo_model_graph graph;
    BO_TRY(bo_model_graph_create(context, model, &(bo_model_graph_desc){.rows = rows, .loss = true, .gradients = true},
                                 &graph));
    bo_status status = bo_graph_allocate(context, graph.graph);
    for (size_t i = 0; status == BO_OK && i < w->batches.batch; i++) status = add_gradient(context, &graph, w, i);
    bo_model_graph_destroy(&graph);
    return status;
}

/* Computes the gradients of the mean loss over some windows of the text. */
static bo_status take_gradients(bo_context *context, bo_model *model, const bo_lora_desc *desc)
{
    const size_t rows = desc->window ? desc->window : model->desc.context;
    bo_weights *weights = model->weights;
    window w = {.batches = {.corpus = desc->data, .context = rows, .seed = desc->seed}};
    w.batches.batch = desc->sequences ? desc->sequences : SEQUENCES;
    BO_TRY(bo_batches_check(context, &w.batches));
    BO_TRY(bo_weights_allocate(context, weights, true));
    BO_TRY(bo_weights_zero_gradients(context, weights));
    int32_t *numbers = bo_alloc(context, rows, 3 * sizeof *numbers, "a window");
    if (!numbers) return BO_MEMORY;
    w.tokens = numbers;
    w.targets = numbers + rows;
    w.positions = numbers + 2 * rows;
    const bo_status status = run_windows(context, model, &w);
    bo_free(numbers);
    return status;
}

/* ---- adding and merging ------------------------------------------------------------------------------------------ */

/* Declares a second set of weights of the model's layers, with these adapters or (lora NULL) without. */
static bo_status declare_weights(bo_context *context, bo_model *model, const bo_lora *lora, bo_weights **out)
{
    bo_weights *weights = model->weights;
    model->weights = NULL;
    bo_status status = bo_model_declare(context, model, lora);
    *out = model->weights;
    model->weights = weights;
    return status == BO_OK && lora ? bo_lora_check(context, *out) : status;
}

/* Creates such a set in memory, with the values of the model. */
static bo_status make_weights(bo_context *context, bo_model *model, const bo_lora *lora, bo_weights **out)
{
    bo_status status = declare_weights(context, model, lora, out);
    if (status == BO_OK) status = bo_weights_allocate(context, *out, false);
    if (status == BO_OK && lora) bo_lora_freeze(*out);
    if (status == BO_OK) status = bo_lora_copy(context, model->weights, *out);
    if (status == BO_OK) return BO_OK;
    bo_weights_destroy(*out);
    *out = NULL;
    return status;
}

/* Copies the weights of the layers that are trained in full, before training. */
static bo_status keep_whole(bo_context *context, bo_weights *weights, float **out)
{
    const size_t numbers = bo_adapter_whole_numbers(weights);
    if (!numbers) return BO_OK;
    float *at = *out = bo_alloc_raw(context, numbers, sizeof *at, "weights of the base");
    if (!at) return BO_MEMORY;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        const size_t count = weight->rows * weight->columns;
        if (!bo_lora_is_whole(weights, weight)) continue;
        BO_TRY(bo_buffer_read(context, bo_weights_device(weights), at, weight->data, count * sizeof *at));
        at += count;
    }
    return BO_OK;
}

bo_status bo_model_attach_adapters(bo_context *context, bo_model *model, const bo_lora_desc *desc, bool any_rank)
{
    bo_weights *weights = NULL;
    bo_adapter *adapter = NULL;
    bo_status status = create(context, model, desc, any_rank, &adapter);
    if (status == BO_OK) status = bo_model_digest(context, model, &adapter->digest);
    if (status == BO_OK) status = make_weights(context, model, &adapter->lora, &weights);
    if (status == BO_OK) status = keep_whole(context, weights, &adapter->whole);
    if (status != BO_OK) {
        bo_weights_destroy(weights);
        bo_adapter_destroy(adapter);
        return status;
    }
    adapter->aside = model->weights;
    model->weights = weights;
    model->adapter = adapter;
    bo_model_refresh(model);
    return BO_OK;
}

void bo_model_keep_adapters(bo_model *model)
{
    bo_weights_destroy(model->adapter->aside);
    model->adapter->aside = NULL;
}

static void swap(bo_model *model)
{
    bo_weights *aside = model->adapter->aside;
    model->adapter->aside = model->weights;
    model->weights = aside;
    bo_model_refresh(model);
}

void bo_model_drop_adapters(bo_model *model)
{
    bo_adapter_destroy(model->adapter);
    model->adapter = NULL;
}

bo_status bo_model_adapt(bo_context *context, bo_model *model, const bo_lora_desc *desc)
{
    BO_REQUIRE(context, model, desc);
    BO_TRY(check(context, model, desc));
    if (desc->init == BO_LORA_INIT_GRADIENT) BO_TRY(take_gradients(context, model, desc));
    BO_TRY(bo_model_attach_adapters(context, model, desc, false));
    const bo_status status = bo_lora_begin(context, model->weights, model->adapter->aside, desc->seed);
    if (status == BO_OK) {
        bo_model_keep_adapters(model);
        return BO_OK;
    }
    swap(model);
    bo_model_drop_adapters(model);
    return status;
}

bo_status bo_model_try_adapters(bo_context *context, bo_model *model, const bo_lora_desc *desc)
{
    bo_adapter *adapter = NULL;
    bo_weights *weights = NULL;
    BO_TRY(check(context, model, desc));
    bo_status status = create(context, model, desc, false, &adapter);
    if (status == BO_OK) status = declare_weights(context, model, &adapter->lora, &weights);
    bo_weights_destroy(weights);
    bo_adapter_destroy(adapter);
    return status;
}

bo_status bo_model_set_base(bo_context *context, bo_model *model, const char *base)
{
    BO_REQUIRE(context, model, base);
    if (!model->adapter) return bo_fail(context, BO_INVALID, "lora: the model has no adapters whose base is named");
    BO_TRY(check_base(context, base));
    return name_base(context, base, model->adapter);
}

bo_status bo_model_merge(bo_context *context, bo_model *model)
{
    BO_REQUIRE(context, model);
    bo_weights *plain;
    if (!model->adapter || model->adapter->aside)
        return bo_fail(context, BO_INVALID, "merge: the model has %s",
                       model->adapter ? "adapters that are already merged" : "no adapters");
    BO_TRY(check_storage(context, model));
    BO_TRY(make_weights(context, model, NULL, &plain));
    const bo_status status = bo_lora_merge(context, model->weights, plain);
    model->adapter->aside = plain;
    if (status == BO_OK)
        swap(model);
    else
        bo_model_keep_adapters(model);
    return status;
}

bo_status bo_model_unmerge(bo_context *context, bo_model *model)
{
    BO_REQUIRE(context, model);
    if (!model->adapter || !model->adapter->aside)
        return bo_fail(context, BO_INVALID, "unmerge: the model has no merged adapters");
    swap(model);
    bo_model_keep_adapters(model);
    return BO_OK;
}
