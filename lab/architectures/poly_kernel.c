/* poly-kernel: polynomial kernels as exact inner products of finitely many features. */
#include "../experiment.h"
#include <bochner/attention.h>
#include <math.h>
#include <stdio.h>

static const bo_lab_claim claims[] = {
    {.name = "exact",
     .statement = "φ(x)·φ(y) equals (1 + x·y)ᵖ with C(d + p, p) features, and 1 + s + s²/2 for s = x·y with 1 + d + "
                  "d(d + 1)/2 features, exactly for all x and y.",
     .number = "largest |φ(x)·φ(y) - k| / |φ(x)||φ(y)| in float64; 1 if the number of features differs",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-13,
     .passage = LAB_NOTES "lines 733-737: \"sim(q, k) = (qᵀk + 1)² = φ(q)ᵀφ(k)\", \"φ(x) = [1, √2x_1, …, x_1², …, "
                          "√2x_1x_2, …]\"; we add other degrees"},
    {.name = "homogeneous",
     .statement = "The C(d + p - 1, p) features of degree p alone (d(d + 1)/2 for p = 2) give (x·y)ᵖ.",
     .number = "largest |difference| / (|x||y|)ᵖ in float64",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-13},
    {.name = "attention",
     .statement = "Linear attention with φ, computed from a state of fixed size, equals attention with the kernel "
                  "over all keys.",
     .number = "largest |difference of outputs| / |output|, float32 compared with float64",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-4,
     .passage = LAB_NOTES "line 741: \"V'_i = […] = φ(q_i) Σ φ(k_j)ᵀ V_j / φ(q_i) Σ φ(k_j)ᵀ\""},
    {.name = "sketch-rate",
     .statement = "The squared error of a tensor sketch with R features falls as 1/R.",
     .number = "exponent of the mean squared error as a power of R, degree 2",
     .rule = BO_LAB_BETWEEN,
     .bound = -1.1,
     .upper = -0.9,
     .source = "Pham and Pagh, Fast and scalable polynomial kernels via explicit feature maps, 2013"},
    {.name = "sketch-variance",
     .statement = "The error of a tensor sketch is that predicted from the hash collisions.",
     .number = "measured divided by predicted squared error, mean over R, degree 2",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.9,
     .upper = 1.1,
     .source = "Pham and Pagh 2013; the variance is derived in src/features/functions/tensorsketch.c"},
    {.name = "dimensions",
     .statement = "At given norms, the error of the sketch does not depend on d, whereas the number of exact features "
                  "grows as dᵖ.",
     .number = "root mean square error of 256 features of degree 4 at d = 64 divided by that at d = 8",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.8,
     .upper = 1.25},
    {.name = "sign",
     .statement =
         "A tensor sketch may give negative weights, which attention cannot use; the self-tensored sketch never does.",
     .number = "largest -φ(x)·φ(y) / |φ(x)||φ(y)| of the self-tensored sketch of degree 4, float32",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-6,
     .source = "PolySketchFormer, arXiv 2310.01655"},
};

static const bo_lab_table tables[] = {
    {.name = "memory",
     .title = "Size of the state of one head with values of dimension d",
     .rows = "d",
     .values = "bytes",
     .log_x = true,
     .log_y = true},
    {.name = "sketch",
     .title = "Error of sketches of (1 + x·y)ᵖ, unit vectors of dimension 16",
     .rows = "R, number of features",
     .values = "mean squared error",
     .log_x = true,
     .log_y = true,
     .theory = "degree 2, predicted"},
    {.name = "exactness",
     .title = "Rounding error of exact features",
     .rows = "map",
     .values = "largest |φ(x)·φ(y) - k| / |φ(x)||φ(y)|",
     .plot = BO_LAB_BARS,
     .log_y = true},
    {.name = "negative",
     .title = "Fraction of negative weights of a sketch of degree 4",
     .rows = "R, number of features",
     .values = "fraction of pairs",
     .log_x = true},
};

enum { DIM = 16, ROWS = 48 };

/* 1 + s + s²/2 if degree is 0. */
static double kernel_of(int degree, double s)
{
    return degree ? pow(1 + s, degree) : 1 + s + s * s / 2;
}

/* Draws `count` rows of length 1. */
static void unit_rows(bo_rng *rng, size_t count, size_t dim, float *out)
{
    lab_fill_normal(rng, 1, count * dim, out);
    for (size_t r = 0; r < count; r++) {
        double norm = 0;
        for (size_t i = 0; i < dim; i++) norm += (double)out[r * dim + i] * (double)out[r * dim + i];
        for (size_t i = 0; i < dim; i++) out[r * dim + i] /= (float)sqrt(norm);
    }
}

static bo_features_desc exact_map(int degree, size_t dim)
{
    return (bo_features_desc){.kernel = degree ? BO_KERNEL_POLYNOMIAL : BO_KERNEL_TAYLOR, .degree = degree, .dim = dim};
}

/* ---- exactness --------------------------------------------------------------------------------------------------- */

/* Rows in float32 and float64, with the features of both. */
typedef struct rounding {
    const float *x;
    double *wide; /* ROWS x DIM */
    float *z;
    double *z_wide; /* ROWS x features */
    size_t features;
} rounding;

/* Over all features, or only those of the highest degree, which come last. */
static double largest_error(const rounding *r, int degree, bool top, bool wide)
{
    const size_t n = r->features, first = top ? n - (size_t)lab_choose(DIM + (size_t)degree - 1, (size_t)degree) : 0;
    double max = 0;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < ROWS; j++) {
            const double s = lab_dot(r->wide + i * DIM, r->wide + j * DIM, DIM);
            double estimate = 0, xx = 0, yy = 0;
            for (size_t f = first; f < n; f++) {
                const double a = wide ? r->z_wide[i * n + f] : (double)r->z[i * n + f];
                const double b = wide ? r->z_wide[j * n + f] : (double)r->z[j * n + f];
                estimate += a * b;
                xx += a * a;
                yy += b * b;
            }
            max = fmax(max, fabs(estimate - (top ? pow(s, degree) : kernel_of(degree, s))) / sqrt(xx * yy));
        }
    return max;
}

static bo_status fill_features(bo_context *context, const bo_features *map, rounding *r)
{
    r->z = bo_alloc_raw(context, ROWS * r->features, sizeof *r->z, "features");
    r->z_wide = bo_alloc_raw(context, ROWS * r->features, sizeof *r->z_wide, "features");
    if (!r->z || !r->z_wide) return BO_MEMORY;
    BO_TRY(bo_features_apply(context, map, &(bo_inputs){.rows = ROWS, .x = r->x}, r->z, r->features));
    return bo_features_apply_f64(context, map, ROWS, r->wide, DIM, r->z_wide, r->features);
}

static bo_status measure_map(lab_run *run, int degree, const float *x, double *wide, double *worst, double *worst_top)
{
    bo_context *context = lab_context(run);
    const bo_features_desc desc = exact_map(degree, DIM);
    const double expected = degree ? lab_choose(DIM + (size_t)degree, (size_t)degree) : 1 + DIM + DIM * (DIM + 1) / 2.0;
    char name[32];
    bo_features *map;
    snprintf(name, sizeof name, degree ? "degree %d" : "Taylor", degree);
    BO_TRY(bo_features_create(context, &desc, &map));
    rounding r = {.x = x, .wide = wide, .features = bo_features_describe(map)->features};
    bo_status status = fill_features(context, map, &r);
    if (status == BO_OK) {
        const double error = largest_error(&r, degree, false, true);
        *worst = fmax(*worst, fabs((double)r.features - expected) < 0.5 ? error : 1);
        if (degree) *worst_top = fmax(*worst_top, largest_error(&r, degree, true, true));
        lab_cell(run, "exactness", name, "float64", error);
        lab_cell(run, "exactness", name, "float32", largest_error(&r, degree, false, false));
    }
    bo_free(r.z);
    bo_free(r.z_wide);
    bo_features_destroy(map);
    return status;
}

static bo_status measure_exactness(lab_run *run, bo_rng *rng)
{
    static const int degrees[] = {2, 3, 4, 0};
    float x[ROWS * DIM];
    double wide[ROWS * DIM], worst = 0, worst_top = 0;
    lab_fill_normal(rng, 1, ROWS * DIM, x);
    for (size_t i = 0; i < ROWS * DIM; i++) wide[i] = (double)x[i];
    for (size_t i = 0; i < LAB_COUNT_OF(degrees); i++)
        BO_TRY(measure_map(run, degrees[i], x, wide, &worst, &worst_top));
    lab_claim(run, "exact", worst);
    lab_claim(run, "homogeneous", worst_top);
    return lab_progress(run, 0.2);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

enum { HEAD = 8, TOKENS = 128 };

static bo_attention_desc attention_of(int degree, size_t dim)
{
    bo_attention_desc desc = {.heads = 1, .dim = dim, .causal = true, .scale = 1};
    bo_attention_preset(degree ? "poly" : "taylor", &desc);
    desc.features.degree = degree;
    return desc;
}

/* Row t of causal attention with the kernel, in float64. */
static void by_kernel(int degree, size_t t, const float *q, const float *k, const float *v, double out[HEAD])
{
    double total = 0;
    for (size_t c = 0; c < HEAD; c++) out[c] = 0;
    for (size_t j = 0; j <= t; j++) {
        double s = 0;
        for (size_t i = 0; i < HEAD; i++) s += (double)q[t * HEAD + i] * (double)k[j * HEAD + i];
        const double weight = kernel_of(degree, s);
        total += weight;
        for (size_t c = 0; c < HEAD; c++) out[c] += weight * (double)v[j * HEAD + c];
    }
    for (size_t c = 0; c < HEAD; c++) out[c] /= total;
}

static bo_status compare_attention(lab_run *run, int degree, const float *q, const float *k, const float *v,
                                   double *worst)
{
    bo_context *context = lab_context(run);
    const bo_attention_desc desc = attention_of(degree, HEAD);
    float out[TOKENS * HEAD];
    bo_attention *attention;
    BO_TRY(bo_attention_create(context, &desc, &attention));
    const bo_attention_call call = {.sequences = 1, .tokens = TOKENS, .q = {q}, .k = {k}, .v = {v}, .out = {out}};
    bo_status status = bo_attention_forward(context, attention, &call);
    for (size_t t = 0; status == BO_OK && t < TOKENS; t++) {
        double truth[HEAD], apart = 0;
        by_kernel(degree, t, q, k, v, truth);
        for (size_t c = 0; c < HEAD; c++) apart += pow((double)out[t * HEAD + c] - truth[c], 2);
        *worst = fmax(*worst, sqrt(apart / lab_dot(truth, truth, HEAD)));
    }
    bo_attention_destroy(attention);
    return status;
}

static bo_status measure_attention(lab_run *run, bo_rng *rng)
{
    float q[TOKENS * HEAD], k[TOKENS * HEAD], v[TOKENS * HEAD];
    double worst = 0;
    unit_rows(rng, TOKENS, HEAD, q);
    unit_rows(rng, TOKENS, HEAD, k);
    lab_fill_normal(rng, 1, TOKENS * HEAD, v);
    for (int degree = 0; degree <= 4; degree += 2) BO_TRY(compare_attention(run, degree, q, k, v, &worst));
    lab_claim(run, "attention", worst);
    return BO_OK;
}

/* Records the sizes of the states of the library. States with more features than the limit are omitted. */
static bo_status measure_memory(lab_run *run)
{
    for (size_t dim = 8; dim <= 64; dim *= 2) {
        for (int degree = 2; degree <= 4; degree++) {
            if (lab_choose(dim + (size_t)degree, (size_t)degree) > 100000) continue;
            const bo_attention_desc desc = attention_of(degree, dim);
            char column[32];
            bo_attention *attention;
            snprintf(column, sizeof column, "degree %d", degree);
            BO_TRY(bo_attention_create(lab_context(run), &desc, &attention));
            lab_point(run, "memory", column, (double)dim, (double)bo_attention_state_bytes(attention));
            bo_attention_destroy(attention);
        }
        lab_point(run, "memory", "1,024 keys and values", (double)dim, 1024.0 * 2 * (double)dim * sizeof(float));
        lab_point(run, "memory", "sketch, 256 features", (double)dim, 256.0 * ((double)dim + 1) * sizeof(float));
    }
    return lab_progress(run, 0.4);
}

/* ---- sketches ---------------------------------------------------------------------------------------------------- */

typedef struct sketching {
    lab_run *run;
    size_t dim;
    float *x;
    double *kernel;
    float *estimate;
} sketching;

/* Products below 0: their fraction, apart from rounding, and the largest relative to |φ(x)||φ(y)|. */
typedef struct negatives {
    double share, max;
} negatives;

static const double rounding_error = 1e-6;

static negatives find_negative(const float *estimate)
{
    negatives found = {0, 0};
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < ROWS; j++) {
            const double norms = (double)estimate[i * ROWS + i] * (double)estimate[j * ROWS + j];
            const double below = -(double)estimate[i * ROWS + j] / sqrt(norms);
            found.max = fmax(found.max, below);
            found.share += (below > rounding_error) / (double)(ROWS * ROWS);
        }
    return found;
}

/* Returns the mean squared error over pairs of rows and draws. */
static bo_status sketch_error(sketching *s, bo_function function, int degree, size_t features, double *error,
                              negatives *below)
{
    const size_t draws = lab_size(s->run, 800, 60);
    bo_features_desc map = {
        .kernel = BO_KERNEL_POLYNOMIAL, .function = function, .degree = degree, .dim = s->dim, .features = features};
    *error = 0;
    *below = (negatives){0, 0};
    BO_TRY(bo_kernel_matrix(lab_context(s->run), &map, ROWS, s->x, s->dim, ROWS, s->x, s->dim, s->kernel, ROWS));
    for (size_t d = 0; d < draws; d++) {
        map.seed = lab_seed(s->run) << 32 | features << 12 | d;
        BO_TRY(lab_estimate_kernel(lab_context(s->run), &map, ROWS, s->x, s->estimate));
        *error += lab_squared_error(ROWS * ROWS, s->estimate, s->kernel) / (double)draws;
        const negatives found = find_negative(s->estimate);
        below->share += found.share / (double)draws;
        below->max = fmax(below->max, found.max);
    }
    return lab_progress(s->run, 0.7);
}

static bo_status predicted_error(sketching *s, size_t features, double *out)
{
    const bo_features_desc desc = {.kernel = BO_KERNEL_POLYNOMIAL,
                                   .function = BO_FUNCTION_TENSORSKETCH,
                                   .degree = 2,
                                   .dim = s->dim,
                                   .features = features};
    bo_features *map;
    BO_TRY(bo_features_create(lab_context(s->run), &desc, &map));
    *out = 0;
    for (size_t i = 0; i < ROWS * ROWS; i++)
        *out += bo_features_variance(map, s->x + i / ROWS * s->dim, s->x + i % ROWS * s->dim) / (ROWS * ROWS);
    bo_features_destroy(map);
    return BO_OK;
}

static bo_status measure_sizes(sketching *s)
{
    enum { SIZES = 5 };
    double sizes[SIZES], error[SIZES], predicted[SIZES], ratio[SIZES], other, max = 0;
    negatives negative;
    for (size_t i = 0; i < SIZES; i++) {
        static const size_t roots[SIZES] = {8, 11, 16, 23, 32}; /* self-tensored features come in numbers r(r + 1)/2 */
        const size_t features = roots[i] * (roots[i] + 1) / 2;
        sizes[i] = (double)features;
        BO_TRY(sketch_error(s, BO_FUNCTION_TENSORSKETCH, 2, features, &error[i], &negative));
        BO_TRY(predicted_error(s, features, &predicted[i]));
        ratio[i] = error[i] / predicted[i];
        lab_point(s->run, "sketch", "degree 2, tensor sketch", sizes[i], error[i]);
        lab_point(s->run, "sketch", "degree 2, predicted", sizes[i], predicted[i]);
        BO_TRY(sketch_error(s, BO_FUNCTION_TENSORSKETCH, 4, features, &other, &negative));
        lab_point(s->run, "sketch", "degree 4, tensor sketch", sizes[i], other);
        lab_point(s->run, "negative", "tensor sketch", sizes[i], negative.share);
        BO_TRY(sketch_error(s, BO_FUNCTION_SELFTENSOR, 4, features, &other, &negative));
        lab_point(s->run, "sketch", "degree 4, self-tensored", sizes[i], other);
        lab_point(s->run, "negative", "self-tensored", sizes[i], negative.share);
        max = fmax(max, negative.max);
    }
    lab_claim(s->run, "sketch-rate", lab_exponent(sizes, error, SIZES));
    lab_claim(s->run, "sketch-variance", lab_mean(ratio, SIZES));
    lab_claim(s->run, "sign", max);
    return BO_OK;
}

static bo_status measure_sketches(lab_run *run, bo_rng *rng)
{
    enum { MAX_DIM = 64, MIN_DIM = 8 };
    float x[ROWS * MAX_DIM];
    double kernel[ROWS * ROWS], small, large;
    negatives negative;
    float estimate[ROWS * ROWS];
    sketching s = {.run = run, .dim = DIM, .x = x, .kernel = kernel, .estimate = estimate};
    unit_rows(rng, ROWS, DIM, x);
    BO_TRY(measure_sizes(&s));
    s.dim = MIN_DIM;
    unit_rows(rng, ROWS, MIN_DIM, x);
    BO_TRY(sketch_error(&s, BO_FUNCTION_TENSORSKETCH, 4, 256, &small, &negative));
    s.dim = MAX_DIM;
    unit_rows(rng, ROWS, MAX_DIM, x);
    BO_TRY(sketch_error(&s, BO_FUNCTION_TENSORSKETCH, 4, 256, &large, &negative));
    lab_claim(run, "dimensions", sqrt(large / small));
    lab_note(run, "Degree 4 has %.0f exact features at d = 8 and %.0f at d = 64.", lab_choose(MIN_DIM + 4, 4),
             lab_choose(MAX_DIM + 4, 4));
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.poly-kernel");
    BO_TRY(measure_exactness(run, &rng));
    BO_TRY(measure_attention(run, &rng));
    BO_TRY(measure_memory(run));
    return measure_sketches(run, &rng);
}

const lab_experiment lab_poly_kernel = {
    {.name = "poly-kernel",
     .group = LAB_ARCHITECTURES,
     .title = "Polynomial kernels: exact features, memory, sketches",
     .claim = "A polynomial kernel is the inner product of its monomials. Attention with it has an exact state of "
              "fixed size, which grows as dᵖ. Sketches need less memory, and their error does not depend on d.",
     .source = "Based, arXiv 2402.18668; PolySketchFormer, arXiv 2310.01655; course notes, polynomial features",
     .method = "Exactness: all pairs of 48 normal rows of 16 columns, degrees 2 to 4 and the Taylor map, compared "
               "with the kernel in float64. Attention: 128 tokens, heads of dimension 8, unit queries and keys, "
               "degrees 2 and 4 and Taylor, compared with all pairs in float64. Memory: the size in bytes of the "
               "states of the library. Sketches: all pairs of 48 unit rows, mean over 800 draws, 36 to 528 features.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
