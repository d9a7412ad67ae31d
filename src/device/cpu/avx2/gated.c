/* The kernels of gated channels of src/device/cpu/simd/ for this instruction set. */
#if defined(__x86_64__)
#include "simd.h"
#include "../kernels.h"
#include "avx2.h"
#include "../simd/gated_body.h"
#endif
