/* infinite-width: do kernels of infinitely wide networks lack learned features or a better optimizer? */
#include "infinite_width.h"
#include "stopping.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "gap",
     .statement = "The tangent kernel (infinite width with gradient descent) has a larger test error than finite "
                  "networks with standard training.",
     .number = "test error of the kernel divided by that of the finite network, geometric mean of three tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.5,
     .passage = LAB_PAPERS "line 37: \"weak performance compared to finite models\""},
    {.name = "disabled",
     .statement = "The tangent kernel has a larger test error than even finite linearized networks, whose features "
                  "cannot change, trained with Adam.",
     .number = "test error of the kernel divided by that of the linearized network of width 128, geometric mean of "
               "three tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1,
     .passage = LAB_PAPERS "line 37: \"NTKs under-perform traditional finite models even when feature learning is "
                           "artificially disabled\""},
    {.name = "adam-limit",
     .statement = "An Adam-like infinite-width model (many random tangent features trained with Adam) has a smaller "
                  "test error than the kernel.",
     .number = "test error of the kernel divided by that of Adam on the largest number of features, geometric mean of "
               "three tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1,
     .passage = LAB_PAPERS "line 37: \"weak performance is at least partly due to the fact that existing constructions "
                           "depend on weak optimizers like SGD\""},
    {.name = "as-many-steps",
     .statement = "An Adam-like infinite-width model has a smaller test error than the kernel after the same number of "
                  "gradient descent steps.",
     .number = "test error of the kernel after the same number of steps divided by that of Adam on the largest number "
               "of features, geometric mean of three tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "erased",
     .statement = "The Adam-like limit closes the gap to finite networks with standard training.",
     .number = "test error of Adam on the largest number of features divided by that of the finite network, geometric "
               "mean of three tasks",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.1,
     .passage =
         LAB_PAPERS "line 37: \"a new infinite width limit based on ADAM-like learning dynamics […] the resulting "
                    "models erase this performance gap\"; the limit of the paper may differ from that of the "
                    "experiment"},
    {.name = "subfeatures",
     .statement = "Selecting a few of the frozen features works as well as learning features: greedily selected "
                  "features reach the test error of the finite network.",
     .number = "test error of at most 64 greedily selected tangent features divided by that of the finite network, "
               "geometric mean of three tasks",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.1,
     .passage = LAB_PAPERS "line 37: \"They can learn identical behavior by selecting relevant subfeatures from their "
                           "(infinite) frozen feature vector\"; tested with finitely many features and one way of "
                           "selecting them"},
    {.name = "subfeatures-kernel",
     .statement = "A few selected features have a smaller test error than the kernel, which uses all of them equally.",
     .number = "test error of the kernel divided by that of the selected features, geometric mean of three tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "gaussian",
     .statement = "If features are jointly Gaussian, sign steps move along the gradient of the kernel with length "
                  "√(2/π) / √(cᵀKc), and the difference falls as the inverse square root of the number of features.",
     .number = "exponent of the relative difference as a power of the number of features",
     .rule = BO_LAB_BETWEEN,
     .bound = -0.6,
     .upper = -0.4,
     .source = "E[φ sign ψ] of jointly normal φ, ψ"},
    {.name = "tangent-signs",
     .statement = "Tangent features are not Gaussian: sign steps move in another direction, also in the limit.",
     .number = "sine of the angle to the gradient of the kernel, with the largest number of features",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1},
    {.name = "selection",
     .statement = "With fewer examples than features, Adam concentrates on the few relevant ones of many independent "
                  "frozen features, while gradient descent spreads over all.",
     .number = "fraction of the squared weights on the relevant features with Adam divided by that with gradient "
               "descent",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.5},
};

static const bo_lab_table tables[] = {
    {.name = "errors",
     .title = "Test error by model",
     .rows = "task",
     .values = "squared error relative to the target",
     .plot = BO_LAB_BARS},
    {.name = "growth",
     .title = "Test error by number of frozen tangent features, mean of three tasks",
     .rows = "features",
     .values = "squared error relative to the target",
     .log_x = true,
     .theory = "tangent kernel"},
    {.name = "signs",
     .title = "Direction of sign steps relative to the gradient of the kernel",
     .rows = "features",
     .values = "relative difference of directions",
     .log_x = true,
     .log_y = true},
    {.name = "selection",
     .title = "Training on 1024 frozen features, of which 8 are relevant, with 200 examples",
     .rows = "optimizer",
     .values = "fractions",
     .plot = BO_LAB_BARS},
};

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

enum { TASKS = 3, INPUTS = 20, PART = 300, HIDDEN = 128, MAX_WIDTHS = 4, FEW = 64 };
static const char *const task_names[TASKS] = {"parity of 2 of 20", "|u·x|, one direction of 20", "teacher of 64 units"};

static double target_of(size_t task, const float *x, const double *hidden)
{
    if (task == 0) return (double)(x[0] * x[1]);
    double sum = 0;
    for (size_t j = 0; j < (task == 1 ? 1 : 64); j++) {
        double dot = 0;
        for (size_t i = 0; i < INPUTS; i++) dot += hidden[j * (INPUTS + 1) + i] * (double)x[i];
        if (task == 1) return fabs(dot);
        sum += hidden[j * (INPUTS + 1) + INPUTS] * fmax(0, dot);
    }
    return sum;
}

/* Inputs are signs for parity, otherwise normal numbers; the last is a constant. Targets have mean 0 and size 1. */
static void draw_task(lab_run *run, size_t task, lab_examples *e)
{
    const size_t rows = lab_examples_rows(e);
    double hidden[64 * (INPUTS + 1)], sum = 0, squares = 0, length = 0;
    bo_rng rng = bo_rng_make(lab_seed(run), bo_rng_stream("lab.infinite-width.task", task));
    for (size_t i = 0; i < LAB_COUNT_OF(hidden); i++) hidden[i] = bo_rng_normal(&rng);
    for (size_t i = 0; i < INPUTS; i++) length += hidden[i] * hidden[i];
    for (size_t i = 0; task == 1 && i < INPUTS; i++) hidden[i] /= sqrt(length);
    for (size_t r = 0; r < rows; r++) {
        float *x = e->x + r * e->dim;
        for (size_t i = 0; i < INPUTS; i++)
            x[i] = task == 0 ? (bo_rng_below(&rng, 2) ? 1 : -1) : (float)bo_rng_normal(&rng);
        x[INPUTS] = 1;
        e->y[r] = (float)target_of(task, x, hidden);
        sum += (double)e->y[r] / (double)rows;
    }
    for (size_t r = 0; r < rows; r++) squares += pow((double)e->y[r] - sum, 2) / (double)rows;
    for (size_t r = 0; r < rows; r++) e->y[r] = (float)(((double)e->y[r] - sum) / sqrt(squares));
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

typedef struct network {
    bool frozen; /* whether the hidden layer is frozen */
} network;

static bo_value record_network(const void *user, bo_graph *graph, bo_value x)
{
    const network *n = user;
    char hidden[] = "hidden", readout[] = "readout";
    const size_t in = bo_graph_columns(graph, x);
    const bo_weight_desc w = {.name = hidden,
                              .rank = 2,
                              .shape = (size_t[]){HIDDEN, in},
                              .frozen = n->frozen,
                              .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = sqrt(2 / (double)in)}};
    const bo_weight_desc a = {.name = readout,
                              .rank = 2,
                              .shape = (size_t[]){1, HIDDEN},
                              .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = 1 / sqrt(HIDDEN)}};
    const bo_linear_attributes linear = {.weights = 1};
    bo_value h = lab_graph_one(graph, BO_OPERATION_LINEAR, &linear, 2, (bo_value[]){x, bo_graph_weight(graph, &w)});
    h = lab_graph_unary(graph, BO_UNARY_RELU, h);
    return lab_graph_one(graph, BO_OPERATION_LINEAR, &linear, 2, (bo_value[]){h, bo_graph_weight(graph, &a)});
}

static size_t steps_of(lab_run *run)
{
    return lab_size(run, 400, 100);
}

/* Learning rates and steps that all models share. */
static lab_stopping stopping(lab_run *run, const lab_examples *e)
{
    return (lab_stopping){
        .examples = e, .rates = lab_size(run, 4, 2), .steps = steps_of(run), .kind = BO_OPTIMIZER_ADAMW};
}

static bo_status train_network(lab_run *run, const lab_examples *e, bool frozen, bo_optimizer_kind kind, double *error)
{
    const network n = {.frozen = frozen};
    lab_stopping desc = stopping(run, e);
    lab_stopped out;
    desc.inputs = e->x;
    desc.width = e->dim;
    desc.record = record_network;
    desc.user = &n;
    desc.kind = kind;
    desc.rate = kind == BO_OPTIMIZER_SGD ? 0.0015 : 0.006;
    BO_TRY(lab_stop(run, &desc, &out));
    *error = out.test;
    return BO_OK;
}

/* ---- one task ---------------------------------------------------------------------------------------------------- */

typedef enum kind { KERNEL, KERNEL_STEPS, WIDEST, CHOSEN, LINEARIZED, FROZEN, NETWORK_SGD, NETWORK, MODELS } kind;
static const char *const model_names[MODELS] = {"tangent kernel",
                                                "tangent kernel, same number of steps",
                                                "all tangent features, Adam",
                                                "64 selected features",
                                                "linearized network, Adam",
                                                "frozen hidden layer, Adam",
                                                "network, SGD",
                                                "network, Adam"};
static const size_t widths[MAX_WIDTHS] = {8, 32, HIDDEN, 1024};

typedef struct results {
    double of[TASKS][MODELS];
    /* by number of hidden units */
    double adam[TASKS][MAX_WIDTHS], flow[TASKS][MAX_WIDTHS], chosen[TASKS][MAX_WIDTHS];
} results;

/* Buffers of one task. */
typedef struct bench {
    lab_run *run;
    lab_examples examples;
    size_t widths; /* number of widths */
    float *phi;    /* rows x features of the largest width */
    double *kernel;
} bench;

/* Returns the change of a prediction by a step of rate 1 with signs independent of it: √(Σ φ²), root mean square over
 * rows. */
static double typical_length(size_t rows, size_t width, const float *phi)
{
    double sum = 0;
    for (size_t i = 0; i < rows * width; i++) sum += (double)phi[i] * (double)phi[i];
    return sqrt(sum / (double)rows);
}

static bo_status measure_features(bench *b, size_t m, double *adam, double *flow, double *chosen)
{
    const lab_examples *e = &b->examples;
    lab_stopping desc = stopping(b->run, e);
    bo_rng rng = bo_rng_make(lab_seed(b->run), bo_rng_stream("lab.infinite-width.features", m));
    lab_flow_result flown;
    lab_chosen few;
    lab_stopped out;
    desc.width = lab_tangent_features(e->dim, m);
    desc.inputs = b->phi;
    desc.record = lab_record_linear;
    BO_TRY(lab_tangent_map(lab_context(b->run), e, m, &rng, b->phi));
    BO_TRY(lab_feature_kernel(lab_context(b->run), lab_examples_rows(e), desc.width, b->phi, b->kernel));
    BO_TRY(lab_kernel_flow(lab_context(b->run), e, b->kernel, INFINITY, &flown));
    desc.rates = lab_size(b->run, LAB_MAX_TRIALS, 2);
    desc.rate = (lab_quick(b->run) ? 0.27 : 0.03) / typical_length(e->train, desc.width, b->phi);
    BO_TRY(lab_stop(b->run, &desc, &out));
    BO_TRY(lab_choose_features(lab_context(b->run), e, desc.width, b->phi, FEW, &few));
    *adam = out.test;
    *flow = flown.test;
    *chosen = few.test;
    return BO_OK;
}

static bo_status measure_task(bench *b, size_t task, results *out)
{
    lab_flow_result flown;
    double *errors = out->of[task];
    draw_task(b->run, task, &b->examples);
    BO_TRY(lab_tangent_kernel(lab_context(b->run), &b->examples, b->kernel));
    BO_TRY(lab_kernel_flow(lab_context(b->run), &b->examples, b->kernel, INFINITY, &flown));
    errors[KERNEL] = flown.test;
    BO_TRY(lab_kernel_flow(lab_context(b->run), &b->examples, b->kernel, (double)steps_of(b->run), &flown));
    errors[KERNEL_STEPS] = flown.test;
    BO_TRY(train_network(b->run, &b->examples, false, BO_OPTIMIZER_ADAMW, &errors[NETWORK]));
    BO_TRY(train_network(b->run, &b->examples, false, BO_OPTIMIZER_SGD, &errors[NETWORK_SGD]));
    BO_TRY(train_network(b->run, &b->examples, true, BO_OPTIMIZER_ADAMW, &errors[FROZEN]));
    for (size_t i = 0; i < b->widths; i++) {
        BO_TRY(measure_features(b, widths[i], &out->adam[task][i], &out->flow[task][i], &out->chosen[task][i]));
        BO_TRY(lab_progress(b->run, 0.1 + 0.9 * ((double)task + (double)(i + 1) / (double)b->widths) / TASKS));
        if (widths[i] == HIDDEN) errors[LINEARIZED] = out->adam[task][i];
    }
    errors[WIDEST] = out->adam[task][b->widths - 1];
    errors[CHOSEN] = out->chosen[task][b->widths - 1];
    for (kind k = 0; k < MODELS; k++) lab_cell(b->run, "errors", task_names[task], model_names[k], errors[k]);
    return BO_OK;
}

/* ---- all tasks --------------------------------------------------------------------------------------------------- */

/* exp of the mean over tasks of log a/b. */
static double mean_ratio(const results *r, kind a, kind b)
{
    double sum = 0;
    for (size_t t = 0; t < TASKS; t++) sum += log(r->of[t][a] / r->of[t][b]);
    return exp(sum / TASKS);
}

static void claim_results(const bench *b, const results *r)
{
    for (size_t i = 0; i < b->widths; i++) {
        const double features = (double)lab_tangent_features(b->examples.dim, widths[i]);
        double adam = 0, flow = 0, chosen = 0, kernel = 0, network_error = 0;
        for (size_t t = 0; t < TASKS; t++) {
            adam += r->adam[t][i] / TASKS;
            flow += r->flow[t][i] / TASKS;
            chosen += r->chosen[t][i] / TASKS;
            kernel += r->of[t][KERNEL] / TASKS;
            network_error += r->of[t][NETWORK] / TASKS;
        }
        lab_point(b->run, "growth", "Adam", features, adam);
        lab_point(b->run, "growth", "gradient flow", features, flow);
        lab_point(b->run, "growth", "64 selected features", features, chosen);
        lab_point(b->run, "growth", "tangent kernel", features, kernel);
        lab_point(b->run, "growth", "network of width 128, Adam", features, network_error);
    }
    lab_claim(b->run, "gap", mean_ratio(r, KERNEL, NETWORK));
    lab_claim(b->run, "disabled", mean_ratio(r, KERNEL, LINEARIZED));
    lab_claim(b->run, "adam-limit", mean_ratio(r, KERNEL, WIDEST));
    lab_claim(b->run, "as-many-steps", mean_ratio(r, KERNEL_STEPS, WIDEST));
    lab_claim(b->run, "erased", mean_ratio(r, WIDEST, NETWORK));
    lab_claim(b->run, "subfeatures", mean_ratio(r, CHOSEN, NETWORK));
    lab_claim(b->run, "subfeatures-kernel", mean_ratio(r, KERNEL, CHOSEN));
}

static bo_status measure_tasks(bench *b)
{
    results r = {0};
    for (size_t task = 0; task < TASKS; task++) BO_TRY(measure_task(b, task, &r));
    claim_results(b, &r);
    return BO_OK;
}

static bo_status measure_models(lab_run *run)
{
    bench b = {.run = run, .widths = lab_size(run, MAX_WIDTHS, MAX_WIDTHS - 1)};
    b.examples = (lab_examples){.dim = INPUTS + 1, .train = PART, .valid = PART, .test = 2 * PART};
    const size_t rows = lab_examples_rows(&b.examples), max_width = widths[b.widths - 1];
    bo_context *context = lab_context(run);
    b.examples.x = bo_alloc(context, rows * b.examples.dim, sizeof *b.examples.x, "examples");
    b.examples.y = bo_alloc(context, rows, sizeof *b.examples.y, "examples");
    b.phi = bo_alloc(context, rows * lab_tangent_features(b.examples.dim, max_width), sizeof *b.phi, "features");
    b.kernel = bo_alloc(context, rows * rows, sizeof *b.kernel, "a kernel");
    bo_status status = b.examples.x && b.examples.y && b.phi && b.kernel ? measure_tasks(&b) : BO_MEMORY;
    bo_free(b.examples.x);
    bo_free(b.examples.y);
    bo_free(b.phi);
    bo_free(b.kernel);
    return status;
}

static bo_status measure(lab_run *run)
{
    BO_TRY(lab_infinite_width_signs(run));
    BO_TRY(lab_progress(run, 0.05));
    BO_TRY(lab_infinite_width_selection(run));
    BO_TRY(lab_progress(run, 0.1));
    return measure_models(run);
}

const lab_experiment lab_infinite_width = {
    {.name = "infinite-width",
     .group = LAB_LEARNING,
     .title = "Infinitely wide networks: missing features or a missing optimizer",
     .claim = "Tangent kernels perform worse than finite networks not because their features cannot learn, but because "
              "kernels correspond to weak optimizers: with Adam, the same frozen features catch up.",
     .source = "Infinite Width Models That Work (arXiv 2406.18800)",
     .method =
         "The tasks are regressions on 300 examples of 20 inputs and a constant, with early stopping on 300 others "
         "and testing on 600: a product of two signs, |u·x| along one random direction, and a random network of 64 "
         "units. The tangent kernel of one hidden ReLU layer (closed form; gradient flow, or 400 steps with learning "
         "rate one over its largest eigenvalue) is compared with networks of width 128 with standard training and "
         "networks whose hidden layer is frozen, and with frozen tangent features of 8 to 1024 hidden units (at most "
         "22,528 features). These features are trained with Adam and by gradient flow, or selected one by one "
         "(orthogonal matching pursuit, at most 64). Networks use the best of four learning rates, Adam on features "
         "the best of five, from 0.03 to 2.43 over the root of Σφ². Training takes 400 full-batch steps and is "
         "validated every twentieth of them. The Adam-like limit is that of many features; the construction in the "
         "paper may differ. Directions: sign steps are compared with the gradient of the kernel for Gaussian features "
         "and for tangent features, mean over 16 sets of 16 examples. Selection: 1024 independent normal features, "
         "targets from 8 of them, 200 examples.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
