/* Storage of a model's matrices in fewer bits. */
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

/* Selects the matrices that are read only by products and look-ups. Vectors are small and stay as they are. */
static bo_status find_storable(bo_context *context, const bo_model *model, bool *which)
{
    bo_model_graph probe;
    bo_model_graph_desc desc = {
        .rows = 2, .most_sequences = 2, .examples = 1, .source_rows = 1, .loss = true, .logits = true};
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

/* Applies bo_weights_store or bo_weights_reserve to the matrices of the model. */
static bo_status with_storable(bo_context *context, const bo_model *model, bo_element element,
                               bo_status (*apply)(bo_context *, bo_weights *, const bool *, bo_element))
{
    bool *which = bo_alloc(context, bo_weights_count(model->weights), sizeof *which, "a list of weights");
    if (!which) return BO_MEMORY;
    bo_status status = find_storable(context, model, which);
    if (status == BO_OK) status = apply(context, model->weights, which, element);
    bo_free(which);
    return status;
}

bo_status bo_model_set_storage(bo_context *context, bo_model *model, bo_storage storage)
{
    bo_element element = BO_ELEMENT_FLOAT32;
    BO_REQUIRE(context, model);
    BO_TRY(bo_storage_check(context, storage, &element));
    return storage == bo_model_storage(model) ? BO_OK : with_storable(context, model, element, bo_weights_store);
}

bo_status bo_model_reserve(bo_context *context, bo_model *model, bo_storage storage)
{
    bo_element element = BO_ELEMENT_FLOAT32;
    BO_TRY(bo_storage_check(context, storage, &element));
    if (element == BO_ELEMENT_FLOAT32) return bo_weights_allocate(context, model->weights, false);
    return with_storable(context, model, element, bo_weights_reserve);
}

bo_storage bo_model_storage(const bo_model *model)
{
    if (!model) return BO_STORAGE_FLOAT32;
    for (size_t i = 0; i < bo_weights_count(model->weights); i++)
        for (size_t type = 1; type < TYPES; type++)
            if (bo_weights_at(model->weights, i)->element == types[type].element) return types[type].storage;
    return BO_STORAGE_FLOAT32;
}
