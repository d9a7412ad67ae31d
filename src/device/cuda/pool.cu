/* Pooling. A thread computes one element: forward over the pixels of its window, backward over the windows that contain
 * its pixel, in window order. Neighboring threads have neighboring channels, so accesses coalesce; the overlap of
 * windows is read from caches. */
#include "arrays.cuh"
#include "launches.cuh"

namespace bo {

enum { POOL_THREADS = 256 };

/* Pixels of window number `place` along an axis: first … end - 1. */
__device__ inline void window_span(const bo_gpu_windows &w, int axis, size_t place, size_t *first, size_t *end)
{
    const size_t at = place * w.stride[axis], last = at + w.kernel[axis] - w.before[axis];
    *first = at > w.before[axis] ? at - w.before[axis] : 0;
    *end = last < w.size[axis] ? last : w.size[axis];
}

__global__ void pool_kernel(bo_gpu_pool a)
{
    const bo_gpu_windows &w = a.windows;
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, channel = item % w.channels;
    const size_t place = item / w.channels, x = place % w.places[1], y = place / w.places[1] % w.places[0],
                 image = place / (w.places[0] * w.places[1]);
    if (image >= w.images) return;
    size_t top, bottom, left, right;
    window_span(w, 0, y, &top, &bottom);
    window_span(w, 1, x, &left, &right);
    float value = 0;
    int32_t chosen = -1;
    for (size_t r = top; r < bottom; r++)
        for (size_t c = left; c < right; c++) {
            const size_t pixel = r * w.size[1] + c;
            const float x_i = read_one(a.x, (image * w.size[0] * w.size[1] + pixel) * w.channels + channel);
            if (a.mean) {
                value += x_i;
            } else if (chosen < 0 || x_i > value || x_i != x_i) { /* NaN counts as larger than any number */
                value = x_i, chosen = (int32_t)pixel;
            }
        }
    if (a.mean) value *= 1.0f / (float)((bottom - top) * (right - left));
    write_one(a.y, item, value);
    if (a.chosen) a.chosen[item] = chosen;
}

/* The indices of the windows that contain a pixel along an axis: first … end - 1. */
__device__ inline void places_with(const bo_gpu_windows &w, int axis, size_t pixel, size_t *first, size_t *end)
{
    const size_t at = pixel + w.before[axis];
    *first = at < w.kernel[axis] ? 0 : (at - w.kernel[axis]) / w.stride[axis] + 1;
    *end = at / w.stride[axis] + 1;
    if (*end > w.places[axis]) *end = w.places[axis];
}

__global__ void pool_back_kernel(bo_gpu_pool_back a)
{
    const bo_gpu_windows &w = a.windows;
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, channel = item % w.channels;
    const size_t pixels = w.size[0] * w.size[1], pixel = item / w.channels % pixels, image = item / w.channels / pixels;
    if (image >= w.images) return;
    size_t top, bottom, left, right;
    places_with(w, 0, pixel / w.size[1], &top, &bottom);
    places_with(w, 1, pixel % w.size[1], &left, &right);
    float sum = 0;
    for (size_t y = top; y < bottom; y++)
        for (size_t x = left; x < right; x++) {
            const size_t at = ((image * w.places[0] + y) * w.places[1] + x) * w.channels + channel;
            if (a.mean) {
                size_t first[2], end[2];
                window_span(w, 0, y, &first[0], &end[0]);
                window_span(w, 1, x, &first[1], &end[1]);
                sum += 1.0f / (float)((end[0] - first[0]) * (end[1] - first[1])) * read_one(a.dy, at);
            } else if (a.chosen[at] == (int32_t)pixel) {
                sum += read_one(a.dy, at);
            }
        }
    write_one(a.dx, item, sum);
}

bo_gpu_error pool(bo_gpu *cuda, const bo_gpu_pool *a)
{
    const bo_gpu_windows &w = a->windows;
    const size_t items = w.images * w.places[0] * w.places[1] * w.channels;
    return launch(cuda, dim3((unsigned)ceil_div(items, POOL_THREADS)), dim3(POOL_THREADS), 0, pool_kernel, *a);
}

bo_gpu_error pool_back(bo_gpu *cuda, const bo_gpu_pool_back *a)
{
    const bo_gpu_windows &w = a->windows;
    const size_t items = w.images * w.size[0] * w.size[1] * w.channels;
    return launch(cuda, dim3((unsigned)ceil_div(items, POOL_THREADS)), dim3(POOL_THREADS), 0, pool_back_kernel, *a);
}

} // namespace bo
