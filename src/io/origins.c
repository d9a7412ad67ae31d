/* Origins of columns. float32 has 24 bits: it rounds the Unix time 1.7e9 to multiples of 128 seconds. The difference
 * from a number near the values is exact in float64 (Sterbenz) and small, so that float32 resolves the range of the
 * column. */
#include "origins.h"
#include <bochner/data.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "../base/rng.h"

/* Values at most FAR ranges from 0 lose two bits of float32 or less. A range below NOISE times the values consists of
 * float64 rounding errors, not of signal, unless the values are integers. Beyond LARGEST_EXACT float32 does not hold
 * all integers, beyond LARGEST_INTEGER float64 does not. */
static const double far_ranges = 4, noise = 0x1p-43, largest_exact = 0x1p24, largest_integer = 0x1p53;

/* An eighth of the distinct values at each end may be far from the rest, if the range of the rest is at most 1/16 of
 * the full range. */
enum { ENDS = 8, NARROWER = 16 };

void bo_sketch_add(bo_value_sketch *sketch, double value)
{
    uint64_t bits;
    if (!(value < 0 || value > 0)) return;
    memcpy(&bits, &value, sizeof bits);
    const uint64_t hash = bo_hash(0, bits);
    const size_t at = hash % BO_SKETCH_VALUES;
    if (hash <= sketch->hash[at]) return;
    sketch->hash[at] = hash;
    sketch->value[at] = value;
}

static double origin_between(double low, double high)
{
    const double largest = fmax(fabs(low), fabs(high)), range = high - low;
    if (!(range >= 0 && largest <= FLT_MAX)) return 0;
    if (range == 0) return largest > largest_exact ? low : 0;
    const bool integers = floor(low) == low && floor(high) == high && largest <= largest_integer;
    if (largest <= far_ranges * range || (range < noise * largest && !integers)) return 0;
    const double unit = exp2(floor(log2(range))); /* few digits, and integers if the range has some */
    return nearbyint((low + range / 2) / unit) * unit;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bo_origin_of(double low, double high, const bo_value_sketch *sketch)
{
    double value[BO_SKETCH_VALUES];
    size_t count = 0;
    for (size_t i = 0; sketch && i < BO_SKETCH_VALUES; i++)
        if (sketch->hash[i]) value[count++] = sketch->value[i];
    if (count >= ENDS && fmax(fabs(low), fabs(high)) <= FLT_MAX) {
        qsort(value, count, sizeof *value, by_value);
        const double first = value[count / ENDS], last = value[count - 1 - count / ENDS];
        const double origin = NARROWER * (last - first) < high - low ? origin_between(first, last) : 0;
        if (origin != 0) return origin;
    }
    return origin_between(low, high);
}

bool bo_origin_narrow(double value, double origin, float *x)
{
    *x = (float)(value - origin);
    return fabs(value) <= FLT_MAX && isfinite(*x);
}

void bo_origins_choose(size_t rows, size_t dim, const double *x, size_t ldx, double *origins)
{
    if (!x || !origins) return;
    for (size_t j = 0; j < dim; j++) {
        double low = INFINITY, high = -INFINITY;
        bo_value_sketch sketch = {0};
        for (size_t i = 0; i < rows; i++) {
            const double value = x[i * ldx + j];
            if (value == 0) continue;
            low = fmin(low, value); /* ignores NaN */
            high = fmax(high, value);
            bo_sketch_add(&sketch, value);
        }
        origins[j] = bo_origin_of(low, high, &sketch);
    }
}

void bo_origins_subtract(size_t rows, size_t dim, const double *x, size_t ldx, const double *origins, float *out)
{
    if (!x || !origins || !out) return;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < dim; j++) out[i * dim + j] = (float)(x[i * ldx + j] - origins[j]);
}
