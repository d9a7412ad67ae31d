/* GEMM of bfloat16 matrices, widened to float32. */
#if defined(__x86_64__)
#include <string.h>
#include "../bf16.h"
#include "simd.h"
#include "../simd/bf16_body.h"

const bo_micro_bf16 bo_avx2_bf16 = {.pack_a = pack_a, .pack_b = pack_b, .exp_line = exp_line, .multiply = multiply};
#endif
