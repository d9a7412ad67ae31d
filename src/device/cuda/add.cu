/* Sums of tensors. Memory-bound: reads and writes every element once. */
#include "device.cuh"
#include "launches.cuh"

namespace bo {

enum { THREADS = 256 };

template <typename T> __global__ void add_kernel(size_t count, const T *a, const T *b, T *y, bool accumulate)
{
    enum { EACH = 16 / sizeof(T) };
    size_t first = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * EACH;
    if (first + EACH <= count) {
        pack<T, EACH> pa = *reinterpret_cast<const pack<T, EACH> *>(a + first), pb, py;
        if (b) pb = *reinterpret_cast<const pack<T, EACH> *>(b + first);
        if (accumulate) py = *reinterpret_cast<const pack<T, EACH> *>(y + first);
        for (int i = 0; i < EACH; i++) {
            float sum = to_float(pa.at[i]);
            if (b) sum += to_float(pb.at[i]);
            if (accumulate) sum += to_float(py.at[i]);
            py.at[i] = from_float<T>(sum);
        }
        *reinterpret_cast<pack<T, EACH> *>(y + first) = py;
        return;
    }
    for (size_t i = first; i < count; i++) {
        float sum = to_float(a[i]) + (b ? to_float(b[i]) : 0.0f);
        y[i] = from_float<T>(accumulate ? sum + to_float(y[i]) : sum);
    }
}

template <typename T> static bo_gpu_error add_typed(bo_gpu *cuda, const bo_gpu_add *a)
{
    const size_t each = THREADS * (16 / sizeof(T));
    return launch(cuda, dim3((unsigned)ceil_div(a->count, each)), dim3(THREADS), 0, add_kernel<T>, a->count,
                  (const T *)a->a, (const T *)a->b, (T *)a->y, a->accumulate);
}

bo_gpu_error add(bo_gpu *cuda, const bo_gpu_add *a)
{
    return a->type == BO_ELEMENT_FLOAT32 ? add_typed<float>(cuda, a) : add_typed<bf16>(cuda, a);
}

} // namespace bo
