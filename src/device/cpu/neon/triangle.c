/* The kernels of products without repeats of src/device/cpu/simd/ for this instruction set. */
#if defined(__aarch64__)
#include "simd.h"
#include "neon.h"
#include "../simd/triangle_body.h"
#endif
