/* The NEON kernels, for every 64-bit ARM CPU. */
#ifndef BO_KERNELS_NEON_H
#define BO_KERNELS_NEON_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include "../kernels.h"

/* 24 of the 32 registers hold sums, three hold a row of B, and two hold elements of A. */
enum { BO_NEON_MR = 8, BO_NEON_NR = 12, BO_NEON_NR64 = 6 };

#define ISA(name) bo_neon_##name
#include "../functions.h"
#undef ISA

/* Multiplies slivers that the plain C kernel packs. */
void bo_neon_gram8(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m, size_t n);

#endif
