/* fft_body.h in both precisions, and the table of both. The including file defines the vector size, LANE_BYTES. */
#include <string.h>
#include "../fft.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 5")
#if defined(__clang__)
#define INDEPENDENT /* clang uses `restrict`; gcc needs the pragma because of the many pointers */
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define REAL    float
#define R(name) name##_f32
#include "fft_body.h"
#undef REAL
#undef R

#define REAL    double
#define R(name) name##_f64
#include "fft_body.h"
#undef REAL
#undef R

#define BO_FFT_KERNELS {forward_f32, forward_f64, inverse_f32, inverse_f64}
