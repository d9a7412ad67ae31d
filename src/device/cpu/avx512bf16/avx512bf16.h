/* The functions of this directory: AVX-512 with conversion to bfloat16 and products of pairs (VDPBF16PS). */
#ifndef BO_KERNELS_AVX512BF16_H
#define BO_KERNELS_AVX512BF16_H

#include "../bf16.h"

void bo_avx512bf16_pack_a(size_t lines, size_t k, float scale, const float *x, size_t ld, bool along, uint16_t *out);
void bo_avx512bf16_pack_b(size_t lines, size_t k, float scale, const float *x, size_t ld, bool along, uint16_t *out);
float bo_avx512bf16_exp_line(size_t n, const float *x, float shift, size_t depth, uint16_t *line);

#endif
