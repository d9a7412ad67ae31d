/* Fourier transforms in plain C. */
#define LANE_BYTES 16
#include "../simd/fft_twice.h"

const bo_fft_kernels bo_ref_fft = BO_FFT_KERNELS;
