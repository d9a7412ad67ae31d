/* Gate FIXED: one decay for all tokens of a key head. Compared with the direct sum in float64, and with gate DECAY with
 * the same number for every token, which has separate tests. */
#include "direct.h"

static double inner(size_t width, const double *x, const double *y, double *size)
{
    double sum = 0;
    *size = 0;
    for (size_t j = 0; j < width; j++) sum += x[j] * y[j], *size += fabs(x[j] * y[j]);
    *size /= sqrt((double)width);
    return sum / sqrt((double)width);
}

static double elu(double x)
{
    return x > 0 ? x + 1 : exp(x);
}

static double elus(size_t width, const double *x, const double *y, double *size)
{
    double sum = 0;
    for (size_t j = 0; j < width; j++) sum += elu(x[j]) * elu(y[j]);
    return *size = sum;
}

static bo_attention_desc retention(size_t dim, size_t value_dim, size_t chunk)
{
    bo_attention_desc desc = {
        .heads = 4, .key_heads = 2, .dim = dim, .value_dim = value_dim, .causal = true, .chunk = chunk};
    assert_true(bo_attention_preset("retention", &desc));
    return desc;
}

static void check(direct *d, size_t terms)
{
    direct_run(d);
    direct_check_outputs(d, d->out, terms);
    direct_check_gradients(d, 4);
    if (d->shape.sequences > 1) return;
    direct_check_pieces(d, terms);
    direct_check_causal(d);
}

/* Mild decays, no decay, a decay that forgets within a few tokens, and combinations. */
static void agrees_with_the_sum(void **state)
{
    (void)state;
    const double decays[][2] = {{-0.03, -0.2}, {0, -0.7}, {-3, -40}, {-1e-6, -2000}};
    const size_t tokens[] = {1, 15, 37, 70}, chunks[] = {0, 7, 32};
    for (size_t i = 0; i < 4; i++)
        for (size_t c = 0; c < 3; c++) {
            bo_attention_shape shape = {.sequences = 1, .tokens = tokens[i], .layout = BO_LAYOUT_TOKENS_FIRST};
            direct d = direct_make(1, retention(5 + 3 * c, 3 + 8 * c, chunks[c]), shape, inner);
            direct_decays(&d, decays[(i + c) % 4]);
            check(&d, tokens[i] + 20);
            direct_free(&d);
        }
}

/* log(1 - 2^-(5 + h)), h modulo 8. */
static void decays_have_defaults(void **state)
{
    (void)state;
    bo_attention_desc desc = retention(6, 5, 0);
    desc.heads = desc.key_heads = 10;
    double default_decay[10];
    for (int h = 0; h < 10; h++) default_decay[h] = log(1 - pow(2, -5 - h % 8));
    direct d = direct_make(2, desc, (bo_attention_shape){.sequences = 2, .tokens = 41}, inner);
    direct_assume(&d, DECAY, 10, default_decay);
    check(&d, 61);
    direct_free(&d);
}

static void divides_if_requested(void **state)
{
    (void)state;
    bo_attention_desc desc = retention(9, 4, 0);
    desc.normalizer = BO_NORMALIZER_SUM;
    desc.features = (bo_features_desc){.kernel = BO_KERNEL_ELU};
    for (size_t i = 0; i < 2; i++) {
        bo_attention_shape shape = {.sequences = 1 + i, .tokens = 53, .layout = BO_LAYOUT_TOKENS_FIRST};
        direct d = direct_make(1, desc, shape, elus);
        direct_decays(&d, (double[]){-0.05, -1.3});
        check(&d, 80);
        direct_free(&d);
    }
}

/* ---- the same as gate DECAY -------------------------------------------------------------------------------------- */

enum { TOKENS = 45, HEADS = 4, KEY_HEADS = 2, DIM = 6, SEQUENCES = 2 };

typedef struct pass {
    float out[SEQUENCES * TOKENS * HEADS * DIM], dq[SEQUENCES * TOKENS * HEADS * DIM];
    float dgate[SEQUENCES * TOKENS * KEY_HEADS], ddecay[KEY_HEADS];
} pass;

static pass *run(bo_attention_desc desc, bo_gate gate, int threads)
{
    static float q[SEQUENCES * TOKENS * HEADS * DIM], k[SEQUENCES * TOKENS * KEY_HEADS * DIM], v[sizeof k / sizeof *k],
        gates[SEQUENCES * TOKENS * KEY_HEADS], decay[KEY_HEADS] = {-0.11f, -0.9f};
    bo_rng rng = bo_rng_make(5, bo_rng_stream("test.retention", 0));
    for (size_t i = 0; i < sizeof q / sizeof *q; i++) q[i] = (float)bo_rng_normal(&rng);
    for (size_t i = 0; i < sizeof k / sizeof *k; i++)
        k[i] = (float)bo_rng_normal(&rng), v[i] = (float)bo_rng_normal(&rng);
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++) gates[i] = decay[i / TOKENS % KEY_HEADS];
    bo_context *context = test_context(threads);
    bo_attention *attention;
    desc.gate = gate;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    bo_attention_shape shape = {.sequences = SEQUENCES, .tokens = TOKENS};
    bool fixed = gate == BO_GATE_FIXED;
    bo_attention_inputs in = {
        .q = q, .k = k, .v = v, .log_gate = fixed ? NULL : gates, .log_decay = fixed ? decay : NULL};
    pass *p = calloc(1, sizeof *p);
    bo_attention_gradients g = {.q = p->dq, .log_gate = fixed ? NULL : p->dgate, .log_decay = fixed ? p->ddecay : NULL};
    size_t bytes;
    assert_ok(context, bo_attention_tape_bytes(context, attention, &shape, &bytes));
    void *tape = malloc(bytes);
    assert_ok(context, bo_attention_forward_arrays(context, attention, &shape, &in, NULL, NULL, p->out, tape));
    assert_ok(context, bo_attention_backward_arrays(context, attention, &shape, &in, NULL, p->out, tape, q, NULL, &g));
    free(tape);
    bo_attention_destroy(attention);
    bo_context_destroy(context);
    return p;
}

/* Equal up to rounding; the gradient of the decay is the sum of those of the gates, and the number of threads does not
 * matter. */
static void is_one_gate_for_all_tokens(void **state)
{
    (void)state;
    const bo_attention_desc all = {.heads = HEADS, .key_heads = KEY_HEADS, .dim = DIM, .causal = true};
    bo_attention_desc descs[] = {all, all, all, all, all};
    descs[0].kind = BO_ATTENTION_FAVOR;
    descs[1].kind = BO_ATTENTION_RFA;
    descs[2].kind = BO_ATTENTION_DARK;
    descs[3].kind = BO_ATTENTION_LEARNED;
    descs[4].kind = BO_ATTENTION_LINEAR;
    descs[4].features.kernel = BO_KERNEL_TAYLOR;
    for (size_t i = 0; i < 3; i++) descs[i].features = (bo_features_desc){.features = 14, .seed = 3};
    for (size_t i = 0; i < 5; i++) {
        pass *fixed = run(descs[i], BO_GATE_FIXED, 1), *decay = run(descs[i], BO_GATE_DECAY, 1);
        for (size_t j = 0; j < sizeof fixed->out / sizeof(float); j++) {
            assert_close((double)fixed->out[j], (double)decay->out[j], 1e-5 * (1 + fabs((double)decay->out[j])));
            assert_close((double)fixed->dq[j], (double)decay->dq[j], 1e-4 * (1 + fabs((double)decay->dq[j])));
        }
        for (size_t g = 0; g < KEY_HEADS; g++) {
            double sum = 0, size = 0;
            for (size_t s = 0; s < SEQUENCES; s++)
                for (size_t t = 0; t < TOKENS; t++) {
                    double one = (double)decay->dgate[(s * KEY_HEADS + g) * TOKENS + t];
                    sum += one, size += fabs(one);
                }
            assert_close((double)fixed->ddecay[g], sum, 1e-5 * size);
        }
        for (int threads = 2; threads <= 5; threads += 3) {
            pass *more = run(descs[i], BO_GATE_FIXED, threads);
            assert_memory_equal(more, fixed, sizeof *more);
            free(more);
        }
        free(fixed), free(decay);
    }
}

static void refuses_invalid_decays(void **state)
{
    (void)state;
    direct d = direct_make(1, retention(4, 4, 0), (bo_attention_shape){.sequences = 1, .tokens = 3}, inner);
    bo_attention_inputs in = direct_inputs(&d, 0);
    float above[] = {-0.1f, 0.1f}, none[] = {-0.1f, NAN};
    in.log_decay = above;
    assert_fails(d.context, BO_INVALID, "log_decay[1]",
                 bo_attention_forward_arrays(d.context, d.attention, &d.shape, &in, NULL, NULL, d.out, NULL));
    in.log_decay = none;
    assert_fails(d.context, BO_NUMERIC, "log_decay[1]",
                 bo_attention_forward_arrays(d.context, d.attention, &d.shape, &in, NULL, NULL, d.out, NULL));
    direct_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_sum),    cmocka_unit_test(decays_have_defaults),
        cmocka_unit_test(divides_if_requested),   cmocka_unit_test(is_one_gate_for_all_tokens),
        cmocka_unit_test(refuses_invalid_decays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
