/* Is the token-mixing MLP (2105.01601) a polynomial of degree 2? Its two matrices along the tokens stand between a gelu, and its
 * gate is a silu: with both taken as linear it is (T X V) ∘ (X G), the form of the degree-2 mixer. Here polynomials are
 * fitted to what one output of such a layer, with random weights, says about all inputs of a short sequence. */
#include "../../math/linalg.h"
#include "../tape.h"
#include "degree.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 3, WIDTH = 4, INPUTS = TOKENS * WIDTH, SEQUENCES = 2048, MOST_MONOMIALS = 455 }; /* C(15, 3) */

/* ---- the layer ---------------------------------------------------------------------------------------------------------- */

static bo_status fill(lab_tape *tape, bo_rng *rng, const char *name, size_t count, double scale)
{
    float numbers[TOKENS * TOKENS * WIDTH];
    for (size_t i = 0; i < count; i++) numbers[i] = (float)(scale * bo_rng_normal(rng));
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

/* The first number of the last token of every sequence; x: sequences x INPUTS. */
static bo_status run_layer(lab_run *run, bo_mixer kind, bo_rng *rng, const float *x, float *room, double *y)
{
    const bo_mixer_layer layer = {
        .kind = kind, .width = WIDTH, .heads = 1, .context = TOKENS, .tokens = TOKENS, .most_sequences = SEQUENCES};
    lab_tape tape;
    bo_status status = lab_tape_open(lab_context(run), &tape);
    if (status == BO_OK) {
        const bo_value in = lab_tape_leaf(&tape, "x", SEQUENCES * TOKENS, WIDTH);
        const bo_value zero = lab_tape_leaf(&tape, "zero", SEQUENCES * TOKENS, WIDTH);
        status = lab_tape_plan(&tape, bo_nn_mixer(tape.graph, "mixer", in, zero, 0, &layer), lab_seed(run));
    }
    if (status == BO_OK) status = draw_weights(&tape, rng, kind);
    if (status == BO_OK) status = lab_tape_write(&tape, "x", x);
    if (status == BO_OK) status = lab_tape_run(&tape, &(bo_pass){0});
    if (status == BO_OK) status = lab_tape_output(&tape, room);
    for (size_t s = 0; status == BO_OK && s < SEQUENCES; s++) y[s] = (double)room[(s + 1) * INPUTS - WIDTH];
    lab_tape_close(&tape);
    return status;
}

/* ---- polynomials -------------------------------------------------------------------------------------------------------- */

/* All monomials of up to `degree` of x; returns how many. */
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

/* What share of the variance of y, in the second half of the sequences, the best polynomial of the first leaves. */
static bo_status unexplained(lab_run *run, const float *x, const double *y, size_t degree, float *z, double *out)
{
    enum { HALF = SEQUENCES / 2 };
    float targets[HALF], w[MOST_MONOMIALS];
    double mean = 0, size = 0, left = 0, variance = 0;
    size_t count = 0;
    for (size_t s = 0; s < SEQUENCES; s++) count = monomials(x + s * INPUTS, degree, z + s * count);
    for (size_t s = 0; s < SEQUENCES; s++) mean += y[s] / SEQUENCES, size += y[s] * y[s] / SEQUENCES;
    for (size_t s = 0; s < HALF; s++) targets[s] = (float)(y[s] / sqrt(size));
    const bo_readout fit = {HALF, count, 1, z, targets, 1e-7 * HALF};
    BO_TRY(bo_ridge_readout(lab_context(run), &fit, w));
    for (size_t s = HALF; s < SEQUENCES; s++) {
        double guess = 0;
        for (size_t i = 0; i < count; i++) guess += (double)w[i] * (double)z[s * count + i];
        left += pow(y[s] - guess * sqrt(size), 2);
        variance += pow(y[s] - mean, 2);
    }
    *out = left / variance;
    return BO_OK;
}

/* ---- sizes of the input --------------------------------------------------------------------------------------------------- */

typedef struct buffers {
    float x[SEQUENCES * INPUTS], scaled[SEQUENCES * INPUTS], room[SEQUENCES * INPUTS];
    float z[SEQUENCES * MOST_MONOMIALS];
    double y[SEQUENCES];
} buffers;

static bo_status at_size(lab_run *run, buffers *b, double size)
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
    for (size_t i = 0; i < SEQUENCES * INPUTS; i++) b->scaled[i] = (float)size * b->x[i];
    for (size_t i = 0; i < LAB_COUNT_OF(fits); i++) {
        bo_rng rng = lab_rng(run, "lab.degree.mixing-weights");
        if (i == 0 || fits[i].kind != fits[i - 1].kind)
            BO_TRY(run_layer(run, fits[i].kind, &rng, b->scaled, b->room, b->y));
        BO_TRY(unexplained(run, b->x, b->y, fits[i].degree, b->z, &left[i]));
        lab_point(run, "mixing", fits[i].column, size, left[i]);
    }
    if (size == 1) {
        lab_claim(run, "mixer-identity", left[1]);
        lab_claim(run, "mixer-nearly", left[1]);
    }
    return lab_progress(run, 0.99);
}

bo_status lab_degree_mixing(lab_run *run)
{
    static const double sizes[] = {0.1, 0.3, 1, 3};
    bo_rng rng = lab_rng(run, "lab.degree.mixing");
    buffers *b = bo_alloc_raw(lab_context(run), 1, sizeof *b, "sequences and their monomials");
    if (!b) return BO_MEMORY;
    for (size_t i = 0; i < SEQUENCES * INPUTS; i++) b->x[i] = (float)bo_rng_normal(&rng);
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < LAB_COUNT_OF(sizes); i++) status = at_size(run, b, sizes[i]);
    bo_free(b);
    return status;
}
