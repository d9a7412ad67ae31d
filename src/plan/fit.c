/* Costs from timings. */
#include "plan.h"
#include <math.h>
#include <string.h>

/* ---- non-negative least squares ------------------------------------------------------------------------------------------------ */

/* A symmetric positive definite system in place, by Cholesky; false where it is none to working precision. Columns have been
 * scaled to norm 1. */
static bool solve(size_t n, double a[BO_PLAN_TERMS][BO_PLAN_TERMS], double *b)
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

/* The least squares of the terms of `set` alone; false: not determined. */
static bool solve_set(size_t rows, const double (*a)[BO_PLAN_TERMS], const double *y, unsigned set,
                      double x[BO_PLAN_TERMS])
{
    double normal[BO_PLAN_TERMS][BO_PLAN_TERMS] = {{0}}, right[BO_PLAN_TERMS] = {0}, size[BO_PLAN_TERMS];
    size_t of[BO_PLAN_TERMS], n = 0;
    for (size_t t = 0; t < BO_PLAN_TERMS; t++) {
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

static double residual(size_t rows, const double (*a)[BO_PLAN_TERMS], const double *y, const double x[BO_PLAN_TERMS])
{
    double sum = 0;
    for (size_t r = 0; r < rows; r++) {
        double e = -y[r];
        for (size_t t = 0; t < BO_PLAN_TERMS; t++) e += a[r][t] * x[t];
        sum += e * e;
    }
    return sum;
}

bool bo_plan_least_squares(size_t rows, const double (*a)[BO_PLAN_TERMS], const double *y, unsigned terms,
                           double x[BO_PLAN_TERMS])
{
    double best = INFINITY, tried[BO_PLAN_TERMS];
    for (unsigned set = 1; set < 1u << BO_PLAN_TERMS; set++) {
        bool fits = (set & ~terms) == 0 && solve_set(rows, a, y, set, tried);
        for (size_t t = 0; fits && t < BO_PLAN_TERMS; t++) fits = tried[t] >= 0;
        if (!fits) continue;
        const double left = residual(rows, a, y, tried);
        if (left < best) {
            best = left;
            memcpy(x, tried, sizeof tried);
        }
    }
    return isfinite(best);
}

/* ---- a machine ------------------------------------------------------------------------------------------------------------------ */

static const char *const names[] = {"layers", "copies", "operations", "attention"};

const char *bo_plan_term_name(bo_plan_term term)
{
    return (unsigned)term < BO_PLAN_TERMS ? names[term] : NULL;
}

static double predict(const double cost[BO_PLAN_TERMS], const double terms[BO_PLAN_TERMS])
{
    double sum = 0;
    for (size_t t = 0; t < BO_PLAN_TERMS; t++) sum += cost[t] * terms[t];
    return sum;
}

/* Rows of counts over seconds: costs times one of them should be 1. */
typedef struct row_set {
    size_t count;
    double rows[BO_PLAN_SHAPES][BO_PLAN_TERMS], ones[BO_PLAN_SHAPES];
} row_set;

static bool fit_rows(const row_set *set, unsigned terms, double cost[BO_PLAN_TERMS])
{
    return bo_plan_least_squares(set->count, (const double(*)[BO_PLAN_TERMS])set->rows, set->ones, terms, cost);
}

/* Every shape predicted from the others. */
static double left_out_error(const row_set *set, unsigned terms)
{
    double sum = 0;
    for (size_t left = 0; left < set->count; left++) {
        double cost[BO_PLAN_TERMS];
        row_set others = *set;
        memmove(others.rows[left], others.rows[--others.count], sizeof others.rows[0]); /* of the last: itself */
        if (!fit_rows(&others, terms, cost)) return NAN;
        const double e = predict(cost, set->rows[left]) - 1;
        sum += e * e;
    }
    return sqrt(sum / (double)set->count);
}

static bo_status fill_rows(bo_context *context, const bo_plan_machine *machine, row_set *out)
{
    out->count = machine->count;
    for (size_t i = 0; i < machine->count; i++) {
        const bo_plan_timing *timing = &machine->timings[i];
        bo_plan_counts counts;
        if (!(timing->seconds > 0 && isfinite(timing->seconds)))
            return bo_fail(context, BO_INVALID, "timing %zu: expected positive seconds, found %g", i, timing->seconds);
        BO_TRY(bo_plan_count(context, &timing->shape, &counts));
        bo_plan_terms_of(&counts, out->rows[i]);
        for (size_t t = 0; t < BO_PLAN_TERMS; t++) out->rows[i][t] /= timing->seconds;
        out->ones[i] = 1;
    }
    return BO_OK;
}

/* Copies them with defaults filled in. */
static bo_status take_timings(bo_context *context, const bo_plan_timing *timings, bo_plan_machine *machine)
{
    for (size_t i = 0; i < machine->count; i++) {
        bo_plan_timing *own = &machine->timings[i];
        *own = timings[i];
        BO_TRY(bo_plan_resolve(context, &timings[i].shape, &own->shape));
        if (own->shape.attention != machine->timings[0].shape.attention ||
            own->shape.optimizer != machine->timings[0].shape.optimizer)
            return bo_fail(context, BO_INVALID, "timing %zu: expected the attention and optimizer of the first, %s", i,
                           machine->timings[0].shape.attention);
    }
    return BO_OK;
}

bo_status bo_plan_fit(bo_context *context, const bo_plan_timing *timings, size_t count, unsigned terms,
                      bo_plan_machine *out)
{
    const unsigned all = (1u << BO_PLAN_TERMS) - 1, used = terms ? terms & all : all;
    row_set set;
    *out = (bo_plan_machine){.count = count, .threads = bo_context_threads(context)};
    strncat(out->isa, bo_context_isa(context), sizeof out->isa - 1);
    if (count <= BO_PLAN_TERMS || count > BO_PLAN_SHAPES)
        return bo_fail(context, BO_INVALID, "timings to fit: expected %d to %d, found %zu", BO_PLAN_TERMS + 1,
                       BO_PLAN_SHAPES, count);
    BO_TRY(take_timings(context, timings, out));
    BO_TRY(fill_rows(context, out, &set));
    if (!fit_rows(&set, used, out->cost))
        return bo_fail(context, BO_NUMERIC, "%zu timings do not determine the costs of a step", count);
    out->error = left_out_error(&set, used);
    return BO_OK;
}

/* Two deviations each way, of a factor. */
bo_plan_range bo_plan_step_of(const bo_plan_machine *machine, const bo_plan_counts *counts)
{
    double terms[BO_PLAN_TERMS];
    bo_plan_terms_of(counts, terms);
    const double seconds = predict(machine->cost, terms), factor = 1 + 2 * machine->error;
    return (bo_plan_range){seconds, seconds / factor, seconds * factor};
}

bo_status bo_plan_step(bo_context *context, const bo_plan_machine *machine, const bo_plan_shape *shape,
                       bo_plan_range *out)
{
    bo_plan_shape s;
    bo_plan_head head;
    const bo_plan_shape *measured = &machine->timings[0].shape;
    BO_TRY(bo_plan_resolve(context, shape, &s));
    if (!bo_same_name(s.attention, measured->attention) || s.optimizer != measured->optimizer)
        return bo_fail(context, BO_INVALID, "the machine was measured with %s and %s, not %s and %s",
                       measured->attention, bo_optimizer_kind_name(measured->optimizer), s.attention,
                       bo_optimizer_kind_name(s.optimizer));
    BO_TRY(bo_plan_head_of(context, &s, &head));
    const bo_plan_counts counts = bo_plan_count_with(&s, &head);
    *out = bo_plan_step_of(machine, &counts);
    return BO_OK;
}
