/* Custom graphs for experiments. */
#include "tape.h"

bo_status lab_tape_open(bo_context *context, lab_tape *out)
{
    *out = (lab_tape){.context = context};
    BO_TRY(bo_weights_create(context, &out->weights));
    return bo_graph_create(context, out->weights, &out->graph);
}

void lab_tape_close(lab_tape *tape)
{
    bo_graph_destroy(tape->graph);
    bo_weights_destroy(tape->weights);
    *tape = (lab_tape){0};
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

bo_value lab_tape_leaf(lab_tape *tape, const char *name, size_t rows, size_t columns)
{
    return bo_graph_weight(
        tape->graph,
        &(bo_weight_desc){.name = name, .rank = 2, .shape = (size_t[]){rows, columns}, .role = BO_WEIGHT_ROLE_VECTOR});
}

static bo_value multiply(bo_graph *graph, bo_value x, bo_value weight)
{
    return lab_graph_one(graph, BO_OPERATION_LINEAR, &(bo_linear_attributes){.weights = 1}, 2, (bo_value[]){x, weight});
}

bo_value lab_graph_linear(bo_graph *graph, const char *name, bo_value x, size_t out, bo_weight_init init)
{
    const bo_weight_desc weight = {
        .name = name, .rank = 2, .shape = (size_t[]){out, bo_graph_columns(graph, x)}, .init = init};
    return multiply(graph, x, bo_graph_weight(graph, &weight));
}

bo_value lab_graph_unary(bo_graph *graph, bo_unary function, bo_value x)
{
    return lab_graph_one(graph, BO_OPERATION_UNARY, &(bo_unary_attributes){.function = function}, 1, &x);
}

bo_value lab_graph_squares(bo_graph *graph, bo_value prediction, bo_value target)
{
    return lab_graph_one(graph, BO_OPERATION_LOSS, &(bo_loss_attributes){.kind = BO_LOSS_KIND_MSE}, 2,
                         (bo_value[]){prediction, target});
}

bo_status lab_tape_ready(lab_tape *tape, bo_value loss, uint64_t seed)
{
    BO_TRY(bo_graph_compile(tape->context, tape->graph, &(bo_graph_compile_desc){.loss = loss, .gradients = true}));
    BO_TRY(bo_weights_allocate(tape->context, tape->weights, true));
    BO_TRY(bo_weights_init(tape->context, tape->weights, seed));
    return bo_graph_allocate(tape->context, tape->graph);
}

/* A linear layer whose weight is the arriving gradient: the gradient of its output is 1, and this weight scales it. */
static bo_value weighted_sum(lab_tape *tape, bo_value output)
{
    const size_t numbers = bo_graph_rows(tape->graph, output) * bo_graph_columns(tape->graph, output);
    bo_value arriving = bo_graph_weight(tape->graph, &(bo_weight_desc){.name = LAB_ARRIVING,
                                                                       .rank = 2,
                                                                       .shape = (size_t[]){1, numbers},
                                                                       .init = {.kind = BO_WEIGHT_INIT_KIND_ONE},
                                                                       .role = BO_WEIGHT_ROLE_VECTOR,
                                                                       .frozen = true});
    return multiply(tape->graph, bo_graph_reshape(tape->graph, output, numbers), arriving);
}

bo_status lab_tape_plan(lab_tape *tape, bo_value output, uint64_t seed)
{
    tape->output = output;
    bo_graph_keep(tape->graph, output);
    return lab_tape_ready(tape, weighted_sum(tape, output), seed);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

bo_status lab_tape_run(lab_tape *tape, const bo_graph_pass *pass)
{
    BO_TRY(bo_weights_zero_gradients(tape->context, tape->weights));
    return bo_graph_run(tape->context, tape->graph, pass);
}

bo_status lab_tape_output(lab_tape *tape, float *out)
{
    return bo_graph_read(tape->context, tape->graph, tape->output, out);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

bo_status lab_tape_write(const lab_tape *tape, const char *name, const float *numbers)
{
    return bo_weights_set(tape->context, tape->weights, name, numbers);
}

bo_status lab_tape_read(const lab_tape *tape, const char *name, float *numbers)
{
    return bo_weights_get(tape->context, tape->weights, name, numbers, NULL);
}

bo_status lab_tape_gradient(const lab_tape *tape, const char *name, float *out)
{
    return bo_weights_get(tape->context, tape->weights, name, NULL, out);
}
