/* A graph that learns by an optimiser. */
#include "descent.h"
#include <string.h>

const bo_optimizer_desc lab_plain_descent = {.kind = BO_OPTIMIZER_SGD, .rate = 1, .momentum = -1, .clip = -1};

bo_status lab_descent_open(bo_context *context, lab_descent *out)
{
    *out = (lab_descent){.context = context, .pass = {.training = true}};
    BO_TRY(bo_weights_create(context, bo_backend_cpu(), &out->weights));
    const bo_status status = bo_graph_create(context, out->weights, &out->graph);
    if (status != BO_OK) lab_descent_close(out);
    return status;
}

void lab_descent_close(lab_descent *descent)
{
    bo_optimizer_destroy(descent->optimizer);
    bo_graph_destroy(descent->graph);
    bo_weights_destroy(descent->weights);
    *descent = (lab_descent){0};
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

bo_value lab_descent_linear(lab_descent *descent, const char *name, bo_value x, size_t out, bo_init init)
{
    char text[64] = "";
    strncat(text, name, sizeof text - 1);
    const size_t in = bo_graph_columns(descent->graph, x);
    const bo_value w =
        bo_graph_weight(descent->graph, &(bo_weight){.name = text, .rank = 2, .shape = {out, in}, .init = init});
    return bo_graph_one(descent->graph, BO_OP_LINEAR, &(bo_linear_attributes){.weights = 1}, 2, (bo_value[]){x, w});
}

bo_value lab_descent_squares(lab_descent *descent, bo_value prediction, bo_value target)
{
    return bo_graph_one(descent->graph, BO_OP_LOSS, &(bo_loss_attributes){.kind = BO_LOSS_KIND_MSE}, 2,
                        (bo_value[]){prediction, target});
}

bo_status lab_descent_ready(lab_descent *descent, bo_value loss, double scale, const bo_optimizer_desc *optimizer,
                            uint64_t seed)
{
    bo_context *context = descent->context;
    descent->loss = loss;
    descent->pass.seed = bo_rng_bits(&(bo_rng){.seed = seed}); /* steps count on: those of other seeds are far away */
    BO_TRY(bo_graph_plan(context, descent->graph, &(bo_graph_desc){.loss = loss, .gradients = true}));
    BO_TRY(bo_weights_allocate(context, descent->weights, true));
    BO_TRY(bo_weights_init(context, descent->weights, seed));
    BO_TRY(bo_graph_allocate(context, descent->graph));
    bo_graph_loss_scale(descent->graph, (float)scale);
    return bo_optimizer_create(context, optimizer, descent->weights, &descent->optimizer);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

bo_status lab_descent_gradients(lab_descent *descent, double *loss)
{
    bo_context *context = descent->context;
    const bo_backend *backend = bo_weights_backend(descent->weights);
    float value = 0;
    descent->pass.seed++;
    BO_TRY(backend->zero(context, bo_weights_gradients(descent->weights),
                         bo_weights_floats(descent->weights) * sizeof(float)));
    BO_TRY(bo_graph_run(context, descent->graph, &descent->pass));
    if (!loss) return BO_OK;
    BO_TRY(bo_graph_read(context, descent->graph, descent->loss, &value));
    *loss = (double)value;
    return BO_OK;
}

bo_status lab_descent_step(lab_descent *descent, double factor, double *loss)
{
    double norm;
    BO_TRY(lab_descent_gradients(descent, loss));
    return bo_optimizer_step(descent->context, descent->optimizer, factor, &norm);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static bo_status find(const lab_descent *descent, const char *name, bo_weight **out)
{
    *out = bo_weights_find(descent->weights, name);
    return *out ? BO_OK : bo_fail(descent->context, BO_INVALID, "there is no weight %s", name);
}

static size_t bytes_of(const bo_weight *weight)
{
    return weight->rows * weight->columns * sizeof(float);
}

bo_status lab_descent_get(const lab_descent *descent, const char *weight, float *out)
{
    bo_weight *w;
    BO_TRY(find(descent, weight, &w));
    return bo_weights_backend(descent->weights)->read(descent->context, out, w->data, bytes_of(w));
}

bo_status lab_descent_gradient(const lab_descent *descent, const char *weight, float *out)
{
    bo_weight *w;
    BO_TRY(find(descent, weight, &w));
    return bo_weights_backend(descent->weights)->read(descent->context, out, w->gradient, bytes_of(w));
}

bo_status lab_descent_set(const lab_descent *descent, const char *weight, const float *numbers)
{
    bo_weight *w;
    BO_TRY(find(descent, weight, &w));
    return bo_weights_backend(descent->weights)->write(descent->context, w->data, numbers, bytes_of(w));
}
