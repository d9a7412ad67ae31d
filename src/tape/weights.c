/* The set of weights: names, shapes, and the two pieces of memory. */
#include "weights.h"
#include <assert.h>
#include <string.h>

enum { GRAIN = 16 }; /* floats: every weight begins at a multiple */

/* Invariant: `floats` is the end of the last weight, rounded up to the grain. Weights are allocated one by one, so that
 * their addresses stay. */
struct bo_weights {
    const bo_backend *backend;
    bo_weight **at;
    size_t count, room;
    void *stored; /* what holds the values instead of `data`; NULL: nothing was stored */
    size_t stored_bytes;
    size_t floats;
    void *data, *gradients;
    bo_rules rules;
    const bo_lora *lora;
};

bo_status bo_weights_create(bo_context *context, const bo_backend *backend, bo_weights **out)
{
    *out = bo_alloc(context, 1, sizeof **out, "a set of weights");
    if (!*out) return BO_MEMORY;
    (*out)->backend = backend;
    (*out)->rules.gradient_scale = 1;
    return BO_OK;
}

void bo_weights_set_rules(bo_weights *weights, const bo_rules *rules)
{
    bo_weights_destroy(weights->rules.base);
    weights->rules = *rules;
    if (weights->rules.gradient_scale == 0) weights->rules.gradient_scale = 1;
}

const bo_rules *bo_weights_rules(const bo_weights *weights)
{
    return &weights->rules;
}

void bo_weights_set_lora(bo_weights *weights, const bo_lora *lora)
{
    weights->lora = lora;
}

const bo_lora *bo_weights_lora(const bo_weights *weights)
{
    return weights->lora;
}

static void drop(bo_weight *weight)
{
    if (weight) bo_free(weight->name);
    bo_free(weight);
}

void bo_weights_destroy(bo_weights *weights)
{
    if (!weights) return;
    for (size_t i = 0; i < weights->count; i++) drop(weights->at[i]);
    bo_free(weights->at);
    bo_weights_destroy(weights->rules.base);
    if (weights->data) weights->backend->release(weights->data);
    if (weights->stored) weights->backend->release(weights->stored);
    if (weights->gradients) weights->backend->release(weights->gradients);
    bo_free(weights);
}

/* ---- declaring ----------------------------------------------------------------------------------------------------- */

/* Rows and columns from the shape, unless given: the last extent is the columns. */
static bo_status settle_shape(bo_context *context, bo_weight *w)
{
    size_t numbers = 1, given;
    if (!w->name || !*w->name) return bo_fail(context, BO_INVALID, "a weight has no name");
    if (w->rank < 1 || w->rank > 4)
        return bo_fail(context, BO_INVALID, "weight %s: rank %zu, expected 1 to 4", w->name, w->rank);
    for (size_t i = 0; i < w->rank; i++)
        if (!w->shape[i] || __builtin_mul_overflow(numbers, w->shape[i], &numbers) || numbers >= (size_t)1 << 46)
            return bo_fail(context, BO_INVALID, "weight %s: extent %zu of its shape is %zu, which cannot be%s", w->name,
                           i, w->shape[i], w->shape[i] ? ": it would have 2^46 numbers or more" : "");
    if (!w->rows && !w->columns) {
        w->columns = w->shape[w->rank - 1];
        w->rows = numbers / w->columns;
    }
    if (__builtin_mul_overflow(w->rows, w->columns, &given) || given != numbers)
        return bo_fail(context, BO_INVALID, "weight %s: %zu x %zu, but its shape has %zu numbers", w->name, w->rows,
                       w->columns, numbers);
    if ((w->init.law == BO_INIT_IDENTITY || w->init.law == BO_INIT_DELAYS) &&
        !(w->init.a >= 1 && w->init.a <= (double)numbers))
        return bo_fail(context, BO_INVALID, "weight %s: blocks of %g rows of the identity, expected at least 1",
                       w->name, w->init.a);
    return BO_OK;
}

static bool alike(const bo_weight *a, const bo_weight *b)
{
    return a->rows == b->rows && a->columns == b->columns && a->rank == b->rank && a->role == b->role &&
           !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape);
}

/* False: no weight has this name. */
static bool find_index(const bo_weights *weights, const char *name, size_t *index)
{
    for (*index = 0; *index < weights->count; ++*index)
        if (!strcmp(weights->at[*index]->name, name)) return true;
    return false;
}

static bo_status make_room(bo_context *context, bo_weights *weights)
{
    if (weights->count < weights->room) return BO_OK;
    size_t room = weights->room ? 2 * weights->room : 32;
    bo_weight **grown = bo_realloc(context, weights->at, room, sizeof *grown, "a set of weights");
    if (!grown) return BO_MEMORY;
    weights->at = grown;
    weights->room = room;
    return BO_OK;
}

static bo_status add(bo_context *context, bo_weights *weights, const bo_weight *settled)
{
    BO_TRY(make_room(context, weights));
    bo_weight *added = bo_alloc(context, 1, sizeof *added, "a weight");
    if (!added) return BO_MEMORY;
    *added = *settled;
    added->name = bo_strdup(context, settled->name);
    if (!added->name) {
        bo_free(added);
        return BO_MEMORY;
    }
    added->offset = weights->floats;
    weights->floats += (added->rows * added->columns + GRAIN - 1) / GRAIN * GRAIN;
    weights->at[weights->count++] = added;
    assert(added->offset % GRAIN == 0 && weights->floats % GRAIN == 0);
    assert(added->offset + added->rows * added->columns <= weights->floats);
    assert(!added->data && !added->gradient);
    return BO_OK;
}

bo_status bo_weights_declare(bo_context *context, bo_weights *weights, const bo_weight *desc, size_t *index)
{
    bo_weight settled = *desc;
    settled.data = settled.gradient = NULL;
    settled.element = BO_ELEMENT_FLOAT32;
    BO_TRY(settle_shape(context, &settled));
    if (find_index(weights, settled.name, index)) {
        const bo_weight *known = weights->at[*index];
        if (alike(known, &settled)) return BO_OK;
        return bo_fail(context, BO_INVALID, "weight %s is %zu x %zu already and is declared again as %zu x %zu%s",
                       settled.name, known->rows, known->columns, settled.rows, settled.columns,
                       known->role == settled.role ? "" : " with another role");
    }
    if (weights->data || weights->stored)
        return bo_fail(context, BO_INVALID, "weight %s: the set has its memory and takes no more", settled.name);
    bo_weight_parametrize(&weights->rules, &settled);
    return add(context, weights, &settled); /* at *index, behind the others */
}

/* ---- asking -------------------------------------------------------------------------------------------------------- */

size_t bo_weights_count(const bo_weights *weights)
{
    return weights->count;
}

bo_weight *bo_weights_at(bo_weights *weights, size_t index)
{
    return weights->at[index];
}

bo_weight *bo_weights_find(bo_weights *weights, const char *name)
{
    size_t index;
    return find_index(weights, name, &index) ? weights->at[index] : NULL;
}

size_t bo_weights_floats(const bo_weights *weights)
{
    return weights->floats;
}

size_t bo_weights_numbers(const bo_weights *weights, bool trained)
{
    size_t numbers = 0;
    for (size_t i = 0; i < weights->count; i++)
        if (!trained || !weights->at[i]->frozen) numbers += weights->at[i]->rows * weights->at[i]->columns;
    return numbers;
}

void *bo_weights_data(bo_weights *weights)
{
    return weights->data;
}

void *bo_weights_gradients(bo_weights *weights)
{
    return weights->gradients;
}

const bo_backend *bo_weights_backend(const bo_weights *weights)
{
    return weights->backend;
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

bo_status bo_weights_allocate(bo_context *context, bo_weights *weights, bool gradients)
{
    size_t bytes = weights->floats * sizeof(float);
    if (weights->stored && gradients)
        return bo_fail(context, BO_INVALID, "the weights are kept in fewer bits, for reading only: no training");
    if (weights->stored) return BO_OK;
    if (!weights->data) weights->data = weights->backend->allocate(context, bytes, "weights");
    if (!weights->data) return BO_MEMORY;
    for (size_t i = 0; i < weights->count; i++)
        weights->at[i]->data = (char *)weights->data + weights->at[i]->offset * sizeof(float);
    if (!gradients) return BO_OK;
    if (!weights->gradients)
        weights->gradients = weights->backend->allocate(context, bytes, "gradients of the weights");
    if (!weights->gradients) return BO_MEMORY;
    for (size_t i = 0; i < weights->count; i++) {
        bo_weight *weight = weights->at[i];
        weight->gradient = weight->frozen ? NULL : (char *)weights->gradients + weight->offset * sizeof(float);
    }
    return BO_OK;
}

/* ---- in fewer bits ------------------------------------------------------------------------------------------------- */

size_t bo_weights_bytes(const bo_weights *weights)
{
    return weights->stored ? weights->stored_bytes : weights->floats * sizeof(float);
}

const void *bo_weights_memory(const bo_weights *weights)
{
    return weights->stored ? weights->stored : weights->data;
}

/* To whole grains. */
static size_t stored_size(const bo_weight *weight, bool stored, bo_element element)
{
    size_t grain = GRAIN * sizeof(float);
    size_t bytes = bo_element_bytes(stored ? element : BO_ELEMENT_FLOAT32, weight->rows, weight->columns);
    return (bytes + grain - 1) / grain * grain;
}

bo_status bo_weights_store(bo_context *context, bo_weights *weights, const bool *which, bo_element element)
{
    size_t bytes = 0;
    if (weights->gradients || !weights->data)
        return bo_fail(context, BO_INVALID, "the weights %s, and are not stored otherwise",
                       weights->gradients ? "are being trained"
                       : weights->stored  ? "are kept in fewer bits already"
                                          : "have no memory yet");
    for (size_t i = 0; i < weights->count; i++) bytes += stored_size(weights->at[i], which[i], element);
    char *at = weights->backend->allocate(context, bytes, "weights in fewer bits");
    if (!at) return BO_MEMORY;
    weights->stored = at;
    weights->stored_bytes = bytes;
    for (size_t i = 0; i < weights->count; i++) {
        bo_weight *w = weights->at[i];
        w->element = which[i] ? element : BO_ELEMENT_FLOAT32;
        BO_TRY(weights->backend->narrow(context, w->element, w->rows, w->columns, w->data, at));
        w->data = at;
        at += stored_size(w, which[i], element);
    }
    weights->backend->release(weights->data);
    weights->data = NULL;
    return BO_OK;
}
