/* The vector functions of src/device/cpu/simd/ for this instruction set. */
#if defined(__aarch64__)
#include "../ref/ref.h" /* must precede simd.h, which defines ISA */
#include "simd.h"
#include "neon.h"
#include "../simd/trig_body.h"
#include "../simd/vector_body.h"
#include "../simd/curve_body.h"
#include "../simd/pairs_body.h"
#include "../simd/random_body.h"
#include "../simd/dots_body.h"
#endif
