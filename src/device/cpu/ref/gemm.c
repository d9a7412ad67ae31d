/* The GEMM micro-kernels in plain C, from one source for both precisions. */
#include "ref.h"

#define NAME    bo_ref_gemm_f32
#define PRODUCT float
#define RESULT  float
#define MR      BO_REF_MR
#define NR      BO_REF_NR
#include "micro_body.h"

#define NAME    bo_ref_gemm_f32_f64
#define PRODUCT float
#define RESULT  double
#define MR      BO_REF_MR
#define NR      BO_REF_NR
#include "micro_body.h"

#define NAME    bo_ref_gemm_f64
#define PRODUCT double
#define RESULT  double
#define MR      BO_REF_MR64
#define NR      BO_REF_NR64
#include "micro_body.h"
