/* The backward pass of a normalized group for this instruction set. */
#if defined(__aarch64__)
#include "simd.h"
#include "neon.h"
#include "../simd/norm_body.h"
#endif
