/* Profiles: a copy of the recorded graph with the times of its steps. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"

/* Invariants: indices of values and operations are below `value_count` and `operation_count`; `strings` contains all
 * strings. */
typedef struct profile_storage {
    bo_profile out; /* first, so that bo_profile_destroy() can cast to this type */
    bo_operation_info *operations;
    bo_value_info *values;
    size_t *numbers; /* indices of inputs and outputs */
    char *strings;
} profile_storage;

void bo_profile_destroy(bo_profile *profile)
{
    profile_storage *p = (profile_storage *)profile;
    if (!p) return;
    bo_free(p->operations);
    bo_free(p->values);
    bo_free(p->numbers);
    bo_free(p->strings);
    bo_free(p);
}

/* ---- copying the graph ------------------------------------------------------------------------------------------- */

/* Returns the name of a tensor; NULL: it has none. */
static const char *name_of(const bo_graph *graph, const bo_graph_tensor *t)
{
    return t->origin == BO_ORIGIN_WEIGHT ? bo_weights_at(graph->weights, t->weight)->name : t->name;
}

static bo_status allocate(bo_context *context, const bo_graph *graph, const char *subject, profile_storage *p)
{
    size_t strings = strlen(subject) + 1, numbers = 0;
    p->out.operation_count = graph->nodes.count;
    p->out.value_count = graph->tensors.count - 1; /* index 0 is unused */
    for (bo_value v = 1; v < graph->tensors.count; v++) {
        const char *name = name_of(graph, bo_graph_tensor_at(graph, v));
        strings += name ? strlen(name) + 1 : 0;
    }
    for (size_t n = 0; n < graph->nodes.count; n++) {
        const bo_node *node = bo_node_at(graph, n);
        strings += strlen(node->op->name) + 1 + strlen(bo_scope_of(graph, node)) + 1;
        numbers += node->inputs + node->outputs;
    }
    p->out.operations = p->operations = bo_alloc(context, p->out.operation_count, sizeof *p->operations, "a profile");
    p->out.values = p->values = bo_alloc(context, p->out.value_count, sizeof *p->values, "a profile");
    p->numbers = bo_alloc(context, numbers, sizeof *p->numbers, "a profile");
    p->strings = bo_alloc(context, strings, 1, "a profile");
    return p->operations && p->values && p->numbers && p->strings ? BO_OK : BO_MEMORY;
}

static const char *copy_string(char **at, const char *string)
{
    if (!string) return NULL;
    const size_t bytes = strlen(string) + 1;
    char *copy = memcpy(*at, string, bytes);
    *at += bytes;
    return copy;
}

static void copy_value(const bo_graph *graph, const bo_graph_tensor *t, char **strings, bo_value_info *out)
{
    static const char *const types[] = {[BO_ELEMENT_FLOAT32] = "float32",
                                        [BO_ELEMENT_INT32] = "int32",
                                        [BO_ELEMENT_BFLOAT16] = "bfloat16",
                                        [BO_ELEMENT_INT8] = "int8",
                                        [BO_ELEMENT_INT4] = "int4"};
    const bool weight = t->origin == BO_ORIGIN_WEIGHT;
    *out = (bo_value_info){.origin = weight                         ? BO_VALUE_ORIGIN_WEIGHT
                                     : t->origin == BO_ORIGIN_INPUT ? BO_VALUE_ORIGIN_INPUT
                                                                    : BO_VALUE_ORIGIN_OPERATION,
                           .name = copy_string(strings, name_of(graph, t)),
                           .type = types[t->element],
                           .rows = t->rows,
                           .columns = t->columns,
                           .bytes = bo_element_bytes(t->element, t->rows, t->columns),
                           .trained = weight && t->graded,
                           .operation = t->origin == BO_ORIGIN_OPERATION ? t->node : SIZE_MAX};
}

static const size_t *copy_numbers(size_t **at, size_t count, const bo_value *values)
{
    size_t *copy = *at;
    for (size_t i = 0; i < count; i++) copy[i] = values[i] - 1;
    *at += count;
    return copy;
}

static void copy_operation(bo_context *context, const bo_graph *graph, const bo_node *node, char **strings,
                           size_t **numbers, bo_operation_info *out)
{
    bo_op_call call;
    bo_node_call(graph, node, &call);
    *out = (bo_operation_info){.name = copy_string(strings, node->op->name),
                               .scope = copy_string(strings, bo_scope_of(graph, node)),
                               .inputs = node->inputs,
                               .outputs = node->outputs,
                               .input = copy_numbers(numbers, node->inputs, node->in),
                               .output = copy_numbers(numbers, node->outputs, node->out),
                               .bytes = bo_node_bytes(graph, node),
                               .flops = node->op->operations ? node->op->operations(context, &call) : 0};
}

static void copy_recorded(bo_context *context, const bo_graph *graph, const char *subject, profile_storage *p)
{
    char *strings = p->strings;
    size_t *numbers = p->numbers;
    p->out.totals = (bo_profile_totals){.subject = copy_string(&strings, subject),
                                        .threads = bo_context_threads(context),
                                        .bytes = graph->info.bytes,
                                        .flops = graph->info.flops};
    for (size_t i = 0; i < p->out.value_count; i++) {
        copy_value(graph, bo_graph_tensor_at(graph, (bo_value)(i + 1)), &strings, &p->values[i]);
        if (p->values[i].origin == BO_VALUE_ORIGIN_WEIGHT) p->out.totals.weight_bytes += p->values[i].bytes;
    }
    for (size_t i = 0; i < p->out.operation_count; i++)
        copy_operation(context, graph, bo_node_at(graph, i), &strings, &numbers, &p->operations[i]);
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Computes the median of `count` numbers that are `stride` apart. */
static double median(size_t count, const double *at, size_t stride, double *scratch)
{
    for (size_t i = 0; i < count; i++) scratch[i] = at[i * stride];
    qsort(scratch, count, sizeof *scratch, ascending);
    return count % 2 ? scratch[count / 2] : (scratch[count / 2 - 1] + scratch[count / 2]) / 2;
}

static void add_step_time(const bo_step *step, double seconds, profile_storage *p)
{
    bo_profile_totals *totals = &p->out.totals;
    if (step->move) {
        totals->rounding += seconds;
        return;
    }
    bo_operation_info *operation = &p->operations[step->node];
    *(step->backward ? &operation->backward : step->again ? &operation->again : &operation->forward) += seconds;
    *(step->backward ? &totals->backward : step->again ? &totals->again : &totals->forward) += seconds;
}

/* samples: one row of step times per run, then the times of the runs. */
static bo_status measure(bo_context *context, bo_graph *graph, const bo_graph_pass *pass, size_t repeats,
                         double *samples, profile_storage *p)
{
    const size_t steps = graph->steps.count;
    double *runs = samples + repeats * steps, *scratch = runs + repeats;
    BO_TRY(bo_graph_run(context, graph, pass));
    for (size_t r = 0; r < repeats; r++) {
        const double start = bo_seconds();
        graph->seconds = samples + r * steps;
        const bo_status status = bo_graph_run(context, graph, pass);
        graph->seconds = NULL;
        if (status != BO_OK) return status;
        runs[r] = bo_seconds() - start;
        BO_TRY(bo_progress(context, "measuring", (double)(r + 1), (double)repeats));
    }
    for (size_t i = 0; i < steps; i++)
        add_step_time(bo_step_at(graph, i), median(repeats, samples + i, steps, scratch), p);
    p->out.totals.seconds = median(repeats, runs, 1, scratch);
    p->out.totals.repeats = repeats;
    return BO_OK;
}

bo_status bo_graph_profile(bo_context *context, bo_graph *graph, const bo_graph_pass *pass, const char *subject,
                           size_t repeats, bo_profile **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, graph, subject, out);
    enum { MAX_REPEATS = 1000 };
    if (!graph->planned)
        return bo_fail(context, BO_INVALID, "the graph is not compiled yet: call bo_graph_compile first");
    if (repeats > MAX_REPEATS)
        return bo_fail(context, BO_INVALID, "profile: %zu runs, expected at most %d", repeats, MAX_REPEATS);
    profile_storage *p = bo_alloc(context, 1, sizeof *p, "a profile");
    if (!p) return BO_MEMORY;
    bo_status status = allocate(context, graph, subject, p);
    double *samples = NULL;
    if (status == BO_OK) copy_recorded(context, graph, subject, p);
    if (status == BO_OK && repeats > 0) {
        samples = bo_alloc(context, repeats * (graph->steps.count + 2), sizeof *samples, "times of a profile");
        status = samples ? measure(context, graph, pass, repeats, samples, p) : BO_MEMORY;
    }
    bo_free(samples);
    if (status == BO_OK)
        *out = &p->out;
    else
        bo_profile_destroy(&p->out);
    return status;
}
