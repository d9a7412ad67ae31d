/* The kernels and functions of tables, as masks of the values that options do not offer. */
#ifndef CLI_TABLES_MAPS_H
#define CLI_TABLES_MAPS_H

#include <bochner/features.h>

/* Kernels from CUSTOM on are for attention, except those of networks. */
#define CLI_KERNELS_WITHOUT   (~0u << BO_KERNEL_CUSTOM & ~(1u << BO_KERNEL_NNGP | 1u << BO_KERNEL_NTK))
#define CLI_MAPS_WITHOUT      (~0u << BO_FUNCTION_CUSTOM & ~(1u << BO_FUNCTION_NETWORK))
#define CLI_FUNCTIONS_WITHOUT (CLI_MAPS_WITHOUT & ~(1u << BO_FUNCTION_SECTIONS))

#endif
