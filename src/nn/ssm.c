/* State-space systems as a layer, alone and between two projections and a gate.
 *
 * Initial time constants differ between the channels: steps from 0.001 to 0.1, evenly spaced in their logarithm, and
 * modes at -1/2 + iπn (S4D-Lin, 2206.11893), so that a system responds to the last 20 to 2000 tokens. */
#include <math.h>
#include "internal.h"
#include "../backend/shapes.h"

enum { DEFAULT_SIZE = 16 };
#define FIRST_STEP 1e-3
#define LAST_STEP  1e-1

static bo_ssm_attributes attributes_of(const bo_ssm_layer *desc)
{
    return (bo_ssm_attributes){.kind = desc->kind,
                               .form = desc->form,
                               .size = desc->size ? desc->size : DEFAULT_SIZE,
                               .rank = desc->rank ? desc->rank : 1,
                               .sequences = {.tokens = desc->tokens,
                                             .max_sequences = desc->max_sequences,
                                             .layer = desc->layer,
                                             .source = desc->source}};
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* Declares `columns` numbers per channel; 1: stored as a vector. */
static bo_value parameter(bo_graph *graph, const char *prefix, const char *suffix, size_t channels, size_t columns,
                          bo_weight_init init)
{
    bo_nn_name name = bo_nn_join(prefix, suffix);
    return bo_graph_weight(graph, &(bo_weight_desc){.name = name.text,
                                                    .rank = columns == 1 ? 1 : 2,
                                                    .shape = (size_t[]){channels, columns},
                                                    .rows = channels,
                                                    .columns = columns,
                                                    .role = BO_WEIGHT_ROLE_VECTOR,
                                                    .init = init});
}

static bo_weight_init normal(double mean, double deviation)
{
    return (bo_weight_init){.kind = BO_WEIGHT_INIT_KIND_NORMAL, .a = mean, .b = deviation};
}

static bo_value log_step(bo_graph *graph, const char *prefix, size_t channels)
{
    bo_weight_init spread = {.kind = BO_WEIGHT_INIT_KIND_SPREAD, .a = log(FIRST_STEP), .b = log(LAST_STEP)};
    return parameter(graph, prefix, ".log_step", channels, 1, spread);
}

/* Declares a and w. Returns their number. */
static size_t modes(bo_graph *graph, const char *prefix, size_t channels, size_t size, bo_value *out)
{
    const double pi = 3.14159265358979323846;
    bo_weight_init half = normal(log(expm1(0.5)), 0);
    bo_weight_init spread = {.kind = BO_WEIGHT_INIT_KIND_SPREAD, .a = 0, .b = pi * (double)(size - 1)};
    out[0] = parameter(graph, prefix, ".a", channels, size, half);
    out[1] = parameter(graph, prefix, ".w", channels, size, spread);
    return 2;
}

bo_value bo_nn_systems(bo_graph *graph, const char *prefix, bo_value u, const bo_ssm_layer *desc)
{
    bo_ssm_attributes a = attributes_of(desc);
    size_t channels = desc->channels, size = a.size, count = 0;
    double each = 1 / sqrt((double)size * (double)a.rank); /* |P| is near 1 */
    bo_value in[BO_OP_INPUTS];
    in[count++] = u;
    in[count++] = log_step(graph, prefix, channels);
    if (a.kind == BO_SSM_CLOSED) {
        in[count++] = parameter(graph, prefix, ".p", channels, size * a.rank, normal(0, each));
        in[count++] = parameter(graph, prefix, ".b", channels, size, normal(0, 1));
        in[count++] = parameter(graph, prefix, ".c", channels, size, normal(0, 1 / sqrt((double)size)));
    } else {
        count += modes(graph, prefix, channels, size, in + count);
        if (a.kind == BO_SSM_LOW_RANK) {
            in[count++] = parameter(graph, prefix, ".p", channels, 2 * size * a.rank, normal(0, each * sqrt(0.5)));
            in[count++] = parameter(graph, prefix, ".q", channels, 2 * size * a.rank, normal(0, each * sqrt(0.5)));
        }
        in[count++] = parameter(graph, prefix, ".c", channels, 2 * size, normal(0, sqrt(0.5)));
    }
    in[count++] = parameter(graph, prefix, ".d", channels, 1, (bo_weight_init){.kind = BO_WEIGHT_INIT_KIND_ONE});
    return bo_graph_one(graph, BO_OPERATION_SSM, &a, count, in);
}

/* ---- layer ------------------------------------------------------------------------------------------------------- */

/* The state of the convolution follows that of the systems. */
static bo_convolution_layer convolution_of(const bo_ssm_layer *desc)
{
    bo_ssm_attributes a = attributes_of(desc);
    bo_convolution_layer layer = {.windows = {.width = {.kernel = desc->kernel, .before = desc->kernel - 1}},
                                  .out = desc->channels,
                                  .groups = desc->channels,
                                  .bias = true,
                                  .sequences = a.sequences};
    layer.sequences.offset = bo_ssm_state_bytes(&a, desc->channels);
    return layer;
}

/* Returns the input of the systems: u, or silu of its convolution (2312.00752). */
static bo_value convolve(bo_graph *graph, const char *prefix, bo_value u, const bo_ssm_layer *desc)
{
    if (!desc->kernel) return u;
    bo_convolution_layer layer = convolution_of(desc);
    u = bo_nn_convolution(graph, bo_nn_join(prefix, ".conv").text, u, &layer);
    return bo_nn_unary(graph, u, BO_UNARY_SILU, bo_nn_unit_factor(graph, BO_UNARY_SILU), 0);
}

bo_value bo_nn_ssm(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_ssm_layer *desc)
{
    static const char *const suffixes[] = {".gate_proj", ".in_proj"};
    bo_linear_layer inward = {.out = desc->channels, .bias = desc->bias}, both[2] = {inward, inward};
    bo_unary_attributes gate = {.function = BO_UNARY_SILU, .factor = bo_nn_unit_factor(graph, BO_UNARY_SILU)};
    bo_value parts[2] = {0};
    bo_nn_linears(graph, prefix, x, 2, suffixes, both, parts);
    parts[1] = bo_nn_systems(graph, prefix, convolve(graph, prefix, parts[1], desc), desc);
    bo_value y = bo_graph_one(graph, BO_OPERATION_GLU, &gate, 2, parts);
    return bo_nn_output(
        graph, bo_nn_join(prefix, ".out_proj").text, y, residual,
        &(bo_output_layer){.bias = desc->bias, .dropout = desc->dropout, .stream = bo_nn_stream(desc->layer, 0)});
}

size_t bo_nn_ssm_state_bytes(const bo_ssm_layer *desc)
{
    bo_ssm_attributes a = attributes_of(desc);
    size_t bytes = bo_ssm_state_bytes(&a, desc->channels);
    if (!desc->kernel) return bytes;
    bo_convolution_layer layer = convolution_of(desc);
    bo_convolution_attributes convolution = {.windows = layer.windows, .groups = layer.groups};
    return bytes + bo_convolution_state_bytes(&convolution, desc->channels);
}

/* ---- use as a mixer ---------------------------------------------------------------------------------------------- */

static bo_ssm_layer layer_of(const bo_branch *desc)
{
    const bo_block *b = desc->block;
    return (bo_ssm_layer){.kind = b->ssm,
                          .channels = desc->width,
                          .size = b->state_size,
                          .rank = b->state_rank,
                          .kernel = b->kernel,
                          .bias = b->bias,
                          .dropout = desc->dropout,
                          .layer = desc->layer,
                          .tokens = desc->tokens,
                          .max_sequences = desc->max_sequences,
                          .source = desc->source};
}

bo_value bo_nn_ssm_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                         const bo_branch *desc)
{
    (void)positions;
    bo_ssm_layer layer = layer_of(desc);
    return bo_nn_ssm(graph, prefix, x, residual, &layer);
}

size_t bo_nn_ssm_mixer_bytes(const bo_branch *desc)
{
    bo_ssm_layer layer = layer_of(desc);
    return bo_nn_ssm_state_bytes(&layer);
}
