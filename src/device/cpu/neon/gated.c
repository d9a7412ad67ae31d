/* The kernels of gated channels of src/device/cpu/simd/ for this instruction set. */
#if defined(__aarch64__)
#include "simd.h"
#include "../kernels.h"
#include "neon.h"
#include "../simd/gated_body.h"
#endif
