/* rnn: the growth of gradients through time. */
#include "../experiment.h"
#include <math.h>
#include <string.h>

static const bo_lab_claim claims[] = {
    {.name = "radius",
     .statement =
         "While tanh is linear, the gradient over T steps of a recurrent layer grows or vanishes as ρᵀ, where ρ is "
         "the spectral radius of its matrix.",
     .number = "measured ln|gradient| per step divided by ln ρ, mean over ρ = 0.8, 0.9, 1.1, 1.25",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05,
     .passage = LAB_NOTES "lines 504-506: \"∂L/∂h_t = 2(ŷ_t - y) Wᵀ (W^h)^(T-t), so if the magnitude of the largest "
                          "eigenvalue of W^h is much larger than 1, gradient explode; vice versa\""},
    {.name = "at-one",
     .statement = "At ρ = 1, the gradient neither grows nor vanishes.",
     .number = "|ln|gradient|| per step",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.02},
    {.name = "not-the-norm",
     .statement =
         "The eigenvalues matter and not the norm: with a matrix of norm 1.5 and ρ below 0.9, gradients vanish.",
     .number = "ln|gradient| per step",
     .rule = BO_LAB_AT_MOST,
     .bound = -0.1,
     .source = "Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks, 1211.5063"},
    {.name = "orthogonal",
     .statement = "An orthogonal matrix preserves every direction of the gradient.",
     .number = "largest |singular value - 1| of the Jacobian over 128 steps",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-4,
     .source = "Saxe, McClelland, Ganguli: Exact solutions to the nonlinear dynamics of learning, 1312.6120"},
    {.name = "saturation",
     .statement =
         "With inputs of standard deviation 1, tanh saturates and gradients vanish even at ρ = 1.25, where they would "
         "otherwise explode.",
     .number = "ln|gradient| per step",
     .rule = BO_LAB_AT_MOST,
     .bound = 0,
     .source = "Bochner"},
    {.name = "gates",
     .statement =
         "With the same inputs, an LSTM with open forget gates (bias 5) loses less than a quarter as much gradient "
         "per step as the plain layer at ρ = 1.",
     .number = "ln|gradient| per step of the LSTM divided by that of the plain layer",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.25,
     .source = "Hochreiter, Schmidhuber: Long short-term memory, 1997; Jozefowicz, Zaremba, Sutskever 2015"},
};

static const bo_lab_table tables[] = {
    {.name = "radius",
     .title = "Gradient over T steps by spectral radius, without inputs",
     .rows = "T",
     .values = "|∂h_T / ∂h_1|, root mean square of the singular values",
     .log_y = true},
    {.name = "inputs",
     .title = "Gradient over T steps with inputs of standard deviation 1",
     .rows = "T",
     .values = "|∂h_T / ∂x_1|, root mean square of the singular values",
     .log_y = true},
    {.name = "rates",
     .title = "Growth per step, and the prediction of theory without inputs",
     .rows = "layer",
     .values = "ln|gradient| per step",
     .plot = BO_LAB_BARS,
     .theory = "theory, without inputs"},
};

enum { SIZE = 32, STEPS = 128, MAX_GATES = 4, POINTS = 8, SETTLED = 3 };

/* T of the points: 2, 4, …, 96, 128. The first points depend on more than the largest eigenvalue. */
static const size_t lengths[POINTS] = {2, 8, 16, 32, 48, 64, 96, 128};

typedef struct cell {
    const char *name;
    bo_recurrence kind;
    double matrix[SIZE * SIZE]; /* recurrent matrix; for gated layers drawn as in the library */
    double forget;              /* bias of the forget gates */
    double input;               /* standard deviation of the inputs */
} cell;

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

static void draw_matrix(bo_rng *rng, double *out)
{
    for (size_t i = 0; i < SIZE * SIZE; i++) out[i] = bo_rng_normal(rng) / sqrt((double)SIZE);
}

static void multiply_by(double *a, double factor)
{
    for (size_t i = 0; i < SIZE * SIZE; i++) a[i] *= factor;
}

/* Computes ρ = lim |Aᵏ|^(1/k) (Gelfand) with k = 2^16 by repeated squaring, keeping track of the factors that are
 * divided out. */
static bo_status spectral_radius(lab_run *run, const double *matrix, double *out)
{
    enum { SQUARINGS = 16 };
    double a[SIZE * SIZE], b[SIZE * SIZE], logarithm = 0, weight = 1;
    memcpy(a, matrix, sizeof a);
    for (int i = 0; i < SQUARINGS; i++) {
        const double norm = lab_norm(a, SIZE * SIZE);
        multiply_by(a, 1 / norm);
        logarithm += weight * log(norm);
        BO_TRY(lab_multiply(lab_context(run), false, false, SIZE, SIZE, SIZE, 1, a, SIZE, a, SIZE, 0, b, SIZE));
        memcpy(a, b, sizeof a);
        weight /= 2;
    }
    *out = exp(logarithm + weight * log(lab_norm(a, SIZE * SIZE)));
    return BO_OK;
}

/* Computes the singular values in descending order and overwrites the matrix. */
static bo_status singular_values(lab_run *run, double *a, double *values)
{
    double u[SIZE * SIZE], vt[SIZE * SIZE];
    return lab_svd(lab_context(run), SIZE, SIZE, a, u, values, vt);
}

/* ---- gradients through time -------------------------------------------------------------------------------------- */

/* SIZE copies of one sequence of `steps` steps, so that copy i gives the gradient of h_T[i]: J[i, k] = ∂h_T[i] /
 * ∂x_1[k], where x is the input added to U h. For an LSTM x has four parts, and the columns of J belong to the
 * candidates g. */
typedef struct unrolled {
    lab_tape tape;
    size_t steps, gates;
    float *x, *arriving, *gradient;
} unrolled;

static bo_status write_cell(unrolled *u, bo_rng *rng, const cell *c)
{
    float matrix[MAX_GATES * SIZE * SIZE], bias[MAX_GATES * SIZE] = {0};
    for (size_t i = 0; i < u->gates * SIZE * SIZE; i++)
        matrix[i] =
            c->kind == BO_RECURRENCE_RNN ? (float)c->matrix[i] : (float)(bo_rng_normal(rng) / sqrt((double)SIZE));
    for (size_t i = 0; c->kind == BO_RECURRENCE_LSTM && i < SIZE; i++) bias[SIZE + i] = (float)c->forget;
    BO_TRY(lab_tape_write(&u->tape, "u", matrix));
    return lab_tape_write(&u->tape, "b", bias);
}

static bo_status fill(unrolled *u, bo_rng *rng, const cell *c)
{
    const size_t columns = u->gates * SIZE, numbers = u->steps * columns;
    lab_fill_normal(rng, c->input, numbers, u->x);
    for (size_t copy = 1; copy < SIZE; copy++) memcpy(u->x + copy * numbers, u->x, numbers * sizeof(float));
    memset(u->arriving, 0, SIZE * u->steps * SIZE * sizeof(float));
    for (size_t copy = 0; copy < SIZE; copy++) u->arriving[((copy + 1) * u->steps - 1) * SIZE + copy] = 1;
    BO_TRY(lab_tape_write(&u->tape, "x", u->x));
    return lab_tape_write(&u->tape, LAB_ARRIVING, u->arriving);
}

static bo_status run_through(lab_run *run, unrolled *u, bo_rng *rng, const cell *c)
{
    const size_t columns = u->gates * SIZE, rows = SIZE * u->steps;
    const bo_recurrent_attributes attributes = {.cell = c->kind, .sequences = {.tokens = u->steps}};
    BO_TRY(lab_tape_open(lab_context(run), &u->tape));
    bo_value inputs[] = {lab_tape_leaf(&u->tape, "x", rows, columns), lab_tape_leaf(&u->tape, "u", columns, SIZE),
                         lab_tape_leaf(&u->tape, "b", 1, columns)};
    BO_TRY(lab_tape_plan(&u->tape, lab_graph_one(u->tape.graph, BO_OPERATION_RECURRENT, &attributes, 3, inputs), 1));
    BO_TRY(write_cell(u, rng, c));
    BO_TRY(fill(u, rng, c));
    BO_TRY(lab_tape_run(&u->tape, NULL));
    return lab_tape_gradient(&u->tape, "x", u->gradient);
}

/* Computes J (SIZE x SIZE) over a number of steps. */
static bo_status jacobian(lab_run *run, const cell *c, size_t steps, double *out)
{
    static const size_t gates[] = {[BO_RECURRENCE_RNN] = 1, [BO_RECURRENCE_GRU] = 3, [BO_RECURRENCE_LSTM] = 4};
    static const size_t candidate[] = {[BO_RECURRENCE_RNN] = 0, [BO_RECURRENCE_GRU] = 2, [BO_RECURRENCE_LSTM] = 2};
    unrolled u = {.steps = steps, .gates = gates[c->kind]};
    const size_t columns = u.gates * SIZE, numbers = SIZE * steps * columns;
    bo_rng rng = lab_rng(run, "lab.rnn.inputs");
    float *buffer = bo_alloc(lab_context(run), 3 * numbers, sizeof(float), "sequences");
    u.x = buffer, u.arriving = buffer + numbers, u.gradient = buffer + 2 * numbers;
    bo_status status = buffer ? run_through(run, &u, &rng, c) : BO_MEMORY;
    lab_tape_close(&u.tape);
    for (size_t i = 0; status == BO_OK && i < SIZE; i++)
        for (size_t k = 0; k < SIZE; k++)
            out[i * SIZE + k] = (double)u.gradient[i * steps * columns + candidate[c->kind] * SIZE + k];
    bo_free(buffer);
    return status;
}

/* Returns ln|J| per step, fitted where only the largest eigenvalue remains. table: NULL to record nothing. */
static bo_status growth(lab_run *run, const cell *c, const char *table, double *rate)
{
    double steps[POINTS], logs[POINTS], j[SIZE * SIZE];
    for (size_t i = 0; i < POINTS; i++) {
        BO_TRY(jacobian(run, c, lengths[i], j));
        const double size = lab_norm(j, SIZE * SIZE) / sqrt((double)SIZE);
        steps[i] = (double)lengths[i];
        logs[i] = log(size);
        if (table) lab_point(run, table, c->name, steps[i], size);
    }
    *rate = lab_slope(steps + SETTLED, logs + SETTLED, POINTS - SETTLED);
    return BO_OK;
}

/* ---- measurements ------------------------------------------------------------------------------------------------ */

/* A cell whose matrix has this spectral radius. */
static bo_status cell_of(lab_run *run, double radius, double input, const char *name, cell *out)
{
    bo_rng rng = lab_rng(run, "lab.rnn.matrix");
    double drawn;
    *out = (cell){.name = name, .input = input};
    draw_matrix(&rng, out->matrix);
    BO_TRY(spectral_radius(run, out->matrix, &drawn));
    multiply_by(out->matrix, radius / drawn);
    return BO_OK;
}

static bo_status measure_radius(lab_run *run)
{
    static const double radii[] = {0.8, 0.9, 1, 1.1, 1.25};
    static const char *const names[] = {"ρ = 0.8", "ρ = 0.9", "ρ = 1", "ρ = 1.1", "ρ = 1.25"};
    double ratio = 0, rate;
    cell c;
    for (size_t i = 0; i < LAB_COUNT_OF(radii); i++) {
        BO_TRY(cell_of(run, radii[i], 0, names[i], &c));
        BO_TRY(growth(run, &c, "radius", &rate));
        if (radii[i] == 1)
            lab_claim(run, "at-one", fabs(rate));
        else
            ratio += rate / log(radii[i]) / 4;
        lab_cell(run, "rates", names[i], "without inputs", rate);
        lab_cell(run, "rates", names[i], "theory, without inputs", log(radii[i]));
    }
    lab_claim(run, "radius", ratio);
    return lab_progress(run, 0.4);
}

/* Random matrices scaled to norm 1.5 have eigenvalues in a disc of about half that radius. */
static bo_status measure_norm(lab_run *run)
{
    enum { MATRICES = 8 };
    double copy[SIZE * SIZE], values[SIZE], radius, rate, theory = 0, mean = 0;
    cell c = {.name = "norm 1.5"};
    bo_rng rng = lab_rng(run, "lab.rnn.norm");
    for (size_t i = 0; i < MATRICES; i++) {
        draw_matrix(&rng, c.matrix);
        memcpy(copy, c.matrix, sizeof copy);
        BO_TRY(singular_values(run, copy, values));
        multiply_by(c.matrix, 1.5 / values[0]);
        BO_TRY(spectral_radius(run, c.matrix, &radius));
        BO_TRY(growth(run, &c, NULL, &rate));
        theory += log(radius) / MATRICES, mean += rate / MATRICES;
    }
    lab_claim(run, "not-the-norm", mean);
    lab_cell(run, "rates", c.name, "without inputs", mean);
    lab_cell(run, "rates", c.name, "theory, without inputs", theory);
    return BO_OK;
}

static bo_status measure_orthogonal(lab_run *run)
{
    double j[SIZE * SIZE], values[SIZE], rate;
    cell c = {.name = "orthogonal"};
    bo_rng rng = lab_rng(run, "lab.rnn.orthogonal");
    draw_matrix(&rng, c.matrix);
    BO_TRY(lab_haar(lab_context(run), SIZE, c.matrix));
    BO_TRY(jacobian(run, &c, STEPS, j));
    BO_TRY(singular_values(run, j, values));
    lab_claim(run, "orthogonal", fmax(fabs(values[0] - 1), fabs(values[SIZE - 1] - 1)));
    BO_TRY(growth(run, &c, NULL, &rate));
    lab_cell(run, "rates", c.name, "without inputs", rate);
    lab_cell(run, "rates", c.name, "theory, without inputs", 0);
    c.input = 1;
    BO_TRY(growth(run, &c, "inputs", &rate));
    lab_cell(run, "rates", c.name, "inputs", rate);
    return lab_progress(run, 0.6);
}

static bo_status measure_inputs(lab_run *run)
{
    double plain, wide, open;
    cell c;
    BO_TRY(cell_of(run, 1, 1, "ρ = 1", &c));
    BO_TRY(growth(run, &c, "inputs", &plain));
    lab_cell(run, "rates", c.name, "inputs", plain);
    BO_TRY(cell_of(run, 1.25, 1, "ρ = 1.25", &c));
    BO_TRY(growth(run, &c, "inputs", &wide));
    lab_cell(run, "rates", c.name, "inputs", wide);
    lab_claim(run, "saturation", wide);
    static const cell gated[] = {{.name = "GRU", .kind = BO_RECURRENCE_GRU, .input = 1},
                                 {.name = "LSTM, bias 1", .kind = BO_RECURRENCE_LSTM, .forget = 1, .input = 1},
                                 {.name = "LSTM, bias 5", .kind = BO_RECURRENCE_LSTM, .forget = 5, .input = 1}};
    for (size_t i = 0; i < LAB_COUNT_OF(gated); i++) {
        BO_TRY(growth(run, &gated[i], "inputs", &open));
        lab_cell(run, "rates", gated[i].name, "inputs", open);
        BO_TRY(lab_progress(run, 0.7 + 0.1 * (double)i));
    }
    lab_claim(run, "gates", open / plain);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    BO_TRY(measure_radius(run));
    BO_TRY(measure_norm(run));
    BO_TRY(measure_orthogonal(run));
    return measure_inputs(run);
}

const lab_experiment lab_rnn = {
    {.name = "rnn",
     .group = LAB_ARCHITECTURES,
     .title = "Gradients through time by spectral radius",
     .claim = "Over T steps of a recurrent layer, gradients grow or vanish as the T-th power of the largest "
              "eigenvalue of its matrix, as long as tanh is linear. A saturated tanh makes them vanish, and gates "
              "preserve them.",
     .source = "course notes, implementing RNN",
     .method =
         "The recurrent layers of the library have a state of 32 numbers. The gradient of all of h_T with respect to "
         "x_1, which is added to U h, is read from one backward pass over 32 copies of a sequence. Without inputs the "
         "state stays at 0, where tanh is the identity to first order. Matrices are normal numbers scaled to a given "
         "spectral radius, which is computed by repeated squaring in float64. Rates are slopes of ln|gradient| from "
         "32 to 128 steps. With inputs, x is normal. The matrices of gated layers are initialized as in the library.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
