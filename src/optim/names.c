/* Names of optimizers, schedules and Muon's choices. */
#include "optim.h"

static const char *const optimizer_names[BO_OPTIMIZER_COUNT] = {"muon", "adamw", "sgd", "sign", "linf"};
static const char *const schedule_names[BO_SCHEDULE_COUNT] = {"cosine", "linear", "wsd", "constant"};
static const char *const factor_names[BO_MUON_FACTOR_COUNT] = {"tall", "spectral", "rms", "none"};
static const char *const iteration_names[BO_MUON_ITERATION_COUNT] = {"quintic", "cubic"};

BO_NAMED(optimizer, bo_optimizer_kind, optimizer_names)
BO_NAMED(schedule, bo_schedule_kind, schedule_names)
BO_NAMED(muon_factor, bo_muon_factor, factor_names)
BO_NAMED(muon_iteration, bo_muon_iteration, iteration_names)
