#include "fit.h"

static bo_status record(lab_run *run, const lab_fit_desc *desc, lab_fit *f)
{
    bo_graph *graph = f->descent.graph;
    f->x = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, desc->rows, desc->in);
    f->target = bo_graph_input(graph, "target", BO_ELEMENT_FLOAT32, desc->rows, desc->out);
    f->prediction = desc->record(desc->user, graph, f->x);
    bo_graph_keep(graph, f->prediction);
    return lab_descent_ready(&f->descent, lab_descent_squares(&f->descent, f->prediction, f->target), 1,
                             &desc->optimizer, desc->seed ? desc->seed : lab_seed(run));
}

bo_status lab_fit_open(lab_run *run, const lab_fit_desc *desc, lab_fit *out)
{
    *out = (lab_fit){0};
    BO_TRY(lab_descent_open(lab_context(run), &out->descent));
    const bo_status status = record(run, desc, out);
    if (status != BO_OK) lab_fit_close(out);
    return status;
}

void lab_fit_close(lab_fit *fit)
{
    lab_descent_close(&fit->descent);
}

static bo_status write_batch(lab_fit *fit, const float *x, const float *target)
{
    BO_TRY(bo_graph_write(fit->descent.context, fit->descent.graph, fit->x, x));
    return bo_graph_write(fit->descent.context, fit->descent.graph, fit->target, target);
}

bo_status lab_fit_gradient(lab_fit *fit, const float *x, const float *target, double *loss)
{
    BO_TRY(write_batch(fit, x, target));
    return lab_descent_gradients(&fit->descent, loss);
}

bo_status lab_fit_step(lab_fit *fit, const float *x, const float *target, double factor, double *loss)
{
    BO_TRY(write_batch(fit, x, target));
    return lab_descent_step(&fit->descent, factor, loss);
}

bo_status lab_fit_predict(lab_fit *fit, const float *x, float *prediction)
{
    const lab_descent *d = &fit->descent;
    BO_TRY(bo_graph_write(d->context, d->graph, fit->x, x));
    BO_TRY(bo_graph_run(d->context, d->graph, &(bo_pass){0}));
    return bo_graph_read(d->context, d->graph, fit->prediction, prediction);
}

float *lab_fit_weight(const lab_fit *fit, const char *name)
{
    const bo_weight *weight = bo_weights_find(fit->descent.weights, name);
    return weight ? weight->data : NULL;
}

const float *lab_fit_weight_gradient(const lab_fit *fit, const char *name)
{
    const bo_weight *weight = bo_weights_find(fit->descent.weights, name);
    return weight ? weight->gradient : NULL;
}

size_t lab_fit_weight_size(const lab_fit *fit, const char *name)
{
    const bo_weight *weight = bo_weights_find(fit->descent.weights, name);
    return weight ? weight->rows * weight->columns : 0;
}
