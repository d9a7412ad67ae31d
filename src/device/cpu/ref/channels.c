/* The kernels over channels in plain C: the vector operations with vectors of one float. */
#include "../channels.h"

enum { LANES = 1, MODES = 1, MODES_BACK = 1 };
typedef float v;

static inline v v_load(const float *p)
{
    return *p;
}

static inline void v_store(float *p, v x)
{
    *p = x;
}

static inline v v_set(float x)
{
    return x;
}

static inline v v_add(v a, v b)
{
    return a + b;
}

static inline v v_sub(v a, v b)
{
    return a - b;
}

static inline v v_mul(v a, v b)
{
    return a * b;
}

static inline v v_fma(v a, v b, v c)
{
    return a * b + c;
}

static inline v v_fnma(v a, v b, v c)
{
    return c - a * b;
}

#include "../simd/systems_body.h"
#include "../simd/fourier_body.h"

const bo_channels bo_ref_channels = {run, run_back, read_states, fourier, fourier_back, multiply};
