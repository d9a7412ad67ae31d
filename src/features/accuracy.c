/* The accuracy report: the difference between φ(x)·φ(y) and k(x, y), measured and predicted. */
#include <math.h>
#include <string.h>
#include "enums.h"
#include "../io/sparse.h"
#include "inputs.h"
#include "internal.h"
#include "sparse.h"

/* Returns the variance for frequencies as drawn, from the kernel's spectrum or from a proposal. */
static double pair_variance(const bo_features *f, const bo_pair *pair, const float *x, const float *y)
{
    return f->proposal ? bo_proposal_variance(f, pair, x, y) : f->function->variance(f, pair);
}

/* The variance of resampled frequencies depends on the sample: there is no formula for a single pair. */
double bo_features_variance(const bo_features *features, const float *x, const float *y)
{
    if (!features || !x || !y) return NAN;
    if (features->function->exact) return 0;
    if (!features->function->variance || bo_features_resampled(features)) return NAN;
    bo_pair pair = bo_pair_make(&features->desc, features->factor, x, y);
    return pair_variance(features, &pair, x, y);
}

/* ---- over many pairs --------------------------------------------------------------------------------------------- */

enum { PAIRS = BO_SIZE(128, 4) }; /* pairs processed at a time */

typedef struct sums {
    double kernel2, error, error2, error_max, variance, diagonal, missing;
} sums;

typedef struct buffers {
    float *x, *z; /* 2 PAIRS rows: first x, then y of the pairs */
} buffers;

/* The rows to measure on: dense or sparse. */
typedef struct source {
    size_t rows;
    const float *x;
    size_t ldx;
    const bo_sparse *sparse;
} source;

static void copy_row(const source *from, size_t row, size_t dim, float *out)
{
    if (from->sparse)
        bo_sparse_expand(from->sparse, row, out);
    else
        memcpy(out, from->x + row * from->ldx, dim * sizeof(float));
}

/* Indices of `count` pairs: first all x, then, from PAIRS, all y. */
static void pick_pairs(bo_rng *rng, size_t rows, size_t count, size_t *index)
{
    for (size_t p = 0; p < count; p++) {
        size_t i = bo_rng_below(rng, rows), j = rows > 1 ? bo_rng_below(rng, rows - 1) : i;
        index[p] = i;
        index[PAIRS + p] = j + (rows > 1 && j >= i);
    }
}

/* Features of `count` rows; x holds them in dense form. */
static bo_status apply_rows(bo_context *context, const bo_features *f, const source *from, const size_t *index,
                            size_t count, float *x, float *z)
{
    size_t dim = f->desc.dim, length = f->desc.features;
    for (size_t p = 0; p < count; p++) copy_row(from, index[p], dim, x + p * dim);
    if (!from->sparse)
        return bo_features_apply(context, f, &(bo_inputs){.rows = count, .x = x, .stride = dim}, z, length);
    bo_sparse_block *block;
    BO_TRY(bo_sparse_gather(context, from->sparse, index, count, &block));
    bo_status status = bo_features_apply_sparse(context, f, &block->rows, z, length);
    bo_sparse_destroy(&block->rows);
    return status;
}

static void add_pair(const bo_features *f, const buffers *b, size_t p, sums *s)
{
    size_t dim = f->desc.dim, length = f->desc.features;
    const float *x = b->x + p * dim, *y = b->x + (PAIRS + p) * dim;
    const float *zx = b->z + p * length, *zy = b->z + (PAIRS + p) * length;
    bo_pair pair = bo_pair_make(&f->desc, f->factor, x, y), same = bo_pair_make(&f->desc, f->factor, x, x);
    double k = bo_kernel_value(&f->desc, &pair);
    double error = f->kernels->dot(length, zx, zy) - k;
    s->kernel2 += k * k;
    s->error += error;
    s->error2 += error * error;
    s->error_max = fmax(s->error_max, fabs(error));
    const double diagonal = bo_kernel_value(&f->desc, &same);
    s->diagonal += diagonal;
    s->missing += diagonal - f->kernels->dot(length, zx, zx);
    if (f->function->exact) return;
    s->variance += bo_features_resampled(f)
                       ? bo_features_choice_variance(f, zx, zy) + bo_features_candidate_variance(f, x, y)
                   : f->function->variance ? pair_variance(f, &pair, x, y)
                                           : NAN;
}

static bo_status add_pairs(bo_context *context, const bo_features *f, const source *from, size_t pairs, uint64_t seed,
                           const buffers *b, sums *s)
{
    size_t dim = f->desc.dim, length = f->desc.features;
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("features.pairs", 0));
    for (size_t done = 0; done < pairs; done += PAIRS) {
        size_t count = pairs - done < PAIRS ? pairs - done : PAIRS;
        size_t index[2 * PAIRS];
        pick_pairs(&rng, from->rows, count, index);
        BO_TRY(apply_rows(context, f, from, index, count, b->x, b->z));
        BO_TRY(apply_rows(context, f, from, index + PAIRS, count, b->x + PAIRS * dim, b->z + PAIRS * length));
        for (size_t p = 0; p < count; p++) add_pair(f, b, p, s);
        BO_TRY(bo_progress(context, "measuring the accuracy", (double)(done + count), (double)pairs));
    }
    return BO_OK;
}

static void conclude(const bo_features *f, const sums *s, size_t pairs, bo_features_accuracy *out)
{
    double n = (double)pairs;
    out->pairs = pairs;
    out->kernel_rms = sqrt(s->kernel2 / n);
    out->error_rms = sqrt(s->error2 / n);
    out->error_mean = s->error / n;
    out->error_max = s->error_max;
    out->trace_error = s->diagonal > 0 ? s->missing / s->diagonal : NAN;
    out->predicted_rms = sqrt(s->variance / n);
    out->ratio = f->function->exact ? NAN : out->error_rms / out->predicted_rms;
    double excess = out->predicted_rms / (0.01 * out->kernel_rms);
    out->features_for_1pct = (double)f->desc.features * (f->function->exact ? 1 : excess * excess);
}

static bo_status measure(bo_context *context, const bo_features *features, const source *from, size_t pairs,
                         uint64_t seed, bo_features_accuracy *out)
{
    if (bo_kernel_find(features->desc.kernel)->form == BO_FORM_NONE)
        return bo_fail(context, BO_UNSUPPORTED, "kernel %s has no closed form to compare the features with",
                       bo_kernel_name(features->desc.kernel));
    if (from->rows == 0) return bo_fail(context, BO_INVALID, "accuracy report: at least one row is required");
    size_t dim = features->desc.dim;
    if (pairs == 0) pairs = 1000;
    buffers b = {0};
    sums s = {0};
    b.x = bo_alloc_raw(context, 2 * PAIRS * dim, sizeof(float), "pairs of rows");
    b.z = bo_alloc_raw(context, 2 * PAIRS * features->desc.features, sizeof(float), "features of pairs");
    bo_status status = b.x && b.z ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = add_pairs(context, features, from, pairs, seed, &b, &s);
    if (status == BO_OK) conclude(features, &s, pairs, out);
    bo_free(b.x);
    bo_free(b.z);
    return status;
}

bo_status bo_features_measure(bo_context *context, const bo_features *features, const bo_inputs *inputs, size_t pairs,
                              uint64_t seed, bo_features_accuracy *out)
{
    BO_REQUIRE(context, features, inputs, out);
    const size_t dim = features->desc.dim;
    memset(out, 0, sizeof *out);
    BO_TRY(bo_check_inputs(context, inputs, dim, ""));
    const source from = {
        .rows = bo_inputs_rows(inputs), .x = inputs->x, .ldx = bo_inputs_stride(inputs, dim), .sparse = inputs->sparse};
    return measure(context, features, &from, pairs, seed, out);
}
