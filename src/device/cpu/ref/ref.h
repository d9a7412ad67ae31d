/* The plain C kernels, declared so that the table and other instruction sets can use single ones. */
#ifndef BO_KERNELS_REF_H
#define BO_KERNELS_REF_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include "../kernels.h"

/* Tiles of the micro-kernels: small enough for the 16 vector registers of any 64-bit CPU. */
enum { BO_REF_MR = 4, BO_REF_NR = 8, BO_REF_MR64 = 4, BO_REF_NR64 = 4, BO_REF_MR8 = 4, BO_REF_NR8 = 8 };

/* exp is normal and finite between ln(FLT_MIN) and ln(FLT_MAX), rounded inward; outside, it is 0 or inf for every
 * instruction set. */
#define BO_EXP_LOWEST  (-0x1.5d589ep6f)
#define BO_EXP_HIGHEST (0x1.62e42ep6f)
/* log|x| is computed for normal x: above the largest subnormal, up to FLT_MAX. */
#define BO_LOG_LOWEST  0x0.fffffep-126f
#define BO_LOG_HIGHEST 0x1.fffffep+127f

#define ISA(name) bo_ref_##name
#include "../functions.h"
#undef ISA

void bo_ref_gram8_pack_a(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
void bo_ref_gram8_pack_b(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
void bo_ref_gram8(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m, size_t n);

#endif
