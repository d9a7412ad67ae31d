/* Scrambled Sobol points. Direction numbers are computed rather than read from a table: primitive polynomials over
 * GF(2) in ascending order, one per dimension, with initial numbers that are odd and otherwise random, from a seed that
 * never changes. Any odd choice gives a digital (t, s)-sequence with t at most the sum of (degree - 1) (Sobol 1967);
 * properties A and A' of tuned tables are not guaranteed. Points are scrambled by a random lower triangular matrix and
 * a digital shift (Matousek 1998), so that each is uniform on the cube and sums over them are unbiased. */
#ifndef BO_MATH_SOBOL_H
#define BO_MATH_SOBOL_H

#include "../base/base.h"

enum { BO_SOBOL_MAX_DIMENSIONS = 4096 };

/* Computes the first `count` points of the sequence scrambled by `seed`: out (count x dim), strictly between 0 and 1.
 * Requires dim <= BO_SOBOL_MAX_DIMENSIONS and count <= 2^32. Counts that are powers of two give balanced points. */
bo_status bo_sobol_points(bo_context *context, size_t dim, size_t count, uint64_t seed, double *out);

/* Computes the first `count` primitive polynomials over GF(2), by degree from 1 and then by value; bit i is the
 * coefficient of xⁱ. Requires count < BO_SOBOL_MAX_DIMENSIONS. */
void bo_sobol_polynomials(size_t count, uint32_t *out);

#endif
