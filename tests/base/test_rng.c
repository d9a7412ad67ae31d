/* Random numbers: Philox4x32-10 compared with its published answers and with a second implementation; distributions by
 * the Kolmogorov-Smirnov distance to their closed forms and by moments, each with the probability of a false alarm.
 *    KS: P(√n D > t) ≈ 2 exp(-2t²); t = 2.4 is 2e-5.
 *    z-tests: |z| > 4.5 is 7e-6.
 *    χ²: mean + 5 standard deviations. */
#include "base/rng.h"
#include "testing.h"

enum { COUNT = 200000 };
static const double ks_limit = 2.4, z_limit = 4.5;

/* ---- Philox ------------------------------------------------------------------------------------------------------ */

/* Ten rounds, implemented from the paper (Salmon et al. 2011, section 3.3). */
static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
        memcpy(c, next, sizeof c);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

typedef struct reference {
    uint32_t counter[4], key[2], out[4];
} reference;

static uint64_t join(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}

/* The known answers that come with Random123. */
static void test_reference_values(void **state)
{
    (void)state;
    static const reference references[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < 3; i++) {
        const reference *a = &references[i];
        uint32_t output[4];
        philox(a->counter, a->key, output);
        assert_memory_equal(output, a->out, sizeof output);
        bo_rng rng = bo_rng_make(join(a->key[0], a->key[1]), join(a->counter[2], a->counter[3]));
        rng.next = join(a->counter[0], a->counter[1]);
        assert_true(bo_rng_bits(&rng) == join(a->out[0], a->out[1]));
    }
}

static void test_second_implementation(void **state)
{
    (void)state;
    bo_rng where = bo_rng_make(5, 6);
    for (int i = 0; i < 1000; i++) {
        uint64_t seed = bo_rng_bits(&where), stream = bo_rng_bits(&where), index = bo_rng_bits(&where);
        uint32_t out[4];
        philox((uint32_t[]){(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)},
               (uint32_t[]){(uint32_t)seed, (uint32_t)(seed >> 32)}, out);
        bo_rng rng = bo_rng_make(seed, stream);
        rng.next = index;
        assert_true(bo_rng_bits(&rng) == join(out[0], out[1]));
        /* Box-Muller uses both halves of the block */
        double u = ((double)(join(out[0], out[1]) >> 11) + 0.5) / 9007199254740992.0;
        double v = ((double)(join(out[2], out[3]) >> 11) + 0.5) / 9007199254740992.0;
        rng.next = index;
        assert_close(bo_rng_normal(&rng), sqrt(-2 * log(u)) * cos(2 * acos(-1.0) * v), 1e-13);
    }
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* Number `index` depends on the index only: any partition of the work gives the same numbers. */
static void test_any_split(void **state)
{
    (void)state;
    uint64_t whole[300];
    bo_rng rng = bo_rng_make(7, bo_rng_stream("split", 0));
    for (size_t i = 0; i < 300; i++) whole[i] = bo_rng_bits(&rng);
    for (size_t part = 1; part < 60; part += 7)
        for (size_t first = 0; first < 300; first += part) {
            bo_rng part_rng = bo_rng_make(7, bo_rng_stream("split", 0));
            part_rng.next = first;
            for (size_t i = first; i < first + part && i < 300; i++) assert_true(bo_rng_bits(&part_rng) == whole[i]);
        }
}

static void test_streams_differ(void **state)
{
    (void)state;
    enum { STREAMS = 400 };
    uint64_t labels[STREAMS], first[STREAMS];
    for (uint64_t i = 0; i < STREAMS; i++) {
        labels[i] = bo_rng_stream(i % 2 ? "features.frequencies" : "features.frequency", i / 2);
        bo_rng rng = bo_rng_make(1, labels[i]);
        first[i] = bo_rng_bits(&rng);
        for (uint64_t j = 0; j < i; j++) assert_true(labels[i] != labels[j] && first[i] != first[j]);
    }
    bo_rng a = bo_rng_make(1, 2), b = bo_rng_make(2, 2), c = bo_rng_make(1, 2);
    uint64_t bits = bo_rng_bits(&a);
    assert_true(bits != bo_rng_bits(&b) && bits == bo_rng_bits(&c));
}

/* Neighboring streams, as used by the blocks of one draw, are uncorrelated. The mean of n products of independent N(0,
 * 1) has variance 1/n. */
static void test_streams_are_independent(void **state)
{
    (void)state;
    double products = 0;
    bo_rng a = bo_rng_make(3, bo_rng_stream("block", 0)), b = bo_rng_make(3, bo_rng_stream("block", 1));
    for (int i = 0; i < COUNT; i++) products += bo_rng_normal(&a) * bo_rng_normal(&b);
    assert_close(products / sqrt(COUNT), 0, z_limit);
}

/* ---- distributions ----------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* √n times the largest distance between the empirical distribution of the sorted values and `cdf`. */
static double ks_distance(double *values, double (*cdf)(double))
{
    double largest = 0;
    qsort(values, COUNT, sizeof *values, compare);
    for (int i = 0; i < COUNT; i++) {
        double f = cdf(values[i]);
        largest = fmax(largest, fmax(fabs(f - i / (double)COUNT), fabs(f - (i + 1) / (double)COUNT)));
    }
    return sqrt(COUNT) * largest;
}

static double uniform_cdf(double x)
{
    return x;
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

static double gamma_half_cdf(double x) /* half of a χ² variable with one degree of freedom */
{
    return erf(sqrt(x));
}

static double gamma_one_cdf(double x)
{
    return -expm1(-x);
}

static double gamma_four_cdf(double x)
{
    return 1 - exp(-x) * (1 + x + x * x / 2 + x * x * x / 6);
}

static void test_uniform(void **state)
{
    (void)state;
    static double values[COUNT];
    bo_rng rng = bo_rng_make(11, 1);
    double sum = 0;
    for (int i = 0; i < COUNT; i++) {
        values[i] = bo_rng_uniform(&rng);
        assert_true(values[i] > 0 && values[i] < 1);
        sum += values[i] - 0.5;
    }
    assert_close(sum / sqrt(COUNT / 12.0), 0, z_limit);
    assert_true(ks_distance(values, uniform_cdf) < ks_limit);
}

/* Powers of a standard normal: E x² = 1, Var x² = 2; E x⁴ = 3, Var x⁴ = 96. */
static void test_normal(void **state)
{
    (void)state;
    static double values[COUNT];
    bo_rng rng = bo_rng_make(12, 1);
    double first = 0, second = 0, fourth = 0, neighbors = 0, before = 0;
    for (int i = 0; i < COUNT; i++) {
        double x = values[i] = bo_rng_normal(&rng);
        first += x;
        second += x * x - 1;
        fourth += x * x * x * x - 3;
        neighbors += x * before;
        before = x;
    }
    assert_close(first / sqrt(COUNT), 0, z_limit);
    assert_close(second / sqrt(2.0 * COUNT), 0, z_limit);
    assert_close(fourth / sqrt(96.0 * COUNT), 0, z_limit);
    assert_close(neighbors / sqrt(COUNT), 0, z_limit);
    assert_true(ks_distance(values, normal_cdf) < ks_limit);
}

/* Gamma(a): mean a, variance a, fourth central moment 3a² + 6a, so that (x - a)² has variance 2a² + 6a. */
static void test_gamma(void **state)
{
    (void)state;
    static double values[COUNT];
    static const struct {
        double shape;
        double (*cdf)(double);
    } cases[] = {{0.5, gamma_half_cdf}, {1, gamma_one_cdf}, {4, gamma_four_cdf}};
    for (size_t k = 0; k < 3; k++) {
        double a = cases[k].shape, first = 0, second = 0;
        bo_rng rng = bo_rng_make(13, k);
        for (int i = 0; i < COUNT; i++) {
            double x = values[i] = bo_rng_gamma(&rng, a);
            assert_true(x >= 0 && isfinite(x));
            first += x - a;
            second += (x - a) * (x - a) - a;
        }
        assert_close(first / sqrt(a * COUNT), 0, z_limit);
        assert_close(second / sqrt((2 * a * a + 6 * a) * COUNT), 0, z_limit);
        assert_true(ks_distance(values, cases[k].cdf) < ks_limit);
    }
}

/* A bound of 3·2⁶²: plain remainders of 64 bits would be in [0, 2⁶²) half of the time instead of a third. */
static void test_below(void **state)
{
    (void)state;
    bo_rng rng = bo_rng_make(14, 1);
    uint64_t bound = (uint64_t)3 << 62, third = (uint64_t)1 << 62;
    double low = 0;
    for (int i = 0; i < COUNT; i++) {
        uint64_t value = bo_rng_below(&rng, bound);
        assert_true(value < bound);
        low += value < third;
    }
    assert_close((low - COUNT / 3.0) / sqrt(COUNT * 2.0 / 9), 0, z_limit);
    double counts[7] = {0}, chi = 0;
    for (int i = 0; i < COUNT; i++) counts[bo_rng_below(&rng, 7)]++;
    for (int k = 0; k < 7; k++) chi += pow(counts[k] - COUNT / 7.0, 2) / (COUNT / 7.0);
    assert_true(chi < 6 + 5 * sqrt(2 * 6.0));
    for (int i = 0; i < 100; i++) assert_true(bo_rng_below(&rng, 1) == 0);
}

static void test_permutation(void **state)
{
    (void)state;
    bo_rng rng = bo_rng_make(15, 1);
    enum { N = 1000, DRAWS = 24000 };
    static size_t order[N];
    static bool seen[N];
    bo_rng_permutation(&rng, 0, order);
    bo_rng_permutation(&rng, N, order);
    for (size_t i = 0; i < N; i++) {
        assert_true(order[i] < N && !seen[order[i]]);
        seen[order[i]] = true;
    }
    /* all 24 orders of four, equally often */
    double counts[256] = {0}, chi = 0;
    int kinds = 0;
    for (int i = 0; i < DRAWS; i++) {
        bo_rng_permutation(&rng, 4, order);
        counts[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6]++;
    }
    for (int k = 0; k < 256; k++)
        if (counts[k] > 0) kinds++, chi += pow(counts[k] - DRAWS / 24.0, 2) / (DRAWS / 24.0);
    assert_int_equal(kinds, 24);
    assert_true(chi < 23 + 5 * sqrt(2 * 23.0));
}

/* The first numbers of splitmix64 from state 0 (Vigna's reference, Steele et al. 2014), and that seeds differ. */
static void test_hash(void **state)
{
    (void)state;
    assert_true(bo_hash(0, 0) == UINT64_C(0xE220A8397B1DCDAF));
    assert_true(bo_hash(0, 1) == UINT64_C(0x6E789E6AA1B965F4));
    assert_true(bo_hash(0, 2) == UINT64_C(0x06C45D188009454F));
    assert_true(bo_hash(1, 0) != bo_hash(0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_values),
        cmocka_unit_test(test_second_implementation),
        cmocka_unit_test(test_any_split),
        cmocka_unit_test(test_streams_differ),
        cmocka_unit_test(test_streams_are_independent),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_normal),
        cmocka_unit_test(test_gamma),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests_name("base.rng", tests, NULL, NULL);
}
