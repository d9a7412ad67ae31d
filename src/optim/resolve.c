/* Descriptors of optimizers: checked, and with their defaults filled in. */
#include "optim.h"
#include <math.h>

static const struct defaults {
    double rate, momentum; /* momentum -1: none */
} defaults[BO_OPTIMIZER_COUNT] = {
    [BO_OPTIMIZER_MUON] = {0.02, 0.95}, [BO_OPTIMIZER_ADAMW] = {3e-3, -1}, [BO_OPTIMIZER_SGD] = {0.1, 0.9},
    [BO_OPTIMIZER_SIGN] = {1e-3, 0.9},  [BO_OPTIMIZER_LINF] = {1e-4, -1},
};

static void fill(double *field, double usual)
{
    if (*field == 0) *field = usual;
}

static bo_status check_kinds(bo_context *context, const bo_optimizer_desc *desc)
{
    if ((unsigned)desc->kind >= BO_OPTIMIZER_COUNT)
        return bo_fail(context, BO_INVALID, "optimizer %d is none of the %d kinds", (int)desc->kind,
                       BO_OPTIMIZER_COUNT);
    if ((unsigned)desc->factor >= BO_MUON_FACTOR_COUNT)
        return bo_fail(context, BO_INVALID, "Muon's factor %d is none of the %d kinds", (int)desc->factor,
                       BO_MUON_FACTOR_COUNT);
    if ((unsigned)desc->iteration >= BO_MUON_ITERATION_COUNT)
        return bo_fail(context, BO_INVALID, "Muon's iteration %d is none of the %d kinds", (int)desc->iteration,
                       BO_MUON_ITERATION_COUNT);
    if (desc->iterations > BO_MUON_MOST_ITERATIONS)
        return bo_fail(context, BO_INVALID, "Muon takes at most %d iterations, not %zu", BO_MUON_MOST_ITERATIONS,
                       desc->iterations);
    return BO_OK;
}

/* At least 0 and finite, below 1 where asked for. */
static bo_status check_number(bo_context *context, const char *what, double value, bool below_one)
{
    if (isfinite(value) && value >= 0 && (!below_one || value < 1)) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s is %s, not %g", what, below_one ? "in [0, 1)" : "at least 0 and finite",
                   value);
}

/* Negative means none. */
static bo_status check_or_none(bo_context *context, const char *what, double value, bool below_one)
{
    return value < 0 ? BO_OK : check_number(context, what, value, below_one);
}

static bo_status check(bo_context *context, const bo_optimizer_desc *desc)
{
    BO_TRY(check_kinds(context, desc));
    BO_TRY(check_number(context, "an optimizer's rate", desc->rate, false));
    BO_TRY(check_number(context, "the rate of what Muon leaves to AdamW", desc->other_rate, false));
    BO_TRY(check_number(context, "weight decay", desc->decay, false));
    BO_TRY(check_or_none(context, "momentum", desc->momentum, true));
    BO_TRY(check_number(context, "beta1", desc->beta1, true));
    BO_TRY(check_number(context, "beta2", desc->beta2, true));
    BO_TRY(check_number(context, "epsilon", desc->epsilon, false));
    if (desc->epsilon > 0 && (float)desc->epsilon == 0) /* a weight whose gradient was always 0 would become 0 / 0 */
        return bo_fail(context, BO_INVALID, "epsilon is %g, which is 0 as a float", desc->epsilon);
    BO_TRY(check_or_none(context, "the norm to which gradients are clipped", desc->clip, false));
    return check_number(context, "the weight of the past in averaged weights", desc->average, true);
}

bo_status bo_optimizer_resolve(bo_context *context, const bo_optimizer_desc *desc, bo_optimizer_desc *out)
{
    BO_TRY(check(context, desc));
    *out = *desc;
    fill(&out->rate, defaults[out->kind].rate);
    fill(&out->other_rate, defaults[BO_OPTIMIZER_ADAMW].rate);
    fill(&out->momentum, defaults[out->kind].momentum);
    fill(&out->beta1, 0.9);
    fill(&out->beta2, 0.95);
    fill(&out->epsilon, 1e-10);
    fill(&out->clip, 1);
    if (out->momentum < 0 || defaults[out->kind].momentum < 0) out->momentum = -1;
    if (out->clip < 0) out->clip = -1;
    if (out->iterations == 0) out->iterations = out->iteration == BO_MUON_QUINTIC ? 5 : 12;
    return BO_OK;
}
