/* The tables that table.c chooses from: one per instruction set. */
#ifndef BO_KERNELS_TABLES_H
#define BO_KERNELS_TABLES_H

#include "kernels.h"

extern const bo_kernels bo_kernels_ref;
#if defined(__x86_64__)
extern const bo_kernels bo_kernels_avx2;
extern const bo_kernels bo_kernels_avx512;
extern const bo_kernels bo_kernels_avx512_vnni; /* a variant with byte products and the same name */
extern const bo_kernels bo_kernels_avx512bf16, bo_kernels_amx;
#elif defined(__aarch64__)
extern const bo_kernels bo_kernels_neon;
#endif

#endif
