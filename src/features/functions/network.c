/* Random networks of finite width: the features of nngp and ntk.
 *
 * The network has L hidden layers of widths n_1 … n_L. With φ⁰ = [σ_b, σ_w t] and random matrices W whose columns have
 * the covariance I,
 *   u^l = φ^{l-1} W_l,   φ^l = [σ_b, σ_w act(u^l)/√n_l],   s^l = σ_w act'(u^l),
 * E[φ^l(x)·φ^l(y)] tends to Σ^l as the widths of the layers below l grow, and equals it for l = 1. nngp: φ = φ^L.
 *
 * ntk: since Θ^L = Σ^L + Σ_l σ_w²F'_l Σ^{l-1} Π_{p>l} σ_w²F'_p, φ has L + 1 blocks of about the same length. The first
 * is φ^L, the gradient of the output weights. Feature k of block l is an entry of the gradient of W_l, from input j to
 * unit i:
 *   z_k = c_j s^l_i φ^{l-1}_j Π_{p>l} v^p_k,   v^p_k = Σ_i G^p_{ik} s^p_i / √n_p,
 * where v, with standard normal G, is the derivative that layer p passes back, and c_j² divides by the share of the
 * inputs that the block contains. Initial output weights are 1 or -1. Any φ with E[φ·φ] = Θ could replace it; this one
 * has entries of gradients, which optimizers that treat each weight separately (Adam) depend on. */
#ifdef REAL

static REAL R(activate)(const bo_features *f, REAL u)
{
    return f->desc.activation == BO_HIDDEN_ERF ? erf(u) : u < 0 ? 0 : u; /* NaN stays NaN */
}

static REAL R(slope)(const bo_features *f, REAL u)
{
    const REAL two_by_root_pi = (REAL)1.12837916709551257390;
    return f->desc.activation == BO_HIDDEN_ERF ? two_by_root_pi * exp(-u * u) : u > 0 ? 1 : 0;
}

static REAL R(curvature)(const bo_features *f, REAL u)
{
    return f->desc.activation == BO_HIDDEN_ERF ? -2 * u * R(slope)(f, u) : 0;
}

/* The vectors of a group of rows; each has one row per input row, with a length that depends on the vector. */
typedef struct R(vectors) {
    REAL *phi[BO_DEEPEST + 1]; /* φ^l */
    REAL *u[BO_DEEPEST + 1], *s[BO_DEEPEST + 1];
    REAL *v; /* v^p of one block, for p = 1 … L one after the other */
} R(vectors);

static REAL *R(carve)(const network_shape *n, REAL *workspace, R(vectors) * out)
{
    for (size_t l = 0; l <= n->layers; l++) {
        out->phi[l] = workspace;
        out->u[l] = workspace += GROUP * (n->bias + n->width[l]);
        out->s[l] = workspace += l ? GROUP * n->width[l] : 0;
        workspace += l ? GROUP * n->width[l] : 0;
    }
    out->v = workspace;
    return workspace + GROUP * (n->layers + 1) * n->longest;
}

/* Computes φ^0 … φ^L, u and s. */
static void R(layers)(const bo_features *f, size_t rows, const REAL *t, R(vectors) * x)
{
    const network_shape *n = &f->network->shape;
    const REAL bias = (REAL)sqrt(f->desc.bias_variance), weight = (REAL)sqrt(f->desc.weight_variance);
    for (size_t r = 0; r < rows; r++) {
        REAL *phi = x->phi[0] + r * (n->bias + n->width[0]);
        if (n->bias) *phi++ = bias;
        for (size_t j = 0; j < n->width[0]; j++) phi[j] = weight * t[r * n->width[0] + j];
    }
    for (size_t l = 1; l <= n->layers; l++) {
        size_t inputs = n->bias + n->width[l - 1], width = n->width[l];
        const REAL scale = weight / (REAL)sqrt((double)width);
        R(times)(f, rows, width, inputs, x->phi[l - 1], f->network->g + n->weights[l], x->u[l]);
        for (size_t r = 0; r < rows; r++) {
            const REAL *u = x->u[l] + r * width;
            REAL *phi = x->phi[l] + r * (n->bias + width), *s = x->s[l] + r * width;
            if (n->bias) *phi++ = bias;
            for (size_t i = 0; i < width; i++) {
                phi[i] = scale * R(activate)(f, u[i]);
                s[i] = weight * R(slope)(f, u[i]);
            }
        }
    }
}

/* Computes v^p of block l for p > l. */
static void R(passed_back)(const bo_features *f, size_t rows, size_t l, R(vectors) * x)
{
    const network_shape *n = &f->network->shape;
    for (size_t p = l + 1; p <= n->layers; p++) {
        REAL *v = x->v + p * GROUP * n->longest;
        const REAL scale = (REAL)(1 / sqrt((double)n->width[p]));
        R(times)(f, rows, n->block[l], n->width[p], x->s[p], f->network->g + n->mixes[l][p], v);
        for (size_t k = 0; k < rows * n->block[l]; k++) v[k] *= scale;
    }
}

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    const network_shape *n = &f->network->shape;
    R(vectors) x;
    R(carve)(n, scratch, &x);
    (void)u;
    for (size_t first = 0; first < rows; first += GROUP) {
        size_t count = rows - first < GROUP ? rows - first : GROUP, top = n->bias + n->width[n->layers];
        R(layers)(f, count, t + first * n->width[0], &x);
        for (size_t r = 0; r < count; r++)
            memcpy(z + (first + r) * ldz, x.phi[n->layers] + r * top, top * sizeof(REAL));
        for (size_t l = 1; l <= n->layers && n->block[l]; l++) {
            const entry *entries = f->network->entries + n->first[l];
            R(passed_back)(f, count, l, &x);
            for (size_t r = 0; r < count; r++) {
                const REAL *phi = x.phi[l - 1] + r * (n->bias + n->width[l - 1]), *s = x.s[l] + r * n->width[l];
                REAL *out = z + (first + r) * ldz + n->first[l];
                for (size_t k = 0; k < n->block[l]; k++)
                    out[k] = (REAL)entries[k].scale * s[entries[k].unit] * phi[entries[k].input];
                for (size_t p = l + 1; p <= n->layers; p++) {
                    const REAL *v = x.v + p * GROUP * n->longest + r * n->block[l];
                    for (size_t k = 0; k < n->block[l]; k++) out[k] *= v[k];
                }
            }
        }
    }
}

/* Adds the gradient of W a of one row to da, for da of `inputs` numbers and dc of `outputs`. */
static void R(turned)(size_t inputs, size_t outputs, const float *w, REAL scale, const REAL *dc, REAL *da)
{
    for (size_t j = 0; j < inputs; j++) {
        REAL sum = 0;
        for (size_t i = 0; i < outputs; i++) sum += (REAL)w[j * outputs + i] * dc[i];
        da[j] += scale * sum;
    }
}

/* Adds the gradients of the factors of block l of row r to the gradients of φ and s. */
static void R(block_back)(const bo_features *f, size_t l, size_t r, const REAL *dz, const R(vectors) * x,
                          R(vectors) * d)
{
    const network_shape *n = &f->network->shape;
    const entry *entries = f->network->entries + n->first[l];
    size_t size = n->block[l], line = n->bias + n->width[l - 1];
    const REAL *phi = x->phi[l - 1] + r * line, *s = x->s[l] + r * n->width[l];
    REAL *dphi = d->phi[l - 1] + r * line, *ds = d->s[l] + r * n->width[l];
    for (size_t k = 0; k < size; k++) {
        const entry e = entries[k];
        const REAL factor = (REAL)e.scale * s[e.unit] * phi[e.input];
        REAL product = 1;
        for (size_t p = l + 1; p <= n->layers; p++) {
            REAL other_factors = 1;
            for (size_t q = l + 1; q <= n->layers; q++)
                if (q != p) other_factors *= x->v[q * GROUP * n->longest + r * size + k];
            d->v[p * GROUP * n->longest + k] = dz[k] * factor * other_factors;
            product *= x->v[p * GROUP * n->longest + r * size + k];
        }
        dphi[e.input] += dz[k] * product * (REAL)e.scale * s[e.unit];
        ds[e.unit] += dz[k] * product * (REAL)e.scale * phi[e.input];
    }
    for (size_t p = l + 1; p <= n->layers; p++)
        R(turned)(n->width[p], size, f->network->g + n->mixes[l][p], (REAL)(1 / sqrt((double)n->width[p])),
                  d->v + p * GROUP * n->longest, d->s[p] + r * n->width[p]);
}

/* Computes the gradient of t from the gradients of φ^L, …, φ^0 and of s. */
static void R(layers_back)(const bo_features *f, size_t r, const R(vectors) * x, R(vectors) * d, REAL *dt)
{
    const network_shape *n = &f->network->shape;
    const REAL weight = (REAL)sqrt(f->desc.weight_variance);
    for (size_t l = n->layers; l > 0; l--) {
        size_t width = n->width[l], inputs = n->bias + n->width[l - 1];
        const REAL *u = x->u[l] + r * width, scale = weight / (REAL)sqrt((double)width);
        const REAL *dphi = d->phi[l] + r * (n->bias + width) + n->bias, *ds = d->s[l] + r * width;
        REAL *du = d->u[l] + r * width;
        for (size_t i = 0; i < width; i++)
            du[i] = scale * R(slope)(f, u[i]) * dphi[i] + weight * R(curvature)(f, u[i]) * ds[i];
        R(turned)(inputs, width, f->network->g + n->weights[l], 1, du, d->phi[l - 1] + r * inputs);
    }
    const REAL *dphi = d->phi[0] + r * (n->bias + n->width[0]) + n->bias;
    for (size_t j = 0; j < n->width[0]; j++) dt[j] += weight * dphi[j];
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    const network_shape *n = &f->network->shape;
    R(vectors) x, d;
    REAL *gradients = R(carve)(n, scratch, &x), *end = R(carve)(n, gradients, &d);
    (void)u, (void)du;
    for (size_t first = 0; first < rows; first += GROUP) {
        size_t count = rows - first < GROUP ? rows - first : GROUP, top = n->bias + n->width[n->layers];
        R(layers)(f, count, t + first * n->width[0], &x);
        memset(gradients, 0, (size_t)(end - gradients) * sizeof(REAL));
        for (size_t r = 0; r < count; r++)
            memcpy(d.phi[n->layers] + r * top, dz + (first + r) * lddz, top * sizeof(REAL));
        for (size_t l = 1; l <= n->layers && n->block[l]; l++) {
            R(passed_back)(f, count, l, &x);
            for (size_t r = 0; r < count; r++) R(block_back)(f, l, r, dz + (first + r) * lddz + n->first[l], &x, &d);
        }
        for (size_t r = 0; r < count; r++) R(layers_back)(f, r, &x, &d, dt + (first + r) * n->width[0]);
    }
}

#else
#include <math.h>
#include <string.h>
#include "../enums.h"
#include "common.h"

enum { GROUP = BO_SIZE(16, 2) }; /* rows per group: a matrix is read once for all of them */

/* Widths, lengths and places of a network. Blocks are empty for nngp. */
typedef struct network_shape {
    size_t layers, bias;                          /* bias: 1 if σ_b > 0, otherwise 0 */
    size_t width[BO_DEEPEST + 1];                 /* width[0] is dim */
    size_t block[BO_DEEPEST + 1];                 /* length of block l >= 1 */
    size_t first[BO_DEEPEST + 1];                 /* its first feature */
    size_t longest;                               /* the longest block */
    size_t weights[BO_DEEPEST + 1];               /* W_l: inputs x outputs */
    size_t mixes[BO_DEEPEST + 1][BO_DEEPEST + 1]; /* mixes[l][p], G^p of block l: width[p] x block[l] */
    size_t count;                                 /* all floats of the matrices */
} network_shape;

typedef struct entry {
    uint32_t unit, input; /* of W_l; input counts the bias */
    float scale;          /* c_j */
} entry;

struct bo_random_network {
    network_shape shape;
    float *g;
    entry *entries; /* one per feature; the entries of the first block are not used */
};

/* C = A B; B is k x n. */
static void times_f32(const bo_features *f, size_t rows, size_t n, size_t k, const float *a, const float *b, float *c)
{
    f->kernels->multiply(rows, n, k, a, k, 1, b, n, false, c, n);
}

static void times_f64(const bo_features *f, size_t rows, size_t n, size_t k, const double *a, const float *b, double *c)
{
    (void)f;
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < n; j++) c[i * n + j] = 0;
        for (size_t p = 0; p < k; p++)
            for (size_t j = 0; j < n; j++) c[i * n + j] += a[i * k + p] * (double)b[p * n + j];
    }
}

#define BO_TEMPLATE "functions/network.c"
#include "../both_precisions.h"

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* Layers below the last have half as many units as there are features, so that their error decreases like the error of
 * the features. */
static network_shape shape_of(const bo_features_desc *desc)
{
    size_t layers = (size_t)desc->depth, bias = desc->bias_variance > 0,
           blocks = desc->kernel == BO_KERNEL_NTK ? layers : 0;
    size_t rest = desc->features > bias ? desc->features - bias : 1;
    network_shape n = {.layers = layers, .bias = bias};
    n.width[0] = desc->dim;
    for (size_t l = 1; l < layers; l++) n.width[l] = (desc->features + 1) / 2;
    n.width[layers] = rest - rest * blocks / (blocks + 1);
    size_t place = bias + n.width[layers], done = 0, left = rest - n.width[layers];
    for (size_t l = 1; l <= blocks; l++) {
        n.block[l] = left * l / blocks - done;
        n.first[l] = place + done;
        done += n.block[l];
        if (n.block[l] > n.longest) n.longest = n.block[l];
    }
    for (size_t l = 1; l <= layers; l++) {
        n.weights[l] = n.count;
        n.count += (bias + n.width[l - 1]) * n.width[l];
    }
    for (size_t l = 1; l <= blocks; l++)
        for (size_t p = l + 1; p <= layers; p++) {
            n.mixes[l][p] = n.count;
            n.count += n.width[p] * n.block[l];
        }
    return n;
}

size_t bo_random_network_count(const bo_features_desc *desc)
{
    return shape_of(desc).count;
}

size_t bo_random_network_bytes(const bo_features_desc *desc)
{
    return sizeof(bo_random_network) + shape_of(desc).count * sizeof(float) + desc->features * sizeof(entry);
}

static bo_status check(bo_context *context, bo_features_desc *desc)
{
    enum { MAX_FEATURES = 1 << 16 };
    size_t bias = desc->bias_variance > 0, min_features = bias + 1;
    if (desc->kernel == BO_KERNEL_NTK) min_features = bias + ((size_t)desc->depth + 1) * (bias + 1);
    if (desc->features && desc->features < min_features)
        return bo_fail(context, BO_INVALID,
                       "function network needs at least %zu features for kernel %s of depth %d, found %zu",
                       min_features, bo_kernel_name(desc->kernel), desc->depth, desc->features);
    if (desc->features > MAX_FEATURES)
        return bo_fail(context, BO_INVALID, "function network supports at most %d features, found %zu",
                       (int)MAX_FEATURES, desc->features);
    return BO_OK;
}

static size_t scratch(const bo_features *f)
{
    const network_shape *n = &f->network->shape;
    size_t line = (n->layers + 1) * n->longest;
    for (size_t l = 0; l <= n->layers; l++) line += n->bias + (l ? 3 : 1) * n->width[l];
    return 2 * GROUP * line * sizeof(double);
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

void bo_random_network_destroy(bo_random_network *network)
{
    if (!network) return;
    bo_free(network->g);
    bo_free(network->entries);
    bo_free(network);
}

bo_status bo_random_network_create(bo_context *context, const bo_features_desc *desc, bo_random_network **out)
{
    *out = NULL;
    bo_random_network *network = bo_alloc(context, 1, sizeof *network, "a random network");
    if (!network) return BO_MEMORY;
    network->shape = shape_of(desc);
    network->g = bo_alloc_raw(context, network->shape.count, sizeof(float), "a random network");
    network->entries = bo_alloc(context, desc->features, sizeof(entry), "a random network");
    if (!network->g || !network->entries) {
        bo_random_network_destroy(network);
        return BO_MEMORY;
    }
    *out = network;
    return BO_OK;
}

float *bo_random_network_matrices(bo_random_network *network)
{
    return network->g;
}

/* Chooses the entries of the gradient of W_l: the bias gets its share σ_b²/(σ_b² + σ_w²) of the block, and the
 * remaining entries cycle through the inputs in the order of the permutation. */
static void choose_entries(const bo_features *f, size_t l, const size_t *order, entry *out)
{
    const network_shape *n = &f->network->shape;
    const bo_features_desc *desc = &f->desc;
    size_t block = n->block[l], inputs = n->width[l - 1], biases = 0;
    const size_t share =
        desc->activation == BO_HIDDEN_RELU ? 2 : 1; /* entries per turn: pairs of units have the same input */
    if (n->bias) {
        double part = desc->bias_variance / (desc->bias_variance + desc->weight_variance);
        biases = (size_t)(part * (double)block) / 2 * 2;
        biases = biases < 1 ? 1 : biases > block - 1 ? block - 1 : biases;
    }
    size_t input_entries = block - biases;
    for (size_t k = 0; k < block; k++) {
        size_t turn = (k - biases) / share % inputs, round = share * inputs; /* of an input */
        size_t last = input_entries % round > share * turn ? input_entries % round - share * turn : 0;
        size_t same = input_entries / round * share + (last < share ? last : share);
        out[k].unit = (uint32_t)(k % n->width[l]);
        out[k].input = k < biases ? 0 : (uint32_t)(n->bias + order[turn]);
        double square = k < biases                       ? 1 / (double)biases
                        : input_entries < share * inputs ? (double)inputs / (double)input_entries
                                                         : 1 / (double)same;
        out[k].scale = (float)sqrt(square);
    }
}

bo_status bo_random_network_finish(bo_context *context, bo_features *f)
{
    const network_shape *n = &f->network->shape;
    size_t max_width = n->width[0];
    for (size_t l = 1; l < n->layers; l++) max_width = n->width[l] > max_width ? n->width[l] : max_width;
    size_t *order = bo_alloc_raw(context, max_width, sizeof *order, "a random network");
    if (!order) return BO_MEMORY;
    for (size_t l = 1; l <= n->layers && n->block[l]; l++) {
        bo_rng rng = bo_rng_make(f->desc.seed, bo_rng_stream("features.network.entries", l));
        bo_rng_permutation(&rng, n->width[l - 1], order);
        choose_entries(f, l, order, f->network->entries + n->first[l]);
    }
    bo_free(order);
    return BO_OK;
}

/* Draws W_l: orthogonal columns, in blocks. The columns of a ReLU layer come in pairs w, -w of norm √inputs: relu(u)
 * relu(v) + relu(-u) relu(-v) = (uv + |uv|)/2, whose first term orthogonal columns sum exactly, and the norm does not
 * matter for the mean, because relu is homogeneous. */
static bo_status draw_weights(bo_context *context, bo_features *f, size_t l)
{
    const network_shape *n = &f->network->shape;
    const bool paired = f->desc.activation == BO_HIDDEN_RELU;
    size_t inputs = n->bias + n->width[l - 1], width = n->width[l], count = paired ? (width + 1) / 2 : width;
    float *w = bo_alloc_raw(context, count * inputs, sizeof *w, "a random network"),
          *out = f->network->g + n->weights[l];
    if (!w) return BO_MEMORY;
    bo_rng rng = bo_rng_make(f->desc.seed, bo_rng_stream("features.network.layer", l));
    const bo_draw_request request = {
        .desc = &f->desc, .spectrum = &bo_spectrum_unit, .dim = inputs, .count = count, .seed = bo_rng_bits(&rng)};
    bo_status status = bo_draw_orthogonal.draw(context, &request, w);
    for (size_t i = 0; status == BO_OK && i < width; i++) {
        const float *from = w + (paired ? i / 2 : i) * inputs;
        double norm = 0, scale = 1;
        for (size_t j = 0; paired && j < inputs; j++) norm += (double)from[j] * (double)from[j];
        if (paired) scale = (i % 2 ? -1 : 1) * sqrt((double)inputs / norm);
        for (size_t j = 0; j < inputs; j++) out[j * width + i] = (float)(scale * (double)from[j]);
    }
    bo_free(w);
    return status;
}

static bo_status prepare(bo_context *context, bo_features *f)
{
    BO_TRY(bo_random_network_create(context, &f->desc, &f->network));
    const network_shape *n = &f->network->shape;
    for (size_t l = 1; l <= n->layers; l++) BO_TRY(draw_weights(context, f, l));
    size_t drawn = n->weights[n->layers] + (n->bias + n->width[n->layers - 1]) * n->width[n->layers];
    bo_rng rng = bo_rng_make(f->desc.seed, bo_rng_stream("features.network", 0));
    for (size_t i = drawn; i < n->count; i++) f->network->g[i] = (float)bo_rng_normal(&rng);
    return BO_OK;
}

const bo_function_definition bo_function_network = {
    .name = "network",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_NNGP) | BO_KERNEL_BIT(BO_KERNEL_NTK),
    .check = check,
    .prepare = prepare,
    .scratch = scratch,
    .forward_f32 = forward_f32,
    .forward_f64 = forward_f64,
    .backward_f32 = backward_f32,
    .backward_f64 = backward_f64,
};
#endif
