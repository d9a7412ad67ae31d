/* Linear layers of a few rows (decoding), bound by the memory traffic of the weights: these are read once per 8 rows in
 * their storage type (4, 2, 1 or 0.56 bytes per weight); the rows of x come from the L1 cache. One to eight warps
 * compute a few outputs for up to 8 rows: the minimum that fills the device, so each warp reads as much as possible.
 * The warps split the columns, and their sums are added in a fixed order. 8 rows need 8 multiply-adds per weight, half
 * of the arithmetic throughput during the load of a 2-byte weight. */
#include "device.cuh"
#include "launches.cuh"
#include "stored.cuh"

namespace bo {

enum { THREADS = 256, WARPS = THREADS / WARP, EACH = 8, MAX_ROWS = 8, ENOUGH_WARPS = 2048 };

/* ---- units of eight weights of a line ---------------------------------------------------------------------------- */

template <typename T, int N> __device__ inline void read_floats(const T *from, float *to)
{
    const pack<T, N> in = *reinterpret_cast<const pack<T, N> *>(from);
    for (int i = 0; i < N; i++) to[i] = to_float(in.at[i]);
}

/* A line of INT4 has one unit per 4 bytes, in byte order: elements `place` to place + 3 of a line are the lower halves
 * of the bytes, place + 16 to place + 19 the upper halves. */
struct s4_unit {
    size_t group, place, byte;
};

__device__ inline s4_unit s4_unit_of(size_t columns, size_t unit)
{
    enum { UNITS = S4_WIDE * S4_BYTES / 4 };
    const size_t groups = columns / S4_GROUP, block = unit / UNITS, left = groups - block * S4_WIDE,
                 wide = left < S4_WIDE ? left : (size_t)S4_WIDE, inside = unit % UNITS,
                 group = block * S4_WIDE + inside % wide;
    return {group, group * S4_GROUP + inside / wide * 4, unit * 4};
}

template <int STORED>
__device__ inline void read_weights(const void *w, size_t columns, size_t line, size_t unit, float (&to)[EACH])
{
    if (STORED == BO_ELEMENT_FLOAT32) {
        const float *from = static_cast<const float *>(w) + line * columns + unit * EACH;
        read_floats<float, 4>(from, to), read_floats<float, 4>(from + 4, to + 4);
    } else if (STORED == BO_ELEMENT_BFLOAT16) {
        read_floats<bf16, EACH>(static_cast<const bf16 *>(w) + line * columns + unit * EACH, to);
    } else if (STORED == BO_ELEMENT_INT8) {
        const signed char *from = static_cast<const signed char *>(w) + line * stored_line(BO_ELEMENT_INT8, columns);
        const float scale = reinterpret_cast<const float *>(from + columns)[unit * EACH / S8_GROUP];
        const pack<signed char, 4> *codes = reinterpret_cast<const pack<signed char, 4> *>(from + unit * EACH);
        const pack<signed char, 4> low = codes[0], high = codes[1];
        for (int i = 0; i < 4; i++) to[i] = scale * (float)low.at[i], to[4 + i] = scale * (float)high.at[i];
    } else {
        const unsigned char *from =
            static_cast<const unsigned char *>(w) + line * stored_line(BO_ELEMENT_INT4, columns);
        const s4_unit u = s4_unit_of(columns, unit);
        const float scale = to_float(reinterpret_cast<const bf16 *>(from + columns / S4_GROUP * S4_BYTES)[u.group]);
        const pack<unsigned char, 2> *codes = reinterpret_cast<const pack<unsigned char, 2> *>(from + u.byte);
        const pack<unsigned char, 2> first = codes[0], second = codes[1]; /* lines start at multiples of 2 bytes */
        for (int i = 0; i < 4; i++) {
            const int both = i < 2 ? first.at[i] : second.at[i - 2];
            to[i] = scale * s4_value(both & 15), to[4 + i] = scale * s4_value(both >> 4);
        }
    }
}

/* The elements of x that a unit multiplies. */
template <int STORED> __device__ inline void read_inputs(const bf16 *x, size_t columns, size_t unit, float (&to)[EACH])
{
    if (STORED == BO_ELEMENT_INT4) {
        const size_t place = s4_unit_of(columns, unit).place;
        read_floats<bf16, 4>(x + place, to), read_floats<bf16, 4>(x + place + 16, to + 4);
    } else {
        read_floats<bf16, EACH>(x + unit * EACH, to);
    }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

__device__ inline float number_at(const void *from, bo_element type, size_t i)
{
    return type == BO_ELEMENT_BFLOAT16 ? to_float(static_cast<const bf16 *>(from)[i])
                                       : static_cast<const float *>(from)[i];
}

__device__ inline void finish(const bo_gpu_few_rows &a, const bo_gpu_few_item &item, size_t row, size_t line, float sum)
{
    const size_t at = row * item.n + line;
    float y = a.scale * sum;
    if (item.bias) y += number_at(item.bias, item.bias_type, line);
    if (a.residual) y += a.keep * number_at(a.residual, a.residual_type, at);
    if (item.y_type == BO_ELEMENT_BFLOAT16)
        static_cast<bf16 *>(item.y)[at] = from_float<bf16>(y);
    else
        static_cast<float *>(item.y)[at] = y;
}

/* Adds the products of every `step`-th unit to the sums of LINES lines and ROWS rows. */
template <int STORED, int ROWS, int LINES>
__device__ inline void add_products(const bo_gpu_few_rows &a, const bo_gpu_few_item &item, size_t line, size_t row,
                                    size_t first, size_t step, float (&sums)[LINES][ROWS])
{
#pragma unroll 2
    for (size_t unit = first; unit < a.columns / EACH; unit += step) {
        float w[LINES][EACH];
        for (int l = 0; l < LINES; l++) /* after the last line: the last again */
            read_weights<STORED>(item.w, a.columns, line + l < item.n ? line + l : item.n - 1, unit, w[l]);
        for (int r = 0; r < ROWS; r++) {
            if (ROWS > 1 && row + r >= a.rows) break;
            float x[EACH];
            read_inputs<STORED>(static_cast<const bf16 *>(a.x) + (row + r) * a.columns, a.columns, unit, x);
            for (int l = 0; l < LINES; l++)
                for (int i = 0; i < EACH; i++) sums[l][r] += w[l][i] * x[i];
        }
    }
}

/* `split` warps, 1 to WARPS, compute LINES lines. */
template <int STORED, int ROWS, int LINES>
__global__ void __launch_bounds__(THREADS) few_rows_kernel(bo_gpu_few_rows a, int split)
{
    __shared__ float smem[WARPS][LINES * ROWS];
    const int warp = (int)(threadIdx.x / WARP), lane = (int)(threadIdx.x % WARP), part = warp % split;
    size_t group = (size_t)blockIdx.x * (WARPS / split) + warp / split;
    int at = 0;
    for (int i = 0; i + 1 < BO_GPU_FEW_WEIGHTS; i++) { /* items after the last have no lines */
        const size_t groups = (a.items[i].n + LINES - 1) / LINES;
        if (at == i && group >= groups && a.items[i + 1].n > 0) group -= groups, at = i + 1;
    }
    const bo_gpu_few_item &item = a.items[at];
    const size_t line = group * LINES, row = (size_t)blockIdx.y * ROWS;
    float sums[LINES][ROWS] = {};
    if (line < item.n)
        add_products<STORED, ROWS, LINES>(a, item, line, row, (size_t)(part * WARP + lane), (size_t)(split * WARP),
                                          sums);
    for (int l = 0; l < LINES; l++)
        for (int r = 0; r < ROWS; r++) {
            const float sum = warp_sum(sums[l][r]);
            if (lane == 0) smem[warp][l * ROWS + r] = sum;
        }
    if (split > 1)
        __syncthreads();
    else
        __syncwarp();
    const int l = lane / ROWS, r = lane % ROWS;
    if (part > 0 || lane >= LINES * ROWS || row + r >= a.rows || line + l >= item.n) return;
    float sum = 0;
    for (int other = 0; other < split; other++) sum += smem[warp + other][lane];
    finish(a, item, row + r, line + l, sum);
}

/* The minimum number of warps per line that fills the device. */
static int split_of(size_t groups, size_t columns)
{
    int split = 1;
    while (split < WARPS && groups * split < ENOUGH_WARPS && columns / (2 * split * WARP * EACH) > 0) split *= 2;
    return split;
}

template <int STORED, int ROWS, int LINES> static bo_gpu_error launch_few(bo_gpu *cuda, const bo_gpu_few_rows *a)
{
    size_t groups = 0;
    for (size_t i = 0; i < a->count; i++) groups += ceil_div(a->items[i].n, LINES);
    const int split = split_of(groups, a->columns);
    const dim3 grid((unsigned)ceil_div(groups * split, WARPS), (unsigned)ceil_div(a->rows, ROWS));
    return launch(cuda, grid, dim3(THREADS), 0, few_rows_kernel<STORED, ROWS, LINES>, *a, split);
}

template <int STORED> static bo_gpu_error few_rows_of(bo_gpu *cuda, const bo_gpu_few_rows *a)
{
    return a->rows == 1 ? launch_few<STORED, 1, 4>(cuda, a) : launch_few<STORED, MAX_ROWS, 2>(cuda, a);
}

bo_gpu_error few_rows(bo_gpu *cuda, const bo_gpu_few_rows *a)
{
    switch (a->stored) {
    case BO_ELEMENT_FLOAT32:
        return few_rows_of<BO_ELEMENT_FLOAT32>(cuda, a);
    case BO_ELEMENT_BFLOAT16:
        return few_rows_of<BO_ELEMENT_BFLOAT16>(cuda, a);
    case BO_ELEMENT_INT8:
        return few_rows_of<BO_ELEMENT_INT8>(cuda, a);
    default:
        return few_rows_of<BO_ELEMENT_INT4>(cuda, a);
    }
}

} // namespace bo
