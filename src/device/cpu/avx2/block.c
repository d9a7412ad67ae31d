/* The kernels on blocks in cache of src/device/cpu/simd/ for this instruction set. */
#if defined(__x86_64__)
#include "simd.h"
#include "avx2.h"

#define TILE_VECTORS 2
#include "../simd/block_body.h"
#endif
