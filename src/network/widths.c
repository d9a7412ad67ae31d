/* Widths: what the data says in place of words, and every hidden one times the multiplier. The output's stay: those of the
 * layers that it has its width from; so does what the input gives. */
#include <math.h>
#include "internal.h"

static bool sets_width(const bo_layer *layer)
{
    const bo_width *own = &layer->options.width;
    return layer->type->sets_width && (own->value || own->symbol);
}

/* What only gives the input another shape has its numbers, whatever the multiplier. */
static void mark_given(bo_network *network)
{
    for (size_t i = 0; i < network->count; i++) {
        bo_layer *layer = &network->layers[network->order[i]];
        layer->given = !sets_width(layer);
        for (size_t k = 0; k < layer->inputs; k++)
            layer->given = layer->given && (layer->from[k] < 0 || network->layers[layer->from[k]].given);
        if (layer->given) layer->fixed = true;
    }
}

static void mark_fixed(bo_network *network)
{
    network->layers[network->output].fixed = true;
    for (size_t i = network->count; i-- > 0;) { /* takers before those they take from */
        const bo_layer *layer = &network->layers[network->order[i]];
        if (!layer->fixed || sets_width(layer)) continue;
        for (size_t k = 0; k < layer->inputs; k++)
            if (layer->from[k] >= 0) network->layers[layer->from[k]].fixed = true;
    }
}

static bo_status settle(bo_context *context, const char *where, const bo_network *network, const bo_layer *layer,
                        bool fixed, bo_width *width)
{
    static const char *const missing[] = {"", "classes", "targets", "numbers of the input"};
    const bo_facts *facts = &network->facts;
    const size_t known[] = {width->value, facts->classes, facts->targets, facts->dim};
    if (width->symbol != BO_SYMBOL_NUMBER) {
        width->value = known[width->symbol];
        if (width->value) return BO_OK;
        return bo_fail(context, BO_FORMAT,
                       "%s: %s: the number of %s is not known: the data has none, and the "
                       "description says none",
                       where, bo_layer_name(layer).text, missing[width->symbol]);
    }
    if (!width->value || fixed) return BO_OK;
    const double wide = fmax(1, round((double)width->value * network->multiplier));
    if (wide > BO_NETWORK_SIZE)
        return bo_fail(context, BO_FORMAT, "%s: %s: a width of %.15g is more than the %d that are supported", where,
                       bo_layer_name(layer).text, wide, BO_NETWORK_SIZE);
    width->value = (size_t)wide;
    return BO_OK;
}

bo_status bo_widths_settle(bo_context *context, const char *where, bo_network *network)
{
    mark_fixed(network);
    mark_given(network);
    for (size_t i = 0; i < network->count; i++) {
        bo_layer *layer = &network->layers[i];
        const bo_layer_field *fields = layer->type->fields;
        for (size_t f = 0; f < layer->type->field_count; f++) {
            if (fields[f].kind != BO_FIELD_WIDTH) continue;
            const bool outer = fields[f].offset == offsetof(bo_layer_options, width);
            BO_TRY(settle(context, where, network, layer, layer->fixed && outer,
                          (bo_width *)((char *)&layer->options + fields[f].offset)));
        }
    }
    return BO_OK;
}
