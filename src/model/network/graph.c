/* A network as a graph: inputs, layers in their order, outputs or loss. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "../enums.h"
#include "internal.h"

/* ---- functions for layers ---------------------------------------------------------------------------------------- */

bo_value bo_record_refuse(bo_recorder *r, const char *format, ...)
{
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (r->status == BO_OK)
        r->status = bo_fail(r->context, BO_INVALID, "%s: %s", bo_layer_name(r->layer).text, message);
    return 0;
}

bo_value bo_record_constant(bo_recorder *r, const char *name, bo_element element, size_t rows, size_t columns,
                            void *data)
{
    bo_network_inputs *out = &r->out->network;
    if (!data) {
        if (r->status == BO_OK) r->status = BO_MEMORY;
        return 0;
    }
    if (out->constants == BO_NETWORK_CONSTANTS) {
        bo_free(data);
        return bo_record_refuse(r, "its table of positions is one too many: a network can have at most %d",
                                BO_NETWORK_CONSTANTS);
    }
    bo_constant *constant = &out->constant[out->constants++];
    *constant = (bo_constant){bo_graph_input(r->graph, name, element, rows, columns), data, 0};
    return constant->value;
}

bo_value bo_record_places(bo_recorder *r, const char *name, size_t rows, int32_t *data)
{
    bo_network_inputs *out = &r->out->network;
    for (size_t i = 0; data && i < out->constants; i++) {
        const bo_constant *known = &out->constant[i];
        if (known->places != rows || memcmp(known->data, data, rows * sizeof *data) != 0) continue;
        bo_free(data);
        return known->value;
    }
    const bo_value value = bo_record_constant(r, name, BO_ELEMENT_INT32, rows, 1, data);
    if (value) out->constant[out->constants - 1].places = rows;
    return value;
}

uint64_t bo_record_stream(const bo_layer *layer, size_t which)
{
    return UINT64_C(1) << 32 | layer->place << 2 | which; /* distinct from the streams of attention and MLPs */
}

bo_shape_label bo_shape_text(const bo_shape *shape)
{
    bo_shape_label label;
    const size_t *size = shape->size, channels = shape->channels;
    if (shape->rank == 2)
        snprintf(label.text, sizeof label.text, "%zu x %zu x %zu", size[0], size[1], channels);
    else if (shape->rank == 1)
        snprintf(label.text, sizeof label.text, "%zu x %zu", size[1], channels);
    else
        snprintf(label.text, sizeof label.text, "%zu", channels);
    return label;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* Records the inputs: for a graph, its nodes and edges. A description without data is checked on one node with a self
 * loop. */
static void record_inputs(bo_recorder *r)
{
    const bo_network *network = r->network;
    const bo_shape *shape = &network->input_shape;
    const bo_examples *data = r->desc->data;
    bo_network_inputs *out = &r->out->network;
    const size_t rows = r->examples * bo_shape_places(shape);
    const bo_weight_desc drawn = {.name = "input",
                                  .rank = 2,
                                  .shape = (size_t[]){rows, shape->channels},
                                  .init = {BO_WEIGHT_INIT_KIND_NORMAL, 0, 1}};
    out->drawn = r->desc->drawn;
    out->x = out->drawn ? bo_graph_weight(r->graph, &drawn)
                        : bo_graph_input(r->graph, "input", BO_ELEMENT_FLOAT32, rows, shape->channels);
    if (network->input != BO_NETWORK_INPUT_GRAPH) return;
    out->first = bo_graph_input(r->graph, "first", BO_ELEMENT_INT32, r->examples + 1, 1);
    out->neighbors = bo_graph_input(r->graph, "neighbors", BO_ELEMENT_INT32, data && data->edges ? data->edges : 1, 1);
    r->out->chosen = bo_graph_input(r->graph, "nodes", BO_ELEMENT_INT32, r->desc->examples, 1);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static bo_value get_inputs(bo_recorder *r, const bo_value *values)
{
    static const char *const ranks[] = {"rows", "sequences", "images"};
    const bo_layer *layer = r->layer;
    const bo_layer_type *type = layer->type;
    const unsigned accepts = type->accepts ? type->accepts : BO_ACCEPTS_ALL;
    for (size_t i = 0; i < layer->inputs; i++) {
        const int from = layer->from[i];
        r->in[i] = from < 0 ? r->out->network.x : values[from];
        r->shapes[i] = from < 0 ? r->network->input_shape : r->network->layers[from].shape;
        if (!(accepts >> r->shapes[i].rank & 1))
            return bo_record_refuse(r, "%s does not accept %s, but its input is %s", type->name,
                                    ranks[r->shapes[i].rank], bo_shape_text(&r->shapes[i]).text);
    }
    if (type->graph && r->network->input != BO_NETWORK_INPUT_GRAPH)
        return bo_record_refuse(r, "%s needs the edges of a graph: the input's \"kind\" should be \"graph\"",
                                type->name);
    r->shape = r->shapes[0];
    return r->in[0];
}

static bool create_object(bo_recorder *r, bo_layer *layer)
{
    if (!layer->type->create) return true;
    const bo_status status = layer->type->create(r->context, layer, &r->shapes[0], r->network);
    if (status == BO_OK) return true;
    char message[400];
    snprintf(message, sizeof message, "%s", bo_context_error(r->context));
    r->status = bo_fail(r->context, status, "%s: %s", bo_layer_name(layer).text, message);
    return false;
}

/* Layers between mixers would need a state when tokens are read one at a time, if they mixed rows. Otherwise fails. */
static bool on_single_rows(bo_recorder *r, size_t before)
{
    const char *mixing = bo_graph_mixes(r->graph, before);
    if (!mixing && !r->out->network.constants) return true;
    bo_record_refuse(r, "it %s%s; layers in the place of an MLP must act on single rows",
                     mixing ? "mixes rows by " : "needs the positions of rows", mixing ? mixing : "");
    return false;
}

/* Objects and shapes are created when the network is built. Later graphs use them. */
static bo_value record_layer(bo_recorder *r, bo_layer *layer, const bo_value *values)
{
    r->layer = layer;
    r->options = &layer->options;
    bo_graph_scope(r->graph, "%s", r->network->within ? layer->name : bo_layer_name(layer).text);
    if (!get_inputs(r, values)) return 0;
    if (r->building && !create_object(r, layer)) return 0;
    const size_t before = bo_graph_recorded(r->graph);
    const bo_value value = layer->type->record(r);
    if (!r->building || !value) return value;
    if (r->network->within && !on_single_rows(r, before)) return 0;
    if (bo_shape_numbers(&r->shape) > BO_NETWORK_SIZE)
        return bo_record_refuse(r, "its output is %s numbers per example, but at most %d are supported",
                                bo_shape_text(&r->shape).text, BO_NETWORK_SIZE);
    layer->shape = r->shape;
    return value;
}

bo_value bo_record_chosen(bo_recorder *r, bo_value value)
{
    if (!r->out->chosen) return value;
    return bo_graph_one(r->graph, BO_OPERATION_EMBED, NULL, 2, (bo_value[]){r->out->chosen, value});
}

static void finish(bo_recorder *r, const bo_value *values)
{
    bo_model_graph *out = r->out;
    if (r->desc->loss) bo_loss_record(r, values);
    if (!r->desc->outputs) return;
    bo_graph_scope(r->graph, "output");
    const bo_layer *last = &r->network->layers[r->network->output];
    const int source = last->from[0];
    bo_value shown = values[r->network->output];
    if (r->desc->before) shown = source < 0 ? out->network.x : values[source];
    out->outputs = bo_record_chosen(r, shown);
    bo_graph_keep(r->graph, out->outputs);
    const int target = r->network->target;
    if (target == BO_NO_LAYER) return;
    out->network.target = bo_record_chosen(r, target == BO_INPUT_LAYER ? out->network.x : values[target]);
    bo_graph_keep(r->graph, out->network.target);
}

bo_value *bo_record_layers(bo_recorder *r, bool segments)
{
    const bo_network *network = r->network;
    bo_value *values = bo_alloc(r->context, network->count, sizeof *values, "a network's values");
    if (!values) r->status = BO_MEMORY;
    bool going = values != NULL;
    const size_t segment = (size_t)ceil(sqrt((double)network->count)); /* 1604.06174 */
    for (size_t i = 0; going && i < network->count; i++) {
        const size_t at = network->order[i];
        if (segments && i % segment == 0) bo_graph_segment(r->graph, true);
        values[at] = record_layer(r, &network->layers[at], values);
        going = values[at] != 0;
        if (segments && (i % segment == segment - 1 || i + 1 == network->count)) bo_graph_segment(r->graph, false);
    }
    if (going) return values;
    bo_free(values);
    return NULL;
}

bo_status bo_network_declare(bo_context *context, bo_network *network)
{
    const bo_model_graph_desc desc = {.examples = 1, .loss = !network->within};
    bo_model_graph out = {.network.examples = 1};
    BO_TRY(bo_graph_create(context, network->weights, &out.graph));
    bo_recorder r = {.context = context, .network = network, .desc = &desc, .out = &out, .graph = out.graph};
    r.examples = 1;
    r.building = true;
    record_inputs(&r);
    bo_value *values = bo_record_layers(&r, true);
    bo_status status = r.status != BO_OK ? r.status : bo_graph_check(context, out.graph);
    if (status == BO_OK && desc.loss) status = bo_loss_check(context, network);
    if (status == BO_OK && desc.loss) {
        bo_loss_record(&r, values);
        status = r.status;
    }
    if (status == BO_OK) status = bo_graph_compile(context, out.graph, &(bo_graph_compile_desc){.loss = out.loss});
    bo_free(values);
    bo_model_graph_destroy(&out);
    return status;
}

/* ---- graphs of models -------------------------------------------------------------------------------------------- */

bo_status bo_network_graph_record(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out)
{
    const bo_network *network = model->network;
    bo_context *context = bo_graph_context(out->graph);
    bo_recorder r = {.context = context, .network = network, .desc = desc, .out = out, .graph = out->graph};
    r.examples = network->input != BO_NETWORK_INPUT_GRAPH ? desc->examples : desc->data ? desc->data->rows : 1;
    const size_t max_numbers =
        bo_max(r.examples * network->info.dim, desc->examples * bo_max(bo_network_outputs(network), 1));
    out->network.examples = desc->examples;
    out->network.buffer = bo_alloc_raw(context, max_numbers, sizeof(float), "a batch of examples");
    if (!out->network.buffer) r.status = BO_MEMORY;
    record_inputs(&r);
    bo_value *values = bo_record_layers(&r, true);
    if (values) finish(&r, values);
    bo_free(values);
    return r.status;
}

void bo_network_inputs_release(bo_network_inputs *inputs)
{
    for (size_t i = 0; i < inputs->constants; i++) bo_free(inputs->constant[i].data);
    bo_free(inputs->buffer);
}

/* ====================================================================================================================
 * Writing examples into a graph. */

bo_status bo_network_check(bo_context *context, const bo_network *network, const bo_examples *examples, bool targets)
{
    const bo_facts *info = &network->info;
    const bool classes = network->loss == BO_NETWORK_CROSS_ENTROPY;
    if (examples->dim != info->dim)
        return bo_fail(context, BO_INVALID, "the network expects %zu numbers per example, but the data has %zu",
                       info->dim, examples->dim);
    if ((network->input == BO_NETWORK_INPUT_GRAPH) != (examples->first != NULL))
        return bo_fail(context, BO_INVALID, "the network expects %s, but the data has %sedges",
                       bo_network_input_name(network->input), examples->first ? "" : "no ");
    if (!targets || network->target != BO_NO_LAYER) return BO_OK;
    if (!examples->y) return bo_fail(context, BO_INVALID, "the loss needs targets, but the data has none");
    if (classes && (!examples->classes || examples->classes > info->classes))
        return bo_fail(context, BO_INVALID, "the network has %zu classes, but the data has %zu", info->classes,
                       examples->classes);
    if (!classes && (examples->classes || examples->targets != info->targets))
        return bo_fail(context, BO_INVALID, "the network has %zu targets, but the data has %zu%s", info->targets,
                       examples->classes ? examples->classes : examples->targets, examples->classes ? " classes" : "");
    return bo_targets_check(context, network, examples);
}

int32_t bo_examples_label(const bo_examples *examples, size_t row)
{
    const double y = examples->y[row * examples->targets];
    return y >= 0 && y < (double)examples->classes ? (int32_t)y : -1;
}

static bo_status fill_rows(bo_context *context, const bo_network *network, bo_model_graph *graph,
                           const bo_examples *data, const size_t *rows)
{
    const bo_network_inputs *in = &graph->network;
    const size_t dim = data->dim;
    float *buffer = in->buffer;
    if (in->drawn) return BO_OK;
    for (size_t i = 0; i < in->examples; i++)
        bo_scaling_apply(&network->inputs, dim, data->x + rows[i] * dim, buffer + i * dim);
    return bo_graph_write(context, graph->graph, in->x, buffer);
}

/* Writes the whole graph once, then only the selected nodes. */
static bo_status fill_nodes(bo_context *context, const bo_network *network, bo_model_graph *graph,
                            const bo_examples *data, const size_t *rows)
{
    const bo_network_inputs *in = &graph->network;
    const int32_t none = 0;
    int32_t *buffer = in->buffer;
    if (in->written != data) {
        for (size_t i = 0; i < data->rows; i++)
            bo_scaling_apply(&network->inputs, data->dim, data->x + i * data->dim, (float *)buffer + i * data->dim);
        if (!in->drawn) BO_TRY(bo_graph_write(context, graph->graph, in->x, buffer));
        BO_TRY(bo_graph_write(context, graph->graph, in->first, data->first));
        BO_TRY(bo_graph_write(context, graph->graph, in->neighbors, data->edges ? data->neighbors : &none));
    }
    for (size_t i = 0; i < in->examples; i++) buffer[i] = (int32_t)rows[i];
    return bo_graph_write(context, graph->graph, graph->chosen, buffer);
}

static bo_status fill_targets(bo_context *context, const bo_network *network, bo_model_graph *graph,
                              const bo_examples *data, const size_t *rows)
{
    const bo_network_inputs *in = &graph->network;
    const size_t targets = data->targets;
    int32_t *labels = in->buffer;
    float *numbers = in->buffer;
    if (network->loss == BO_NETWORK_CROSS_ENTROPY) {
        for (size_t i = 0; i < in->examples; i++) labels[i] = bo_examples_label(data, rows[i]);
        return bo_graph_write(context, graph->graph, graph->targets, labels);
    }
    for (size_t i = 0; i < in->examples; i++)
        for (size_t j = 0; j < targets; j++) numbers[i * targets + j] = (float)data->y[rows[i] * targets + j];
    bo_scaling_apply(&network->outputs, in->examples * targets, numbers, numbers);
    return bo_graph_write(context, graph->graph, graph->targets, numbers);
}

bo_status bo_network_graph_fill(bo_context *context, const bo_network *network, bo_model_graph *graph,
                                const bo_examples *data, const size_t *rows)
{
    bo_network_inputs *in = &graph->network;
    for (size_t i = 0; !in->written && i < in->constants; i++)
        BO_TRY(bo_graph_write(context, graph->graph, in->constant[i].value, in->constant[i].data));
    if (network->input == BO_NETWORK_INPUT_GRAPH)
        BO_TRY(fill_nodes(context, network, graph, data, rows));
    else
        BO_TRY(fill_rows(context, network, graph, data, rows));
    if (graph->targets) BO_TRY(fill_targets(context, network, graph, data, rows));
    in->written = data;
    return BO_OK;
}
