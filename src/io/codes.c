/* Target encoding: a category becomes the mean of the target over its rows, adjusted for the other columns and shrunk
 * toward the mean of all rows.
 *
 * The residuals r of a linear model of the target by the other inputs (adjust.h) have little variance that is not due
 * to the category. A category with n rows whose residuals have the sum s has the code μ + s / (n + m), where μ is the
 * mean of the target over all rows. m = σ² / τ², from the variance σ² of r inside categories and the variance τ²
 * between their means: the best linear predictor of the mean of a category in the one-way random effects model. τ² is
 * estimated by analysis of variance (Searle, Casella and McCulloch 1992, chapter 3.6), where N is the number of rows
 * and k that of the categories:
 *
 *     σ² = (Σ r² - Σ_c s_c² / n_c) / (N - k)
 *     τ² = (Σ_c s_c² / n_c - (Σ r)² / N - (k - 1) σ²) / ((N - Σ_c n_c² / N) / (k - 1))
 *
 * The rows are divided into folds by a hash of their numbers. The code of a training row is computed without the rows
 * of its fold, linear model included, so that it does not contain its own target. A class is a target that is 1 in the
 * rows of the class, otherwise 0. */
#include <float.h>
#include <math.h>
#include "../base/rng.h"
#include "adjust.h"
#include "stream.h"

enum {
    BO_CODE_FOLDS = 5,
    BO_CODE_SETS = BO_CODE_FOLDS + 1, /* one without each fold, and one with all rows */
    BO_CODE_BLOCK = BO_SIZE(1024, 3),
    BO_CODE_MODEL_ROWS = 1 << 16 /* rows that the linear model is fitted to, about */
};

/* Sums over the rows of one column, for each set, category and code. The last category is for missing values and
 * categories that are not stored. */
typedef struct bo_code_sums {
    double *rows;    /* sets x categories */
    double *sums;    /* sets x categories x width: of residuals */
    double *squares; /* sets x width */
} bo_code_sums;

/* The state of the two passes: the linear model, then the sums of its residuals. */
typedef struct bo_coding {
    bo_adjustment model;
    bo_code_sums *sums; /* of each column of the schema */
    double *targets;    /* width */
} bo_coding;

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

/* First pass: for very large tables, a part of the rows is enough for the linear model. */
static void add_to_model(const bo_schema *schema, bo_coding *coding, size_t row, const float *x)
{
    const size_t stride = schema->rows / BO_CODE_MODEL_ROWS + 1;
    if (bo_hash(~schema->fold_seed, row) % stride == 0)
        bo_adjustment_add(&coding->model, bo_schema_fold(schema, row), x, coding->targets);
}

/* Second pass: adds the residuals to all sets except the one without the fold of the row. */
static void add_to_sums(const bo_schema *schema, const bo_coding *coding, size_t row, const float *x)
{
    const size_t width = coding->model.width, fold = bo_schema_fold(schema, row);
    for (size_t set = 0; set < BO_CODE_SETS; ++set) {
        if (set == fold) continue;
        for (size_t k = 0; k < width; ++k) {
            const double residual = bo_adjustment_residual(&coding->model, set, x, coding->targets[k], k);
            for (size_t c = 0; c < schema->column_count; ++c) {
                const bo_column *column = &schema->columns[c];
                if (column->kind != BO_COLUMN_ENCODED) continue;
                const bo_code_sums *sums = &coding->sums[c];
                const size_t at = set * (column->categories.count + 1) + (size_t)x[column->first];
                if (k == 0) sums->rows[at] += 1;
                sums->sums[at * width + k] += residual;
                sums->squares[set * width + k] += residual * residual;
            }
        }
    }
}

static bo_status pass_rows(bo_context *context, bo_stream *stream, const bo_split_desc *split, bool first,
                           bo_coding *coding, float *x, double *y)
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
            for (size_t k = 0; k < coding->model.width; ++k)
                coding->targets[k] = code_target(schema, y + r * schema->targets, k);
            if (first)
                add_to_model(schema, coding, stream->notes.row[r], x + r * schema->dim);
            else
                add_to_sums(schema, coding, stream->notes.row[r], x + r * schema->dim);
        }
    }
    return BO_OK;
}

/* Sums of the residuals of one code over one set. */
typedef struct code_moments {
    double rows, sum, square; /* of all rows */
    double between, pairs;    /* Σ s² / n and Σ n² over the categories */
    double categories;        /* with rows */
} code_moments;

static code_moments add_moments(const bo_column *column, const bo_code_sums *sums, size_t width, size_t k, size_t set)
{
    code_moments m = {.square = sums->squares[set * width + k]};
    for (size_t category = 0; category <= column->categories.count; ++category) {
        const size_t at = set * (column->categories.count + 1) + category;
        const double rows = sums->rows[at], sum = sums->sums[at * width + k];
        if (rows == 0) continue;
        m.rows += rows;
        m.sum += sum;
        m.between += sum * sum / rows;
        m.pairs += rows * rows;
        m.categories += 1;
    }
    return m;
}

/* m in the formula at the top of the file; large if the categories do not differ. */
static double shrinkage(const code_moments *m)
{
    const double max_shrinkage = 1e6, k = m->categories;
    if (m->rows <= k || k < 2) return max_shrinkage;
    const double inside = fmax(m->square - m->between, 0) / (m->rows - k);
    const double size = (m->rows - m->pairs / m->rows) / (k - 1);
    const double across = (m->between - m->sum * m->sum / m->rows - (k - 1) * inside) / size;
    return across > inside / max_shrinkage ? inside / across : max_shrinkage;
}

/* The codes of a column in one set: (categories + 1) x width. */
static void compute_codes(const bo_coding *coding, const bo_column *column, const bo_code_sums *sums, size_t set,
                          double *codes)
{
    const size_t width = coding->model.width, unknown = column->categories.count;
    for (size_t k = 0; k < width; ++k) {
        const code_moments m = add_moments(column, sums, width, k, set);
        const double mean = coding->model.means[set * width + k], weight = shrinkage(&m);
        for (size_t category = 0; category < unknown; ++category) {
            const size_t at = set * (unknown + 1) + category;
            codes[category * width + k] = mean + sums->sums[at * width + k] / (sums->rows[at] + weight);
        }
        codes[unknown * width + k] = mean;
    }
}

static bo_status make_codes(bo_context *context, const bo_coding *coding, bo_column *column, const bo_code_sums *sums)
{
    const size_t count = (column->categories.count + 1) * coding->model.width;
    column->fold_codes = bo_alloc_raw(context, BO_CODE_FOLDS * count, sizeof(double), "codes of categories");
    column->codes = bo_alloc_raw(context, count, sizeof(double), "codes of categories");
    if (!column->codes || !column->fold_codes) return BO_MEMORY;
    for (size_t set = 0; set < BO_CODE_SETS; ++set) {
        double *codes = set < BO_CODE_FOLDS ? column->fold_codes + set * count : column->codes;
        compute_codes(coding, column, sums, set, codes);
        for (size_t i = 0; i < count; ++i)
            if (!(fabs(codes[i]) <= FLT_MAX))
                return bo_fail(
                    context, BO_FORMAT,
                    "column '%.100s': the mean of the target is beyond the range of float32; divide the target "
                    "by a constant",
                    column->name ? column->name : "");
    }
    return BO_OK;
}

static bo_status make_sums(bo_context *context, const bo_schema *schema, bo_code_sums *sums)
{
    const size_t width = bo_schema_code_width(schema);
    for (size_t c = 0; c < schema->column_count; ++c) {
        if (schema->columns[c].kind != BO_COLUMN_ENCODED) continue;
        const size_t count = BO_CODE_SETS * (schema->columns[c].categories.count + 1);
        sums[c].rows = bo_alloc(context, count, sizeof(double), "sums of categories");
        sums[c].sums = bo_alloc(context, count * width, sizeof(double), "sums of categories");
        sums[c].squares = bo_alloc(context, BO_CODE_SETS * width, sizeof(double), "sums of categories");
        if (!sums[c].rows || !sums[c].sums || !sums[c].squares) return BO_MEMORY;
    }
    return BO_OK;
}

/* Reads the rows with the index of the category as the only input of each encoded column. */
static bo_status pass_source(bo_context *context, const bo_data_desc *desc, bo_data_input *source,
                             const bo_split_desc *split, const bo_schema *schema, bool first, bo_coding *coding)
{
    bo_stream *stream;
    float *x = bo_alloc_raw(context, BO_CODE_BLOCK * schema->dim, sizeof *x, "a block of rows");
    double *y = bo_alloc_raw(context, BO_CODE_BLOCK * schema->targets, sizeof *y, "a block of rows");
    bo_status status = x && y ? bo_data_input_rewind(context, source) : BO_MEMORY;
    bo_data_desc labeled = *desc;
    labeled.keep_unlabeled = false;
    if (status == BO_OK) status = bo_stream_create(context, &labeled, schema, source, &stream);
    if (status == BO_OK) {
        stream->silent = true;
        status = pass_rows(context, stream, split, first, coding, x, y);
        *source = stream->source; /* the schema, which the stream owned */
        stream->source = (bo_data_input){0};
        bo_stream_close(stream);
    }
    bo_free(x);
    bo_free(y);
    return status;
}

static bo_status encode(bo_context *context, const bo_data_desc *desc, bo_data_input *source,
                        const bo_split_desc *split, bo_schema *schema, bo_coding *coding)
{
    coding->sums = bo_alloc(context, schema->column_count, sizeof *coding->sums, "sums of categories");
    coding->targets = bo_alloc(context, bo_schema_code_width(schema), sizeof(double), "the targets of a row");
    if (!coding->sums || !coding->targets) return BO_MEMORY;
    BO_TRY(bo_adjustment_create(context, schema, BO_CODE_FOLDS, &coding->model));
    BO_TRY(make_sums(context, schema, coding->sums));
    BO_TRY(pass_source(context, desc, source, split, schema, true, coding));
    BO_TRY(bo_adjustment_solve(context, &coding->model));
    BO_TRY(pass_source(context, desc, source, split, schema, false, coding));
    for (size_t c = 0; c < schema->column_count; ++c)
        if (schema->columns[c].kind == BO_COLUMN_ENCODED)
            BO_TRY(make_codes(context, coding, &schema->columns[c], &coding->sums[c]));
    return bo_schema_finish(context, schema);
}

bo_status bo_schema_encode(bo_context *context, const bo_data_desc *desc, bo_data_input *source,
                           const bo_split_desc *split, bo_schema *schema)
{
    bo_coding coding = {0};
    schema->folds = BO_CODE_FOLDS;
    schema->fold_seed = bo_hash(desc->seed, 0x636f646573u);
    const bo_status status = encode(context, desc, source, split, schema, &coding);
    for (size_t c = 0; coding.sums && c < schema->column_count; ++c) {
        bo_free(coding.sums[c].rows);
        bo_free(coding.sums[c].sums);
        bo_free(coding.sums[c].squares);
    }
    bo_free(coding.sums);
    bo_free(coding.targets);
    bo_adjustment_free(&coding.model);
    return status;
}
