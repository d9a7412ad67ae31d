/* The step of AdamW of src/kernels/simd/ in this instruction set. */
#if defined(__x86_64__)
#include "avx512.h"
#define ISA(name) bo_avx512_##name
#include "../simd/adamw_body.h"
#endif
