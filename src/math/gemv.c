/* Products of few rows with the transpose of a matrix, as in decoding. Nothing is packed: every element is a dot
 * product, and the matrix is read once at the speed of memory. */
#include "gemv.h"
#include <float.h>
#include <math.h>
#include <string.h>
#include "panel.h"
#include "../device/cpu/kernels.h"

enum {
    /* Measured with two threads on a shared Xeon (the fastest tenth of 200 runs, so that both cores were free), one
     * row, B in the second-level cache, tasks of 64 KiB, in turns with one thread: 128 KiB of floats take 1.23 us
     * instead of 1.55, of bfloat16 1.74 instead of 2.59. A batch that a second thread joins therefore costs 0.45 us,
     * and 64 KiB of floats, 0.77 us, would gain nothing. */
    ALONE_BYTES = BO_SIZE(1 << 16, 64),    /* bytes of all B that the calling thread multiplies alone */
    SIZES = 16,                            /* maximum number of different task sizes */
    MIN_TASK_BYTES = BO_SIZE(1 << 15, 32), /* bytes of the smallest tasks */
    /* lines that are multiplied at a time: with all rows, and before their sums are added to the initial value of C */
    LINES = BO_SIZE(64, 8),
};

/* Tasks of equal size: the first line of the first task, and the lines per task. */
typedef struct task_size {
    size_t first, each;
} task_size;

typedef struct gemv_job {
    const bo_kernels *kernels;
    size_t m, k;
    size_t lines, threads; /* lines of all products */
    task_size sizes[SIZES];
    size_t last; /* index of the last size */
    float alpha;
    const float *a;
    size_t lda;
    const bo_gemm_product *products;
    const int16_t *whole; /* for BO_STORED_INT8: A in integers, `padded` numbers per row */
    const float *scales;  /* one scale per row of `whole` */
    size_t padded;
    bo_byte_rows bytes; /* for BO_STORED_INT4: A in bytes */
} gemv_job;

bool bo_gemv(bo_precision precision, bool ta, size_t m, size_t k, size_t count, const bo_gemm_product *products)
{
    bool few = !ta && m <= BO_FEW_ROWS;
    if (m > BO_ROWS_AT_ONCE) few = few && precision == BO_PRECISION_FLOAT32 && k >= BO_LONG_LINE;
    for (size_t i = 0; i < count; i++)
        few = few && products[i].tb && (products[i].stored == BO_STORED_FLOAT32 || m <= BO_ROWS_AT_ONCE);
    return few;
}

/* Writes `count` columns of C: the initial value plus alpha times the sum. */
static void finish(const gemv_job *job, const bo_gemm_product *product, size_t first, size_t count, const float *sums)
{
    for (size_t i = 0; i < job->m; i++) {
        float *c = product->c + i * product->ldc + first;
        const float *base = product->base ? product->base + i * product->ldbase + first : c;
        const float *row = product->row ? product->row + first : NULL;
        for (size_t j = 0; j < count; j++) {
            float begin = product->beta == 0 ? 0 : product->beta * base[j];
            if (row) begin += row[j];
            c[j] = begin + job->alpha * sums[i * LINES + j];
        }
    }
}

/* Processes some lines, which stay in the second-level cache, with some rows, which stay in the first-level cache. */
static void multiply_floats(const gemv_job *job, size_t count, const float *lines, size_t ldb, float *sums,
                            size_t stride)
{
    for (size_t j = 0; j < count; j += LINES)
        for (size_t r = 0; r < job->m; r += BO_ROWS_AT_ONCE)
            job->kernels->dots(bo_min(LINES, count - j), bo_min(BO_ROWS_AT_ONCE, job->m - r), job->k, lines + j * ldb,
                               ldb, job->a + r * job->lda, job->lda, sums + r * stride + j, stride);
}

/* Computes the dot products of `count` lines with all rows; `stride` is the row stride of sums. */
static void multiply_lines(const gemv_job *job, const bo_gemm_product *product, size_t first, size_t count, float *sums,
                           size_t stride)
{
    const bo_kernels *kernels = job->kernels;
    size_t bytes = bo_stored_line(product->stored, job->k);
    const char *lines = (const char *)product->b + first * bytes;
    if (product->stored == BO_STORED_BFLOAT16)
        kernels->dots_bf16(count, job->m, job->k, (const void *)lines, job->k, job->a, job->lda, sums, stride);
    else if (product->stored == BO_STORED_INT8)
        kernels->dots_s8(count, job->m, job->k, (const void *)lines, bytes, job->whole, job->padded, job->scales, sums,
                         stride);
    else if (product->stored == BO_STORED_INT4)
        kernels->dots_s4(count, job->m, job->k, (const void *)lines, bytes, &job->bytes, sums, stride);
    else
        multiply_floats(job, count, (const float *)product->b + first * product->ldb, product->ldb, sums, stride);
}

/* Computes lines first … end - 1 of one product. */
static void multiply_part(const gemv_job *job, const bo_gemm_product *product, size_t first, size_t end)
{
    if (product->beta == 0 && !product->row && job->alpha == 1) { /* the sums are C */
        multiply_lines(job, product, first, end - first, product->c + first, product->ldc);
        return;
    }
    for (; first < end; first += LINES) {
        float sums[BO_FEW_ROWS * LINES];
        size_t count = bo_min(LINES, end - first);
        multiply_lines(job, product, first, count, sums, LINES);
        finish(job, product, first, count, sums);
    }
}

/* Task: consecutive lines, which are numbered over all products. Which task computes a line does not change its
 * bits. */
static void few_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const gemv_job *job = arg;
    const task_size *size = job->sizes;
    for (const task_size *last = size + job->last; size < last && index >= job->threads; size++) index -= job->threads;
    size_t first = size->first + index * size->each, end = bo_min(first + size->each, job->lines), start = 0;
    for (const bo_gemm_product *product = job->products; start < end; start += product->n, product++)
        if (first < start + product->n) {
            size_t last = bo_min(end - start, product->n);
            multiply_part(job, product, first - start, last);
            first = start + last;
        }
}

/* Divides the lines among tasks: half of the lines in one task per thread, half of the rest in one task per thread, and
 * so on. Large tasks read much consecutive memory, and the small ones at the end let all threads finish at the same
 * time. Returns the number of tasks. */
static size_t divide(bo_context *context, gemv_job *job, size_t count)
{
    size_t bytes = 0, first = 0, tasks = 0;
    for (size_t i = 0; i < count; i++) {
        job->lines += job->products[i].n;
        bytes += job->products[i].n * bo_stored_line(job->products[i].stored, job->k);
    }
    if (job->lines == 0 || job->m == 0) return 0;
    const bool alone = bytes * job->m <= ALONE_BYTES;
    const size_t min_lines = alone ? job->lines : bo_round_up(bo_ceil_div(MIN_TASK_BYTES, bytes / job->lines + 1), 4);
    job->threads = (size_t)bo_context_threads(context);
    for (task_size *size = job->sizes;; size++, job->last++) {
        size_t left = job->lines - first, each = bo_round_up(bo_ceil_div(left, 2 * job->threads), 4);
        const bool ends = alone || each <= min_lines || job->last + 1 == SIZES;
        *size = (task_size){first, ends ? min_lines : each};
        if (ends) return tasks + bo_ceil_div(left, min_lines);
        first += job->threads * each, tasks += job->threads;
    }
}

/* ---- rows as integers -------------------------------------------------------------------------------------------- */

enum { SCALES = 16 }; /* floats reserved for the scales of the rows: one cache line; the rows follow */

static bool has(bo_stored stored, size_t count, const bo_gemm_product *products)
{
    for (size_t i = 0; i < count; i++)
        if (products[i].stored == stored) return true;
    return false;
}

static size_t padded_row(size_t k)
{
    return bo_round_up(k, BO_S8_GROUP);
}

static size_t byte_length(size_t k)
{
    return bo_round_up(k, BO_S4_BLOCK);
}

/* Bytes of a row of bytes with the starts and scales of its groups, a multiple of 8 bytes. */
static size_t byte_row(size_t k)
{
    size_t length = byte_length(k);
    return length + length / BO_S4_GROUP * (sizeof(int32_t) + sizeof(float));
}

size_t bo_gemv_bytes(size_t m, size_t k, size_t count, const bo_gemm_product *products)
{
    size_t rows = bo_min(m, BO_ROWS_AT_ONCE);
    size_t bytes = 0;
    if (has(BO_STORED_INT8, count, products)) bytes += SCALES * sizeof(float) + rows * padded_row(k) * sizeof(int16_t);
    if (has(BO_STORED_INT4, count, products)) bytes += rows * byte_row(k);
    return bytes;
}

/* Returns the largest absolute value, or NAN if a value is NaN or infinite. Absolute values of floats are ordered like
 * their bits, which the compiler compares in lanes. */
static float largest_size(size_t n, const float *x)
{
    enum { LANES = 16, SIZE = 0x7fffffff };
    int32_t lanes[LANES] = {0}, bits[LANES] = {0};
    for (; n >= LANES; n -= LANES, x += LANES) {
        memcpy(bits, x, sizeof bits);
        for (size_t l = 0; l < LANES; l++) lanes[l] = (bits[l] & SIZE) > lanes[l] ? bits[l] & SIZE : lanes[l];
    }
    memset(bits, 0, sizeof bits);
    memcpy(bits, x, n * sizeof *x);
    for (size_t l = 0; l < LANES; l++) lanes[l] = (bits[l] & SIZE) > lanes[l] ? bits[l] & SIZE : lanes[l];
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t l = 0; l < half; l++) lanes[l] = lanes[l + half] > lanes[l] ? lanes[l + half] : lanes[l];
    float largest;
    memcpy(&largest, lanes, sizeof largest);
    return isfinite(largest) ? largest : NAN;
}

/* Quantizes each row so that its largest absolute value becomes 32767. The error is 2^-16 of that value, less than the
 * error of the bytes that it is multiplied with. A NaN or infinity makes the sums of its row NaN or infinite. */
static void quantize_rows(gemv_job *job, float *workspace)
{
    const bo_kernels *kernels = job->kernels;
    float *scales = workspace;
    int16_t *whole = (int16_t *)(void *)(workspace + SCALES);
    job->scales = scales, job->whole = whole, job->padded = padded_row(job->k);
    for (size_t r = 0; r < job->m; r++, whole += job->padded) {
        const float *row = job->a + r * job->lda;
        scales[r] = largest_size(job->k, row) / 32767;
        kernels->quantize_s16(job->k, scales[r] > 0 ? 1 / scales[r] : 0, row, whole);
        memset(whole + job->k, 0, (job->padded - job->k) * sizeof *whole);
    }
}

/* Writes the 32 numbers of a group to their places (bo_s4_place) and returns -128 times their sum. */
static int32_t place_group(const int8_t *group, int8_t *bytes)
{
    int32_t sum = 0;
    for (size_t word = 0; word < BO_S4_GROUP / 4; word++) /* both halves have four words */
        memcpy(bytes + (2 * (word % 4) + word / 4) * BO_S4_WIDE * 4, group + 4 * word, 4);
    for (size_t i = 0; i < BO_S4_GROUP; i++) sum += group[i];
    return -128 * sum;
}

/* Quantizes one row in groups so that the largest absolute value of a group becomes 127. The error is 1/254 of that
 * value, a small part of the error of the 4-bit codes that it is multiplied with. */
static void quantize_groups(const bo_kernels *kernels, size_t k, const float *row, size_t length, int8_t *bytes,
                            int32_t *starts, float *scales)
{
    for (size_t i = 0; i < length; i += BO_S4_GROUP, scales++, starts++) {
        size_t count = i < k ? bo_min(BO_S4_GROUP, k - i) : 0;
        int8_t group[BO_S4_GROUP] = {0};
        *scales = largest_size(count, row + i) / 127;
        if (*scales >= FLT_MIN) kernels->quantize(count, 1 / *scales, row + i, group);
        *starts = place_group(group, bytes + bo_s4_place(i));
    }
}

static void quantize_to_bytes(gemv_job *job, void *workspace)
{
    size_t length = byte_length(job->k), groups = length / BO_S4_GROUP;
    float *scales = workspace;
    int32_t *starts = (int32_t *)(void *)(scales + job->m * groups);
    int8_t *bytes = (int8_t *)(starts + job->m * groups);
    job->bytes = (bo_byte_rows){.bytes = bytes, .starts = starts, .scales = scales, .length = length};
    for (size_t r = 0; r < job->m; r++)
        quantize_groups(job->kernels, job->k, job->a + r * job->lda, length, bytes + r * length, starts + r * groups,
                        scales + r * groups);
}

void bo_gemv_multiply(bo_context *context, size_t m, size_t k, float alpha, const float *a, size_t lda, size_t count,
                      const bo_gemm_product *products, void *workspace)
{
    gemv_job job = {.kernels = bo_context_kernels(context), .m = m, .k = k, .alpha = alpha, .a = a, .lda = lda};
    job.products = products;
    char *rest = workspace;
    if (has(BO_STORED_INT8, count, products)) {
        quantize_rows(&job, workspace);
        rest += SCALES * sizeof(float) + m * job.padded * sizeof(int16_t);
    }
    if (has(BO_STORED_INT4, count, products)) quantize_to_bytes(&job, rest);
    bo_parallel(context, divide(context, &job, count), few_task, &job);
}
