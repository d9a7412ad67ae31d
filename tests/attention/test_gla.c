/* Gated linear attention compared with its recurrence in double, token by token: outputs, states and every gradient;
 * gates of every size; steps, splits, threads, causality. */
#include "gla.h"

/* ---- the library ------------------------------------------------------------------------------------------------- */

static void **make_states(bo_context *context, const data *x, const bo_attention *attention, const float *s)
{
    const bo_attention_desc *d = &x->model.desc;
    void **states = calloc(x->model.shape.sequences, sizeof *states);
    for (size_t i = 0; i < x->model.shape.sequences; i++) {
        states[i] = malloc(bo_attention_state_bytes(attention));
        assert_ok(context, bo_attention_state_init(context, attention, states[i]));
        for (size_t h = 0; s && h < d->key_heads; h++)
            assert_ok(context, bo_attention_state_set(context, attention, states[i], h,
                                                      s + i * x->state + h * d->dim * d->value_dim, NULL, 0));
    }
    return states;
}

static void read_states(bo_context *context, data *x, const bo_attention *attention, void **states, float *s)
{
    const bo_attention_desc *d = &x->model.desc;
    for (size_t i = 0; i < x->model.shape.sequences; i++) {
        for (size_t h = 0; s && h < d->key_heads; h++)
            assert_ok(context, bo_attention_state_get(context, attention, states[i], h,
                                                      s + i * x->state + h * d->dim * d->value_dim, NULL, NULL));
        free(states[i]);
    }
    free(states);
}

static bo_attention_inputs inputs_of(const data *x)
{
    bool keys = !x->model.no_keys;
    return (bo_attention_inputs){.q = x->array[Q],
                                 .k = keys ? x->array[K] : NULL,
                                 .v = keys ? x->array[V] : NULL,
                                 .log_gate = keys ? x->array[GATE] : NULL};
}

/* Forward and backward; outputs, final states and gradients are overwritten. */
static void run(bo_context *context, data *x)
{
    const bo_attention_shape *shape = &x->model.shape;
    bo_attention *attention;
    assert_ok(context, bo_attention_create(context, &x->model.desc, &attention));
    assert_int_equal(bo_attention_state_gradient_floats(attention), x->state);
    bo_attention_inputs in = inputs_of(x);
    size_t bytes;
    assert_ok(context, bo_attention_tape_bytes(context, attention, shape, &bytes));
    void *tape = malloc(bytes);
    void **initial = make_states(context, x, attention, x->s0), ** final = make_states(context, x, attention, NULL);
    const void *const *begin = x->model.states ? (const void *const *)initial : NULL;
    assert_ok(context, bo_attention_forward_arrays(context, attention, shape, &in, begin, final, x->array[OUT], tape));
    float **d0 = malloc((shape->sequences + 1) * sizeof *d0);
    const float **d1 = malloc((shape->sequences + 1) * sizeof *d1);
    for (size_t s = 0; s < shape->sequences; s++) d0[s] = x->ds0 + s * x->state, d1[s] = x->ds1 + s * x->state;
    bo_attention_gradients gradients = {
        .q = x->gradient[Q], .k = x->gradient[K], .v = x->gradient[V], .log_gate = x->gradient[GATE], .initial = d0};
    assert_ok(context, bo_attention_backward_arrays(context, attention, shape, &in, begin, x->array[OUT], tape,
                                                    x->model.dout ? x->gradient[OUT] : NULL,
                                                    x->model.states ? d1 : NULL, &gradients));
    read_states(context, x, attention, initial, NULL);
    read_states(context, x, attention, final, x->s1);
    free(d0), free(d1), free(tape);
    bo_attention_destroy(attention);
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

/* Sums of up to dim + value_dim + tokens terms, each with a product of gates of relative error |log| 2^-24 (negligible
 * below e^-87) and one rounding error per gate; to first order (terms + 87 + …) 2^-24 times the magnitudes of the
 * terms. */
static double tolerance(const data *x)
{
    const bo_attention_desc *d = &x->model.desc;
    return (double)(d->dim + d->value_dim + x->total + 200) * 0x1p-24;
}

static void compare(const data *x, const char *what, size_t count, const float *found, const double *expected,
                    const double *size)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - expected[i]) <= tolerance(x) * size[i] + 1e-34))
            fail_msg(
                "dim %zu, value_dim %zu, chunk %zu, gates %d, seed %llu: %s %zu is %.9g, expected %.9g (terms %.3g)",
                x->model.desc.dim, x->model.desc.value_dim, x->model.desc.chunk, (int)x->model.gates,
                (unsigned long long)x->model.seed, what, i, (double)found[i], expected[i], size[i]);
}

static void check(bo_context *context, const model *m)
{
    data x = make_data(m);
    run(context, &x);
    truth expected = find_truth(&x, false), size = find_truth(&x, true);
    size_t states = m->shape.sequences * x.state;
    compare(&x, "out", x.count[OUT], x.array[OUT], expected.value[OUT], size.value[OUT]);
    compare(&x, "final state", states, x.s1, expected.s1, size.s1);
    for (int a = 0; a < OUT; a++)
        if (!m->no_keys || a == Q) compare(&x, names[a], x.count[a], x.gradient[a], expected.value[a], size.value[a]);
    compare(&x, "initial state", states, x.ds0, expected.ds0, size.ds0);
    drop_truth(&expected), drop_truth(&size);
    drop(&x);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* The loss whose gradients are tested, from the recurrence only. */
static double loss(const data *x)
{
    double sum = 0;
    truth r = find_truth(x, false);
    for (size_t i = 0; i < x->count[OUT]; i++) sum += r.value[OUT][i] * (double)x->gradient[OUT][i];
    for (size_t i = 0; i < x->model.shape.sequences * x->state; i++) sum += r.s1[i] * (double)x->ds1[i];
    drop_truth(&r);
    return sum;
}

/* Central differences of the loss in double with a step h, relative for large x: error O(h²) + rounding / h. x is
 * float, so the actual step is computed. */
static double difference(const data *x, float *input)
{
    float was = *input, step = 0x1p-9f * fmaxf(1, fabsf(was));
    *input = was + step;
    double up = loss(x), high = *input;
    *input = was - step;
    double down = loss(x), low = *input;
    *input = was;
    return (up - down) / (high - low);
}

static void gradients_agree_with_the_recurrence(void **state)
{
    (void)state;
    for (int unit = 0; unit < 2; unit++)
        for (int g = 0; g < GATES; g++) {
            model m = {.desc = {.heads = 2, .key_heads = 1, .dim = 3, .value_dim = 2, .unit = unit},
                       .shape = {.sequences = 1, .tokens = 4},
                       .gates = (gates)g,
                       .states = true,
                       .dout = true,
                       .seed = 3};
            data x = make_data(&m);
            truth r = find_truth(&x, false), size = find_truth(&x, true);
            for (int a = 0; a < OUT; a++)
                for (size_t i = 0; i < x.count[a]; i++)
                    assert_close(difference(&x, x.array[a] + i), r.value[a][i], 1e-4 * (1 + size.value[a][i]));
            for (size_t i = 0; i < x.state; i++)
                assert_close(difference(&x, x.s0 + i), r.ds0[i], 1e-4 * (1 + size.ds0[i]));
            drop_truth(&r), drop_truth(&size);
            drop(&x);
        }
}

static void sizes_gates_and_chunks(void **state)
{
    (void)state;
    static const size_t widths[][2] = {{1, 1}, {3, 7}, {17, 5}, {64, 64}, {80, 65}, {16, 130}};
    static const size_t lengths[] = {1, 2, 15, 16, 17, 33, 47, 150}, chunks[] = {0, 1, 7, 16, 20, 33, 64};
    bo_context *context = test_context(2);
    for (size_t w = 0; w < 6; w++)
        for (size_t l = 0; l < 8; l++)
            for (int g = 0; g < GATES; g++) {
                size_t which = w + l + (size_t)g;
                check(context, &(model){.desc = {.heads = 1,
                                                 .dim = widths[w][0],
                                                 .value_dim = widths[w][1],
                                                 .chunk = chunks[which % 7],
                                                 .unit = which % 3 == 0,
                                                 .scale = which % 2 ? 0.7 : 0},
                                        .shape = {.sequences = 1, .tokens = lengths[l]},
                                        .gates = (gates)g,
                                        .states = (l + w) % 2,
                                        .dout = true,
                                        .seed = which});
            }
    bo_context_destroy(context);
}

static void groups_layouts_and_packing(void **state)
{
    (void)state;
    static const size_t lengths[][4] = {{0, 1, 5, 40}, {33, 0, 2, 1}, {0, 0, 0, 0}, {1, 1, 1, 70}};
    static const size_t key_heads[] = {1, 2, 3, 6};
    bo_context *context = test_context(2);
    for (size_t n = 0; n < 32; n++) {
        bo_attention_shape shape = {.sequences = 4, .tokens = 23, .layout = n % 2};
        if (n % 4 > 1) shape.lengths = lengths[n / 8];
        check(context, &(model){.desc = {.heads = 6,
                                         .key_heads = key_heads[n / 4 % 4],
                                         .dim = 5,
                                         .value_dim = 3,
                                         .unit = n % 5 == 0,
                                         .chunk = n % 3 ? 0 : 40},
                                .shape = shape,
                                .gates = (gates)(n % GATES),
                                .states = n % 3,
                                .dout = n % 7,
                                .seed = n});
    }
    bo_context_destroy(context);
}

static void states_are_read(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 20};
    bo_context *context = test_context(2);
    for (size_t n = 0; n < 8; n++) {
        bo_attention_shape shape = {.sequences = 3, .tokens = 21, .layout = n % 2};
        if (n % 4 > 1) shape.lengths = lengths;
        check(context, &(model){.desc = {.heads = 4, .key_heads = 2, .dim = 9, .value_dim = 17, .unit = n % 3 == 0},
                                .shape = shape,
                                .states = true,
                                .dout = n < 6,
                                .no_keys = true,
                                .seed = n});
    }
    bo_context_destroy(context);
}

/* Blocks of any length followed by single tokens give the result of one pass. */
static void splits_and_steps(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t n = 0; n < 8; n++) {
        model m = {.desc = {.heads = 4,
                            .key_heads = 2,
                            .dim = n % 2 ? 64 : 7,
                            .value_dim = n % 2 ? 64 : 5,
                            .unit = n % 3 == 0},
                   .shape = {.sequences = 3, .tokens = 60, .layout = BO_LAYOUT_TOKENS_FIRST},
                   .gates = (gates)(n % GATES),
                   .seed = n};
        data x = make_data(&m);
        const bo_attention_desc *d = &x.model.desc;
        bo_attention *attention;
        assert_ok(context, bo_attention_create(context, d, &attention));
        void **states = make_states(context, &x, attention, NULL);
        size_t next = 0, cut = 17 + n;
        for (size_t t = 0; t < 60; t = next) { /* one block, then single tokens, then another block */
            next = t == 0 ? cut : t < 50 ? t + 1 : 60;
            size_t tokens = next - t;
            for (size_t s = 0; s < 3; s++) {
                bo_attention_shape shape = {.sequences = 1, .tokens = tokens, .layout = BO_LAYOUT_TOKENS_FIRST};
                bo_attention_inputs in = {.q = x.array[Q] + at(&x, Q, s, 0, t),
                                          .k = x.array[K] + at(&x, K, s, 0, t),
                                          .v = x.array[V] + at(&x, V, s, 0, t),
                                          .log_gate = x.array[GATE] + at(&x, GATE, s, 0, t)};
                float *out = x.array[OUT] + at(&x, OUT, s, 0, t);
                if (tokens == 1)
                    assert_ok(context, bo_attention_step(context, attention, 1, &in, states + s, out));
                else
                    assert_ok(context, bo_attention_extend(context, attention, &shape, &in, states + s, out));
            }
        }
        assert_int_equal(bo_attention_state_tokens(states[0]), 60);
        truth expected = find_truth(&x, false), size = find_truth(&x, true);
        compare(&x, "out", x.count[OUT], x.array[OUT], expected.value[OUT], size.value[OUT]);
        read_states(context, &x, attention, states, x.s1);
        compare(&x, "state", 3 * x.state, x.s1, expected.s1, size.s1);
        drop_truth(&expected), drop_truth(&size);
        bo_attention_destroy(attention);
        drop(&x);
    }
    bo_context_destroy(context);
}

/* Many sequences in one step, and a query without a key, which does not change the state. */
static void steps_of_many_sequences(void **state)
{
    (void)state;
    bo_context *context = test_context(3);
    model m = {.desc = {.heads = 6, .key_heads = 3, .dim = 40, .value_dim = 70},
               .shape = {.sequences = 21, .tokens = 1, .layout = BO_LAYOUT_TOKENS_FIRST},
               .states = true,
               .gates = EXTREME};
    data x = make_data(&m);
    bo_attention *attention;
    assert_ok(context, bo_attention_create(context, &x.model.desc, &attention));
    void **states = make_states(context, &x, attention, x.s0);
    bo_attention_inputs in = inputs_of(&x);
    assert_ok(context, bo_attention_step(context, attention, 21, &in, states, x.array[OUT]));
    truth expected = find_truth(&x, false), size = find_truth(&x, true);
    compare(&x, "out", x.count[OUT], x.array[OUT], expected.value[OUT], size.value[OUT]);
    bo_attention_inputs query_only = {.q = in.q};
    memset(x.array[OUT], 0, x.count[OUT] * sizeof(float));
    assert_ok(context, bo_attention_step(context, attention, 21, &query_only, states, x.array[OUT]));
    compare(&x, "answer", x.count[OUT], x.array[OUT], expected.value[OUT], size.value[OUT]);
    read_states(context, &x, attention, states, x.s1);
    compare(&x, "state", 21 * x.state, x.s1, expected.s1, size.s1);
    drop_truth(&expected), drop_truth(&size);
    bo_attention_destroy(attention);
    drop(&x);
    bo_context_destroy(context);
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    static const size_t lengths[] = {90, 0, 1, 33, 150, 7, 64};
    static const int threads[] = {1, 2, 5};
    data x[3];
    for (size_t i = 0; i < 3; i++) {
        model m = {.desc = {.heads = 6, .key_heads = 3, .dim = 20, .value_dim = 33},
                   .shape = {.sequences = 7, .lengths = lengths},
                   .gates = CLOSED,
                   .states = true,
                   .dout = true};
        bo_context *context = test_context(threads[i]);
        x[i] = make_data(&m);
        run(context, &x[i]);
        bo_context_destroy(context);
        for (int a = 0; a < ARRAYS; a++) {
            assert_memory_equal(x[i].array[a], x[0].array[a], x[0].count[a] * sizeof(float));
            assert_memory_equal(x[i].gradient[a], x[0].gradient[a], x[0].count[a] * sizeof(float));
        }
        assert_memory_equal(x[i].s1, x[0].s1, 7 * x[0].state * sizeof(float));
        assert_memory_equal(x[i].ds0, x[0].ds0, 7 * x[0].state * sizeof(float));
    }
    for (size_t i = 0; i < 3; i++) drop(&x[i]);
}

/* Changing a token t, including its gates, changes no bit of earlier outputs. */
static void later_tokens_change_no_bit(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t n = 0; n < 4; n++) {
        model m = {.desc = {.heads = 1, .dim = 20, .value_dim = 9, .chunk = n % 2 ? 48 : 0},
                   .shape = {.sequences = 1, .tokens = 70},
                   .gates = n < 2 ? EXTREME : MILD,
                   .seed = n};
        data x = make_data(&m), second = make_data(&m);
        model another = m;
        another.seed = 99;
        another.gates = EXTREME;
        data noise = make_data(&another);
        run(context, &x);
        for (size_t t = 70; t-- > 0;) {
            for (int a = 0; a < OUT; a++) {
                size_t width = x.count[a] / 70;
                memcpy(second.array[a] + t * width, noise.array[a] + t * width, width * sizeof(float));
            }
            run(context, &second);
            assert_memory_equal(second.array[OUT], x.array[OUT], t * 9 * sizeof(float));
            assert_memory_not_equal(second.array[OUT] + t * 9, x.array[OUT] + t * 9, 9 * sizeof(float));
        }
        drop(&x), drop(&second), drop(&noise);
    }
    bo_context_destroy(context);
}

/* Gates so close to 1 that the rounding of each matters: 4096 tokens with log g = -1e-6, and weights still accurate to
 * 1e-5. */
static void gates_near_one(void **state)
{
    (void)state;
    enum { TOKENS = 4096 };
    bo_context *context = test_context(1);
    bo_attention_desc desc = {
        .kind = BO_ATTENTION_GLA, .heads = 1, .dim = 1, .value_dim = 1, .causal = true, .scale = 1};
    bo_attention_shape shape = {.sequences = 1, .tokens = TOKENS};
    float *k = calloc(TOKENS, sizeof *k), *gate = malloc(TOKENS * sizeof *gate), *out = malloc(TOKENS * sizeof *out);
    float *one = malloc(TOKENS * sizeof *one);
    for (size_t t = 0; t < TOKENS; t++) gate[t] = -1.03e-6f, one[t] = 1;
    k[0] = 1;
    bo_attention *attention;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    bo_attention_inputs in = {.q = one, .k = k, .v = one, .log_gate = gate};
    assert_ok(context, bo_attention_forward_arrays(context, attention, &shape, &in, NULL, NULL, out, NULL));
    /* 256 blocks, each with one rounded product of gates and one rounding of the state: 256 · 2^-24 = 1.5e-5 */
    for (size_t t = 0; t < TOKENS; t++) assert_close(out[t], exp((double)gate[1] * (double)t), 1.6e-5);
    bo_attention_destroy(attention);
    free(k), free(gate), free(out), free(one);
    bo_context_destroy(context);
}

/* NaN and infinity, invalid gates, and finite numbers that overflow float32. */
static void bad_numbers(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    model m = {.desc = {.heads = 2, .dim = 4, .value_dim = 3}, .shape = {.sequences = 1, .tokens = 30}};
    data x = make_data(&m);
    const bo_attention_shape *shape = &x.model.shape;
    bo_attention *attention;
    assert_ok(context, bo_attention_create(context, &x.model.desc, &attention));
    bo_attention_inputs in = inputs_of(&x);
    float *out = x.array[OUT];
    for (int a = 0; a < OUT; a++) {
        float was = x.array[a][77];
        x.array[a][77] = a % 2 ? NAN : INFINITY;
        assert_fails(context, BO_NUMERIC, names[a],
                     bo_attention_forward_arrays(context, attention, shape, &in, NULL, NULL, out, NULL));
        x.array[a][77] = was;
    }
    x.array[GATE][77] = 0.1f;
    assert_fails(context, BO_INVALID, "log_gate",
                 bo_attention_forward_arrays(context, attention, shape, &in, NULL, NULL, out, NULL));
    x.array[GATE][77] = -0.1f;
    for (size_t i = 0; i < 4; i++) x.array[K][76 + i] = 3e38f;
    for (size_t i = 0; i < 3; i++) x.array[V][57 + i] = 1e30f;
    assert_fails(context, BO_NUMERIC, "overflowed float32",
                 bo_attention_forward_arrays(context, attention, shape, &in, NULL, NULL, out, NULL));
    bo_attention_destroy(attention);
    drop(&x);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_the_recurrence),
        cmocka_unit_test(sizes_gates_and_chunks),
        cmocka_unit_test(groups_layouts_and_packing),
        cmocka_unit_test(states_are_read),
        cmocka_unit_test(splits_and_steps),
        cmocka_unit_test(steps_of_many_sequences),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(later_tokens_change_no_bit),
        cmocka_unit_test(gates_near_one),
        cmocka_unit_test(bad_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
