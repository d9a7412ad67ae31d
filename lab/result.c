/* A result: its growing tables, the rules that compute its verdicts, and the public functions. */
#include "internal.h"
#include "statistics.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const verdicts[] = {"inconclusive", "held", "failed"};
BO_NAMED(lab_verdict, bo_lab_verdict, verdicts)

const char *bo_lab_rule_name(bo_lab_rule rule)
{
    static const char *const names[] = {"at least", "at most", "between", "each at most", "each at least"};
    return (unsigned)rule < LAB_COUNT_OF(names) ? names[rule] : NULL;
}

int lab_find_claim(const bo_lab_experiment *experiment, const char *name)
{
    for (size_t i = 0; i < experiment->claim_count; i++)
        if (bo_same_name(experiment->claims[i].name, name)) return (int)i;
    return -1;
}

int lab_find_table(const bo_lab_experiment *experiment, const char *name)
{
    for (size_t i = 0; i < experiment->table_count; i++)
        if (bo_same_name(experiment->tables[i].name, name)) return (int)i;
    return -1;
}

/* ---- creation -------------------------------------------------------------------------------- */

bo_status lab_result_create(bo_context *context, const lab_experiment *experiment, size_t seeds, bo_lab_result **out)
{
    const bo_lab_experiment *about = &experiment->about;
    bo_lab_result *result = *out = bo_alloc(context, 1, sizeof *result, "a result");
    if (!result) return BO_MEMORY;
    result->experiment = experiment;
    result->seeds = seeds;
    result->claims = bo_alloc(context, about->claim_count * seeds, sizeof *result->claims, "the numbers of claims");
    result->outcomes = bo_alloc(context, about->claim_count, sizeof *result->outcomes, "the outcomes of claims");
    result->grids = bo_alloc(context, about->table_count, sizeof *result->grids, "tables");
    if (!result->claims || !result->outcomes || !result->grids) {
        bo_lab_result_destroy(result);
        *out = NULL;
        return BO_MEMORY;
    }
    for (size_t i = 0; i < about->claim_count * seeds; i++) result->claims[i] = NAN;
    return BO_OK;
}

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; names && i < count; i++) bo_free(names[i]);
    bo_free(names);
}

void bo_lab_result_destroy(bo_lab_result *result)
{
    if (!result) return;
    for (size_t i = 0; result->grids && i < result->experiment->about.table_count; i++) {
        lab_grid *grid = &result->grids[i];
        free_names(grid->row_names, grid->rows);
        free_names(grid->column_names, grid->columns);
        bo_free(grid->x);
        bo_free(grid->values);
        bo_free(grid->cells);
    }
    free_names(result->notes, result->note_count);
    bo_free(result->grids);
    bo_free(result->claims);
    bo_free(result->outcomes);
    bo_free(result->text);
    bo_free(result->images);
    bo_free(result->isa);
    bo_free(result->version);
    bo_free(result);
}

static bool add_name(bo_context *context, char ***names, size_t count, const char *name)
{
    char **more = bo_realloc(context, *names, count + 1, sizeof **names, "the names of a table");
    if (!more) return false;
    *names = more;
    return (more[count] = bo_strdup(context, name)) != NULL;
}

/* Reshapes the values to one more row or column; new values are NAN. */
static bool reshape(bo_context *context, lab_grid *grid, size_t rows, size_t columns, size_t seeds)
{
    double *values = bo_alloc(context, rows * columns * seeds, sizeof *values, "a table");
    if (!values) return false;
    for (size_t i = 0; i < rows * columns * seeds; i++) values[i] = NAN;
    for (size_t r = 0; r < grid->rows; r++)
        if (grid->columns)
            memcpy(values + r * columns * seeds, grid->values + r * grid->columns * seeds,
                   grid->columns * seeds * sizeof *values);
    bo_free(grid->values);
    grid->values = values;
    return true;
}

const char *lab_row_name(double x, char out[LAB_ROW_NAME])
{
    snprintf(out, LAB_ROW_NAME, x == floor(x) && fabs(x) < 1e15 ? "%.0f" : "%.4g", x);
    return out;
}

static bo_status find_row(bo_context *context, lab_grid *grid, const char *row, double x, size_t seeds, size_t *out)
{
    char number[LAB_ROW_NAME];
    for (*out = 0; *out < grid->rows; ++*out)
        if (row ? strcmp(grid->row_names[*out], row) == 0 : grid->x[*out] == x) return BO_OK;
    double *xs = bo_realloc(context, grid->x, grid->rows + 1, sizeof *xs, "the rows of a table");
    if (!xs) return BO_MEMORY;
    grid->x = xs;
    xs[grid->rows] = row ? 0 : x;
    if (!reshape(context, grid, grid->rows + 1, grid->columns, seeds) ||
        !add_name(context, &grid->row_names, grid->rows, row ? row : lab_row_name(x, number)))
        return BO_MEMORY;
    grid->numbers = !row;
    grid->rows++;
    return BO_OK;
}

static bo_status find_column(bo_context *context, lab_grid *grid, const char *column, size_t seeds, size_t *out)
{
    for (*out = 0; *out < grid->columns; ++*out)
        if (strcmp(grid->column_names[*out], column) == 0) return BO_OK;
    if (!reshape(context, grid, grid->rows, grid->columns + 1, seeds) ||
        !add_name(context, &grid->column_names, grid->columns, column))
        return BO_MEMORY;
    grid->columns++;
    return BO_OK;
}

static bo_status refuse(bo_context *context, const bo_lab_result *result, size_t table, const char *what)
{
    return bo_fail(context, BO_INVALID, "table %s of %s %s", result->experiment->about.tables[table].name,
                   result->experiment->about.name, what);
}

bo_status lab_result_set(bo_context *context, bo_lab_result *result, size_t table, const char *row, double x,
                         const char *column, size_t seed, double value)
{
    lab_grid *grid = &result->grids[table];
    size_t r, c;
    if (grid->rows && grid->numbers != !row) return refuse(context, result, table, "has both named and numeric rows");
    if (!row && !isfinite(x)) return refuse(context, result, table, "has a NaN or infinite row");
    BO_TRY(find_row(context, grid, row, x, result->seeds, &r));
    BO_TRY(find_column(context, grid, column, result->seeds, &c));
    double *place = &grid->values[(r * grid->columns + c) * result->seeds + seed];
    if (!isnan(*place))
        return bo_fail(context, BO_INVALID, "table %s of %s has two numbers for row %s, column %s",
                       result->experiment->about.tables[table].name, result->experiment->about.name, grid->row_names[r],
                       column);
    *place = value;
    return BO_OK;
}

bo_status lab_result_note(bo_context *context, bo_lab_result *result, const char *note)
{
    if (!add_name(context, &result->notes, result->note_count, note)) return BO_MEMORY;
    result->note_count++;
    return BO_OK;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static bool is_each(bo_lab_rule rule)
{
    return rule == BO_LAB_EACH_AT_MOST || rule == BO_LAB_EACH_AT_LEAST;
}

/* For an interval, or for the minimum and the maximum. */
static bo_lab_verdict verdict_of(const bo_lab_claim *claim, double low, double high)
{
    const bool above = low >= claim->bound, below = high <= claim->bound;
    switch (claim->rule) {
    case BO_LAB_AT_LEAST:
        return above ? BO_LAB_HELD : high < claim->bound ? BO_LAB_FAILED : BO_LAB_INCONCLUSIVE;
    case BO_LAB_AT_MOST:
        return below ? BO_LAB_HELD : low > claim->bound ? BO_LAB_FAILED : BO_LAB_INCONCLUSIVE;
    case BO_LAB_BETWEEN:
        if (above && high <= claim->upper) return BO_LAB_HELD;
        return high < claim->bound || low > claim->upper ? BO_LAB_FAILED : BO_LAB_INCONCLUSIVE;
    case BO_LAB_EACH_AT_LEAST:
        return above ? BO_LAB_HELD : BO_LAB_FAILED;
    case BO_LAB_EACH_AT_MOST:
        return below ? BO_LAB_HELD : BO_LAB_FAILED;
    }
    return BO_LAB_INCONCLUSIVE;
}

/* If a number is missing, a claim cannot be held, but one counterexample still contradicts a claim about every number.
 * An infinite number has no interval. */
static bo_lab_outcome outcome_of(const bo_lab_claim *claim, const double *values, size_t seeds)
{
    bo_lab_outcome o = {.claim = claim, .values = values, .mean = lab_mean(values, seeds), .low = NAN, .high = NAN};
    bool missing = false;
    for (size_t i = 0; i < seeds; i++) {
        missing |= isnan(values[i]);
        o.low = fmin(o.low, values[i]);
        o.high = fmax(o.high, values[i]);
    }
    if (is_each(claim->rule)) {
        if (!isnan(o.low)) o.verdict = verdict_of(claim, o.low, o.high);
        if (missing && o.verdict == BO_LAB_HELD) o.verdict = BO_LAB_INCONCLUSIVE;
    } else if (seeds >= 2 && isfinite(o.mean)) {
        const double half = lab_student_99(seeds - 1) * lab_deviation(values, seeds) / sqrt((double)seeds);
        o.low = o.mean - half;
        o.high = o.mean + half;
        o.verdict = verdict_of(claim, o.low, o.high);
    }
    return o;
}

/* Sorts numeric rows in ascending order by insertion, because there are few. */
static void sort_rows(lab_grid *grid, size_t seeds)
{
    const size_t width = grid->columns * seeds;
    for (size_t i = 1; grid->numbers && i < grid->rows; i++)
        for (size_t j = i; j > 0 && grid->x[j - 1] > grid->x[j]; j--) {
            const double x = grid->x[j];
            char *name = grid->row_names[j];
            grid->x[j] = grid->x[j - 1], grid->x[j - 1] = x;
            grid->row_names[j] = grid->row_names[j - 1], grid->row_names[j - 1] = name;
            for (size_t k = 0; k < width; k++) {
                double *a = &grid->values[j * width + k], *b = &grid->values[(j - 1) * width + k], value = *a;
                *a = *b, *b = value;
            }
        }
}

/* present: a buffer for all of them. */
static bo_lab_cell cell_of(const double *values, size_t seeds, double *present)
{
    size_t count = 0;
    for (size_t i = 0; i < seeds; i++)
        if (!isnan(values[i])) present[count++] = values[i];
    const double mean = lab_mean(present, count);
    return (bo_lab_cell){mean, isfinite(mean) ? lab_deviation(present, count) : 0, count};
}

static bo_status fill_cells(bo_context *context, lab_grid *grid, size_t seeds)
{
    double present[LAB_MAX_SEEDS];
    grid->cells = bo_alloc(context, grid->rows * grid->columns, sizeof *grid->cells, "a table");
    if (!grid->cells) return BO_MEMORY;
    for (size_t k = 0; k < grid->rows * grid->columns; k++)
        grid->cells[k] = cell_of(grid->values + k * seeds, seeds, present);
    return BO_OK;
}

bo_status lab_result_finish(bo_context *context, bo_lab_result *result)
{
    const bo_lab_experiment *about = &result->experiment->about;
    for (size_t i = 0; i < about->claim_count; i++)
        result->outcomes[i] = outcome_of(&about->claims[i], result->claims + i * result->seeds, result->seeds);
    for (size_t i = 0; i < about->table_count; i++) {
        sort_rows(&result->grids[i], result->seeds);
        BO_TRY(fill_cells(context, &result->grids[i], result->seeds));
    }
    return BO_OK;
}

/* ---- public functions ------------------------------------------------------------------------ */

bo_lab_about bo_lab_result_about(const bo_lab_result *result)
{
    return (bo_lab_about){.experiment = &result->experiment->about,
                          .quick = result->quick,
                          .seeds = result->seeds,
                          .seed = result->seed,
                          .text = result->text,
                          .images = result->images,
                          .threads = result->threads,
                          .isa = result->isa,
                          .version = result->version,
                          .seconds = result->seconds};
}

size_t bo_lab_result_count(const bo_lab_result *result, bo_lab_verdict verdict)
{
    size_t count = 0;
    for (size_t i = 0; i < result->experiment->about.claim_count; i++) count += result->outcomes[i].verdict == verdict;
    return count;
}

bo_lab_verdict bo_lab_result_verdict(const bo_lab_result *result)
{
    if (bo_lab_result_count(result, BO_LAB_FAILED)) return BO_LAB_FAILED;
    return bo_lab_result_count(result, BO_LAB_HELD) == result->experiment->about.claim_count ? BO_LAB_HELD
                                                                                             : BO_LAB_INCONCLUSIVE;
}

bo_lab_outcome bo_lab_result_claim(const bo_lab_result *result, size_t index)
{
    return result->outcomes[index];
}

bo_lab_grid bo_lab_result_table(const bo_lab_result *result, size_t index)
{
    const lab_grid *grid = &result->grids[index];
    return (bo_lab_grid){.table = &result->experiment->about.tables[index],
                         .rows = grid->rows,
                         .columns = grid->columns,
                         .numbers = grid->numbers,
                         .x = grid->numbers ? grid->x : NULL,
                         .row_names = (const char *const *)grid->row_names,
                         .column_names = (const char *const *)grid->column_names,
                         .cells = grid->cells};
}

size_t bo_lab_result_notes(const bo_lab_result *result)
{
    return result->note_count;
}

const char *bo_lab_result_note(const bo_lab_result *result, size_t index)
{
    return result->notes[index];
}
