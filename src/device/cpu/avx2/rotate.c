/* The rotations of src/device/cpu/simd/ for this instruction set. */
#if defined(__x86_64__)
#include "avx2.h"
#define ISA(name) bo_avx2_##name
#include "../simd/rotate_body.h"
#endif
