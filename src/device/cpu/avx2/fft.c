/* The Fourier transforms of src/device/cpu/simd/ for this instruction set. */
#if defined(__x86_64__)
#define LANE_BYTES 32
#include "../simd/fft_twice.h"

const bo_fft_kernels bo_avx2_fft = BO_FFT_KERNELS;
#endif
