#include "layers.h"
#include "../../src/nn/nn.h"

lab_name lab_join(const char *prefix, const char *suffix)
{
    lab_name name;
    snprintf(name.text, sizeof name.text, "%s", bo_nn_join(prefix, suffix).text);
    return name;
}

bo_value lab_graph_one(bo_graph *graph, bo_operation operation, const void *attributes, size_t count,
                       const bo_value *inputs)
{
    return bo_graph_one(graph, operation, attributes, count, inputs);
}

/* ---- images ------------------------------------------------------------------------------------------------------ */

bo_windows lab_windows(lab_image image, size_t kernel, size_t stride, size_t padding)
{
    return bo_nn_windows((bo_image){image.height, image.width}, kernel, stride, padding);
}

lab_image lab_image_after(const bo_windows *windows)
{
    const bo_image image = bo_nn_image_after(windows);
    return (lab_image){image.height, image.width};
}

bo_value lab_convolution(bo_graph *graph, const char *prefix, bo_value x, const bo_windows *windows, size_t out)
{
    return bo_nn_convolution(graph, prefix, x, &(bo_convolution_layer){.windows = *windows, .out = out});
}

bo_value lab_pool(bo_graph *graph, bo_value x, bo_pool_kind kind, const bo_windows *windows)
{
    return bo_nn_pool(graph, x, kind, windows);
}

bo_value lab_batch_norm(bo_graph *graph, const char *prefix, bo_value x, double epsilon, double momentum)
{
    return bo_nn_batch_norm(graph, prefix, x, epsilon, momentum);
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

bo_value lab_noise(bo_graph *graph, bo_value x, bo_noise_kind kind, double amount, uint64_t stream)
{
    return bo_nn_noise(graph, x, kind, amount, stream);
}

bo_value lab_positions(bo_graph *graph, const char *prefix, bo_value x, bo_value positions, bo_positions kind,
                       size_t context)
{
    return bo_nn_positions(graph, prefix, x, positions, kind, context);
}

bo_value lab_recurrent(bo_graph *graph, const char *prefix, bo_value x, size_t size)
{
    return bo_nn_recurrent(graph, prefix, x, &(bo_recurrent_layer){.size = size});
}

bo_value lab_systems(bo_graph *graph, const char *prefix, bo_value u, const lab_systems_desc *d)
{
    const bo_ssm_layer layer = {
        .kind = d->kind, .form = d->form, .channels = d->channels, .size = d->size, .tokens = d->tokens};
    return bo_nn_systems(graph, prefix, u, &layer);
}

bo_value lab_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_mixer kind, size_t width,
                   size_t tokens, size_t sequences)
{
    const bo_block block = {.mixer = kind, .heads = 1};
    const bo_branch layer = {
        .block = &block, .width = width, .context = tokens, .tokens = tokens, .max_sequences = sequences};
    return bo_nn_mixer(graph, prefix, x, residual, 0, &layer);
}

bo_value lab_degree_product(bo_graph *graph, const char *prefix, bo_value x, bo_mlp kind, size_t hidden)
{
    return bo_nn_degree_product(graph, prefix, x, &(bo_block){.mlp = kind, .hidden = hidden});
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

bo_value lab_aggregate(bo_graph *graph, bo_value x, const lab_edges *edges, bo_aggregate_kind kind)
{
    return bo_nn_aggregate(graph, x, &(bo_edges){edges->first, edges->neighbors}, &(bo_aggregate_layer){.kind = kind});
}

bo_value lab_message(bo_graph *graph, const char *prefix, bo_value states, const lab_edges *edges, size_t hidden,
                     bo_aggregate_kind kind)
{
    return bo_nn_message(graph, prefix, states, &(bo_edges){edges->first, edges->neighbors}, hidden,
                         &(bo_aggregate_layer){.kind = kind});
}
