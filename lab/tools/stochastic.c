/* Stochastic gradient descent on least squares, measured and in expectation. */
#include "stochastic.h"
#include <string.h>

/* ---- measured runs ----------------------------------------------------------------------------------------------- */

static bo_status record(lab_stochastic *s)
{
    char name[] = "w", ones_name[] = "ones";
    const size_t rows = s->runs * s->batch, d = s->problem->dim;
    bo_graph *graph = s->descent.tape.graph;
    s->x = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, rows, d);
    s->y = bo_graph_input(graph, "y", BO_ELEMENT_FLOAT32, rows, 1);
    const bo_value owner = bo_graph_input(graph, "owner", BO_ELEMENT_INT32, rows, 1);
    const bo_value w =
        bo_graph_weight(graph, &(bo_weight_desc){.name = name, .rank = 2, .shape = (size_t[]){s->runs, d}});
    const bo_value ones = bo_graph_weight(graph, &(bo_weight_desc){.name = ones_name,
                                                                   .rank = 2,
                                                                   .shape = (size_t[]){1, d},
                                                                   .init = {BO_WEIGHT_INIT_KIND_ONE, 0, 0},
                                                                   .frozen = true});
    const bo_value diagonal = lab_graph_one(graph, BO_OPERATION_EMBED, NULL, 2, (bo_value[]){owner, w});
    const bo_value products = lab_graph_one(graph, BO_OPERATION_PRODUCT, NULL, 2, (bo_value[]){s->x, diagonal});
    const bo_value dot = lab_graph_one(graph, BO_OPERATION_LINEAR, &(bo_linear_attributes){.weights = 1}, 2,
                                       (bo_value[]){products, ones});
    const bo_value loss = lab_graph_squares(s->descent.tape.graph, dot, s->y);
    BO_TRY(lab_descent_ready(&s->descent, loss, 0.5 * (double)s->runs, &lab_plain_descent, 1));
    int32_t *owners = bo_alloc_raw(s->descent.tape.context, rows, sizeof *owners, "owners of examples");
    if (!owners) return BO_MEMORY;
    for (size_t i = 0; i < rows; i++) owners[i] = (int32_t)(i / s->batch);
    const bo_status status = bo_graph_write(s->descent.tape.context, graph, owner, owners);
    bo_free(owners);
    return status;
}

bo_status lab_stochastic_open(bo_context *context, const lab_least_squares *problem, size_t runs, size_t batch,
                              bo_rng rng, lab_stochastic *out)
{
    const size_t d = problem->dim;
    *out = (lab_stochastic){.runs = runs, .batch = batch, .problem = problem, .rng = rng};
    if (d > LAB_STOCHASTIC_DIM)
        return bo_fail(context, BO_INVALID, "a problem of %zu columns: expected at most %d", d, LAB_STOCHASTIC_DIM);
    out->examples = bo_alloc(context, runs * batch * (d + 1) + runs * d, sizeof(float), "examples of many runs");
    if (!out->examples) return BO_MEMORY;
    out->targets = out->examples + runs * batch * d;
    out->w = out->targets + runs * batch;
    bo_status status = lab_descent_open(context, &out->descent);
    if (status == BO_OK) status = record(out);
    if (status != BO_OK) lab_stochastic_close(out);
    return status;
}

void lab_stochastic_close(lab_stochastic *s)
{
    lab_descent_close(&s->descent);
    bo_free(s->examples);
    *s = (lab_stochastic){0};
}

bo_status lab_stochastic_begin(lab_stochastic *s, const double *w)
{
    const size_t d = s->problem->dim;
    for (size_t i = 0; i < s->runs * d; i++) s->w[i] = w ? (float)w[i % d] : 0;
    return lab_tape_write(&s->descent.tape, "w", s->w);
}

bo_status lab_stochastic_step(lab_stochastic *s, double rate)
{
    const lab_least_squares *p = s->problem;
    for (size_t i = 0; i < s->runs * s->batch; i++) {
        const size_t row = (size_t)bo_rng_below(&s->rng, p->rows);
        memcpy(s->examples + i * p->dim, p->x_single + row * p->dim, p->dim * sizeof(float));
        s->targets[i] = p->y_single[row];
    }
    BO_TRY(bo_graph_write(s->descent.tape.context, s->descent.tape.graph, s->x, s->examples));
    BO_TRY(bo_graph_write(s->descent.tape.context, s->descent.tape.graph, s->y, s->targets));
    return lab_descent_step(&s->descent, rate, NULL);
}

bo_status lab_stochastic_loss(lab_stochastic *s, double *out)
{
    double w[LAB_STOCHASTIC_DIM];
    const size_t d = s->problem->dim;
    BO_TRY(lab_tape_read(&s->descent.tape, "w", s->w));
    *out = 0;
    for (size_t i = 0; i < s->runs; i++) {
        for (size_t j = 0; j < d; j++) w[j] = (double)s->w[i * d + j];
        *out += lab_squares(s->problem, w) / (double)s->runs;
    }
    return BO_OK;
}

bo_status lab_stochastic_error(lab_stochastic *s, const double *center, double *out)
{
    const size_t d = s->problem->dim;
    BO_TRY(lab_tape_read(&s->descent.tape, "w", s->w));
    *out = 0;
    for (size_t i = 0; i < s->runs; i++) {
        const double distance = lab_distance_single(s->w + i * d, center, d);
        *out += distance * distance / (double)s->runs;
    }
    return BO_OK;
}

/* ---- expectations ------------------------------------------------------------------------------------------------ */

void lab_moments_next(const lab_least_squares *p, const double *left, size_t batch, double rate, double *s)
{
    const size_t d = p->dim;
    const double part = 1 / (double)p->rows, same_example = 1 / (double)batch;
    double hs[LAB_STOCHASTIC_DIM * LAB_STOCHASTIC_DIM] = {0}, diagonal[LAB_STOCHASTIC_DIM * LAB_STOCHASTIC_DIM] = {0};
    double hsh[LAB_STOCHASTIC_DIM * LAB_STOCHASTIC_DIM] = {0}, sx[LAB_STOCHASTIC_DIM];
    for (size_t i = 0; i < p->rows; i++) {
        const double *x = p->x + i * d;
        for (size_t a = 0; a < d; a++) sx[a] = lab_dot(s + a * d, x, d);
        const double square = lab_dot(sx, x, d) + (left ? left[i] * left[i] : 0);
        for (size_t a = 0; a < d; a++)
            for (size_t b = 0; b < d; b++) {
                hs[a * d + b] += part * x[a] * sx[b];
                diagonal[a * d + b] += part * square * x[a] * x[b];
            }
    }
    for (size_t i = 0; i < p->rows && batch > 1; i++) {
        const double *x = p->x + i * d;
        for (size_t a = 0; a < d; a++) sx[a] = part * lab_dot(hs + a * d, x, d);
        for (size_t a = 0; a < d; a++)
            for (size_t b = 0; b < d; b++) hsh[a * d + b] += sx[a] * x[b];
    }
    for (size_t a = 0; a < d; a++)
        for (size_t b = 0; b < d; b++)
            s[a * d + b] += rate * rate * (same_example * diagonal[a * d + b] + (1 - same_example) * hsh[a * d + b]) -
                            rate * (hs[a * d + b] + hs[b * d + a]);
}

double lab_moments_loss(const lab_least_squares *p, const double *s)
{
    double sum = 0;
    for (size_t i = 0; i < p->rows; i++)
        for (size_t a = 0; a < p->dim; a++)
            sum += p->x[i * p->dim + a] * lab_dot(s + a * p->dim, p->x + i * p->dim, p->dim);
    return sum;
}

static double trace(const double *s, size_t dim)
{
    double sum = 0;
    for (size_t j = 0; j < dim; j++) sum += s[j * dim + j];
    return sum;
}

double lab_moments_growth(const lab_least_squares *p, size_t batch, double rate, size_t steps)
{
    double s[LAB_STOCHASTIC_DIM * LAB_STOCHASTIC_DIM] = {0}, growth = 1;
    for (size_t j = 0; j < p->dim; j++) s[j * p->dim + j] = 1 / (double)p->dim;
    for (size_t t = 0; t < steps; t++) {
        lab_moments_next(p, NULL, batch, rate, s);
        growth = trace(s, p->dim);
        for (size_t i = 0; i < p->dim * p->dim; i++) s[i] /= growth;
    }
    return growth;
}
