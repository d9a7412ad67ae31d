/* The two-sample test of whole rows: encoding, features, and p-values by permutation or from the asymptotic
 * distribution. */
#include "../base/base.h"
#include "../base/rng.h"
#include "../base/trace.h"
#include "../features/enums.h"
#include "../features/facts.h"
#include "../math/linalg.h"
#include "drift.h"
#include "enums.h"
#include "estimate.h"
#include "row_map.h"
#include "samples.h"
#include "search.h"

#include <math.h>
#include <string.h>

static const char *const p_value_names[] = {"permutation", "asymptotic"};
BO_NAMED(p_value, bo_p_value, p_value_names)

/* Invariants: `left` has one entry per permutation, the rows that it still assigns to A. */
struct bo_drift {
    bo_drift_desc desc; /* pointers cleared, defaults filled in */
    size_t dim;         /* columns of encoded rows */
    bo_drift_part *parts;
    bo_features *phi, *column_phi;
    float *center; /* features: bo_typical_features of the sample */
    bo_two_sums sums;
    size_t rows; /* of both sides, so far */
    size_t *left;
    double *permuted; /* permutations x features: Σ (1{A} - m/N) z */
};

enum { MAX_CATEGORIES = 1024, MAX_PERMUTATIONS = 1000000 };

/* ---- creation ---------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const bo_drift_desc *desc, size_t sample_rows)
{
    BO_TRY(bo_check_reserved(context, "bo_drift_desc", desc->reserved));
    if (desc->columns == 0) return bo_fail(context, BO_INVALID, "columns: expected at least 1, found 0");
    if (desc->rows_a < 2 || desc->rows_b < 2)
        return bo_fail(context, BO_INVALID, "expected at least 2 rows in each sample, found %zu and %zu", desc->rows_a,
                       desc->rows_b);
    if (desc->rows_a > UINT32_MAX || desc->rows_b > UINT32_MAX - desc->rows_a) /* as assign_rows needs */
        return bo_fail(context, BO_UNSUPPORTED, "expected fewer than 2^32 rows in both samples, found %zu and %zu",
                       desc->rows_a, desc->rows_b);
    if (!bo_p_value_name(desc->p_value))
        return bo_fail(context, BO_INVALID, "p_value: expected a value of bo_p_value, found %d", (int)desc->p_value);
    if (desc->permutations > MAX_PERMUTATIONS)
        return bo_fail(context, BO_INVALID, "permutations: expected at most %d, found %zu", MAX_PERMUTATIONS,
                       desc->permutations);
    for (size_t j = 0; desc->categories && j < desc->columns; j++)
        if (desc->categories[j] > MAX_CATEGORIES)
            return bo_fail(context, BO_UNSUPPORTED, "column %zu: expected at most %d categories, found %zu", j,
                           MAX_CATEGORIES, desc->categories[j]);
    if (!(desc->features.gamma >= 0 && isfinite(desc->features.gamma)))
        return bo_fail(context, BO_INVALID, "gamma: expected a finite number that is at least 0, found %g",
                       desc->features.gamma);
    if (sample_rows < 2)
        return bo_fail(context, BO_INVALID, "sample: expected at least 2 rows, found %zu", sample_rows);
    return BO_OK;
}

/* Standardized numbers with an indicator of missing values if the sample has some, and one-hot categories. Two rows of
 * different categories are as far apart as two independent standardized numbers on average. */
static void encode_row(const bo_drift *drift, const double *x, float *out)
{
    memset(out, 0, drift->dim * sizeof *out);
    for (size_t j = 0; j < drift->desc.columns; j++) {
        const bo_drift_part *part = &drift->parts[j];
        const bool missing = isnan(x[j]);
        float *at = out + part->first;
        if (part->categories)
            at[missing ? part->categories : (size_t)x[j]] = 1;
        else if (!missing)
            at[0] = (float)fmax(-1e6, fmin(1e6, (x[j] - part->mean) / part->deviation));
        else if (part->indicator)
            at[1] = 1;
    }
}

static bo_status make_columns(bo_context *context, bo_drift *drift, size_t rows, const double *sample)
{
    const bo_drift_desc *desc = &drift->desc;
    for (size_t j = 0; j < desc->columns; j++) {
        bo_drift_part *part = &drift->parts[j];
        part->categories = desc->categories ? desc->categories[j] : 0;
        part->first = drift->dim;
        BO_TRY(bo_drift_part_fit(context, part, j, rows, sample + j, desc->columns, desc->seed));
        drift->dim += part->categories ? part->categories + 1 : part->indicator ? 2 : 1;
    }
    const bo_features_desc one = {
        .dim = 1, .features = BO_DRIFT_COLUMN_FEATURES, .gamma = 1, .draw = BO_DRAW_SOBOL, .seed = desc->seed};
    return bo_features_create(context, &one, &drift->column_phi);
}

/* The map of whole rows, with γ from the encoded sample, and the mean of its features. */
static bo_status make_map(bo_context *context, bo_drift *drift, size_t rows, const float *encoded)
{
    enum { FEATURES = 512 };
    bo_machine_desc as_fitted = {.features = drift->desc.features, .seed = drift->desc.seed};
    if (as_fitted.features.features == 0 && bo_features_needs_length(&as_fitted.features))
        as_fitted.features.features = FEATURES;
    bo_features_desc map = bo_fitting_map(&as_fitted, drift->dim);
    map.sample = encoded;
    map.sample_rows = rows;
    map.sample_stride = drift->dim;
    if (map.gamma == 0 && map.kernel == BO_KERNEL_LINEAR) map.gamma = 1;
    if (map.gamma == 0) {
        const bo_samples samples = {.rows = rows, .dim = drift->dim, .x = encoded};
        BO_TRY(bo_typical_gamma(context, &map, &samples, drift->desc.seed, &map.gamma));
    }
    BO_TRY(bo_features_create(context, &map, &drift->phi));
    drift->center = bo_alloc_raw(context, bo_features_describe(drift->phi)->features, sizeof *drift->center,
                                 "the mean of the features");
    if (!drift->center) return BO_MEMORY;
    return bo_typical_features(context, drift->phi, rows, encoded, drift->dim, drift->center);
}

/* Refuses sums and blocks that do not fit into memory, before they are allocated and rows are read. */
static bo_status check_size(bo_context *context, const bo_drift *drift, size_t features, size_t permutations)
{
    const double r = (double)features, p = (double)permutations, block = BO_MACHINE_BLOCK;
    const double bytes =
        p * (12 * r + 4 * block) + (permutations ? 0 : 32 * r * r) + 4 * block * (r + (double)drift->dim);
    return bo_check_memory(context, "the two-sample test", bytes, bo_default_memory(),
                           permutations ? "use fewer permutations or features" : "use fewer features");
}

static bo_status prepare(bo_context *context, bo_drift *drift, size_t rows, const double *sample)
{
    const bool permute = drift->desc.p_value == BO_P_VALUE_PERMUTATION;
    const size_t permutations = permute ? drift->desc.permutations : 0;
    drift->parts = bo_alloc(context, drift->desc.columns, sizeof *drift->parts, "the columns");
    if (!drift->parts) return BO_MEMORY;
    BO_TRY(make_columns(context, drift, rows, sample));
    float *encoded = bo_alloc_raw(context, rows * drift->dim, sizeof *encoded, "a sample of the rows");
    if (!encoded) return BO_MEMORY;
    for (size_t i = 0; i < rows; i++) encode_row(drift, sample + i * drift->desc.columns, encoded + i * drift->dim);
    bo_status status = make_map(context, drift, rows, encoded);
    bo_free(encoded);
    BO_TRY(status);
    size_t features = bo_features_describe(drift->phi)->features;
    BO_TRY(check_size(context, drift, features, permutations));
    BO_TRY(bo_two_sums_create(context, features, !permute, &drift->sums));
    drift->left = bo_alloc(context, permutations, sizeof *drift->left, "permutations");
    drift->permuted = bo_alloc(context, permutations * features, sizeof *drift->permuted, "permutations");
    if (!drift->left || !drift->permuted) return BO_MEMORY;
    for (size_t p = 0; p < permutations; p++) drift->left[p] = drift->desc.rows_a;
    return BO_OK;
}

bo_status bo_drift_create(bo_context *context, const bo_drift_desc *desc, size_t sample_rows, const double *sample,
                          bo_drift **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, sample, out);
    enum { PERMUTATIONS = 999 };
    BO_TRY(check(context, desc, sample_rows));
    bo_drift *drift = bo_alloc(context, 1, sizeof *drift, "a two-sample test");
    if (!drift) return BO_MEMORY;
    drift->desc = *desc;
    if (drift->desc.permutations == 0) drift->desc.permutations = PERMUTATIONS;
    bo_status status = prepare(context, drift, sample_rows, sample);
    drift->desc.categories = NULL;
    drift->desc.features.length_scales = NULL;
    drift->desc.features.sample = NULL;
    if (status != BO_OK)
        bo_drift_destroy(drift);
    else
        *out = drift;
    return status;
}

void bo_drift_destroy(bo_drift *drift)
{
    if (!drift) return;
    for (size_t j = 0; drift->parts && j < drift->desc.columns; j++) bo_two_sums_free(&drift->parts[j].sums);
    bo_free(drift->parts);
    bo_features_destroy(drift->phi);
    bo_features_destroy(drift->column_phi);
    bo_free(drift->center);
    bo_two_sums_free(&drift->sums);
    bo_free(drift->left);
    bo_free(drift->permuted);
    bo_free(drift);
}

/* ---- permutations ------------------------------------------------------------------------------------------------ */

/* Each permutation assigns exactly m of the N rows to A. Row by row, a row goes to A with probability (rows left for A)
 * / (rows left): all subsets of m rows are equally likely (Knuth, volume 2, algorithm S), and no list of rows is
 * stored. */
typedef struct assignment {
    bo_drift *drift;
    size_t rows;    /* of the block */
    float *weights; /* permutations x rows: 1{A} - m/N */
} assignment;

static void assign_rows(void *arg, size_t index, int worker)
{
    (void)worker;
    enum { OUTPUTS = 4, BLOCKS = 64 };
    const assignment *job = arg;
    bo_drift *drift = job->drift;
    const size_t total = drift->desc.rows_a + drift->desc.rows_b, first = drift->rows;
    const float share = (float)((double)drift->desc.rows_a / (double)total);
    uint32_t outputs[OUTPUTS * BLOCKS];
    bo_rng rng = bo_rng_make(drift->desc.seed, bo_rng_stream("drift.permutation", index));
    uint64_t left = drift->left[index];
    float *weights = job->weights + index * job->rows;
    for (size_t i = 0, filled = 0; i < job->rows; i++) {
        const size_t row =
            first + i; /* output row % OUTPUTS of block row / OUTPUTS, independent of the division into calls */
        if (i == 0 || row >= filled) {
            rng.next = row / OUTPUTS;
            bo_rng_words(&rng, BLOCKS, outputs);
            filled = (row / OUTPUTS + BLOCKS) * OUTPUTS;
        }
        const uint64_t output = outputs[OUTPUTS * BLOCKS - (filled - row)];
        const bool chosen = output * (total - row) < left << 32;
        left -= chosen;
        weights[i] = (chosen ? 1 : 0) - share;
    }
    drift->left[index] = left;
}

typedef struct accumulation {
    size_t features;
    const float *from;
    double *to;
} accumulation;

static void accumulate_row(void *arg, size_t index, int worker)
{
    (void)worker;
    const accumulation *job = arg;
    for (size_t j = index * job->features; j < (index + 1) * job->features; j++) job->to[j] += (double)job->from[j];
}

static bo_status permute(bo_context *context, bo_drift *drift, size_t rows, const float *z, float *weights,
                         float *products)
{
    const size_t permutations = drift->desc.permutations, features = drift->sums.size;
    assignment job = {drift, rows, weights};
    bo_parallel(context, permutations, assign_rows, &job);
    BO_TRY(bo_gemm(context, false, false, permutations, features, rows, 1, weights, rows, z, features, 0, products,
                   features));
    accumulation sums = {features, products, drift->permuted};
    bo_parallel(context, permutations, accumulate_row, &sums);
    return BO_OK;
}

/* Σ (1{A} - m/N) z = (mn/N) (mean_A - mean_B). The sums are rounded. Partitions whose values are equal up to `rounding`
 * count as equal, which can only increase the p-value. */
static double permutation_p_value(const bo_drift *drift, double mmd2)
{
    const double rounding = 1e-5;
    const double m = (double)drift->desc.rows_a, n = (double)drift->desc.rows_b, factor = (m + n) / (m * n);
    const size_t permutations = drift->desc.permutations, features = drift->sums.size;
    size_t larger = 0;
    for (size_t p = 0; p < permutations; p++) {
        double square = 0;
        for (size_t j = 0; j < features; j++) {
            double d = factor * drift->permuted[p * features + j];
            square += d * d;
        }
        larger += square >= mmd2 * (1 - rounding);
    }
    return (1 + (double)larger) / (1 + (double)permutations);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Buffers for one block of rows. */
typedef struct block {
    float *encoded, *z, *column, *weights, *products;
} block;

static void block_free(block *b)
{
    bo_free(b->encoded);
    bo_free(b->z);
    bo_free(b->column);
    bo_free(b->weights);
    bo_free(b->products);
}

static bo_status block_create(bo_context *context, const bo_drift *drift, size_t rows, block *b)
{
    const size_t features = drift->sums.size;
    const size_t permutations = drift->desc.p_value == BO_P_VALUE_PERMUTATION ? drift->desc.permutations : 0;
    *b = (block){0};
    b->encoded = bo_alloc_raw(context, rows * drift->dim, sizeof(float), "a block of rows");
    b->z = bo_alloc_raw(context, rows * features, sizeof(float), "a block of features");
    b->column = bo_alloc_raw(context, rows * (BO_DRIFT_COLUMN_FEATURES + 18), sizeof(float), "a block of features");
    b->weights = bo_alloc_raw(context, permutations * rows, sizeof(float), "permutations");
    b->products = bo_alloc_raw(context, permutations * features, sizeof(float), "permutations");
    return b->encoded && b->z && b->column && b->weights && b->products ? BO_OK : BO_MEMORY;
}

static bo_status check_rows(bo_context *context, const bo_drift *drift, size_t rows, const double *x, size_t ldx)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < drift->desc.columns; j++)
            BO_TRY(bo_drift_part_check(context, &drift->parts[j], i, j, x[i * ldx + j]));
    return BO_OK;
}

static bo_status add_block(bo_context *context, bo_drift *drift, bo_drift_side side, size_t rows, const double *x,
                           size_t ldx, block *b)
{
    enum { PRECISE_FEATURES = 512 };
    const size_t features = drift->sums.size;
    for (size_t i = 0; i < rows; i++) encode_row(drift, x + i * ldx, b->encoded + i * drift->dim);
    BO_TRY(bo_features_apply(context, drift->phi, &(bo_inputs){.rows = rows, .x = b->encoded, .stride = drift->dim},
                             b->z, features));
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < features; j++) b->z[i * features + j] -= drift->center[j];
    BO_TRY(bo_two_sums_add(context, &drift->sums, side, rows, b->z, features, features <= PRECISE_FEATURES));
    if (drift->desc.p_value == BO_P_VALUE_PERMUTATION)
        BO_TRY(permute(context, drift, rows, b->z, b->weights, b->products));
    drift->rows += rows;
    for (size_t j = 0; j < drift->desc.columns; j++)
        BO_TRY(bo_drift_part_add(context, &drift->parts[j], drift->column_phi, side, rows, x + j, ldx, b->column));
    return bo_progress(context, "comparing", (double)drift->rows, (double)(drift->desc.rows_a + drift->desc.rows_b));
}

bo_status bo_drift_add(bo_context *context, bo_drift *drift, bo_drift_side side, size_t rows, const double *x,
                       size_t ldx)
{
    BO_REQUIRE(context, drift);
    BO_REQUIRE_IF(context, rows > 0, x);
    BO_SPAN(context, "machine", "compare samples");
    if (side != BO_DRIFT_A && side != BO_DRIFT_B)
        return bo_fail(context, BO_INVALID, "side: expected BO_DRIFT_A or BO_DRIFT_B, found %d", (int)side);
    if (rows > 1 && ldx < drift->desc.columns)
        return bo_fail(context, BO_INVALID, "ldx: expected at least %zu, the number of columns, found %zu",
                       drift->desc.columns, ldx);
    const size_t announced = side == BO_DRIFT_A ? drift->desc.rows_a : drift->desc.rows_b;
    if (rows > announced - drift->sums.rows[side])
        return bo_fail(context, BO_INVALID, "expected %zu rows of sample %c, found at least %zu", announced,
                       side == BO_DRIFT_A ? 'A' : 'B', drift->sums.rows[side] + rows);
    BO_TRY(check_rows(context, drift, rows, x, ldx));
    block b;
    size_t each = bo_min(rows, BO_MACHINE_BLOCK);
    bo_status status = block_create(context, drift, each, &b);
    for (size_t first = 0; status == BO_OK && first < rows; first += each)
        status = add_block(context, drift, side, bo_min(each, rows - first), x + first * ldx, ldx, &b);
    block_free(&b);
    return status;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

bo_status bo_drift_finish(bo_context *context, const bo_drift *drift, bo_drift_report *report, bo_drift_column *columns)
{
    BO_REQUIRE(context, drift, report);
    BO_SPAN(context, "machine", "p-values");
    const bo_drift_desc *desc = &drift->desc;
    const bo_two_sums *sums = &drift->sums;
    if (sums->rows[0] != desc->rows_a || sums->rows[1] != desc->rows_b)
        return bo_fail(context, BO_INVALID, "expected %zu and %zu rows, found %zu and %zu", desc->rows_a, desc->rows_b,
                       sums->rows[0], sums->rows[1]);
    const bo_features_desc *map = bo_features_describe(drift->phi);
    const bool permute = desc->p_value == BO_P_VALUE_PERMUTATION;
    *report = (bo_drift_report){.rows_a = desc->rows_a,
                                .rows_b = desc->rows_b,
                                .dim = drift->dim,
                                .features = map->features,
                                .kernel = map->kernel,
                                .gamma = map->gamma,
                                .p_kind = desc->p_value,
                                .permutations = permute ? desc->permutations : 0};
    report->mmd2_biased = bo_two_sums_mmd2(sums, &report->mmd2);
    if (!isfinite(report->mmd2_biased) || !isfinite(report->mmd2))
        return bo_fail(context, BO_NUMERIC,
                       "the features of kernel %s overflow for these values; use a smaller gamma, or another kernel",
                       bo_kernel_name(map->kernel));
    if (permute)
        report->p_value = permutation_p_value(drift, report->mmd2_biased);
    else
        BO_TRY(bo_two_sums_p_value(context, sums, &report->p_value));
    for (size_t j = 0; columns && j < desc->columns; j++)
        BO_TRY(bo_drift_part_finish(context, &drift->parts[j], &columns[j]));
    return columns ? bo_drift_adjust(context, desc->columns, columns) : BO_OK;
}
