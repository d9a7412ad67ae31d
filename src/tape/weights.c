/* The set of weights: names, shapes, and the memory of values and gradients. */
#include "weights.h"
#include <assert.h>
#include <fnmatch.h>
#include <string.h>
#include "../base/rng.h"

enum { GRAIN = 16 }; /* alignment of weights in floats */
enum { MAX_RANK = 4 };

/* A weight with memory for its name and shape. */
typedef struct owned_weight {
    bo_weight weight; /* first, since a bo_weight pointer can be cast to this type */
    void *gradient;   /* memory of its gradient, also while it is frozen; NULL: none */
    char *name;
    size_t shape[MAX_RANK];
} owned_weight;

/* Invariant: `floats` is the end of the last weight, rounded up to a multiple of GRAIN. Weights are allocated one by
 * one, so that their addresses do not change. */
struct bo_weights {
    bo_device *device;
    bo_weight **at;
    size_t count, capacity; /* capacity: 0 or a power of two */
    size_t *slots;          /* index by name: position in `at` plus 1, or 0; twice as many as `capacity` */
    void *stored;           /* replaces `data` after bo_weights_store; NULL: not stored */
    size_t stored_bytes;
    size_t floats;
    void *data;
    bo_gradients *gradients;
    bo_rules rules;
    const bo_lora *lora;
    bo_weights_info info; /* current facts about all weights */
};

bo_status bo_weights_create(bo_context *context, bo_weights **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    return bo_weights_create_on(context, bo_device_of(context), out);
}

bo_status bo_weights_create_on(bo_context *context, bo_device *device, bo_weights **out)
{
    *out = bo_alloc(context, 1, sizeof **out, "a set of weights");
    if (!*out) return BO_MEMORY;
    (*out)->device = device;
    bo_device_retain(device);
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
    bo_free(((owned_weight *)weight)->name);
    bo_free(weight);
}

void bo_weights_destroy(bo_weights *weights)
{
    if (!weights) return;
    for (size_t i = 0; i < weights->count; i++) drop(weights->at[i]);
    bo_free(weights->at);
    bo_free(weights->slots);
    bo_weights_destroy(weights->rules.base);
    if (weights->data) bo_buffer_release(weights->device, weights->data);
    if (weights->stored) bo_buffer_release(weights->device, weights->stored);
    while (weights->gradients) {
        bo_gradients *first = weights->gradients;
        weights->gradients = first->next;
        bo_buffer_release(weights->device, first->data);
        bo_free(first);
    }
    bo_device_release(weights->device);
    bo_free(weights);
}

/* ---- declaration ------------------------------------------------------------------------------------------------- */

/* Computes the product of the dimensions. */
static bo_status count_numbers(bo_context *context, const bo_weight_desc *desc, size_t *out)
{
    if (!*desc->name) return bo_fail(context, BO_INVALID, "a weight has no name");
    if (desc->rank < 1 || desc->rank > MAX_RANK)
        return bo_fail(context, BO_INVALID, "weight %s: rank %zu, expected 1 to %d", desc->name, desc->rank, MAX_RANK);
    *out = 1;
    for (size_t i = 0; i < desc->rank; i++)
        if (!desc->shape[i] || __builtin_mul_overflow(*out, desc->shape[i], out) || *out >= (size_t)1 << 46)
            return bo_fail(context, BO_INVALID, "weight %s: dimension %zu of its shape is %zu, which is not allowed%s",
                           desc->name, i, desc->shape[i], desc->shape[i] ? ": it would have 2^46 numbers or more" : "");
    return BO_OK;
}

/* Determines rows and columns from the shape if they are 0: the last dimension is the columns. */
static bo_status resolve(bo_context *context, const bo_weight_desc *desc, bo_weight *out)
{
    size_t numbers = 0, given;
    BO_TRY(bo_check_reserved(context, "bo_weight_desc", desc->reserved));
    BO_TRY(count_numbers(context, desc, &numbers));
    *out = (bo_weight){.name = desc->name,
                       .rank = desc->rank,
                       .shape = desc->shape,
                       .rows = desc->rows,
                       .columns = desc->columns,
                       .role = desc->role,
                       .init = desc->init,
                       .frozen = desc->frozen,
                       .scale = desc->scale};
    if (!out->rows && !out->columns) {
        out->columns = desc->shape[desc->rank - 1];
        out->rows = numbers / out->columns;
    }
    if (__builtin_mul_overflow(out->rows, out->columns, &given) || given != numbers)
        return bo_fail(context, BO_INVALID, "weight %s: %zu x %zu, but its shape has %zu numbers", desc->name,
                       out->rows, out->columns, numbers);
    if ((unsigned)desc->role > BO_WEIGHT_ROLE_VECTOR || (unsigned)desc->init.kind > BO_WEIGHT_INIT_KIND_ZERO)
        return bo_fail(context, BO_INVALID, "weight %s: unknown role %d or initialization %d", desc->name,
                       (int)desc->role, (int)desc->init.kind);
    if ((desc->init.kind == BO_WEIGHT_INIT_KIND_IDENTITY || desc->init.kind == BO_WEIGHT_INIT_KIND_DELAYS) &&
        !(desc->init.a >= 1 && desc->init.a <= (double)numbers))
        return bo_fail(context, BO_INVALID, "weight %s: blocks of %g rows of the identity, expected at least 1",
                       desc->name, desc->init.a);
    return BO_OK;
}

static bool same_shape(const bo_weight *a, const bo_weight *b)
{
    return a->rows == b->rows && a->columns == b->columns && a->rank == b->rank && a->role == b->role &&
           !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape);
}

/* Returns the slot of a name: the one with its weight, else the empty one for it. At least half of the slots are empty,
 * so that the search ends soon. */
static size_t *slot_of(const bo_weights *weights, size_t *slots, size_t capacity, const char *name)
{
    const size_t mask = 2 * capacity - 1;
    size_t i = (size_t)bo_rng_stream(name, 0) & mask;
    while (slots[i] && strcmp(weights->at[slots[i] - 1]->name, name) != 0) i = (i + 1) & mask;
    return &slots[i];
}

/* Finds the index of a name. False: there is no such weight, and *index is that of the next one. */
static bool find_index(const bo_weights *weights, const char *name, size_t *index)
{
    const size_t found = weights->count ? *slot_of(weights, weights->slots, weights->capacity, name) : 0;
    *index = found ? found - 1 : weights->count;
    return found;
}

/* Grows the arrays for one more weight. After an error they are unchanged. */
static bo_status grow(bo_context *context, bo_weights *weights)
{
    if (weights->count < weights->capacity) return BO_OK;
    const size_t capacity = weights->capacity ? 2 * weights->capacity : 32;
    size_t *slots = bo_alloc(context, 2 * capacity, sizeof *slots, "a set of weights");
    bo_weight **grown = slots ? bo_realloc(context, weights->at, capacity, sizeof *grown, "a set of weights") : NULL;
    if (!grown) {
        bo_free(slots);
        return BO_MEMORY;
    }
    weights->at = grown;
    for (size_t i = 0; i < weights->count; i++) *slot_of(weights, slots, capacity, grown[i]->name) = i + 1;
    bo_free(weights->slots);
    weights->slots = slots;
    weights->capacity = capacity;
    return BO_OK;
}

static size_t numbers_of(const bo_weight *weight)
{
    return weight->rows * weight->columns;
}

/* Updates the facts after one weight was added at the end, or after memory was allocated. */
static void update_info(bo_weights *weights)
{
    bo_weights_info *info = &weights->info;
    info->weight = (const bo_weight *const *)weights->at;
    for (; info->count < weights->count; info->count++) {
        const bo_weight *added = weights->at[info->count];
        info->parameters += numbers_of(added);
        if (!added->frozen) info->trained += numbers_of(added);
    }
    info->bytes = weights->stored ? weights->stored_bytes : weights->floats * sizeof(float);
}

static void set_frozen(bo_weights *weights, bo_weight *weight, bool frozen)
{
    if (frozen && !weight->frozen) weights->info.trained -= numbers_of(weight);
    if (!frozen && weight->frozen) weights->info.trained += numbers_of(weight);
    weight->frozen = frozen;
}

static bo_status add(bo_context *context, bo_weights *weights, const bo_weight *resolved)
{
    BO_TRY(grow(context, weights));
    owned_weight *owned = bo_alloc(context, 1, sizeof *owned, "a weight");
    if (!owned) return BO_MEMORY;
    owned->name = bo_strdup(context, resolved->name);
    if (!owned->name) {
        bo_free(owned);
        return BO_MEMORY;
    }
    bo_weight *added = &owned->weight;
    *added = *resolved;
    memcpy(owned->shape, resolved->shape, resolved->rank * sizeof *resolved->shape);
    added->name = owned->name;
    added->shape = owned->shape;
    added->offset = weights->floats;
    weights->floats += (added->rows * added->columns + GRAIN - 1) / GRAIN * GRAIN;
    weights->at[weights->count++] = added;
    update_info(weights);
    *slot_of(weights, weights->slots, weights->capacity, added->name) = weights->count;
    assert(added->offset % GRAIN == 0 && weights->floats % GRAIN == 0);
    assert(added->offset + added->rows * added->columns <= weights->floats);
    assert(!added->data && !added->gradient);
    return BO_OK;
}

bo_status bo_weights_declare(bo_context *context, bo_weights *weights, const bo_weight_desc *desc, size_t *index)
{
    BO_REQUIRE(context, weights, desc);
    BO_REQUIRE(context, desc->name);
    BO_REQUIRE_IF(context, desc->rank > 0, desc->shape);
    bo_weight resolved;
    size_t ignored;
    if (!index) index = &ignored;
    BO_TRY(resolve(context, desc, &resolved));
    if (find_index(weights, resolved.name, index)) {
        const bo_weight *known = weights->at[*index];
        if (same_shape(known, &resolved)) return BO_OK;
        return bo_fail(context, BO_INVALID,
                       "weight %s is already declared as %zu x %zu, and is declared again as %zu x %zu%s",
                       resolved.name, known->rows, known->columns, resolved.rows, resolved.columns,
                       known->role == resolved.role ? "" : " with another role");
    }
    if (weights->data || weights->stored)
        return bo_fail(context, BO_INVALID,
                       "weight %s: the set already has memory; declare all weights before bo_weights_allocate",
                       resolved.name);
    bo_weight_parametrize(&weights->rules, &resolved);
    return add(context, weights, &resolved); /* at *index, after the others */
}

/* ---- access ------------------------------------------------------------------------------------------------------ */

const bo_weights_info *bo_weights_describe(const bo_weights *weights)
{
    return weights ? &weights->info : NULL;
}

const bo_weight *bo_weights_find(const bo_weights *weights, const char *name)
{
    if (!weights || !name) return NULL;
    size_t index;
    return find_index(weights, name, &index) ? weights->at[index] : NULL;
}

size_t bo_weights_floats(const bo_weights *weights)
{
    return weights->floats;
}

void *bo_weights_data(const bo_weights *weights)
{
    return weights->data;
}

const bo_gradients *bo_weights_gradients(const bo_weights *weights)
{
    return weights->gradients;
}

bo_device *bo_weights_device(const bo_weights *weights)
{
    return weights->device;
}

/* ---- freezing ---------------------------------------------------------------------------------------------------- */

void bo_weights_set_frozen(bo_weights *weights, size_t index, bool frozen)
{
    set_frozen(weights, weights->at[index], frozen);
}

/* Matches a prefix of the name, or with wildcards the whole name (fnmatch). */
static bool fits(const char *pattern, const char *name)
{
    if (strpbrk(pattern, "*?[")) return fnmatch(pattern, name, 0) == 0;
    return strncmp(name, pattern, strlen(pattern)) == 0;
}

bo_status bo_weights_freeze(bo_context *context, bo_weights *weights, const char *pattern, bool frozen)
{
    BO_REQUIRE(context, weights, pattern);
    size_t found = 0;
    for (size_t i = 0; i < weights->count; i++) {
        if (!fits(pattern, weights->at[i]->name)) continue;
        set_frozen(weights, weights->at[i], frozen);
        found++;
    }
    if (found) return BO_OK;
    return bo_fail(context, BO_INVALID, "freeze: no weight's name starts with or matches '%s'; the first is '%s'",
                   pattern, weights->count ? weights->at[0]->name : "none");
}

/* ---- values by name ---------------------------------------------------------------------------------------------- */

static bo_status find(bo_context *context, const bo_weights *weights, const char *name, const bo_weight **out)
{
    *out = bo_weights_find(weights, name);
    if (!*out) return bo_fail(context, BO_INVALID, "there is no weight '%s'", name);
    if (!(*out)->data)
        return bo_fail(context, BO_INVALID, "weight %s has no memory yet: call bo_weights_allocate first", name);
    return BO_OK;
}

/* Reads a weight from a device. */
static bo_status widen_on_host(bo_context *context, bo_device *device, const bo_weight *weight, float *out)
{
    const size_t bytes = bo_element_bytes(weight->element, weight->rows, weight->columns);
    if (weight->element == BO_ELEMENT_FLOAT32) return bo_buffer_read(context, device, out, weight->data, bytes);
    void *stored = bo_alloc_raw(context, bytes, 1, "a weight");
    if (!stored) return BO_MEMORY;
    bo_status status = bo_buffer_read(context, device, stored, weight->data, bytes);
    if (status == BO_OK)
        status = bo_backend_cpu()->widen(context, weight->element, weight->rows, weight->columns, stored, out);
    bo_free(stored);
    return status;
}

static bo_status get_gradient(bo_context *context, bo_device *device, const bo_weight *weight, float *out)
{
    if (!weight->gradient)
        return bo_fail(context, BO_INVALID, "weight %s has no gradient: %s", weight->name,
                       weight->frozen ? "it is frozen" : "call bo_weights_allocate with gradients first");
    return bo_buffer_read(context, device, out, weight->gradient, numbers_of(weight) * sizeof *out);
}

bo_status bo_weights_get(bo_context *context, const bo_weights *weights, const char *name, float *values,
                         float *gradient)
{
    BO_REQUIRE(context, weights, name);
    const bo_weight *weight;
    BO_TRY(find(context, weights, name, &weight));
    bo_device *device = weights->device;
    if (gradient) BO_TRY(get_gradient(context, device, weight, gradient));
    if (!values) return BO_OK;
    if (bo_device_is_gpu(device)) return widen_on_host(context, device, weight, values);
    return bo_backend_of(device)->widen(context, weight->element, weight->rows, weight->columns, weight->data, values);
}

bo_status bo_weights_set(bo_context *context, bo_weights *weights, const char *name, const float *values)
{
    BO_REQUIRE(context, weights, name, values);
    const bo_weight *weight;
    BO_TRY(find(context, weights, name, &weight));
    if (weight->element != BO_ELEMENT_FLOAT32)
        return bo_fail(context, BO_INVALID, "weight '%s' is stored in fewer bits, for inference only", name);
    return bo_buffer_write(context, weights->device, weight->data, values,
                           weight->rows * weight->columns * sizeof *values);
}

bo_status bo_weights_zero_gradients(bo_context *context, bo_weights *weights)
{
    BO_REQUIRE(context, weights);
    for (const bo_gradients *g = weights->gradients; g; g = g->next)
        BO_TRY(bo_buffer_zero(context, weights->device, g->data, g->floats * sizeof(float)));
    return BO_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Floats of a weight and of the gap to the next one. */
static size_t padded_floats(const bo_weight *weight)
{
    return (weight->rows * weight->columns + GRAIN - 1) / GRAIN * GRAIN;
}

size_t bo_weights_gradient_floats(const bo_weights *weights)
{
    size_t floats = 0;
    for (size_t i = 0; i < weights->count; i++)
        if (!weights->at[i]->frozen) floats += padded_floats(weights->at[i]);
    return floats;
}

static bool lacks_gradient(const bo_weight *weight)
{
    return !weight->frozen && !((const owned_weight *)weight)->gradient;
}

/* Appends a block with the gradients of the trained weights that have no memory yet. Existing blocks do not move,
 * because graphs and optimizers store their addresses. */
static bo_status add_gradients(bo_context *context, bo_weights *weights)
{
    size_t floats = 0;
    for (size_t i = 0; i < weights->count; i++)
        if (lacks_gradient(weights->at[i])) floats += padded_floats(weights->at[i]);
    if (!floats) return BO_OK;
    bo_gradients **last = &weights->gradients, *added = bo_alloc(context, 1, sizeof *added, "gradients of the weights");
    if (!added) return BO_MEMORY;
    added->data = bo_buffer_allocate(context, weights->device, floats * sizeof(float), "gradients of the weights");
    if (!added->data) {
        bo_free(added);
        return BO_MEMORY;
    }
    added->floats = floats;
    while (*last) last = &(*last)->next;
    *last = added;
    char *at = added->data;
    for (size_t i = 0; i < weights->count; i++) {
        if (!lacks_gradient(weights->at[i])) continue;
        ((owned_weight *)weights->at[i])->gradient = at;
        at += padded_floats(weights->at[i]) * sizeof(float);
    }
    return BO_OK;
}

bo_status bo_weights_allocate(bo_context *context, bo_weights *weights, bool gradients)
{
    BO_REQUIRE(context, weights);
    size_t bytes = weights->floats * sizeof(float);
    if (weights->stored && gradients)
        return bo_fail(context, BO_INVALID,
                       "the weights are stored in fewer bits, for inference only: they cannot be trained");
    if (weights->stored) return BO_OK;
    if (!weights->data) weights->data = bo_buffer_allocate(context, weights->device, bytes, "weights");
    if (!weights->data) return BO_MEMORY;
    for (size_t i = 0; i < weights->count; i++)
        weights->at[i]->data = (char *)weights->data + weights->at[i]->offset * sizeof(float);
    if (!gradients) return BO_OK;
    BO_TRY(add_gradients(context, weights));
    for (size_t i = 0; i < weights->count; i++) {
        bo_weight *weight = weights->at[i];
        weight->gradient = weight->frozen ? NULL : ((owned_weight *)weight)->gradient;
    }
    return BO_OK;
}

/* ---- storage in fewer bits --------------------------------------------------------------------------------------- */

const void *bo_weights_memory(const bo_weights *weights)
{
    return weights->stored ? weights->stored : weights->data;
}

/* Returns the size, rounded up to a multiple of GRAIN. */
static size_t stored_size(const bo_weight *weight, bo_element element)
{
    size_t grain = GRAIN * sizeof(float);
    size_t bytes = bo_element_bytes(element, weight->rows, weight->columns);
    return (bytes + grain - 1) / grain * grain;
}

/* Allocates memory for all weights with these elements. Their addresses are not changed. */
static bo_status allocate_stored(bo_context *context, bo_weights *weights, const bo_element *elements)
{
    size_t bytes = 0;
    for (size_t i = 0; i < weights->count; i++) bytes += stored_size(weights->at[i], elements[i]);
    weights->stored = bo_buffer_allocate(context, weights->device, bytes, "weights in fewer bits");
    if (!weights->stored) return BO_MEMORY;
    weights->stored_bytes = bytes;
    update_info(weights);
    return BO_OK;
}

bo_status bo_weights_reserve(bo_context *context, bo_weights *weights, const bo_element *elements)
{
    assert(!weights->data && !weights->stored);
    BO_TRY(allocate_stored(context, weights, elements));
    char *at = weights->stored;
    for (size_t i = 0; i < weights->count; i++) {
        weights->at[i]->element = elements[i];
        weights->at[i]->data = at;
        at += stored_size(weights->at[i], elements[i]);
    }
    return BO_OK;
}

bo_status bo_weights_store(bo_context *context, bo_weights *weights, const bo_element *elements)
{
    BO_TRY(bo_device_check(context, weights->device, "a set of weights"));
    if (weights->gradients || !weights->data)
        return bo_fail(context, BO_INVALID, "the weights cannot be stored in fewer bits: they %s",
                       weights->gradients ? "are being trained"
                       : weights->stored  ? "are already stored in fewer bits"
                                          : "have no memory yet");
    BO_TRY(allocate_stored(context, weights, elements));
    char *at = weights->stored;
    for (size_t i = 0; i < weights->count; i++) {
        bo_weight *w = weights->at[i];
        w->element = elements[i];
        BO_TRY(bo_backend_of(weights->device)->narrow(context, w->element, w->rows, w->columns, w->data, at));
        w->data = at;
        at += stored_size(w, elements[i]);
    }
    bo_buffer_release(weights->device, weights->data);
    weights->data = NULL;
    return BO_OK;
}
