/* Exact separation ranks of polynomial networks with random weights, with inputs split in the middle. */
#include "separation.h"
#include <math.h>
#include <stdio.h>

typedef struct networks {
    lab_run *run;
    bo_rng rng;
    size_t compared, different; /* ranks compared with the number of monomials, and those that differ */
} networks;

static size_t power(size_t base, size_t exponent)
{
    size_t product = 1;
    while (exponent--) product *= base;
    return product;
}

/* Matrices are a few rows larger than the predicted rank, so that a larger rank would be detected. */
static bo_status rank_of(networks *n, const lab_polynomial_desc *desc, size_t *rank)
{
    enum { SPARE = 8 };
    bo_context *context = lab_context(n->run);
    const size_t max_rank = (size_t)lab_monomial_rank(power(desc->degree, desc->layers), desc->inputs / 2);
    lab_polynomial *net;
    BO_TRY(lab_polynomial_create(context, desc, &n->rng, &net));
    const lab_function f = lab_polynomial_function(net);
    const bo_status status = lab_exact_rank(context, &f, max_rank + SPARE, &n->rng, rank);
    lab_polynomial_destroy(net);
    return status;
}

/* `half` inputs on each side, layers as wide as the input. */
static bo_status wide_rank(networks *n, size_t degree, size_t layers, size_t half, size_t *rank)
{
    const lab_polynomial_desc desc = {degree, layers, 2 * half, 2 * half, 0};
    BO_TRY(rank_of(n, &desc, rank));
    n->compared++;
    n->different += *rank != (size_t)lab_monomial_rank(power(degree, layers), half);
    return lab_progress(n->run, 0.1);
}

/* ---- known ranks ------------------------------------------------------------------------------------------------- */

static bo_status known_ranks(networks *n)
{
    enum { HALF = 3, POWER = 4, MAX_RANK = 35 }; /* C(7, 4) monomials */
    bo_context *context = lab_context(n->run);
    size_t missed = 0;
    for (size_t rank = 1; rank <= MAX_RANK; rank += 2) {
        lab_known_rank known;
        size_t found = 0;
        BO_TRY(lab_known_rank_open(context, HALF, rank, POWER, &n->rng, &known));
        const lab_function f = lab_known_rank_function(&known);
        const bo_status status = lab_exact_rank(context, &f, MAX_RANK + 5, &n->rng, &found);
        lab_known_rank_close(&known);
        BO_TRY(status);
        missed += found != rank;
    }
    lab_claim(n->run, "known-rank", (double)missed);
    return BO_OK;
}

/* ---- degree ------------------------------------------------------------------------------------------------------ */

static bo_status degree_of(networks *n, size_t degree, size_t layers, size_t tokens, size_t *found)
{
    bo_context *context = lab_context(n->run);
    const lab_polynomial_desc desc = {degree, layers, 2, 8, tokens};
    lab_polynomial *net;
    BO_TRY(lab_polynomial_create(context, &desc, &n->rng, &net));
    const lab_function f = lab_polynomial_function(net);
    const bo_status status = lab_polynomial_degree(context, &f, power(degree, layers) + 3, &n->rng, found);
    lab_polynomial_destroy(net);
    return status;
}

/* Measures the degree d^L for layers on vectors and on tokens. */
static bo_status degrees(networks *n)
{
    size_t missed = 0;
    for (size_t degree = 2; degree <= 4; degree++)
        for (size_t layers = 1; layers <= 3; layers++)
            for (size_t tokens = 0; tokens <= 4; tokens += 4) {
                size_t found;
                BO_TRY(degree_of(n, degree, layers, tokens, &found));
                missed += found != power(degree, layers);
            }
    lab_claim(n->run, "degree", (double)missed);
    return BO_OK;
}

/* Measures the rank by degree for all ways to obtain the degree, 3 + 3 inputs. */
static bo_status by_degree(networks *n)
{
    enum { HALF = 3 };
    const size_t layers[] = {lab_size(n->run, 5, 4), lab_size(n->run, 3, 2), 2};
    size_t same[5] = {0};
    for (size_t degree = 2; degree <= 4; degree++)
        for (size_t l = 1; l <= layers[degree - 2]; l++) {
            char column[16];
            size_t rank;
            BO_TRY(wide_rank(n, degree, l, HALF, &rank));
            snprintf(column, sizeof column, "d = %zu", degree);
            lab_point(n->run, "degree", column, (double)power(degree, l), (double)rank);
            if (degree < 4) /* 4 and 16 are also powers of 2 */
                lab_point(n->run, "degree", "monomials", (double)power(degree, l),
                          lab_monomial_rank(power(degree, l), HALF));
            if (power(degree, l) == 16) same[degree] = rank;
        }
    lab_claim(n->run, "proxy", fabs((double)same[2] - (double)same[4]));
    return BO_OK;
}

/* ---- depth ------------------------------------------------------------------------------------------------------- */

/* Growth of ln rank over the last affordable layer, divided by ln d · half. Its limit at great depth is 1. */
static bo_status above_threshold(networks *n)
{
    enum { HALF = 2 };
    const size_t last[] = {lab_size(n->run, 6, 5), lab_size(n->run, 4, 3), lab_size(n->run, 3, 2)};
    double sum = 0;
    for (size_t degree = 2; degree <= 4; degree++) {
        size_t before, after;
        BO_TRY(wide_rank(n, degree, last[degree - 2] - 1, HALF, &before));
        BO_TRY(wide_rank(n, degree, last[degree - 2], HALF, &after));
        sum += log((double)after / (double)before) / (HALF * log((double)degree));
    }
    lab_claim(n->run, "above", sum / 3);
    return BO_OK;
}

static bo_status by_depth(networks *n)
{
    static const struct {
        size_t half, full, quick;
    } columns[] = {{1, 9, 8}, {2, 6, 5}, {3, 5, 4}, {8, 3, 2}, {16, 2, 2}};
    for (size_t c = 0; c < LAB_COUNT_OF(columns); c++)
        for (size_t l = 1; l <= lab_size(n->run, columns[c].full, columns[c].quick); l++) {
            char column[32];
            size_t rank;
            BO_TRY(wide_rank(n, 2, l, columns[c].half, &rank));
            snprintf(column, sizeof column, "%zu + %zu inputs", columns[c].half, columns[c].half);
            lab_point(n->run, "depth", column, (double)l, log((double)rank));
        }
    return BO_OK;
}

/* Growth of ln rank per layer divided by c(d), for c = d − 1, d, d + 1. With one input on each side the rank is d^L +
 * 1. */
static bo_status countings(networks *n)
{
    const size_t last[] = {lab_size(n->run, 9, 7), lab_size(n->run, 6, 5), lab_size(n->run, 5, 4)};
    static const char *const rows[] = {"d - 1 matrices", "d matrices", "d + 1 matrices"};
    double growth[3];
    size_t right = 0;
    for (size_t i = 0; i < 3; i++) {
        size_t before, after;
        BO_TRY(wide_rank(n, i + 2, last[i] - 1, 1, &before));
        BO_TRY(wide_rank(n, i + 2, last[i], 1, &after));
        growth[i] = log((double)after / (double)before);
    }
    for (size_t c = 0; c < 3; c++) { /* c(d) = d − 1 + c = i + 1 + c */
        size_t best = 0;
        for (size_t i = 0; i < 3; i++) {
            char column[16];
            snprintf(column, sizeof column, "d = %zu", i + 2);
            lab_cell(n->run, "budget", rows[c], column, growth[i] / (double)(i + 1 + c));
            if (growth[i] / (double)(i + 1 + c) > growth[best] / (double)(best + 1 + c)) best = i;
        }
        right += best == c;
    }
    lab_claim(n->run, "countings", (double)right);
    return BO_OK;
}

/* ---- width ------------------------------------------------------------------------------------------------------- */

/* Measures the rank by number of inputs per half with layers of the same width: exponential if the degree exceeds it,
 * otherwise a power with exponent degree / 2. */
static bo_status by_width(networks *n)
{
    static const size_t halves[] = {1, 2, 3, 4, 8, 16, 32};
    static const struct {
        size_t layers, max_half;
    } columns[] = {{1, 32}, {2, 32}, {4, 4}};
    const size_t widest = lab_size(n->run, 32, 16);
    double exponents = 0;
    for (size_t c = 0; c < LAB_COUNT_OF(columns); c++) {
        const size_t degree = power(2, columns[c].layers);
        double x[LAB_COUNT_OF(halves)], y[LAB_COUNT_OF(halves)];
        size_t count = 0;
        for (size_t i = 0; i < LAB_COUNT_OF(halves); i++) {
            char column[24];
            size_t rank;
            if (halves[i] > columns[c].max_half || halves[i] > widest) continue;
            BO_TRY(wide_rank(n, 2, columns[c].layers, halves[i], &rank));
            snprintf(column, sizeof column, "degree %zu", degree);
            lab_point(n->run, "inputs", column, (double)halves[i], (double)rank);
            x[count] = (double)halves[i], y[count] = (double)rank;
            count++;
        }
        if (degree < 8) exponents += lab_exponent(x + count - 2, y + count - 2, 2) / ((double)degree / 2);
    }
    lab_claim(n->run, "below", exponents / 2);
    return BO_OK;
}

/* Measures 3 + 3 inputs through narrower and wider layers. */
static bo_status by_layer_width(networks *n)
{
    static const struct {
        const char *name;
        size_t degree, layers;
    } columns[] = {{"d = 2, L = 3", 2, 3}, {"d = 3, L = 2", 3, 2}, {"d = 4, L = 2", 4, 2}};
    for (size_t width = 1; width <= 6; width++)
        for (size_t c = 0; c < LAB_COUNT_OF(columns); c++) {
            const lab_polynomial_desc desc = {columns[c].degree, columns[c].layers, width, 6, 0};
            size_t rank;
            BO_TRY(rank_of(n, &desc, &rank));
            lab_point(n->run, "layer-width", columns[c].name, (double)width, (double)rank);
        }
    return BO_OK;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* Four tokens, two on each side. `settings` exceeds the rank, as the second-largest matrices show. */
static bo_status by_tokens(networks *n)
{
    static const struct {
        size_t width, degree, layers, settings;
        bool full; /* only in the full run */
    } cases[] = {{2, 2, 1, 16, false},  {2, 2, 2, 24, false}, {2, 2, 3, 48, false}, {2, 3, 1, 16, false},
                 {2, 3, 2, 40, false},  {2, 3, 3, 300, true}, {2, 4, 1, 16, false}, {2, 4, 2, 120, false},
                 {3, 2, 1, 16, false},  {3, 2, 2, 32, false}, {3, 2, 3, 100, true}, {3, 3, 1, 16, false},
                 {3, 3, 2, 100, false}, {3, 4, 1, 16, false}, {3, 4, 2, 640, true}};
    bo_context *context = lab_context(n->run);
    for (size_t i = 0; i < LAB_COUNT_OF(cases); i++) {
        const lab_polynomial_desc desc = {cases[i].degree, cases[i].layers, cases[i].width, 4 * cases[i].width, 4};
        lab_polynomial *net;
        size_t rank;
        char column[24];
        if (cases[i].full && lab_quick(n->run)) continue;
        BO_TRY(lab_polynomial_create(context, &desc, &n->rng, &net));
        const lab_function f = lab_polynomial_function(net);
        const bo_status status = lab_exact_rank(context, &f, cases[i].settings, &n->rng, &rank);
        lab_polynomial_destroy(net);
        BO_TRY(status);
        snprintf(column, sizeof column, "d = %zu, width %zu", desc.degree, desc.width);
        lab_point(n->run, "tokens", column, (double)desc.layers, (double)rank);
        BO_TRY(lab_progress(n->run, 0.3));
    }
    return BO_OK;
}

/* ---- rounding ---------------------------------------------------------------------------------------------------- */

static bo_status rounded_rank(networks *n, const lab_polynomial_desc *desc, size_t settings, size_t *rank)
{
    bo_context *context = lab_context(n->run);
    lab_polynomial *net = NULL;
    double *matrix = bo_alloc_raw(context, settings * (settings + 1), sizeof *matrix, "a matricization");
    if (!matrix) return BO_MEMORY;
    double *values = matrix + settings * settings;
    bo_status status = lab_polynomial_create(context, desc, &n->rng, &net);
    if (status == BO_OK) {
        const lab_function f = lab_polynomial_function(net);
        status = lab_matricize(context, &f, settings, &n->rng, matrix);
    }
    if (status == BO_OK) status = bo_singular_values(context, settings, settings, matrix, values);
    if (status == BO_OK) *rank = lab_numerical_rank(values, settings, 0);
    lab_polynomial_destroy(net);
    bo_free(matrix);
    return status;
}

/* Computes the same networks in float64 and counts singular values above size · 2⁻⁵² of the first. */
static bo_status rounding(networks *n)
{
    static const struct {
        const char *name;
        lab_polynomial_desc desc;
    } cases[] = {
        {"d = 3, L = 2", {3, 2, 6, 6, 0}}, {"d = 2, L = 4", {2, 4, 6, 6, 0}}, {"d = 4, L = 2", {4, 2, 6, 6, 0}}};
    double min_ratio = 1;
    for (size_t i = 0; i < LAB_COUNT_OF(cases); i++) {
        size_t exact, rounded;
        BO_TRY(rank_of(n, &cases[i].desc, &exact));
        BO_TRY(rounded_rank(n, &cases[i].desc, exact + exact / 8, &rounded));
        lab_cell(n->run, "rounding", cases[i].name, "modulo a prime", (double)exact);
        lab_cell(n->run, "rounding", cases[i].name, "float64", (double)rounded);
        min_ratio = fmin(min_ratio, (double)rounded / (double)exact);
    }
    lab_claim(n->run, "rounding", min_ratio);
    return BO_OK;
}

bo_status lab_separation_networks(lab_run *run)
{
    networks n = {.run = run, .rng = lab_rng(run, "lab.separation.networks")};
    BO_TRY(known_ranks(&n));
    BO_TRY(degrees(&n));
    BO_TRY(by_degree(&n));
    BO_TRY(above_threshold(&n));
    BO_TRY(by_depth(&n));
    BO_TRY(countings(&n));
    BO_TRY(by_width(&n));
    BO_TRY(by_layer_width(&n));
    BO_TRY(by_tokens(&n));
    BO_TRY(rounding(&n));
    lab_claim(run, "monomials", (double)n.different / (double)n.compared);
    lab_note(run, "A homogeneous polynomial of degree D in n + n inputs has at most Σ_k min(C(k + n - 1, k), C(D - k + "
                  "n - 1, D - k)) terms, which random weights reach: of order D^n = d^(L n) for D much larger than n, "
                  "and of order n^(D / 2) for n much larger than D. Wider layers add nothing.");
    return BO_OK;
}
