/* Pairs of keys and values out of a counter: any of them can be had again at any time. */
#include "bench_recall.h"
#include <math.h>
#include <stdlib.h>

enum { KEYS, NOISE, CODES, LENGTHS, BOOK, PURPOSES };

static uint64_t stream(const recall_pairs *pairs, unsigned purpose, size_t lane, size_t token)
{
    return cli_hash(cli_hash(pairs->seed * PURPOSES + purpose, lane), token);
}

/* A direction: the sum of four uniform numbers is near enough to a normal one. */
static void direction(uint64_t seed, size_t count, float *out)
{
    double norm = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = cli_hash(seed, i);
        const double sum = (double)((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
        out[i] = (float)(sum - 2 * 65535.0);
        norm += (double)out[i] * out[i];
    }
    for (size_t i = 0; i < count; i++) out[i] = (float)(out[i] / sqrt(norm));
}

void recall_pairs_open(recall_pairs *pairs)
{
    pairs->book = cli_allocate(pairs->codes * pairs->width, sizeof *pairs->book, "values");
    for (size_t c = 0; c < pairs->codes; c++)
        direction(stream(pairs, BOOK, 0, c), pairs->width, pairs->book + c * pairs->width);
}

void recall_pairs_close(recall_pairs *pairs)
{
    free(pairs->book);
}

void recall_key(const recall_pairs *pairs, size_t lane, size_t token, float *out)
{
    direction(stream(pairs, KEYS, lane, token), pairs->dim, out);
    if (!pairs->norms) return;
    const double u = (double)(stream(pairs, LENGTHS, lane, token) >> 11) * 0x1p-53;
    for (size_t i = 0; i < pairs->dim; i++) out[i] *= (float)exp2(2 * u - 1);
}

void recall_question(const recall_pairs *pairs, size_t lane, size_t token, float *out)
{
    double norm = 0;
    direction(stream(pairs, KEYS, lane, token), pairs->dim, out);
    const uint64_t seed = stream(pairs, NOISE, lane, token);
    const double each = pairs->noise * sqrt(3 / (double)pairs->dim); /* uniform from -1 to 1 has a variance of 1/3 */
    for (size_t i = 0; i < pairs->dim; i++) {
        out[i] += (float)(each * ((double)(cli_hash(seed, i) >> 11) * 0x1p-52 - 1));
        norm += (double)out[i] * out[i];
    }
    for (size_t i = 0; i < pairs->dim; i++) out[i] = (float)(out[i] / sqrt(norm));
}

size_t recall_code(const recall_pairs *pairs, size_t lane, size_t token)
{
    return (size_t)(stream(pairs, CODES, lane, token) % pairs->codes);
}

size_t recall_nearest(const recall_pairs *pairs, const float *value)
{
    size_t best = 0;
    float most = -INFINITY;
    for (size_t c = 0; c < pairs->codes; c++) {
        const float *code = pairs->book + c * pairs->width;
        float dot = 0;
        for (size_t i = 0; i < pairs->width; i++) dot += code[i] * value[i];
        if (dot > most) most = dot, best = c;
    }
    return best;
}
