/* Creation of models, and access to their weights by name. */
#include <assert.h>
#include <string.h>
#include "../base/rng.h"
#include "../features/fingerprint.h"
#include "internal.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const char *const task_names[BO_MODEL_TASK_COUNT] = {"language", "classify", "match", "translate"};
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

/* Creates an attention with the given capacity; 0: that of the descriptor. */
static bo_status create_attention(bo_context *context, const bo_model_desc *desc, size_t place, size_t capacity,
                                  bo_attention **out)
{
    bo_attention_desc layer = bo_model_attention_at(desc, place);
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
        const bo_model_part part = bo_model_part_of(desc, i);
        if (bo_model_attends(desc, part))
            status = create_attention(context, desc, i, part == BO_MODEL_PART_LAYERS ? capacity : source_capacity,
                                      &attentions[i]);
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
    if (!made) return;
    *desc = *bo_attention_describe(made);
    desc->features.seed = seed;
    desc->features.length_scales = NULL;
    if (bo_attention_has(desc, BO_TRAIT_TEMPERATURE)) desc->features.gamma = 0; /* determined by the temperature */
}

/* Describes `desc`, an attention of layers, by the first layer that has it. */
static void describe_layers(bo_model *model, bo_attention_desc *desc)
{
    const bo_model_desc *d = &model->desc;
    const size_t window = desc->window, capacity = desc->capacity;
    const bool mixes = bo_model_mixes_windows(d); /* the first layer may see all keys */
    size_t layer = 0;
    while (layer < d->layers && bo_model_kind_at(d, layer) != desc) layer++;
    if (layer < d->layers) describe_attention(model->attentions[layer], desc);
    if (mixes) desc->window = window, desc->capacity = capacity;
}

static void describe_attentions(bo_model *model)
{
    bo_model_desc *d = &model->desc;
    describe_layers(model, &d->attention);
    if (bo_model_has_kept(d)) describe_layers(model, &d->kept_attention);
    if (bo_model_attends(d, BO_MODEL_PART_CROSS))
        describe_attention(model->attentions[bo_model_place(d, BO_MODEL_PART_CROSS)], &d->cross_attention);
    if (bo_model_kind(d, BO_MODEL_PART_ENCODER) == &d->encoder_attention)
        describe_attention(model->attentions[bo_model_place(d, BO_MODEL_PART_ENCODER)], &d->encoder_attention);
}

/* Recording a graph declares the weights. */
bo_status bo_model_declare(bo_context *context, bo_model *model, const bo_lora *lora)
{
    bo_model_graph probe;
    BO_TRY(bo_weights_create(context, &model->weights));
    BO_TRY(bo_model_parametrize(context, model));
    bo_weights_set_lora(model->weights, lora);
    bo_model_graph_desc desc = {.rows = 1, .logits = true};
    if (model->desc.task != BO_MODEL_TASK_LANGUAGE) desc.rows = desc.most_sequences = 2;
    desc.examples = desc.source_rows = 1;
    BO_TRY(bo_model_graph_create(context, model, &desc, &probe));
    bo_model_graph_destroy(&probe);
    return BO_OK;
}

/* True if no zero that means a default is left, and if exactly the places with attention have one. */
static bool model_holds(const bo_model *model)
{
    const bo_model_desc *d = &model->desc;
    bool holds = d->layers && d->width && d->heads && d->key_heads && d->head_dim && d->context && d->vocab;
    for (size_t i = 0; holds && i < bo_model_place(d, BO_MODEL_PART_END); i++)
        holds = !model->attentions[i] == !bo_model_attends(d, bo_model_part_of(d, i));
    return holds && d->labels == (const char *const *)model->labels;
}

bo_status bo_model_build(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer, bo_model **out)
{
    bo_model *model = bo_alloc(context, 1, sizeof *model, "a model");
    if (!model) return BO_MEMORY;
    model->tokenizer = tokenizer;
    model->specials = bo_specials_none();
    bo_status status = bo_model_resolve(context, desc, tokenizer, &model->desc);
    if (status == BO_OK) status = bo_specials_resolve(context, tokenizer, model->desc.vocab, &model->specials);
    if (status == BO_OK) status = bo_labels_copy(context, &model->desc, &model->labels);
    model->desc.labels = (const char *const *)model->labels; /* replaces the caller's pointer */
    if (status == BO_OK && model->desc.custom_mlp.name) {
        model->custom = bo_strdup(context, model->desc.custom_mlp.name);
        status = model->custom ? BO_OK : BO_MEMORY;
    }
    model->desc.custom_mlp.name = model->custom;
    if (status == BO_OK && model->desc.kept_layers) {
        model->kept_layers = bo_strdup(context, model->desc.kept_layers);
        status = model->kept_layers ? BO_OK : BO_MEMORY;
    }
    model->desc.kept_layers = model->kept_layers;
    if (status == BO_OK) status = bo_attentions_create(context, &model->desc, 0, 0, &model->attentions);
    if (status == BO_OK) describe_attentions(model);
    if (status == BO_OK) status = bo_mlp_maps_create(context, &model->desc, &model->mlp_maps);
    if (status == BO_OK) status = bo_model_name_activations(context, model);
    if (status == BO_OK) status = bo_model_declare(context, model, NULL);
    if (status != BO_OK) {
        bo_model_destroy(model);
        return status;
    }
    assert(model_holds(model) && model->weights);
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
    bo_weights_destroy(model->weights);
    bo_adapter_destroy(model->adapter);
    bo_attentions_destroy(model->attentions, &model->desc);
    bo_mlp_maps_destroy(model->mlp_maps, &model->desc);
    bo_labels_free(model->labels, model->desc.classes);
    bo_free(model->custom);
    bo_free(model->kept_layers);
    bo_free(model->activations);
    bo_specials_free(&model->specials);
    bo_tokenizer_destroy(model->owned);
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

uint64_t bo_model_parameters(const bo_model *model)
{
    return model ? bo_weights_parameters(model->weights, false) : 0;
}

size_t bo_model_bytes(const bo_model *model)
{
    return model ? bo_weights_bytes(model->weights) : 0;
}

const bo_attention *bo_model_attention(const bo_model *model, size_t layer)
{
    if (!model) return NULL;
    return layer < model->desc.layers ? model->attentions[layer] : NULL;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++) hash = (hash ^ at[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

static uint64_t hash_mixer(uint64_t hash, const bo_model_desc *d)
{
    const uint64_t words[] = {d->mixer, d->ssm, d->state_size, d->state_rank, d->kernel};
    return d->mixer == BO_MIXER_ATTENTION ? hash : hash_bytes(hash, words, sizeof words);
}

/* Leaves the hash unchanged if the encoder has the attention of the decoder, so that existing files stay valid. */
static uint64_t hash_encoder(uint64_t hash, const bo_model_desc *d)
{
    const bo_attention_desc *a = bo_model_kind(d, BO_MODEL_PART_ENCODER), *b = &d->attention;
    const uint64_t words[] = {a->kind, a->gate, a->normalizer, a->window, a->unit};
    const double numbers[] = {a->scale, a->clamp, a->power, a->temperature};
    const uint64_t other_words[] = {b->kind, b->gate, b->normalizer, b->window, b->unit};
    const double other_numbers[] = {b->scale, b->clamp, b->power, b->temperature};
    if (memcmp(words, other_words, sizeof words) == 0 && memcmp(numbers, other_numbers, sizeof numbers) == 0)
        return hash;
    return hash_bytes(hash_bytes(hash, words, sizeof words), numbers, sizeof numbers);
}

/* Leaves the hash of language models unchanged, so that existing files stay valid. */
static uint64_t hash_task(uint64_t hash, const bo_model_desc *d)
{
    const bo_attention_desc *a = &d->cross_attention;
    const uint64_t words[] = {d->task,  d->classes, d->pooling, d->forward,   d->encoder_layers,
                              d->cross, a->kind,    a->gate,    a->normalizer};
    const double numbers[] = {a->scale, a->clamp, a->power, a->temperature};
    if (d->task == BO_MODEL_TASK_LANGUAGE) return hash;
    hash = hash_bytes(hash_bytes(hash, words, sizeof words), numbers, sizeof numbers);
    hash = hash_encoder(hash, d);
    for (size_t i = 0; d->labels && i < d->classes; i++)
        hash = hash_bytes(hash, d->labels[i], strlen(d->labels[i]) + 1);
    return hash;
}

/* Leaves the hash unchanged if all these options are the default, so that existing files stay valid. */
static uint64_t hash_options(uint64_t hash, const bo_model_desc *d)
{
    const bo_rope_scaling *s = &d->rope_scaling;
    const uint64_t words[] = {d->block, d->rotated, s->kind, d->window_first, d->window_period, d->joint_norm};
    const double numbers[] = {
        d->embedding_scale - 1, d->residual_scale - 1, d->logit_scale - 1, s->factor, s->low, s->high, s->original,
        d->local_rope_base};
    bool usual = true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) usual = usual && !words[i];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) usual = usual && numbers[i] == 0;
    return usual ? hash : hash_bytes(hash_bytes(hash, words, sizeof words), numbers, sizeof numbers);
}

/* Leaves the hash of models without a second attention unchanged, so that existing files stay valid. */
static uint64_t hash_kept(uint64_t hash, const bo_model_desc *d)
{
    const bo_attention_desc *a = &d->kept_attention;
    if (!bo_model_has_kept(d)) return hash;
    const uint64_t words[] = {a->kind, a->gate, a->normalizer, a->window, a->unit};
    const double numbers[] = {a->scale, a->clamp, a->power, a->temperature};
    hash = hash_bytes(hash_bytes(hash, words, sizeof words), numbers, sizeof numbers);
    for (size_t i = 0; i < d->layers; i++) {
        const bool kept = bo_model_keeps(d, i);
        hash = hash_bytes(hash, &kept, sizeof kept);
    }
    return hash;
}

uint64_t bo_model_fingerprint(const bo_model *model)
{
    const bo_model_desc *d = &model->desc;
    const bo_attention_desc *a = &d->attention;
    const uint64_t words[] = {
        d->layers,     d->heads,       d->key_heads,
        d->head_dim,   d->mlp,         d->norm,
        d->positions,  a->kind,        a->gate,
        a->normalizer, a->window,      a->unit,
        d->query_norm, d->output_norm, model->tokenizer ? bo_tokenizer_fingerprint(model->tokenizer) : 0};
    const double numbers[] = {d->rope_base, d->norm_epsilon, a->scale, a->clamp, a->power, a->temperature};
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, words, sizeof words);
    hash = hash_mixer(hash_bytes(hash, numbers, sizeof numbers), d);
    const uint64_t rules[] = {d->parametrization, d->base_width, d->storage};
    if (d->parametrization || d->storage)
        hash = hash_bytes(hash, rules, sizeof rules); /* the hash of other models stays unchanged */
    hash = hash_kept(hash_options(hash_task(hash, d), d), d);
    if (model->custom) hash = hash_bytes(hash, model->custom, strlen(model->custom) + 1);
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i);
        hash = hash_bytes(hash, weight->name, strlen(weight->name) + 1);
        hash = hash_bytes(hash, weight->shape, weight->rank * sizeof *weight->shape);
    }
    for (size_t i = 0; i < bo_model_place(d, BO_MODEL_PART_END); i++)
        for (size_t h = 0; model->attentions[i] && bo_attention_features(model->attentions[i], h); h++) {
            uint64_t map = bo_features_fingerprint(bo_attention_features(model->attentions[i], h));
            hash = hash_bytes(hash, &map, sizeof map);
        }
    for (size_t i = 0; model->mlp_maps && i < bo_model_place(d, BO_MODEL_PART_END); i++) {
        if (!model->mlp_maps[i]) continue;
        uint64_t map = bo_features_fingerprint(model->mlp_maps[i]);
        hash = hash_bytes(hash, &map, sizeof map);
    }
    return hash;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

size_t bo_model_weights(const bo_model *model)
{
    return model ? bo_weights_count(model->weights) : 0;
}

const bo_weight *bo_model_weight(const bo_model *model, size_t index)
{
    if (!model) return NULL;
    return index < bo_weights_count(model->weights) ? bo_weights_at(model->weights, index) : NULL;
}

bo_status bo_model_get_weight(bo_context *context, const bo_model *model, const char *name, float *out)
{
    BO_REQUIRE(context, model, name, out);
    return bo_weights_get(context, model->weights, name, out);
}

bo_status bo_model_set_weight(bo_context *context, bo_model *model, const char *name, const float *values)
{
    BO_REQUIRE(context, model, name, values);
    return bo_weights_set(context, model->weights, name, values);
}
