/* lora: one layer that must change by a matrix of known rank. */
#include "lora.h"
#include <math.h>
#include <stdio.h>

enum { SIZE = 32, TRUE_RANK = 4, MAX_RANK = 8 };

typedef enum start { ZERO_ZERO, BOTH_RANDOM, A_RANDOM, B_RANDOM, STARTS } start;
static const char *const start_names[STARTS] = {"both zero", "both random", "A random, B zero", "A zero, B random"};

typedef struct layer {
    size_t rank;
    start begin;
} layer;

static bo_value product(bo_graph *graph, const char *name, bo_value x, size_t out, double deviation, bool frozen)
{
    char named[8];
    snprintf(named, sizeof named, "%s", name);
    const bo_weight_desc w = {
        .name = named,
        .rank = 2,
        .shape = (size_t[]){out, bo_graph_columns(graph, x)},
        .frozen = frozen,
        .init = {.kind = deviation > 0 ? BO_WEIGHT_INIT_KIND_NORMAL : BO_WEIGHT_INIT_KIND_ZERO, .b = deviation}};
    const bo_value inputs[2] = {x, bo_graph_weight(graph, &w)};
    return lab_graph_one(graph, BO_OPERATION_LINEAR, &(bo_linear_attributes){.weights = 1}, 2, inputs);
}

/* y = W0 x + B A x. Xavier initialization: standard deviation √(2 / (in + out)). */
static bo_value record(const void *user, bo_graph *graph, bo_value x)
{
    const layer *l = user;
    const double xavier = sqrt(2.0 / (double)(SIZE + l->rank));
    const bo_value base = product(graph, "W", x, SIZE, 1 / sqrt(SIZE), true);
    const bo_value inner =
        product(graph, "A", x, l->rank, l->begin == BOTH_RANDOM || l->begin == A_RANDOM ? xavier : 0, false);
    const bo_value outer =
        product(graph, "B", inner, SIZE, l->begin == BOTH_RANDOM || l->begin == B_RANDOM ? xavier : 0, false);
    return lab_graph_one(graph, BO_OPERATION_ADD, NULL, 2, (bo_value[]){base, outer});
}

/* Inputs x with Σ x xᵀ = SIZE I, so that the loss is |B A - D|² / SIZE in the Frobenius norm. D = Uᵀ V has TRUE_RANK
 * singular values of 1. */
typedef struct problem {
    lab_run *run;
    float x[SIZE * SIZE], before[SIZE * SIZE], target[SIZE * SIZE]; /* x, W0 x, (W0 + D) x */
} problem;

static lab_fit_desc describe(const layer *l)
{
    return (lab_fit_desc){.rows = SIZE,
                          .in = SIZE,
                          .out = SIZE,
                          .record = record,
                          .user = l,
                          .optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = 0.03}};
}

/* Weights are drawn by name, so W0 is the same in all layers of a seed. */
static bo_status draw_problem(problem *l)
{
    double x[SIZE * SIZE], u[TRUE_RANK * SIZE], v[TRUE_RANK * SIZE], d[SIZE * SIZE], moved[SIZE * SIZE];
    bo_context *context = lab_context(l->run);
    bo_rng rng = lab_rng(l->run, "lab.lora");
    BO_TRY(lab_orthonormal(context, &rng, SIZE, SIZE, x));
    BO_TRY(lab_orthonormal(context, &rng, TRUE_RANK, SIZE, u));
    BO_TRY(lab_orthonormal(context, &rng, TRUE_RANK, SIZE, v));
    BO_TRY(lab_multiply(context, true, false, SIZE, SIZE, TRUE_RANK, 1, u, SIZE, v, SIZE, 0, d, SIZE));
    BO_TRY(lab_multiply(context, false, true, SIZE, SIZE, SIZE, sqrt(SIZE), x, SIZE, d, SIZE, 0, moved, SIZE));
    for (size_t i = 0; i < SIZE * SIZE; i++) l->x[i] = (float)(sqrt(SIZE) * x[i]);
    lab_fit fit;
    const layer bare = {.rank = 1, .begin = ZERO_ZERO};
    const lab_fit_desc desc = describe(&bare);
    BO_TRY(lab_fit_open(l->run, &desc, &fit));
    const bo_status status = lab_fit_predict(&fit, l->x, l->before);
    for (size_t i = 0; i < SIZE * SIZE; i++) l->target[i] = (float)((double)l->before[i] + moved[i]);
    lab_fit_close(&fit);
    return status;
}

/* |a - b| / |c|; |a| / |c| if b is NULL. */
static double distance(size_t count, const float *a, const float *b, const float *c)
{
    double difference = 0, length = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = (double)a[i] - (b ? (double)b[i] : 0);
        difference += d * d;
        length += (double)c[i] * (double)c[i];
    }
    return sqrt(difference / length);
}

typedef struct fit_result {
    double change;   /* of the output before the first step, relative to its norm */
    double gradient; /* norm of the initial gradient of A and B */
    double left;     /* final squared error, relative to that of W0 alone */
    double size;     /* largest final entry of A and B */
} fit_result;

static double largest_in(const lab_fit *fit, const char *name)
{
    const bo_weight *weight = bo_weights_find(fit->descent.tape.weights, name);
    const float *w = weight->data;
    double max = 0;
    for (size_t i = 0; i < weight->rows * weight->columns; i++) max = fmax(max, fabs((double)w[i]));
    return max;
}

static double gradient_of(const lab_fit *fit, const char *name)
{
    const bo_weight *weight = bo_weights_find(fit->descent.tape.weights, name);
    const float *g = weight->gradient;
    double sum = 0;
    for (size_t i = 0; i < weight->rows * weight->columns; i++) sum += (double)g[i] * (double)g[i];
    return sum;
}

static bo_status measure_fit(const problem *l, lab_fit *fit, fit_result *out)
{
    const size_t steps = lab_size(l->run, 1000, 500);
    float y[SIZE * SIZE];
    double loss;
    BO_TRY(lab_fit_predict(fit, l->x, y));
    out->change = distance(SIZE * SIZE, y, l->before, l->before);
    BO_TRY(lab_fit_gradient(fit, l->x, l->target, &loss));
    out->gradient = sqrt(gradient_of(fit, "A") + gradient_of(fit, "B"));
    for (size_t i = 0; i < steps; i++) BO_TRY(lab_fit_step(fit, l->x, l->target, 1 - (double)i / (double)steps, &loss));
    BO_TRY(lab_fit_gradient(fit, l->x, l->target, &loss));
    out->left = loss * SIZE / TRUE_RANK; /* |D|² = TRUE_RANK, and the loss is a mean over SIZE² numbers */
    out->size = fmax(largest_in(fit, "A"), largest_in(fit, "B"));
    return BO_OK;
}

static bo_status fit_layer(const problem *l, size_t rank, start begin, fit_result *out)
{
    lab_fit fit;
    const layer described = {.rank = rank, .begin = begin};
    const lab_fit_desc desc = describe(&described);
    BO_TRY(lab_fit_open(l->run, &desc, &fit));
    const bo_status status = measure_fit(l, &fit, out);
    lab_fit_close(&fit);
    return status;
}

bo_status lab_lora_layer(lab_run *run)
{
    problem l = {.run = run};
    fit_result t[STARTS];
    BO_TRY(draw_problem(&l));
    for (start s = 0; s < STARTS; s++) {
        BO_TRY(fit_layer(&l, TRUE_RANK, s, &t[s]));
        lab_cell(run, "beginnings", start_names[s], "change of output at step 0", t[s].change);
        lab_cell(run, "beginnings", start_names[s], "|gradient| at step 0", t[s].gradient);
        lab_cell(run, "beginnings", start_names[s], "remaining error", t[s].left);
    }
    lab_claim(run, "zero-zero", fmax(t[ZERO_ZERO].size, t[ZERO_ZERO].gradient));
    lab_claim(run, "both-random", t[BOTH_RANDOM].change);
    lab_claim(run, "one-zero", t[A_RANDOM].change);
    for (size_t rank = 1; rank <= MAX_RANK; rank++) {
        const double best = rank < TRUE_RANK ? 1 - (double)rank / TRUE_RANK : 0; /* equal singular values */
        fit_result at;
        BO_TRY(fit_layer(&l, rank, A_RANDOM, &at));
        lab_point(run, "rank", "learned", (double)rank, at.left);
        lab_point(run, "rank", "best of this rank", (double)rank, best);
        if (rank == TRUE_RANK) lab_claim(run, "enough-rank", at.left);
        if (rank == TRUE_RANK - 1) lab_claim(run, "too-little-rank", at.left / best);
    }
    return lab_progress(run, 0.05);
}
