#include "fit.h"

static bo_status open_graph(lab_run *run, const lab_fit_desc *desc, lab_fit *f)
{
    BO_TRY(bo_weights_create(f->context, bo_backend_cpu(), &f->weights));
    BO_TRY(bo_graph_create(f->context, f->weights, &f->graph));
    f->x = bo_graph_input(f->graph, "x", BO_ELEMENT_FLOAT32, desc->rows, desc->in);
    f->target = bo_graph_input(f->graph, "target", BO_ELEMENT_FLOAT32, desc->rows, desc->out);
    f->prediction = desc->record(desc->user, f->graph, f->x);
    f->loss = bo_graph_one(f->graph, BO_OP_LOSS, &(bo_loss_attributes){.kind = desc->loss}, 2,
                           (bo_value[]){f->prediction, f->target});
    bo_graph_keep(f->graph, f->prediction);
    BO_TRY(bo_graph_plan(f->context, f->graph, &(bo_graph_desc){.loss = f->loss, .gradients = true}));
    BO_TRY(bo_weights_allocate(f->context, f->weights, true));
    BO_TRY(bo_weights_init(f->context, f->weights, desc->seed ? desc->seed : lab_seed(run)));
    BO_TRY(bo_graph_allocate(f->context, f->graph));
    return bo_optimizer_create(f->context, &desc->optimizer, f->weights, &f->optimizer);
}

bo_status lab_fit_open(lab_run *run, const lab_fit_desc *desc, lab_fit *out)
{
    *out = (lab_fit){.context = lab_context(run)};
    const bo_status status = open_graph(run, desc, out);
    if (status != BO_OK) lab_fit_close(out);
    return status;
}

void lab_fit_close(lab_fit *fit)
{
    bo_optimizer_destroy(fit->optimizer);
    bo_graph_destroy(fit->graph);
    bo_weights_destroy(fit->weights);
    *fit = (lab_fit){0};
}

bo_status lab_fit_gradient(lab_fit *fit, const float *x, const float *target, double *loss)
{
    const bo_backend *backend = bo_weights_backend(fit->weights);
    const bo_pass pass = {.training = true};
    float mean;
    BO_TRY(backend->zero(fit->context, bo_weights_gradients(fit->weights),
                         bo_weights_floats(fit->weights) * sizeof(float)));
    BO_TRY(bo_graph_write(fit->context, fit->graph, fit->x, x));
    BO_TRY(bo_graph_write(fit->context, fit->graph, fit->target, target));
    BO_TRY(bo_graph_run(fit->context, fit->graph, &pass));
    BO_TRY(bo_graph_read(fit->context, fit->graph, fit->loss, &mean));
    *loss = (double)mean;
    return BO_OK;
}

bo_status lab_fit_step(lab_fit *fit, const float *x, const float *target, double factor, double *loss)
{
    double norm;
    BO_TRY(lab_fit_gradient(fit, x, target, loss));
    return bo_optimizer_step(fit->context, fit->optimizer, factor, &norm);
}

bo_status lab_fit_predict(lab_fit *fit, const float *x, float *prediction)
{
    BO_TRY(bo_graph_write(fit->context, fit->graph, fit->x, x));
    BO_TRY(bo_graph_run(fit->context, fit->graph, &(bo_pass){0}));
    return bo_graph_read(fit->context, fit->graph, fit->prediction, prediction);
}

float *lab_fit_weight(const lab_fit *fit, const char *name)
{
    const bo_weight *weight = bo_weights_find(fit->weights, name);
    return weight ? weight->data : NULL;
}

const float *lab_fit_weight_gradient(const lab_fit *fit, const char *name)
{
    const bo_weight *weight = bo_weights_find(fit->weights, name);
    return weight ? weight->gradient : NULL;
}

size_t lab_fit_weight_size(const lab_fit *fit, const char *name)
{
    const bo_weight *weight = bo_weights_find(fit->weights, name);
    return weight ? weight->rows * weight->columns : 0;
}
