/* The backward pass of a normalized group for this instruction set. */
#if defined(__x86_64__)
#include "simd.h"
#include "avx512.h"
#include "../simd/norm_body.h"
#endif
