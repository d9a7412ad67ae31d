/* Data parallel training: what ranks tell each other. Every rank makes the same calls in the same order. */
#include "train.h"
#include "../backend/backend.h"

enum { PIECE = 1 << 20 }; /* floats that travel at a time */

static bool alone(const bo_trainer *trainer)
{
    return bo_train_ranks(&trainer->desc) < 2;
}

static bo_status sum(bo_context *context, const bo_trainer *trainer, double *values, size_t count)
{
    const bo_collective *ranks = trainer->desc.ranks;
    if (alone(trainer) || ranks->sum(ranks->user, values, count) == BO_OK) return BO_OK;
    return bo_fail(context, BO_IO, "step %llu: a sum over the ranks failed", (unsigned long long)trainer->now.step);
}

bo_status bo_train_broadcast(bo_context *context, const bo_trainer *trainer, double *values, size_t count)
{
    for (size_t i = 0; !bo_train_first(trainer) && i < count; i++) values[i] = 0;
    return sum(context, trainer, values, count);
}

bo_status bo_train_any(bo_context *context, const bo_trainer *trainer, bool *flag)
{
    double set = *flag;
    BO_TRY(sum(context, trainer, &set, 1));
    *flag = set > 0;
    return BO_OK;
}

bo_status bo_train_agree(bo_context *context, const bo_trainer *trainer, bo_status mine)
{
    if (alone(trainer)) return mine;
    double failures[2] = {mine != BO_OK && mine != BO_CANCELLED, mine == BO_CANCELLED};
    bo_status summed = trainer->desc.ranks->sum(trainer->desc.ranks->user, failures, 2);
    if (mine != BO_OK) return mine;
    if (summed != BO_OK) return sum(context, trainer, failures, 2);
    if (failures[0] > 0) return bo_fail(context, BO_IO, "another rank failed");
    return failures[1] > 0 ? bo_fail(context, BO_CANCELLED, "another rank was asked to stop") : BO_OK;
}

bo_status bo_train_sum_gradients(bo_context *context, bo_trainer *trainer)
{
    if (alone(trainer)) return BO_OK;
    const bo_collective *ranks = trainer->desc.ranks;
    bo_weights *weights = trainer->model->weights;
    const bo_backend *backend = bo_weights_backend(weights);
    const size_t floats = bo_weights_floats(weights);
    char *gradients = bo_weights_gradients(weights);
    if (!trainer->exchange) trainer->exchange = bo_alloc_raw(context, PIECE, sizeof(float), "an exchange of gradients");
    if (!trainer->exchange) return BO_MEMORY;
    for (size_t at = 0; at < floats; at += PIECE) {
        const size_t count = floats - at < PIECE ? floats - at : PIECE;
        char *from = gradients + at * sizeof(float);
        BO_TRY(backend->read(context, trainer->exchange, from, count * sizeof(float)));
        if (ranks->sum_f32(ranks->user, trainer->exchange, count) != BO_OK)
            return bo_fail(context, BO_IO, "step %llu: the sum of gradients over the ranks failed",
                           (unsigned long long)trainer->now.step);
        BO_TRY(backend->write(context, from, trainer->exchange, count * sizeof(float)));
    }
    return BO_OK;
}
