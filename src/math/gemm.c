/* General matrix product on packed panels (Goto and van de Geijn 2008), from one source for both precisions. */
#include <string.h>
#include "linalg.h"
#include "panel.h"
#include "../kernels/kernels.h"

#define TYPE           float
#define GEMM           bo_gemm
#define PACK           bo_pack_f32
#define DEPTH          BO_DEPTH32
#define MICRO          gemm
#define KERNEL         f32
#define JOB            job32
#define PACK_TASK      pack_task32
#define SCALE          scale32
#define TILE_TASK      tile_task32
#define SUPER_BLOCK    super_block32
#define ADD_TRANSPOSED add_transposed32
#define BETTER_SWAPPED better_swapped32
#include "gemm_body.h"

#define TYPE           double
#define GEMM           bo_gemm64
#define PACK           bo_pack_f64
#define DEPTH          BO_DEPTH64
#define MICRO          gemm64
#define KERNEL         f64
#define JOB            job64
#define PACK_TASK      pack_task64
#define SCALE          scale64
#define TILE_TASK      tile_task64
#define SUPER_BLOCK    super_block64
#define ADD_TRANSPOSED add_transposed64
#define BETTER_SWAPPED better_swapped64
#include "gemm_body.h"
