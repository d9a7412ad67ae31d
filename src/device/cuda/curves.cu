/* Activations (UNARY, GLU) and sums of tensors of different types. Memory-bound: every element is read and written
 * once. With bfloat16, per element: UNARY 4 bytes forward, 6 backward; GLU 6 and 10. 20 to 40 instructions. */
#include "activations.cuh"
#include "arrays.cuh"
#include "launches.cuh"

namespace bo {

/* y = (factor f(x) + offset) b */
template <bool FAST> struct curve_map {
    int function;
    float factor, offset;
    bool gated;
    __device__ void operator()(const float (&x)[2][OCTET], float (&y)[1][OCTET], size_t) const
    {
        activate_all<FAST, false>(function, x[0], y[0]);
#pragma unroll
        for (int i = 0; i < OCTET; i++) {
            y[0][i] = factor * y[0][i] + offset;
            if (gated) y[0][i] *= x[1][i];
        }
    }
};

/* dx = factor f'(x) b dy, db = factor f(x) dy; x[2] is dy. */
template <bool FAST> struct curve_back_map {
    int function;
    float factor;
    bool gated, dx, db;
    __device__ void operator()(const float (&x)[3][OCTET], float (&y)[2][OCTET], size_t) const
    {
        if (dx) activate_all<FAST, true>(function, x[0], y[0]);
        if (db) activate_all<FAST, false>(function, x[0], y[1]);
#pragma unroll
        for (int i = 0; i < OCTET; i++) {
            const float dy = factor * x[2][i];
            if (dx) y[0][i] *= gated ? x[1][i] * dy : dy;
            if (db) y[1][i] *= dy;
        }
    }
};

struct plus_map {
    bool both;
    __device__ void operator()(const float (&x)[2][OCTET], float (&y)[1][OCTET], size_t) const
    {
#pragma unroll
        for (int i = 0; i < OCTET; i++) y[0][i] = both ? x[0][i] + x[1][i] : x[0][i];
    }
};

template <bool FAST> static bo_gpu_error curve_of(bo_gpu *cuda, const bo_gpu_curve *a)
{
    return map_numbers(cuda, a->count, sources<2>{{a->x, a->b}}, targets<1>{{a->y}},
                       curve_map<FAST>{a->function, a->factor, a->offset, a->b.at != nullptr});
}

bo_gpu_error curve(bo_gpu *cuda, const bo_gpu_curve *a)
{
    return a->y.type == BO_ELEMENT_BFLOAT16 ? curve_of<true>(cuda, a) : curve_of<false>(cuda, a);
}

template <bool FAST> static bo_gpu_error curve_back_of(bo_gpu *cuda, const bo_gpu_curve_back *a)
{
    return map_numbers(
        cuda, a->count, sources<3>{{a->x, a->b, a->dy}}, targets<2>{{a->dx, a->db}},
        curve_back_map<FAST>{a->function, a->factor, a->b.at != nullptr, a->dx.at != nullptr, a->db.at != nullptr});
}

bo_gpu_error curve_back(bo_gpu *cuda, const bo_gpu_curve_back *a)
{
    return a->dy.type == BO_ELEMENT_BFLOAT16 ? curve_back_of<true>(cuda, a) : curve_back_of<false>(cuda, a);
}

bo_gpu_error plus(bo_gpu *cuda, const bo_gpu_plus *a)
{
    return map_numbers(cuda, a->count, sources<2>{{a->a, a->b}}, targets<1>{{a->y}}, plus_map{a->b.at != nullptr});
}

} // namespace bo
