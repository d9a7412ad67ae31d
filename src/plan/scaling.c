/* Robust fits of loss laws: exponents by pattern search, the factors by weighted non-negative least squares. */
#include "scaling.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bounds of exponents: a wide range around published laws for text. */
static const double LOWEST = 0.05, HIGHEST = 1.5;
/* Residuals of log L beyond this many standard deviations count linearly (95% efficiency for normal noise), but never
 * below MIN_DELTA, the threshold of Hoffmann et al. 2022 (arXiv 2203.15556). */
static const double HUBER = 1.345, MIN_DELTA = 1e-3;
enum { THRESHOLDS = 3 };
static const double SAME = 0.05; /* sizes with a smaller relative difference count as equal */

double bo_plan_scaling_at(const bo_plan_scaling_law *law, double size, double data)
{
    return law->floor + (law->size > 0 ? law->size * pow(size, -law->size_power) : 0) +
           (law->data > 0 ? law->data * pow(data, -law->data_power) : 0);
}

/* ---- the form ---------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static size_t distinct(const bo_plan_scaling_point *points, size_t count, bool data)
{
    double values[BO_PLAN_RUNS] = {0};
    size_t found = count ? 1 : 0;
    for (size_t i = 0; i < count; i++) values[i] = log(data ? points[i].data : points[i].size);
    qsort(values, count, sizeof *values, ascending);
    for (size_t i = 1, first = 0; i < count; i++)
        if (values[i] - values[first] > SAME) found++, first = i;
    return found;
}

static bo_plan_origin origin_of(size_t values)
{
    return values < 2 ? BO_PLAN_ORIGIN_ABSENT : values < 3 ? BO_PLAN_ORIGIN_STORED : BO_PLAN_ORIGIN_FITTED;
}

size_t bo_plan_scaling_freedom(const bo_plan_scaling_form *form)
{
    return 1 + (form->size != BO_PLAN_ORIGIN_ABSENT) + (form->data != BO_PLAN_ORIGIN_ABSENT) +
           (form->size == BO_PLAN_ORIGIN_FITTED) + (form->data == BO_PLAN_ORIGIN_FITTED);
}

bool bo_plan_scaling_form_of(const bo_plan_scaling_point *points, size_t count, bo_plan_scaling_form *out)
{
    *out = (bo_plan_scaling_form){origin_of(distinct(points, count, false)), origin_of(distinct(points, count, true))};
    if (count <= bo_plan_scaling_freedom(out) && out->size == BO_PLAN_ORIGIN_FITTED) out->size = BO_PLAN_ORIGIN_STORED;
    if (count <= bo_plan_scaling_freedom(out) && out->data == BO_PLAN_ORIGIN_FITTED) out->data = BO_PLAN_ORIGIN_STORED;
    return count > bo_plan_scaling_freedom(out) && bo_plan_scaling_freedom(out) > 1;
}

bo_status bo_plan_scaling_choose(bo_context *context, const bo_plan_scaling_point *points, size_t count,
                                 bo_plan_scaling_form *out)
{
    if (bo_plan_scaling_form_of(points, count, out)) return BO_OK;
    if (count > 1 && bo_plan_scaling_freedom(out) == 1)
        return bo_fail(context, BO_INVALID,
                       "%zu runs with a final loss have the same size and the same amount of data; train runs that "
                       "differ in one of them",
                       count);
    return bo_fail(context, BO_INVALID,
                   "%zu run%s with a final loss, of %zu different sizes and %zu different amounts of data: expected at "
                   "least %zu runs",
                   count, count == 1 ? "" : "s", distinct(points, count, false), distinct(points, count, true),
                   bo_plan_scaling_freedom(out) < 2 ? 3 : bo_plan_scaling_freedom(out) + 1);
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */

enum { FLOOR, SIZE, DATA };

typedef struct scaling_problem {
    const bo_plan_scaling_point *points;
    size_t count;
    const bo_plan_scaling_form *form;
    double delta; /* INFINITY: least squares */
} scaling_problem;

static double huber(double e, double delta)
{
    const double a = fabs(e);
    return a <= delta ? e * e / 2 : delta * (a - delta / 2);
}

/* The best factors for these exponents by iterated reweighting, and the sum of Huber losses; INFINITY: no solution. */
static double try_powers(const scaling_problem *p, bo_plan_scaling_law *law)
{
    enum { ROUNDS = 8 };
    double rows[BO_PLAN_RUNS][BO_PLAN_TERM_COUNT] = {{0}}, weighted[BO_PLAN_RUNS][BO_PLAN_TERM_COUNT] = {{0}};
    double right[BO_PLAN_RUNS], weight[BO_PLAN_RUNS], factor[BO_PLAN_TERM_COUNT], sum = INFINITY;
    const unsigned terms = 1u << FLOOR | (unsigned)(p->form->size != BO_PLAN_ORIGIN_ABSENT) << SIZE |
                           (unsigned)(p->form->data != BO_PLAN_ORIGIN_ABSENT) << DATA;
    for (size_t i = 0; i < p->count; i++) {
        const bo_plan_scaling_point *q = &p->points[i];
        rows[i][FLOOR] = 1 / q->loss;
        rows[i][SIZE] = terms >> SIZE & 1 ? pow(q->size, -law->size_power) / q->loss : 0;
        rows[i][DATA] = terms >> DATA & 1 ? pow(q->data, -law->data_power) / q->loss : 0;
        weight[i] = 1;
    }
    bool changed = true;
    for (size_t round = 0; round < ROUNDS && changed; round++) {
        for (size_t i = 0; i < p->count; i++) {
            right[i] = sqrt(weight[i]);
            for (size_t t = 0; t <= DATA; t++) weighted[i][t] = rows[i][t] * right[i];
        }
        if (!bo_plan_least_squares(p->count, (const double (*)[BO_PLAN_TERM_COUNT])weighted, right, terms, factor))
            return INFINITY;
        sum = 0;
        changed = false;
        for (size_t i = 0; i < p->count; i++) {
            const double ratio =
                factor[FLOOR] * rows[i][FLOOR] + factor[SIZE] * rows[i][SIZE] + factor[DATA] * rows[i][DATA];
            const double e = log(ratio), next = fabs(e) <= p->delta ? 1 : p->delta / fabs(e);
            if (!(ratio > 0)) return INFINITY;
            changed |= fabs(next - weight[i]) > 1e-3;
            weight[i] = next;
            sum += huber(e, p->delta);
        }
    }
    law->floor = factor[FLOOR], law->size = factor[SIZE], law->data = factor[DATA];
    return sum;
}

/* ---- exponents --------------------------------------------------------------------------------------------------- */

static double moved(double power, double step, bo_plan_origin origin)
{
    return origin == BO_PLAN_ORIGIN_FITTED ? fmin(fmax(power * exp(step), LOWEST), HIGHEST) : power;
}

/* Moves to the best of the 8 neighbors while one is better, then halves the step. */
static double descend(const scaling_problem *p, double step, bo_plan_scaling_law *law)
{
    double best = try_powers(p, law);
    while (step > 1e-3) {
        bo_plan_scaling_law next = *law;
        bool better = false;
        for (int n = 0; n < 9; n++) {
            bo_plan_scaling_law near = *law;
            near.size_power = moved(law->size_power, step * (n % 3 - 1), p->form->size);
            near.data_power = moved(law->data_power, step * (n / 3 - 1), p->form->data);
            if (near.size_power == law->size_power && near.data_power == law->data_power) continue;
            const double sum = try_powers(p, &near);
            if (sum < best) best = sum, next = near, better = true;
        }
        if (better)
            *law = next;
        else
            step /= 2;
    }
    return best;
}

static double find(const scaling_problem *p, const bo_plan_scaling_law *start, bo_plan_scaling_law *out)
{
    static const double powers[] = {0.15, 0.4, 0.9};
    double best = INFINITY;
    for (size_t s = 0; s < 9; s++) {
        bo_plan_scaling_law law = *start;
        if (p->form->size == BO_PLAN_ORIGIN_FITTED) law.size_power = powers[s % 3];
        if (p->form->data == BO_PLAN_ORIGIN_FITTED) law.data_power = powers[s / 3];
        const double sum = descend(p, 0.25, &law);
        if (sum < best) best = sum, *out = law;
    }
    return best;
}

/* The threshold from the median absolute residual of a least-squares fit. */
static double threshold(const scaling_problem *p, const bo_plan_scaling_law *law)
{
    double e[BO_PLAN_RUNS] = {0};
    const double n = (double)p->count, free = n - (double)bo_plan_scaling_freedom(p->form);
    for (size_t i = 0; i < p->count; i++)
        e[i] = fabs(log(bo_plan_scaling_at(law, p->points[i].size, p->points[i].data) / p->points[i].loss));
    qsort(e, p->count, sizeof *e, ascending);
    const double median = (e[p->count / 2] + e[(p->count - 1) / 2]) / 2;
    return fmax(HUBER * 1.4826 * median * sqrt(n / fmax(free, 1)), MIN_DELTA);
}

bool bo_plan_scaling_fit(const bo_plan_scaling_point *points, size_t count, const bo_plan_scaling_form *form,
                         const bo_plan_scaling_law *start, bool near, double *delta, bo_plan_scaling_law *out)
{
    scaling_problem p = {points, count, form, near ? *delta : INFINITY};
    *out = *start;
    if (near) return isfinite(descend(&p, 0.1, out));
    if (!isfinite(find(&p, start, out))) return false;
    /* An outlier widens the first threshold, so it is estimated again. */
    for (size_t round = 0; round < THRESHOLDS; round++) {
        p.delta = *delta = threshold(&p, out);
        bo_plan_scaling_law other;
        const double objective = descend(&p, 0.1, out);
        if (round == 0 && find(&p, start, &other) < objective) *out = other;
    }
    return true;
}
