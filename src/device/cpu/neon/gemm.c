/* The GEMM micro-kernels: a tile of 8 rows by three vectors stays in registers over the whole depth. */
#if defined(__aarch64__)
#include <string.h>
#include "neon.h"

#define NAME    bo_neon_gemm_f32
#define PRODUCT float
#define RESULT  float
#define NR      BO_NEON_NR
#include "micro_body.h"

#define NAME    bo_neon_gemm_f32_f64
#define PRODUCT float
#define RESULT  double
#define NR      BO_NEON_NR
#include "micro_body.h"

#define NAME    bo_neon_gemm_f64
#define PRODUCT double
#define RESULT  double
#define NR      BO_NEON_NR64
#include "micro_body.h"
#endif
