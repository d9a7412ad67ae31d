/* batchnorm: effects of batch normalization on gradients, on the preceding weights, and at test time. */
#include "../experiment.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "formula",
     .statement =
         "The gradient of batch normalization is dx = γ/σ (dy - mean(dy) - x̂ mean(dy x̂)), because the mean and the "
         "standard deviation depend on the batch.",
     .number = "|dx - formula| / |dx|",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-5},
    {.name = "orthogonal",
     .statement = "The gradient is orthogonal to 1 and to x̂, because shifting or scaling the batch does not change "
                  "the output.",
     .number = "largest |cosine| with 1 or x̂, over the columns",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-5},
    {.name = "scale-term",
     .statement = "Control: the term with x̂ is necessary. Without it, the formula is another vector.",
     .number = "|dx - γ/σ (dy - mean(dy))| / |dx|",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 0.05},
    {.name = "centering",
     .statement = "The gradient of the layer y = r (x - mean(x)) + β, which centers and does not divide by a standard "
                  "deviation, is r (dy - mean(dy)).",
     .number = "|difference quotient - formula| / |formula|, float64",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-9,
     .passage =
         LAB_NOTES "lines 390-394: \"y_i = r(x_i - (1/n) Σ x_j) + β\", \"∂L/∂x_i = r[∂L/∂y_i - (1/n) Σ ∂L/∂y_j]\""},
    {.name = "constants",
     .statement =
         "Treating mean and standard deviation as constants leaves gradient components in two of n directions: for "
         "gradients independent of x, the relative error is √(2/n).",
     .number = "exponent of the relative error |γ dy/σ - dx| / |γ dy/σ| as a power of the batch size n",
     .rule = BO_LAB_BETWEEN,
     .bound = -0.6,
     .upper = -0.4},
    {.name = "scale",
     .statement =
         "The scale of the preceding weights does not matter: replacing w by c w divides the gradient by c, and the "
         "gradient is always orthogonal to w.",
     .number = "largest of |cosine(w, dw)| and |c |dw(c w)| / |dw(w)| - 1|, for c from 1/16 to 16",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-4,
     .source = "Ioffe, Szegedy: Batch normalization, arXiv 1502.03167, section 3.3"},
    {.name = "train-test",
     .statement =
         "The difference between outputs in training (batch statistics) and in evaluation (running statistics) falls "
         "as the inverse square root of the batch size.",
     .number = "exponent of the root mean square difference as a power of the batch size, 8 to 512",
     .rule = BO_LAB_BETWEEN,
     .bound = -0.6,
     .upper = -0.4,
     .source = "Bochner"},
};

static const bo_lab_table tables[] = {
    {.name = "constants",
     .title = "Error of a gradient that treats the statistics as constants",
     .rows = "batch size",
     .values = "relative error",
     .log_x = true,
     .log_y = true,
     .theory = "√(2/n)"},
    {.name = "train-test",
     .title = "Difference between outputs in training and in evaluation",
     .rows = "batch size",
     .values = "root mean square difference (outputs of standard deviation 1)",
     .log_x = true,
     .log_y = true,
     .theory = "√(1.28/n)"},
    {.name = "scale",
     .title = "Gradient size by scale of the preceding weights",
     .rows = "c, scale of the weights",
     .values = "|dw| / |dw| at c = 1",
     .log_x = true,
     .log_y = true,
     .theory = "1/c"},
};

enum { COLUMNS = 32, MAX_ROWS = 512, BATCH = 64, INPUTS = 24 };

/* A single layer with random x and dy (rows x COLUMNS). dx is the gradient from the library. */
typedef struct batch {
    lab_tape tape;
    size_t rows;
    double gamma, epsilon;
    float *x, *dy, *dx, *y;
} batch;

static const bo_graph_pass training = {.training = true};
static const bo_graph_pass evaluation = {.training = false};

static void draw(bo_rng *rng, double mean, double deviation, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) out[i] = (float)(mean + deviation * bo_rng_normal(rng));
}

static bo_status open_batch(lab_run *run, batch *b)
{
    float gamma[COLUMNS];
    BO_TRY(lab_tape_open(lab_context(run), &b->tape));
    bo_value x = lab_tape_leaf(&b->tape, "x", b->rows, COLUMNS);
    BO_TRY(lab_tape_plan(&b->tape, lab_batch_norm(b->tape.graph, "bn", x, b->epsilon, 0.1), 1));
    for (size_t i = 0; i < COLUMNS; i++) gamma[i] = (float)b->gamma;
    return lab_tape_write(&b->tape, "bn.weight", gamma);
}

static bo_status run_batch(batch *b, bo_rng *rng)
{
    draw(rng, 3, 2, b->rows * COLUMNS, b->x);
    draw(rng, 0, 1, b->rows * COLUMNS, b->dy);
    BO_TRY(lab_tape_write(&b->tape, "x", b->x));
    BO_TRY(lab_tape_write(&b->tape, LAB_ARRIVING, b->dy));
    BO_TRY(lab_tape_run(&b->tape, &training));
    return lab_tape_gradient(&b->tape, "x", b->dx);
}

/* ---- one column -------------------------------------------------------------------------------------------------- */

typedef struct column {
    size_t rows;
    double factor; /* γ/σ */
    double x_hat[MAX_ROWS], dy[MAX_ROWS], dx[MAX_ROWS];
} column;

static void read_column(const batch *b, size_t c, column *out)
{
    double mean = 0, variance = 0;
    out->rows = b->rows;
    for (size_t i = 0; i < b->rows; i++) mean += (double)b->x[i * COLUMNS + c] / (double)b->rows;
    for (size_t i = 0; i < b->rows; i++) {
        const double x = (double)b->x[i * COLUMNS + c] - mean;
        variance += x * x / (double)b->rows;
        out->x_hat[i] = x;
        out->dy[i] = (double)b->dy[i * COLUMNS + c];
        out->dx[i] = (double)b->dx[i * COLUMNS + c];
    }
    const double sigma = sqrt(variance + b->epsilon);
    for (size_t i = 0; i < b->rows; i++) out->x_hat[i] /= sigma;
    out->factor = b->gamma / sigma;
}

/* Adds the squares of dx and of its difference from γ/σ (dy - u mean(dy) - v x̂ mean(dy x̂)). */
static void add_error(const column *c, double u, double v, double *error, double *size)
{
    const double n = (double)c->rows, mean = lab_mean(c->dy, c->rows), along = lab_dot(c->dy, c->x_hat, c->rows) / n;
    for (size_t i = 0; i < c->rows; i++) {
        const double by_formula = c->factor * (c->dy[i] - u * mean - v * c->x_hat[i] * along);
        *error += (by_formula - c->dx[i]) * (by_formula - c->dx[i]);
        *size += c->dx[i] * c->dx[i];
    }
}

static double formula_error(const batch *b, double u, double v)
{
    double error = 0, size = 0;
    column c;
    for (size_t i = 0; i < COLUMNS; i++) {
        read_column(b, i, &c);
        add_error(&c, u, v, &error, &size);
    }
    return sqrt(error / size);
}

/* |γ dy/σ - dx| / |γ dy/σ| */
static double constants_error(const batch *b)
{
    double error = 0, ignored = 0, size = 0;
    column c;
    for (size_t i = 0; i < COLUMNS; i++) {
        read_column(b, i, &c);
        add_error(&c, 0, 0, &error, &ignored);
        size += c.factor * c.factor * lab_dot(c.dy, c.dy, c.rows);
    }
    return sqrt(error / size);
}

static double largest_cosine(const batch *b)
{
    double worst = 0;
    column c;
    for (size_t i = 0; i < COLUMNS; i++) {
        read_column(b, i, &c);
        const double size = sqrt(lab_dot(c.dx, c.dx, c.rows)), n = (double)c.rows;
        worst = fmax(worst, fabs(lab_mean(c.dx, c.rows)) * sqrt(n) / size);
        worst = fmax(worst, fabs(lab_dot(c.dx, c.x_hat, c.rows)) / (size * sqrt(lab_dot(c.x_hat, c.x_hat, c.rows))));
    }
    return worst;
}

/* ---- the gradient ------------------------------------------------------------------------------------------------ */

static const double tiny = 1e-12; /* a negligible ε */

static bo_status measure_gradient(lab_run *run, batch *b, bo_rng *rng)
{
    b->gamma = 1.5, b->epsilon = tiny, b->rows = BATCH;
    BO_TRY(open_batch(run, b));
    BO_TRY(run_batch(b, rng));
    lab_claim(run, "formula", formula_error(b, 1, 1));
    lab_claim(run, "orthogonal", largest_cosine(b));
    lab_claim(run, "scale-term", formula_error(b, 1, 0));
    return BO_OK;
}

/* Σ dy · (r (x - mean(x)) + β) */
static double centered_loss(const double *x, const double *dy, double r, double beta)
{
    const double mean = lab_mean(x, BATCH);
    double sum = 0;
    for (size_t i = 0; i < BATCH; i++) sum += dy[i] * (r * (x[i] - mean) + beta);
    return sum;
}

/* The layer is linear in x, so that central differences are exact up to rounding. */
static void measure_centering(lab_run *run, bo_rng *rng)
{
    const double r = 1.5, beta = 0.3, step = 1;
    double x[BATCH], dy[BATCH], error = 0, size = 0;
    for (size_t i = 0; i < BATCH; i++) x[i] = 3 + 2 * bo_rng_normal(rng), dy[i] = bo_rng_normal(rng);
    const double mean = lab_mean(dy, BATCH);
    for (size_t i = 0; i < BATCH; i++) {
        const double kept = x[i], formula = r * (dy[i] - mean);
        x[i] = kept + step;
        double quotient = centered_loss(x, dy, r, beta);
        x[i] = kept - step;
        quotient = (quotient - centered_loss(x, dy, r, beta)) / (2 * step);
        x[i] = kept;
        error += (quotient - formula) * (quotient - formula);
        size += formula * formula;
    }
    lab_claim(run, "centering", sqrt(error / size));
}

/* ---- by batch size ----------------------------------------------------------------------------------------------- */

static bo_status average_constants(lab_run *run, batch *b, bo_rng *rng, double *out)
{
    const size_t draws = lab_size(run, 20, 4);
    BO_TRY(open_batch(run, b));
    *out = 0;
    for (size_t i = 0; i < draws; i++) {
        BO_TRY(run_batch(b, rng));
        *out += constants_error(b) / (double)draws;
    }
    return BO_OK;
}

/* The batch mean and standard deviation deviate from the true ones by √(1/n + 1/2n). The running statistics include a
 * tenth of this batch and also have an error: 0.9² (1 + 0.1/1.9) of 3/2n. The number of batches is large enough
 * for the initial values to have a weight of only 0.9^100. */
static bo_status average_difference(lab_run *run, batch *b, bo_rng *rng, double *out)
{
    enum { WARM = 100 };
    const size_t draws = lab_size(run, 100, 20), numbers = b->rows * COLUMNS;
    double sum = 0;
    BO_TRY(open_batch(run, b));
    for (size_t i = 0; i < WARM + draws; i++) {
        BO_TRY(run_batch(b, rng));
        if (i < WARM) continue;
        BO_TRY(lab_tape_output(&b->tape, b->y));
        BO_TRY(lab_tape_run(&b->tape, &evaluation));
        BO_TRY(lab_tape_output(&b->tape, b->dy));
        for (size_t k = 0; k < numbers; k++) {
            const double difference = (double)b->y[k] - (double)b->dy[k];
            sum += difference * difference / (double)(numbers * draws);
        }
    }
    *out = sqrt(sum);
    return BO_OK;
}

typedef bo_status (*by_batch)(lab_run *run, batch *b, bo_rng *rng, double *out);

/* Returns the exponent of the result of `average` over doubling batch sizes. */
static bo_status sweep(lab_run *run, batch *b, bo_rng *rng, by_batch average, size_t min_rows, const char *table,
                       const char *theory, double factor, double *exponent)
{
    double sizes[16], values[16];
    size_t count = 0;
    b->gamma = 1, b->epsilon = tiny;
    for (b->rows = min_rows; b->rows <= lab_size(run, MAX_ROWS, MAX_ROWS / 4); b->rows *= 2) {
        const bo_status status = average(run, b, rng, &values[count]);
        lab_tape_close(&b->tape);
        BO_TRY(status);
        sizes[count] = (double)b->rows;
        lab_point(run, table, "measured", sizes[count], values[count]);
        lab_point(run, table, theory, sizes[count], sqrt(factor / sizes[count]));
        count++;
        BO_TRY(lab_progress(run, 0.5));
    }
    *exponent = lab_exponent(sizes, values, count);
    return BO_OK;
}

static bo_status measure_batches(lab_run *run, batch *b, bo_rng *rng)
{
    double exponent;
    BO_TRY(sweep(run, b, rng, average_constants, 2, "constants", "√(2/n)", 2, &exponent));
    lab_claim(run, "constants", exponent);
    BO_TRY(sweep(run, b, rng, average_difference, 8, "train-test", "√(1.28/n)", 1.28, &exponent));
    lab_claim(run, "train-test", exponent);
    return BO_OK;
}

/* ---- preceding weights ------------------------------------------------------------------------------------------- */

/* Computes |dw| and the largest cosine of w and dw over the columns, for weights c times the drawn ones. */
static bo_status scaled_gradient(lab_tape *tape, const float *w, double c, double *size, double *cosine)
{
    float scaled[COLUMNS * INPUTS], gradient[COLUMNS * INPUTS];
    for (size_t i = 0; i < COLUMNS * INPUTS; i++) scaled[i] = (float)c * w[i];
    BO_TRY(lab_tape_write(tape, "w", scaled));
    BO_TRY(lab_tape_run(tape, &training));
    BO_TRY(lab_tape_gradient(tape, "w", gradient));
    double total = 0;
    for (size_t o = 0; o < COLUMNS; o++) {
        double ww = 0, wg = 0, gg = 0;
        for (size_t i = o * INPUTS; i < (o + 1) * INPUTS; i++) {
            ww += (double)scaled[i] * (double)scaled[i];
            wg += (double)scaled[i] * (double)gradient[i];
            gg += (double)gradient[i] * (double)gradient[i];
        }
        *cosine = fmax(*cosine, fabs(wg) / sqrt(ww * gg));
        total += gg;
    }
    *size = sqrt(total);
    return BO_OK;
}

static bo_status scale_weights(lab_run *run, lab_tape *tape, batch *b, bo_rng *rng)
{
    float w[COLUMNS * INPUTS];
    bo_value x = lab_tape_leaf(tape, "x", BATCH, INPUTS), weight = lab_tape_leaf(tape, "w", COLUMNS, INPUTS);
    bo_value y = lab_graph_one(tape->graph, BO_OPERATION_LINEAR, &(bo_linear_attributes){.weights = 1}, 2,
                               (bo_value[]){x, weight});
    BO_TRY(lab_tape_plan(tape, lab_batch_norm(tape->graph, "bn", y, tiny, 0.1), 1));
    draw(rng, 1, 1, BATCH * INPUTS, b->x);
    draw(rng, 0, 1, BATCH * COLUMNS, b->dy);
    draw(rng, 0, 1, COLUMNS * INPUTS, w);
    BO_TRY(lab_tape_write(tape, "x", b->x));
    BO_TRY(lab_tape_write(tape, LAB_ARRIVING, b->dy));
    double worst = 0, at_one, size;
    BO_TRY(scaled_gradient(tape, w, 1, &at_one, &worst));
    for (double c = 1.0 / 16; c <= 16; c *= 4) {
        BO_TRY(scaled_gradient(tape, w, c, &size, &worst));
        worst = fmax(worst, fabs(c * size / at_one - 1));
        lab_point(run, "scale", "measured", c, size / at_one);
        lab_point(run, "scale", "1/c", c, 1 / c);
    }
    lab_claim(run, "scale", worst);
    return BO_OK;
}

static bo_status measure_scale(lab_run *run, batch *b, bo_rng *rng)
{
    lab_tape tape;
    bo_status status = lab_tape_open(lab_context(run), &tape);
    if (status == BO_OK) status = scale_weights(run, &tape, b, rng);
    lab_tape_close(&tape);
    return status;
}

static bo_status measure_with(lab_run *run, batch *b)
{
    bo_rng rng = lab_rng(run, "lab.batchnorm");
    bo_status status = measure_gradient(run, b, &rng);
    lab_tape_close(&b->tape);
    measure_centering(run, &rng);
    if (status == BO_OK) status = measure_batches(run, b, &rng);
    return status == BO_OK ? measure_scale(run, b, &rng) : status;
}

static bo_status measure(lab_run *run)
{
    enum { NUMBERS = MAX_ROWS * COLUMNS };
    float *buffer = bo_alloc(lab_context(run), 4 * NUMBERS, sizeof(float), "a batch");
    batch b = {.x = buffer, .dy = buffer + NUMBERS, .dx = buffer + 2 * NUMBERS, .y = buffer + 3 * NUMBERS};
    const bo_status status = buffer ? measure_with(run, &b) : BO_MEMORY;
    bo_free(buffer);
    return status;
}

const lab_experiment lab_batchnorm = {
    {.name = "batchnorm",
     .group = LAB_ARCHITECTURES,
     .title = "The gradient of batch normalization",
     .claim = "The mean and standard deviation of a batch depend on every row. Backpropagation through them removes "
              "the components of the gradient along 1 and along the normalized batch, and makes the scale of the "
              "preceding weights irrelevant.",
     .source = "Ioffe, Szegedy: Batch normalization, arXiv 1502.03167; course notes, batch normalization",
     .method = "x has 32 columns, normal with mean 3 and standard deviation 2, and passes through the batch "
               "normalization of the library in training mode. The arriving gradients are independent normal numbers "
               "(batch size 64, ε = 10⁻¹², γ = 1.5 unless stated otherwise). The gradient of x is compared with closed "
               "forms in float64: the complete one, and one that treats mean and standard deviation as constants, at "
               "batch sizes of 2 to 512. For evaluation, mean and variance are averaged with momentum 0.1 over 200 "
               "batches. The preceding weights are those of a linear layer with 24 inputs, scaled by c. The layer of "
               "the course notes, which only centers, is differentiated numerically in float64.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
