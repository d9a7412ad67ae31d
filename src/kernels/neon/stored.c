/* The stored numbers of src/kernels/simd/ in this instruction set. */
#if defined(__aarch64__)
#include <string.h>
#include "simd.h"
#include "neon.h"
#include "../simd/stored_body.h"
#endif
