/* The kernels for compact storage types of src/device/cpu/simd/ for this instruction set. */
#if defined(__aarch64__)
#include <string.h>
#include "simd.h"
#include "neon.h"
#include "../simd/stored_body.h"
#endif
