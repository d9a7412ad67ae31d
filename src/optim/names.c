/* Names of optimisers, schedules and Muon's choices. */
#include "optim.h"

static const char *const optimizer_names[BO_OPTIMIZER_COUNT] = {"muon", "adamw", "sgd", "sign", "linf"};
static const char *const schedule_names[BO_SCHEDULE_COUNT] = {"cosine", "linear", "wsd", "constant"};
static const char *const factor_names[BO_MUON_FACTOR_COUNT] = {"tall", "spectral", "rms", "none"};
static const char *const iteration_names[BO_MUON_ITERATION_COUNT] = {"quintic", "cubic"};

const char *bo_optimizer_name(bo_optimizer_kind kind)
{
    return (unsigned)kind < BO_OPTIMIZER_COUNT ? optimizer_names[kind] : NULL;
}

const char *bo_schedule_name(bo_schedule_kind kind)
{
    return (unsigned)kind < BO_SCHEDULE_COUNT ? schedule_names[kind] : NULL;
}

const char *bo_muon_factor_name(bo_muon_factor factor)
{
    return (unsigned)factor < BO_MUON_FACTOR_COUNT ? factor_names[factor] : NULL;
}

const char *bo_muon_iteration_name(bo_muon_iteration iteration)
{
    return (unsigned)iteration < BO_MUON_ITERATION_COUNT ? iteration_names[iteration] : NULL;
}

bool bo_optimizer_parse(const char *name, bo_optimizer_kind *out)
{
    int found = bo_find_name(name, optimizer_names, BO_OPTIMIZER_COUNT);
    if (found >= 0) *out = (bo_optimizer_kind)found;
    return found >= 0;
}

bool bo_schedule_parse(const char *name, bo_schedule_kind *out)
{
    int found = bo_find_name(name, schedule_names, BO_SCHEDULE_COUNT);
    if (found >= 0) *out = (bo_schedule_kind)found;
    return found >= 0;
}

bool bo_muon_factor_parse(const char *name, bo_muon_factor *out)
{
    int found = bo_find_name(name, factor_names, BO_MUON_FACTOR_COUNT);
    if (found >= 0) *out = (bo_muon_factor)found;
    return found >= 0;
}

bool bo_muon_iteration_parse(const char *name, bo_muon_iteration *out)
{
    int found = bo_find_name(name, iteration_names, BO_MUON_ITERATION_COUNT);
    if (found >= 0) *out = (bo_muon_iteration)found;
    return found >= 0;
}
