/* Layers that act in training only: dropout, and the noise of denoising and masked autoencoders. */
#include <stddef.h>
#include "../base/rng.h"
#include "internal.h"

static const bo_layer_field dropout_fields[] = {
    {.name = "rate", .kind = BO_FIELD_REAL, .offset = offsetof(bo_layer_options, rate), .required = true, .most = 1},
};

static bo_value record_dropout(bo_recorder *r)
{
    return bo_nn_dropout(r->graph, r->in[0], r->options->rate, bo_record_stream(r->layer, 0));
}

static const char *noise_name(unsigned value)
{
    static const char *const names[BO_NOISE_COUNT] = {"normal", "mask", "rows"};
    return value < BO_NOISE_COUNT ? names[value] : NULL;
}

static const bo_layer_field noise_fields[] = {
    {.name = "kind", .kind = BO_FIELD_NAME, .offset = offsetof(bo_layer_options, kind), .names = noise_name},
    {.name = "amount", .kind = BO_FIELD_REAL, .offset = offsetof(bo_layer_options, amount), .required = true},
};

static bo_value record_noise(bo_recorder *r);

bo_value bo_record_noise(bo_recorder *r, const bo_layer *layer, bo_value x)
{
    return bo_nn_noise(r->graph, x, (bo_noise_kind)layer->options.kind, layer->options.amount,
                       bo_record_stream(layer, 0));
}

bool bo_layer_hides(const bo_layer *layer)
{
    return layer->type->record == record_noise && layer->options.kind != BO_NOISE_NORMAL;
}

/* 1 and 0 of the layer's probability, rows alike or each number by itself: the same whoever asks. */
static float *draw_mask(bo_recorder *r)
{
    const size_t width = r->shape.channels, rows = r->examples * bo_shape_places(&r->shape);
    bo_rng rng = bo_rng_make(r->network->seed, bo_rng_stream("network.mask", r->layer->number));
    float *mask = bo_alloc(r->context, rows * width, sizeof *mask, "a mask"), stays = 1;
    for (size_t i = 0; mask && i < rows * width; i++) {
        if (r->options->kind == BO_NOISE_MASK || i % width == 0) stays = bo_rng_uniform(&rng) >= r->options->amount;
        mask[i] = stays;
    }
    return mask;
}

static bo_value record_mask(bo_recorder *r)
{
    const size_t width = r->shape.channels, rows = r->examples * bo_shape_places(&r->shape);
    float *mask = draw_mask(r);
    const bo_value value = bo_record_constant(r, "mask", BO_ELEMENT_FLOAT32, rows, width, mask);
    if (value) r->out->mask = mask;
    return bo_graph_one(r->graph, BO_OP_PRODUCT, &(bo_product_attributes){{0}}, 2, (bo_value[]){r->in[0], value});
}

static bo_value record_noise(bo_recorder *r)
{
    const int masked = r->network->masked;
    if (r->options->kind != BO_NOISE_NORMAL && r->options->amount >= 1)
        return bo_record_refuse(r, "\"amount\" is a probability here: expected less than 1, found %g",
                                r->options->amount);
    if (r->desc->hide && masked >= 0 && r->layer == &r->network->layers[masked]) return record_mask(r);
    return bo_record_noise(r, r->layer, r->in[0]);
}

#define FIELDS(list) .fields = list, .field_count = sizeof list / sizeof *list

const bo_layer_type bo_layers_noise[] = {
    {.name = "dropout", FIELDS(dropout_fields), .record = record_dropout},
    {.name = "noise", FIELDS(noise_fields), .record = record_noise},
    {0},
};
