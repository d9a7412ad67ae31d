/* Names of the enums, as the command line and files spell them. */
#include "internal.h"

static const char *const solver_names[] = {"auto", "primal", "dual", "cg", "sgd"};
static const char *const loss_names[] = {"auto", "ridge", "logistic"};
static const char *const scaling_names[] = {"auto", "columns", "common", "none"};
static const char *const precision_names[] = {"auto", "int8", "float32", "float64"};

BO_NAMED(solver, bo_solver, solver_names)
BO_NAMED(loss, bo_loss, loss_names)
BO_NAMED(scaling, bo_scaling, scaling_names)
BO_NAMED(precision, bo_precision, precision_names)
