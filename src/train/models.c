/* Code shared by the tasks of models: settings, sizes, frequencies. */
#include <math.h>
#include "../nn/enums.h"
#include "../attention/enums.h"
#include "../base/rng.h"
#include "../base/trace.h"
#include "../attention/attention.h"
#include "models.h"

/* ====================================================================================================================
 * Data-aware frequencies (FAVOR++, FAVOR#, optimal sampling) in encoders, decoders and cross attention. They are drawn
 * from the first micro-batch of a step with the current weights. They are a function of the settings of the run and of
 * the step. */

static size_t places(const bo_model *model)
{
    return bo_model_place(&model->desc, BO_MODEL_PART_END);
}

static bool draws_from_data(const bo_attention *attention)
{
    if (!attention) return false;
    const bo_attention_desc *desc = bo_attention_describe(attention);
    return desc->proposal != BO_PROPOSAL_NONE || desc->features.sampling == BO_SAMPLING_OPTIMAL;
}

/* True if the model has data-dependent frequencies. */
static bool model_calibrates(const bo_model *model)
{
    bool any = false;
    for (size_t i = 0; i < places(model); i++) any |= draws_from_data(model->attentions[i]);
    return any;
}

/* A run from a trained model keeps its frequencies. */
static bool needs_calibration(const bo_train_task *task, uint64_t step, const bo_attention *attention)
{
    const uint64_t every = task->desc->calibrate_every;
    if (!draws_from_data(attention)) return false;
    return step == 0 ? !bo_attention_is_ready(attention) : every && step % every == 0;
}

static bool any_needs_calibration(const bo_train_task *task, uint64_t step)
{
    const bo_model *model = task->desc->model;
    bool any = false;
    for (size_t i = 0; i < places(model); i++) any |= needs_calibration(task, step, model->attentions[i]);
    return any;
}

/* Entries are NULL for attention without a draw at this step. */
static bo_status create_all(bo_context *context, const bo_train_task *task, uint64_t step, bo_calibration **out)
{
    const bo_model *model = task->desc->model;
    for (size_t i = 0; i < places(model); i++)
        if (needs_calibration(task, step, model->attentions[i]))
            BO_TRY(bo_calibration_create(context, model->attentions[i], 0, &out[i]));
    return BO_OK;
}

/* A forward pass creates the frequencies layer by layer; the gradients of this pass are discarded. All ranks use the
 * data of rank 0 and no states, so that they get the same frequencies. */
static bo_status run(bo_context *context, bo_train_task *task, uint64_t step, bo_calibration *const *calibrations)
{
    bo_graph_pass pass = {0};
    const bo_calibrating calibrating = {calibrations, task->desc->model->attentions};
    const bo_train_place first = {.step = step, .count = task->desc->micro_batch, .reset = true};
    BO_TRY(task->methods->load(context, task, &first, &pass));
    return bo_graph_calibrate(context, task->graph.graph, &pass, &calibrating);
}

static bo_status calibrate(bo_context *context, bo_train_task *task, uint64_t step)
{
    if (!any_needs_calibration(task, step)) return BO_OK;
    BO_SPAN(context, "train", "calibrate");
    const size_t count = places(task->desc->model);
    bo_calibration **calibrations = bo_alloc(context, count, sizeof *calibrations, "calibrations");
    if (!calibrations) return BO_MEMORY;
    bo_status status = create_all(context, task, step, calibrations);
    if (status == BO_OK) status = run(context, task, step, calibrations);
    for (size_t i = 0; i < count; i++) bo_calibration_destroy(calibrations[i]);
    bo_free(calibrations);
    task->redrawn = true;
    return status;
}

/* ====================================================================================================================
 * Redrawing random frequencies during training, as in Random Feature Attention (2103.02143). The draw is a function of
 * (seed, step), so all ranks and resumed runs use the same draws. */

static bool draws(const bo_attention *attention)
{
    return attention && bo_attention_is_random(attention);
}

/* Data-dependent frequencies cannot be redrawn. */
static bo_status check_redraw(bo_context *context, const bo_model *model)
{
    bool any = false;
    if (model->adapter)
        return bo_fail(context, BO_INVALID,
                       "redraw: adapters cannot draw new frequencies; train without adapters or do not redraw");
    for (size_t i = 0; i < places(model); i++) {
        any |= draws(model->attentions[i]);
        if (draws(model->attentions[i]) &&
            bo_attention_describe(model->attentions[i])->features.sampling == BO_SAMPLING_OPTIMAL)
            return bo_fail(context, BO_INVALID,
                           "redraw: data-dependent frequencies (sampling optimal) cannot be redrawn without data; "
                           "recalibrate them instead (calibrate_every)");
    }
    if (any) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "redraw: this model has no attention with random frequencies, such as rfa, favor or dark");
}

static bo_status redraw(bo_context *context, bo_train_task *task, uint64_t step)
{
    const bo_model *model = task->desc->model;
    bo_rng rng = bo_rng_make(task->desc->seed, bo_rng_stream("train.redraw", step));
    const uint64_t draw = bo_rng_bits(&rng);
    BO_SPAN(context, "train", "redraw");
    task->redrawn = true;
    for (size_t i = 0; i < places(model); i++)
        if (draws(model->attentions[i])) BO_TRY(bo_attention_redraw(context, model->attentions[i], draw));
    return BO_OK;
}

/* A calibration of the same step comes first. The draw uses the distribution that it fitted. */
bo_status bo_train_model_prepare(bo_context *context, bo_train_task *task, uint64_t step)
{
    const uint64_t every = task->desc->redraw_every;
    task->redrawn = false;
    BO_TRY(calibrate(context, task, step));
    return every && step && step % every == 0 ? redraw(context, task, step) : BO_OK;
}

/* ====================================================================================================================
 * Code shared by the tasks of models. */

bo_status bo_train_model_check(bo_context *context, const bo_train_task *task)
{
    const bo_adapter *adapter = task->desc->model->adapter;
    if (adapter && adapter->aside)
        return bo_fail(context, BO_INVALID, "training: the adapters of this model are already merged into its weights");
    if (adapter && task->desc->calibrate_every)
        return bo_fail(context, BO_INVALID,
                       "calibrate_every: adapters cannot draw new frequencies; train without adapters or set "
                       "calibrate_every to 0");
    return task->desc->redraw_every ? check_redraw(context, task->desc->model) : BO_OK;
}

double bo_train_model_row_bytes(const bo_train_task *task, size_t layers)
{
    const bo_model_desc *d = &task->desc->model->desc;
    double layer = 0;
    for (size_t i = 0; i < d->layers; i++) {
        const bo_block *b = bo_model_block(d, i);
        const bo_network *listed = task->desc->model->mlp_layers[i];
        const double heads = (double)b->heads * (double)b->head_dim;
        const double inner = listed ? bo_network_layer_numbers(listed) : b->mlp == BO_MLP_NONE ? 0 : (double)b->hidden;
        const double numbers = 6 * (double)d->width + 8 * heads + 3 * inner;
        layer = task->desc->checkpointing ? fmax(layer, numbers) : layer + numbers;
    }
    if (!task->desc->checkpointing) layer /= (double)d->layers; /* the mean */
    const double kept = task->desc->checkpointing ? 1 + 0.1 * (double)layers : (double)layers;
    const double bytes = task->desc->activations == BO_STORAGE_BFLOAT16 ? 2 : 4;
    return bytes * layer * kept + 4 * 4 * (double)d->width;
}

static void adapter_settings(bo_json_text *text, const bo_adapter *adapter)
{
    bo_train_setting_number(text, "lora_rank", (double)adapter->lora.rank);
    bo_train_setting_number(text, "lora_alpha", adapter->lora.alpha);
    bo_train_setting_word(text, "lora_init", bo_lora_init_name(adapter->lora.init));
    bo_train_setting_code(text, "base", adapter->digest);
}

void bo_train_model_settings(const bo_train_task *task, bo_json_text *text)
{
    const bo_model *model = task->desc->model;
    const bo_model_desc *d = &model->desc;
    const bo_block *b = bo_model_main_block(d);
    bo_train_setting_number(text, "layers", (double)d->layers);
    bo_train_setting_number(text, "width", (double)d->width);
    bo_train_setting_number(text, "heads", (double)b->heads);
    bo_train_setting_number(text, "key_heads", (double)b->key_heads);
    bo_train_setting_number(text, "hidden", (double)b->hidden);
    bo_train_setting_number(text, "context", (double)d->context);
    bo_train_setting_number(text, "vocab", (double)d->vocab);
    bo_train_setting_word(text, "attention", bo_attention_kind_name(b->attention.kind));
    bo_train_setting_word(text, "gate", bo_gate_name(b->attention.gate));
    bo_train_setting_number(text, "features", (double)b->attention.features.features);
    bo_train_setting_word(text, "mlp", bo_mlp_name(b->mlp));
    if (b->mlp == BO_MLP_CUSTOM) bo_train_setting_word(text, "custom_mlp", b->custom_mlp.name);
    bo_train_setting_word(text, "norm", bo_norm_name(b->norm));
    bo_train_setting_word(text, "positions", bo_positions_name(b->positions));
    bo_train_setting_number(text, "dropout", d->dropout);
    if (model->adapter) adapter_settings(text, model->adapter);
    /* omitted for the default, so that runs of earlier versions can be resumed */
    if (task->desc->redraw_every) bo_train_setting_number(text, "redraw_every", (double)task->desc->redraw_every);
    if (!model_calibrates(model) && !task->desc->redraw_every) /* the fingerprint includes the frequencies */
        bo_train_setting_code(text, "model", bo_model_fingerprint(model));
}
