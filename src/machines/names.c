/* Names of the enums, as the command line and files spell them. */
#include "internal.h"

static const char *const solver_names[] = {"auto", "primal", "dual", "cg", "sgd"};
static const char *const loss_names[] = {"auto", "ridge", "logistic"};
static const char *const scaling_names[] = {"auto", "columns", "common", "none"};

static const char *const precision_names[] = {"auto", "int8", "float32", "float64"};

enum { SOLVERS = sizeof solver_names / sizeof *solver_names, LOSSES = sizeof loss_names / sizeof *loss_names };
enum { SCALINGS = sizeof scaling_names / sizeof *scaling_names };
enum { PRECISIONS = sizeof precision_names / sizeof *precision_names };

static const char *name_of(const char *const *names, int count, int value)
{
    return value >= 0 && value < count ? names[value] : NULL;
}

const char *bo_solver_name(bo_solver solver)
{
    return name_of(solver_names, SOLVERS, (int)solver);
}

const char *bo_loss_name(bo_loss loss)
{
    return name_of(loss_names, LOSSES, (int)loss);
}

const char *bo_scaling_name(bo_scaling scaling)
{
    return name_of(scaling_names, SCALINGS, (int)scaling);
}

const char *bo_precision_name(bo_precision precision)
{
    return name_of(precision_names, PRECISIONS, (int)precision);
}

bool bo_solver_parse(const char *name, bo_solver *out)
{
    int found = bo_find_name(name, solver_names, SOLVERS);
    if (found >= 0) *out = (bo_solver)found;
    return found >= 0;
}

bool bo_loss_parse(const char *name, bo_loss *out)
{
    int found = bo_find_name(name, loss_names, LOSSES);
    if (found >= 0) *out = (bo_loss)found;
    return found >= 0;
}

bool bo_scaling_parse(const char *name, bo_scaling *out)
{
    int found = bo_find_name(name, scaling_names, SCALINGS);
    if (found >= 0) *out = (bo_scaling)found;
    return found >= 0;
}

bool bo_precision_parse(const char *name, bo_precision *out)
{
    int found = bo_find_name(name, precision_names, PRECISIONS);
    if (found >= 0) *out = (bo_precision)found;
    return found >= 0;
}
