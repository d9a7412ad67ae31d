/* Least squares with inputs that change randomly. */
#include "perturbed.h"
#include <string.h>

bo_value lab_perturb_noise(bo_graph *graph, bo_value x, const void *attributes)
{
    return lab_graph_one(graph, BO_OPERATION_NOISE, attributes, 1, &x);
}

bo_value lab_perturb_dropout(bo_graph *graph, bo_value x, const void *attributes)
{
    return lab_graph_one(graph, BO_OPERATION_DROPOUT, attributes, 1, &x);
}

bo_status lab_perturbed_open(bo_context *context, const lab_least_squares *p, const lab_perturbation *perturbation,
                             double scale, const bo_optimizer_desc *optimizer, uint64_t seed, lab_descent *out)
{
    BO_TRY(lab_descent_open(context, out));
    const bo_value x = bo_graph_input(out->tape.graph, "x", BO_ELEMENT_FLOAT32, p->rows, p->dim);
    const bo_value y = bo_graph_input(out->tape.graph, "y", BO_ELEMENT_FLOAT32, p->rows, 1);
    const bo_value perturbed_input = perturbation ? perturbation->record(out->tape.graph, x, perturbation->user) : x;
    const bo_value prediction =
        lab_graph_linear(out->tape.graph, "w", perturbed_input, 1, (bo_weight_init){BO_WEIGHT_INIT_KIND_ZERO, 0, 0});
    const bo_value loss = lab_graph_squares(out->tape.graph, prediction, y);
    bo_status status = lab_descent_ready(out, loss, scale * (double)p->rows, optimizer, seed);
    if (status == BO_OK) status = bo_graph_write(context, out->tape.graph, x, p->x_single);
    if (status == BO_OK) status = bo_graph_write(context, out->tape.graph, y, p->y_single);
    if (status != BO_OK) lab_descent_close(out);
    return status;
}

/* Adds w, divided by `count`, to the mean. w: a buffer. */
static bo_status add_weights(const lab_descent *d, size_t dim, double count, float *w, double *mean)
{
    BO_TRY(lab_tape_read(&d->tape, "w", w));
    for (size_t j = 0; j < dim; j++) mean[j] += (double)w[j] / count;
    return BO_OK;
}

bo_status lab_perturbed_mean(bo_context *context, const lab_least_squares *p, const lab_perturbation *perturbation,
                             size_t steps, uint64_t seed, double *mean)
{
    lab_descent d;
    float *w = bo_alloc(context, p->dim, sizeof *w, "weights");
    if (!w) return BO_MEMORY;
    bo_status status = lab_perturbed_open(context, p, perturbation, 1, &lab_plain_descent, seed, &d);
    memset(mean, 0, p->dim * sizeof *mean);
    for (size_t t = 0; t < steps && status == BO_OK; t++) {
        status = lab_descent_step(&d, 0.2 / perturbation->power, NULL);
        if (status == BO_OK && t >= steps / 2) status = add_weights(&d, p->dim, (double)(steps - steps / 2), w, mean);
    }
    lab_descent_close(&d);
    bo_free(w);
    return status;
}

bo_status lab_perturbed_loss(bo_context *context, const lab_least_squares *p, const lab_perturbation *perturbation,
                             const double *w, size_t draws, uint64_t seed, double *loss)
{
    lab_descent d;
    float *single = bo_alloc(context, p->dim, sizeof *single, "weights");
    if (!single) return BO_MEMORY;
    for (size_t j = 0; j < p->dim; j++) single[j] = (float)w[j];
    bo_status status = lab_perturbed_open(context, p, perturbation, 1, &lab_plain_descent, seed, &d);
    if (status == BO_OK) status = lab_tape_write(&d.tape, "w", single);
    *loss = 0;
    for (size_t i = 0; i < draws && status == BO_OK; i++) {
        double one = 0;
        status = lab_descent_gradients(&d, &one);
        *loss += one * (double)p->rows / (double)draws;
    }
    lab_descent_close(&d);
    bo_free(single);
    return status;
}
