/* Targets that a loss has no meaning for are refused. */
#include <math.h>
#include "../io/schema.h"
#include "internal.h"

static bo_status check_probabilities(bo_context *context, const bo_examples *examples)
{
    const bo_schema *schema = examples->schema;
    for (size_t i = 0; i < examples->rows * examples->targets; i++) {
        const size_t column = i % examples->targets;
        if (examples->y[i] >= 0 && examples->y[i] <= 1) continue;
        return bo_fail(
            context, BO_INVALID, "loss bce: targets should be from 0 to 1; row %zu (from 0), target %zu (%.60s) has %g",
            i / examples->targets, column, schema ? schema->target_names[column] : "unnamed", examples->y[i]);
    }
    return BO_OK;
}

bo_status bo_targets_check(bo_context *context, const bo_network *network, const bo_examples *examples)
{
    if (network->loss == BO_NETWORK_BCE) return check_probabilities(context, examples);
    if (network->loss == BO_NETWORK_KL && examples->targets < 2)
        return bo_fail(context, BO_INVALID,
                       "loss kl: targets are the logits of two or more columns, and the data has %zu",
                       examples->targets);
    return BO_OK;
}

/* Classes may be numbers, but hardly such that are not whole and seldom come twice. */
bo_status bo_classes_check(bo_context *context, const bo_network *network, const bo_examples *examples)
{
    const bo_schema *schema = examples->schema;
    if (network->loss != BO_NETWORK_CROSS_ENTROPY || network->target != BO_NO_LAYER || !schema) return BO_OK;
    const bo_categories *classes = &schema->classes;
    if (classes->count < 3 || 2 * classes->count <= examples->rows) return BO_OK;
    for (size_t i = 0; i < classes->count; i++) {
        const bo_category *class = &classes->items[i];
        if (!class->numeric || class->number == floor(class->number)) continue;
        return bo_fail(context, BO_INVALID,
                       "loss cross-entropy: the target '%.60s' has %zu different values in %zu rows, such as %g: "
                       "numbers, not classes? Then take the loss mse, or name another target",
                       schema->target_names[0], classes->count, examples->rows, class->number);
    }
    return BO_OK;
}
