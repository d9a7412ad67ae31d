/* Frequencies drawn from data: FAVOR++, FAVOR#, optimal sampling. They are taken from the first micro-batch of a step, with
 * the weights as they are: a function of the run's settings and the step, like everything else. */
#include "train.h"
#include "../attention/internal.h"

bool bo_train_calibrates(const bo_model *model)
{
    const bo_attention_desc *attention = &model->desc.attention;
    return attention->proposal != BO_PROPOSAL_NONE || attention->features.sampling == BO_SAMPLING_OPTIMAL;
}

/* A run that begins with a trained model begins with its frequencies. */
static bool wants(const bo_trainer *trainer, size_t layer)
{
    const uint64_t every = trainer->desc.calibrate_every, step = trainer->now.step;
    if (step == 0) return !trainer->model->attentions[layer]->ready;
    return every && step % every == 0;
}

static bool any_wants(const bo_trainer *trainer)
{
    bool any = false;
    for (size_t i = 0; i < trainer->model->desc.layers; i++) any |= wants(trainer, i);
    return any;
}

/* NULL where nothing is to be drawn. */
static bo_status create_all(bo_context *context, const bo_trainer *trainer, bo_calibration **out)
{
    for (size_t i = 0; i < trainer->model->desc.layers; i++)
        if (wants(trainer, i)) BO_TRY(bo_calibration_create(context, trainer->model->attentions[i], 0, &out[i]));
    return BO_OK;
}

/* Forward makes the frequencies, layer by layer; the gradients of this run are of no use. The first rank's data on every
 * rank, so that all have the same frequencies. */
static bo_status run(bo_context *context, bo_trainer *trainer, bo_calibration *const *calibrations)
{
    bo_pass pass;
    BO_TRY(bo_train_load(context, trainer, 0, 0, &pass));
    pass.training = false;
    pass.calibrations = calibrations;
    return bo_graph_run(context, trainer->graph.graph, &pass);
}

bo_status bo_train_calibrate(bo_context *context, bo_trainer *trainer)
{
    if (!bo_train_calibrates(trainer->model) || !any_wants(trainer)) return BO_OK;
    const size_t layers = trainer->model->desc.layers;
    bo_calibration **calibrations = bo_alloc(context, layers, sizeof *calibrations, "calibrations");
    if (!calibrations) return BO_MEMORY;
    bo_status status = create_all(context, trainer, calibrations);
    if (status == BO_OK) status = run(context, trainer, calibrations);
    for (size_t i = 0; i < layers; i++) bo_calibration_destroy(calibrations[i]);
    bo_free(calibrations);
    return status;
}
