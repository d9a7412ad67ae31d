/* Activations of UNARY, GLU and losses: kernels by function number, applied to one strip of elements at a time. */
#ifndef BO_BACKEND_CPU_ACTIVATE_H
#define BO_BACKEND_CPU_ACTIVATE_H

#include "blocks.h"

enum { BO_STRIP = BO_SIZE(1024, 8) }; /* floats of intermediate results: a few strips fit into the first-level cache */

_Static_assert((int)BO_UNARY_GELU == (int)BO_CURVE_GELU && (int)BO_UNARY_COUNT == (int)BO_CURVE_COUNT &&
                   (int)BO_UNARY_LOG_SIGMOID == (int)BO_CURVE_LOG_SIGMOID,
               "the same functions in the same order");

static inline bo_curve bo_curve_of(const bo_unary_attributes *attributes)
{
    return (bo_curve)attributes->function;
}

static inline float bo_factor_of(const bo_unary_attributes *attributes)
{
    return attributes->factor != 0 ? (float)attributes->factor : 1;
}

#endif
