/* dropout-and-batchnorm: the relation between dropout and batch normalization, and their interference. */
#include "../experiment.h"
#include <math.h>
#include <string.h>

static const bo_lab_claim claims[] = {
    {.name = "plain-ridge",
     .statement = "After batch normalization, dropout of rate q is plain ridge regression with λ = n q/(1 - q).",
     .number = "largest distance of the trained weights from this solution divided by its distance from least "
               "squares, over q",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05,
     .passage = LAB_NOTES "lines 416-420: \"L(w̃) = ‖y - X̃w̃‖² + λ‖w̃‖²\", \"X̃ = XΓ⁻¹\""},
    {.name = "scale-free",
     .statement = "Dropout alone is invariant to the scale of the columns, as if they were normalized first.",
     .number = "change of the predictions when the columns are multiplied by 1/8 to 8, relative to their root mean "
               "square",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-3},
    {.name = "ridge-sees-scale",
     .statement = "Control: plain ridge regression depends on the scale of the columns.",
     .number = "change of the predictions when the columns are multiplied by 1/8 to 8, relative to their root mean "
               "square, λ = n",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1},
    {.name = "is-batchnorm",
     .statement = "Normalization alone, without the ridge penalty, gives the predictions of dropout.",
     .number = "distance between the predictions of normalization alone and of dropout divided by the distance "
               "between least squares and dropout",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.1,
     .source = LAB_NOTES "line 420: \"dropout is actually BN (even include rescale!)\". Lines 410-420 derive "
                         "normalized columns with a ridge penalty, so the sentence is probably not meant literally"},
    {.name = "variance-shift",
     .statement =
         "Dropout before batch normalization makes the running variance 1/(1 - q) times the variance in evaluation.",
     .number = "largest |running variance · (1 - q) / variance - 1| over q",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05,
     .source = "Li et al. 2018, arXiv 1801.05134"},
    {.name = "shift-hurts",
     .statement =
         "In a network with dropout before batch normalization, recomputing the statistics without dropout lowers the "
         "test error.",
     .number = "test error with running statistics divided by test error with recomputed statistics, q = 0.5",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.02,
     .source = "Li et al. 2018, arXiv 1801.05134"},
    {.name = "order",
     .statement = "Control: with dropout after batch normalization, recomputing the statistics changes nothing.",
     .number = "test error with running statistics divided by test error with recomputed statistics, dropout last",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.99,
     .upper = 1.01},
};

static const bo_lab_table tables[] = {
    {.name = "ridge",
     .title = "Batch normalization followed by dropout, compared with plain ridge regression",
     .rows = "q",
     .values = "|w| / |w without dropout|",
     .theory = "ridge, λ = n q/(1 - q)"},
    {.name = "shift",
     .title = "Running variance of batch normalization after dropout",
     .rows = "q",
     .values = "running variance / variance in evaluation",
     .theory = "1/(1 - q)"},
    {.name = "network",
     .title = "Test error of a network by order of its layers, q = 0.5",
     .rows = "order",
     .values = "mean squared error",
     .plot = BO_LAB_BARS},
};

enum { ROWS = 64, DIM = 8 };

/* ---- least squares ----------------------------------------------------------------------------------------------- */

/* Columns of different scales with a common component. All columns and y are centered. */
static bo_status open_problem(lab_run *run, lab_least_squares *out)
{
    bo_rng rng = lab_rng(run, "lab.dropout-and-batchnorm");
    float x[ROWS * DIM];
    double sizes[DIM], mean[DIM + 1] = {0};
    lab_geometric(0.5, 2, DIM, sizes);
    for (size_t r = 0; r < ROWS; r++) {
        const double common = bo_rng_normal(&rng);
        for (size_t j = 0; j < DIM; j++) {
            x[r * DIM + j] = (float)(sizes[j] * (bo_rng_normal(&rng) + 0.5 * common));
            mean[j] += (double)x[r * DIM + j] / ROWS;
        }
    }
    for (size_t i = 0; i < ROWS * DIM; i++) x[i] -= (float)mean[i % DIM];
    const lab_least_squares_desc desc = {.rows = ROWS, .dim = DIM, .x = x, .noise = 1};
    BO_TRY(lab_least_squares_open(lab_context(run), &desc, &rng, out));
    for (size_t r = 0; r < ROWS; r++) mean[DIM] += out->y[r] / ROWS;
    for (size_t r = 0; r < ROWS; r++) out->y_single[r] = (float)(out->y[r] -= mean[DIM]);
    return BO_OK;
}

/* The same examples with columns of variance 1. */
static bo_status standardize(lab_run *run, const lab_least_squares *p, lab_least_squares *out)
{
    float x[ROWS * DIM];
    bo_rng rng = lab_rng(run, "unused");
    for (size_t j = 0; j < DIM; j++) {
        double square = 0;
        for (size_t r = 0; r < ROWS; r++) square += p->x[r * DIM + j] * p->x[r * DIM + j] / ROWS;
        for (size_t r = 0; r < ROWS; r++) x[r * DIM + j] = (float)(p->x[r * DIM + j] / sqrt(square + 1e-5));
    }
    BO_TRY(lab_least_squares_open(lab_context(run), &(lab_least_squares_desc){.rows = ROWS, .dim = DIM, .x = x}, &rng,
                                  out));
    memcpy(out->y, p->y, ROWS * sizeof *out->y);
    memcpy(out->y_single, p->y_single, ROWS * sizeof *out->y_single);
    return BO_OK;
}

static bo_value frozen(bo_graph *graph, const char *name, size_t width, bo_weight_init_kind kind)
{
    char text[32] = "";
    strncat(text, name, sizeof text - 1);
    return bo_graph_weight(
        graph, &(bo_weight_desc){
                   .name = text, .rank = 2, .shape = (size_t[]){1, width}, .init = {kind, 0, 0}, .frozen = true});
}

/* Batch normalization without learned gain and bias. */
static bo_value normalize(bo_graph *graph, bo_value x)
{
    const size_t width = bo_graph_columns(graph, x);
    const bo_value inputs[] = {x, frozen(graph, "gain", width, BO_WEIGHT_INIT_KIND_ONE),
                               frozen(graph, "bias", width, BO_WEIGHT_INIT_KIND_ZERO),
                               frozen(graph, "mean", width, BO_WEIGHT_INIT_KIND_ZERO),
                               frozen(graph, "variance", width, BO_WEIGHT_INIT_KIND_ONE)};
    return lab_graph_one(graph, BO_OPERATION_BATCH_NORM, &(bo_batch_norm_attributes){0}, 5, inputs);
}

static bo_value normalize_then_drop(bo_graph *graph, bo_value x, const void *rate)
{
    return bo_nn_dropout(graph, normalize(graph, x), *(const double *)rate, 1);
}

/* Trains |y - Zw|² after batch normalization with dropout q. */
static bo_status train(lab_run *run, const lab_least_squares *p, const lab_least_squares *z, double q, double *w)
{
    const lab_perturbation perturbation = {normalize_then_drop, &q, z->scales[0] * z->scales[0] + q / (1 - q) * ROWS};
    return lab_perturbed_mean(lab_context(run), p, &perturbation, lab_size(run, 30000, 8000), lab_seed(run), w);
}

static bo_status measure_ridge(lab_run *run, const lab_least_squares *p, const lab_least_squares *z)
{
    static const double rates[] = {0.1, 0.3, 0.5, 0.7, 0.9};
    double plain[DIM], ridge[DIM], trained[DIM], worst = 0;
    BO_TRY(lab_ridge(lab_context(run), z, 0, NULL, plain));
    for (size_t i = 0; i < LAB_COUNT_OF(rates); i++) {
        const double q = rates[i];
        BO_TRY(lab_ridge(lab_context(run), z, ROWS * q / (1 - q), NULL, ridge));
        BO_TRY(train(run, p, z, q, trained));
        lab_point(run, "ridge", "trained", q, lab_norm(trained, DIM) / lab_norm(plain, DIM));
        lab_point(run, "ridge", "ridge, λ = n q/(1 - q)", q, lab_norm(ridge, DIM) / lab_norm(plain, DIM));
        worst = fmax(worst, lab_distance(trained, ridge, DIM) / lab_distance(plain, ridge, DIM));
        BO_TRY(lab_progress(run, 0.1 * (double)(i + 1)));
    }
    lab_claim(run, "plain-ridge", worst);
    return BO_OK;
}

/* ---- scales ------------------------------------------------------------------------------------------------------ */

/* Predictions of a linear kernel machine for its training rows. */
static bo_status predict(lab_run *run, const lab_least_squares *p, double lambda, double dropout, double *out)
{
    const lab_linear_machine machine = {.lambda = lambda, .dropout = dropout};
    return lab_machine_predict(lab_context(run), p, &machine, p->rows, p->x_single, out);
}

static bo_status measure_scales(lab_run *run, const lab_least_squares *p)
{
    float scaled[ROWS * DIM];
    double factors[DIM], before[ROWS], after[ROWS];
    const double small = 1e-6; /* kernel machines require a positive λ */
    lab_geometric(8, 1.0 / 8, DIM, factors);
    for (size_t i = 0; i < ROWS * DIM; i++) scaled[i] = (float)(p->x[i] * factors[i % DIM]);
    lab_least_squares other = *p; /* the same targets */
    other.x_single = scaled;
    BO_TRY(predict(run, p, small, 0.5, before));
    BO_TRY(predict(run, &other, small, 0.5, after));
    lab_claim(run, "scale-free", lab_distance(before, after, ROWS) / lab_norm(before, ROWS));
    BO_TRY(predict(run, p, ROWS, 0, before));
    BO_TRY(predict(run, &other, ROWS, 0, after));
    lab_claim(run, "ridge-sees-scale", lab_distance(before, after, ROWS) / lab_norm(before, ROWS));
    return BO_OK;
}

/* Computes the predictions of least squares, of dropout, and of batch normalization without dropout. */
static bo_status measure_sameness(lab_run *run, const lab_least_squares *p, const lab_least_squares *z)
{
    double plain[ROWS], dropped[ROWS], normalized[ROWS], w[DIM];
    BO_TRY(predict(run, p, 1e-6, 0, plain));
    BO_TRY(predict(run, p, 1e-6, 0.5, dropped));
    BO_TRY(train(run, p, z, 0, w));
    for (size_t r = 0; r < ROWS; r++) normalized[r] = lab_dot(z->x + r * DIM, w, DIM);
    lab_claim(run, "is-batchnorm", lab_distance(normalized, dropped, ROWS) / lab_distance(plain, dropped, ROWS));
    return BO_OK;
}

static bo_status measure_least_squares(lab_run *run)
{
    lab_least_squares p, z = {0};
    BO_TRY(open_problem(run, &p));
    bo_status status = standardize(run, &p, &z);
    if (status == BO_OK) status = measure_ridge(run, &p, &z);
    if (status == BO_OK) status = measure_scales(run, &p);
    if (status == BO_OK) status = measure_sameness(run, &p, &z);
    lab_least_squares_close(&z);
    lab_least_squares_close(&p);
    return status;
}

/* ---- running variance -------------------------------------------------------------------------------------------- */

enum { BATCH = 512, CHANNELS = 16 };

static bo_status kept_variance(bo_context *context, const float *x, double q, uint64_t seed, double *mean)
{
    lab_descent d;
    float variance[CHANNELS];
    BO_TRY(lab_descent_open(context, &d));
    const bo_value in = bo_graph_input(d.tape.graph, "x", BO_ELEMENT_FLOAT32, BATCH, CHANNELS);
    const bo_value out = normalize(d.tape.graph, bo_nn_dropout(d.tape.graph, in, q, 1));
    const bo_value line =
        lab_graph_linear(d.tape.graph, "w", out, CHANNELS, (bo_weight_init){BO_WEIGHT_INIT_KIND_NORMAL, 0, 1});
    bo_status status = lab_descent_ready(&d, lab_graph_squares(d.tape.graph, line, in), 1, &lab_plain_descent, seed);
    if (status == BO_OK) status = bo_graph_write(context, d.tape.graph, in, x);
    for (size_t t = 0; t < 100 && status == BO_OK; t++) status = lab_descent_gradients(&d, NULL);
    if (status == BO_OK) status = lab_tape_read(&d.tape, "variance", variance);
    lab_descent_close(&d);
    *mean = 0;
    for (size_t j = 0; j < CHANNELS; j++) *mean += (double)variance[j] / CHANNELS;
    return status;
}

static bo_status measure_shift(lab_run *run, double center, const char *column)
{
    static const double rates[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7};
    float x[BATCH * CHANNELS];
    double plain, kept, worst = 0;
    bo_rng rng = lab_rng(run, "lab.dropout-and-batchnorm.shift");
    for (size_t i = 0; i < BATCH * CHANNELS; i++) x[i] = (float)(center + bo_rng_normal(&rng));
    BO_TRY(kept_variance(lab_context(run), x, 0, lab_seed(run), &plain));
    for (size_t i = 0; i < LAB_COUNT_OF(rates); i++) {
        BO_TRY(kept_variance(lab_context(run), x, rates[i], lab_seed(run), &kept));
        lab_point(run, "shift", column, rates[i], kept / plain);
        if (center == 0) lab_point(run, "shift", "1/(1 - q)", rates[i], 1 / (1 - rates[i]));
        worst = fmax(worst, fabs(kept / plain * (1 - rates[i]) - 1));
    }
    if (center == 0) lab_claim(run, "variance-shift", worst);
    return lab_progress(run, 0.6);
}

/* ---- a network --------------------------------------------------------------------------------------------------- */

enum { TRAIN = 256, TEST = 1024, WIDTH = 64 };

/* Two hidden layers, of which the second is normalized, with dropout between them or after them. */
static bo_value network(bo_graph *graph, bo_value x, double rate, bool last)
{
    const bo_weight_init first = {BO_WEIGHT_INIT_KIND_NORMAL, 0, sqrt(2.0 / DIM)},
                         other = {BO_WEIGHT_INIT_KIND_NORMAL, 0, sqrt(2.0 / WIDTH)};
    bo_value h = lab_graph_unary(graph, BO_UNARY_RELU, lab_graph_linear(graph, "first", x, WIDTH, first));
    if (!last) h = bo_nn_dropout(graph, h, rate, 1);
    h = normalize(graph, lab_graph_linear(graph, "second", h, WIDTH, other));
    h = lab_graph_unary(graph, BO_UNARY_RELU, h);
    if (last) h = bo_nn_dropout(graph, h, rate, 1);
    return lab_graph_linear(graph, "third", h, 1, (bo_weight_init){BO_WEIGHT_INIT_KIND_NORMAL, 0, sqrt(1.0 / WIDTH)});
}

typedef struct examples {
    float x[TRAIN * DIM], y[TRAIN], test_x[TEST * DIM], test_y[TEST];
} examples;

static void draw_examples(bo_rng *rng, size_t count, double noise, float *x, float *y)
{
    for (size_t i = 0; i < count; i++) {
        float *row = x + i * DIM;
        for (size_t j = 0; j < DIM; j++) row[j] = (float)bo_rng_normal(rng);
        y[i] = (float)(sin(2 * (double)row[0]) + (double)row[1] * (double)row[2] + fabs((double)row[3]) +
                       noise * bo_rng_normal(rng));
    }
}

/* Computes the loss of a graph with the same weights and without gradients, in `passes` passes in training or
 * evaluation mode. */
static bo_status evaluate(const lab_tape *tape, size_t rows, const float *x, const float *y, bool last,
                          const bo_graph_pass *pass, size_t passes, double *out)
{
    bo_context *context = tape->context;
    bo_graph *graph;
    float loss = 0;
    BO_TRY(bo_graph_create(context, tape->weights, &graph));
    const bo_value in = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, rows, DIM);
    const bo_value target = bo_graph_input(graph, "y", BO_ELEMENT_FLOAT32, rows, 1);
    const bo_value value = lab_graph_squares(graph, network(graph, in, 0, last), target);
    bo_status status = bo_graph_compile(context, graph, &(bo_graph_compile_desc){.loss = value});
    if (status == BO_OK) status = bo_graph_allocate(context, graph);
    if (status == BO_OK) status = bo_graph_write(context, graph, in, x);
    if (status == BO_OK) status = bo_graph_write(context, graph, target, y);
    for (size_t i = 0; i < passes && status == BO_OK; i++) status = bo_graph_run(context, graph, pass);
    if (status == BO_OK) status = bo_graph_read(context, graph, value, &loss);
    bo_graph_destroy(graph);
    *out = (double)loss;
    return status;
}

/* Computes test errors with the running statistics of training and with those of 200 passes without dropout. */
static bo_status test_both(const lab_tape *tape, const examples *e, bool last, double *kept, double *again)
{
    double unused;
    BO_TRY(evaluate(tape, TEST, e->test_x, e->test_y, last, &(bo_graph_pass){0}, 1, kept));
    BO_TRY(evaluate(tape, TRAIN, e->x, e->y, last, &(bo_graph_pass){.training = true}, 200, &unused));
    return evaluate(tape, TEST, e->test_x, e->test_y, last, &(bo_graph_pass){0}, 1, again);
}

static bo_status measure_order(lab_run *run, const examples *e, bool last)
{
    const char *row = last ? "normalize, dropout" : "dropout, normalize";
    const bo_optimizer_desc adam = {.kind = BO_OPTIMIZER_ADAMW, .rate = 3e-3, .clip = 1};
    const size_t steps = lab_size(run, 2000, 500);
    lab_descent d;
    double kept = 0, again = 0;
    BO_TRY(lab_descent_open(lab_context(run), &d));
    const bo_value x = bo_graph_input(d.tape.graph, "x", BO_ELEMENT_FLOAT32, TRAIN, DIM);
    const bo_value y = bo_graph_input(d.tape.graph, "y", BO_ELEMENT_FLOAT32, TRAIN, 1);
    bo_status status = lab_descent_ready(&d, lab_graph_squares(d.tape.graph, network(d.tape.graph, x, 0.5, last), y), 1,
                                         &adam, lab_seed(run));
    if (status == BO_OK) status = bo_graph_write(d.tape.context, d.tape.graph, x, e->x);
    if (status == BO_OK) status = bo_graph_write(d.tape.context, d.tape.graph, y, e->y);
    for (size_t t = 0; t < steps && status == BO_OK; t++) {
        /* a decaying learning rate lets the statistics settle */
        status = lab_descent_step(&d, 1 - (double)t / (double)steps, NULL);
        if (t % 64 == 0 && status == BO_OK) status = lab_progress(run, 0.7);
    }
    if (status == BO_OK) status = test_both(&d.tape, e, last, &kept, &again);
    lab_descent_close(&d);
    lab_claim(run, last ? "order" : "shift-hurts", kept / again);
    lab_cell(run, "network", row, "running statistics", kept);
    lab_cell(run, "network", row, "recomputed without dropout", again);
    return status;
}

static bo_status measure_network(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.dropout-and-batchnorm.network");
    examples *e = bo_alloc(lab_context(run), 1, sizeof *e, "examples");
    if (!e) return BO_MEMORY;
    draw_examples(&rng, TRAIN, 0.3, e->x, e->y);
    draw_examples(&rng, TEST, 0, e->test_x, e->test_y);
    bo_status status = measure_order(run, e, false);
    if (status == BO_OK) status = measure_order(run, e, true);
    bo_free(e);
    return status;
}

static bo_status measure(lab_run *run)
{
    BO_TRY(measure_least_squares(run));
    BO_TRY(measure_shift(run, 0, "inputs of mean 0"));
    BO_TRY(measure_shift(run, 1, "inputs of mean 1"));
    return measure_network(run);
}

const lab_experiment lab_dropout_and_batchnorm = {
    {.name = "dropout-and-batchnorm",
     .group = LAB_LEARNING,
     .title = "Dropout and batch normalization: equal rescaling, and a shift of variance",
     .claim =
         "The penalty |Γw|² of dropout is plain ridge once columns are rescaled by Γ, as batch normalization does; "
         "dropout is therefore invariant to scale. Dropout before batch normalization makes the variance in training "
         "differ from that in evaluation.",
     .source = "course notes, regularization and dropout",
     .method = "64 centered examples have 8 correlated inputs of standard deviations 0.5 to 2. Batch normalization, "
               "dropout and a linear layer are trained for 30000 steps with fresh masks; the mean over the second "
               "half of training is compared with linear kernel machines with dropout in closed form on rescaled "
               "columns. Running variance: 512 Gaussian inputs with 16 channels, 100 passes. Network: 8 inputs, 64 "
               "ReLU units, 64 normalized ReLU units, one output; dropout 0.5 before or after the normalized layer; "
               "256 examples, 2000 steps of AdamW with a learning rate decaying from 3e-3 to 0, 1024 test examples.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
