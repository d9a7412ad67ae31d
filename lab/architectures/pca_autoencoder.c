/* pca-autoencoder: the solution of a linear autoencoder, with and without weight decay. */
#include "../experiment.h"
#include <math.h>
#include <string.h>

static const bo_lab_claim claims[] = {
    {.name = "subspace",
     .statement = "A linear autoencoder with k units learns the span of the first k principal directions.",
     .number = "sine of the largest angle between the column space of the decoder and that span, without weight decay",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0.01},
    {.name = "stationary",
     .statement = "W₂ = W₁ᵀ = U_k, the first k principal directions, satisfies the first-order condition (W₂W₁ - "
                  "I)XXᵀW₁ᵀ = 0.",
     .number = "|(W₂W₁ - I)XXᵀW₁ᵀ| / |XXᵀ|, for data in float32",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-7,
     .passage = LAB_NOTES "lines 538-548: \"The first order condition states that […]. If W_2 = W_1ᵀ are the first k "
                          "columns of U, then […] W_1 = U_kᵀ, W_2 = U_k\""},
    {.name = "not-orthogonal",
     .statement = "Control: without weight decay, its weights are not orthogonal.",
     .number = "|W₂ᵀW₂ - I| / √k",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.2},
    {.name = "orthogonal",
     .statement = "With weight decay λ = 0.03, the columns of the decoder and the rows of the encoder are nearly "
                  "orthonormal.",
     .number = "larger of |W₂ᵀW₂ - I| and |W₁W₁ᵀ - I|, divided by √k",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05,
     .passage =
         LAB_NOTES "lines 568-576: \"inductive bias of: Forcing W_1, W_2 to be orthogonal\", \"W_1W_1ᵀ = I\"; the "
                   "printed W_2W_2ᵀ = I is read as W_2ᵀW_2 = I"},
    {.name = "transpose",
     .statement = "With weight decay, the encoder is the transpose of the decoder.",
     .number = "|W₁ - W₂ᵀ| / |W₂| at λ = 0.03",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0.01},
    {.name = "values",
     .statement = "The squared singular values of the decoder are 1 - λ/eᵢ, where eᵢ is the variance of principal "
                  "direction i.",
     .number = "largest absolute difference at λ = 0.1",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0.01,
     .source = "Kunin et al. 2019, arXiv 1901.08168"},
    {.name = "singular-vectors",
     .statement = "With weight decay, the left singular vectors of the decoder are the principal directions.",
     .number = "mean |cosine| between the two at λ = 0.1",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.95,
     .source = "Kunin et al. 2019, arXiv 1901.08168"},
    {.name = "units",
     .statement = "With weight decay, every column of the decoder is a principal direction, and not only their span.",
     .number = "largest |cosine| of a column with a principal direction, mean over the columns, at λ = 0.1",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.95},
};

static const bo_lab_table tables[] = {
    {.name = "decay",
     .title = "A linear autoencoder by weight decay",
     .rows = "λ",
     .values = "distance (0: as predicted by theory)",
     .log_y = true},
    {.name = "values",
     .title = "Squared singular values of the decoder",
     .rows = "variance of the principal direction",
     .values = "squared singular value at λ = 0.1",
     .theory = "1 - λ/e"},
};

enum { DIM = 20, UNITS = 4, COUNT = 100, WEIGHTS = DIM * UNITS };
/* of the first directions; the remaining ones decrease from 0.3 to 0.03 */
static const double variances[UNITS] = {4, 2.5, 1.6, 1};

/* ---- training ---------------------------------------------------------------------------------------------------- */

typedef struct autoencoder {
    double first[WEIGHTS];  /* W₁: UNITS x DIM */
    double second[WEIGHTS]; /* W₂: DIM x UNITS */
} autoencoder;

static bo_status open_data(lab_run *run, lab_least_squares *out)
{
    bo_rng rng = lab_rng(run, "lab.pca-autoencoder");
    double scales[DIM];
    memcpy(scales, variances, sizeof variances);
    lab_geometric(0.3, 0.03, DIM - UNITS, scales + UNITS);
    for (size_t i = 0; i < DIM; i++) scales[i] = sqrt(COUNT * scales[i]);
    return lab_least_squares_open(lab_context(run),
                                  &(lab_least_squares_desc){.rows = COUNT, .dim = DIM, .scales = scales}, &rng, out);
}

/* Minimizes |X - W₂W₁X|²/n + λ(|W₁|² + |W₂|²) by gradient descent with weight decay 2λ. */
static bo_status train(lab_run *run, const lab_least_squares *data, double lambda, autoencoder *out)
{
    lab_descent d;
    float w[WEIGHTS];
    bo_optimizer_desc descent = lab_plain_descent;
    const bo_weight_init init = {BO_WEIGHT_INIT_KIND_NORMAL, 0, 0.3};
    descent.decay = 2 * lambda;
    BO_TRY(lab_descent_open(lab_context(run), &d));
    const bo_value x = bo_graph_input(d.tape.graph, "x", BO_ELEMENT_FLOAT32, COUNT, DIM);
    const bo_value code = lab_graph_linear(d.tape.graph, "first", x, UNITS, init);
    const bo_value loss = lab_graph_squares(d.tape.graph, lab_graph_linear(d.tape.graph, "second", code, DIM, init), x);
    bo_status status = lab_descent_ready(&d, loss, DIM, &descent, lab_seed(run));
    if (status == BO_OK) status = bo_graph_write(lab_context(run), d.tape.graph, x, data->x_single);
    for (size_t t = 0; t < lab_size(run, 40000, 8000) && status == BO_OK; t++) {
        status = lab_descent_step(&d, 0.03, NULL);
        if (t % 1024 == 0 && status == BO_OK) status = lab_progress(run, 0.5);
    }
    if (status == BO_OK) status = lab_tape_read(&d.tape, "first", w);
    for (size_t i = 0; i < WEIGHTS; i++) out->first[i] = (double)w[i];
    if (status == BO_OK) status = lab_tape_read(&d.tape, "second", w);
    for (size_t i = 0; i < WEIGHTS; i++) out->second[i] = (double)w[i];
    lab_descent_close(&d);
    return status;
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

typedef struct found {
    double sine;           /* sine of the largest angle to the principal subspace */
    double defect;         /* deviation from orthonormality, larger of encoder and decoder */
    double decoder_defect; /* deviation of the decoder only */
    double apart;          /* |W₁ - W₂ᵀ| / |W₂| */
    double squares[UNITS]; /* squared singular values of the decoder, descending */
    double vectors, units; /* mean |cosine| with principal directions: of left singular vectors, of columns */
} found;

/* |A Aᵀ - I| / √k for A = W₁ or W₂ᵀ (k x DIM, with these strides). */
static double defect(const double *a, size_t row, size_t column)
{
    double sum = 0;
    for (size_t i = 0; i < UNITS; i++)
        for (size_t j = 0; j < UNITS; j++) {
            double dot = i == j ? -1 : 0;
            for (size_t k = 0; k < DIM; k++) dot += a[i * row + k * column] * a[j * row + k * column];
            sum += dot * dot;
        }
    return sqrt(sum / UNITS);
}

/* Returns the largest |cosine| of a column (stride UNITS) of the decoder with one of the first principal directions. */
static double nearest_direction(const lab_least_squares *data, const double *column)
{
    double size = 0, max_cosine = 0;
    for (size_t k = 0; k < DIM; k++) size += column[k * UNITS] * column[k * UNITS];
    for (size_t i = 0; i < UNITS; i++) {
        double dot = 0;
        for (size_t k = 0; k < DIM; k++) dot += column[k * UNITS] * data->directions[i * DIM + k];
        max_cosine = fmax(max_cosine, fabs(dot) / sqrt(size));
    }
    return max_cosine;
}

static bo_status examine(bo_context *context, const lab_least_squares *data, const autoencoder *a, found *out)
{
    double copy[WEIGHTS], u[WEIGHTS], values[UNITS], vt[UNITS * UNITS], cosines[UNITS * UNITS], left[UNITS * UNITS];
    double difference = 0;
    memcpy(copy, a->second, sizeof copy);
    BO_TRY(lab_svd(context, DIM, UNITS, copy, u, values, vt));
    *out = (found){0};
    for (size_t i = 0; i < UNITS; i++) {
        out->squares[i] = values[i] * values[i];
        for (size_t j = 0; j < UNITS; j++) {
            cosines[i * UNITS + j] = 0;
            for (size_t k = 0; k < DIM; k++) cosines[i * UNITS + j] += data->directions[i * DIM + k] * u[k * UNITS + j];
        }
        out->vectors += fabs(cosines[i * UNITS + i]) / UNITS;
        out->units += nearest_direction(data, a->second + i) / UNITS;
    }
    BO_TRY(lab_svd(context, UNITS, UNITS, cosines, left, values, vt));
    out->sine = sqrt(fmax(0, 1 - values[UNITS - 1] * values[UNITS - 1]));
    out->decoder_defect = defect(a->second, 1, UNITS);
    out->defect = fmax(out->decoder_defect, defect(a->first, DIM, 1));
    for (size_t i = 0; i < UNITS; i++)
        for (size_t k = 0; k < DIM; k++) difference += pow(a->first[i * DIM + k] - a->second[k * UNITS + i], 2);
    out->apart = sqrt(difference) / lab_norm(a->second, WEIGHTS);
    return BO_OK;
}

/* Records the claims for one λ. */
static void report(lab_run *run, double lambda, const found *f)
{
    double off = 0;
    if (lambda == 0) {
        lab_claim(run, "subspace", f->sine);
        lab_claim(run, "not-orthogonal", f->decoder_defect);
    }
    if (lambda == 0.03) {
        lab_claim(run, "orthogonal", f->defect);
        lab_claim(run, "transpose", f->apart);
    }
    if (lambda != 0.1) return;
    for (size_t i = 0; i < UNITS; i++) {
        const double predicted = 1 - lambda / variances[i];
        off = fmax(off, fabs(f->squares[i] - predicted));
        lab_point(run, "values", "measured", variances[i], f->squares[i]);
        lab_point(run, "values", "1 - λ/e", variances[i], predicted);
    }
    lab_claim(run, "values", off);
    lab_claim(run, "singular-vectors", f->vectors);
    lab_claim(run, "units", f->units);
}

static bo_status measure_data(lab_run *run, const lab_least_squares *data)
{
    static const double lambdas[] = {0, 0.01, 0.03, 0.1, 0.3};
    for (size_t i = 0; i < LAB_COUNT_OF(lambdas); i++) {
        autoencoder a;
        found f;
        BO_TRY(train(run, data, lambdas[i], &a));
        BO_TRY(examine(lab_context(run), data, &a, &f));
        lab_point(run, "decay", "sine of the angle to the principal subspace", lambdas[i], f.sine);
        lab_point(run, "decay", "distance from orthonormal", lambdas[i], f.defect);
        lab_point(run, "decay", "distance of the encoder from the decoder's transpose", lambdas[i], f.apart);
        lab_point(run, "decay", "1 - |cosine| of singular vectors", lambdas[i], 1 - f.vectors);
        lab_point(run, "decay", "1 - |cosine| of units", lambdas[i], 1 - f.units);
        report(run, lambdas[i], &f);
        BO_TRY(lab_progress(run, (double)(i + 1) / LAB_COUNT_OF(lambdas)));
    }
    return BO_OK;
}

/* |(UUᵀ - I) C U| / |C| with C = Σ x xᵀ and the first principal directions as columns of U. The other condition of the
 * notes, Uᵀ(UUᵀ - I) C = 0, holds for any orthonormal U. */
static double stationary(const lab_least_squares *data)
{
    double c[DIM * DIM] = {0}, rest = 0;
    for (size_t r = 0; r < data->rows; r++)
        for (size_t i = 0; i < DIM; i++)
            for (size_t j = 0; j < DIM; j++) c[i * DIM + j] += data->x[r * DIM + i] * data->x[r * DIM + j];
    for (size_t k = 0; k < UNITS; k++) {
        double mapped[DIM], left[DIM];
        for (size_t i = 0; i < DIM; i++) left[i] = mapped[i] = lab_dot(c + i * DIM, data->directions + k * DIM, DIM);
        for (size_t u = 0; u < UNITS; u++) {
            const double part = lab_dot(data->directions + u * DIM, mapped, DIM);
            for (size_t i = 0; i < DIM; i++) left[i] -= part * data->directions[u * DIM + i];
        }
        rest += lab_dot(left, left, DIM);
    }
    return sqrt(rest) / lab_norm(c, DIM * DIM);
}

static bo_status measure(lab_run *run)
{
    lab_least_squares data;
    BO_TRY(open_data(run, &data));
    lab_claim(run, "stationary", stationary(&data));
    const bo_status status = measure_data(run, &data);
    lab_least_squares_close(&data);
    return status;
}

const lab_experiment lab_pca_autoencoder = {
    {.name = "pca-autoencoder",
     .group = LAB_ARCHITECTURES,
     .title = "Linear autoencoders learn the principal subspace; weight decay makes them orthogonal",
     .claim = "The minimum of |X - W₂W₁X|² spans the first k principal directions, in any basis. With λ(|W₁|² + "
              "|W₂|²) added, the weights become nearly orthogonal, and encoder and decoder become transposes of each "
              "other.",
     .source = "course notes, PCA and autoencoders",
     .method = "100 examples have 20 coordinates, with variances 4, 2.5, 1.6, 1 and then 0.3 to 0.03 along random "
               "directions. The encoder (4 x 20) and the decoder (20 x 4) start as N(0, 0.3²) and are trained by "
               "full-batch gradient descent, 40000 steps with learning rate 0.03, with weight decay λ = 0, 0.01, "
               "0.03, 0.1, 0.3. The principal directions are known from the construction of the data.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
