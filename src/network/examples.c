/* Examples: a table of data.h, perhaps with the edges of a graph, its rows in parts. */
#include <math.h>
#include <string.h>
#include "../base/permutation.h"
#include "examples.h"

static const char *const split_names[BO_SPLIT_COUNT] = {"train", "valid", "test"};
BO_NAMED(split, bo_split, split_names)

void bo_examples_destroy(bo_examples *examples)
{
    if (!examples) return;
    bo_data_destroy(examples->data);
    bo_free(examples->adjacent);
    bo_free(examples->order);
    bo_free(examples);
}

size_t bo_examples_count(const bo_examples *examples, bo_split part)
{
    if (!examples->order || part >= BO_SPLIT_ALL) return examples->rows;
    return examples->begin[part + 1] - examples->begin[part];
}

size_t bo_examples_row(const bo_examples *examples, bo_split part, size_t index)
{
    if (!examples->order || part >= BO_SPLIT_ALL) return index;
    return examples->order[examples->begin[part] + index];
}

/* ---- from files ------------------------------------------------------------------------------------------------------------ */

static void point_to_data(bo_examples *examples)
{
    const bo_data *data = examples->data;
    examples->rows = data->rows;
    examples->dim = data->dim;
    examples->targets = data->y ? data->targets : 0;
    examples->classes = data->y ? data->classes : 0;
    examples->x = data->x;
    examples->y = data->y;
    examples->schema = data->schema;
}

static bo_status load(bo_context *context, const bo_examples_desc *desc, const bo_network *network,
                      bo_examples *examples)
{
    const bool parts = desc->valid > 0 || desc->test > 0;
    BO_TRY(bo_data_load(context, &desc->data, network ? bo_network_describe(network).schema : NULL, &examples->data));
    point_to_data(examples);
    if (!examples->rows) return bo_fail(context, BO_FORMAT, "%s: has no rows", desc->data.path);
    if (desc->edges) BO_TRY(bo_edges_load(context, desc, examples));
    if (desc->split) return bo_splits_load(context, desc->split, examples);
    return parts ? bo_examples_split(context, examples, desc->valid, desc->test, desc->seed) : BO_OK;
}

bo_status bo_examples_load(bo_context *context, const bo_examples_desc *desc, const bo_network *network,
                           bo_examples **out)
{
    if (!desc || !out) return bo_fail(context, BO_INVALID, "examples: the descriptor or out is NULL");
    *out = NULL;
    bo_examples *examples = bo_alloc(context, 1, sizeof *examples, "examples");
    if (!examples) return BO_MEMORY;
    const bo_status status = load(context, desc, network, examples);
    if (status != BO_OK)
        bo_examples_destroy(examples);
    else
        *out = examples;
    return status;
}

/* ---- from arrays ----------------------------------------------------------------------------------------------------------- */

static bo_status check_arrays(bo_context *context, const bo_examples *arrays)
{
    if (!arrays->rows || !arrays->dim || !arrays->x)
        return bo_fail(context, BO_INVALID, "examples: there should be rows with numbers, found %zu x %zu",
                       arrays->rows, arrays->dim);
    for (size_t i = 0; i < arrays->rows * arrays->dim; i++)
        if (!isfinite(arrays->x[i]))
            return bo_fail(context, BO_INVALID, "examples: row %zu, column %zu is not finite", i / arrays->dim,
                           i % arrays->dim);
    if (arrays->y && !arrays->targets) return bo_fail(context, BO_INVALID, "examples: targets, but no number of them");
    for (size_t i = 0; arrays->y && arrays->classes && i < arrays->rows; i++)
        if (!(arrays->y[i * arrays->targets] < (double)arrays->classes))
            return bo_fail(context, BO_INVALID, "examples: row %zu is of class %g, expected one below %zu", i,
                           arrays->y[i * arrays->targets], arrays->classes);
    return BO_OK;
}

bo_status bo_examples_create(bo_context *context, const bo_examples *arrays, bo_examples **out)
{
    if (!arrays || !out) return bo_fail(context, BO_INVALID, "examples: the arrays or out are NULL");
    *out = NULL;
    BO_TRY(check_arrays(context, arrays));
    if (arrays->first) BO_TRY(bo_edges_check(context, arrays));
    bo_examples *examples = bo_alloc(context, 1, sizeof *examples, "examples");
    if (!examples) return BO_MEMORY;
    *examples = (bo_examples){.rows = arrays->rows,
                              .dim = arrays->dim,
                              .targets = arrays->y ? arrays->targets : 0,
                              .classes = arrays->y ? arrays->classes : 0,
                              .x = arrays->x,
                              .y = arrays->y,
                              .edges = arrays->edges,
                              .first = arrays->first,
                              .neighbors = arrays->neighbors};
    *out = examples;
    return BO_OK;
}

/* ---- batches --------------------------------------------------------------------------------------------------------------- */

void bo_examples_batch(const bo_examples *examples, uint64_t seed, uint64_t step, size_t batch, size_t first,
                       size_t count, size_t *rows)
{
    const size_t all = bo_examples_count(examples, BO_SPLIT_TRAIN);
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = step * batch + first + i;
        rows[i] = bo_examples_row(examples, BO_SPLIT_TRAIN, (size_t)bo_permute(seed, at / all, all, at % all));
    }
}

/* FNV-1a over what the examples are, eight bytes at a time. */
static uint64_t add_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const char *at = bytes;
    for (size_t i = 0; at && i < size; i += sizeof hash) {
        uint64_t word = 0;
        memcpy(&word, at + i, size - i < sizeof word ? size - i : sizeof word);
        hash = (hash ^ word) * UINT64_C(1099511628211);
        hash ^= hash >> 32;
    }
    return hash;
}

uint64_t bo_examples_fingerprint(const bo_examples *examples)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    hash = add_bytes(hash, &examples->rows, sizeof examples->rows);
    hash = add_bytes(hash, &examples->dim, sizeof examples->dim);
    hash = add_bytes(hash, examples->x, examples->rows * examples->dim * sizeof *examples->x);
    hash = add_bytes(hash, examples->y, examples->rows * examples->targets * sizeof *examples->y);
    hash = add_bytes(hash, examples->first, (examples->rows + 1) * sizeof *examples->first);
    hash = add_bytes(hash, examples->neighbors, examples->edges * sizeof *examples->neighbors);
    if (!examples->order) return hash;
    hash = add_bytes(hash, examples->begin, sizeof examples->begin);
    return add_bytes(hash, examples->order, examples->begin[BO_SPLIT_COUNT] * sizeof *examples->order);
}
