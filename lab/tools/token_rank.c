#include "token_rank.h"
#include "numbers.h"
#include <math.h>
#include <string.h>

enum { WIDTH = LAB_TOKEN_WIDTH, SPARE = 4 };

/* ---- the network as a function of sums --------------------------------------------------------------------------- */

lab_sums lab_sums_of(const uint32_t *x, size_t tokens, size_t width)
{
    lab_sums sums = {{0}, {0}};
    for (size_t t = 0; t < tokens; t++, x += width)
        for (size_t a = 0; a < width; a++) {
            sums.s[a] = lab_mod_add(sums.s[a], x[a]);
            for (size_t b = 0; b < width; b++)
                sums.g[a * width + b] = lab_mod_add(sums.g[a * width + b], lab_mod_multiply(x[a], x[b]));
        }
    return sums;
}

/* y (rows x columns) = a (rows x n) b (n x columns) */
static void multiply(size_t rows, size_t n, size_t columns, const uint32_t *a, const uint32_t *b, uint32_t *y)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            uint64_t sum = 0;
            for (size_t i = 0; i < n; i++) sum += lab_mod_fold((uint64_t)a[r * n + i] * b[i * columns + c]);
            y[r * columns + c] = lab_mod_reduce(sum);
        }
}

/* y = a bᵀ */
static void multiply_transposed(size_t rows, size_t n, const uint32_t *a, const uint32_t *b, uint32_t *y)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < n; c++) {
            uint64_t sum = 0;
            for (size_t i = 0; i < n; i++) sum += lab_mod_fold((uint64_t)a[r * n + i] * b[c * n + i]);
            y[r * n + c] = lab_mod_reduce(sum);
        }
}

/* `rows` rows times the matrix of a layer that maps the inputs x to its outputs, where its own inputs are T x: with the
 * gate diag(W T s) in front for even degrees, W₁ T for degree 2 and W_v (T G Tᵀ) W_kᵀ W_q T otherwise. */
static void apply_layer(const lab_polynomial_desc *desc, const uint32_t *w, const uint32_t *t, const lab_sums *sums,
                        size_t rows, const uint32_t *front, uint32_t *out)
{
    const size_t n = desc->width, size = n * n;
    uint32_t a[WIDTH * WIDTH], b[WIDTH * WIDTH], inputs[WIDTH], gate[WIDTH];
    memcpy(a, front, rows * n * sizeof *a);
    if (desc->degree != 3) {
        multiply(n, n, 1, t, sums->s, inputs);
        multiply(n, n, 1, w + (desc->degree - 1) * size, inputs, gate);
        for (size_t i = 0; i < rows * n; i++) a[i] = lab_mod_multiply(a[i], gate[i % n]);
    }
    if (desc->degree > 2) {
        multiply(rows, n, n, a, w + 2 * size, b); /* W_v */
        multiply(rows, n, n, b, t, a);
        multiply(rows, n, n, a, sums->g, b);
        multiply_transposed(rows, n, b, t, a);
        multiply_transposed(rows, n, a, w + size, b); /* W_kᵀ */
        memcpy(a, b, rows * n * sizeof *a);
    }
    multiply(rows, n, n, a, w, b); /* W₁, W_q */
    multiply(rows, n, n, b, t, out);
}

uint32_t lab_token_output(const lab_polynomial *net, const lab_sums *sums, const uint32_t *last)
{
    const lab_polynomial_desc *desc = lab_polynomial_about(net);
    const size_t n = desc->width, step = desc->degree * n * n;
    const uint32_t *w = lab_polynomial_weights(net), *form = w + desc->layers * step;
    uint32_t t[WIDTH * WIDTH] = {0}, identity[WIDTH * WIDTH] = {0}, next[WIDTH * WIDTH], out;
    for (size_t i = 0; i < n; i++) t[i * n + i] = identity[i * n + i] = 1;
    for (size_t l = 0; l + 1 < desc->layers; l++, w += step) {
        apply_layer(desc, w, t, sums, n, identity, next);
        memcpy(t, next, n * n * sizeof *t);
    }
    if (desc->layers)
        apply_layer(desc, w, t, sums, 1, form, next); /* of the last layer, one row is enough */
    else
        memcpy(next, form, n * sizeof *next);
    multiply(1, n, 1, next, last, &out);
    return out;
}

/* ---- bounds of the ranks of the parts ---------------------------------------------------------------------------- */

/* T has degree `s` in the sum and `g` in the second moments; the output has degree s + 2 g + 1 = d^L in the tokens. A
 * part of degree k in A is measured for every k that is a multiple of `step`. */
typedef struct degrees {
    size_t s, g, step, parts;
} degrees;

static degrees degrees_of(const lab_polynomial_desc *desc)
{
    degrees d = {0, 0, desc->degree == 3 ? 2 : 1, 0};
    for (size_t l = 0; l < desc->layers; l++) {
        d.s = desc->degree * d.s + (desc->degree != 3);
        d.g = desc->degree * d.g + (desc->degree > 2);
    }
    d.parts = (d.s + 2 * d.g) / d.step + 1;
    return d;
}

static double monomials(size_t degree, size_t variables)
{
    return lab_choose(degree + variables - 1, variables - 1);
}

static double pairs_of_monomials(const lab_polynomial_desc *desc, size_t s, size_t g)
{
    const size_t n = desc->width;
    return monomials(s, n) * monomials(g, n * (n + 1) / 2);
}

/* The sums of A in degree k, by their degrees in s and G, are combined with those of B and the last token. Neither half
 * has more functions than monomials in its tokens. */
static double part_bound(const lab_polynomial_desc *desc, const degrees *d, size_t part)
{
    const size_t k = part * d->step, numbers = desc->tokens / 2 * desc->width, all = d->s + 2 * d->g + 1;
    double sums = 0;
    for (size_t g = k > d->s ? (k - d->s + 1) / 2 : 0; g <= d->g && 2 * g <= k; g++) {
        const size_t s = k - 2 * g;
        sums +=
            fmin(pairs_of_monomials(desc, s, g), (double)desc->width * pairs_of_monomials(desc, d->s - s, d->g - g));
    }
    return fmin(sums, fmin(monomials(k, numbers), monomials(all - k, numbers)));
}

double lab_token_max_rank(const lab_polynomial_desc *desc)
{
    const degrees d = degrees_of(desc);
    double max_rank = 0;
    for (size_t part = 0; part < d.parts; part++) max_rank += part_bound(desc, &d, part);
    return max_rank;
}

/* ---- interpolation ----------------------------------------------------------------------------------------------- */

/* Row k of `out` (count x count) gives the coefficient of uᵏ from the values at u = 1 … count: the coefficients of the
 * Lagrange polynomials. `scratch`: count + 1 residues. */
static void interpolation(size_t count, uint32_t *scratch, uint32_t *out)
{
    memset(scratch, 0, (count + 1) * sizeof *scratch); /* Π (u − m) */
    scratch[0] = 1;
    for (size_t m = 1; m <= count; m++)
        for (size_t i = m + 1; i-- > 0;)
            scratch[i] = lab_mod_add(lab_mod_multiply(scratch[i], LAB_PRIME - (uint32_t)m), i ? scratch[i - 1] : 0);
    for (size_t j = 1; j <= count; j++) { /* divided by (u − j), and by its value at j */
        uint32_t quotient = 0, value = 0;
        for (size_t i = count; i-- > 0;) {
            quotient = lab_mod_add(scratch[i + 1], lab_mod_multiply(quotient, (uint32_t)j));
            out[i * count + j - 1] = quotient;
            value = lab_mod_add(lab_mod_multiply(value, (uint32_t)j), quotient);
        }
        const uint32_t inverse = lab_mod_inverse(value);
        for (size_t i = 0; i < count; i++) out[i * count + j - 1] = lab_mod_multiply(out[i * count + j - 1], inverse);
    }
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

typedef struct parts {
    const lab_polynomial *net;
    degrees d;
    size_t settings; /* of the largest part */
    size_t *sizes;   /* one per part: rows and columns */
    uint32_t **matrices;
    uint32_t *points;           /* settings x tokens of B */
    lab_sums *left, *right;     /* one per setting */
    uint32_t *values, *weights; /* parts; parts x parts */
} parts;

static void close_parts(parts *p)
{
    for (size_t k = 0; p->matrices && k < p->d.parts; k++) bo_free(p->matrices[k]);
    bo_free(p->matrices);
    bo_free(p->sizes);
    bo_free(p->points);
    bo_free(p->left);
    bo_free(p->right);
    bo_free(p->values);
    bo_free(p->weights);
}

static bo_status open_matrices(bo_context *context, parts *p)
{
    p->sizes = bo_alloc(context, p->d.parts, sizeof *p->sizes, "the parts of a polynomial");
    p->matrices = bo_alloc(context, p->d.parts, sizeof *p->matrices, "the parts of a polynomial");
    if (!p->sizes || !p->matrices) return BO_MEMORY;
    for (size_t k = 0; k < p->d.parts; k++) {
        const size_t size = (size_t)part_bound(lab_polynomial_about(p->net), &p->d, k) + SPARE;
        p->sizes[k] = size;
        if (size > p->settings) p->settings = size;
        p->matrices[k] = bo_alloc_raw(context, size * size, sizeof **p->matrices, "a part of a polynomial");
        if (!p->matrices[k]) return BO_MEMORY;
    }
    return BO_OK;
}

static bo_status open_parts(bo_context *context, parts *p)
{
    const lab_polynomial_desc *desc = lab_polynomial_about(p->net);
    BO_TRY(open_matrices(context, p));
    p->points = bo_alloc_raw(context, p->settings * desc->inputs, sizeof *p->points, "settings of a matricization");
    p->left = bo_alloc_raw(context, p->settings, sizeof *p->left, "settings of a matricization");
    p->right = bo_alloc_raw(context, p->settings, sizeof *p->right, "settings of a matricization");
    p->values = bo_alloc_raw(context, p->d.parts + 1, sizeof *p->values, "values of a polynomial");
    p->weights = bo_alloc_raw(context, p->d.parts * p->d.parts, sizeof *p->weights, "weights of an interpolation");
    if (!p->points || !p->left || !p->right || !p->values || !p->weights) return BO_MEMORY;
    interpolation(p->d.parts, p->values, p->weights);
    return BO_OK;
}

static void draw_settings(parts *p, bo_rng *rng)
{
    const lab_polynomial_desc *desc = lab_polynomial_about(p->net);
    const size_t half = desc->inputs / 2;
    for (size_t i = 0; i < p->settings; i++) {
        uint32_t *x = p->points + i * desc->inputs;
        for (size_t c = 0; c < desc->inputs; c++) x[c] = lab_mod_random(rng);
        p->left[i] = lab_sums_of(x, desc->tokens / 2, desc->width);
        p->right[i] = lab_sums_of(x + half, desc->tokens / 2, desc->width);
    }
}

/* The sums with the tokens of A multiplied by t; u = t for steps of 1 and t² for steps of 2, where s is not used. */
static lab_sums scaled(const parts *p, const lab_sums *left, const lab_sums *right, uint32_t u)
{
    const size_t n = lab_polynomial_about(p->net)->width;
    const uint32_t square = p->d.step == 2 ? u : lab_mod_multiply(u, u);
    lab_sums sums;
    for (size_t i = 0; i < n; i++) sums.s[i] = lab_mod_add(lab_mod_multiply(left->s[i], u), right->s[i]);
    for (size_t i = 0; i < n * n; i++) sums.g[i] = lab_mod_add(lab_mod_multiply(left->g[i], square), right->g[i]);
    return sums;
}

static void fill_entry(parts *p, size_t i, size_t j)
{
    const lab_polynomial_desc *desc = lab_polynomial_about(p->net);
    const size_t count = p->d.parts, larger = i > j ? i : j;
    const uint32_t *last = p->points + (j + 1) * desc->inputs - desc->width;
    for (size_t u = 0; u < count; u++) {
        const lab_sums sums = scaled(p, &p->left[i], &p->right[j], (uint32_t)u + 1);
        p->values[u] = lab_token_output(p->net, &sums, last);
    }
    for (size_t k = 0; k < count; k++) {
        if (larger >= p->sizes[k]) continue;
        uint64_t sum = 0;
        for (size_t u = 0; u < count; u++) sum += lab_mod_fold((uint64_t)p->weights[k * count + u] * p->values[u]);
        p->matrices[k][i * p->sizes[k] + j] = lab_mod_reduce(sum);
    }
}

static bo_status sum_ranks(bo_context *context, parts *p, size_t *rank)
{
    for (size_t i = 0; i < p->settings; i++) {
        BO_TRY(bo_progress(context, "separation rank", (double)i, (double)p->settings));
        for (size_t j = 0; j < p->settings; j++) fill_entry(p, i, j);
    }
    for (size_t k = 0; k < p->d.parts; k++) {
        BO_TRY(bo_progress(context, "separation rank", (double)p->settings, (double)p->settings));
        *rank += lab_mod_rank(p->matrices[k], p->sizes[k], p->sizes[k]);
    }
    return BO_OK;
}

bo_status lab_token_rank(bo_context *context, const lab_polynomial *net, bo_rng *rng, lab_token_ranks *out)
{
    const lab_polynomial_desc *desc = lab_polynomial_about(net);
    parts p = {.net = net, .d = degrees_of(desc)};
    *out = (lab_token_ranks){0};
    if (desc->width > WIDTH || desc->tokens < 2 || desc->tokens % 2)
        return bo_fail(context, BO_INVALID, "token network: unsupported width %zu or number of tokens %zu", desc->width,
                       desc->tokens);
    out->max_rank = lab_token_max_rank(desc);
    bo_status status = open_parts(context, &p);
    if (status == BO_OK) {
        draw_settings(&p, rng);
        status = sum_ranks(context, &p, &out->rank);
    }
    close_parts(&p);
    return status;
}
