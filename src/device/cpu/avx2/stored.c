/* The kernels for compact storage types of src/device/cpu/simd/ for this instruction set. */
#if defined(__x86_64__)
#include <string.h>
#include "simd.h"
#include "avx2.h"
#include "../simd/stored_body.h"
#endif
