/* Evaluates a recorded graph in double: node by node with the references of tests/backend, with weights that the caller
 * may change. It uses neither the plan, the schedule nor any backward pass, so differences of its loss are a reference
 * for all three.
 *
 * Perturbation: every number that a node computes is changed by a relative amount that depends on its position only,
 * and attention uses the perturbation of its own reference, so that a perturbed graph is still a smooth function of its
 * weights. */
#ifndef BO_TEST_MODEL_INTERPRETER_H
#define BO_TEST_MODEL_INTERPRETER_H

#include "backend/oracle_attention.h"
#include "tape/internal.h"

typedef struct interpreter {
    bo_context *context;
    const bo_graph *graph;
    const bo_graph_pass *pass;
    double **weights;      /* by index in the weight set */
    plain_tensor *tensors; /* by bo_value; values of weights share the memory of `weights` */
    double **masks;        /* by node: masks of dropout and noise; NULL: none */
    double noise;          /* relative perturbation; 0: none */
    uint64_t seed;
} interpreter;

static inline size_t weight_numbers(const bo_weight *weight)
{
    return weight->rows * weight->columns;
}

/* Copies the current weights; interpreter_index writes inputs. */
static inline interpreter interpreter_create(bo_context *context, const bo_graph *graph, const bo_graph_pass *pass)
{
    interpreter in = {.context = context, .graph = graph, .pass = pass};
    size_t weights = bo_weights_count(graph->weights);
    in.weights = calloc(weights + 1, sizeof *in.weights);
    for (size_t i = 0; i < weights; i++) {
        const bo_weight *w = bo_weights_at(graph->weights, i);
        in.weights[i] = plain_zeros(weight_numbers(w));
        for (size_t j = 0; j < weight_numbers(w); j++) in.weights[i][j] = (double)((const float *)w->data)[j];
    }
    in.tensors = calloc(graph->tensors.count, sizeof *in.tensors);
    for (size_t v = 1; v < graph->tensors.count; v++) {
        const bo_graph_tensor *t = bo_graph_tensor_at(graph, (bo_value)v);
        in.tensors[v] = (plain_tensor){.element = t->element, .rows = t->rows, .columns = t->columns};
        if (t->element == BO_ELEMENT_INT32)
            in.tensors[v].index = calloc(t->rows * t->columns, sizeof(int32_t));
        else if (t->origin == BO_ORIGIN_WEIGHT)
            in.tensors[v].x = in.weights[t->weight];
        else
            in.tensors[v].x = plain_zeros(t->rows * t->columns);
    }
    return in;
}

static inline void interpreter_drop(interpreter *in)
{
    for (size_t v = 1; v < in->graph->tensors.count; v++) {
        free(in->tensors[v].index);
        if (bo_graph_tensor_at(in->graph, (bo_value)v)->origin != BO_ORIGIN_WEIGHT) free(in->tensors[v].x);
    }
    for (size_t i = 0; i < bo_weights_count(in->graph->weights); i++) free(in->weights[i]);
    free(in->tensors);
    free(in->weights);
}

static inline void interpreter_index(interpreter *in, bo_value value, const int32_t *index)
{
    if (value) memcpy(in->tensors[value].index, index, plain_count(&in->tensors[value]) * sizeof *index);
}

static inline bo_operation interpreter_kind(const interpreter *in, const bo_op *op)
{
    for (size_t kind = 0; kind < BO_OPERATION_COUNT; kind++)
        if (bo_backend_of(in->graph->device)->ops[kind] == op) return (bo_operation)kind;
    fail_msg("%s is no operation of the backend", op->name);
    return (bo_operation)BO_OPERATION_COUNT;
}

/* Uniform noise with standard deviation `noise`, a function of seed, node and position, by splitmix64. */
static inline void interpreter_shake(const interpreter *in, size_t node, const plain_tensor *out)
{
    for (size_t i = 0; in->noise > 0 && i < plain_count(out); i++) {
        uint64_t z = in->seed * 0x9e3779b97f4a7c15 + node * 0xd1342543de82ef95 + i * 0x2545f4914f6cdd1d;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9, z = (z ^ z >> 27) * 0x94d049bb133111eb, z ^= z >> 31;
        out->x[i] *= 1 + in->noise * 1.7320508 * ((double)(z >> 11) * 0x1p-52 - 1);
    }
}

static inline void interpreter_node(const interpreter *in, size_t number)
{
    const bo_node *node = bo_node_at(in->graph, number);
    plain_op op = {.kind = interpreter_kind(in, node->op),
                   .attributes = node->attributes,
                   .inputs = node->inputs,
                   .outputs = node->outputs,
                   .context = in->context,
                   .pass = in->pass,
                   .mask = in->masks ? in->masks[number] : NULL,
                   .noise = in->noise,
                   .seed = in->seed};
    for (size_t i = 0; i < node->inputs; i++) op.in[i] = in->tensors[node->in[i]];
    for (size_t i = 0; i < node->outputs; i++) op.out[i] = in->tensors[node->out[i]];
    if (op.kind == BO_OPERATION_ATTENTION)
        plain_attention(&op);
    else
        plain_forward_of(op.kind)(&op);
    for (size_t i = 0; i < node->outputs; i++) interpreter_shake(in, 2 * number + i, &op.out[i]);
}

/* Computes every tensor and returns the loss of the graph. */
static inline double interpreter_run(const interpreter *in)
{
    for (size_t i = 0; i < in->graph->nodes.count; i++) interpreter_node(in, i);
    return in->tensors[in->graph->desc.loss].x[0];
}

/* d loss / dh at weights + h u, by a fourth-order central difference. */
static inline double interpreter_derivative(const interpreter *in, size_t weight, const double *u, double h)
{
    static const double steps[4] = {-2, -1, 1, 2}, factors[4] = {1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12};
    size_t count = weight_numbers(bo_weights_at(in->graph->weights, weight));
    double *w = in->weights[weight], *kept = plain_zeros(count), sum = 0;
    memcpy(kept, w, count * sizeof *w);
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < count; j++) w[j] = kept[j] + steps[i] * h * u[j];
        sum += factors[i] / h * interpreter_run(in);
    }
    memcpy(w, kept, count * sizeof *w);
    free(kept);
    return sum;
}

#endif
