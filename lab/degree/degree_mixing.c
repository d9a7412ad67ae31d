/* Tests whether the token-mixing MLP (2105.01601) is a polynomial of degree 2. Its two matrices along the tokens
 * enclose a gelu, and its gate is a silu; if both are replaced by linear functions, the layer is (T X V) ∘ (X G), the
 * form of the degree-2 mixer. Polynomials in all inputs of a short sequence are fitted to one output of such a layer
 * with random weights. */
#include "degree.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 3, WIDTH = 4, INPUTS = TOKENS * WIDTH, MAX_MONOMIALS = 455 }; /* C(15, 3) */

/* Sequences of normal numbers, the outputs of a layer for them, and monomials. */
typedef struct data {
    lab_run *run;
    size_t sequences;
    float *x, *scaled, *buffer; /* sequences x INPUTS */
    float *z;                   /* sequences x MAX_MONOMIALS */
    double *y;                  /* sequences */
} data;

/* ---- the layer --------------------------------------------------------------------------------------------------- */

static bo_status fill(lab_tape *tape, bo_rng *rng, const char *name, size_t count, double scale)
{
    float numbers[TOKENS * TOKENS * WIDTH];
    lab_fill_normal(rng, scale, count, numbers);
    return lab_tape_write(tape, name, numbers);
}

static bo_status draw_weights(lab_tape *tape, bo_rng *rng, bo_mixer kind)
{
    const double into = 1 / sqrt(WIDTH), along = 1 / sqrt(TOKENS);
    BO_TRY(fill(tape, rng, "mixer.out_proj.weight", WIDTH * WIDTH, into));
    if (kind != BO_MIXER_MLP) return BO_OK;
    BO_TRY(fill(tape, rng, "mixer.first", TOKENS * TOKENS, along));
    return fill(tape, rng, "mixer.second", TOKENS * TOKENS, along);
}

/* y: the first number of the last token of every sequence. */
static bo_status run_layer(data *d, bo_mixer kind, bo_rng *rng)
{
    lab_tape tape;
    bo_status status = lab_tape_open(lab_context(d->run), &tape);
    if (status == BO_OK) {
        const bo_value in = lab_tape_leaf(&tape, "x", d->sequences * TOKENS, WIDTH);
        const bo_value zero = lab_tape_leaf(&tape, "zero", d->sequences * TOKENS, WIDTH);
        status = lab_tape_plan(&tape, lab_mixer(tape.graph, "mixer", in, zero, kind, WIDTH, TOKENS, d->sequences),
                               lab_seed(d->run));
    }
    if (status == BO_OK) status = draw_weights(&tape, rng, kind);
    if (status == BO_OK) status = lab_tape_write(&tape, "x", d->scaled);
    if (status == BO_OK) status = lab_tape_run(&tape, &(bo_graph_pass){0});
    if (status == BO_OK) status = lab_tape_output(&tape, d->buffer);
    for (size_t s = 0; status == BO_OK && s < d->sequences; s++) d->y[s] = (double)d->buffer[(s + 1) * INPUTS - WIDTH];
    lab_tape_close(&tape);
    return status;
}

/* ---- polynomials ------------------------------------------------------------------------------------------------- */

/* Computes all monomials of x up to `degree` and returns their number. */
static size_t monomials(const float *x, size_t degree, float *out)
{
    size_t count = 0;
    out[count++] = 1;
    for (size_t i = 0; i < INPUTS; i++) {
        out[count++] = x[i];
        for (size_t j = i; degree >= 2 && j < INPUTS; j++) {
            out[count++] = x[i] * x[j];
            for (size_t k = j; degree >= 3 && k < INPUTS; k++) out[count++] = x[i] * x[j] * x[k];
        }
    }
    return count;
}

/* Fits the best polynomial on the first half of the sequences and returns the fraction of the variance of y that it
 * does not explain on the second half. */
static bo_status unexplained(data *d, size_t degree, double *out)
{
    const size_t half = d->sequences / 2;
    float w[MAX_MONOMIALS], *targets = d->buffer; /* the outputs stored there have been copied to y */
    double mean = 0, size = 0, left = 0, variance = 0;
    size_t count = 0;
    for (size_t s = 0; s < d->sequences; s++) count = monomials(d->x + s * INPUTS, degree, d->z + s * count);
    for (size_t s = 0; s < half; s++) mean += d->y[s] / (double)half, size += d->y[s] * d->y[s] / (double)half;
    size = sqrt(size);
    for (size_t s = 0; s < half; s++) targets[s] = (float)(d->y[s] / size);
    const lab_readout fit = {half, count, 1, d->z, targets, 1e-7 * (double)half};
    BO_TRY(lab_ridge_readout(lab_context(d->run), &fit, w));
    for (size_t s = half; s < d->sequences; s++) {
        double guess = 0;
        for (size_t i = 0; i < count; i++) guess += (double)w[i] * (double)d->z[s * count + i];
        left += pow(d->y[s] - guess * size, 2);
        variance += pow(d->y[s] - mean, 2);
    }
    *out = left / variance;
    return BO_OK;
}

/* ---- sizes of the inputs ----------------------------------------------------------------------------------------- */

static bo_status at_size(data *d, double size)
{
    static const struct {
        const char *column;
        bo_mixer kind;
        size_t degree;
    } fits[] = {{"MLP along tokens, degree 1", BO_MIXER_MLP, 1},
                {"MLP along tokens, degree 2", BO_MIXER_MLP, 2},
                {"MLP along tokens, degree 3", BO_MIXER_MLP, 3},
                {"degree-2 mixer, degree 2", BO_MIXER_DEGREE_2, 2}};
    double left[LAB_COUNT_OF(fits)];
    for (size_t i = 0; i < d->sequences * INPUTS; i++) d->scaled[i] = (float)size * d->x[i];
    for (size_t i = 0; i < LAB_COUNT_OF(fits); i++) {
        bo_rng rng = lab_rng(d->run, "lab.degree.mixing-weights");
        if (i == 0 || fits[i].kind != fits[i - 1].kind) BO_TRY(run_layer(d, fits[i].kind, &rng));
        BO_TRY(unexplained(d, fits[i].degree, &left[i]));
        lab_point(d->run, "mixing", fits[i].column, size, left[i]);
        BO_TRY(lab_progress(d->run, 0.99));
    }
    if (size == 0.1) lab_claim(d->run, "mixer-small", left[1]);
    if (size == 1) {
        lab_claim(d->run, "mixer-identity", left[1]);
        lab_claim(d->run, "mixer-nearly", left[1]);
    }
    return BO_OK;
}

static bo_status open_data(data *d, bo_rng *rng)
{
    bo_context *context = lab_context(d->run);
    const size_t numbers = d->sequences * INPUTS;
    d->x = bo_alloc_raw(context, numbers, sizeof *d->x, "sequences");
    d->scaled = bo_alloc_raw(context, numbers, sizeof *d->scaled, "sequences");
    d->buffer = bo_alloc_raw(context, numbers, sizeof *d->buffer, "outputs");
    d->z = bo_alloc_raw(context, d->sequences * MAX_MONOMIALS, sizeof *d->z, "monomials");
    d->y = bo_alloc_raw(context, d->sequences, sizeof *d->y, "outputs");
    if (!d->x || !d->scaled || !d->buffer || !d->z || !d->y) return BO_MEMORY;
    lab_fill_normal(rng, 1, numbers, d->x);
    return BO_OK;
}

bo_status lab_degree_mixing(lab_run *run)
{
    static const double sizes[] = {0.1, 0.3, 1, 3};
    bo_rng rng = lab_rng(run, "lab.degree.mixing");
    data d = {.run = run, .sequences = lab_size(run, 12000, 2000)};
    bo_status status = open_data(&d, &rng);
    for (size_t i = 0; status == BO_OK && i < LAB_COUNT_OF(sizes); i++) status = at_size(&d, sizes[i]);
    bo_free(d.x);
    bo_free(d.scaled);
    bo_free(d.buffer);
    bo_free(d.z);
    bo_free(d.y);
    return status;
}
