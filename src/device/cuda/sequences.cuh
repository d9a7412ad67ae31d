/* Rows that belong to sequences (bo_gpu_rows). */
#ifndef BO_CUDA_SEQUENCES_CUH
#define BO_CUDA_SEQUENCES_CUH

#include "device.cuh"

namespace bo {

/* Sequence `index` has the rows first … end - 1. */
struct sequence_span {
    int index;
    size_t first, end;
};

__device__ inline sequence_span sequence_number(const bo_gpu_rows &rows, int s)
{
    if (!rows.starts) return sequence_span{s, (size_t)s * (size_t)rows.tokens, (size_t)(s + 1) * (size_t)rows.tokens};
    return sequence_span{s, (size_t)rows.starts[s], (size_t)rows.starts[s + 1]};
}

/* The sequence that contains a row: the last one that starts at or before it. */
__device__ inline sequence_span sequence_with(const bo_gpu_rows &rows, size_t row)
{
    if (!rows.starts) return sequence_number(rows, (int)(row / (size_t)rows.tokens));
    int low = 0, high = rows.sequences - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if ((size_t)rows.starts[middle] <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return sequence_number(rows, low);
}

} // namespace bo

#endif
