/* Linear attention for all feature maps, types and sizes: a segment is a tile of rows in shared memory, products are
 * float32 (FFMA). Per token and head, with D features of d columns and C rows per tile: forward 4 d D + 2 C (D + d_v) +
 * 4 D d_v operations, and 4 D d_v / C elements of the sums are read or written. */
#include "features_general.cuh"
#include "launches.cuh"

namespace bo {
namespace features {

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

/* Cuts shared memory into pieces; with at == NULL it only counts bytes. */
struct smem_carver {
    unsigned char *at;
    size_t bytes;
    template <typename N> __host__ __device__ N *array(size_t count)
    {
        N *piece = at ? reinterpret_cast<N *>(at + bytes) : nullptr;
        bytes += (count * sizeof(N) + 15) / 16 * 16;
        return piece;
    }
};

/* Exponents of a tile in the notation of linear.h. */
struct exponents {
    double *b, *c;
    float *r, *remains, *weights;
};

/* All arrays that a kernel may need. */
struct smem_arrays {
    exponents e;
    mapped q, k;
    float *v, *dn;         /* v~ and dn~: tile x (value_dim + 1) */
    float *scores, *p;     /* tile x tile */
    float *dfq, *dfk, *dt; /* gradients of features; of rows after the transform */
    float *dv, *row;       /* tile x value_dim; one value per row */
};

__host__ __device__ inline mapped carve_mapped(const arguments &a, smem_carver &carver, size_t tile)
{
    mapped m;
    m.t = carver.array<float>(tile * (size_t)a.map.dim);
    m.f = carver.array<float>(tile * (size_t)features_stride(a));
    m.scale = carver.array<float>(tile);
    return m;
}

__host__ __device__ inline smem_arrays carve_arrays(const arguments &a, unsigned char *at, bool backward, size_t *bytes)
{
    const size_t tile = (size_t)a.segment, count = (size_t)features_stride(a), values = (size_t)a.call.value_dim;
    smem_carver carver = {at, 0};
    smem_arrays m = {};
    m.e.b = carver.array<double>(tile + 1), m.e.c = carver.array<double>(tile);
    m.e.r = carver.array<float>(tile + 1), m.e.remains = carver.array<float>(tile + 1),
    m.e.weights = carver.array<float>(tile);
    m.q = carve_mapped(a, carver, tile), m.k = carve_mapped(a, carver, tile);
    m.v = carver.array<float>(tile * (values + 1)), m.scores = carver.array<float>(tile * tile);
    m.row = carver.array<float>(tile), m.dn = carver.array<float>(tile * (values + 1));
    if (backward) {
        m.p = carver.array<float>(tile * tile);
        m.dfq = carver.array<float>(tile * count), m.dfk = carver.array<float>(tile * count);
        m.dt = carver.array<float>(tile * (size_t)a.map.dim), m.dv = carver.array<float>(tile * values);
    }
    if (bytes) *bytes = carver.bytes;
    return m;
}

/* ---- parts of kernels, by all threads of a block ----------------------------------------------------------------- */

enum { TOGETHER = 4 }; /* rows for which a thread reuses an element of the sums */

#define FOR_EACH_NUMBER(e, count) for (int e = (int)threadIdx.x; e < (count); e += GENERAL_THREADS)

/* Computes the exponents of the tile's keys, whose log scales are known, after sums with the log scale `begin`. `end`:
 * the log scale of the sums after the tile; NULL: the log scale of its last row. */
template <typename T>
__device__ void find_exponents(const arguments &a, const span &at, int key_head, float begin, const float *end,
                               const float *scales, const exponents &e)
{
    if (threadIdx.x == 0) {
        e.b[0] = 0, e.r[0] = begin;
        for (int u = 0; u < at.count; u++) {
            const float gate = log_gate<T>(a, at.sequence, at.first + (size_t)u, key_head);
            const double entry_scale = (double)scales[u] + (double)log_entry(a, at.first + (size_t)u, key_head, gate);
            e.b[u + 1] = e.b[u] + (double)gate;
            e.c[u] = entry_scale - e.b[u + 1];
            e.r[u + 1] = a.map.scaled ? fmaxf(e.r[u] + gate, (float)entry_scale) : 0.0f;
        }
    }
    __syncthreads();
    const double gates = e.b[at.count];
    const float last = end ? *end : e.r[at.count];
    FOR_EACH_NUMBER(u, at.count + 1) e.remains[u] = remaining(begin, e.b[u], e.r[u]);
    FOR_EACH_NUMBER(j, at.count) e.weights[j] = isinf(e.c[j]) ? 0.0f : (float)exp(e.c[j] + (gates - (double)last));
    __syncthreads();
}

template <typename T> __device__ void load_values(const arguments &a, const span &at, int key_head, float *v)
{
    const int wide = a.call.value_dim + 1;
    const rows_of<const T> x = rows_at((const T *)a.call.v, a.call.strides.v, at, key_head);
    FOR_EACH_NUMBER(e, at.count * wide) v[e] = e % wide < wide - 1 ? to_float(x(e / wide, e % wide)) : 1.0f;
    __syncthreads();
}

__device__ inline float dot(int n, const float *x, const float *y)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum = fmaf(x[i], y[i], sum);
    return sum;
}

/* The factor of key j at row i: exp(c[j] + b[u] - r[u]). */
__device__ inline float pair_weight(const exponents &e, int i, int j)
{
    return isinf(e.c[j]) ? 0.0f : expf((float)(e.c[j] + (e.b[i + 1] - (double)e.r[i + 1])));
}

template <typename T> __device__ void map_keys(const arguments &a, const span &at, int key_head, const mapped &to)
{
    map_rows<T>(a, OF_KEYS, key_head, at.count, rows_at((const T *)a.call.k, a.call.strides.k, at, key_head), to);
}

template <typename T> __device__ void map_queries(const arguments &a, const span &at, int head, const mapped &to)
{
    map_rows<T>(a, OF_QUERIES, head / (a.call.heads / a.call.key_heads), at.count,
                rows_at((const T *)a.call.q, a.call.strides.q, at, head), to);
}

/* The sums that a tile of queries reads: the sums before it, or all sums. */
__device__ inline const float *sums_read(const arguments &a, const span &at, size_t index, int key_head)
{
    return a.call.causal ? a.sums + sums_at(a, index, key_head) : a.totals + sums_at(a, (size_t)at.sequence, key_head);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* The sums of the keys of each segment, from an empty past. Grid: segments, key heads. */
template <typename T> __global__ void sums_kernel(arguments a)
{
    BO_SHARED(shared);
    const smem_arrays m = carve_arrays(a, shared, false, nullptr);
    const int key_head = (int)blockIdx.y, wide = a.call.value_dim + 1, count = a.map.features;
    span at;
    if (!find_segment(a, a.call.keys, blockIdx.x, at)) return;
    float *sums = a.sums + sums_at(a, blockIdx.x, key_head);
    map_keys<T>(a, at, key_head, m.k);
    find_exponents<T>(a, at, key_head, empty_scale(a), nullptr, m.k.scale, m.e);
    load_values<T>(a, at, key_head, m.v);
    FOR_EACH_NUMBER(e, count * wide)
    {
        const int i = e / wide, v = e % wide;
        float sum = 0;
        for (int j = 0; j < at.count; j++)
            sum = fmaf(m.e.weights[j] * m.k.f[j * features_stride(a) + i], m.v[j * wide + v], sum);
        sums[sums_wide(a, i, v)] = sum;
    }
    if (threadIdx.x == 0) sums[0] = m.e.r[at.count], sums_gates(sums) = m.e.b[at.count];
}

/* Numerators, denominators and their log scales, which another kernel divides. */
__device__ inline void store_parts(const arguments &a, const smem_arrays &m, const span &at, int head)
{
    const int wide = a.call.value_dim + 1;
    const rows_of<float> to = rows_at(a.numerators, without_gaps(a.call.heads, a.call.value_dim), at, head);
    FOR_EACH_NUMBER(e, at.count * wide)
    {
        const int i = e / wide, v = e % wide;
        const size_t row = (at.first + (size_t)i) * (size_t)a.call.heads + (size_t)head;
        if (v < wide - 1)
            to(i, v) = m.dn[e];
        else
            a.norms[row] = m.dn[e], a.tops[row] = m.q.scale[i] + m.e.r[i + 1];
    }
}

/* The outputs of each segment. Grid: segments of queries, heads. */
template <typename T> __global__ void outputs_kernel(arguments a)
{
    BO_SHARED(shared);
    const smem_arrays m = carve_arrays(a, shared, false, nullptr);
    const int head = (int)blockIdx.y, group = a.call.heads / a.call.key_heads, key_head = head / group;
    const int wide = a.call.value_dim + 1, count = a.map.features, tile = a.segment;
    const bool causal = a.call.causal;
    const size_t key_heads = (size_t)a.call.key_heads;
    span at;
    if (!find_segment(a, a.call.queries, blockIdx.x, at)) return;
    const float *sums = sums_read(a, at, blockIdx.x, key_head);
    if (causal) {
        map_keys<T>(a, at, key_head, m.k);
        find_exponents<T>(a, at, key_head, a.begins[blockIdx.x * key_heads + (size_t)key_head], nullptr, m.k.scale,
                          m.e);
        load_values<T>(a, at, key_head, m.v);
        if (head % group == 0) FOR_EACH_NUMBER(u, at.count)
        a.scales[(at.first + (size_t)u) * key_heads + (size_t)key_head] = m.e.r[u + 1];
    }
    map_queries<T>(a, at, head, m.q);
    FOR_EACH_NUMBER(e, causal ? at.count * at.count : 0)
    {
        const int i = e / at.count, j = e % at.count;
        m.scores[i * tile + j] =
            j <= i ? pair_weight(m.e, i, j) * dot(count, m.q.f + i * features_stride(a), m.k.f + j * features_stride(a))
                   : 0.0f;
    }
    __syncthreads();
    FOR_EACH_NUMBER(e, (at.count + TOGETHER - 1) / TOGETHER * wide)
    {
        const int first = e / wide * TOGETHER, v = e % wide;
        float sum[TOGETHER] = {};
        for (int f = 0; f < count; f++) {
            const float s = sums[sums_wide(a, f, v)];
#pragma unroll
            for (int r = 0; r < TOGETHER; r++)
                if (first + r < at.count) sum[r] = fmaf(m.q.f[(first + r) * features_stride(a) + f], s, sum[r]);
        }
#pragma unroll
        for (int r = 0; r < TOGETHER; r++) {
            const int i = first + r;
            float within = 0;
            if (i >= at.count) break;
            for (int j = 0; causal && j <= i; j++) within = fmaf(m.scores[i * tile + j], m.v[j * wide + v], within);
            m.dn[i * wide + v] = causal ? fmaf(m.e.remains[i + 1], sum[r], within) : sum[r];
        }
    }
    __syncthreads();
    if (a.numerators) {
        store_parts(a, m, at, head);
        return;
    }
    const rows_of<T> out = rows_at((T *)a.call.out, a.call.strides.out, at, head);
    FOR_EACH_NUMBER(e, at.count * wide)
    {
        const int i = e / wide, v = e % wide;
        float factor;
        const float norm = normalize(a, m.dn[i * wide + wide - 1], factor);
        if (v < wide - 1)
            out(i, v) = from_float<T>(factor * m.dn[e]);
        else
            a.norms[(at.first + (size_t)i) * (size_t)a.call.heads + (size_t)head] = norm;
    }
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Memory of a step, in addition to a tile of one row. */
struct step_smem {
    smem_arrays tile;
    float *fq, *z; /* features of all queries of the group; z */
    float *n;      /* parts of the numerators: GENERAL_THREADS x STEP_HEADS floats */
};

enum { STEP_HEADS = 4, STEP_ROWS = 4 }; /* query heads, and rows of S of a thread, at a time */

__host__ __device__ inline step_smem carve_step_arrays(arguments a, unsigned char *at, size_t *bytes)
{
    step_smem m;
    size_t used;
    a.segment = 1;
    m.tile = carve_arrays(a, at, false, &used);
    smem_carver carver = {at, used};
    m.fq = carver.array<float>((size_t)(a.call.heads / a.call.key_heads * a.map.features));
    m.z = carver.array<float>((size_t)a.map.features);
    m.n = carver.array<float>((size_t)GENERAL_THREADS * STEP_HEADS * 4);
    if (bytes) *bytes = carver.bytes;
    return m;
}

/* S = kept S + weight f vᵀ (unless `again`), and its products with the features of `heads` queries, for E columns of v
 * from `column` on: every `parts`-th row from `part` on. */
template <int E>
__device__ void step_columns(const arguments &a, const step_smem &m, float *s, bool again, int column, int part,
                             int parts, int head, int heads)
{
    typedef pack<float, E> numbers;
    const int count = a.map.features, values = a.call.value_dim;
    const float kept = m.tile.e.remains[1], weight = m.tile.e.weights[0];
    float sums[STEP_HEADS][E] = {};
    for (int first = part; first < count; first += STEP_ROWS * parts) {
        numbers rows[STEP_ROWS];
#pragma unroll
        for (int r = 0; r < STEP_ROWS; r++)
            if (first + r * parts < count)
                rows[r] = *reinterpret_cast<const numbers *>(s + (first + r * parts) * values + column);
#pragma unroll
        for (int r = 0; r < STEP_ROWS; r++) {
            const int i = first + r * parts;
            if (i >= count) break;
            for (int e = 0; e < E && !again; e++)
                rows[r].at[e] = kept * rows[r].at[e] + weight * m.tile.k.f[i] * m.tile.v[column + e];
            if (!again) *reinterpret_cast<numbers *>(s + i * values + column) = rows[r];
#pragma unroll
            for (int h = 0; h < STEP_HEADS; h++)
                for (int e = 0; e < E && h < heads; e++)
                    sums[h][e] = fmaf(m.fq[(head + h) * count + i], rows[r].at[e], sums[h][e]);
        }
    }
    for (int h = 0; h < heads; h++)
        for (int e = 0; e < E; e++) m.n[((int)threadIdx.x * STEP_HEADS + h) * E + e] = sums[h][e];
}

/* z = kept z + weight f, in the state and in shared memory. */
__device__ inline void step_z(const arguments &a, const step_smem &m, float *z)
{
    const float kept = m.tile.e.remains[1], weight = m.tile.e.weights[0];
    FOR_EACH_NUMBER(i, a.map.features) z[i] = m.z[i] = kept * z[i] + weight * m.tile.k.f[i];
    __syncthreads();
}

/* The outputs of some query heads of a group from the parts of their numerators, for columns [column, column +
 * wide). */
template <typename T, int E>
__device__ void step_outputs(const arguments &a, const step_smem &m, const span &at, int key_head, int head, int heads,
                             int column, int wide, int parts)
{
    const int group = a.call.heads / a.call.key_heads, count = a.map.features;
    __syncthreads();
    for (int h = (int)threadIdx.x / WARP; h < heads; h += GENERAL_WARPS) {
        float sum = 0, factor;
        for (int i = (int)threadIdx.x % WARP; i < count; i += WARP)
            sum = fmaf(m.fq[(head + h) * count + i], m.z[i], sum);
        normalize(a, warp_sum(sum), factor);
        const rows_of<T> out = rows_at((T *)a.call.out, a.call.strides.out, at, key_head * group + head + h);
        for (int v = (int)threadIdx.x % WARP; v < wide; v += WARP) {
            float n = 0;
            for (int p = 0; p < parts; p++) n += m.n[((v / E + p * (wide / E)) * STEP_HEADS + h) * E + v % E];
            out(0, column + v) = from_float<T>(factor * n);
        }
    }
    __syncthreads();
}

/* All outputs of a token, in blocks of columns and heads. */
template <typename T, int E>
__device__ void step_token(const arguments &a, const step_smem &m, const span &at, int key_head, float *s)
{
    const int values = a.call.value_dim, group = a.call.heads / a.call.key_heads, thread = (int)threadIdx.x;
    for (int column = 0; column < values; column += GENERAL_THREADS * E) {
        const int wide = min(values - column, GENERAL_THREADS * E), lanes = wide / E, parts = GENERAL_THREADS / lanes;
        for (int head = 0; head < group; head += STEP_HEADS) {
            const int heads = min(group - head, (int)STEP_HEADS);
            if (thread < lanes * parts)
                step_columns<E>(a, m, s, head > 0, column + thread % lanes * E, thread / lanes, parts, head, heads);
            step_outputs<T, E>(a, m, at, key_head, head, heads, column, wide, parts);
        }
    }
}

/* One block per sequence and key head reads the tokens of its sequence one by one: for passes of about one token per
 * sequence. It reads and writes the sums once per token. */
template <typename T> __global__ void steps_kernel(arguments a)
{
    BO_SHARED(shared);
    const step_smem m = carve_step_arrays(a, shared, nullptr);
    const int sequence = (int)(blockIdx.x / (unsigned)a.call.key_heads),
              key_head = (int)(blockIdx.x % (unsigned)a.call.key_heads), group = a.call.heads / a.call.key_heads;
    const size_t end = first_row(a.call.queries, sequence + 1);
    float *sums = state_sums(a, sequence, key_head), *s = sums + sums_s(a);
    for (span at = {sequence, 1, first_row(a.call.queries, sequence)}; at.first < end; at.first++) {
        map_keys<T>(a, at, key_head, m.tile.k);
        find_exponents<T>(a, at, key_head, sums[0], nullptr, m.tile.k.scale, m.tile.e);
        load_values<T>(a, at, key_head, m.tile.v);
        for (int g = 0; g < group; g++) {
            mapped to = m.tile.q;
            to.f = m.fq + g * a.map.features;
            map_queries<T>(a, at, key_head * group + g, to);
        }
        if (threadIdx.x == 0) sums[0] = m.tile.e.r[1];
        step_z(a, m, sums + sums_z());
        if (a.call.value_dim % 4 == 0)
            step_token<T, 4>(a, m, at, key_head, s);
        else
            step_token<T, 1>(a, m, at, key_head, s);
    }
}

template <typename T> static bo_gpu_error forward(bo_gpu *cuda, const arguments *a)
{
    size_t shared;
    carve_arrays(*a, nullptr, false, &shared);
    const bo_gpu_attention &c = a->call;
    bo_gpu_error error = nullptr;
    if (a->steps) {
        carve_step_arrays(*a, nullptr, &shared);
        return launch(cuda, dim3((unsigned)(c.queries.sequences * c.key_heads)), dim3(GENERAL_THREADS), shared,
                      steps_kernel<T>, *a);
    }
    if (c.k)
        error = launch(cuda, dim3((unsigned)tiles_of(c.keys, a->segment), (unsigned)c.key_heads), dim3(GENERAL_THREADS),
                       shared, sums_kernel<T>, *a);
    if (!error) error = scan(cuda, a);
    if (error || !c.q) return error;
    return launch(cuda, dim3((unsigned)tiles_of(c.queries, a->segment), (unsigned)c.heads), dim3(GENERAL_THREADS),
                  shared, outputs_kernel<T>, *a);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* dn~ of the rows of one head: o = n / denominator. No gradient flows where it would exceed 1e36. */
template <typename T> __device__ void output_gradients(const arguments &a, const span &at, int head, float *dn)
{
    const int values = a.call.value_dim, wide = values + 1, lane = (int)threadIdx.x % WARP;
    const rows_of<const T> out = rows_at((const T *)a.call.out, a.call.strides.out, at, head);
    const rows_of<const T> dout = rows_at((const T *)a.call.dout, a.call.strides.dout, at, head);
    for (int i = (int)threadIdx.x / WARP; i < at.count; i += GENERAL_WARPS) {
        const float norm = a.norms[(at.first + (size_t)i) * (size_t)a.call.heads + (size_t)head];
        float factor = isfinite(norm) ? 1 / fabsf(norm) : 0.0f, max_size = 0;
        double sum = 0;
        for (int v = lane; v < values; v += WARP) {
            const float dO = to_float(dout(i, v));
            max_size = fmaxf(max_size, fabsf(factor * dO));
            sum += (double)dO * (double)to_float(out(i, v));
        }
        const float inner = (float)warp_sum_double(sum), last = norm > 0 && factor > 0 ? -factor * inner : 0.0f;
        const bool fits = fmaxf(warp_max(max_size), fabsf(last)) <= 1e36f;
        for (int v = lane; v < values; v += WARP) dn[i * wide + v] = fits ? factor * to_float(dout(i, v)) : 0.0f;
        if (lane == 0) dn[i * wide + values] = fits ? last : 0.0f;
    }
    __syncthreads();
}

/* The gradient of the sums before each segment by its queries. Grid: segments of queries, key heads. */
template <typename T> __global__ void query_sum_gradients_kernel(arguments a)
{
    BO_SHARED(shared);
    const smem_arrays m = carve_arrays(a, shared, false, nullptr);
    const int key_head = (int)blockIdx.y, group = a.call.heads / a.call.key_heads;
    const int wide = a.call.value_dim + 1, count = a.map.features;
    const size_t key_heads = (size_t)a.call.key_heads, head = (size_t)key_head;
    span at;
    if (!find_segment(a, a.call.queries, blockIdx.x, at)) return;
    float *gradients = a.gradients + sums_at(a, blockIdx.x, key_head);
    if (threadIdx.x == 0 && a.call.causal) {
        double gates = 0;
        for (int u = 0; u < at.count; u++) {
            const size_t row = at.first + (size_t)u;
            gates += (double)log_gate<T>(a, at.sequence, row, key_head);
            m.e.remains[u + 1] =
                remaining(a.begins[blockIdx.x * key_heads + head], gates, a.scales[row * key_heads + head]);
        }
    }
    __syncthreads();
    for (int g = 0; g < group; g++) {
        map_queries<T>(a, at, key_head * group + g, m.q);
        output_gradients<T>(a, at, key_head * group + g, m.dn);
        FOR_EACH_NUMBER(e, count * wide)
        {
            const int i = e / wide, v = e % wide;
            float *to = gradients + sums_wide(a, i, v), sum = g ? *to : 0.0f;
            for (int j = 0; j < at.count; j++) {
                const float kept = a.call.causal ? m.e.remains[j + 1] : 1.0f;
                sum = fmaf(kept * m.q.f[j * features_stride(a) + i], m.dn[j * wide + v], sum);
            }
            *to = sum;
        }
        __syncthreads();
    }
}

/* f·df of each row, to column `head` of `heads`. */
__device__ inline void find_flow(const arguments &a, const span &at, int heads, int head, const float *f,
                                 const float *df, double *to)
{
    const int count = a.map.features;
    if (!to) return;
    for (int r = (int)threadIdx.x / WARP; r < at.count; r += GENERAL_WARPS) {
        double sum = 0;
        for (int i = (int)threadIdx.x % WARP; i < count; i += WARP)
            sum += (double)f[r * features_stride(a) + i] * (double)df[r * features_stride(a) + i];
        sum = warp_sum_double(sum);
        if (threadIdx.x % WARP == 0) to[(at.first + (size_t)r) * (size_t)heads + (size_t)head] = sum;
    }
}

/* df = factors ∘ (x S~ᵀ) for the rows x of the segment (tile x (value_dim + 1)); factors NULL: 1. */
__device__ inline void features_through_sums(const arguments &a, const span &at, const float *sums, const float *x,
                                             const float *factors, float *df)
{
    const int count = a.map.features, wide = a.call.value_dim + 1, stride = features_stride(a);
    FOR_EACH_NUMBER(e, (at.count + TOGETHER - 1) / TOGETHER * count)
    {
        const int first = e / count * TOGETHER, i = e % count;
        float sum[TOGETHER] = {};
        for (int v = 0; v < wide; v++) {
            const float s = sums[sums_wide(a, i, v)];
#pragma unroll
            for (int r = 0; r < TOGETHER; r++)
                if (first + r < at.count) sum[r] = fmaf(s, x[(first + r) * wide + v], sum[r]);
        }
#pragma unroll
        for (int r = 0; r < TOGETHER; r++)
            if (first + r < at.count) df[(first + r) * stride + i] = factors ? factors[first + r] * sum[r] : sum[r];
    }
}

/* df_j and dv_j through the sums after the segment. */
__device__ inline void keys_through_sums(const arguments &a, const smem_arrays &m, const span &at, const float *after)
{
    const int count = a.map.features, values = a.call.value_dim;
    features_through_sums(a, at, after, m.v, m.e.weights, m.dfk);
    FOR_EACH_NUMBER(e, at.count * values)
    {
        const int j = e / values, v = e % values;
        float sum = 0;
        for (int i = 0; i < count; i++) sum = fmaf(after[sums_wide(a, i, v)], m.k.f[j * features_stride(a) + i], sum);
        m.dv[e] = m.e.weights[j] * sum;
    }
    __syncthreads();
}

/* df_i through the sums before the segment. */
__device__ inline void queries_through_sums(const arguments &a, const smem_arrays &m, const span &at, const float *sums)
{
    features_through_sums(a, at, sums, m.dn, a.call.causal ? m.e.remains + 1 : nullptr, m.dfq);
    __syncthreads();
}

/* The gradients between queries and keys of the segment: adds to df_i, df_j and dv_j through P and A. */
__device__ inline void within_segment(const arguments &a, const smem_arrays &m, const span &at)
{
    const int count = a.map.features, stride = features_stride(a), values = a.call.value_dim, wide = values + 1;
    const int tile = a.segment, n = at.count;
    FOR_EACH_NUMBER(e, n * n)
    {
        const int i = e / n, j = e % n;
        const float weight = j <= i ? pair_weight(m.e, i, j) : 0.0f;
        m.scores[i * tile + j] =
            j <= i ? weight * dot(count, m.q.f + i * features_stride(a), m.k.f + j * features_stride(a)) : 0.0f;
        m.p[i * tile + j] = j <= i ? weight * dot(wide, m.dn + i * wide, m.v + j * wide) : 0.0f;
    }
    __syncthreads();
    FOR_EACH_NUMBER(e, n * count)
    {
        const int r = e / count, f = e % count;
        float query = m.dfq[r * stride + f], key = m.dfk[r * stride + f];
        for (int j = 0; j <= r; j++) query = fmaf(m.p[r * tile + j], m.k.f[j * stride + f], query);
        for (int i = r; i < n; i++) key = fmaf(m.p[i * tile + r], m.q.f[i * stride + f], key);
        m.dfq[r * stride + f] = query, m.dfk[r * stride + f] = key;
    }
    FOR_EACH_NUMBER(e, n * values)
    {
        const int j = e / values, v = e % values;
        float sum = m.dv[e];
        for (int i = j; i < n; i++) sum = fmaf(m.scores[i * tile + j], m.dn[i * wide + v], sum);
        m.dv[e] = sum;
    }
    __syncthreads();
}

/* The gradients of all query heads of a group in one segment. */
template <typename T>
__device__ void back_queries(const arguments &a, const smem_arrays &m, const span &at, size_t index, int key_head,
                             float *partials)
{
    const int group = a.call.heads / a.call.key_heads;
    for (int g = 0; g < group; g++) {
        const int head = key_head * group + g;
        map_queries<T>(a, at, head, m.q);
        output_gradients<T>(a, at, head, m.dn);
        queries_through_sums(a, m, at, sums_read(a, at, index, key_head));
        if (a.call.causal) within_segment(a, m, at);
        find_flow(a, at, a.call.heads, head, m.q.f, m.dfq, a.flow);
        __syncthreads();
        map_back<T>(a, OF_QUERIES, key_head, at.count, rows_at((const T *)a.call.q, a.call.strides.q, at, head), m.q,
                    m.dfq, m.dt, m.row, rows_at((T *)a.call.dq, a.call.strides.dq, at, head), partials);
    }
}

/* Loads the keys of a segment, and computes their gradients through the sums after it. */
template <typename T>
__device__ void begin_keys(const arguments &a, const smem_arrays &m, const span &at, size_t index, int key_head)
{
    const size_t scale = index * (size_t)a.call.key_heads + (size_t)key_head;
    map_keys<T>(a, at, key_head, m.k);
    find_exponents<T>(a, at, key_head, a.begins[scale], a.ends + scale, m.k.scale, m.e);
    load_values<T>(a, at, key_head, m.v);
    keys_through_sums(a, m, at, a.after + sums_at(a, index, key_head));
}

template <typename T>
__device__ void end_keys(const arguments &a, const smem_arrays &m, const span &at, int key_head, float *partials)
{
    const int values = a.call.value_dim, heads = a.call.key_heads;
    const rows_of<T> dv = rows_at((T *)a.call.dv, a.call.strides.dv, at, key_head);
    FOR_EACH_NUMBER(e, dv.at ? at.count * values : 0) dv(e / values, e % values) = from_float<T>(m.dv[e]);
    find_flow(a, at, heads, key_head, m.k.f, m.dfk, a.key_flow);
    __syncthreads();
    map_back<T>(a, OF_KEYS, key_head, at.count, rows_at((const T *)a.call.k, a.call.strides.k, at, key_head), m.k,
                m.dfk, m.dt, m.row, rows_at((T *)a.call.dk, a.call.strides.dk, at, key_head), partials);
}

/* All gradients of some segments; each block sums the parameter gradients. `of`: selects queries or keys if they are
 * different rows. Grid: blocks, key heads. */
template <typename T> __global__ void gradients_kernel(arguments a, role of, size_t segments)
{
    BO_SHARED(shared);
    const smem_arrays m = carve_arrays(a, shared, true, nullptr);
    const int key_head = (int)blockIdx.y;
    const bo_gpu_rows &rows = of == OF_KEYS ? a.call.keys : a.call.queries;
    float *partials = nullptr;
    if (a.partial_floats)
        partials = a.partials + ((size_t)blockIdx.x * (size_t)a.call.key_heads + blockIdx.y) * a.partial_floats;
    const bool first = a.call.causal || of == OF_QUERIES; /* of the two kernels */
    if (first) FOR_EACH_NUMBER(i, (int)a.partial_floats) partials[i] = 0;
    __syncthreads();
    for (size_t index = blockIdx.x; index < segments; index += gridDim.x) {
        span at;
        if (!find_segment(a, rows, index, at)) continue;
        if (a.call.causal || of == OF_KEYS) begin_keys<T>(a, m, at, index, key_head);
        if (a.call.causal || of == OF_QUERIES) back_queries<T>(a, m, at, index, key_head, partials);
        if (a.call.causal || of == OF_KEYS) end_keys<T>(a, m, at, key_head, partials);
    }
}

template <typename T> static bo_gpu_error backward(bo_gpu *cuda, const arguments *a)
{
    const bo_gpu_attention &c = a->call;
    size_t shared, shared_back;
    carve_arrays(*a, nullptr, false, &shared);
    carve_arrays(*a, nullptr, true, &shared_back);
    const size_t tiles = tiles_of(c.queries, a->segment);
    bo_gpu_error error = launch(cuda, dim3((unsigned)tiles, (unsigned)c.key_heads), dim3(GENERAL_THREADS), shared,
                                query_sum_gradients_kernel<T>, *a);
    if (!error) error = scan_back(cuda, a);
    for (int of = OF_QUERIES; !error && of <= (c.causal ? OF_QUERIES : OF_KEYS); of++) {
        const size_t all = of == OF_QUERIES ? tiles : tiles_of(c.keys, a->segment);
        const dim3 grid((unsigned)(a->partial_floats ? (size_t)a->blocks : all), (unsigned)c.key_heads);
        error = launch(cuda, grid, dim3(GENERAL_THREADS), shared_back, gradients_kernel<T>, *a, (role)of, all);
    }
    if (!error) error = reduce_gate_gradients(cuda, a);
    return error ? error : reduce_parameter_gradients(cuda, a);
}

} // namespace features

bo_gpu_error linear_attention(bo_gpu *cuda, const bo_gpu_linear_attention *a)
{
    if (a->stored) return features::stored_forward(cuda, a);
    if (a->fast) return features::fast_forward(cuda, a);
    return a->call.type == BO_ELEMENT_FLOAT32 ? features::forward<float>(cuda, a) : features::forward<bf16>(cuda, a);
}

bo_gpu_error linear_attention_back(bo_gpu *cuda, const bo_gpu_linear_attention *a)
{
    if (a->stored) return features::stored_backward(cuda, a);
    if (a->fast) return features::fast_backward(cuda, a);
    return a->call.type == BO_ELEMENT_FLOAT32 ? features::backward<float>(cuda, a) : features::backward<bf16>(cuda, a);
}

} // namespace bo
