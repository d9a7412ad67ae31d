/* Key-value pairs from a counter, so that every pair can be regenerated at any time. */
#include "../../src/base/rng.h"
#include "recall_internal.h"
#include "../../src/device/cpu/kernels.h"
#include <math.h>

enum { KEYS, NOISE, CODES, LENGTHS, BOOK, PURPOSES };

static uint64_t stream(const bo_recall_pairs *pairs, unsigned purpose, size_t lane, size_t token)
{
    return bo_hash(bo_hash(pairs->seed * PURPOSES + purpose, lane), token);
}

/* A random direction: the sum of four uniform numbers is close enough to normal. */
static void direction(uint64_t seed, size_t count, float *out)
{
    double norm = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = bo_hash(seed, i);
        const double sum = (double)((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
        out[i] = (float)(sum - 2 * 65535.0);
        norm += (double)out[i] * out[i];
    }
    for (size_t i = 0; i < count; i++) out[i] = (float)(out[i] / sqrt(norm));
}

bo_status bo_recall_pairs_open(bo_context *context, bo_recall_pairs *pairs)
{
    pairs->book = bo_alloc_raw(context, pairs->codes, pairs->width * sizeof *pairs->book, "values");
    if (!pairs->book) return BO_MEMORY;
    for (size_t c = 0; c < pairs->codes; c++)
        direction(stream(pairs, BOOK, 0, c), pairs->width, pairs->book + c * pairs->width);
    return BO_OK;
}

void bo_recall_pairs_close(bo_recall_pairs *pairs)
{
    bo_free(pairs->book);
}

void bo_recall_key(const bo_recall_pairs *pairs, size_t lane, size_t token, float *out)
{
    direction(stream(pairs, KEYS, lane, token), pairs->dim, out);
    if (!pairs->norms) return;
    const double u = (double)(stream(pairs, LENGTHS, lane, token) >> 11) * 0x1p-53;
    for (size_t i = 0; i < pairs->dim; i++) out[i] *= (float)exp2(2 * u - 1);
}

void bo_recall_question(const bo_recall_pairs *pairs, size_t lane, size_t token, float *out)
{
    double norm = 0;
    direction(stream(pairs, KEYS, lane, token), pairs->dim, out);
    const uint64_t seed = stream(pairs, NOISE, lane, token);
    /* a uniform number from -1 to 1 has variance 1/3 */
    const double each = pairs->noise * sqrt(3 / (double)pairs->dim);
    for (size_t i = 0; i < pairs->dim; i++) {
        out[i] += (float)(each * ((double)(bo_hash(seed, i) >> 11) * 0x1p-52 - 1));
        norm += (double)out[i] * out[i];
    }
    for (size_t i = 0; i < pairs->dim; i++) out[i] = (float)(out[i] / sqrt(norm));
}

size_t bo_recall_code(const bo_recall_pairs *pairs, size_t lane, size_t token)
{
    return (size_t)(stream(pairs, CODES, lane, token) % pairs->codes);
}

size_t bo_recall_nearest(const bo_context *context, const bo_recall_pairs *pairs, const float *value)
{
    const bo_kernels *kernels = bo_context_kernels(context);
    size_t best = 0;
    float max_dot = -INFINITY;
    for (size_t c = 0; c < pairs->codes; c++) {
        const float dot = kernels->dot(pairs->width, pairs->book + c * pairs->width, value);
        if (dot > max_dot) max_dot = dot, best = c;
    }
    return best;
}
