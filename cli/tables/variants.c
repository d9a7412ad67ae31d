/* The variants of fit --compare: all combinations of the values of some dimensions. */
#include "folds.h"
#include "maps.h"
#include <string.h>

static void set_kernel(bo_machine_desc *desc, unsigned value)
{
    desc->features.kernel = (bo_kernel)value;
    desc->choose_kernel = false;
}

static void set_metric(bo_machine_desc *desc, unsigned value)
{
    desc->metric = (bo_metric_choice)value;
}

static void set_scaling(bo_machine_desc *desc, unsigned value)
{
    desc->scaling = (bo_scaling)value;
}

static void set_loss(bo_machine_desc *desc, unsigned value)
{
    desc->loss = (bo_loss)value;
}

/* Kernels of x - y and network kernels; other kernels are for attention, or need inputs of a fixed length. */
#define KERNELS_WITHOUT                                                                                                \
    (CLI_KERNELS_WITHOUT | 1u << BO_KERNEL_SOFTMAX | 1u << BO_KERNEL_POLYNOMIAL | 1u << BO_KERNEL_TAYLOR |             \
     1u << BO_KERNEL_ELU | 1u << BO_KERNEL_NNGP)

/* A dimension of the comparison, and the function that sets a value. */
typedef struct dimension {
    const char *word, *name; /* name in --compare, and of one value */
    bo_enum values;
    unsigned without; /* mask of excluded values */
    void (*set)(bo_machine_desc *desc, unsigned value);
} dimension;

static const dimension dimensions[] = {
    {"kernels", "kernel", BO_ENUM_KERNEL, KERNELS_WITHOUT, set_kernel},
    {"metrics", "metric", BO_ENUM_METRIC_CHOICE, 1u << BO_METRIC_AUTO, set_metric},
    {"scalings", "scaling", BO_ENUM_SCALING, 1u << BO_SCALING_AUTO, set_scaling},
    {"losses", "loss", BO_ENUM_LOSS, 1u << BO_LOSS_AUTO, set_loss},
};

/* Parses the first name of a list to its dimension, and moves *list to the rest. NULL: unknown name. */
static const dimension *next(const char **list)
{
    const size_t length = strcspn(*list, ",");
    const dimension *found = NULL;
    for (size_t i = 0; i < CLI_COUNT_OF(dimensions); i++)
        if (strlen(dimensions[i].word) == length && strncmp(dimensions[i].word, *list, length) == 0)
            found = &dimensions[i];
    *list += length + ((*list)[length] == ',');
    return found;
}

static bool offered(const dimension *d, unsigned value)
{
    return value >= 32 || !(d->without & 1u << value);
}

static size_t values_of(const dimension *d)
{
    size_t count = 0;
    for (unsigned v = 0; bo_enum_name(d->values, (int)(v)); v++) count += offered(d, v);
    return count;
}

int cli_variants_check(const char *list)
{
    size_t count = 1;
    const char *rest = list;
    while (rest && *rest) {
        const dimension *d = next(&rest);
        if (!d)
            return cli_usage_error(
                "fit", "--compare: expected kernels, metrics, scalings or losses, separated by commas, found '%s'",
                list);
        count *= values_of(d);
    }
    if (list && !*list)
        return cli_usage_error("fit", "--compare: expected kernels, metrics, scalings or losses, found nothing");
    if (count <= CLI_VARIANTS) return CLI_DONE;
    return cli_usage_error("fit", "--compare: expected at most %d combinations, found %zu", CLI_VARIANTS, count);
}

/* Replaces each variant by one variant per value. */
static void multiply(cli_folds *folds, const dimension *d)
{
    const size_t before = folds->count;
    cli_variant old[CLI_VARIANTS];
    memcpy(old, folds->variants, before * sizeof *old);
    folds->count = 0;
    for (size_t i = 0; i < before; i++)
        for (unsigned v = 0; bo_enum_name(d->values, (int)(v)); v++) {
            if (!offered(d, v)) continue;
            cli_variant *variant = &folds->variants[folds->count++];
            *variant = old[i];
            d->set(&variant->desc, v);
            snprintf(variant->name, sizeof variant->name, "%.60s%s%.32s", old[i].name, *old[i].name ? ", " : "",
                     bo_enum_name(d->values, (int)(v)));
        }
}

void cli_variants_create(cli_folds *folds, const char *list, const bo_machine_desc *base)
{
    folds->variants = cli_allocate(CLI_VARIANTS, sizeof *folds->variants, "variants");
    folds->variants[0].desc = *base;
    folds->count = 1;
    while (list && *list) {
        const dimension *d = next(&list);
        folds->compared = folds->compared ? "settings" : d->name;
        multiply(folds, d);
    }
    for (size_t i = 0; i < folds->count; i++)
        folds->variants[i].folds = cli_allocate(folds->folds, sizeof(cli_fold_result), "folds");
}
