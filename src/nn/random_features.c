/* φ(s x) Wᵀ with frequencies that stay as drawn (Rahimi and Recht 2007): s, one number, and W are learned. In s the layer
 * learns the width of its kernel. */
#include <math.h>
#include "internal.h"

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

bo_value bo_nn_random_features(bo_graph *graph, const char *prefix, bo_value x, bo_value residual,
                               const bo_mlp_layer *desc)
{
    bo_features_attributes map = {desc->features};
    bo_value s = bo_nn_vector(graph, prefix, ".scale", 1, (bo_init){.law = BO_INIT_ONE});
    bo_value scaled = bo_graph_one(graph, BO_OP_SCALE, NULL, 2, (bo_value[]){x, s});
    bo_value z = bo_graph_one(graph, BO_OP_FEATURES, &map, 1, &scaled);
    double size = sqrt((double)bo_graph_columns(graph, z)); /* |φ| is about 1, whatever its length */
    return bo_nn_readout(graph, bo_nn_join(prefix, ".down_proj").text, z, size, residual, desc->bias, desc->dropout,
                         bo_nn_stream(desc->layer, 1));
}
