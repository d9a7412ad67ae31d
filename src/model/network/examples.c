/* Examples: a table of data.h, optionally with the edges of a graph, and its rows split into parts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "../../io/splits.h"
#include "../../base/trace.h"
#include "../../base/rng.h"
#include "../../io/schema.h"
#include "../model.h"
#include "internal.h"

/* Examples with their private members. */
typedef struct examples_owner {
    bo_examples view;
    size_t *order;     /* the rows of the parts, one part after another; NULL: every row is in every part */
    bo_data *data;     /* owns x, y and schema if they were read from a file */
    int32_t *adjacent; /* owns first and neighbors */
} examples_owner;

/* ====================================================================================================================
 * Edges: converts pairs of node numbers to an ascending list of neighbors per node. */

enum { BLOCK_ROWS = BO_SIZE(4096, 4), MAX_NODES = INT32_MAX - 1 };

typedef struct pairs {
    int32_t (*list)[2]; /* from, to */
    size_t count, capacity;
} pairs;

static bo_status add_pair(bo_context *context, pairs *p, int32_t from, int32_t to)
{
    if (p->count == p->capacity) {
        const size_t capacity = 2 * p->capacity + 1024;
        int32_t (*larger)[2] = bo_realloc(context, p->list, capacity, sizeof *larger, "the edges");
        if (!larger) return BO_MEMORY;
        p->list = larger;
        p->capacity = capacity;
    }
    p->list[p->count][0] = from;
    p->list[p->count++][1] = to;
    return BO_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bo_status read_node(bo_context *context, const bo_reader *reader, const bo_data_block *block, size_t row,
                           size_t column, size_t nodes, int32_t *out)
{
    const double value = block->cells[row * block->columns + column];
    char place[BO_PLACE_TEXT];
    if (value >= 0 && value < (double)nodes && value == floor(value)) {
        *out = (int32_t)value;
        return BO_OK;
    }
    bo_place(reader, block->first_row + row, block->lines ? block->lines[row] : 0, column, place);
    if (isnan(value))
        return bo_fail(context, BO_FORMAT, "%s: an edge's end should be the number of a node, found %s", place,
                       block->text && block->text[row * block->columns + column]
                           ? block->text[row * block->columns + column]
                           : "nothing");
    return bo_fail(context, BO_FORMAT, "%s: an edge's end should be the number of a node, from 0 to %zu, found %.15g",
                   place, nodes - 1, value);
}

static bo_status read_pairs(bo_context *context, bo_reader *reader, size_t nodes, bool undirected, pairs *out)
{
    bo_data_block block;
    if (bo_reader_describe(reader)->columns != 2)
        return bo_fail(context, BO_FORMAT, "%s: edges should have two columns, from and to, found %zu",
                       bo_reader_describe(reader)->path, bo_reader_describe(reader)->columns);
    for (;;) {
        BO_TRY(bo_reader_next(context, reader, BLOCK_ROWS, &block));
        if (!block.rows) return BO_OK;
        for (size_t i = 0; i < block.rows; i++) {
            int32_t from, to;
            BO_TRY(read_node(context, reader, &block, i, 0, nodes, &from));
            BO_TRY(read_node(context, reader, &block, i, 1, nodes, &to));
            BO_TRY(add_pair(context, out, from, to));
            if (undirected && from != to) BO_TRY(add_pair(context, out, to, from));
        }
    }
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* Sorts by the receiving node, then by its neighbor. */
static int ascending(const void *a, const void *b)
{
    const int32_t *left = a, *right = b;
    if (left[1] != right[1]) return left[1] < right[1] ? -1 : 1;
    return (left[0] > right[0]) - (left[0] < right[0]);
}

/* Removes repeated edges: undirected edges and self loops that the file lists in both directions. */
static void drop_repeats(pairs *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (kept && p->list[kept - 1][0] == p->list[i][0] && p->list[kept - 1][1] == p->list[i][1]) continue;
        p->list[kept][0] = p->list[i][0];
        p->list[kept++][1] = p->list[i][1];
    }
    p->count = kept;
}

static bo_status make_lists(bo_context *context, const pairs *p, examples_owner *owner)
{
    bo_examples *examples = &owner->view;
    const size_t nodes = examples->rows;
    int32_t *first = bo_alloc(context, nodes + 1 + p->count, sizeof *first, "the edges of a graph");
    if (!first) return BO_MEMORY;
    owner->adjacent = first;
    examples->first = first;
    examples->neighbors = first + nodes + 1;
    examples->edges = p->count;
    for (size_t i = 0; i < p->count; i++) {
        first[p->list[i][1] + 1]++;
        first[nodes + 1 + i] = p->list[i][0];
    }
    for (size_t i = 0; i < nodes; i++) first[i + 1] += first[i];
    return BO_OK;
}

static bo_status load_pairs(bo_context *context, const bo_examples_desc *desc, size_t nodes, pairs *p)
{
    bo_reader *reader;
    BO_TRY(bo_reader_open(context, &(bo_source){.path = desc->edges}, BO_FORMAT_AUTO, 0, &reader));
    bo_status status = read_pairs(context, reader, nodes, desc->undirected, p);
    bo_reader_close(reader);
    for (size_t i = 0; status == BO_OK && desc->self_loops && i < nodes; i++)
        status = add_pair(context, p, (int32_t)i, (int32_t)i);
    if (status == BO_OK && p->count > MAX_NODES)
        status = bo_fail(context, BO_UNSUPPORTED, "%s: %zu edges, but at most %d are supported", desc->edges, p->count,
                         MAX_NODES);
    return status;
}

static bo_status load_edges(bo_context *context, const bo_examples_desc *desc, examples_owner *owner)
{
    const bo_examples *examples = &owner->view;
    pairs p = {0};
    if (examples->rows > MAX_NODES)
        return bo_fail(context, BO_UNSUPPORTED, "a graph of %zu nodes: at most %d are supported", examples->rows,
                       MAX_NODES);
    bo_status status = load_pairs(context, desc, examples->rows, &p);
    if (status == BO_OK) {
        if (p.count) qsort(p.list, p.count, sizeof *p.list, ascending);
        if (desc->undirected || desc->self_loops) drop_repeats(&p);
        status = make_lists(context, &p, owner);
    }
    bo_free(p.list);
    return status;
}

/* Checks edges in the form of lists of neighbors. */
static bo_status check_edges(bo_context *context, const bo_examples_arrays *examples)
{
    const int32_t *first = examples->first;
    if (first[0] != 0 || first[examples->rows] < 0 || (size_t)first[examples->rows] != examples->edges)
        return bo_fail(context, BO_INVALID, "edges: the lists should go from 0 to %zu, found %d to %d", examples->edges,
                       (int)first[0], (int)first[examples->rows]);
    for (size_t i = 0; i < examples->rows; i++)
        if (first[i] > first[i + 1])
            return bo_fail(context, BO_INVALID, "edges: the list of node %zu ends before it starts", i);
    for (size_t i = 0; i < examples->edges; i++)
        if (examples->neighbors[i] < 0 || (size_t)examples->neighbors[i] >= examples->rows)
            return bo_fail(context, BO_INVALID, "edges: edge %zu comes from node %d, expected 0 to %zu", i,
                           (int)examples->neighbors[i], examples->rows - 1);
    return BO_OK;
}

/* ====================================================================================================================
 * The table. */

void bo_examples_destroy(bo_examples *examples)
{
    if (!examples) return;
    examples_owner *owner = (examples_owner *)examples;
    bo_data_destroy(owner->data);
    bo_free(owner->adjacent);
    bo_free(owner->order);
    bo_free(owner);
}

size_t bo_examples_rows(const bo_examples *examples, bo_split part)
{
    return examples && part <= BO_SPLIT_ALL ? examples->parts[part].count : 0;
}

size_t bo_examples_row(const bo_examples *examples, bo_split part, size_t index)
{
    if (index >= bo_examples_rows(examples, part)) return SIZE_MAX;
    return examples->parts[part].rows ? examples->parts[part].rows[index] : index;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static void put_all(bo_examples *examples)
{
    for (int p = 0; p <= BO_SPLIT_ALL; p++) examples->parts[p] = (bo_examples_part){.count = examples->rows};
}

/* Sorts the rows by part. */
static bo_status arrange(bo_context *context, examples_owner *owner, const bo_split *splits)
{
    const size_t rows = owner->view.rows;
    size_t *order = bo_alloc(context, rows, sizeof *order, "parts of the rows"), used = 0;
    if (!order) return BO_MEMORY;
    for (int p = 0; p < BO_SPLIT_ALL; p++) {
        const size_t begin = used;
        for (size_t i = 0; i < rows; i++)
            if ((int)splits[i] == p) order[used++] = i;
        owner->view.parts[p] = (bo_examples_part){.count = used - begin, .rows = order + begin};
    }
    bo_free(owner->order);
    owner->order = order;
    if (!owner->view.parts[BO_SPLIT_TRAIN].count) return bo_fail(context, BO_INVALID, "no rows are left for training");
    return BO_OK;
}

static bool has_target(const bo_examples *examples, size_t row)
{
    return !examples->y || !examples->classes || examples->y[row * examples->targets] >= 0;
}

/* Splits the rows that have a target. Rows without a target belong to no part. */
static bo_status split_rows(bo_context *context, const bo_examples *examples, const bo_split_desc *desc,
                            bo_split *splits)
{
    size_t count = 0;
    for (size_t i = 0; i < examples->rows; i++) count += has_target(examples, i);
    BO_TRY(bo_split_rows(context, desc, count, splits));
    for (size_t i = examples->rows; i-- > 0;) splits[i] = has_target(examples, i) ? splits[--count] : BO_SPLIT_NONE;
    return BO_OK;
}

bo_status bo_examples_split(bo_context *context, bo_examples *examples, double valid, double test, uint64_t seed)
{
    BO_REQUIRE(context, examples);
    const bo_split_desc desc = {.valid = valid, .test = test, .seed = seed};
    bo_split *splits = bo_alloc(context, examples->rows, sizeof *splits, "parts of the rows");
    bo_status status = splits ? split_rows(context, examples, &desc, splits) : BO_MEMORY;
    if (status == BO_OK) status = arrange(context, (examples_owner *)examples, splits);
    bo_free(splits);
    return status;
}

static bo_status load_split(bo_context *context, const char *path, examples_owner *owner)
{
    bo_split *splits = bo_alloc(context, owner->view.rows, sizeof *splits, "parts of the rows");
    bo_status status = splits ? bo_split_load(context, path, owner->view.rows, splits) : BO_MEMORY;
    if (status == BO_OK) status = arrange(context, owner, splits);
    bo_free(splits);
    return status;
}

/* ---- from files -------------------------------------------------------------------------------------------------- */

static void point_to_data(examples_owner *owner)
{
    const bo_data *data = owner->data;
    owner->view = (bo_examples){.rows = data->rows,
                                .dim = data->dim,
                                .targets = data->y ? data->targets : 0,
                                .classes = data->y ? data->classes : 0,
                                .x = data->x,
                                .y = data->y,
                                .schema = data->schema};
    put_all(&owner->view);
}

static bo_status refuse_missing_targets(bo_context *context, const bo_data_desc *desc, const bo_data *data)
{
    for (size_t i = 0; data->y && i < data->rows * data->targets; i++)
        if (isnan(data->y[i]))
            return bo_fail(context, BO_FORMAT, "%s: row %zu (from 0): expected a target, found a missing value",
                           bo_data_name(desc), i / data->targets);
    return BO_OK;
}

/* Rows keep their places, which edges and splits refer to. */
static bo_status load(bo_context *context, const bo_examples_desc *desc, const bo_network *network,
                      examples_owner *owner)
{
    const bool parts = desc->valid > 0 || desc->test > 0;
    BO_TRY(bo_check_reserved(context, "bo_examples_desc", desc->reserved));
    bo_data_desc data = desc->data;
    data.keep_unlabeled = data.no_origin = true; /* columns of a sequence or an image have one zero */
    BO_TRY(bo_data_load(context, &data, network ? network->schema : NULL, &owner->data));
    BO_TRY(refuse_missing_targets(context, &data, owner->data));
    point_to_data(owner);
    if (!owner->view.rows) return bo_fail(context, BO_FORMAT, "%s: has no rows", bo_data_name(&desc->data));
    if (desc->edges) BO_TRY(load_edges(context, desc, owner));
    if (desc->split) return load_split(context, desc->split, owner);
    return parts ? bo_examples_split(context, &owner->view, desc->valid, desc->test, desc->seed) : BO_OK;
}

bo_status bo_examples_load(bo_context *context, const bo_examples_desc *desc, const bo_model *model, bo_examples **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    BO_SPAN(context, "data", "load examples");
    examples_owner *owner = bo_alloc(context, 1, sizeof *owner, "examples");
    if (!owner) return BO_MEMORY;
    const bo_status status = load(context, desc, model ? model->network : NULL, owner);
    if (status != BO_OK)
        bo_examples_destroy(&owner->view);
    else
        *out = &owner->view;
    return status;
}

/* ---- from arrays ------------------------------------------------------------------------------------------------- */

static bo_status check_arrays(bo_context *context, const bo_examples_arrays *arrays)
{
    BO_TRY(bo_check_reserved(context, "bo_examples_arrays", arrays->reserved));
    if (!arrays->rows || !arrays->dim || !arrays->x)
        return bo_fail(context, BO_INVALID, "examples: expected an x of at least 1 x 1, found %zu x %zu", arrays->rows,
                       arrays->dim);
    for (size_t i = 0; i < arrays->rows * arrays->dim; i++)
        if (!isfinite(arrays->x[i]))
            return bo_fail(context, BO_INVALID, "examples: row %zu, column %zu is not finite", i / arrays->dim,
                           i % arrays->dim);
    if (arrays->y && !arrays->targets)
        return bo_fail(context, BO_INVALID, "examples: there are targets, but their number is 0");
    for (size_t i = 0; arrays->y && arrays->classes && i < arrays->rows; i++)
        if (!(arrays->y[i * arrays->targets] < (double)arrays->classes))
            return bo_fail(context, BO_INVALID, "examples: row %zu has class %g, expected a class below %zu", i,
                           arrays->y[i * arrays->targets], arrays->classes);
    return BO_OK;
}

bo_status bo_examples_create(bo_context *context, const bo_examples_arrays *arrays, bo_examples **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, arrays, out);
    BO_TRY(check_arrays(context, arrays));
    if (arrays->first) BO_TRY(check_edges(context, arrays));
    examples_owner *owner = bo_alloc(context, 1, sizeof *owner, "examples");
    if (!owner) return BO_MEMORY;
    owner->view = (bo_examples){.rows = arrays->rows,
                                .dim = arrays->dim,
                                .targets = arrays->y ? arrays->targets : 0,
                                .classes = arrays->y ? arrays->classes : 0,
                                .x = arrays->x,
                                .y = arrays->y,
                                .edges = arrays->edges,
                                .first = arrays->first,
                                .neighbors = arrays->neighbors};
    put_all(&owner->view);
    const bool parts = arrays->valid != 0 || arrays->test != 0;
    const bo_status status =
        parts ? bo_examples_split(context, &owner->view, arrays->valid, arrays->test, arrays->seed) : BO_OK;
    if (status != BO_OK)
        bo_examples_destroy(&owner->view);
    else
        *out = &owner->view;
    return status;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

void bo_examples_batch(const bo_examples *examples, uint64_t seed, uint64_t step, size_t batch, size_t first,
                       size_t count, size_t *rows)
{
    const size_t all = bo_examples_rows(examples, BO_SPLIT_TRAIN);
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = step * batch + first + i;
        rows[i] = bo_examples_row(examples, BO_SPLIT_TRAIN, (size_t)bo_permute(seed, at / all, all, at % all));
    }
}

/* FNV-1a over the contents of the examples, eight bytes at a time. */
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
    const examples_owner *owner = (const examples_owner *)examples;
    uint64_t hash = UINT64_C(14695981039346656037);
    hash = add_bytes(hash, &examples->rows, sizeof examples->rows);
    hash = add_bytes(hash, &examples->dim, sizeof examples->dim);
    hash = add_bytes(hash, examples->x, examples->rows * examples->dim * sizeof *examples->x);
    hash = add_bytes(hash, examples->y, examples->rows * examples->targets * sizeof *examples->y);
    hash = add_bytes(hash, examples->first, (examples->rows + 1) * sizeof *examples->first);
    hash = add_bytes(hash, examples->neighbors, examples->edges * sizeof *examples->neighbors);
    if (!owner->order) return hash;
    size_t begin[BO_SPLIT_COUNT + 1] = {0}; /* where the rows of each part begin */
    for (size_t p = 0; p < BO_SPLIT_COUNT; p++) begin[p + 1] = begin[p] + examples->parts[p].count;
    hash = add_bytes(hash, begin, sizeof begin);
    return add_bytes(hash, owner->order, begin[BO_SPLIT_COUNT] * sizeof *owner->order);
}

/* ====================================================================================================================
 * Checks of targets: values that the loss is not defined for are refused. */

static bo_status check_probabilities(bo_context *context, const bo_examples *examples)
{
    const bo_schema *schema = examples->schema;
    for (size_t i = 0; i < examples->rows * examples->targets; i++) {
        const size_t column = i % examples->targets;
        if (examples->y[i] >= 0 && examples->y[i] <= 1) continue;
        return bo_fail(
            context, BO_INVALID, "loss bce: targets should be from 0 to 1; row %zu (from 0), target %zu (%.60s) has %g",
            i / examples->targets, column, schema ? schema->target_names[column] : "unnamed", examples->y[i]);
    }
    return BO_OK;
}

bo_status bo_targets_check(bo_context *context, const bo_network *network, const bo_examples *examples)
{
    if (network->loss == BO_NETWORK_BCE) return check_probabilities(context, examples);
    if (network->loss == BO_NETWORK_KL && examples->targets < 2)
        return bo_fail(context, BO_INVALID,
                       "loss kl: targets should be logits in two or more columns, but the data has %zu",
                       examples->targets);
    return BO_OK;
}

/* Refuses numeric targets as classes if they are not integers and rarely repeat. */
bo_status bo_classes_check(bo_context *context, const bo_network *network, const bo_examples *examples)
{
    const bo_schema *schema = examples->schema;
    if (network->loss != BO_NETWORK_CROSS_ENTROPY || network->target != BO_NO_LAYER || !schema) return BO_OK;
    const bo_categories *classes = &schema->classes;
    if (classes->count < 3 || 2 * classes->count <= examples->rows) return BO_OK;
    for (size_t i = 0; i < classes->count; i++) {
        const bo_category *class = &classes->items[i];
        if (!class->numeric || class->number == floor(class->number)) continue;
        return bo_fail(context, BO_INVALID,
                       "loss cross-entropy: the target '%.60s' has %zu different values in %zu rows, such as %g, so it "
                       "looks numeric: use the loss mse, or choose another target",
                       schema->target_names[0], classes->count, examples->rows, class->number);
    }
    return BO_OK;
}
