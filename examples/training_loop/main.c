/* A custom training loop: a network of three linear layers learns to separate two spirals. */
#include <bochner/bochner.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 256, HIDDEN = 64, STEPS = 300 };

/* Point i belongs to class i % 2. Each spiral makes one and a half turns. */
static void spirals(float *points, float *classes)
{
    for (int i = 0; i < POINTS; i++) {
        float along = (float)(i / 2) / (POINTS / 2), angle = 9.4f * along + 3.14159265f * (float)(i % 2);
        points[2 * i] = (0.1f + along) * cosf(angle);
        points[2 * i + 1] = (0.1f + along) * sinf(angle);
        classes[i] = (float)(i % 2);
    }
}

static int fail(bo_context *context)
{
    fprintf(stderr, "training_loop: %s\n", bo_context_error(context));
    return 1;
}

static bo_status train(bo_context *context, bo_graph *graph, bo_value loss, bo_optimizer *optimizer)
{
    const bo_schedule schedule = {.kind = BO_SCHEDULE_COSINE};
    bo_status status = BO_OK;
    for (uint64_t step = 0; status == BO_OK && step < STEPS; step++) {
        float value = 0;
        status = bo_weights_zero_gradients(context, bo_graph_describe(graph)->weights);
        if (status == BO_OK) status = bo_graph_run(context, graph, NULL); /* forward and backward */
        if (status == BO_OK)
            status = bo_optimizer_step(context, optimizer, bo_schedule_factor(&schedule, step, STEPS), NULL);
        if (status == BO_OK) status = bo_graph_read(context, graph, loss, &value);
        if (step % 50 == 0 || step + 1 == STEPS) printf("step %3u  loss %.4f\n", (unsigned)step, (double)value);
    }
    return status;
}

int main(void)
{
    static float points[POINTS][2], classes[POINTS], logits[POINTS];
    bo_context *context;
    bo_weights *weights = NULL;
    bo_graph *graph = NULL;
    bo_optimizer *optimizer = NULL;
    if (bo_context_create(NULL, &context) != BO_OK) return 1;
    spirals(points[0], classes);

    /* Record the graph. Errors are reported by bo_graph_compile. */
    bo_status status = bo_weights_create(context, &weights);
    if (status == BO_OK) status = bo_graph_create(context, weights, &graph);
    if (status != BO_OK) return fail(context);
    const bo_linear_layer hidden = {.out = HIDDEN, .bias = true}, last = {.out = 1, .bias = true};
    bo_value x = bo_graph_input(graph, "points", BO_ELEMENT_FLOAT32, POINTS, 2);
    bo_value t = bo_graph_input(graph, "classes", BO_ELEMENT_FLOAT32, POINTS, 1);
    bo_value h =
        bo_graph_unary(graph, BO_UNARY_SILU, bo_nn_linear(graph, "first", bo_graph_scale(graph, x, 3), &hidden));
    h = bo_graph_unary(graph, BO_UNARY_SILU, bo_nn_linear(graph, "second", h, &hidden));
    bo_value y = bo_nn_linear(graph, "last", h, &last);
    bo_value loss = bo_graph_loss(graph, BO_LOSS_KIND_BCE, y, t);
    bo_graph_keep(graph, y); /* its values are read after a run */

    /* Compile, allocate, write the data. */
    const bo_graph_compile_desc training = {.loss = loss, .gradients = true};
    status = bo_graph_compile(context, graph, &training);
    if (status == BO_OK) status = bo_weights_allocate(context, weights, true);
    if (status == BO_OK) status = bo_weights_init(context, weights, 1);
    if (status == BO_OK) status = bo_graph_allocate(context, graph);
    if (status == BO_OK) status = bo_graph_write(context, graph, x, points);
    if (status == BO_OK) status = bo_graph_write(context, graph, t, classes);

    const bo_optimizer_desc adamw = {.kind = BO_OPTIMIZER_ADAMW, .rate = 1e-2};
    if (status == BO_OK) status = bo_optimizer_create(context, &adamw, weights, &optimizer);
    if (status == BO_OK) status = train(context, graph, loss, optimizer);
    if (status == BO_OK) status = bo_graph_read(context, graph, y, logits);
    if (status != BO_OK) return fail(context);

    int right = 0;
    for (int i = 0; i < POINTS; i++) right += (logits[i] > 0) == (classes[i] > 0.5f);
    printf("%zu weights, %d of %d points classified correctly\n", bo_weights_describe(weights)->trained, right,
           (int)POINTS);
    bo_optimizer_destroy(optimizer);
    bo_graph_destroy(graph);
    bo_weights_destroy(weights);
    bo_context_destroy(context);
    return right == POINTS ? 0 : 1;
}
