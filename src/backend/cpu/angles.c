/* Frequencies of positions: see angles.h. */
#include "angles.h"
#include <assert.h>
#include <math.h>

static const long double two_pi = 6.28318530717958647692528676655900577L;

size_t bo_angles_bytes(size_t width)
{
    return 2 * ((width + 1) / 2) * sizeof(double);
}

bo_angles bo_angles_in(size_t width, void *workspace)
{
    size_t pairs = (width + 1) / 2;
    return (bo_angles){pairs, workspace, (double *)workspace + pairs};
}

/* Returns a frequency in turns per token after scaling. */
static long double scaled(long double turns, const bo_rope_scaling *s)
{
    if (s->kind == BO_ROPE_SCALING_KIND_NONE) return turns;
    const long double slow = turns / (long double)s->factor, original = (long double)s->original;
    if (s->kind == BO_ROPE_SCALING_KIND_LINEAR) return slow;
    const long double periods = original * turns; /* in a text of the first training */
    if (periods < (long double)s->low) return slow;
    if (periods > (long double)s->high) return turns;
    const long double share = (periods - (long double)s->low) / ((long double)s->high - (long double)s->low);
    return (1 - share) * slow + share * turns;
}

/* A position uses 31 of the 53 bits of a double, which leaves 22 bits for `high`, relative to its frequency.
 * Frequencies are a geometric series; long double keeps their products exact to double. */
void bo_angles_part(size_t width, double base, const bo_rope_scaling *scaling, size_t first, size_t count, double *high,
                    double *low)
{
    const long double ratio = powl((long double)base, -2 / (long double)width);
    long double plain = powl((long double)base, -2 * (long double)first / (long double)width) / two_pi;
    for (size_t i = 0; i < count; i++, plain *= ratio) {
        const long double turns = scaled(plain, scaling);
        int exponent;
        double mantissa = frexp((double)turns, &exponent);
        high[i] = ldexp(floor(ldexp(mantissa, 22)), exponent - 22);
        low[i] = (double)(turns - (long double)high[i]);
    }
}

void bo_angles_fill(size_t width, double base, const bo_rope_scaling *scaling, void *workspace)
{
    bo_angles angles = bo_angles_in(width, workspace);
    bo_angles_part(width, base, scaling, 0, angles.pairs, angles.high, angles.low);
}

/* Returns the nearest integer of |x| < 2^51. Unlike rint, it vectorizes on every architecture. */
static inline double nearest(double x)
{
    return (x + 0x1.8p52) - 0x1.8p52;
}

void bo_angles_sincos(const bo_angles *angles, const bo_kernels *kernels, int32_t position, size_t first, size_t count,
                      float *sine, float *cosine)
{
    assert(count <= BO_ANGLES && first + count <= angles->pairs);
    float angle[BO_ANGLES];
    const double *high = angles->high + first, *low = angles->low + first;
    for (size_t i = 0; i < count; i++) {
        double exact = (double)position * high[i], turns = (exact - nearest(exact)) + (double)position * low[i];
        angle[i] = (float)((turns - nearest(turns)) * (double)two_pi);
    }
    kernels->sincos(count, 1.0f, angle, sine, cosine);
}
