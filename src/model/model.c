/* Creation of models, and access to their weights by name. */
#include <assert.h>
#include <string.h>
#include "enums.h"
#include "../base/rng.h"
#include "internal.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const char *const task_names[BO_MODEL_TASK_COUNT] = {"language", "classify", "match", "translate", "predict"};
static const char *const pooling_names[BO_POOLING_COUNT] = {"mean", "max", "first", "last"};
static const char *const cross_names[BO_CROSS_COUNT] = {"attention", "summary"};

BO_NAMED(model_task, bo_model_task, task_names)
BO_NAMED(pooling, bo_pooling, pooling_names)
BO_NAMED(cross, bo_cross, cross_names)

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

void bo_attentions_destroy(bo_attention **attentions, const bo_model_desc *desc)
{
    for (size_t i = 0; attentions && i < bo_model_place(desc, BO_MODEL_PART_END); i++)
        bo_attention_destroy(attentions[i]);
    bo_free(attentions);
}

/* Creates an attention with the given capacity; 0: the capacity in the descriptor. */
static bo_status create_attention(bo_context *context, const bo_attention_desc *desc, size_t place, size_t capacity,
                                  bo_attention **out)
{
    bo_attention_desc layer = *desc;
    bo_rng rng = bo_rng_make(layer.features.seed, bo_rng_stream("model frequencies", place));
    layer.features.seed = bo_rng_bits(&rng);
    if (capacity && bo_attention_has(&layer, BO_TRAIT_CAPACITY) && !layer.window) layer.capacity = capacity;
    return bo_attention_create(context, &layer, out);
}

bo_status bo_attentions_create(bo_context *context, const bo_model_desc *desc, size_t capacity, size_t source_capacity,
                               bo_attention ***out)
{
    const size_t places = bo_model_place(desc, BO_MODEL_PART_END);
    bo_status status = BO_OK;
    bo_attention **attentions = bo_alloc(context, places, sizeof *attentions, "a model's attentions");
    if (!attentions) return BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < places; i++) {
        const bo_attention_desc *layer = bo_attention_at(desc, i);
        const bo_model_part part = bo_model_part_of(desc, i);
        const bool is_layer = part == BO_MODEL_PART_LAYERS;
        if (layer) status = create_attention(context, layer, i, is_layer ? capacity : source_capacity, &attentions[i]);
        if (status != BO_OK) status = bo_block_fail(context, status, desc, part, bo_block_at(desc, i));
    }
    if (status != BO_OK) {
        bo_attentions_destroy(attentions, desc);
        return status;
    }
    *out = attentions;
    return BO_OK;
}

/* Copies the defaults that the attention filled in to the descriptor, in a form that bo_attention_create accepts. */
static void describe_attention(const bo_attention *made, bo_attention_desc *desc)
{
    uint64_t seed = desc->features.seed;
    *desc = *bo_attention_describe(made);
    desc->features.seed = seed;
    desc->features.length_scales = NULL;
    if (bo_attention_has(desc, BO_TRAIT_TEMPERATURE)) desc->features.gamma = 0; /* determined by the temperature */
}

/* A block is described by the first layer that has it. */
static void describe_attentions(bo_model *model)
{
    bo_model_desc *d = &model->desc;
    for (size_t i = bo_model_place(d, BO_MODEL_PART_END); i-- > 0;) {
        bo_block *block = bo_block_edit(d, i);
        const bool cross = bo_model_part_of(d, i) == BO_MODEL_PART_CROSS;
        if (model->attentions[i])
            describe_attention(model->attentions[i], cross ? &block->cross_attention : &block->attention);
    }
}

/* Recording a graph declares the weights. */
bo_status bo_model_declare(bo_context *context, bo_model *model, const bo_lora *lora)
{
    bo_model_graph probe;
    BO_TRY(bo_weights_create(context, &model->weights));
    BO_TRY(bo_model_parametrize(context, model));
    bo_weights_set_lora(model->weights, lora);
    bo_model_graph_desc desc = {.rows = 1, .outputs = true, .declares = true};
    if (model->desc.task != BO_MODEL_TASK_LANGUAGE) desc.rows = desc.max_sequences = 2;
    desc.examples = desc.source_rows = 1;
    BO_TRY(bo_model_graph_create(context, model, &desc, &probe));
    bo_model_graph_destroy(&probe);
    return BO_OK;
}

/* True if no zero that means a default is left, and if exactly the places with attention have one. */
static bool model_holds(const bo_model *model)
{
    const bo_model_desc *d = &model->desc;
    bool holds = d->layers && d->width && d->context && d->vocab;
    for (size_t i = 0; holds && i < bo_model_place(d, BO_MODEL_PART_END); i++) {
        const bo_block *b = bo_block_at(d, i);
        holds = b->heads && b->key_heads && b->head_dim && !model->attentions[i] == !bo_attention_at(d, i);
    }
    return holds;
}

bo_status bo_model_build(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer, bo_model **out)
{
    bo_model *model = bo_alloc(context, 1, sizeof *model, "a model");
    if (!model) return BO_MEMORY;
    model->tokenizer = tokenizer;
    model->specials = bo_specials_none();
    bo_status status = bo_model_resolve(context, desc, tokenizer, &model->desc);
    if (status == BO_OK) status = bo_specials_resolve(context, tokenizer, model->desc.vocab, &model->specials);
    if (status == BO_OK) status = bo_attentions_create(context, &model->desc, 0, 0, &model->attentions);
    if (status == BO_OK) describe_attentions(model);
    if (status == BO_OK) status = bo_mlp_maps_create(context, &model->desc, &model->mlp_maps);
    if (status == BO_OK) status = bo_mlp_layers_create(context, &model->desc, &model->mlp_layers);
    if (status == BO_OK) bo_blocks_mirror(&model->desc);
    if (status == BO_OK) status = bo_model_name_activations(context, model);
    if (status == BO_OK) status = bo_model_declare(context, model, NULL);
    if (status != BO_OK) {
        bo_model_destroy(model);
        return status;
    }
    assert(model_holds(model) && model->weights);
    bo_model_refresh(model);
    *out = model;
    return BO_OK;
}

bo_status bo_model_create(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer, bo_model **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    bo_model *model;
    BO_TRY(bo_model_build(context, desc, tokenizer, &model));
    bo_status status = bo_weights_allocate(context, model->weights, false);
    if (status == BO_OK) status = bo_weights_init(context, model->weights, model->desc.seed);
    if (status != BO_OK) {
        bo_model_destroy(model);
        return status;
    }
    assert(bo_weights_memory(model->weights));
    *out = model;
    return BO_OK;
}

void bo_model_destroy(bo_model *model)
{
    if (!model) return;
    if (model->network)
        bo_network_destroy(model->network);
    else
        bo_weights_destroy(model->weights);
    bo_adapter_destroy(model->adapter);
    bo_attentions_destroy(model->attentions, &model->desc);
    bo_mlp_maps_destroy(model->mlp_maps, &model->desc);
    bo_mlp_layers_destroy(model->mlp_layers, &model->desc);
    bo_free(model->activations);
    bo_specials_free(&model->specials);
    bo_tokenizer_destroy(model->owned);
    bo_model_desc_release(&model->desc);
    bo_free(model);
}

/* ---- properties -------------------------------------------------------------------------------------------------- */

const bo_model_desc *bo_model_describe(const bo_model *model)
{
    return model ? &model->desc : NULL;
}

const bo_tokenizer *bo_model_tokenizer(const bo_model *model)
{
    return model ? model->tokenizer : NULL;
}

void bo_model_refresh(bo_model *model)
{
    const bo_specials *specials = &model->specials;
    model->info = (bo_model_info){.parameters = bo_weights_describe(model->weights)->parameters,
                                  .frozen_parameters = bo_model_frozen_parameters(model),
                                  .bytes = bo_weights_describe(model->weights)->bytes,
                                  .storage = bo_model_storage(model),
                                  .end_tokens = specials->end_count ? specials->ends : NULL,
                                  .end_count = specials->end_count,
                                  .begin_token = specials->begin,
                                  .network = model->network ? &model->network->report : NULL,
                                  .state_bytes = bo_model_state_bytes(model)};
}

const bo_model_info *bo_model_report(const bo_model *model)
{
    return model ? &model->info : NULL;
}

const bo_attention *bo_model_attention(const bo_model *model, size_t layer)
{
    if (!model) return NULL;
    return layer < model->desc.layers ? model->attentions[layer] : NULL;
}

bo_weights *bo_model_weights(const bo_model *model)
{
    return model ? model->weights : NULL;
}
