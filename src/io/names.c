/* Names of the enums, as the command line and schemas spell them. */
#include "../base/base.h"
#include <bochner/data.h>

static const char *const format_names[] = {"auto", "csv", "npy", "libsvm", "idx", "spaced"};
static const char *const task_names[] = {"auto", "regression", "classification"};
static const char *const impute_names[] = {"none", "mean", "median"};

BO_NAMED(format, bo_format, format_names)
BO_NAMED(task, bo_task, task_names)
BO_NAMED(impute, bo_impute, impute_names)
