/* Frequencies drawn from data: FAVOR++, FAVOR#, optimal sampling. They are taken from the first micro-batch of a step, with
 * the weights as they are: a function of the run's settings and the step, like everything else. */
#include "../attention/internal.h"
#include "language.h"

bool bo_language_calibrates(const bo_model *model)
{
    const bo_attention_desc *attention = &model->desc.attention;
    if (!model->attentions[0]) return false;
    return attention->proposal != BO_PROPOSAL_NONE || attention->features.sampling == BO_SAMPLING_OPTIMAL;
}

/* A run that begins with a trained model begins with its frequencies. */
static bool wants(const bo_train_task *task, uint64_t step, size_t layer)
{
    const uint64_t every = task->desc->calibrate_every;
    if (step == 0) return !task->desc->model->attentions[layer]->ready;
    return every && step % every == 0;
}

static bool any_wants(const bo_train_task *task, uint64_t step)
{
    bool any = false;
    for (size_t i = 0; i < task->desc->model->desc.layers; i++) any |= wants(task, step, i);
    return any;
}

/* NULL where nothing is to be drawn. */
static bo_status create_all(bo_context *context, const bo_train_task *task, uint64_t step, bo_calibration **out)
{
    const bo_model *model = task->desc->model;
    for (size_t i = 0; i < model->desc.layers; i++)
        if (wants(task, step, i)) BO_TRY(bo_calibration_create(context, model->attentions[i], 0, &out[i]));
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

bo_status bo_language_calibrate(bo_context *context, bo_train_task *task, uint64_t step)
{
    if (!bo_language_calibrates(task->desc->model) || !any_wants(task, step)) return BO_OK;
    const size_t layers = task->desc->model->desc.layers;
    bo_calibration **calibrations = bo_alloc(context, layers, sizeof *calibrations, "calibrations");
    if (!calibrations) return BO_MEMORY;
    bo_status status = create_all(context, task, step, calibrations);
    if (status == BO_OK) status = run(context, task, step, calibrations);
    for (size_t i = 0; i < layers; i++) bo_calibration_destroy(calibrations[i]);
    bo_free(calibrations);
    return status;
}
