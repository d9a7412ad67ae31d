/* Learned maps: φ(W q + b)·φ(W' k + b') with φ = exp(±y), softmax(±y) or max(y, 0), compared with the direct sum in
 * float64; W and b are given for both sides, for one, or not at all. Also hybrid attention with such a map. */
#include "direct.h"

enum { DIM = 7, RANK = 5, KEY_HEADS = 2 };

static double cosh_kernel(size_t width, const double *x, const double *y, double *size)
{
    double sum = 0;
    for (size_t j = 0; j < width; j++) sum += 2 * cosh(x[j] + y[j]);
    return *size = sum;
}

static void softmax_both_ways(size_t width, const double *x, double *z)
{
    double sum = 0;
    for (size_t j = 0; j < width; j++) sum += 2 * cosh(x[j]);
    for (size_t j = 0; j < width; j++) z[j] = exp(x[j]) / sum, z[width + j] = exp(-x[j]) / sum;
}

static double hedgehog_kernel(size_t width, const double *x, const double *y, double *size)
{
    double a[2 * DIM], b[2 * DIM], sum = 0;
    softmax_both_ways(width, x, a);
    softmax_both_ways(width, y, b);
    for (size_t j = 0; j < 2 * width; j++) sum += a[j] * b[j];
    return *size = sum;
}

static double rectifier_kernel(size_t width, const double *x, const double *y, double *size)
{
    double sum = 0;
    for (size_t j = 0; j < width; j++) sum += fmax(x[j], 0) * fmax(y[j], 0);
    return *size = sum;
}

static const struct {
    bo_kernel kernel;
    direct_kernel direct;
} maps[] = {
    {BO_KERNEL_COSH, cosh_kernel}, {BO_KERNEL_HEDGEHOG, hedgehog_kernel}, {BO_KERNEL_RECTIFIER, rectifier_kernel}};

/* The bits of `which` select the given arrays: 1 W, 2 W', 4 b, 8 b'. The biases of the rectifier are raised, so that no
 * sum of weights is 0 and no difference crosses a kink. */
static direct make_direct(size_t map, unsigned which, int threads, bo_attention_shape shape, bo_attention_desc desc)
{
    desc.heads = 2 * KEY_HEADS;
    desc.key_heads = KEY_HEADS;
    desc.dim = DIM;
    desc.value_dim = 3;
    desc.features.kernel = maps[map].kernel;
    direct d = direct_make(threads, desc, shape, maps[map].direct);
    size_t width = direct_width(&d);
    if (which & 1) direct_fill(&d, M, KEY_HEADS * width * DIM, 0.4, 1);
    if (which & 2) direct_fill(&d, M_K, KEY_HEADS * width * DIM, 0.4, 1);
    if (which & 4) direct_fill(&d, BIAS, KEY_HEADS * width, 0.5, 1);
    if (which & 8) direct_fill(&d, BIAS_K, KEY_HEADS * width, 0.5, 1);
    for (int a = BIAS; a <= BIAS_K && maps[map].kernel == BO_KERNEL_RECTIFIER; a++)
        for (size_t i = 0; d.given[a] && i < d.count[a]; i++) d.x[a][i] = (double)(d.given[a][i] += 8);
    return d;
}

static void agrees_whatever_is_given(void **state)
{
    (void)state;
    for (size_t map = 0; map < 3; map++)
        for (unsigned which = 0; which < 16; which++) {
            bool lifted = (which & 4) != 0; /* for both sides then */
            if (maps[map].kernel == BO_KERNEL_RECTIFIER && !lifted) continue;
            bo_attention_desc desc = {
                .kind = BO_ATTENTION_LEARNED, .causal = which % 3 != 0, .rank = which % 2 ? RANK : 0};
            bo_attention_shape shape = {.sequences = 1, .tokens = 23 + which, .layout = BO_LAYOUT_TOKENS_FIRST};
            direct d = make_direct(map, which, 1, shape, desc);
            direct_run(&d);
            direct_check_outputs(&d, d.out, 4 * (shape.tokens + DIM + 2 * DIM));
            direct_check_gradients(&d, 30);
            if (desc.causal) direct_check_pieces(&d, 4 * (shape.tokens + DIM + 2 * DIM));
            if (desc.causal) direct_check_causal(&d);
            direct_free(&d);
        }
}

/* If an array is not given for the keys, it is shared: the gradient of m is then the sum of both. */
static void shares_missing_key_arrays(void **state)
{
    (void)state;
    bo_attention_desc desc = {.kind = BO_ATTENTION_LEARNED, .causal = true, .rank = RANK};
    bo_attention_shape shape = {.sequences = 2, .tokens = 19};
    direct once = make_direct(0, 5, 1, shape, desc), twice = make_direct(0, 15, 1, shape, desc);
    for (int a = 0; a < 2; a++) {
        size_t from = a ? BIAS : M, to = a ? BIAS_K : M_K;
        memcpy(twice.given[to], twice.given[from], twice.count[to] * sizeof(float));
    }
    direct_run(&once);
    direct_run(&twice);
    assert_memory_equal(once.out, twice.out, once.outputs * sizeof(float));
    for (int a = 0; a < 2; a++) {
        size_t from = a ? BIAS : M, to = a ? BIAS_K : M_K;
        for (size_t i = 0; i < once.count[from]; i++) {
            double both = (double)twice.gradient[from][i] + (double)twice.gradient[to][i];
            double size = fabs((double)twice.gradient[from][i]) + fabs((double)twice.gradient[to][i]);
            assert_close((double)once.gradient[from][i], both, 1e-4 * size + 1e-5);
        }
    }
    direct_free(&once);
    direct_free(&twice);
}

/* Arguments of thousands: exp(±y) is relative to its largest value, and softmax is bounded. */
static void stays_finite(void **state)
{
    (void)state;
    for (size_t map = 0; map < 2; map++) {
        bo_attention_desc desc = {.kind = BO_ATTENTION_LEARNED, .causal = true};
        direct d = make_direct(map, 1, 1, (bo_attention_shape){.sequences = 1, .tokens = 40}, desc);
        for (size_t i = 0; i < d.count[M]; i++) d.given[M][i] *= 1000;
        direct_run(&d);
        for (size_t i = 0; i < d.outputs; i++) assert_true(isfinite(d.out[i]));
        for (int a = 0; a < ARRAYS; a++)
            for (size_t i = 0; d.given[a] && i < d.count[a]; i++) assert_true(isfinite(d.gradient[a][i]));
        direct_free(&d);
    }
}

static void threads_change_nothing(void **state)
{
    (void)state;
    bo_attention_desc desc = {.kind = BO_ATTENTION_LEARNED, .causal = true, .rank = RANK, .chunk = 8};
    bo_attention_shape shape = {.sequences = 3, .tokens = 33};
    direct one = make_direct(1, 15, 1, shape, desc);
    direct_run(&one);
    for (int threads = 2; threads <= 5; threads += 3) {
        direct many = make_direct(1, 15, threads, shape, desc);
        direct_run(&many);
        assert_memory_equal(many.out, one.out, one.outputs * sizeof(float));
        for (int a = 0; a < ARRAYS; a++)
            if (one.given[a]) assert_memory_equal(many.gradient[a], one.gradient[a], one.count[a] * sizeof(float));
        direct_free(&many);
    }
    direct_free(&one);
}

/* ---- the hybrid -------------------------------------------------------------------------------------------------- */

enum { WINDOW = 4 };

/* exp(s q·k) for the latest keys, the learned map for earlier ones, with one denominator. */
static void hybrid_query(const direct *d, size_t h, size_t i, double *out)
{
    const bo_attention_desc *desc = &d->desc;
    size_t g = h / (desc->heads / desc->key_heads), width = direct_width(d);
    const double *q = d->x[Q] + direct_row(d, desc->heads, DIM, 0, h, i);
    double tq[DIM], tk[DIM], size, total = 0;
    direct_front(d, g, false, q, tq);
    memset(out, 0, desc->value_dim * sizeof *out);
    for (size_t j = 0; j <= i; j++) {
        const double *k = d->x[K] + direct_row(d, desc->key_heads, DIM, 0, g, j);
        const double *v = d->x[V] + direct_row(d, desc->key_heads, desc->value_dim, 0, g, j);
        double near = 0, weight;
        direct_front(d, g, true, k, tk);
        for (size_t c = 0; c < DIM; c++) near += q[c] * k[c];
        weight = j + WINDOW > i ? exp(desc->scale * near) : d->kernel(width, tq, tk, &size);
        total += weight;
        for (size_t c = 0; c < desc->value_dim; c++) out[c] += weight * v[c];
    }
    for (size_t c = 0; c < desc->value_dim; c++) out[c] /= total;
}

static double hybrid_loss(const direct *d)
{
    double loss = 0, out[16];
    for (size_t h = 0; h < d->desc.heads; h++)
        for (size_t i = 0; i < d->shape.tokens; i++) {
            hybrid_query(d, h, i, out);
            for (size_t c = 0; c < d->desc.value_dim; c++)
                loss += out[c] * (double)d->dout[direct_row(d, d->desc.heads, d->desc.value_dim, 0, h, i) + c];
        }
    return loss;
}

static void hybrid_has_learned_maps(void **state)
{
    (void)state;
    for (size_t map = 0; map < 2; map++) {
        bo_attention_desc desc = {.kind = BO_ATTENTION_HYBRID, .causal = true, .window = WINDOW, .rank = RANK};
        bo_attention_shape shape = {.sequences = 1, .tokens = 31, .layout = BO_LAYOUT_TOKENS_FIRST};
        direct d = make_direct(map, 15, 2, shape, desc);
        direct_run(&d);
        for (size_t h = 0; h < d.desc.heads; h++)
            for (size_t i = 0; i < shape.tokens; i++) {
                double out[16];
                hybrid_query(&d, h, i, out);
                for (size_t c = 0; c < d.desc.value_dim; c++)
                    assert_close((double)d.out[direct_row(&d, d.desc.heads, d.desc.value_dim, 0, h, i) + c], out[c],
                                 1e-5);
            }
        const int arrays[] = {Q, K, M, M_K, BIAS, BIAS_K};
        for (size_t n = 0; n < 6; n++) { /* one number of each array, by central differences */
            int a = arrays[n];
            size_t i = d.count[a] / 3;
            double slope = 0, at = d.x[a][i];
            for (int side = -1; side <= 1; side += 2) {
                d.x[a][i] = at + side * 1e-5;
                slope += side * hybrid_loss(&d) / 2e-5;
            }
            d.x[a][i] = at;
            assert_close((double)d.gradient[a][i], slope, 1e-4 * (1 + fabs(slope)));
        }
        direct_check_causal(&d);
        direct_free(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_whatever_is_given),
        cmocka_unit_test(shares_missing_key_arrays),
        cmocka_unit_test(stays_finite),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(hybrid_has_learned_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
