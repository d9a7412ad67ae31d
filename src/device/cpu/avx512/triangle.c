/* The kernels of products without repeats of src/device/cpu/simd/ for this instruction set. */
#if defined(__x86_64__)
#include "simd.h"
#include "avx512.h"
#include "../simd/triangle_body.h"
#endif
