/* The kernels over channels of src/kernels/simd/ in this instruction set. */
#if defined(__aarch64__)
#include "simd.h"
#include "../channels.h"

enum { MODES = 2, MODES_BACK = 1 }; /* that leave registers for what is loaded */

#include "../simd/systems_body.h"
#include "../simd/fourier_body.h"

const bo_channels bo_neon_channels = {run, run_back, read_states, fourier, fourier_back, multiply};
#endif
