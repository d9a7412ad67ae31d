/* Direct convolution of images and sequences: one thread per element. For few channels per group, in particular
 * depthwise convolution, which is memory-bound: all taps except the first read rows from caches. Per element of y: taps
 * x in multiply-adds, in forward and for either gradient. The weight gradient is summed in double, per part of the
 * rows, then over the parts. */
#include "columns.cuh"
#include "launches.cuh"
#include "sequences.cuh"

namespace bo {

enum { CONVOLUTION_THREADS = 256 };

/* The output position of a window: a pixel of an image, or a token of a sequence. */
struct conv_place {
    size_t image, y, x; /* image, and position in it; causal: token x of a sequence of rows image … */
    sequence_span sequence;
};

__device__ inline conv_place place_of_row(const bo_gpu_convolution &c, size_t row, const size_t (&size)[2])
{
    if (c.causal) {
        const sequence_span s = sequence_with(c.sequences, row);
        return conv_place{s.first, 0, row - s.first, s};
    }
    return conv_place{row / (size[0] * size[1]), row / size[1] % size[0], row % size[1], {}};
}

/* The element of x under tap (u, v) of a window, for a channel. */
__device__ inline float under_tap(const bo_gpu_convolution &c, const conv_place &p, size_t u, size_t v, size_t channel)
{
    const bo_gpu_windows &w = c.windows;
    const size_t y = p.y * w.stride[0] + u, x = p.x * w.stride[1] + v;
    if (c.causal) {
        if (x >= w.before[1]) return read_one(c.x, (p.image + x - w.before[1]) * w.channels + channel);
        if (!c.states) return 0;
        return ((const float *)((const char *)c.states[p.sequence.index] + c.offset))[x * w.channels + channel];
    }
    if (y < w.before[0] || x < w.before[1] || y - w.before[0] >= w.size[0] || x - w.before[1] >= w.size[1]) return 0;
    const size_t row = (p.image * w.size[0] + y - w.before[0]) * w.size[1] + x - w.before[1];
    return read_one(c.x, row * w.channels + channel);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

__global__ void convolution_kernel(bo_gpu_convolution c)
{
    const bo_gpu_windows &w = c.windows;
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, channels = c.groups * c.out,
                 row = item / channels, o = item % channels, taps = w.kernel[0] * w.kernel[1];
    if (row >= c.places) return;
    const conv_place p = place_of_row(c, row, w.places);
    const size_t from = o / c.out * c.in;
    float sum = 0;
    for (size_t t = 0; t < taps; t++)
        for (size_t i = 0; i < c.in; i++)
            sum += read_one(c.weight, (o * taps + t) * c.in + i) *
                   under_tap(c, p, t / w.kernel[1], t % w.kernel[1], from + i);
    write_one(c.y, item, c.scale * sum + (c.bias.at ? read_one(c.bias, o) : 0.0f));
}

/* The states become the last rows of the old state and x. A thread moves one channel, so that rows are read before they
 * are overwritten. */
__global__ void remember_kernel(bo_gpu_convolution c)
{
    const size_t channels = c.windows.channels, item = (size_t)blockIdx.x * blockDim.x + threadIdx.x,
                 rows = c.windows.before[1], channel = item % channels;
    if (item / channels >= (size_t)c.sequences.sequences) return;
    const sequence_span s = sequence_number(c.sequences, (int)(item / channels));
    const size_t length = s.end - s.first;
    float *memory = (float *)((char *)c.states[s.index] + c.offset);
    for (size_t r = 0; r < rows; r++)
        memory[r * channels + channel] = r + length < rows
                                             ? memory[(r + length) * channels + channel]
                                             : read_one(c.x, (s.first + r + length - rows) * channels + channel);
}

bo_gpu_error convolution(bo_gpu *cuda, const bo_gpu_convolution *c)
{
    const size_t items = c->places * c->groups * c->out;
    if (bo_gpu_error error = launch(cuda, dim3((unsigned)ceil_div(items, CONVOLUTION_THREADS)),
                                    dim3(CONVOLUTION_THREADS), 0, convolution_kernel, *c))
        return error;
    if (!c->update) return nullptr;
    const size_t states = (size_t)c->sequences.sequences * c->windows.channels;
    return launch(cuda, dim3((unsigned)ceil_div(states, CONVOLUTION_THREADS)), dim3(CONVOLUTION_THREADS), 0,
                  remember_kernel, *c);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* The row of y whose window has this pixel under tap (u, v). Returns false if there is none. */
__device__ inline bool row_above(const bo_gpu_convolution &c, const conv_place &pixel, size_t u, size_t v, size_t *row)
{
    const bo_gpu_windows &w = c.windows;
    const size_t y = pixel.y + w.before[0], x = pixel.x + w.before[1];
    if (y < u || x < v || (y - u) % w.stride[0] || (x - v) % w.stride[1]) return false;
    const size_t top = (y - u) / w.stride[0], left = (x - v) / w.stride[1];
    if (c.causal) {
        *row = pixel.image + left;
        return *row < pixel.sequence.end;
    }
    *row = (pixel.image * w.places[0] + top) * w.places[1] + left;
    return top < w.places[0] && left < w.places[1];
}

__global__ void convolution_input_kernel(bo_gpu_convolution_back a)
{
    const bo_gpu_convolution &c = a.of;
    const bo_gpu_windows &w = c.windows;
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, row = item / w.channels,
                 channel = item % w.channels, taps = w.kernel[0] * w.kernel[1];
    if (row >= c.rows) return;
    const conv_place pixel = place_of_row(c, row, w.size);
    const size_t first = channel / c.in * c.out, i = channel % c.in;
    float sum = 0;
    for (size_t t = 0; t < taps; t++) {
        size_t above;
        if (!row_above(c, pixel, t / w.kernel[1], t % w.kernel[1], &above)) continue;
        for (size_t o = first; o < first + c.out; o++)
            sum += read_one(c.weight, (o * taps + t) * c.in + i) * read_one(a.dy, above * c.groups * c.out + o);
    }
    write_one(a.dx, item, c.scale * sum);
}

/* Terms of the weight gradient. Column k is tap k / channels of channel k % channels for depthwise convolution, so
 * neighboring columns read neighboring elements; else column k is element k of the weight. */
struct weight_terms {
    bo_gpu_convolution c;
    bo_gpu_source dy;
    __device__ size_t place(size_t column) const
    {
        const size_t taps = c.windows.kernel[0] * c.windows.kernel[1];
        return c.in == 1 ? column % (c.groups * c.out) * taps + column / (c.groups * c.out) : column;
    }
    __device__ void operator()(size_t row, size_t column, double (&values)[1]) const
    {
        const size_t taps = c.windows.kernel[0] * c.windows.kernel[1], k = place(column), o = k / (taps * c.in),
                     t = k / c.in % taps, width = c.windows.kernel[1];
        const conv_place p = place_of_row(c, row, c.windows.places);
        values[0] = (double)read_one(dy, row * c.groups * c.out + o) *
                    (double)under_tap(c, p, t / width, t % width, o / c.out * c.in + k % c.in);
    }
};

__global__ void weight_totals_kernel(weight_terms terms, const double *partial, size_t parts, size_t columns,
                                     bo_gpu_target to)
{
    const size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    const double total = column_total(partial, parts, 1, 0, columns, column);
    write_one(to, terms.place(column), (float)((double)terms.c.scale * total));
}

__global__ void bias_totals_kernel(const double *partial, size_t parts, size_t columns, bo_gpu_target to)
{
    const size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column < columns) write_one(to, column, (float)column_total(partial, parts, 1, 0, columns, column));
}

bo_gpu_error convolution_back(bo_gpu *cuda, const bo_gpu_convolution_back *a)
{
    const bo_gpu_convolution &c = a->of;
    const size_t items = c.rows * c.windows.channels, channels = c.groups * c.out,
                 weights = channels * c.windows.kernel[0] * c.windows.kernel[1] * c.in,
                 each = part_rows(c.places, a->parts), parts = ceil_div(c.places, each);
    const dim3 block(CONVOLUTION_THREADS);
    const weight_terms terms = {c, a->dy};
    if (a->dx.at)
        if (bo_gpu_error error = launch(cuda, dim3((unsigned)ceil_div(items, CONVOLUTION_THREADS)), block, 0,
                                        convolution_input_kernel, *a))
            return error;
    if (a->dweight.at) {
        if (bo_gpu_error error = column_sums<1>(cuda, c.places, each, weights, terms, a->partial)) return error;
        if (bo_gpu_error error = launch(cuda, dim3((unsigned)ceil_div(weights, CONVOLUTION_THREADS)), block, 0,
                                        weight_totals_kernel, terms, a->partial, parts, weights, a->dweight))
            return error;
    }
    if (!a->dbias.at) return nullptr;
    if (bo_gpu_error error = column_sums<1>(cuda, c.places, each, channels, column_level{a->dy, channels}, a->partial))
        return error;
    return launch(cuda, dim3((unsigned)ceil_div(channels, CONVOLUTION_THREADS)), block, 0, bias_totals_kernel,
                  a->partial, parts, channels, a->dbias);
}

} // namespace bo
