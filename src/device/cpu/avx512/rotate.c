/* The rotations of src/device/cpu/simd/ for this instruction set. */
#if defined(__x86_64__)
#include "avx512.h"
#define ISA(name) bo_avx512_##name
#include "../simd/rotate_body.h"
#endif
