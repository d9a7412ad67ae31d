/* A graph trained by an optimizer. */
#include "descent.h"
#include "../../src/tape/graph.h"

const bo_optimizer_desc lab_plain_descent = {.kind = BO_OPTIMIZER_SGD, .rate = 1, .momentum = -1};

bo_status lab_descent_open(bo_context *context, lab_descent *out)
{
    *out = (lab_descent){.pass = {.training = true}};
    const bo_status status = lab_tape_open(context, &out->tape);
    if (status != BO_OK) lab_descent_close(out);
    return status;
}

void lab_descent_close(lab_descent *descent)
{
    bo_optimizer_destroy(descent->optimizer);
    lab_tape_close(&descent->tape);
    *descent = (lab_descent){0};
}

bo_status lab_descent_ready(lab_descent *descent, bo_value loss, double scale, const bo_optimizer_desc *optimizer,
                            uint64_t seed)
{
    lab_tape *tape = &descent->tape;
    descent->loss = loss;
    /* seeds of steps are consecutive, and far from those of other runs */
    descent->pass.seed = bo_rng_bits(&(bo_rng){.seed = seed});
    BO_TRY(lab_tape_ready(tape, loss, seed));
    descent->pass.loss_scale = (float)scale;
    return bo_optimizer_create(tape->context, optimizer, tape->weights, &descent->optimizer);
}

bo_status lab_descent_gradients(lab_descent *descent, double *loss)
{
    lab_tape *tape = &descent->tape;
    float value = 0;
    descent->pass.seed++;
    BO_TRY(lab_tape_run(tape, &descent->pass));
    if (!loss) return BO_OK;
    BO_TRY(bo_graph_read(tape->context, tape->graph, descent->loss, &value));
    *loss = (double)value;
    return BO_OK;
}

bo_status lab_descent_step(lab_descent *descent, double factor, double *loss)
{
    double norm;
    BO_TRY(lab_descent_gradients(descent, loss));
    return bo_optimizer_step(descent->tape.context, descent->optimizer, factor, &norm);
}

/* ---- given gradients --------------------------------------------------------------------------------------------- */

bo_status lab_descent_weight(bo_context *context, size_t rows, size_t columns, const bo_optimizer_desc *optimizer,
                             lab_descent *out)
{
    char name[] = "w";
    size_t index;
    BO_TRY(lab_descent_open(context, out));
    bo_weights *weights = out->tape.weights;
    bo_status status = bo_weights_declare(
        context, weights, &(bo_weight_desc){.name = name, .rank = 2, .shape = (size_t[]){rows, columns}}, &index);
    if (status == BO_OK) status = bo_weights_allocate(context, weights, true);
    if (status == BO_OK) status = bo_optimizer_create(context, optimizer, weights, &out->optimizer);
    if (status != BO_OK) lab_descent_close(out);
    return status;
}

bo_status lab_descent_apply(lab_descent *descent, const float *gradient, double factor)
{
    bo_context *context = descent->tape.context;
    const bo_weight *w = bo_weights_find(descent->tape.weights, "w");
    const size_t bytes = w->rows * w->columns * sizeof *gradient;
    double norm;
    BO_TRY(bo_buffer_write(context, bo_weights_device(descent->tape.weights), w->gradient, gradient, bytes));
    return bo_optimizer_step(context, descent->optimizer, factor, &norm);
}
