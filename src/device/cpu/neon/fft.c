/* The Fourier transforms of src/device/cpu/simd/ for this instruction set. */
#if defined(__aarch64__)
#define LANE_BYTES 16
#include "../simd/fft_twice.h"

const bo_fft_kernels bo_neon_fft = BO_FFT_KERNELS;
#endif
