/* Kernels and functions for tables, as masks of excluded option values. */
#ifndef CLI_TABLES_MAPS_H
#define CLI_TABLES_MAPS_H

#include <bochner/features.h>

/* Kernels from CUSTOM on are for attention, except network kernels. */
#define CLI_KERNELS_WITHOUT (~0u << BO_KERNEL_CUSTOM & ~(1u << BO_KERNEL_NNGP | 1u << BO_KERNEL_NTK))
/* --kernel of fit: the kernels above, and auto. */
enum { CLI_KERNEL_AUTO = BO_KERNEL_NTK + 1 };
#define CLI_FIT_KERNELS_WITHOUT (CLI_KERNELS_WITHOUT & ~(1u << CLI_KERNEL_AUTO))
#define CLI_MAPS_WITHOUT        (~0u << BO_FUNCTION_CUSTOM & ~(1u << BO_FUNCTION_NETWORK | 1u << BO_FUNCTION_LANDMARKS))
#define CLI_FUNCTIONS_WITHOUT   (CLI_MAPS_WITHOUT & ~(1u << BO_FUNCTION_SECTIONS))

/* The first given option of infinite-width networks if the kernel is not a network kernel; NULL: none. */
#define CLI_UNUSED_NETWORK_OPTION(o)                                                                                   \
    ((o)->kernel == BO_KERNEL_NNGP || (o)->kernel == BO_KERNEL_NTK ? NULL                                              \
     : CLI_GIVEN(o, depth)                                         ? "depth"                                           \
     : CLI_GIVEN(o, activation)                                    ? "activation"                                      \
     : CLI_GIVEN(o, weight_variance)                               ? "weight-variance"                                 \
     : CLI_GIVEN(o, bias_variance)                                 ? "bias-variance"                                   \
                                                                   : NULL)

#endif
