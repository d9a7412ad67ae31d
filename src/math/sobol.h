/* Scrambled Sobol points. Direction numbers are made here and not read from a table: primitive polynomials over GF(2) in
 * ascending order, one a dimension, with initial numbers that are odd and otherwise random (fixed for ever). Any odd choice
 * gives a digital (t, s)-sequence with t = sum of (degree - 1) at most (Sobol 1967); properties A and A' of tuned tables
 * are not promised. Points are scrambled by a random lower triangular matrix and a digital shift (Matousek 1998), so each
 * is uniform on the cube and sums over them are unbiased. */
#ifndef BO_MATH_SOBOL_H
#define BO_MATH_SOBOL_H

#include "../base/base.h"

enum { BO_SOBOL_MOST_DIMENSIONS = 4096 };

/* The first `count` points of the sequence scrambled by `seed`: out (count x dim), strictly between 0 and 1.
 * dim <= BO_SOBOL_MOST_DIMENSIONS, count <= 2^32; counts that are powers of two are balanced. */
bo_status bo_sobol_points(bo_context *context, size_t dim, size_t count, uint64_t seed, double *out);

/* The first `count` primitive polynomials over GF(2), by degree from 1 and then by value: bit i is the coefficient of
 * xⁱ. Needs count < BO_SOBOL_MOST_DIMENSIONS. */
void bo_sobol_polynomials(size_t count, uint32_t *out);

#endif
