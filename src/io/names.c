/* Names of the enums, as the command line and schemas spell them. */
#include "../base/base.h"
#include <bochner/data.h>

static const char *const format_names[] = {"auto", "csv", "npy", "libsvm", "idx", "spaced"};
static const char *const task_names[] = {"auto", "regression", "classification"};
static const char *const impute_names[] = {"none", "mean", "median"};

enum {
    FORMATS = sizeof format_names / sizeof *format_names,
    TASKS = sizeof task_names / sizeof *task_names,
    IMPUTES = sizeof impute_names / sizeof *impute_names
};

const char *bo_format_name(bo_format format)
{
    return (unsigned)format < FORMATS ? format_names[format] : NULL;
}

const char *bo_task_name(bo_task task)
{
    return (unsigned)task < TASKS ? task_names[task] : NULL;
}

const char *bo_impute_name(bo_impute impute)
{
    return (unsigned)impute < IMPUTES ? impute_names[impute] : NULL;
}

bool bo_format_parse(const char *name, bo_format *out)
{
    int found = bo_find_name(name, format_names, FORMATS);
    if (found >= 0) *out = (bo_format)found;
    return found >= 0;
}

bool bo_task_parse(const char *name, bo_task *out)
{
    int found = bo_find_name(name, task_names, TASKS);
    if (found >= 0) *out = (bo_task)found;
    return found >= 0;
}

bool bo_impute_parse(const char *name, bo_impute *out)
{
    int found = bo_find_name(name, impute_names, IMPUTES);
    if (found >= 0) *out = (bo_impute)found;
    return found >= 0;
}
