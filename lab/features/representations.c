#include "representations.h"
#include <math.h>

const char *const lab_representation_names[LAB_REPRESENTATIONS] = {"cosines with a phase", "cosines or sines",
                                                                   "positive", "positive, bounded", "products"};

/* ---- rows -------------------------------------------------------------------------------------------------------- */

bo_status lab_rows_create(bo_context *context, bo_rng *rng, size_t count, size_t dim, double min_norm, double max_norm,
                          lab_rows *out)
{
    *out = (lab_rows){.count = count, .dim = dim};
    out->x = bo_alloc_raw(context, count * dim, sizeof *out->x, "rows");
    out->diagonal = bo_alloc_raw(context, count, sizeof *out->diagonal, "rows");
    if (!out->x || !out->diagonal) return BO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        float *x = out->x + i * dim;
        double norm2 = 0;
        for (size_t j = 0; j < dim; j++) {
            x[j] = (float)(pow(0.8, (double)j) * bo_rng_normal(rng));
            norm2 += (double)x[j] * (double)x[j];
        }
        const double norm = min_norm + (max_norm - min_norm) * bo_rng_uniform(rng);
        for (size_t j = 0; j < dim; j++) x[j] *= (float)(norm / sqrt(norm2));
        out->diagonal[i] = exp(norm * norm);
    }
    return BO_OK;
}

void lab_rows_free(lab_rows *rows)
{
    bo_free(rows->x);
    bo_free(rows->diagonal);
}

double lab_rows_diagonal(const lab_rows *rows)
{
    double sum = 0;
    for (size_t i = 0; i < rows->count; i++) sum += rows->diagonal[i];
    return sum / (double)rows->count;
}

/* Picks a row with probability K(x, x) / Σ K(x, x). */
static size_t pick_row(const lab_rows *rows, bo_rng *rng)
{
    double left = bo_rng_uniform(rng) * lab_rows_diagonal(rows) * (double)rows->count;
    size_t i = 0;
    while (i + 1 < rows->count && left > rows->diagonal[i]) left -= rows->diagonal[i++];
    return i;
}

/* Multiplies f by √(p/ψ*), so that every feature has the energy K(x, x) / R over the rows. */
static void even_out(const lab_rows *rows, size_t features, float *z)
{
    const double target = lab_rows_diagonal(rows) / (double)features;
    for (size_t f = 0; f < features; f++) {
        double energy = 0;
        for (size_t i = 0; i < rows->count; i++)
            energy += (double)z[i * features + f] * (double)z[i * features + f] / (double)rows->count;
        for (size_t i = 0; i < rows->count; i++) z[i * features + f] *= (float)sqrt(target / energy);
    }
}

static bool is_cosine(lab_representation representation)
{
    return representation == LAB_COSINE || representation == LAB_SINE_COSINE;
}

static bo_features_desc map_of(lab_representation representation, const lab_rows *rows, size_t frequencies,
                               uint64_t seed)
{
    static const bo_function functions[] = {BO_FUNCTION_COSBIAS, BO_FUNCTION_SINCOS, BO_FUNCTION_POSITIVE,
                                            BO_FUNCTION_OPRF};
    bo_features_desc map = {.kernel = BO_KERNEL_SOFTMAX,
                            .function = functions[representation],
                            .draw = BO_DRAW_IID,
                            .dim = rows->dim,
                            .features = representation == LAB_SINE_COSINE ? 2 * frequencies : frequencies,
                            .seed = seed};
    if (is_cosine(representation)) { /* exp(x·y) = e^(|x|²/2) e^(-|x - y|²/2) e^(|y|²/2) */
        map.kernel = BO_KERNEL_RBF;
        map.gamma = 0.5;
    }
    if (representation == LAB_BOUNDED) {
        map.sample = rows->x;
        map.sample_rows = rows->count;
        map.sample_stride = rows->dim;
    }
    return map;
}

/* ---- cosines, selected from a pool ------------------------------------------------------------------------------- */

enum { POOL = 8 }; /* frequencies per feature; half are rejected on average */

/* Cosine features of the Gaussian kernel on the rows, each scaled by √(2/columns) as an independent feature. */
typedef struct pool {
    const lab_rows *rows;
    bool coin; /* each frequency has two columns, `frequencies` apart, of which one is used */
    size_t frequencies, columns;
    float *values; /* rows x columns */
} pool;

static bo_status fill_pool(bo_context *context, const bo_features_desc *desc, pool *p)
{
    bo_features *map;
    BO_TRY(bo_features_create(context, desc, &map));
    bo_status status =
        bo_features_apply(context, map, &(bo_inputs){.rows = p->rows->count, .x = p->rows->x}, p->values, p->columns);
    bo_features_destroy(map);
    return status;
}

/* Turns column c into one of `features` features of exp(x·y): multiplies it by e^(|x|²/2) and √(columns / features). */
static void copy_feature(const pool *p, size_t c, size_t features, float *z)
{
    for (size_t i = 0; i < p->rows->count; i++)
        z[i * features] =
            p->values[i * p->columns + c] * (float)sqrt(p->rows->diagonal[i] * (double)p->columns / (double)features);
}

/* Rejection sampling: cos² ≤ 1 is the acceptance probability. */
static bo_status choose(bo_context *context, const pool *p, bool optimal, size_t features, bo_rng *rng, float *z)
{
    size_t row = pick_row(p->rows, rng), count_taken = 0;
    for (size_t i = 0; i < p->frequencies && count_taken < features; i++) {
        const size_t c = i + (p->coin && bo_rng_uniform(rng) < 0.5 ? p->frequencies : 0);
        const double value = (double)p->values[row * p->columns + c];
        if (optimal && bo_rng_uniform(rng) > 0.5 * (double)p->columns * value * value) continue;
        copy_feature(p, c, features, z + count_taken++);
        row = pick_row(p->rows, rng);
    }
    if (count_taken == features) return BO_OK;
    return bo_fail(context, BO_NUMERIC, "a pool of %zu cosines yielded %zu features, expected %zu", p->frequencies,
                   count_taken, features);
}

static bo_status draw_cosines(bo_context *context, lab_representation representation, bool optimal,
                              const lab_rows *rows, size_t features, uint64_t seed, float *z)
{
    pool p = {.rows = rows, .coin = representation == LAB_SINE_COSINE};
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("lab.representations", 0));
    p.frequencies = optimal ? POOL * features : features;
    p.columns = p.coin ? 2 * p.frequencies : p.frequencies;
    const bo_features_desc desc = map_of(representation, rows, p.frequencies, seed);
    p.values = bo_alloc_raw(context, rows->count * p.columns, sizeof *p.values, "a pool of features");
    bo_status status = p.values ? fill_pool(context, &desc, &p) : BO_MEMORY;
    if (status == BO_OK) status = choose(context, &p, optimal, features, &rng, z);
    bo_free(p.values);
    return status;
}

/* ---- exponentials, sampled by a shift ---------------------------------------------------------------------------- */

/* p(w) f(x, w)² is a normal distribution with mean 2x/B and covariance I/B² (B = 1 for positive features, √(1 - 4A) for
 * bounded ones). */
static bo_status shift(bo_context *context, bo_features *map, const lab_rows *rows, bo_rng *rng)
{
    const size_t dim = rows->dim, count = bo_features_frequencies(map);
    float *w = bo_alloc_raw(context, count * dim, sizeof *w, "frequencies");
    bo_status status = w ? bo_features_get_frequencies(context, map, w) : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < count; i++) {
        const float *x = rows->x + pick_row(rows, rng) * dim;
        for (size_t j = 0; j < dim; j++) w[i * dim + j] = (w[i * dim + j] + 2 * x[j]) / (float)lab_argument_scale(map);
    }
    if (status == BO_OK) status = bo_features_set_frequencies(context, map, w);
    bo_free(w);
    return status;
}

static bo_status draw_exponentials(bo_context *context, lab_representation representation, bool optimal,
                                   const lab_rows *rows, size_t features, uint64_t seed, float *z)
{
    const bo_features_desc desc = map_of(representation, rows, features, seed);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("lab.representations", 0));
    bo_features *map;
    BO_TRY(bo_features_create(context, &desc, &map));
    bo_status status = optimal ? shift(context, map, rows, &rng) : BO_OK;
    if (status == BO_OK)
        status = bo_features_apply(context, map, &(bo_inputs){.rows = rows->count, .x = rows->x}, z, features);
    bo_features_destroy(map);
    return status;
}

/* ---- products, sampled term by term ------------------------------------------------------------------------------ */

/* Multiplies column z, whose rows are `features` apart, by r·x for every row x. r: dim signs, one bit each. */
static void multiply(const lab_rows *rows, uint64_t r, size_t features, float *z)
{
    for (size_t i = 0; i < rows->count; i++) {
        float sum = 0;
        for (size_t j = 0; j < rows->dim; j++)
            sum += r >> j & 1 ? rows->x[i * rows->dim + j] : -rows->x[i * rows->dim + j];
        z[i * features] *= sum;
    }
}

/* Draws signs with probability proportional to (r·x)² <= |x|₁². */
static uint64_t signs_for(const float *x, size_t dim, bo_rng *rng)
{
    double max_norm = 0;
    for (size_t j = 0; j < dim; j++) max_norm += fabs((double)x[j]);
    for (;;) {
        const uint64_t r = bo_rng_bits(rng);
        double sum = 0;
        for (size_t j = 0; j < dim; j++) sum += (double)(r >> j & 1 ? x[j] : -x[j]);
        if (bo_rng_uniform(rng) * max_norm * max_norm < sum * sum) return r;
    }
}

/* Draws from a Poisson distribution: p(n) E f(x)² = |x|²ⁿ / n! */
static size_t poisson(double mean, bo_rng *rng)
{
    const double limit = exp(-mean);
    size_t n = 0;
    for (double left = bo_rng_uniform(rng); left > limit; n++) left *= bo_rng_uniform(rng);
    return n;
}

static size_t geometric(bo_rng *rng)
{
    size_t n = 0;
    while (bo_rng_uniform(rng) < 0.5) n++;
    return n;
}

static void draw_product(const lab_rows *rows, bool optimal, size_t features, bo_rng *rng, float *z)
{
    const size_t row = pick_row(rows, rng), n = optimal ? poisson(log(rows->diagonal[row]), rng) : geometric(rng);
    const double n1 = (double)n + 1;
    for (size_t i = 0; i < rows->count; i++)
        z[i * features] = (float)exp(0.5 * (n1 * log(2) - lgamma(n1) - log((double)features)));
    for (size_t t = 0; t < n; t++)
        multiply(rows, optimal ? signs_for(rows->x + row * rows->dim, rows->dim, rng) : bo_rng_bits(rng), features, z);
}

static bo_status draw_products(bo_context *context, lab_representation representation, bool optimal,
                               const lab_rows *rows, size_t features, uint64_t seed, float *z)
{
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("lab.representations", 1));
    (void)context;
    (void)representation;
    for (size_t f = 0; f < features; f++) draw_product(rows, optimal, features, &rng, z + f);
    return BO_OK;
}

bo_status lab_draw_features(bo_context *context, lab_representation representation, bool optimal, const lab_rows *rows,
                            size_t features, uint64_t seed, float *z)
{
    bo_status (*const draw)(bo_context *, lab_representation, bool, const lab_rows *, size_t, uint64_t, float *) =
        is_cosine(representation)       ? draw_cosines
        : representation == LAB_PRODUCT ? draw_products
                                        : draw_exponentials;
    BO_TRY(draw(context, representation, optimal, rows, features, seed, z));
    if (optimal) even_out(rows, features, z);
    return BO_OK;
}
