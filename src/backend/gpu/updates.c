/* Updates of weights by lists of vectors, in batches that fit into the arguments of a launch. */
#include "updates.h"
#include <math.h>

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Scratch memory: the sums of all vectors, then partial sums of a batch. */
static size_t sum_bytes(size_t count, const bo_update *list)
{
    size_t pieces = 0;
    for (size_t i = 0; i < count; i++) pieces += bo_gpu_sum_pieces(list[i].count);
    return (count + pieces) * sizeof(double);
}

static bo_status sum_batches(bo_context *context, bool sizes, size_t count, const bo_update *list, double *sums)
{
    for (size_t first = 0; first < count; first += BO_GPU_LIST) {
        bo_gpu_sum_vectors a = {.sizes = sizes, .partial = sums + count, .out = sums + first};
        a.count = bo_min(count - first, BO_GPU_LIST);
        for (size_t i = 0; i < a.count; i++) a.x[i] = list[first + i].g, a.length[i] = list[first + i].count;
        BO_TRY(BO_LAUNCH(context, sum_vectors, &a));
    }
    return BO_OK;
}

static bo_status sum(bo_context *context, bool sizes, size_t count, const bo_update *list, void *scratch, double *out)
{
    if (count == 0) return BO_OK;
    BO_TRY(sum_batches(context, sizes, count, list, scratch));
    return bo_buffer_read(context, bo_device_of(context), out, scratch, count * sizeof *out);
}

static bo_status sum_squares(bo_context *context, size_t count, const bo_update *list, void *scratch, double *out)
{
    return sum(context, false, count, list, scratch, out);
}

static bo_status sum_sizes(bo_context *context, size_t count, const bo_update *list, void *scratch, double *out)
{
    return sum(context, true, count, list, scratch, out);
}

/* ---- in-place updates -------------------------------------------------------------------------------------------- */

/* Launches a rule for all vectors; `numbers` has the shared parameters. rate_factor multiplies their rates. */
static bo_status update_all(bo_context *context, const bo_gpu_update *numbers, const bo_rule *rule, double rate_factor,
                            size_t count, const bo_update *list)
{
    bo_status status = BO_OK;
    for (size_t first = 0; status == BO_OK && first < count; first += BO_GPU_LIST) {
        bo_gpu_update a = *numbers;
        a.count = bo_min(count - first, BO_GPU_LIST);
        for (size_t i = 0; i < a.count; i++) {
            const bo_update *u = &list[first + i];
            a.list[i] = (bo_gpu_vector){
                .g = u->g,
                .m = u->m,
                .v = u->v,
                .w = u->w,
                .count = u->count,
                .rate = (float)(bo_rates_rate(rule, &u->rates) * rate_factor),
                .keep = (float)bo_rates_keep(rule, &u->rates),
            };
        }
        status = BO_LAUNCH(context, update, &a);
    }
    return status;
}

static bo_status approach(bo_context *context, double a, size_t count, const bo_update *list)
{
    const bo_gpu_update numbers = {.rule = a == 1 ? BO_GPU_RULE_COPY : BO_GPU_RULE_APPROACH, .scale = (float)a};
    return update_all(context, &numbers, &(bo_rule){0}, 1, count, list);
}

static bo_status swap(bo_context *context, size_t count, const bo_update *list)
{
    const bo_gpu_update numbers = {.rule = BO_GPU_RULE_SWAP};
    return update_all(context, &numbers, &(bo_rule){0}, 1, count, list);
}

static bo_status with_momentum(bo_context *context, bo_gpu_rule kind, const bo_rule *rule, size_t count,
                               const bo_update *list)
{
    const bo_gpu_update numbers = {
        .rule = kind,
        .scale = (float)rule->scale,
        .momentum = (float)rule->momentum,
        .rest = (float)(1 - rule->momentum),
        .nesterov = rule->nesterov,
    };
    return update_all(context, &numbers, rule, 1, count, list);
}

static bo_status sgd(bo_context *context, const bo_rule *rule, size_t count, const bo_update *list)
{
    return with_momentum(context, BO_GPU_RULE_SGD, rule, count, list);
}

static bo_status sign(bo_context *context, const bo_rule *rule, size_t count, const bo_update *list)
{
    return with_momentum(context, BO_GPU_RULE_SIGN, rule, count, list);
}

static bo_status adamw(bo_context *context, const bo_rule *rule, size_t count, const bo_update *list)
{
    const double t = (double)rule->step;
    const bo_gpu_update numbers = {
        .rule = BO_GPU_RULE_ADAMW,
        .scale = (float)rule->scale,
        .beta1 = (float)rule->beta1,
        .rest1 = (float)(1 - rule->beta1),
        .beta2 = (float)rule->beta2,
        .rest2 = (float)(1 - rule->beta2),
        .correction = (float)(1 / sqrt(1 - pow(rule->beta2, t))),
        .epsilon = (float)rule->epsilon,
    };
    return update_all(context, &numbers, rule, 1 / (1 - pow(rule->beta1, t)), count, list);
}

static size_t bytes(bo_context *context, size_t count, const bo_update *list, size_t matrices,
                    const bo_muon_matrix *matrix)
{
    (void)context;
    return bo_max(sum_bytes(count, list), bo_gpu_muon_bytes(matrices, matrix));
}

const bo_updates bo_gpu_updates = {
    .bytes = bytes,
    .sum_squares = sum_squares,
    .sum_sizes = sum_sizes,
    .approach = approach,
    .swap = swap,
    .sgd = sgd,
    .sign = sign,
    .adamw = adamw,
    .muon = bo_gpu_muon,
};
