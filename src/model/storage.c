/* Storage of a model's matrices in fewer bits. */
#include "../nn/enums.h"
#include "internal.h"

/* The types of matrices. FLOAT8 is a simulation in products, not a way to store weights. */
static const struct {
    bo_storage storage;
    bo_element element;
} types[] = {
    {BO_STORAGE_FLOAT32, BO_ELEMENT_FLOAT32},
    {BO_STORAGE_BFLOAT16, BO_ELEMENT_BFLOAT16},
    {BO_STORAGE_INT8, BO_ELEMENT_INT8},
    {BO_STORAGE_INT4, BO_ELEMENT_INT4},
};
enum { TYPES = sizeof types / sizeof *types };

/* Selects the matrices that are read only by products and look-ups. Vectors are small and remain unchanged. */
static bo_status find_storable(bo_context *context, const bo_model *model, bool *which)
{
    bo_model_graph probe;
    bo_model_graph_desc desc = {
        .rows = 2, .max_sequences = 2, .examples = 1, .source_rows = 1, .loss = true, .outputs = true};
    BO_TRY(bo_model_graph_create(context, model, &desc, &probe));
    bo_graph_storable(probe.graph, which);
    bo_model_graph_destroy(&probe);
    for (size_t i = 0; i < bo_weights_count(model->weights); i++)
        if (bo_weights_at(model->weights, i)->role == BO_WEIGHT_ROLE_VECTOR) which[i] = false;
    return BO_OK;
}

bo_status bo_storage_check(bo_context *context, bo_storage storage, bo_element *out)
{
    for (size_t type = 0; type < TYPES; type++)
        if (types[type].storage == storage) {
            *out = types[type].element;
            return BO_OK;
        }
    return bo_fail(context, BO_INVALID, "model: expected storage float32, bfloat16, int8 or int4, found %s",
                   bo_storage_name(storage) ? bo_storage_name(storage) : "an unknown storage");
}

/* The elements of weight `i` if matrices are stored as `element`. The logits are more sensitive to the rounding of
 * their matrix than other layers, so that the embedding and the output projection have at least 8 bits. */
static bo_element element_of(const bo_weights *weights, size_t i, bool matrix, bo_element element)
{
    const bo_weight_role role = bo_weights_at(weights, i)->role;
    if (!matrix) return BO_ELEMENT_FLOAT32;
    if (element != BO_ELEMENT_INT4) return element;
    return role == BO_WEIGHT_ROLE_EMBEDDING || role == BO_WEIGHT_ROLE_HEAD ? BO_ELEMENT_INT8 : element;
}

/* Applies bo_weights_store or bo_weights_reserve to the model. */
static bo_status with_elements(bo_context *context, bo_model *model, bo_element element,
                               bo_status (*apply)(bo_context *, bo_weights *, const bo_element *))
{
    const size_t count = bo_weights_count(model->weights);
    bool *which = bo_alloc(context, count, sizeof *which, "a list of weights");
    bo_element *elements = bo_alloc(context, count, sizeof *elements, "a list of weights");
    bo_status status = which && elements ? find_storable(context, model, which) : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < count; i++)
        elements[i] = element_of(model->weights, i, which[i], element);
    if (status == BO_OK) status = apply(context, model->weights, elements);
    bo_model_refresh(model);
    bo_free(elements);
    bo_free(which);
    return status;
}

bo_status bo_model_set_storage(bo_context *context, bo_model *model, bo_storage storage)
{
    bo_element element = BO_ELEMENT_FLOAT32;
    BO_REQUIRE(context, model);
    BO_TRY(bo_storage_check(context, storage, &element));
    if (element != BO_ELEMENT_FLOAT32) BO_TRY(bo_model_require_text(context, model, "storage in fewer bits"));
    return storage == bo_model_storage(model) ? BO_OK : with_elements(context, model, element, bo_weights_store);
}

bo_status bo_model_reserve(bo_context *context, bo_model *model, bo_storage storage)
{
    bo_element element = BO_ELEMENT_FLOAT32;
    BO_TRY(bo_storage_check(context, storage, &element));
    if (element == BO_ELEMENT_FLOAT32) return bo_weights_allocate(context, model->weights, false);
    return with_elements(context, model, element, bo_weights_reserve);
}

/* The narrowest storage of a matrix. */
bo_storage bo_model_storage(const bo_model *model)
{
    size_t found = 0;
    for (size_t i = 0; model && i < bo_weights_count(model->weights); i++)
        for (size_t type = found + 1; type < TYPES; type++)
            if (bo_weights_at(model->weights, i)->element == types[type].element) found = type;
    return types[found].storage;
}
