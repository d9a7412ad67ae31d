/* Single layers: the weights that they declare, and their outputs compared with the formula in double. */
#include "nn/enums.h"
#include "nn/nn.h"
#include "nn/internal.h"
#include "testing.h"

enum { ROWS = 5, WIDTH = 8, HIDDEN = 12 };

static void test_names(void **unused)
{
    (void)unused;
    for (int i = 0; i < BO_MLP_COUNT; i++) {
        bo_mlp found = BO_MLP_COUNT;
        assert_true(bo_mlp_parse(bo_mlp_name((bo_mlp)i), &found) && (int)found == i);
    }
    for (int i = 0; i < BO_NORM_COUNT; i++) {
        bo_norm found = BO_NORM_COUNT;
        assert_true(bo_norm_parse(bo_norm_name((bo_norm)i), &found) && (int)found == i);
    }
    for (int i = 0; i < BO_POSITIONS_COUNT; i++) {
        bo_positions found = BO_POSITIONS_COUNT;
        assert_true(bo_positions_parse(bo_positions_name((bo_positions)i), &found) && (int)found == i);
    }
    bo_mlp kept = BO_MLP_GELU;
    assert_true(bo_mlp_parse("GELU_tanh", &kept) && kept == BO_MLP_GELU_TANH);
    assert_false(bo_mlp_parse("x", &kept) || bo_mlp_parse(NULL, &kept));
    assert_int_equal(kept, BO_MLP_GELU_TANH);
    assert_null(bo_mlp_name(BO_MLP_COUNT));
    assert_null(bo_norm_name(BO_NORM_COUNT));
    assert_null(bo_positions_name(BO_POSITIONS_COUNT));
}

/* ---- graphs of one layer ----------------------------------------------------------------------------------------- */

typedef struct bench {
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
    bo_value x, residual, positions;
    float input[ROWS * WIDTH], rest[ROWS * WIDTH];
} bench;

static void open_bench(bench *b)
{
    bo_rng rng = bo_rng_make(1, 2);
    b->context = test_context(1);
    assert_ok(b->context, bo_weights_create(b->context, &b->weights));
    assert_ok(b->context, bo_graph_create(b->context, b->weights, &b->graph));
    b->x = bo_graph_input(b->graph, "x", BO_ELEMENT_FLOAT32, ROWS, WIDTH);
    b->residual = bo_graph_input(b->graph, "residual", BO_ELEMENT_FLOAT32, ROWS, WIDTH);
    b->positions = bo_graph_input(b->graph, "positions", BO_ELEMENT_INT32, ROWS, 1);
    for (size_t i = 0; i < ROWS * WIDTH; i++) b->input[i] = (float)bo_rng_normal(&rng);
    for (size_t i = 0; i < ROWS * WIDTH; i++) b->rest[i] = (float)bo_rng_normal(&rng);
}

static void close_bench(bench *b)
{
    bo_graph_destroy(b->graph);
    bo_weights_destroy(b->weights);
    bo_context_destroy(b->context);
}

/* Sets random weights, then runs the graph. */
static void run(bench *b, bo_value out, const bo_graph_pass *pass, float *result)
{
    static const int32_t positions[ROWS] = {0, 1, 2, 3, 4};
    bo_graph_keep(b->graph, out);
    assert_ok(b->context, bo_graph_compile(b->context, b->graph, &(bo_graph_compile_desc){0}));
    assert_ok(b->context, bo_weights_allocate(b->context, b->weights, false));
    for (size_t i = 0; i < bo_weights_count(b->weights); i++) {
        const bo_weight *w = bo_weights_at(b->weights, i);
        bo_rng rng = bo_rng_make(3, i);
        for (size_t j = 0; j < w->rows * w->columns; j++) ((float *)w->data)[j] = (float)(0.4 * bo_rng_normal(&rng));
    }
    assert_ok(b->context, bo_graph_allocate(b->context, b->graph));
    assert_ok(b->context, bo_graph_write(b->context, b->graph, b->x, b->input));
    assert_ok(b->context, bo_graph_write(b->context, b->graph, b->residual, b->rest));
    assert_ok(b->context, bo_graph_write(b->context, b->graph, b->positions, positions));
    assert_ok(b->context, bo_graph_run(b->context, b->graph, pass));
    assert_ok(b->context, bo_graph_read(b->context, b->graph, out, result));
}

static double weight_at(const bench *b, const char *name, size_t index)
{
    const bo_weight *w = bo_weights_find(b->weights, name);
    if (!w) fail_msg("no weight %s", name);
    assert_true(index < w->rows * w->columns);
    return (double)((const float *)w->data)[index];
}

/* x Wᵀ + b of one row. */
static double project(const bench *b, const char *layer, bool bias, const double *x, size_t in, size_t out)
{
    char name[64];
    double sum = 0;
    snprintf(name, sizeof name, "%s.weight", layer);
    for (size_t i = 0; i < in; i++) sum += x[i] * weight_at(b, name, out * in + i);
    snprintf(name, sizeof name, "%s.bias", layer);
    return bias ? sum + weight_at(b, name, out) : sum;
}

static double gelu(double x)
{
    return x * 0.5 * erfc(-x / sqrt(2));
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double act(bo_mlp kind, double gate, double up)
{
    switch (kind) {
    case BO_MLP_GELU:
        return gelu(up);
    case BO_MLP_GELU_TANH:
        return gelu_tanh(up);
    case BO_MLP_SWIGLU:
        return gate / (1 + exp(-gate)) * up;
    case BO_MLP_GEGLU:
        return gelu(gate) * up;
    case BO_MLP_GEGLU_TANH:
        return gelu_tanh(gate) * up;
    case BO_MLP_SILU:
        return up / (1 + exp(-up));
    case BO_MLP_RELU:
        return up > 0 ? up : 0;
    default:
        return up > 0 ? up * up : 0;
    }
}

/* Sums of 12 products of numbers of order 1 in float32: 1e-5 is far above their rounding and far below any mistake. */
static void check_mlp(bo_mlp kind, bool bias, double dropout)
{
    bench b;
    float found[ROWS * WIDTH];
    open_bench(&b);
    const double factor = bias ? 1 : 0.7;
    bo_mlp_layer desc = {.kind = kind, .hidden = HIDDEN, .bias = bias, .dropout = dropout, .factor = factor};
    run(&b, bo_nn_mlp(b.graph, "mlp", b.x, b.residual, &desc), &(bo_graph_pass){0}, found);
    for (size_t r = 0; r < ROWS; r++) {
        double x[WIDTH], hidden[HIDDEN];
        for (size_t i = 0; i < WIDTH; i++) x[i] = (double)b.input[r * WIDTH + i];
        for (size_t h = 0; h < HIDDEN; h++)
            hidden[h] = act(kind, bo_nn_mlp_gated(kind) ? project(&b, "mlp.gate_proj", bias, x, WIDTH, h) : 0,
                            project(&b, "mlp.up_proj", bias, x, WIDTH, h));
        for (size_t i = 0; i < WIDTH; i++)
            assert_close((double)found[r * WIDTH + i],
                         (double)b.rest[r * WIDTH + i] + factor * project(&b, "mlp.down_proj", bias, hidden, HIDDEN, i),
                         1e-5);
    }
    close_bench(&b);
}

static void test_mlps(void **unused)
{
    (void)unused;
    static const bo_mlp kinds[] = {BO_MLP_RELU2, BO_MLP_GELU,       BO_MLP_SWIGLU, BO_MLP_GELU_TANH,
                                   BO_MLP_GEGLU, BO_MLP_GEGLU_TANH, BO_MLP_RELU,   BO_MLP_SILU};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        check_mlp(kinds[i], false, 0);
        check_mlp(kinds[i], true, 0.5); /* not training: no dropout */
    }
    bench b;
    open_bench(&b);
    assert_int_equal(bo_nn_mlp(b.graph, "mlp", b.x, b.residual, &(bo_mlp_layer){.kind = BO_MLP_NONE}), b.residual);
    close_bench(&b);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *preset, *weights; /* in addition to the four projections, in order of declaration */
    bool query_norm, output_norm;
    size_t rank;
    bo_gate gate; /* in addition to that of the preset */
} layers[] = {
    {"softmax", "q_norm.weight k_norm.weight", true, false, 0, BO_GATE_NONE},
    {"rfa-gate", "g_proj.weight g_proj.bias sigma", false, false, 0, BO_GATE_NONE},
    {"favor", "q_norm.weight k_norm.weight", true, false, 0, BO_GATE_NONE},
    {"dark", "m", false, false, 0, BO_GATE_NONE},
    {"hybrid", "mix", false, false, 0, BO_GATE_NONE},
    {"hybrid", "m mix", false, false, 4, BO_GATE_NONE},
    {"hybrid", "m mix", false, false, 3, BO_GATE_NONE},
    {"hybrid", "g_proj.weight g_proj.bias mix", false, false, 0, BO_GATE_DECAY},
    {"hybrid", "g_proj.weight g_proj.bias m mix", false, false, 4, BO_GATE_CONVEX},
    {"hybrid", "mix decay", false, false, 0, BO_GATE_FIXED},
    {"hedgehog", "map_q.weight map_k.weight map_q.bias map_k.bias", false, false, 0, BO_GATE_NONE},
    {"retention", "decay o_norm.weight", false, true, 0, BO_GATE_NONE},
    {"gla", "gk_proj.0.weight gk_proj.1.weight gk_proj.1.bias o_norm.weight", false, true, 0, BO_GATE_NONE},
    {"gated-delta", "g_proj.weight g_proj.bias b_proj.weight o_norm.weight", false, true, 0, BO_GATE_NONE},
    {"ridge", "b_proj.weight lambda o_norm.weight", false, true, 0, BO_GATE_NONE},
};

static void check_attention(size_t index)
{
    bench b;
    bo_attention *attention;
    bo_attention_desc kind = {.heads = 2, .key_heads = 1, .dim = 4, .causal = true};
    float found[ROWS * WIDTH];
    char names[512] = "", *at = names;
    open_bench(&b);
    assert_true(bo_attention_preset(layers[index].preset, &kind));
    kind.rank = layers[index].rank;
    if (layers[index].gate) kind.gate = layers[index].gate;
    if (strstr("rfa-gate favor dark hybrid", layers[index].preset)) kind.features.features = 16;
    assert_ok(b.context, bo_attention_create(b.context, &kind, &attention));
    bo_attention_layer desc = {.attention = attention,
                               .query_norm = layers[index].query_norm,
                               .output_norm = layers[index].output_norm,
                               .epsilon = 1e-6,
                               .sigma = 1,
                               .gate_first = 1,
                               .gate_last = 5};
    run(&b, bo_nn_attention(b.graph, "a", b.x, b.residual, b.positions, &desc), &(bo_graph_pass){0}, found);
    for (size_t i = 0; i < bo_weights_count(b.weights); i++) {
        const char *name = bo_weights_at(b.weights, i)->name;
        if (strstr(name, "q_proj") || strstr(name, "k_proj") == name + 2 || strstr(name, "v_proj") ||
            strstr(name, "o_proj"))
            continue;
        at += snprintf(at, sizeof names - (size_t)(at - names), "%s%s", at == names ? "" : " ", name + 2);
    }
    assert_string_equal(names, layers[index].weights);
    for (size_t i = 0; i < ROWS * WIDTH; i++) assert_true(isfinite(found[i]) && found[i] != b.rest[i]);
    bo_attention_destroy(attention);
    close_bench(&b);
}

static void test_attentions(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) check_attention(i);
}

/* The optimizer of each weight: Muon for matrices, not for other weights. */
static void test_roles(void **unused)
{
    (void)unused;
    bench b;
    open_bench(&b);
    bo_value tokens = bo_graph_input(b.graph, "tokens", BO_ELEMENT_INT32, ROWS, 1);
    bo_nn_embedding(b.graph, "embed", tokens, 10, WIDTH, 0.5);
    bo_nn_positions(b.graph, "places", b.x, b.positions, BO_POSITIONS_LEARNED, 16);
    bo_nn_norm(b.graph, "norm", b.x, &(bo_norm_layer){.kind = BO_NORM_LAYER, .width = WIDTH, .epsilon = 1e-5});
    bo_nn_linear(b.graph, "linear", b.x, &(bo_linear_layer){.out = 3, .bias = true});
    assert_int_equal(bo_nn_positions(b.graph, "none", b.x, b.positions, BO_POSITIONS_ROPE, 16), b.x);
    assert_int_equal(bo_nn_dropout(b.graph, b.x, 0, 0), b.x);
    static const struct {
        const char *name;
        bo_weight_role role;
    } expected[] = {{"embed.weight", BO_WEIGHT_ROLE_EMBEDDING}, {"places.weight", BO_WEIGHT_ROLE_EMBEDDING},
                    {"norm.weight", BO_WEIGHT_ROLE_VECTOR},     {"norm.bias", BO_WEIGHT_ROLE_VECTOR},
                    {"linear.weight", BO_WEIGHT_ROLE_MATRIX},   {"linear.bias", BO_WEIGHT_ROLE_VECTOR}};
    assert_int_equal(bo_weights_count(b.weights), sizeof expected / sizeof *expected);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_string_equal(bo_weights_at(b.weights, i)->name, expected[i].name);
        assert_int_equal(bo_weights_at(b.weights, i)->role, expected[i].role);
    }
    close_bench(&b);
}

/* Unit-scaled functions preserve the mean square of normal numbers: factor² ∫ f(x)² exp(-x²/2) dx / √(2π) = 1, to the
 * four digits of the factors. */
static void test_unit_factors(void **unused)
{
    (void)unused;
    static const struct {
        bo_unary function;
        double tolerance;
    } cases[] = {{BO_UNARY_RELU, 1e-6},
                 {BO_UNARY_RELU2, 1e-6},
                 {BO_UNARY_GELU, 2e-4},
                 {BO_UNARY_GELU_TANH, 2e-3},
                 {BO_UNARY_SILU, 2e-4}};
    bench b = {0};
    open_bench(&b);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double sum = 0, step = 1e-3;
        for (double x = -12; x < 12; x += step) {
            const double positive = fmax(x, 0), normal = exp(-x * x / 2) / sqrt(2 * M_PI);
            double y = positive;
            if (cases[c].function == BO_UNARY_RELU2) y = positive * positive;
            if (cases[c].function == BO_UNARY_GELU) y = x * erfc(-x / sqrt(2)) / 2;
            if (cases[c].function == BO_UNARY_GELU_TANH)
                y = x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
            if (cases[c].function == BO_UNARY_SILU) y = x / (1 + exp(-x));
            sum += y * y * normal * step;
        }
        bo_weights_set_rules(b.weights, &(bo_rules){0});
        assert_true(bo_nn_unit_factor(b.graph, cases[c].function) == 1);
        bo_weights_set_rules(b.weights, &(bo_rules){.kind = BO_PARAMETRIZATION_UNIT});
        const double factor = bo_nn_unit_factor(b.graph, cases[c].function);
        assert_close(factor * factor * sum, 1, cases[c].tolerance);
    }
    assert_true(bo_nn_unit_factor(b.graph, BO_UNARY_TANH) == 1); /* not a unit-scaled function */
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names), cmocka_unit_test(test_mlps),         cmocka_unit_test(test_attentions),
        cmocka_unit_test(test_roles), cmocka_unit_test(test_unit_factors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
