/* Fits costs to timings. */
#include "enums.h"
#include "../optim/enums.h"
#include "plan.h"
#include <math.h>
#include <string.h>

/* ---- non-negative least squares ---------------------------------------------------------------------------------- */

/* Solves a symmetric positive definite system in place by Cholesky. False: it is not positive definite to working
 * precision. Columns have been scaled to norm 1. */
static bool solve(size_t n, double a[BO_PLAN_TERM_COUNT][BO_PLAN_TERM_COUNT], double *b)
{
    for (size_t j = 0; j < n; j++) {
        for (size_t k = 0; k < j; k++) a[j][j] -= a[j][k] * a[j][k];
        if (!(a[j][j] > 1e-10)) return false;
        a[j][j] = sqrt(a[j][j]);
        for (size_t i = j + 1; i < n; i++) {
            for (size_t k = 0; k < j; k++) a[i][j] -= a[i][k] * a[j][k];
            a[i][j] /= a[j][j];
        }
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    for (size_t i = n; i-- > 0;) {
        for (size_t k = i + 1; k < n; k++) b[i] -= a[k][i] * b[k];
        b[i] /= a[i][i];
    }
    return true;
}

/* Least squares over the terms in `set`. False: the solution is not determined. */
static bool solve_set(size_t rows, const double (*a)[BO_PLAN_TERM_COUNT], const double *y, unsigned set,
                      double x[BO_PLAN_TERM_COUNT])
{
    double normal[BO_PLAN_TERM_COUNT][BO_PLAN_TERM_COUNT] = {{0}}, right[BO_PLAN_TERM_COUNT] = {0},
           size[BO_PLAN_TERM_COUNT];
    size_t of[BO_PLAN_TERM_COUNT], n = 0;
    for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) {
        x[t] = 0;
        if (set >> t & 1) of[n++] = t;
    }
    for (size_t i = 0; i < n; i++) {
        double squares = 0;
        for (size_t r = 0; r < rows; r++) squares += a[r][of[i]] * a[r][of[i]];
        size[i] = sqrt(squares);
        if (!(size[i] > 0)) return false;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < rows; r++) {
            const double u = a[r][of[i]] / size[i];
            right[i] += u * y[r];
            for (size_t j = 0; j <= i; j++) normal[i][j] += u * a[r][of[j]] / size[j];
        }
    if (!solve(n, normal, right)) return false;
    for (size_t i = 0; i < n; i++) x[of[i]] = right[i] / size[i];
    return true;
}

static double residual(size_t rows, const double (*a)[BO_PLAN_TERM_COUNT], const double *y,
                       const double x[BO_PLAN_TERM_COUNT])
{
    double sum = 0;
    for (size_t r = 0; r < rows; r++) {
        double e = -y[r];
        for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) e += a[r][t] * x[t];
        sum += e * e;
    }
    return sum;
}

bool bo_plan_least_squares(size_t rows, const double (*a)[BO_PLAN_TERM_COUNT], const double *y, unsigned terms,
                           double x[BO_PLAN_TERM_COUNT])
{
    double best = INFINITY, tried[BO_PLAN_TERM_COUNT];
    for (unsigned set = 1; set < 1u << BO_PLAN_TERM_COUNT; set++) {
        bool fits = (set & ~terms) == 0 && solve_set(rows, a, y, set, tried);
        for (size_t t = 0; fits && t < BO_PLAN_TERM_COUNT; t++) fits = tried[t] >= 0;
        if (!fits) continue;
        const double left = residual(rows, a, y, tried);
        if (left < best) {
            best = left;
            memcpy(x, tried, sizeof tried);
        }
    }
    return isfinite(best);
}

/* ---- a host ------------------------------------------------------------------------------------------------------ */

static const char *const names[BO_PLAN_TERM_COUNT] = {"layers", "copies", "operations", "attention"};

BO_NAMED(plan_term, bo_plan_term, names)

static double predict(const double cost[BO_PLAN_TERM_COUNT], const double terms[BO_PLAN_TERM_COUNT])
{
    double sum = 0;
    for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) sum += cost[t] * terms[t];
    return sum;
}

/* Rows of counts divided by seconds: costs times a row should give 1. */
typedef struct row_set {
    size_t count;
    double rows[BO_PLAN_SHAPES][BO_PLAN_TERM_COUNT], ones[BO_PLAN_SHAPES];
} row_set;

static bool fit_rows(const row_set *set, unsigned terms, double cost[BO_PLAN_TERM_COUNT])
{
    return bo_plan_least_squares(set->count, (const double (*)[BO_PLAN_TERM_COUNT])set->rows, set->ones, terms, cost);
}

/* Leave-one-out error: each shape is predicted from the others. */
static double left_out_error(const row_set *set, unsigned terms)
{
    double sum = 0;
    for (size_t left = 0; left < set->count; left++) {
        double cost[BO_PLAN_TERM_COUNT];
        row_set remaining = *set;
        /* for the last row, source and destination are equal */
        memmove(remaining.rows[left], remaining.rows[--remaining.count], sizeof remaining.rows[0]);
        if (!fit_rows(&remaining, terms, cost)) return NAN;
        const double e = predict(cost, set->rows[left]) - 1;
        sum += e * e;
    }
    return sqrt(sum / (double)set->count);
}

static bo_status fill_rows(bo_context *context, const bo_plan_host *host, row_set *out)
{
    out->count = host->timing_count;
    for (size_t i = 0; i < host->timing_count; i++) {
        const bo_plan_timing *timing = &host->timings[i];
        bo_plan_counts counts;
        if (!(timing->seconds > 0 && isfinite(timing->seconds)))
            return bo_fail(context, BO_INVALID, "timing %zu: expected positive seconds, found %g", i, timing->seconds);
        BO_TRY(bo_plan_count(context, &timing->shape, &counts));
        bo_plan_terms_of(&counts, out->rows[i]);
        for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) out->rows[i][t] /= timing->seconds;
        out->ones[i] = 1;
    }
    return BO_OK;
}

/* A cost model and the memory that it points to, in one block. */
typedef struct host_block {
    bo_plan_host host; /* first member: the pointer that the caller frees */
    double costs[BO_PLAN_TERM_COUNT];
    char isa[24];
    bo_plan_timing timings[];
} host_block;

/* Copies the timings with defaults filled in. */
static bo_status copy_timings(bo_context *context, const bo_plan_timing *timings, size_t count, bo_plan_timing *out)
{
    for (size_t i = 0; i < count; i++) {
        BO_TRY(bo_check_reserved(context, "bo_plan_timing", timings[i].reserved));
        out[i] = timings[i];
        BO_TRY(bo_plan_resolve(context, &timings[i].shape, &out[i].shape));
        if (out[i].shape.attention != out[0].shape.attention || out[i].shape.optimizer != out[0].shape.optimizer)
            return bo_fail(context, BO_INVALID,
                           "timing %zu: expected the same attention and optimizer as in the first timing, %s", i,
                           out[0].shape.attention);
    }
    return BO_OK;
}

static bo_status fit_block(bo_context *context, const bo_plan_timing *timings, unsigned terms, host_block *block)
{
    const unsigned all = (1u << BO_PLAN_TERM_COUNT) - 1, used = terms ? terms & all : all;
    bo_plan_host *host = &block->host;
    row_set set;
    BO_TRY(copy_timings(context, timings, host->timing_count, block->timings));
    BO_TRY(fill_rows(context, host, &set));
    if (!fit_rows(&set, used, block->costs))
        return bo_fail(context, BO_NUMERIC, "%zu timings do not determine the costs of a step", host->timing_count);
    host->error = left_out_error(&set, used);
    return BO_OK;
}

bo_status bo_plan_host_fit_as(bo_context *context, const char *isa, int threads, const bo_plan_timing *timings,
                              size_t count, unsigned terms, bo_plan_host **out)
{
    *out = NULL;
    if (count <= BO_PLAN_TERM_COUNT || count > BO_PLAN_SHAPES)
        return bo_fail(context, BO_INVALID, "timings to fit: expected %d to %d, found %zu", BO_PLAN_TERM_COUNT + 1,
                       BO_PLAN_SHAPES, count);
    host_block *block = bo_alloc(context, 1, sizeof *block + count * sizeof block->timings[0], "step costs of a host");
    if (!block) return BO_MEMORY;
    strncat(block->isa, isa, sizeof block->isa - 1);
    block->host = (bo_plan_host){.isa = block->isa,
                                 .threads = threads,
                                 .costs = block->costs,
                                 .cost_count = BO_PLAN_TERM_COUNT,
                                 .timings = block->timings,
                                 .timing_count = count};
    const bo_status status = fit_block(context, timings, terms, block);
    if (status == BO_OK)
        *out = &block->host;
    else
        bo_free(block);
    return status;
}

bo_status bo_plan_host_fit(bo_context *context, const bo_plan_timing *timings, size_t count, unsigned terms,
                           bo_plan_host **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    BO_REQUIRE_IF(context, count > 0, timings);
    return bo_plan_host_fit_as(context, bo_context_describe(context)->isa, bo_context_threads(context), timings, count,
                               terms, out);
}

void bo_plan_host_destroy(bo_plan_host *host)
{
    bo_free(host);
}

/* Two standard deviations each way, as a factor. */
bo_plan_range bo_plan_step_of(const bo_plan_host *host, const bo_plan_counts *counts)
{
    double terms[BO_PLAN_TERM_COUNT];
    bo_plan_terms_of(counts, terms);
    const double seconds = predict(host->costs, terms), factor = 1 + 2 * host->error;
    return (bo_plan_range){seconds, seconds / factor, seconds * factor};
}

bo_status bo_plan_step(bo_context *context, const bo_plan_host *host, const bo_plan_shape *shape, bo_plan_range *out)
{
    BO_REQUIRE(context, host, shape, out);
    BO_REQUIRE(context, host->timings);
    bo_plan_shape s;
    bo_plan_head head;
    const bo_plan_shape *measured = &host->timings[0].shape;
    BO_TRY(bo_plan_resolve(context, shape, &s));
    if (!bo_same_name(s.attention, measured->attention) || s.optimizer != measured->optimizer)
        return bo_fail(context, BO_INVALID,
                       "the calibration was measured with %s and %s, not %s and %s; calibrate again for these settings",
                       measured->attention, bo_optimizer_kind_name(measured->optimizer), s.attention,
                       bo_optimizer_kind_name(s.optimizer));
    BO_TRY(bo_plan_head_of(context, &s, &head));
    const bo_plan_counts counts = bo_plan_count_with(&s, &head);
    *out = bo_plan_step_of(host, &counts);
    return BO_OK;
}
