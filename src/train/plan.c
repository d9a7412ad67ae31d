/* Descriptors of runs: checked, filled in, and what they will take. */
#include "train.h"
#include <string.h>
#include <unistd.h>

enum { BATCH = 16, KEEP = 2 };
static const uint64_t MOST_STEPS = 1000000000000000; /* which numbers of JSON hold exactly */

/* ---- defaults --------------------------------------------------------------------------------------------------------- */

uint64_t bo_train_interval(uint64_t given, uint64_t steps)
{
    if (given) return given;
    return steps / 10 > 25 ? steps / 10 : 25;
}

/* Bytes of activations of one sequence, roughly: what forward keeps for backward. A count and not the plan's, which knows of
 * threads: the same run must be cut the same way on any machine. */
static double sequence_bytes(const bo_trainer_desc *desc)
{
    const bo_model_desc *d = &desc->model->desc;
    const double heads = (double)d->heads * (double)d->head_dim, inner = d->mlp == BO_MLP_NONE ? 0 : (double)d->hidden;
    const double layer = 6 * (double)d->width + 8 * heads + 3 * inner;
    const double layers = desc->checkpointing ? 1 + 0.1 * (double)d->layers : (double)d->layers;
    return 4 * (double)d->context * (layer * layers + 4 * (double)d->width);
}

size_t bo_train_default_micro_batch(const bo_trainer_desc *desc)
{
    const size_t batch = desc->batch / bo_train_ranks(desc);
    const double most = 1073741824.0 / sequence_bytes(desc);
    size_t micro = batch;
    while (micro > 1 && (batch % micro != 0 || (double)micro > most)) micro--;
    return micro;
}

bo_model_graph_desc bo_train_graph_desc(const bo_trainer_desc *desc)
{
    const size_t context = desc->model->desc.context;
    return (bo_model_graph_desc){
        .rows = desc->micro_batch * context,
        .tokens = context,
        .most_sequences = desc->documents ? desc->micro_batch * (1 + context / 16) : 0,
        .loss = true,
        .gradients = true,
        .checkpoint = desc->checkpointing,
    };
}

/* ---- checks ----------------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const bo_trainer_desc *desc)
{
    if (!desc->model || !desc->train) return bo_fail(context, BO_INVALID, "training needs a model and a text");
    if (desc->resume && !desc->folder) return bo_fail(context, BO_INVALID, "resuming needs the folder of a run");
    if (desc->steps && desc->minutes > 0)
        return bo_fail(context, BO_INVALID, "steps or minutes: expected one of them, found both");
    if (!desc->resume && !desc->steps && !(desc->minutes > 0))
        return bo_fail(context, BO_INVALID, "steps or minutes: expected one of them, found neither");
    if (!(desc->minutes >= 0 && desc->minutes <= 1e7))
        return bo_fail(context, BO_INVALID, "minutes: expected a number of at most 1e7, found %g", desc->minutes);
    if (desc->steps > MOST_STEPS)
        return bo_fail(context, BO_INVALID, "steps: expected at most %llu, found %llu", (unsigned long long)MOST_STEPS,
                       (unsigned long long)desc->steps);
    const bo_collective *ranks = desc->ranks;
    if (ranks && ranks->size > 1 && (!ranks->sum || !ranks->sum_f32))
        return bo_fail(context, BO_INVALID, "training on %d ranks needs sums of double and of float", ranks->size);
    return BO_OK;
}

static bo_status check_batch(bo_context *context, const bo_trainer_desc *desc)
{
    const size_t ranks = bo_train_ranks(desc), share = desc->batch / ranks;
    if (desc->batch % ranks != 0 || share == 0)
        return bo_fail(context, BO_INVALID, "batch: expected a multiple of the %zu ranks, found %zu", ranks,
                       desc->batch);
    if (desc->micro_batch && (desc->micro_batch > share || share % desc->micro_batch != 0))
        return bo_fail(context, BO_INVALID, "micro batch: expected a divisor of the batch of %s%zu, found %zu",
                       ranks > 1 ? "a rank, " : "", share, desc->micro_batch);
    return BO_OK;
}

bo_status bo_train_desc_resolve(bo_context *context, const bo_trainer_desc *desc, bo_trainer_desc *out)
{
    BO_TRY(check(context, desc));
    *out = *desc;
    BO_TRY(bo_schedule_check(context, &out->schedule));
    if (!out->batch) out->batch = BATCH;
    if (!out->keep) out->keep = KEEP;
    if (out->ranks && out->ranks->size < 2) out->ranks = NULL;
    BO_TRY(check_batch(context, out));
    const bo_batches_desc batches = {.corpus = out->train,
                                     .context = out->model->desc.context,
                                     .batch = out->batch,
                                     .parts = bo_train_ranks(out),
                                     .seed = out->seed,
                                     .documents = out->documents};
    return bo_batches_check(context, &batches);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------------ */

static bo_status size_of_graph(bo_context *context, const bo_trainer_desc *desc, bo_trainer_plan *out)
{
    const bo_model_graph_desc graph_desc = bo_train_graph_desc(desc);
    bo_model_graph graph = {0};
    BO_TRY(bo_model_graph_create(context, desc->model, &graph_desc, &graph));
    out->activation_bytes = bo_graph_bytes(graph.graph);
    out->operations = bo_graph_operations(graph.graph) * (double)(desc->batch / desc->micro_batch);
    bo_model_graph_destroy(&graph);
    return BO_OK;
}

bo_status bo_trainer_plan_for(bo_context *context, const bo_trainer_desc *desc, bo_trainer_plan *out)
{
    bo_trainer_desc full;
    size_t session = 0;
    *out = (bo_trainer_plan){0};
    BO_TRY(bo_train_desc_resolve(context, desc, &full));
    if (!full.micro_batch) full.micro_batch = bo_train_default_micro_batch(&full);
    bo_weights *weights = full.model->weights;
    out->parameters = bo_model_parameters(full.model);
    out->micro_batch = full.micro_batch;
    out->model_bytes = bo_model_bytes(full.model);
    out->gradient_bytes = bo_weights_floats(weights) * sizeof(float);
    out->optimizer_bytes = bo_optimizer_bytes(context, &full.optimizer, weights);
    BO_TRY(size_of_graph(context, &full, out));
    BO_TRY(bo_session_memory(context, full.model, NULL, &out->state_bytes, &session));
    out->all_bytes = out->model_bytes + out->gradient_bytes + out->optimizer_bytes + out->activation_bytes + session;
    return BO_OK;
}
