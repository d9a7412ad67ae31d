/* Losses: the output against classes, targets, the input or a layer. */
#include <math.h>
#include <string.h>
#include "internal.h"

/* ---- checks ------------------------------------------------------------------------------------------------------ */

size_t bo_network_outputs(const bo_network *network)
{
    return bo_shape_numbers(&network->layers[network->output].shape);
}

/* "linear.3.weight" belongs to the third layer, which has no name, and not to a layer with the name "linear". */
static bool is_of(const bo_layer *layer, const char *weight)
{
    const size_t length = strlen(layer->name);
    if (strncmp(weight, layer->name, length) != 0 || weight[length] != '.') return false;
    return !layer->named || weight[length + 1] < '0' || weight[length + 1] > '9';
}

size_t bo_layer_weights(const bo_network *network, const bo_layer *layer)
{
    size_t numbers = 0;
    for (size_t i = 0; i < bo_weights_count(network->weights); i++) {
        const bo_weight *weight = bo_weights_at(network->weights, i);
        if (is_of(layer, weight->name)) numbers += weight->rows * weight->columns;
    }
    return numbers;
}

static const bo_shape *target_shape(const bo_network *network)
{
    return network->target == BO_INPUT_LAYER ? &network->input_shape : &network->layers[network->target].shape;
}

/* A target with trained weights could adapt to the output. Its inputs precede it in the order. */
static bo_status check_target_layer(bo_context *context, const bo_network *network)
{
    for (size_t i = 0; network->target >= 0 && i < network->count; i++) {
        const bo_layer *layer = &network->layers[network->order[i]];
        if (bo_layer_weights(network, layer))
            return bo_fail(context, BO_INVALID, "the target of the loss should have no weights, found weights of %s",
                           bo_layer_name(layer).text);
        if (network->order[i] == (size_t)network->target) break;
    }
    return BO_OK;
}

static bo_status check_layer_loss(bo_context *context, const bo_network *network)
{
    const bo_layer *output = &network->layers[network->output];
    const bo_shape *shape = target_shape(network);
    if (network->loss == BO_NETWORK_CROSS_ENTROPY)
        return bo_fail(context, BO_INVALID,
                       "the loss cross-entropy needs classes; for numeric targets use mse, l1, bce or kl");
    if (bo_shape_numbers(shape) != bo_network_outputs(network))
        return bo_fail(context, BO_INVALID, "%s: the output should have as many numbers as the target, %s, found %s",
                       bo_layer_name(output).text, bo_shape_text(shape).text, bo_shape_text(&output->shape).text);
    BO_TRY(check_target_layer(context, network));
    if (network->masked == BO_NO_LAYER) return BO_OK;
    if (network->masked < 0 || !bo_layer_hides(&network->layers[network->masked]))
        return bo_fail(context, BO_INVALID, "the loss's \"masked\" should name a layer of noise of kind mask or rows");
    if (network->loss != BO_NETWORK_MSE && network->loss != BO_NETWORK_L1)
        return bo_fail(context, BO_INVALID, "a loss with \"masked\" should be mse or l1, found %s",
                       bo_network_loss_name(network->loss));
    const bo_layer *noise = &network->layers[network->masked];
    if (bo_shape_numbers(&noise->shape) == bo_shape_numbers(shape)) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s: its output is %s, but the target of the loss is %s",
                   bo_layer_name(noise).text, bo_shape_text(&noise->shape).text, bo_shape_text(shape).text);
}

bo_status bo_loss_check(bo_context *context, const bo_network *network)
{
    const bo_layer *output = &network->layers[network->output];
    const bo_facts *info = &network->info;
    const bool classes = network->loss == BO_NETWORK_CROSS_ENTROPY;
    const size_t expected = classes ? info->classes : info->targets;
    if (network->target != BO_NO_LAYER) return check_layer_loss(context, network);
    if (network->masked != BO_NO_LAYER)
        return bo_fail(context, BO_INVALID, "the loss's \"masked\" needs a \"target\" that is the input or a layer");
    if (classes && !expected)
        return bo_fail(
            context, BO_INVALID,
            "the loss cross-entropy needs classes: the data has none, and the description has no \"classes\"");
    if (classes && expected == 1)
        return bo_fail(context, BO_INVALID, "the loss cross-entropy needs at least two classes, found 1");
    if (!expected)
        return bo_fail(context, BO_INVALID, "the loss %s needs targets: the data has %s",
                       bo_network_loss_name(network->loss), info->classes ? "classes" : "none");
    if (output->shape.rank != 0)
        return bo_fail(context, BO_INVALID,
                       "%s: the output should be one row per example, found %s: use flatten or global pooling",
                       bo_layer_name(output).text, bo_shape_text(&output->shape).text);
    if (output->shape.channels != expected)
        return bo_fail(context, BO_INVALID, "%s: the output should have %zu columns, one for each %s, found %zu",
                       bo_layer_name(output).text, expected, classes ? "class" : "target", output->shape.channels);
    return BO_OK;
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

static bo_value cross_entropy(bo_recorder *r, bo_value logits)
{
    const size_t classes = r->network->info.classes;
    float *one = bo_alloc(r->context, classes * classes, sizeof *one, "an identity");
    for (size_t i = 0; one && i < classes; i++) one[i * classes + i] = 1;
    const bo_value identity = bo_record_constant(r, "identity", BO_ELEMENT_FLOAT32, classes, classes, one);
    return bo_graph_cross_entropy(r->graph, logits, identity, r->out->targets);
}

static bo_value shaped(bo_recorder *r, bo_value value, size_t columns)
{
    return bo_graph_columns(r->graph, value) == columns ? value : bo_graph_reshape(r->graph, value, columns);
}

static bo_value product(bo_recorder *r, bo_value a, bo_value b)
{
    return bo_graph_one(r->graph, BO_OPERATION_PRODUCT, NULL, 2, (bo_value[]){a, b});
}

/* Returns a factor where the noise layer masks values, 0 elsewhere. It is computed by applying the same noise to ones.
 * The factor turns the mean over all values into the mean over the masked values. */
static bo_value hidden_parts(bo_recorder *r, size_t columns)
{
    const bo_layer *noise = &r->network->layers[r->network->masked];
    const size_t numbers = r->examples * bo_shape_numbers(&noise->shape), width = noise->shape.channels;
    float *ones = bo_alloc_raw(r->context, numbers, sizeof *ones, "a mask");
    for (size_t i = 0; ones && i < numbers; i++) ones[i] = 1;
    bo_value mask = bo_record_constant(r, "ones", BO_ELEMENT_FLOAT32, numbers / width, width, ones);
    mask = bo_record_noise(r, noise, mask);
    const double often = noise->options.amount > 0 ? noise->options.amount : 1;
    const double factor = r->network->loss == BO_NETWORK_MSE ? 1 / sqrt(often) : 1 / often;
    bo_unary_attributes turned = {.function = BO_UNARY_IDENTITY, .factor = -factor, .offset = factor};
    return bo_record_chosen(r, shaped(r, bo_graph_one(r->graph, BO_OPERATION_UNARY, &turned, 1, &mask), columns));
}

void bo_loss_record(bo_recorder *r, const bo_value *values)
{
    const bo_network *network = r->network;
    bo_model_graph *out = r->out;
    const int target = network->target;
    bo_value output = bo_record_chosen(r, values[network->output]), expected;
    bo_graph_scope(r->graph, "loss");
    if (target == BO_NO_LAYER) {
        const bool classes = network->loss == BO_NETWORK_CROSS_ENTROPY;
        expected = out->targets = bo_graph_input(r->graph, "targets", classes ? BO_ELEMENT_INT32 : BO_ELEMENT_FLOAT32,
                                                 r->desc->examples, classes ? 1 : network->info.targets);
    } else {
        expected = bo_record_chosen(r, target == BO_INPUT_LAYER ? out->network.x : values[target]);
        output = shaped(r, output, target_shape(network)->channels);
    }
    if (network->masked != BO_NO_LAYER) {
        const bo_value hidden = hidden_parts(r, target_shape(network)->channels);
        output = product(r, output, hidden);
        expected = product(r, expected, hidden);
    }
    if (network->loss == BO_NETWORK_CROSS_ENTROPY)
        out->loss = cross_entropy(r, output);
    else
        out->loss = bo_graph_one(r->graph, BO_OPERATION_LOSS, &(bo_loss_attributes){(bo_loss_kind)network->loss}, 2,
                                 (bo_value[]){output, expected});
    bo_graph_keep(r->graph, out->loss);
}

/* ---- computation on the host ------------------------------------------------------------------------------------- */

/* Computes log Σ exp(x_i). */
static double log_sum(size_t count, const float *x)
{
    double largest = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, (double)x[i]);
    for (size_t i = 0; i < count; i++) sum += exp((double)x[i] - largest);
    return largest + log(sum);
}

static double kl(size_t count, const float *output, const float *target)
{
    const double p = log_sum(count, output), t = log_sum(count, target);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double log_t = (double)target[i] - t, log_p = (double)output[i] - p;
        sum += exp(log_t) * (log_t - log_p);
    }
    return sum;
}

size_t bo_loss_columns(const bo_network *network)
{
    return network->target == BO_NO_LAYER ? bo_network_outputs(network) : target_shape(network)->channels;
}

double bo_loss_of(const bo_network *network, const float *output, const float *target, const float *mask, int32_t label)
{
    const size_t count = bo_network_outputs(network);
    double sum = 0, counted = 0;
    if (network->loss == BO_NETWORK_CROSS_ENTROPY) return log_sum(count, output) - (double)output[label];
    if (network->loss == BO_NETWORK_KL) { /* mean over the rows of an example */
        const size_t columns = bo_loss_columns(network);
        for (size_t i = 0; i < count; i += columns) sum += kl(columns, output + i, target + i);
        return sum * (double)columns / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        const double p = (double)output[i], t = (double)target[i];
        if (mask && mask[i] != 0) continue;
        counted++;
        if (network->loss == BO_NETWORK_BCE)
            sum += fmax(p, 0) - p * t + log1p(exp(-fabs(p)));
        else
            sum += network->loss == BO_NETWORK_L1 ? fabs(p - t) : (p - t) * (p - t);
    }
    return sum / counted;
}
