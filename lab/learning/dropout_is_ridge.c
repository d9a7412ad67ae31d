/* dropout-is-ridge: dropout on the inputs of least squares is a ridge penalty weighted by the column norms. */
#include "../experiment.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "loss",
     .statement = "The expected loss with dropout of rate q is |y - Xw|² + q/(1 - q) Σ_j |X_j|² w_j², where X_j are "
                  "the columns.",
     .number = "mean loss over masks divided by this formula, at a random w, q = 0.5",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.98,
     .upper = 1.02,
     .passage =
         LAB_NOTES "lines 406-416: \"L(w) = ‖y - pXw‖² + p(1-p)‖Γw‖²\", where Γ has \"the norm of the j-th column "
                   "of the X\" on its diagonal; here with w divided by p"},
    {.name = "ridge",
     .statement = "Averaged over steps, training with dropout reaches the solution of this ridge regression.",
     .number = "largest distance from this solution divided by its distance from least squares, over q",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05},
    {.name = "mask",
     .statement = "Masks without rescaling (keep with probability p) give w/p, where w is the same solution.",
     .number = "distance of p times the trained weights from this solution divided by its distance from least "
               "squares, p = 0.5",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05},
    {.name = "plain-ridge",
     .statement = "Control: with columns of different norms, no plain ridge penalty λ|w|² has the same effect.",
     .number =
         "distance of the nearest plain ridge solution from the trained weights divided by that of least squares, q = "
         "0.5",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1},
    {.name = "even",
     .statement =
         "Dropout shrinks orthogonal columns equally, by the factor 1 - q, regardless of their norm; plain ridge "
         "shrinks small ones more.",
     .number = "largest |trained w_j / least squares w_j - (1 - q)| over columns of norms 1 to 16, q = 0.5",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05},
    {.name = "machine",
     .statement = "A kernel machine with a dropout setting solves the problem with this penalty.",
     .number = "largest difference of its predictions from the closed form, relative to their root mean square",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-4},
};

static const bo_lab_table tables[] = {
    {.name = "shrinkage",
     .title = "Training with dropout, compared with ridge on the column norms",
     .rows = "q",
     .values = "|w| / |w without dropout|",
     .theory = "ridge, q/(1 - q) |X_j|²"},
    {.name = "columns",
     .title = "Fraction of a weight that remains, by norm of its column (orthogonal columns, q = 0.5)",
     .rows = "norm of the column",
     .values = "w / w of least squares",
     .log_x = true,
     .theory = "1 - q"},
};

enum { ROWS = 64, DIM = 8 };

static void squared_norms(const lab_least_squares *p, double *out)
{
    for (size_t j = 0; j < p->dim; j++) {
        out[j] = 0;
        for (size_t r = 0; r < p->rows; r++) out[j] += p->x[r * p->dim + j] * p->x[r * p->dim + j];
    }
}

/* Gaussian columns with norms of about 8 · (1/2 … 2). */
static bo_status open_problem(lab_run *run, lab_least_squares *out)
{
    bo_rng rng = lab_rng(run, "lab.dropout-is-ridge");
    float x[ROWS * DIM];
    double sizes[DIM];
    lab_geometric(0.5, 2, DIM, sizes);
    for (size_t i = 0; i < ROWS * DIM; i++) x[i] = (float)(sizes[i % DIM] * bo_rng_normal(&rng));
    const lab_least_squares_desc desc = {.rows = ROWS, .dim = DIM, .x = x, .noise = 1};
    return lab_least_squares_open(lab_context(run), &desc, &rng, out);
}

/* Uses the dropout of the library, which divides kept numbers by 1 - q. */
static bo_status train_with_dropout(lab_run *run, const lab_least_squares *p, double q, double *mean)
{
    double norms[DIM];
    squared_norms(p, norms);
    const bo_dropout_attributes dropout = {.rate = q};
    const lab_perturbation perturbation = {lab_perturb_dropout, &dropout,
                                           p->scales[0] * p->scales[0] + q / (1 - q) * lab_largest(norms, p->dim)};
    return lab_perturbed_mean(lab_context(run), p, &perturbation, lab_size(run, 60000, 15000), lab_seed(run), mean);
}

/* ---- the loss and its minimum ------------------------------------------------------------------------------------ */

static bo_status measure_loss(lab_run *run, const lab_least_squares *p, const double *norms)
{
    const double q = 0.5;
    double w[DIM], penalty = 0, found;
    bo_rng rng = lab_rng(run, "lab.dropout-is-ridge.w");
    for (size_t j = 0; j < p->dim; j++) {
        w[j] = bo_rng_normal(&rng);
        penalty += q / (1 - q) * norms[j] * w[j] * w[j];
    }
    const bo_dropout_attributes dropout = {.rate = q};
    const lab_perturbation perturbation = {lab_perturb_dropout, &dropout, 1};
    BO_TRY(lab_perturbed_loss(lab_context(run), p, &perturbation, w, lab_size(run, 5000, 1000), lab_seed(run), &found));
    lab_claim(run, "loss", found / (lab_squares(p, w) + penalty));
    return BO_OK;
}

/* Returns the distance of the plain ridge solution nearest to w. */
static bo_status nearest_plain(bo_context *context, const lab_least_squares *p, const double *w, double *distance)
{
    double lambdas[81], ridge[DIM];
    lab_geometric(1e-2, 1e4, 81, lambdas);
    *distance = INFINITY;
    for (size_t i = 0; i < 81; i++) {
        BO_TRY(lab_ridge(context, p, lambdas[i], NULL, ridge));
        *distance = fmin(*distance, lab_distance(w, ridge, p->dim));
    }
    return BO_OK;
}

static bo_status measure_mask(lab_run *run, const lab_least_squares *p, const double *norms, const double *plain)
{
    const double keep = 0.5;
    double masked[DIM], ridge[DIM];
    const bo_noise_attributes mask = {.kind = BO_NOISE_MASK, .amount = 1 - keep};
    const lab_perturbation perturbation = {lab_perturb_noise, &mask, p->scales[0] * p->scales[0]};
    BO_TRY(lab_perturbed_mean(lab_context(run), p, &perturbation, lab_size(run, 60000, 15000), lab_seed(run), masked));
    BO_TRY(lab_ridge(lab_context(run), p, (1 - keep) / keep, norms, ridge));
    for (size_t j = 0; j < p->dim; j++) masked[j] *= keep;
    lab_claim(run, "mask", lab_distance(masked, ridge, p->dim) / lab_distance(plain, ridge, p->dim));
    return BO_OK;
}

static bo_status measure_ridge(lab_run *run, const lab_least_squares *p, const double *norms, const double *plain)
{
    static const double rates[] = {0.1, 0.3, 0.5, 0.7, 0.9};
    double ridge[DIM], trained[DIM], worst = 0, nearest;
    for (size_t i = 0; i < LAB_COUNT_OF(rates); i++) {
        const double q = rates[i];
        BO_TRY(lab_ridge(lab_context(run), p, q / (1 - q), norms, ridge));
        BO_TRY(train_with_dropout(run, p, q, trained));
        lab_point(run, "shrinkage", "trained", q, lab_norm(trained, p->dim) / lab_norm(plain, p->dim));
        lab_point(run, "shrinkage", "ridge, q/(1 - q) |X_j|²", q, lab_norm(ridge, p->dim) / lab_norm(plain, p->dim));
        worst = fmax(worst, lab_distance(trained, ridge, p->dim) / lab_distance(ridge, plain, p->dim));
        if (q == 0.5) {
            BO_TRY(nearest_plain(lab_context(run), p, trained, &nearest));
            lab_claim(run, "plain-ridge", nearest / lab_distance(trained, plain, p->dim));
        }
        BO_TRY(lab_progress(run, 0.12 * (double)(i + 1)));
    }
    lab_claim(run, "ridge", worst);
    return BO_OK;
}

static bo_status measure_machine(lab_run *run, const lab_least_squares *p, const double *norms)
{
    const lab_linear_machine machine = {.lambda = 1e-6, .dropout = 0.5}; /* q/(1 - q) = 1 */
    double penalty[DIM], ridge[DIM], gap;
    for (size_t j = 0; j < p->dim; j++) penalty[j] = machine.lambda + norms[j];
    BO_TRY(lab_ridge(lab_context(run), p, 1, penalty, ridge));
    BO_TRY(lab_machine_gap(lab_context(run), p, &machine, p->rows, p->x_single, ridge, &gap));
    lab_claim(run, "machine", gap);
    return BO_OK;
}

static bo_status measure_gaussian(lab_run *run)
{
    lab_least_squares p;
    double norms[DIM], plain[DIM];
    BO_TRY(open_problem(run, &p));
    squared_norms(&p, norms);
    bo_status status = lab_ridge(lab_context(run), &p, 0, NULL, plain);
    if (status == BO_OK) status = measure_loss(run, &p, norms);
    if (status == BO_OK) status = measure_ridge(run, &p, norms, plain);
    if (status == BO_OK) status = measure_mask(run, &p, norms, plain);
    if (status == BO_OK) status = measure_machine(run, &p, norms);
    lab_least_squares_close(&p);
    return status;
}

/* ---- orthogonal columns ------------------------------------------------------------------------------------------ */

enum { COLUMNS = 5 };

/* Orthogonal columns of norms 1, 2, 4, 8, 16: scaled columns of a Haar matrix. */
static bo_status open_orthogonal(lab_run *run, double *norms, lab_least_squares *out)
{
    bo_rng rng = lab_rng(run, "lab.dropout-is-ridge.orthogonal");
    float x[ROWS * COLUMNS];
    double ones[COLUMNS] = {1, 1, 1, 1, 1};
    lab_least_squares unit;
    lab_geometric(1, 16, COLUMNS, norms);
    BO_TRY(lab_least_squares_open(
        lab_context(run), &(lab_least_squares_desc){.rows = ROWS, .dim = COLUMNS, .scales = ones}, &rng, &unit));
    for (size_t i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(unit.x[i] * norms[i % COLUMNS]);
    lab_least_squares_close(&unit);
    return lab_least_squares_open(lab_context(run), &(lab_least_squares_desc){.rows = ROWS, .dim = COLUMNS, .x = x},
                                  &rng, out);
}

/* Targets from weights that are all 1, so that the remaining fractions can be compared. */
static void set_truth(lab_least_squares *p)
{
    for (size_t j = 0; j < p->dim; j++) p->truth[j] = 1;
    for (size_t r = 0; r < p->rows; r++) {
        p->y[r] = lab_dot(p->x + r * p->dim, p->truth, p->dim);
        p->y_single[r] = (float)p->y[r];
    }
}

static bo_status measure_orthogonal(lab_run *run)
{
    const double q = 0.5, lambda = 16;
    lab_least_squares p;
    double norms[COLUMNS], trained[COLUMNS], ridge[COLUMNS], worst = 0;
    BO_TRY(open_orthogonal(run, norms, &p));
    set_truth(&p);
    bo_status status = train_with_dropout(run, &p, q, trained);
    if (status == BO_OK) status = lab_ridge(lab_context(run), &p, lambda, NULL, ridge);
    for (size_t j = 0; j < COLUMNS && status == BO_OK; j++) {
        const double left = trained[j] / p.truth[j];
        worst = fmax(worst, fabs(left - (1 - q)));
        lab_point(run, "columns", "trained with dropout", norms[j], left);
        lab_point(run, "columns", "1 - q", norms[j], 1 - q);
        lab_point(run, "columns", "plain ridge, λ = 16", norms[j], ridge[j] / p.truth[j]);
    }
    lab_least_squares_close(&p);
    lab_claim(run, "even", worst);
    return status;
}

static bo_status measure(lab_run *run)
{
    BO_TRY(measure_gaussian(run));
    return measure_orthogonal(run);
}

const lab_experiment lab_dropout_is_ridge = {
    {.name = "dropout-is-ridge",
     .group = LAB_LEARNING,
     .title = "Dropout on the inputs of least squares is ridge on the column norms",
     .claim = "In expectation, dropout with rate q = 1 - p adds q/(1 - q) |Γw|² to |y - Xw|², where Γ is the diagonal "
              "matrix of the column norms of X.",
     .source = "course notes, regularization and dropout; Srivastava et al. 2014, section 9.1",
     .method = "64 examples have 8 Gaussian inputs of standard deviations 0.5 to 2, with noise of standard deviation "
               "1 on y. Gradient descent from w = 0 sees the inputs with a fresh mask in each of 60000 steps. The "
               "mean over the second half of training is compared with the closed form, for q = 0.1 to 0.9, with the "
               "dropout of the library (kept numbers are divided by 1 - q) and with masks without rescaling. Then 5 "
               "orthogonal columns of norms 1 to 16, without noise, with true weights all 1.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
