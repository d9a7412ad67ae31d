/* The graph of a model run by the library and by the interpreter, and the comparison of gradients: along random
 * directions of every weight, with differences of the interpreter's loss. Tolerances as in tests/backend/truth.h: the
 * change of the derivative when every number is perturbed by 2⁻²³, two units of rounding, times SLACK. */
#ifndef BO_TEST_MODEL_GRADIENTS_H
#define BO_TEST_MODEL_GRADIENTS_H

#include "models.h"
#include "interpreter.h"
#include "tape/gradients.h"

enum { GRADIENT_WINDOW = 7, GRADIENT_SLACK = 12, GRADIENT_DIRECTIONS = 2 };
#define GRADIENT_NOISE 0x1p-23

/* Inputs of a graph: `rows` tokens, in windows of GRADIENT_WINDOW or as the pass specifies. Some have no target. */
typedef struct reading {
    size_t rows;
    int32_t tokens[CONTEXT], targets[CONTEXT], positions[CONTEXT];
    bo_graph_pass pass;
} reading;

static inline reading reading_create(size_t rows, const bo_graph_pass *pass)
{
    reading r = {.rows = rows, .pass = *pass};
    int32_t ids[CONTEXT + 1];
    test_tokens(CONTEXT + 1, ids);
    for (size_t i = 0; i < rows; i++) {
        r.tokens[i] = ids[i], r.targets[i] = i % 5 == 3 ? -1 : ids[i + 1];
        r.positions[i] = (int32_t)(i % GRADIENT_WINDOW);
    }
    for (size_t s = 0, at = 0; pass->lengths && s < pass->sequences; s++)
        for (size_t i = 0; i < pass->lengths[s]; i++) r.positions[at++] = (int32_t)i;
    return r;
}

/* A graph that is planned, has memory, and contains the reading. */
static inline bo_model_graph graph_create(bo_context *context, bo_model *model, const reading *r, bool gradients,
                                          bool checkpoint)
{
    bo_model_graph g;
    bo_model_graph_desc desc = {.rows = r->rows, .loss = true, .gradients = gradients, .checkpoint = checkpoint};
    desc.tokens = r->pass.lengths ? 0 : GRADIENT_WINDOW;
    desc.max_sequences = r->pass.sequences;
    if (gradients) assert_ok(context, bo_weights_allocate(context, model->weights, true));
    assert_ok(context, bo_model_graph_create(context, model, &desc, &g));
    assert_ok(context, bo_graph_allocate(context, g.graph));
    assert_ok(context, bo_graph_write(context, g.graph, g.tokens, r->tokens));
    assert_ok(context, bo_graph_write(context, g.graph, g.targets, r->targets));
    if (g.positions) assert_ok(context, bo_graph_write(context, g.graph, g.positions, r->positions));
    return g;
}

static inline void clear_gradients(bo_model *model)
{
    gradients_clear(model->weights);
}

/* The gradients of all weights after one run; the caller frees them. */
static inline float *gradients_of(bo_context *context, bo_model *model, const reading *r, bool checkpoint)
{
    size_t floats = bo_weights_floats(model->weights);
    float *found = malloc(floats * sizeof *found);
    bo_model_graph g = graph_create(context, model, r, true, checkpoint);
    clear_gradients(model);
    assert_ok(context, bo_graph_run(context, g.graph, &r->pass));
    gradients_copy(model->weights, found);
    bo_model_graph_destroy(&g);
    return found;
}

static inline interpreter interpreter_of(bo_context *context, const bo_model_graph *g, const reading *r)
{
    interpreter in = interpreter_create(context, g->graph, &r->pass);
    interpreter_index(&in, g->tokens, r->tokens);
    interpreter_index(&in, g->targets, r->targets);
    interpreter_index(&in, g->positions, r->positions);
    return in;
}

/* ---- one weight -------------------------------------------------------------------------------------------------- */

/* Directions: one random direction over all numbers, and single numbers. */
static inline void draw_direction(double *u, size_t count, size_t weight, size_t number)
{
    bo_rng rng = bo_rng_make(weight, bo_rng_stream("test.direction", number));
    for (size_t i = 0; i < count; i++) u[i] = number ? 0 : bo_rng_normal(&rng);
    if (number) u[bo_rng_below(&rng, count)] = 1;
}

static inline double largest_of(const float *x, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)x[i]));
    return largest;
}

/* Tolerance: the effect of the perturbation on a derivative, and rounding in the backward pass: of the sums of this
 * gradient, and of terms that cancel in them, which may be as large as any gradient. */
static inline void check_weight(interpreter *in, const char *name, size_t index, const float *all)
{
    const bo_weight *w = bo_weights_at(in->graph->weights, index);
    size_t count = weight_numbers(w);
    const float *gradient = all + w->offset;
    double *u = plain_zeros(count), size = largest_of(gradient, count);
    double any = largest_of(all, bo_weights_floats(in->graph->weights));
    for (size_t d = 0; d < GRADIENT_DIRECTIONS; d++) {
        double found = 0, reach = 0, moved = 0;
        draw_direction(u, count, index, d);
        for (size_t i = 0; i < count; i++) found += u[i] * (double)gradient[i], reach += u[i] * u[i];
        in->noise = 0;
        double truth = interpreter_derivative(in, index, u, 1e-5);
        in->noise = GRADIENT_NOISE;
        for (in->seed = 1; in->seed <= 2; in->seed++)
            moved = fmax(moved, fabs(interpreter_derivative(in, index, u, 1e-5) - truth));
        double tolerance = GRADIENT_SLACK * moved + 0x1p-23 * (16 * size + any) * sqrt(reach);
        if (!(fabs(found - truth) <= tolerance))
            fail_msg("%s: the gradient of %s along direction %zu is %.9g, expected %.9g within %.3g", name, w->name, d,
                     found, truth, tolerance);
    }
    free(u);
}

/* Checks every weight. */
static inline void compare_gradients(bo_context *context, const char *name, bo_model *model, const reading *r,
                                     const float *gradients)
{
    bo_model_graph g = graph_create(context, model, r, true, false);
    interpreter in = interpreter_of(context, &g, r);
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) check_weight(&in, name, i, gradients);
    interpreter_drop(&in);
    bo_model_graph_destroy(&g);
}

#endif
