/* Random graphs of toy operations compared with simple reverse-mode differentiation in double, in which every tensor
 * and gradient has its own memory. Checkpointing and another arena do not change any bit. Dead memory is filled with
 * NaN, so invalid reads are detected. */
#include "toy.h"

enum { NODES = 24, ROWS = 3, COLUMNS = 5, SIZE = ROWS * COLUMNS, WEIGHTS = 4, VALUES = 2 * NODES + WEIGHTS + 2 };

typedef struct toy_node {
    int op;
    size_t inputs[2]; /* values of the trial, by number */
    size_t outputs[2];
    size_t segment; /* a new segment starts where the number changes; 0: none */
} toy_node;

/* Values 0 … WEIGHTS - 1 are weights, then one input, then results of nodes; the last node is the sum of a value. */
typedef struct trial {
    toy_node nodes[NODES];
    size_t values;
    bool frozen[WEIGHTS];
    double value[VALUES][SIZE], gradient[VALUES][SIZE];
} trial;

/* Late values are chosen more often, so that chains are long. */
static size_t pick(bo_rng *rng, size_t values)
{
    size_t near = values < 6 ? values : 6;
    return bo_rng_below(rng, 3) ? values - 1 - bo_rng_below(rng, near) : bo_rng_below(rng, values);
}

static void create_node(bo_rng *rng, trial *t, size_t n)
{
    static const int ops[] = {TOY_ADD, TOY_PRODUCT, TOY_SINE, TOY_SIGMOID, TOY_SINE, TOY_ADD};
    toy_node *node = &t->nodes[n];
    node->op = n == NODES - 1 ? TOY_SUM : ops[bo_rng_below(rng, 6)];
    node->inputs[0] = n == NODES - 1 ? t->values - 1 : pick(rng, t->values);
    do node->inputs[1] = pick(rng, t->values);
    while (node->inputs[1] == node->inputs[0]);
    node->outputs[0] = t->values++;
    if (node->op == TOY_SIGMOID) node->outputs[1] = t->values++;
}

static trial create_trial(uint64_t seed)
{
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.tape", 0));
    trial t = {.values = WEIGHTS + 1};
    for (size_t v = 0; v < t.values; v++)
        for (size_t i = 0; i < SIZE; i++) t.value[v][i] = (float)(bo_rng_normal(&rng) / 2);
    t.frozen[bo_rng_below(&rng, 2 * WEIGHTS) % WEIGHTS] = bo_rng_below(&rng, 2);
    for (size_t n = 0; n < NODES; n++) create_node(&rng, &t, n);
    for (size_t n = 1, segment = 1; n < NODES; n++) {
        if (!bo_rng_below(&rng, 4)) segment++;
        t.nodes[n].segment = bo_rng_below(&rng, 6) ? segment : (segment++, 0);
    }
    return t;
}

/* ---- simple reference -------------------------------------------------------------------------------------------- */

static void naive(trial *t)
{
    for (size_t n = 0; n < NODES; n++) {
        const toy_node *node = &t->nodes[n];
        const double *a = t->value[node->inputs[0]], *b = t->value[node->inputs[1]];
        double *out = t->value[node->outputs[0]];
        for (size_t i = 0; i < SIZE; i++) {
            if (node->op == TOY_ADD) out[i] = a[i] + b[i];
            if (node->op == TOY_PRODUCT) out[i] = a[i] * b[i];
            if (node->op == TOY_SINE) out[i] = sin(a[i]);
            if (node->op == TOY_SIGMOID) out[i] = 1 / (1 + exp(-a[i])), t->value[node->outputs[1]][i] = 2 * out[i];
            if (node->op == TOY_SUM) out[0] += a[i];
        }
    }
    t->gradient[t->values - 1][0] = 1;
    for (size_t n = NODES; n-- > 0;) {
        const toy_node *node = &t->nodes[n];
        const double *a = t->value[node->inputs[0]], *b = t->value[node->inputs[1]];
        double *da = t->gradient[node->inputs[0]], *db = t->gradient[node->inputs[1]];
        const double *d = t->gradient[node->outputs[0]], *y = t->value[node->outputs[0]];
        for (size_t i = 0; i < SIZE; i++) {
            if (node->op == TOY_ADD) da[i] += d[i], db[i] += d[i];
            if (node->op == TOY_PRODUCT) da[i] += d[i] * b[i], db[i] += d[i] * a[i];
            if (node->op == TOY_SINE) da[i] += d[i] * cos(a[i]);
            if (node->op == TOY_SIGMOID) da[i] += y[i] * (1 - y[i]) * (d[i] + 2 * t->gradient[node->outputs[1]][i]);
            if (node->op == TOY_SUM) da[i] += d[0];
        }
    }
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

typedef struct outcome {
    float loss, gradient[WEIGHTS][SIZE];
    size_t again; /* recomputations in forward */
    size_t moves, bytes;
    bool trained;
} outcome;

static bo_value record(bo_graph *graph, const trial *t, bo_value *input)
{
    bo_value at[VALUES];
    char name[16];
    for (size_t w = 0; w < WEIGHTS; w++) {
        snprintf(name, sizeof name, "w%zu", w);
        at[w] = bo_graph_weight(
            graph,
            &(bo_weight_desc){.name = name, .rank = 2, .shape = (size_t[]){ROWS, COLUMNS}, .frozen = t->frozen[w]});
    }
    at[WEIGHTS] = *input = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
    size_t segment = 0;
    for (size_t n = 0; n < NODES; n++) {
        const toy_node *node = &t->nodes[n];
        bool two = node->op == TOY_ADD || node->op == TOY_PRODUCT;
        if (node->segment != segment && segment) bo_graph_segment(graph, false);
        if (node->segment != segment && node->segment) bo_graph_segment(graph, true);
        segment = node->segment;
        bo_graph_scope(graph, "node %zu", n);
        bo_value first =
            bo_graph_one(graph, node->op, NULL, two ? 2 : 1, (bo_value[]){at[node->inputs[0]], at[node->inputs[1]]});
        at[node->outputs[0]] = first;
        if (node->op == TOY_SIGMOID) at[node->outputs[1]] = bo_graph_output(graph, first, 1);
    }
    if (segment) bo_graph_segment(graph, false);
    return at[t->values - 1];
}

static void set_weights(bo_weights *weights, const trial *t)
{
    for (size_t w = 0; w < WEIGHTS; w++)
        for (size_t i = 0; i < SIZE; i++) ((float *)bo_weights_at(weights, w)->data)[i] = (float)t->value[w][i];
}

typedef struct manner {
    bool checkpoint, poisoned, bfloat16;
} manner;

static outcome run(bo_context *context, const trial *t, manner options)
{
    outcome out = {0};
    bo_weights *weights;
    bo_graph *graph;
    bo_value input;
    float x[SIZE];
    assert_ok(context, bo_weights_create_on(context, toy_device(), &weights));
    assert_ok(context, bo_graph_create(context, weights, &graph));
    bo_value loss = record(graph, t, &input);
    bo_graph_compile_desc desc = {
        .loss = loss, .gradients = true, .checkpoint = options.checkpoint, .bfloat16 = options.bfloat16};
    bo_status status = bo_graph_compile(context, graph, &desc);
    out.trained = status == BO_OK || !strstr(bo_context_error(context), "does not depend on a trained weight");
    if (out.trained) {
        assert_ok(context, status);
        assert_ok(context, bo_weights_allocate(context, weights, true));
        assert_ok(context, bo_graph_allocate(context, graph));
        set_weights(weights, t);
        for (size_t i = 0; i < SIZE; i++) x[i] = (float)t->value[WEIGHTS][i];
        assert_ok(context, bo_graph_write(context, graph, input, x));
        for (int pass = 0; pass < 2; pass++) { /* gradients add up over the two passes */
            watch_begin(options.poisoned ? graph : NULL);
            assert_ok(context, bo_graph_run(context, graph, NULL));
        }
        assert_ok(context, bo_graph_read(context, graph, loss, &out.loss));
        for (size_t w = 0; w < WEIGHTS; w++)
            if (!t->frozen[w]) memcpy(out.gradient[w], bo_weights_at(weights, w)->gradient, SIZE * sizeof(float));
        out.again = watched.again;
        out.moves = watched.moves;
        out.bytes = bo_graph_describe(graph)->bytes;
    }
    watch_begin(NULL);
    bo_graph_destroy(graph);
    bo_weights_destroy(weights);
    return out;
}

static double largest_of(const trial *t)
{
    double largest = 1;
    for (size_t v = 0; v < t->values; v++)
        for (size_t i = 0; i < SIZE; i++) largest = fmax(largest, fmax(fabs(t->gradient[v][i]), fabs(t->value[v][i])));
    return largest;
}

/* A rounding error of 2^-24 in each of 24 nodes is multiplied by at most the largest value and the largest gradient,
 * for each of the 15 numbers of the sum: below 24 * 15 * 2^-24 * largest² = 2.1e-5 largest², and twice that in the sum
 * of two passes. */
static void check_against_naive(const trial *t, const outcome *got, uint64_t seed)
{
    double largest = largest_of(t), tolerance = 2.2e-5 * largest * largest;
    assert_close(got->loss, t->value[t->values - 1][0], tolerance);
    for (size_t w = 0; w < WEIGHTS; w++)
        for (size_t i = 0; i < SIZE && !t->frozen[w]; i++)
            if (!(fabs(got->gradient[w][i] - 2 * t->gradient[w][i]) <= 2 * tolerance))
                fail_msg("seed %llu: gradient %zu of weight %zu is %g, expected %g", (unsigned long long)seed, i, w,
                         (double)got->gradient[w][i], 2 * t->gradient[w][i]);
}

static void random_graphs_differentiate(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    size_t checked = 0, recomputed = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        trial t = create_trial(seed);
        naive(&t);
        if (largest_of(&t) > 30) continue; /* products of sums of products may be too large */
        outcome plain = run(context, &t, (manner){0});
        if (!plain.trained) continue;
        outcome poisoned = run(context, &t, (manner){.poisoned = true});
        outcome again = run(context, &t, (manner){.checkpoint = true, .poisoned = true});
        assert_memory_equal(&plain.loss, &poisoned.loss, sizeof(float));
        assert_memory_equal(&plain.loss, &again.loss, sizeof(float));
        assert_memory_equal(plain.gradient, poisoned.gradient, sizeof plain.gradient);
        assert_memory_equal(plain.gradient, again.gradient, sizeof plain.gradient);
        check_against_naive(&t, &plain, seed);
        recomputed += again.again;
        checked++;
    }
    assert_true(checked > 200);
    assert_true(recomputed > checked);
    bo_context_destroy(context);
}

/* Values that wait for backward are stored as bfloat16, with a relative error of at most 2^-8. A gradient is a sum over
 * the paths to the loss of products of derivatives, and in each of 24 nodes a derivative has this error relative to the
 * largest value: below 24 2^-8 largest² in each of two passes. Values that are recomputed from rounded ones pass their
 * errors through as many nodes again. */
static void check_rounded(const outcome *exact, const outcome *got, const trial *t, double times, double *error)
{
    double largest = largest_of(t), tolerance = times * 2 * 24 * 0x1p-8 * largest * largest;
    assert_memory_equal(&exact->loss, &got->loss, sizeof(float)); /* forward does not use them */
    for (size_t w = 0; w < WEIGHTS; w++)
        for (size_t i = 0; i < SIZE; i++) {
            assert_close(got->gradient[w][i], exact->gradient[w][i], tolerance);
            *error += fabs((double)got->gradient[w][i] - (double)exact->gradient[w][i]);
        }
}

static void values_wait_as_bfloat16(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    double error = 0, size = 0;
    size_t moves = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        trial t = create_trial(seed);
        naive(&t);
        if (largest_of(&t) > 30) continue;
        outcome exact = run(context, &t, (manner){0});
        if (!exact.trained) continue;
        outcome half = run(context, &t, (manner){.bfloat16 = true});
        outcome poisoned = run(context, &t, (manner){.bfloat16 = true, .poisoned = true});
        outcome again = run(context, &t, (manner){.bfloat16 = true, .checkpoint = true, .poisoned = true});
        assert_memory_equal(half.gradient, poisoned.gradient, sizeof half.gradient);
        check_rounded(&exact, &half, &t, 1, &error);
        check_rounded(&exact, &again, &t, 2, &error);
        for (size_t w = 0; w < WEIGHTS; w++)
            for (size_t i = 0; i < SIZE; i++) size += 2 * fabs((double)exact.gradient[w][i]);
        moves += poisoned.moves;
    }
    assert_true(moves > 0 && moves % 2 == 0);
    assert_true(error > 0 && error < 0x1p-8 * size); /* rounding errors of many nodes, most of which cancel */
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_differentiate),
                                       cmocka_unit_test(values_wait_as_bfloat16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
