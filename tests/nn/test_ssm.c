/* The state-space mixer: its weights, their initial values, its outputs, and equality of pieces and whole. */
#include <complex.h>
#include "nn/nn.h"
#include "testing.h"

enum { WIDTH = 5, CHANNELS = 18, SIZE = 4, RANK = 2, KERNEL = 3, TOKENS = 12 };

/* A graph of `rows` tokens of one sequence, with the weights of a set. */
typedef struct bench {
    bo_graph *graph;
    bo_value x, residual, y;
} bench;

static bo_ssm_layer layer_of(bo_ssm kind, size_t kernel)
{
    return (bo_ssm_layer){.kind = kind,
                          .channels = CHANNELS,
                          .size = SIZE,
                          .rank = RANK,
                          .kernel = kernel,
                          .bias = true,
                          .max_sequences = 1};
}

static bench record(bo_context *context, bo_weights *weights, const bo_ssm_layer *layer, size_t rows)
{
    bench b = {0};
    assert_ok(context, bo_graph_create(context, weights, &b.graph));
    b.x = bo_graph_input(b.graph, "x", BO_ELEMENT_FLOAT32, rows, WIDTH);
    b.residual = bo_graph_input(b.graph, "residual", BO_ELEMENT_FLOAT32, rows, WIDTH);
    b.y = bo_nn_ssm(b.graph, "mixer", b.x, b.residual, layer);
    bo_graph_keep(b.graph, b.y);
    assert_ok(context, bo_graph_compile(context, b.graph, &(bo_graph_compile_desc){0}));
    return b;
}

static void run(bo_context *context, bench *b, const float *x, void *state, float *y)
{
    static const float nothing[TOKENS * WIDTH];
    void *states[1] = {state};
    assert_ok(context, bo_graph_allocate(context, b->graph));
    assert_ok(context, bo_graph_write(context, b->graph, b->x, x));
    assert_ok(context, bo_graph_write(context, b->graph, b->residual, nothing));
    assert_ok(context,
              bo_graph_run(context, b->graph, &(bo_graph_pass){.sequences = 1, .states = state ? states : NULL}));
    assert_ok(context, bo_graph_read(context, b->graph, b->y, y));
}

static void fill(float *x, size_t count, double size, uint64_t stream)
{
    bo_rng rng = bo_rng_make(3, stream);
    for (size_t i = 0; i < count; i++) x[i] = (float)(size * bo_rng_normal(&rng));
}

/* Initial weights, except for the output projection, which would be 0. */
static void begin(bo_context *context, bo_weights *weights)
{
    const bo_weight *out = bo_weights_find(weights, "mixer.out_proj.weight");
    assert_ok(context, bo_weights_allocate(context, weights, false));
    assert_ok(context, bo_weights_init(context, weights, 7));
    fill(out->data, out->rows * out->columns, 0.5, 99);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static const float *weight(bo_weights *weights, const char *name, size_t rows, size_t columns)
{
    char full[64];
    snprintf(full, sizeof full, "mixer.%s", name);
    const bo_weight *w = bo_weights_find(weights, full);
    if (!w) fail_msg("no weight %s", full);
    if (w->rows != rows || w->columns != columns)
        fail_msg("%s is %zu x %zu, expected %zu x %zu", full, w->rows, w->columns, rows, columns);
    return w->data;
}

static void weights_begin(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (int kind = 0; kind < BO_SSM_COUNT; kind++) {
        bo_weights *weights = NULL;
        bo_ssm_layer layer = layer_of((bo_ssm)kind, KERNEL);
        assert_ok(context, bo_weights_create(context, &weights));
        bench b = record(context, weights, &layer, TOKENS);
        begin(context, weights);
        const float *steps = weight(weights, "log_step", CHANNELS, 1);
        for (size_t i = 0; i < CHANNELS; i++)
            assert_close(steps[i], log(1e-3) + log(100) * (double)i / (CHANNELS - 1), 1e-5);
        assert_close(weight(weights, "d", CHANNELS, 1)[CHANNELS - 1], 1, 0);
        weight(weights, "conv.weight", CHANNELS, KERNEL);
        weight(weights, "c", CHANNELS, kind == BO_SSM_CLOSED ? SIZE : 2 * SIZE);
        if (kind == BO_SSM_CLOSED) {
            weight(weights, "b", CHANNELS, SIZE), weight(weights, "p", CHANNELS, SIZE * RANK);
        } else {
            assert_close(log1p(exp((double)weight(weights, "a", CHANNELS, SIZE)[5])), 0.5, 1e-6);
            assert_close(weight(weights, "w", CHANNELS, SIZE)[SIZE + 3], 3 * acos(-1), 1e-5);
        }
        if (kind == BO_SSM_LOW_RANK) weight(weights, "q", CHANNELS, 2 * SIZE * RANK);
        bo_graph_destroy(b.graph);
        bo_weights_destroy(weights);
    }
    bo_context_destroy(context);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* x W[o]ᵀ of token t */
static double project(const float *w, const float *x, size_t t, size_t o)
{
    double sum = 0;
    for (size_t i = 0; i < WIDTH; i++) sum += (double)w[o * WIDTH + i] * (double)x[t * WIDTH + i];
    return sum;
}

/* The response of a diagonal system to u. */
static void compute_response(bo_weights *weights, size_t c, const double u[TOKENS], double y[TOKENS])
{
    double step = exp((double)weight(weights, "log_step", CHANNELS, 1)[c]);
    const float *a = weight(weights, "a", CHANNELS, SIZE) + c * SIZE,
                *w = weight(weights, "w", CHANNELS, SIZE) + c * SIZE;
    const float *out = weight(weights, "c", CHANNELS, 2 * SIZE) + c * 2 * SIZE;
    for (size_t t = 0; t < TOKENS; t++) y[t] = u[t]; /* D = 1 */
    for (size_t n = 0; n < SIZE; n++) {
        double complex lambda = -log1p(exp((double)a[n])) + (double)w[n] * I, grow = cexp(step * lambda), s = 0;
        for (size_t t = 0; t < TOKENS; t++) {
            s = grow * s + (grow - 1) / lambda * u[t];
            y[t] += creal(((double)out[2 * n] + (double)out[2 * n + 1] * I) * s);
        }
    }
}

/* The formula in nn.h; biases start at 0. */
static void values_are_the_formula(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_weights *weights = NULL;
    for (size_t kernel = 0; kernel <= KERNEL; kernel += KERNEL) {
        bo_ssm_layer layer = layer_of(BO_SSM_DIAGONAL, kernel);
        double expected[TOKENS * WIDTH] = {0};
        float x[TOKENS * WIDTH], found[TOKENS * WIDTH];
        fill(x, TOKENS * WIDTH, 1, 1);
        assert_ok(context, bo_weights_create(context, &weights));
        bench b = record(context, weights, &layer, TOKENS);
        begin(context, weights);
        for (size_t c = 0; c < CHANNELS; c++) {
            double u[TOKENS], inputs[TOKENS], y[TOKENS];
            for (size_t t = 0; t < TOKENS; t++)
                u[t] = project(weight(weights, "in_proj.weight", CHANNELS, WIDTH), x, t, c);
            for (size_t t = 0; t < TOKENS; t++) {
                inputs[t] = kernel ? 0 : u[t];
                for (size_t k = 0; k < kernel && k <= t; k++)
                    inputs[t] += u[t - k] *
                                 (double)weight(weights, "conv.weight", CHANNELS, KERNEL)[c * KERNEL + KERNEL - 1 - k];
                if (kernel) inputs[t] = silu(inputs[t]);
            }
            compute_response(weights, c, inputs, y);
            for (size_t t = 0; t < TOKENS; t++)
                for (size_t i = 0; i < WIDTH; i++)
                    expected[t * WIDTH + i] +=
                        (double)weight(weights, "out_proj.weight", WIDTH, CHANNELS)[i * CHANNELS + c] * y[t] *
                        silu(project(weight(weights, "gate_proj.weight", CHANNELS, WIDTH), x, t, c));
        }
        run(context, &b, x, NULL, found);
        for (size_t i = 0; i < TOKENS * WIDTH; i++) assert_close(found[i], expected[i], 2e-5);
        bo_graph_destroy(b.graph);
        bo_weights_destroy(weights);
    }
    bo_context_destroy(context);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* The state has the length bo_nn_ssm_state_bytes, and processing one token at a time gives the result of the whole. */
static void pieces_are_the_whole(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (int kind = 0; kind < BO_SSM_COUNT; kind++) {
        bo_weights *weights = NULL;
        bo_ssm_layer layer = layer_of((bo_ssm)kind, KERNEL);
        float x[TOKENS * WIDTH], all_outputs[TOKENS * WIDTH], piece[WIDTH];
        size_t bytes = bo_nn_ssm_state_bytes(&layer);
        unsigned char *memory = calloc(bytes + 64, 1);
        memset(memory + bytes, 0x5a, 64);
        fill(x, TOKENS * WIDTH, 1, 1);
        assert_ok(context, bo_weights_create(context, &weights));
        bench all = record(context, weights, &layer, TOKENS), one = record(context, weights, &layer, 1);
        begin(context, weights);
        run(context, &all, x, NULL, all_outputs);
        for (size_t t = 0; t < TOKENS; t++) {
            run(context, &one, x + t * WIDTH, memory, piece);
            for (size_t i = 0; i < WIDTH; i++) assert_close(piece[i], all_outputs[t * WIDTH + i], 2e-5);
        }
        for (size_t i = 0; i < 64; i++) assert_int_equal(memory[bytes + i], 0x5a);
        free(memory);
        bo_graph_destroy(all.graph), bo_graph_destroy(one.graph);
        bo_weights_destroy(weights);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_begin),
        cmocka_unit_test(values_are_the_formula),
        cmocka_unit_test(pieces_are_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
