/* Creation and properties of networks. */
#include <stdlib.h>
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../../nn/enums.h"
#include "../../base/rng.h"
#include "../../io/schema.h"
#include "internal.h"

enum { DEPTH = 8, MAX_BYTES = 1 << 20 };

void bo_network_destroy(bo_network *network)
{
    if (!network) return;
    for (size_t i = 0; i < network->count; i++) {
        bo_features_destroy(network->layers[i].features);
        bo_attention_destroy(network->layers[i].attention);
        bo_network_destroy(network->layers[i].inner);
        bo_model_desc_release(network->layers[i].block);
        bo_free(network->layers[i].block);
    }
    bo_weights_destroy(network->weights);
    bo_schema_destroy(network->schema);
    bo_scaling_free(&network->inputs);
    bo_scaling_free(&network->outputs);
    bo_free(network->layers);
    bo_free(network->order);
    bo_free(network->infos);
    bo_free(network->shapes);
    bo_free(network->text);
    bo_free(network);
}

/* Reports an error of shapes as an error in the description. */
static bo_status format_error(bo_context *context, const char *where, bo_status status)
{
    char message[700];
    if (status != BO_INVALID && status != BO_UNSUPPORTED) return status;
    snprintf(message, sizeof message, "%s", bo_context_error(context));
    return bo_fail(context, BO_FORMAT, "%s: %s", where, message);
}

/* Stores the description as normalized JSON text. */
static bo_status keep_text(bo_context *context, const bo_json *json, bo_network *network)
{
    char *text = bo_json_print_indented(json);
    if (!text) return bo_fail(context, BO_MEMORY, "out of memory: a description");
    network->text = bo_strdup(context, text);
    free(text);
    return network->text ? BO_OK : BO_MEMORY;
}

/* Declares the weights of the same description with a multiplier of 1. */
static bo_status base_weights(bo_context *context, const char *where, const bo_json *json, const bo_network *network,
                              bo_weights **out)
{
    bo_network *base;
    BO_TRY(bo_network_build(context, where, json, &(bo_build){.info = network->info, .seed = network->seed}, &base));
    *out = base->weights;
    base->weights = NULL;
    bo_network_destroy(base);
    return BO_OK;
}

/* Returns the largest hidden width of the description. */
static size_t base_width(const bo_network *network)
{
    size_t widest = 1;
    for (size_t i = 0; i < network->count; i++) {
        const bo_layer *layer = &network->layers[i];
        if (!layer->fixed && layer->options.width.value > widest) widest = layer->options.width.value;
    }
    return (size_t)fmax(1, round((double)widest / network->multiplier));
}

static bo_status parametrize(bo_context *context, const char *where, const bo_json *json, bo_network *network)
{
    bo_rules rules = {.kind = network->parametrization, .base_width = base_width(network)};
    if (rules.kind == BO_PARAMETRIZATION_UNIT) rules.gradient_scale = 0x1p12;
    if (rules.kind == BO_PARAMETRIZATION_MUP && network->multiplier != 1)
        BO_TRY(base_weights(context, where, json, network, &rules.base));
    bo_weights_set_rules(network->weights, &rules);
    return BO_OK;
}

static bo_status build_from(bo_context *context, const char *where, const bo_json *json, bo_network *network)
{
    BO_TRY(bo_network_describe(context, where, json, network));
    BO_TRY(keep_text(context, json, network));
    BO_TRY(bo_weights_create(context, &network->weights));
    BO_TRY(parametrize(context, where, json, network));
    return format_error(context, where, bo_network_declare(context, network));
}

/* True if every layer reads from the input or from layers before it in the order. */
static bool order_holds(const bo_network *network)
{
    for (size_t i = 0; i < network->count; i++) {
        const bo_layer *layer = &network->layers[network->order[i]];
        for (size_t j = 0; j < layer->inputs; j++) {
            size_t before = 0;
            if (layer->from[j] == BO_INPUT_LAYER) continue;
            while (before < i && network->order[before] != (size_t)layer->from[j]) before++;
            if (before == i) return false;
        }
    }
    return network->output < network->count;
}

/* Fills in the result of bo_model_network. */
static bo_status fill_report(bo_context *context, bo_network *network)
{
    network->infos = bo_alloc(context, network->count, sizeof *network->infos, "facts of layers");
    network->shapes = bo_alloc(context, network->count, sizeof *network->shapes, "facts of layers");
    if (!network->infos || !network->shapes) return BO_MEMORY;
    for (size_t i = 0; i < network->count; i++) {
        const bo_layer *layer = &network->layers[network->order[i]];
        network->shapes[i] = bo_shape_text(&layer->shape);
        network->infos[i] = (bo_layer_info){.name = layer->name,
                                            .type = layer->type->name,
                                            .shape = network->shapes[i].text,
                                            .weights = bo_layer_weights(network, layer)};
    }
    network->report =
        (bo_network_info){.input = network->input,
                          .dim = network->info.dim,
                          .outputs = bo_network_outputs(network),
                          .classes = network->loss == BO_NETWORK_CROSS_ENTROPY ? network->info.classes : 0,
                          .reconstructs = network->target != BO_NO_LAYER,
                          .loss = bo_network_loss_name(network->loss),
                          .parameters = bo_weights_describe(network->weights)->trained,
                          .width_multiplier = network->multiplier,
                          .parametrization = network->parametrization,
                          .layers = network->count,
                          .layer = network->infos};
    return BO_OK;
}

void bo_network_set_schema(bo_network *network, bo_schema *schema)
{
    network->schema = schema;
    network->report.schema = schema;
}

bo_status bo_network_build(bo_context *context, const char *where, const bo_json *json, const bo_build *build,
                           bo_network **out)
{
    const double multiplier = build->multiplier == 0 ? 1 : build->multiplier;
    *out = NULL;
    if (!(multiplier > 0) || !isfinite(multiplier))
        return bo_fail(context, BO_INVALID, "the width multiplier should be a positive number, found %g", multiplier);
    if (!bo_parametrization_name(build->parametrization))
        return bo_fail(context, BO_INVALID, "unknown parametrization %d", (int)build->parametrization);
    bo_network *network = bo_alloc(context, 1, sizeof *network, "a network");
    if (!network) return BO_MEMORY;
    network->info = build->info;
    network->multiplier = multiplier;
    network->parametrization = build->parametrization;
    network->seed = build->seed;
    bo_status status = build_from(context, where, json, network);
    if (status == BO_OK) status = fill_report(context, network);
    assert(status != BO_OK || (order_holds(network) && network->weights));
    if (status != BO_OK)
        bo_network_destroy(network);
    else
        *out = network;
    return status;
}

static bo_status fill_in(bo_context *context, const bo_description *desc, bo_network *network)
{
    const bo_examples *examples = desc->examples;
    if (examples) {
        BO_TRY(bo_network_check(context, network, examples, true));
        BO_TRY(bo_classes_check(context, network, examples));
        BO_TRY(bo_scaling_fit(context, network, examples));
        if (examples->schema) bo_network_set_schema(network, bo_schema_retain(examples->schema));
    }
    return BO_OK;
}

bo_status bo_network_prepare(bo_context *context, const bo_description *desc, bo_network **out)
{
    bo_json *json;
    *out = NULL;
    BO_TRY(bo_check_reserved(context, "bo_description", desc->reserved));
    const char *where = desc->where ? desc->where : "model";
    const size_t length = strlen(desc->text);
    if (length > MAX_BYTES)
        return bo_fail(context, BO_FORMAT, "%s: %zu bytes are too large for a description", where, length);
    BO_TRY(bo_json_parse(context, where, desc->text, length, DEPTH, &json));
    bo_build build = {
        .multiplier = desc->width_multiplier, .parametrization = desc->parametrization, .seed = desc->seed};
    if (desc->examples)
        build.info = (bo_facts){desc->examples->dim, desc->examples->classes ? 0 : desc->examples->targets,
                                desc->examples->classes};
    bo_status status = bo_network_build(context, where, json, &build, out);
    bo_json_delete(json);
    if (status == BO_OK) status = fill_in(context, desc, *out);
    if (status != BO_OK) {
        bo_network_destroy(*out);
        *out = NULL;
    }
    return status;
}

bo_status bo_description_inspect(bo_context *context, const char *text, const char *where, bo_description_needs *out)
{
    BO_REQUIRE(context, text, out);
    bo_json *json;
    *out = (bo_description_needs){0};
    if (!where) where = "model";
    if (strlen(text) > MAX_BYTES) return bo_fail(context, BO_FORMAT, "%s: not a description of a network", where);
    BO_TRY(bo_json_parse(context, where, text, strlen(text), DEPTH, &json));
    const bo_status status = bo_network_find_needs(context, where, json, out);
    bo_json_delete(json);
    return status;
}

bo_status bo_network_create(bo_context *context, const bo_description *desc, bo_network **out)
{
    BO_TRY(bo_network_prepare(context, desc, out));
    bo_status status = bo_weights_allocate(context, (*out)->weights, false);
    if (status == BO_OK) status = bo_weights_init(context, (*out)->weights, desc->seed);
    if (status == BO_OK) return BO_OK;
    bo_network_destroy(*out);
    *out = NULL;
    return status;
}

double bo_network_layer_numbers(const bo_network *network)
{
    double numbers = 0;
    for (size_t i = 0; i < network->count; i++) numbers += (double)bo_shape_numbers(&network->layers[i].shape);
    return numbers;
}

/* FNV-1a over everything that a checkpoint must agree with. */
uint64_t bo_network_fingerprint(const bo_network *network)
{
    uint64_t hash = bo_rng_stream(network->text, network->info.dim ^ network->info.classes << 20);
    hash ^= (uint64_t)network->parametrization;
    for (size_t i = 0; i < bo_weights_count(network->weights); i++) {
        const bo_weight *weight = bo_weights_at(network->weights, i);
        hash ^= bo_rng_stream(weight->name, weight->rows * 1000003 + weight->columns);
        hash *= UINT64_C(0x100000001b3);
    }
    return hash;
}
