/* Data-parallel training: communication between ranks. All ranks make the same calls in the same order. */
#include "../base/trace.h"
#include "train.h"
#include <string.h>
#include "../backend/backend.h"

static bool alone(const bo_trainer *trainer)
{
    return bo_train_ranks(&trainer->desc) < 2;
}

static bo_status no_sum(bo_context *context, const bo_trainer *trainer)
{
    return bo_fail(context, BO_IO, "step %llu: a sum over the ranks failed", (unsigned long long)trainer->now.step);
}

bo_status bo_train_sum(bo_context *context, const bo_trainer *trainer, double *values, size_t count)
{
    const bo_collective *ranks = trainer->desc.ranks;
    if (alone(trainer) || ranks->sum(ranks->user, values, count) == BO_OK) return BO_OK;
    return no_sum(context, trainer);
}

bo_status bo_train_broadcast(bo_context *context, const bo_trainer *trainer, double *values, size_t count)
{
    for (size_t i = 0; !bo_train_first(trainer) && i < count; i++) values[i] = 0;
    return bo_train_sum(context, trainer, values, count);
}

bo_status bo_train_any(bo_context *context, const bo_trainer *trainer, bool *flag)
{
    double set = *flag;
    BO_TRY(bo_train_sum(context, trainer, &set, 1));
    *flag = set > 0;
    return BO_OK;
}

bo_status bo_train_agree(bo_context *context, const bo_trainer *trainer, bo_status status)
{
    if (alone(trainer)) return status;
    double failures[2] = {status != BO_OK && status != BO_CANCELED, status == BO_CANCELED};
    bo_status summed = trainer->desc.ranks->sum(trainer->desc.ranks->user, failures, 2);
    if (status != BO_OK && status != BO_CANCELED) return status;
    if (summed != BO_OK) return no_sum(context, trainer);
    /* the failing rank does not write a checkpoint */
    if (failures[0] > 0) return bo_fail(context, BO_IO, "another rank failed");
    if (status == BO_CANCELED) return status;
    return failures[1] > 0 ? bo_fail(context, BO_CANCELED, "another rank received a request to stop") : BO_OK;
}

bo_status bo_train_same(bo_context *context, const bo_trainer *trainer)
{
    enum { COUNT = 6 };
    if (alone(trainer)) return BO_OK;
    const bo_train_methods *methods = trainer->task->methods;
    const char *const names[COUNT] = {"step",           "number of steps", methods->subject,
                                      methods->subject, methods->data,     methods->data};
    const uint64_t subject = bo_model_fingerprint(trainer->desc.model), data = methods->fingerprint(trainer->task);
    const double local[COUNT] = {(double)trainer->now.step, (double)trainer->now.steps, (double)(uint32_t)subject,
                                 (double)(subject >> 32),   (double)(uint32_t)data,     (double)(data >> 32)};
    double first[COUNT];
    bo_status status = BO_OK;
    memcpy(first, local, sizeof first);
    BO_TRY(bo_train_broadcast(context, trainer, first, COUNT));
    for (int i = 0; i < COUNT && status == BO_OK; i++)
        if (local[i] != first[i])
            status = bo_fail(context, BO_INVALID, "rank %d differs from rank 0 in the %s: expected %.0f, found %.0f",
                             trainer->desc.ranks->rank, names[i], first[i], local[i]);
    return bo_train_agree(context, trainer, status);
}

/* Every rank creates an id to find out whether NCCL works. The id of rank 0 is used. *able: all ranks succeeded. */
static bo_status share_id(bo_context *context, const bo_trainer *trainer, bo_device *device, bool *able,
                          unsigned char id[BO_RANK_ID])
{
    memset(id, 0, BO_RANK_ID);
    double numbers[BO_RANK_ID], count = bo_device_is_gpu(device) && bo_device_rank_id(context, device, id) == BO_OK;
    BO_TRY(bo_train_sum(context, trainer, &count, 1));
    *able = count >= (double)bo_train_ranks(&trainer->desc);
    for (size_t i = 0; i < BO_RANK_ID; i++) numbers[i] = id[i];
    BO_TRY(bo_train_broadcast(context, trainer, numbers, BO_RANK_ID));
    for (size_t i = 0; i < BO_RANK_ID; i++) id[i] = (unsigned char)numbers[i];
    return BO_OK;
}

/* Ranks may have different devices, so all of them call the sums of this function. */
bo_status bo_train_connect(bo_context *context, bo_trainer *trainer)
{
    bo_device *device = bo_weights_device(trainer->task->desc->model->weights);
    unsigned char id[BO_RANK_ID];
    bool able = false;
    if (alone(trainer)) return BO_OK;
    BO_TRY(share_id(context, trainer, device, &able, id));
    const bo_collective *ranks = trainer->desc.ranks;
    bool failed = able && bo_device_join(context, device, id, ranks->rank, ranks->size) != BO_OK;
    BO_TRY(bo_train_any(context, trainer, &failed));
    trainer->joined = able && !failed;
    if (bo_device_is_gpu(device) && !trainer->joined)
        bo_log(context, BO_LOG_INFO, "gradients are summed through the host: not every rank has its own GPU and NCCL");
    return BO_OK;
}

static bo_status sum_through_host(bo_context *context, bo_trainer *trainer, const bo_gradients *gradients)
{
    const bo_collective *ranks = trainer->desc.ranks;
    bo_device *device = bo_weights_device(trainer->task->desc->model->weights);
    for (size_t at = 0; at < gradients->floats; at += BO_TRAIN_EXCHANGE) {
        const size_t count = bo_min(gradients->floats - at, BO_TRAIN_EXCHANGE);
        char *from = (char *)gradients->data + at * sizeof(float);
        BO_TRY(bo_buffer_read(context, device, trainer->exchange, from, count * sizeof(float)));
        if (ranks->sum_f32(ranks->user, trainer->exchange, count) != BO_OK) return no_sum(context, trainer);
        BO_TRY(bo_buffer_write(context, device, from, trainer->exchange, count * sizeof(float)));
    }
    return BO_OK;
}

bo_status bo_train_sum_gradients(bo_context *context, bo_trainer *trainer)
{
    if (alone(trainer)) return BO_OK;
    BO_SPAN(context, "train", "sum over ranks");
    const bo_weights *weights = trainer->task->desc->model->weights;
    for (const bo_gradients *g = bo_weights_gradients(weights); g; g = g->next)
        BO_TRY(trainer->joined ? bo_device_sum(context, bo_weights_device(weights), g->data, g->floats)
                               : sum_through_host(context, trainer, g));
    return BO_OK;
}
