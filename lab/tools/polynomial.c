#include "polynomial.h"
#include <math.h>
#include <string.h>

struct lab_polynomial {
    lab_polynomial_desc desc;
    uint32_t *exact; /* weights, layer by layer, then the output form */
    double *real;
};

/* ---- evaluation in both number types ----------------------------------------------------------------------------- */

#define NUMBER         uint32_t
#define ADD(a, b)      lab_mod_add(a, b)
#define MULTIPLY(a, b) lab_mod_multiply(a, b)
#define NAME(x)        exact_##x
#include "polynomial_body.h"
#undef NUMBER
#undef ADD
#undef MULTIPLY
#undef NAME

#define NUMBER         double
#define ADD(a, b)      ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define NAME(x)        real_##x
#include "polynomial_body.h"
#include "numbers.h"

/* ---- networks ---------------------------------------------------------------------------------------------------- */

static size_t columns_into(const lab_polynomial_desc *desc, size_t layer)
{
    return layer || desc->tokens ? desc->width : desc->inputs;
}

static size_t weight_count(const lab_polynomial_desc *desc)
{
    size_t count = desc->layers || desc->tokens ? desc->width : desc->inputs;
    for (size_t l = 0; l < desc->layers; l++) count += desc->degree * columns_into(desc, l) * desc->width;
    return count;
}

static void draw(lab_polynomial *net, bo_rng *rng)
{
    const lab_polynomial_desc *desc = &net->desc;
    const size_t count = weight_count(desc), first = desc->degree * columns_into(desc, 0) * desc->width;
    for (size_t i = 0; i < count; i++) {
        const size_t summed = i < first && desc->layers ? columns_into(desc, 0) : desc->width;
        net->exact[i] = lab_mod_random(rng);
        net->real[i] = bo_rng_normal(rng) / sqrt((double)summed);
    }
}

static bo_status check(bo_context *context, const lab_polynomial_desc *d)
{
    const bool degree = d->tokens ? d->degree >= 2 && d->degree <= 4 : d->degree >= 1 && d->degree <= LAB_MAX_DEGREE;
    const bool size = d->width >= 1 && d->width <= LAB_INPUTS && d->inputs >= 2 && d->inputs <= LAB_INPUTS;
    if (degree && size && (!d->tokens || d->tokens * d->width == d->inputs)) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "polynomial network: unsupported combination of degree %zu, %zu inputs, width "
                   "%zu and %zu tokens",
                   d->degree, d->inputs, d->width, d->tokens);
}

bo_status lab_polynomial_create(bo_context *context, const lab_polynomial_desc *desc, bo_rng *rng, lab_polynomial **out)
{
    *out = NULL;
    BO_TRY(check(context, desc));
    lab_polynomial *net = bo_alloc(context, 1, sizeof *net, "a polynomial network");
    if (!net) return BO_MEMORY;
    net->desc = *desc;
    net->exact = bo_alloc_raw(context, weight_count(desc), sizeof *net->exact, "weights of a polynomial network");
    net->real = bo_alloc_raw(context, weight_count(desc), sizeof *net->real, "weights of a polynomial network");
    if (!net->exact || !net->real) {
        lab_polynomial_destroy(net);
        return BO_MEMORY;
    }
    draw(net, rng);
    *out = net;
    return BO_OK;
}

void lab_polynomial_destroy(lab_polynomial *net)
{
    if (!net) return;
    bo_free(net->exact);
    bo_free(net->real);
    bo_free(net);
}

const lab_polynomial_desc *lab_polynomial_about(const lab_polynomial *net)
{
    return &net->desc;
}

const uint32_t *lab_polynomial_weights(const lab_polynomial *net)
{
    return net->exact;
}

static uint32_t network_exact(const void *user, const uint32_t *x)
{
    const lab_polynomial *net = user;
    return exact_evaluate(&net->desc, net->exact, x);
}

static double network_real(const void *user, const double *x)
{
    const lab_polynomial *net = user;
    return real_evaluate(&net->desc, net->real, x);
}

lab_function lab_polynomial_function(const lab_polynomial *net)
{
    const size_t left = net->desc.tokens ? net->desc.tokens / 2 * net->desc.width : net->desc.inputs / 2;
    return (lab_function){left, net->desc.inputs - left, network_exact, network_real, net};
}

/* ---- known degrees and ranks ------------------------------------------------------------------------------------- */

bo_status lab_polynomial_degree(bo_context *context, const lab_function *f, size_t max_degree, bo_rng *rng,
                                size_t *degree)
{
    const size_t inputs = f->left + f->right, count = max_degree + 2;
    uint32_t start[LAB_INPUTS], step[LAB_INPUTS], x[LAB_INPUTS];
    uint32_t *values = bo_alloc_raw(context, count, sizeof *values, "values on a line");
    if (!values) return BO_MEMORY;
    for (size_t i = 0; i < inputs; i++) start[i] = lab_mod_random(rng), step[i] = lab_mod_random(rng);
    memcpy(x, start, sizeof x);
    for (size_t t = 0; t < count; t++) {
        values[t] = f->exact(f->user, x);
        for (size_t i = 0; i < inputs; i++) x[i] = lab_mod_add(x[i], step[i]);
    }
    /* values[0] after k rounds of differences is the k-th difference; the last nonzero one gives the degree. */
    *degree = 0;
    for (size_t k = 0; k < count; k++) {
        if (values[0]) *degree = k;
        for (size_t t = 0; t + 1 < count - k; t++) values[t] = lab_mod_add(values[t + 1], LAB_PRIME - values[t]);
    }
    bo_free(values);
    return BO_OK;
}

double lab_monomial_rank(size_t degree, size_t half)
{
    double rank = 0;
    for (size_t k = 0; k <= degree; k++) {
        const size_t less = k < degree - k ? k : degree - k;
        rank += lab_choose(less + half - 1, half - 1);
    }
    return rank;
}

bo_status lab_known_rank_open(bo_context *context, size_t half, size_t rank, size_t power, bo_rng *rng,
                              lab_known_rank *out)
{
    const size_t count = rank * 2 * (half + 1);
    *out = (lab_known_rank){half, rank, power,
                            bo_alloc_raw(context, count, sizeof *out->exact, "a polynomial of known rank"),
                            bo_alloc_raw(context, count, sizeof *out->real, "a polynomial of known rank")};
    if (!out->exact || !out->real) {
        lab_known_rank_close(out);
        return BO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        out->exact[i] = lab_mod_random(rng);
        out->real[i] = bo_rng_normal(rng);
    }
    return BO_OK;
}

void lab_known_rank_close(lab_known_rank *known)
{
    bo_free(known->exact);
    bo_free(known->real);
    *known = (lab_known_rank){0};
}

static uint32_t known_exact(const void *user, const uint32_t *x)
{
    const lab_known_rank *known = user;
    return exact_known(known, known->exact, x);
}

static double known_real(const void *user, const double *x)
{
    const lab_known_rank *known = user;
    return real_known(known, known->real, x);
}

lab_function lab_known_rank_function(const lab_known_rank *known)
{
    return (lab_function){known->half, known->half, known_exact, known_real, known};
}
