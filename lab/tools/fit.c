#include "fit.h"

static bo_status record(lab_run *run, const lab_fit_desc *desc, lab_fit *f)
{
    bo_graph *graph = f->descent.tape.graph;
    f->x = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, desc->rows, desc->in);
    f->target = bo_graph_input(graph, "target", BO_ELEMENT_FLOAT32, desc->rows, desc->out);
    f->prediction = desc->record(desc->user, graph, f->x);
    bo_graph_keep(graph, f->prediction);
    return lab_descent_ready(&f->descent, lab_graph_squares(f->descent.tape.graph, f->prediction, f->target), 1,
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
    BO_TRY(bo_graph_write(fit->descent.tape.context, fit->descent.tape.graph, fit->x, x));
    return bo_graph_write(fit->descent.tape.context, fit->descent.tape.graph, fit->target, target);
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
    const lab_tape *tape = &fit->descent.tape;
    BO_TRY(bo_graph_write(tape->context, tape->graph, fit->x, x));
    BO_TRY(bo_graph_run(tape->context, tape->graph, &(bo_graph_pass){0}));
    return bo_graph_read(tape->context, tape->graph, fit->prediction, prediction);
}
