/* The passes over rows of src/device/cpu/simd/ for this instruction set. */
#if defined(__aarch64__)
#include "neon.h"
#define ISA(name) bo_neon_##name
#include "../simd/rows64_body.h"
#endif
