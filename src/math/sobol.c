/* Scrambled Sobol points: polynomials, direction numbers, scrambling, enumeration in Gray-code order. */
#include <string.h>
#include "sobol.h"
#include "panel.h"
#include "../base/rng.h"

enum { INDEX_BITS = 32, DIGITS = 52, BLOCK = BO_SIZE(256, 8) };

/* ---- primitive polynomials --------------------------------------------------------------------------------------- */

/* Returns a b mod p over GF(2), where p has this degree and a and b have lower degree. */
static uint32_t multiply(uint32_t a, uint32_t b, uint32_t p, unsigned degree)
{
    uint32_t product = 0;
    while (b) {
        if (b & 1) product ^= a;
        b >>= 1;
        a <<= 1;
        if (a >> degree & 1) a ^= p;
    }
    return product;
}

static uint32_t power_of_x(uint32_t exponent, uint32_t p, unsigned degree)
{
    uint32_t result = 1, base = degree == 1 ? (2 ^ p) : 2; /* base: x mod p */
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) result = multiply(result, base, p, degree);
        base = multiply(base, base, p, degree);
    }
    return result;
}

/* True if p is primitive: x has order 2^degree - 1 in GF(2)[x] / p. */
static bool primitive(uint32_t p, unsigned degree)
{
    uint32_t order = (UINT32_C(1) << degree) - 1;
    if (!(p & 1) || power_of_x(order, p, degree) != 1) return false;
    uint32_t rest = order;
    for (uint32_t q = 3; rest > 1; q += 2) { /* the order is odd */
        if (q * q > rest) q = rest;
        if (rest % q) continue;
        if (power_of_x(order / q, p, degree) == 1) return false;
        while (rest % q == 0) rest /= q;
    }
    return true;
}

void bo_sobol_polynomials(size_t count, uint32_t *out)
{
    size_t found = 0;
    for (unsigned degree = 1; found < count; degree++) {
        for (uint32_t p = UINT32_C(1) << degree; p >> degree == 1 && found < count; p++) {
            if (primitive(p, degree)) out[found++] = p;
        }
    }
}

/* ---- direction numbers ------------------------------------------------------------------------------------------- */

static unsigned degree_of(uint32_t p)
{
    unsigned degree = 0;
    while (p >> degree > 1) degree++;
    return degree;
}

/* Computes the direction numbers of a dimension. Bit 31 of direction[k] is the first binary digit. Dimension 0 is the
 * van der Corput sequence. */
static void directions_of(size_t dimension, uint32_t polynomial, uint32_t direction[INDEX_BITS])
{
    if (dimension == 0) {
        for (unsigned k = 0; k < INDEX_BITS; k++) direction[k] = UINT32_C(1) << (31 - k);
        return;
    }
    unsigned degree = degree_of(polynomial);
    bo_rng rng = bo_rng_make(0, bo_rng_stream("sobol.initial", dimension));
    for (unsigned k = 0; k < degree; k++) { /* an odd number below 2^(k + 1), as a fraction */
        uint32_t odd = (uint32_t)(bo_rng_bits(&rng) & ((UINT64_C(2) << k) - 1)) | 1;
        direction[k] = odd << (31 - k);
    }
    /* v_k = a_1 v_(k-1) ^ ... ^ a_(s-1) v_(k-s+1) ^ v_(k-s) ^ (v_(k-s) >> s) */
    for (unsigned k = degree; k < INDEX_BITS; k++) {
        uint32_t v = direction[k - degree] ^ (direction[k - degree] >> degree);
        for (unsigned i = 1; i < degree; i++) {
            if (polynomial >> (degree - i) & 1) v ^= direction[k - i];
        }
        direction[k] = v;
    }
}

/* ---- scrambling -------------------------------------------------------------------------------------------------- */

/* Scrambles v. Digit r of the result is digit r of v plus a random combination of the earlier digits; digits beyond
 * those of v are random combinations only. row[r] holds the random coefficients, digit 0 in the highest bit. */
static uint64_t scramble(uint32_t v, const uint32_t row[DIGITS])
{
    uint64_t scrambled = 0;
    for (unsigned r = 0; r < DIGITS; r++) {
        scrambled = scrambled << 1 | (uint64_t)(__builtin_popcount(row[r] & v) & 1);
    }
    return scrambled;
}

static void random_rows(bo_rng *rng, uint32_t row[DIGITS])
{
    for (unsigned r = 0; r < DIGITS; r++) {
        uint32_t bits = (uint32_t)bo_rng_bits(rng);
        if (r < INDEX_BITS) {
            uint32_t digit = UINT32_C(1) << (31 - r);
            /* random coefficients for earlier digits, coefficient 1 for this digit */
            bits = (bits & ~(2 * digit - 1)) | digit;
        }
        row[r] = bits;
    }
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

/* directions: INDEX_BITS numbers per dimension at [k * dim + dimension], so that a step of the Gray code reads one
 * row. */
typedef struct sobol_job {
    size_t dim, count;
    uint64_t seed;
    const uint32_t *polynomials;
    uint64_t *directions, *shift;
    uint64_t *states; /* dim numbers per worker */
    double *out;
} sobol_job;

static void direction_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const sobol_job *job = arg;
    uint32_t direction[INDEX_BITS], row[DIGITS];
    bo_rng rng = bo_rng_make(job->seed, bo_rng_stream("sobol.scramble", index));
    directions_of(index, index == 0 ? 1 : job->polynomials[index - 1], direction);
    random_rows(&rng, row);
    for (unsigned k = 0; k < INDEX_BITS; k++) job->directions[k * job->dim + index] = scramble(direction[k], row);
    job->shift[index] = bo_rng_bits(&rng) >> (64 - DIGITS);
}

static void exclusive_or(size_t n, uint64_t *restrict state, const uint64_t *restrict with)
{
    for (size_t j = 0; j < n; j++) state[j] ^= with[j];
}

/* Task: one block of points. Point i is the exclusive or of the directions at the bits of the Gray code of i. */
static void point_task(void *arg, size_t index, int worker)
{
    const sobol_job *job = arg;
    uint64_t *state = job->states + (size_t)worker * job->dim;
    uint64_t first = (uint64_t)index * BLOCK, gray = first ^ (first >> 1);
    memcpy(state, job->shift, job->dim * sizeof *state);
    for (unsigned k = 0; k < INDEX_BITS; k++) {
        if (gray >> k & 1) exclusive_or(job->dim, state, job->directions + k * job->dim);
    }
    uint64_t last = bo_min(first + BLOCK, job->count);
    for (uint64_t i = first; i < last; i++) {
        double *row = job->out + i * job->dim;
        for (size_t j = 0; j < job->dim; j++) row[j] = ((double)state[j] + 0.5) * 0x1p-52;
        if (i + 1 < last) exclusive_or(job->dim, state, job->directions + (size_t)__builtin_ctzll(i + 1) * job->dim);
    }
}

bo_status bo_sobol_points(bo_context *context, size_t dim, size_t count, uint64_t seed, double *out)
{
    if (dim > BO_SOBOL_MAX_DIMENSIONS) {
        return bo_fail(context, BO_UNSUPPORTED, "Sobol points: %zu dimensions, expected at most %d", dim,
                       BO_SOBOL_MAX_DIMENSIONS);
    }
    if ((uint64_t)count > UINT64_C(1) << INDEX_BITS) {
        return bo_fail(context, BO_INVALID, "Sobol points: %zu points, expected at most 2^32", count);
    }
    if (dim == 0 || count == 0) return BO_OK;
    size_t workers = (size_t)bo_context_threads(context);
    uint64_t *workspace =
        bo_alloc_raw(context, dim * (INDEX_BITS + 1 + workers), sizeof *workspace, "Sobol directions");
    uint32_t *polynomials = bo_alloc_raw(context, dim, sizeof *polynomials, "Sobol polynomials");
    bo_status status = BO_MEMORY;
    if (workspace && polynomials) {
        bo_sobol_polynomials(dim - 1, polynomials);
        sobol_job job = {.dim = dim, .count = count, .seed = seed, .polynomials = polynomials, .out = out};
        job.directions = workspace;
        job.shift = workspace + dim * INDEX_BITS;
        job.states = job.shift + dim;
        bo_parallel(context, dim, direction_task, &job);
        bo_parallel(context, bo_ceil_div(count, BLOCK), point_task, &job);
        status = BO_OK;
    }
    bo_free(workspace);
    bo_free(polynomials);
    return status;
}
