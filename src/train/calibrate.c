/* Frequencies drawn from data: FAVOR++, FAVOR#, optimal sampling, in encoders, decoders and between them. They are taken from
 * the first micro-batch of a step, with the weights as they are: a function of the run's settings and the step, like everything
 * else. */
#include "../attention/attention.h"
#include "models.h"

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

bool bo_train_model_calibrates(const bo_model *model)
{
    bool any = false;
    for (size_t i = 0; i < places(model); i++) any |= draws_from_data(model->attentions[i]);
    return any;
}

/* A run that begins with a trained model begins with its frequencies. */
static bool wants(const bo_train_task *task, uint64_t step, const bo_attention *attention)
{
    const uint64_t every = task->desc->calibrate_every;
    if (!draws_from_data(attention)) return false;
    return step == 0 ? !bo_attention_is_ready(attention) : every && step % every == 0;
}

static bool any_wants(const bo_train_task *task, uint64_t step)
{
    const bo_model *model = task->desc->model;
    bool any = false;
    for (size_t i = 0; i < places(model); i++) any |= wants(task, step, model->attentions[i]);
    return any;
}

/* NULL where nothing is to be drawn. */
static bo_status create_all(bo_context *context, const bo_train_task *task, uint64_t step, bo_calibration **out)
{
    const bo_model *model = task->desc->model;
    for (size_t i = 0; i < places(model); i++)
        if (wants(task, step, model->attentions[i]))
            BO_TRY(bo_calibration_create(context, model->attentions[i], 0, &out[i]));
    return BO_OK;
}

/* Forward makes the frequencies, layer by layer; the gradients of this run are of no use. The first rank's data on every
 * rank, so that all have the same frequencies. */
static bo_status run(bo_context *context, bo_train_task *task, uint64_t step, bo_calibration *const *calibrations)
{
    bo_pass pass = {.calibrations = calibrations};
    const bo_train_place first = {.step = step, .count = task->desc->micro_batch};
    BO_TRY(task->methods->load(context, task, &first, &pass));
    return bo_graph_run(context, task->graph, &pass);
}

bo_status bo_train_model_calibrate(bo_context *context, bo_train_task *task, uint64_t step)
{
    if (!any_wants(task, step)) return BO_OK;
    const size_t count = places(task->desc->model);
    bo_calibration **calibrations = bo_alloc(context, count, sizeof *calibrations, "calibrations");
    if (!calibrations) return BO_MEMORY;
    bo_status status = create_all(context, task, step, calibrations);
    if (status == BO_OK) status = run(context, task, step, calibrations);
    for (size_t i = 0; i < count; i++) bo_calibration_destroy(calibrations[i]);
    bo_free(calibrations);
    return status;
}
