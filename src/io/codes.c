/* Target encoding: a category becomes the mean of the target over its rows, shrunk toward the mean of all rows.
 *
 * A category with n rows and sum s has the code (s + m μ) / (n + m), where μ is the mean of all rows. m = σ² / τ², from the
 * variance σ² inside categories and the variance τ² between their means: the best linear predictor of the mean of a category
 * in the one-way random effects model. τ² is estimated by analysis of variance (Searle, Casella and McCulloch 1992,
 * chapter 3.6):
 *
 *     σ² = (Σ y² - Σ_c s_c² / n_c) / (N - k)
 *     τ² = (Σ_c s_c² / n_c - (Σ y)² / N - (k - 1) σ²) / ((N - Σ_c n_c² / N) / (k - 1))
 *
 * The rows are divided into folds by a hash of their numbers. The code of a training row is computed without the rows of its
 * fold, so that it does not contain its own target. A class is a target that is 1 for the rows of the class, otherwise 0. */
#include <math.h>
#include "../base/rng.h"
#include "stream.h"

enum { BO_CODE_FOLDS = 5, BO_CODE_BLOCK = BO_SIZE(1024, 3) };

/* Sums over the rows of one column, for each fold, category and code. The last category is for missing values and
 * categories that are not stored. */
typedef struct bo_code_sums {
    double *rows;    /* folds x categories */
    double *sums;    /* folds x categories x width */
    double *squares; /* folds x width */
} bo_code_sums;

size_t bo_schema_fold(const bo_schema *schema, size_t row)
{
    return (size_t)(bo_hash(schema->fold_seed, row) % schema->folds);
}

/* The targets of a row as the numbers that are averaged. */
static double code_target(const bo_schema *schema, const double *y, size_t k)
{
    if (schema->classes.count == 0) return y[k];
    return (size_t)y[0] == (schema->classes.count == 2 ? 1 : k);
}

static void add_row(const bo_schema *schema, const bo_column *column, const bo_code_sums *sums, size_t fold,
                    size_t category, const double *y)
{
    const size_t width = bo_schema_code_width(schema), at = fold * (column->categories.count + 1) + category;
    sums->rows[at] += 1;
    for (size_t k = 0; k < width; ++k) {
        const double value = code_target(schema, y, k);
        sums->sums[at * width + k] += value;
        sums->squares[fold * width + k] += value * value;
    }
}

static bo_status add_rows(bo_context *context, bo_stream *stream, const bo_split_desc *split, bo_code_sums *sums,
                          float *x, double *y)
{
    const bo_schema *schema = stream->schema;
    const bo_split_desc all = {0};
    uint64_t kept = 0;
    for (size_t count = 1; count > 0;) {
        double total, done = bo_reader_progress(stream->source.data, &total);
        BO_TRY(bo_progress(context, "encoding text columns", done, total));
        BO_TRY(bo_stream_next(context, stream, BO_CODE_BLOCK, x, y, &count));
        const uint64_t *groups = bo_stream_groups(stream);
        for (size_t r = 0; r < count; ++r, ++kept) {
            if (bo_split_row(split ? split : &all, groups ? groups[r] : kept) != BO_SPLIT_TRAIN) continue;
            const size_t fold = bo_schema_fold(schema, stream->notes.row[r]);
            for (size_t c = 0; c < schema->column_count; ++c) {
                const bo_column *column = &schema->columns[c];
                if (column->kind == BO_COLUMN_ENCODED)
                    add_row(schema, column, &sums[c], fold, (size_t)x[r * schema->dim + column->first],
                            y + r * schema->targets);
            }
        }
    }
    return BO_OK;
}

/* Sums of one code over all folds but one (`without`; SIZE_MAX: none). */
typedef struct code_moments {
    double rows, sum, square; /* of all rows */
    double between, pairs;    /* Σ s² / n and Σ n² over the categories */
    double categories;        /* with rows */
} code_moments;

/* The rows and the sum of a category. */
static double category_sum(const bo_column *column, const bo_code_sums *sums, size_t width, size_t k, size_t category,
                           size_t without, double *rows)
{
    const size_t categories = column->categories.count + 1;
    double sum = 0;
    *rows = 0;
    for (size_t fold = 0; fold < BO_CODE_FOLDS; ++fold) {
        const size_t at = fold * categories + category;
        if (fold == without) continue;
        *rows += sums->rows[at];
        sum += sums->sums[at * width + k];
    }
    return sum;
}

static code_moments add_moments(const bo_column *column, const bo_code_sums *sums, size_t width, size_t k,
                                size_t without)
{
    code_moments m = {0};
    for (size_t fold = 0; fold < BO_CODE_FOLDS; ++fold)
        if (fold != without) m.square += sums->squares[fold * width + k];
    for (size_t category = 0; category <= column->categories.count; ++category) {
        double rows, sum = category_sum(column, sums, width, k, category, without, &rows);
        if (rows == 0) continue;
        m.rows += rows;
        m.sum += sum;
        m.between += sum * sum / rows;
        m.pairs += rows * rows;
        m.categories += 1;
    }
    return m;
}

/* m of the comment at the top; large if the categories do not differ. */
static double shrinkage(const code_moments *m)
{
    const double most = 1e6, k = m->categories;
    if (m->rows <= k || k < 2) return most;
    const double inside = fmax(m->square - m->between, 0) / (m->rows - k);
    const double size = (m->rows - m->pairs / m->rows) / (k - 1);
    const double across = (m->between - m->sum * m->sum / m->rows - (k - 1) * inside) / size;
    return across > inside / most ? inside / across : most;
}

/* The codes of a column without one fold: (categories + 1) x width. */
static void compute_codes(const bo_schema *schema, const bo_column *column, const bo_code_sums *sums, size_t without,
                          double *codes)
{
    const size_t width = bo_schema_code_width(schema), unknown = column->categories.count;
    for (size_t k = 0; k < width; ++k) {
        const code_moments m = add_moments(column, sums, width, k, without);
        const double mean = m.rows > 0 ? m.sum / m.rows : 0, weight = shrinkage(&m);
        for (size_t category = 0; category < unknown; ++category) {
            double rows, sum = category_sum(column, sums, width, k, category, without, &rows);
            codes[category * width + k] = rows > 0 ? (sum + weight * mean) / (rows + weight) : mean;
        }
        codes[unknown * width + k] = mean;
    }
}

static bo_status make_codes(bo_context *context, const bo_schema *schema, bo_column *column, const bo_code_sums *sums)
{
    const size_t count = (column->categories.count + 1) * bo_schema_code_width(schema);
    double *fold_codes = bo_alloc_raw(context, BO_CODE_FOLDS * count, sizeof *fold_codes, "codes of categories");
    double *codes = bo_alloc_raw(context, count, sizeof *codes, "codes of categories");
    column->fold_codes = fold_codes;
    column->codes = codes;
    if (!codes || !fold_codes) return BO_MEMORY;
    compute_codes(schema, column, sums, SIZE_MAX, codes);
    for (size_t fold = 0; fold < BO_CODE_FOLDS; ++fold)
        compute_codes(schema, column, sums, fold, fold_codes + fold * count);
    for (size_t i = 0; i < (BO_CODE_FOLDS + 1) * count; ++i) {
        const double code = i < count ? codes[i] : fold_codes[i - count];
        if (!(fabs(code) <= 3e38))
            return bo_fail(
                context, BO_FORMAT,
                "column '%.100s': the mean of the target is beyond the range of float32; divide the target by "
                "a constant",
                column->name ? column->name : "");
    }
    return BO_OK;
}

static bo_status make_sums(bo_context *context, const bo_schema *schema, bo_code_sums *sums)
{
    const size_t width = bo_schema_code_width(schema);
    for (size_t c = 0; c < schema->column_count; ++c) {
        if (schema->columns[c].kind != BO_COLUMN_ENCODED) continue;
        const size_t count = BO_CODE_FOLDS * (schema->columns[c].categories.count + 1);
        sums[c].rows = bo_alloc(context, count, sizeof(double), "sums of categories");
        sums[c].sums = bo_alloc(context, count * width, sizeof(double), "sums of categories");
        sums[c].squares = bo_alloc(context, BO_CODE_FOLDS * width, sizeof(double), "sums of categories");
        if (!sums[c].rows || !sums[c].sums || !sums[c].squares) return BO_MEMORY;
    }
    return BO_OK;
}

/* Reads the rows with the index of the category as the only input of each encoded column. */
static bo_status sum_targets(bo_context *context, const bo_data_desc *desc, bo_source *source,
                             const bo_split_desc *split, const bo_schema *schema, bo_code_sums *sums)
{
    bo_stream *stream;
    float *x = bo_alloc_raw(context, BO_CODE_BLOCK * schema->dim, sizeof *x, "a block of rows");
    double *y = bo_alloc_raw(context, BO_CODE_BLOCK * schema->targets, sizeof *y, "a block of rows");
    bo_status status = x && y ? bo_source_rewind(context, source) : BO_MEMORY;
    bo_data_desc labeled = *desc;
    labeled.keep_unlabeled = false;
    if (status == BO_OK) status = bo_stream_create(context, &labeled, schema, source, &stream);
    if (status == BO_OK) {
        stream->silent = true;
        status = add_rows(context, stream, split, sums, x, y);
        *source = stream->source; /* which the stream owned */
        stream->source = (bo_source){0};
        bo_stream_close(stream);
    }
    bo_free(x);
    bo_free(y);
    return status;
}

bo_status bo_schema_encode(bo_context *context, const bo_data_desc *desc, bo_source *source, const bo_split_desc *split,
                           bo_schema *schema)
{
    schema->folds = BO_CODE_FOLDS;
    schema->fold_seed = bo_hash(desc->seed, 0x636f646573u);
    bo_code_sums *sums = bo_alloc(context, schema->column_count, sizeof *sums, "sums of categories");
    if (!sums) return BO_MEMORY;
    bo_status status = make_sums(context, schema, sums);
    if (status == BO_OK) status = sum_targets(context, desc, source, split, schema, sums);
    for (size_t c = 0; c < schema->column_count && status == BO_OK; ++c)
        if (schema->columns[c].kind == BO_COLUMN_ENCODED)
            status = make_codes(context, schema, &schema->columns[c], &sums[c]);
    for (size_t c = 0; c < schema->column_count; ++c) {
        bo_free(sums[c].rows);
        bo_free(sums[c].sums);
        bo_free(sums[c].squares);
    }
    bo_free(sums);
    return status == BO_OK ? bo_schema_finish(context, schema) : status;
}
