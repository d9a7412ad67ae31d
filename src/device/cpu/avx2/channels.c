/* The kernels over channels of src/device/cpu/simd/ for this instruction set. */
#if defined(__x86_64__)
#include "simd.h"
#include "../channels.h"

enum { MODES = 2, MODES_BACK = 1 }; /* modes that fit in registers together with loaded values */

#include "../simd/systems_body.h"
#include "../simd/fourier_body.h"

const bo_channels bo_avx2_channels = {run, run_back, read_states, fourier, fourier_back, multiply};
#endif
