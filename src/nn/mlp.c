/* The layer between attentions, of any kind: up projection, activation, down projection; random features; products of
 * linear maps and quadratic forms. */
#include <math.h>
#include "internal.h"

/* ====================================================================================================================
 * φ(s x) Wᵀ with frequencies that stay as sampled (Rahimi and Recht 2007). The scalar s and W are learned; s sets
 * the bandwidth of the kernel. */

double bo_nn_unit_gamma(bo_kernel kernel, size_t width)
{
    const double n = (double)width, pi = 3.14159265358979323846;
    switch (kernel) {
    case BO_KERNEL_RBF:
    case BO_KERNEL_RATIONAL_QUADRATIC: /* γ |D|², and E |D|² = 2n */
        return 1 / (2 * n);
    case BO_KERNEL_LAPLACIAN: /* γ |D|₁, and E |D_j| = 2/√π for normal numbers */
        return sqrt(pi) / (2 * n);
    case BO_KERNEL_CAUCHY: /* Σ log(1 + γ² D_j²) ≈ γ² |D|² */
    case BO_KERNEL_MATERN12:
    case BO_KERNEL_MATERN32:
    case BO_KERNEL_MATERN52: /* γ |D| */
        return 1 / sqrt(2 * n);
    default: /* γ x·y */
        return 1 / n;
    }
}

static bo_value random_features(bo_graph *graph, const char *prefix, bo_value x, bo_value residual,
                                const bo_branch *desc)
{
    bo_features_attributes map = {desc->features};
    bo_value s = bo_nn_vector(graph, prefix, ".scale", 1, (bo_weight_init){.kind = BO_WEIGHT_INIT_KIND_ONE});
    bo_value scaled = bo_graph_one(graph, BO_OPERATION_SCALE, NULL, 2, (bo_value[]){x, s});
    bo_value z = bo_graph_one(graph, BO_OPERATION_FEATURES, &map, 1, &scaled);
    double size = sqrt((double)bo_graph_columns(graph, z)); /* |φ| is about 1 for any number of features */
    return bo_nn_output(graph, bo_nn_join(prefix, ".down_proj").text, z, residual,
                        &(bo_output_layer){.bias = bo_block_biases_of(desc->block).mlp,
                                           .factor = size,
                                           .dropout = desc->dropout,
                                           .stream = bo_nn_stream(desc->layer, 1)});
}

/* ====================================================================================================================
 * Layers that are polynomials of their input: products of d linear maps, and quadratic forms. Two measures keep deep
 * stacks of them trainable: the product is normalized (its size is the d-th power of that of x), and the output that is
 * added to the residual stream starts at zero, so that twenty layers start as the identity. The norm has a large ε
 * (BO_NN_SOFT): a product that happens to be small stays small, since enlarging it would enlarge its gradient in
 * every layer. */

bo_value bo_nn_soft_norm(bo_graph *graph, const char *prefix, bo_value y, size_t width)
{
    return bo_nn_norm(graph, prefix, y, &(bo_norm_layer){.width = width, .epsilon = BO_NN_SOFT});
}

bo_value bo_nn_between(bo_graph *graph, const bo_value factors[2])
{
    const bo_product_attributes square = {.first = 2}, powers = {.first = 1, .second = 1, .third = (BO_NN_E - 2) / 2};
    bo_value squares[2];
    for (size_t i = 0; i < 2; i++) squares[i] = bo_graph_one(graph, BO_OPERATION_PRODUCT, &square, 1, &factors[i]);
    bo_value sum = bo_graph_one(graph, BO_OPERATION_ADD, NULL, 2, squares);
    return bo_graph_one(graph, BO_OPERATION_PRODUCT, &powers, 3, (bo_value[]){factors[0], factors[1], sum});
}

bo_value bo_nn_degree_product(bo_graph *graph, const char *prefix, bo_value x, const bo_block *block)
{
    static const char *const suffixes[] = {".factors.0", ".factors.1", ".factors.2", ".factors.3"};
    const bool between = block->mlp == BO_MLP_DEGREE_E;
    const size_t factors = between ? 2 : 2 + (size_t)(block->mlp - BO_MLP_DEGREE_2);
    bo_linear_layer inward = {.out = block->hidden, .bias = bo_block_biases_of(block).mlp};
    bo_value parts[4] = {0};
    bo_nn_linears(graph, prefix, x, factors, suffixes, (bo_linear_layer[]){inward, inward, inward, inward}, parts);
    return between ? bo_nn_between(graph, parts) : bo_graph_one(graph, BO_OPERATION_PRODUCT, NULL, factors, parts);
}

bo_value bo_nn_degree(bo_graph *graph, const char *prefix, bo_value x, const bo_block *block)
{
    bo_value y = bo_nn_degree_product(graph, prefix, x, block);
    return bo_nn_soft_norm(graph, bo_nn_join(prefix, ".norm").text, y,
                           block->hidden / (block->degree_heads ? block->degree_heads : 1));
}

static bo_value degree(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_branch *desc)
{
    bo_value y = bo_nn_degree(graph, prefix, x, desc->block);
    return bo_nn_output(graph, bo_nn_join(prefix, ".down_proj").text, y, residual,
                        &(bo_output_layer){.bias = bo_block_biases_of(desc->block).mlp,
                                           .dropout = desc->dropout,
                                           .stream = bo_nn_stream(desc->layer, 1)});
}

/* y_o = zᵀ W_o z for every column o of the residual stream. z has `hidden` columns: a normalized projection of x or, if
 * it is as wide as x, x itself. */
static bo_value quadratic(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_branch *desc)
{
    const size_t in = desc->block->hidden;
    bo_nn_name name = bo_nn_join(prefix, ".forms.weight");
    bo_weight_desc forms = {
        .name = name.text, .rank = 2, .shape = (size_t[]){bo_graph_columns(graph, residual), in * in}};
    if (in != bo_graph_columns(graph, x)) {
        x = bo_nn_linear(graph, bo_nn_join(prefix, ".in_proj").text, x,
                         &(bo_linear_layer){.out = in, .bias = bo_block_biases_of(desc->block).mlp});
        x = bo_nn_norm(graph, bo_nn_join(prefix, ".norm").text, x,
                       &(bo_norm_layer){.width = in, .epsilon = desc->block->norm_epsilon});
    }
    bo_value y = bo_graph_one(graph, BO_OPERATION_QUADRATIC, NULL, 2, (bo_value[]){x, bo_graph_weight(graph, &forms)});
    y = bo_nn_dropout(graph, y, desc->dropout, bo_nn_stream(desc->layer, 1));
    return bo_graph_one(graph, BO_OPERATION_ADD, NULL, 2, (bo_value[]){residual, y});
}

/* ====================================================================================================================
 * The layer between attentions: up projection, activation, down projection. */

static bo_unary function_of(bo_mlp kind)
{
    switch (kind) {
    case BO_MLP_GELU:
    case BO_MLP_GEGLU:
        return BO_UNARY_GELU;
    case BO_MLP_GELU_TANH:
    case BO_MLP_GEGLU_TANH:
        return BO_UNARY_GELU_TANH;
    case BO_MLP_SILU:
    case BO_MLP_SWIGLU:
        return BO_UNARY_SILU;
    case BO_MLP_RELU:
        return BO_UNARY_RELU;
    default:
        return BO_UNARY_RELU2; /* 2109.08668 */
    }
}

bool bo_nn_mlp_gated(bo_mlp kind)
{
    return kind == BO_MLP_SWIGLU || kind == BO_MLP_GEGLU || kind == BO_MLP_GEGLU_TANH;
}

bool bo_nn_mlp_token_wise(bo_mlp kind)
{
    return bo_nn_mlp_gated(kind) || kind == BO_MLP_RELU2 || kind == BO_MLP_GELU || kind == BO_MLP_GELU_TANH ||
           kind == BO_MLP_RELU || kind == BO_MLP_SILU;
}

static bo_value token_wise(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_branch *desc)
{
    static const char *const suffixes[] = {".gate_proj", ".up_proj"};
    bo_nn_name down = bo_nn_join(prefix, ".down_proj");
    bo_linear_layer inward = {.out = desc->block->hidden, .bias = bo_block_biases_of(desc->block).mlp},
                    both[2] = {inward, inward};
    bo_unary function = function_of(desc->block->mlp);
    double factor = bo_nn_unit_factor(graph, function);
    bo_value hidden, parts[2] = {0};
    if (bo_nn_mlp_gated(desc->block->mlp)) { /* f(x Gᵀ) ∘ x Uᵀ (2002.05202) */
        bo_nn_linears(graph, prefix, x, 2, suffixes, both, parts);
        hidden = bo_graph_one(graph, BO_OPERATION_GLU, &(bo_unary_attributes){.function = function, .factor = factor},
                              2, parts);
    } else {
        bo_nn_linears(graph, prefix, x, 1, suffixes + 1, both, parts);
        hidden = bo_nn_unary(graph, parts[0], function, factor, 0);
    }
    return bo_nn_output(graph, down.text, hidden, residual,
                        &(bo_output_layer){.bias = bo_block_biases_of(desc->block).mlp,
                                           .factor = desc->block->residual_scale,
                                           .dropout = desc->dropout,
                                           .stream = bo_nn_stream(desc->layer, 1),
                                           .norm = desc->norm});
}

bo_value bo_nn_block_mlp(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_branch *desc)
{
    switch (desc->block->mlp) {
    case BO_MLP_NONE:
        return residual;
    case BO_MLP_RANDOM_FEATURES:
        return random_features(graph, prefix, x, residual, desc);
    case BO_MLP_DEGREE_2:
    case BO_MLP_DEGREE_3:
    case BO_MLP_DEGREE_4:
    case BO_MLP_DEGREE_E:
        return degree(graph, prefix, x, residual, desc);
    case BO_MLP_QUADRATIC:
        return quadratic(graph, prefix, x, residual, desc);
    case BO_MLP_RELU2:
    case BO_MLP_GELU:
    case BO_MLP_SWIGLU:
    case BO_MLP_GELU_TANH:
    case BO_MLP_GEGLU:
    case BO_MLP_GEGLU_TANH:
    case BO_MLP_RELU:
    case BO_MLP_SILU:
        return token_wise(graph, prefix, x, residual, desc);
    case BO_MLP_CUSTOM:
    case BO_MLP_LAYERS:
    default:
        return bo_graph_fail(graph, "%s: unknown MLP %d", prefix, (int)desc->block->mlp);
    }
}

bo_value bo_nn_mlp(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_mlp_layer *desc)
{
    BO_RECORD_REQUIRE(graph, prefix, desc);
    if (!bo_nn_reserved(graph, prefix, "bo_mlp_layer", desc->reserved)) return 0;
    const bo_block block = {.mlp = desc->kind,
                            .hidden = desc->hidden,
                            .degree_heads = desc->heads,
                            .bias = desc->bias,
                            .norm_epsilon = desc->epsilon,
                            .residual_scale = desc->factor};
    const bo_branch branch = {.block = &block,
                              .features = desc->features,
                              .dropout = desc->dropout,
                              .layer = desc->layer,
                              .norm = desc->norm};
    return bo_nn_block_mlp(graph, prefix, x, residual, &branch);
}
