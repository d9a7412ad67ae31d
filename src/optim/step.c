/* A step: the norm of the gradient, the rule of every weight, the average. */
#include "internal.h"
#include <math.h>

/* |gradient| over all parts, as it would be without the scale of gradients; BO_NUMERIC, with the weight's name, where it is not finite. Squares are summed in double, so
 * that only a gradient that is not finite itself makes them so. */
static bo_status gradient_norm(bo_context *context, const bo_optimizer *o, double *norm)
{
    double squares = 0;
    const bo_optim_part *bad = NULL;
    for (size_t i = 0; i < o->parts; i++) {
        const bo_optim_part *part = &o->part[i];
        double own;
        BO_TRY(o->backend->updates->sum_squares(context, bo_optim_part_count(part), part->weight->gradient, &own));
        if (!isfinite(own) && !bad) bad = part;
        squares += own;
    }
    *norm = sqrt(squares) / o->gradient_scale;
    if (!bad) return BO_OK;
    return bo_fail(context, BO_NUMERIC, "the gradient of %s is not finite in step %llu", bad->weight->name,
                   (unsigned long long)o->steps + 1);
}

static bo_rule rule_of(const bo_optimizer *o, double rate, double decay, double factor, double scale)
{
    return (bo_rule){
        .scale = scale,
        .rate = rate * factor,
        .decay = rate * factor * decay,
        .momentum = o->desc.momentum,
        .nesterov = !o->desc.no_nesterov,
        .beta1 = o->desc.beta1,
        .beta2 = o->desc.beta2,
        .epsilon = o->desc.epsilon,
        .step = o->steps,
    };
}

/* The steepest step of length |g|₁ in the ℓ∞ norm: -(α/2) |g|₁ sign g. */
static bo_status step_linf(bo_context *context, const bo_updates *updates, const bo_optim_part *part, bo_rule *rule)
{
    const bo_weight *w = part->weight;
    double size;
    BO_TRY(updates->sum_sizes(context, bo_optim_part_count(part), w->gradient, &size));
    rule->rate *= 0.5 * rule->scale * size;
    return updates->sign(context, rule, bo_optim_part_count(part), w->gradient, NULL, w->data);
}

/* Muon's matrices are left to step_matrices. */
static bo_status step_part(bo_context *context, const bo_optimizer *o, const bo_optim_part *part, double factor,
                           double scale)
{
    const bo_updates *updates = o->backend->updates;
    const bo_weight *w = part->weight;
    size_t count = bo_optim_part_count(part);
    bo_rule rule = rule_of(o, part->rate, part->decay, factor, scale);
    switch (part->rule) {
    case BO_OPTIMIZER_ADAMW:
        return updates->adamw(context, &rule, count, w->gradient, part->state[0], part->state[1], w->data);
    case BO_OPTIMIZER_SGD:
        return updates->sgd(context, &rule, count, w->gradient, part->state[0], w->data);
    case BO_OPTIMIZER_SIGN:
        return updates->sign(context, &rule, count, w->gradient, part->state[0], w->data);
    case BO_OPTIMIZER_LINF:
        return step_linf(context, updates, part, &rule);
    default:
        return BO_OK;
    }
}

static bo_status step_matrices(bo_context *context, const bo_optimizer *o, double factor, double scale)
{
    if (o->matrices == 0) return BO_OK;
    bo_rule rule = rule_of(o, o->desc.rate, o->desc.decay, factor, scale);
    bo_newton_schulz iteration = o->desc.iteration == BO_MUON_CUBIC ? BO_NEWTON_SCHULZ_CUBIC : BO_NEWTON_SCHULZ_QUINTIC;
    return o->backend->updates->muon(context, &rule, iteration, o->desc.iterations, o->matrices, o->matrix, o->scratch);
}

/* The mean of all weights so far, until a moving average of its length has as many: no start to forget. */
static bo_status average(bo_context *context, const bo_optimizer *o)
{
    double part_of_now = fmax(1 - o->desc.average, 1 / (double)o->steps);
    for (size_t i = 0; i < o->parts; i++) {
        const bo_optim_part *part = &o->part[i];
        if (!part->average) continue;
        BO_TRY(o->backend->updates->approach(context, bo_optim_part_count(part), part_of_now, part->weight->data,
                                             part->average));
    }
    return BO_OK;
}

bo_status bo_optimizer_step(bo_context *context, bo_optimizer *o, double factor, double *norm)
{
    *norm = 0;
    if (o->swapped) return bo_fail(context, BO_INVALID, "a step while the averaged weights are in place");
    if (!(isfinite(factor) && factor >= 0))
        return bo_fail(context, BO_INVALID, "the factor of the rate is at least 0 and finite, not %g", factor);
    BO_TRY(gradient_norm(context, o, norm));
    double scale = (o->desc.clip > 0 && *norm > o->desc.clip ? o->desc.clip / *norm : 1) / o->gradient_scale;
    o->steps++;
    for (size_t i = 0; i < o->parts; i++) BO_TRY(step_part(context, o, &o->part[i], factor, scale));
    BO_TRY(step_matrices(context, o, factor, scale));
    return average(context, o);
}

bo_status bo_optimizer_swap_average(bo_context *context, bo_optimizer *o)
{
    if (o->desc.average == 0 || o->steps == 0) return BO_OK;
    for (size_t i = 0; i < o->parts; i++) {
        const bo_optim_part *part = &o->part[i];
        BO_TRY(o->backend->updates->swap(context, bo_optim_part_count(part), part->average, part->weight->data));
    }
    o->swapped = !o->swapped;
    return BO_OK;
}
