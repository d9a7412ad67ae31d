/* A model's matrices in fewer bits. */
#include "internal.h"

/* What is read by products and look-ups alone; vectors are few. */
static bo_status find_storable(bo_context *context, const bo_model *model, bool *which)
{
    bo_model_graph probe;
    bo_model_graph_desc desc = {
        .rows = 2, .most_sequences = 2, .examples = 1, .source_rows = 1, .loss = true, .logits = true};
    BO_TRY(bo_model_graph_create(context, model, &desc, &probe));
    bo_graph_storable(probe.graph, which);
    bo_model_graph_destroy(&probe);
    for (size_t i = 0; i < bo_weights_count(model->weights); i++)
        if (bo_weights_at(model->weights, i)->role == BO_WEIGHT_VECTOR) which[i] = false;
    return BO_OK;
}

bo_status bo_model_store(bo_context *context, bo_model *model, bo_storage storage)
{
    if (!model) return bo_fail(context, BO_INVALID, "model: it is NULL");
    if (storage != BO_STORAGE_FLOAT32 && storage != BO_STORAGE_BFLOAT16 && storage != BO_STORAGE_INT8)
        return bo_fail(context, BO_INVALID, "model: weights are kept as float32, bfloat16 or int8, found %s",
                       bo_storage_name(storage) ? bo_storage_name(storage) : "a storage that there is not");
    if (storage == bo_model_storage(model)) return BO_OK;
    bool *which = bo_alloc(context, bo_weights_count(model->weights), sizeof *which, "a list of weights");
    if (!which) return BO_MEMORY;
    bo_element element = storage == BO_STORAGE_INT8 ? BO_ELEMENT_INT8 : BO_ELEMENT_BFLOAT16;
    bo_status status = find_storable(context, model, which);
    if (status == BO_OK) status = bo_weights_store(context, model->weights, which, element);
    bo_free(which);
    return status;
}

bo_storage bo_model_storage(const bo_model *model)
{
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        bo_element element = bo_weights_at(model->weights, i)->element;
        if (element == BO_ELEMENT_BFLOAT16) return BO_STORAGE_BFLOAT16;
        if (element == BO_ELEMENT_INT8) return BO_STORAGE_INT8;
    }
    return BO_STORAGE_FLOAT32;
}
