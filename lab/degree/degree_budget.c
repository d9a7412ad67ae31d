/* Budgets: how many layers of a degree they allow, and widths with equal numbers of trained parameters. */
#include "degree.h"
#include <math.h>
#include <stdio.h>

const char *const lab_degree_names[LAB_DEGREES] = {"2", "e", "3", "4"};
const char *const lab_degree_forms[LAB_FORMS] = {"as written", "with output matrix"};

size_t lab_degree_layers(lab_degree_form form, size_t degree, size_t matrices)
{
    static const size_t factors[LAB_DEGREES] = {2, 2, 3, 4};
    const size_t cost = factors[degree] + (form == LAB_OUTPUT), layers = (matrices + cost / 2) / cost;
    return layers ? layers : 1;
}

static const double tolerance = 0.005; /* two degrees then differ by at most 1% */

bo_status lab_degree_complete(lab_degree_count count, void *user, double budget, lab_degree_shape *shape, double *found)
{
    double one, two;
    shape->more = 0;
    BO_TRY(count(user, *shape, &one));
    shape->more = 1;
    BO_TRY(count(user, *shape, &two));
    shape->more = (int)lround((budget - one) / (two - one));
    *found = one + (two - one) * shape->more;
    return BO_OK;
}

bo_status lab_degree_balance(lab_run *run, lab_degree_count count, void *user, size_t width, double budget,
                             lab_degree_shape *out)
{
    enum { LESS = 10, MORE = 6 };
    double best = INFINITY;
    for (size_t w = width - LESS; w <= width + MORE; w++) {
        lab_degree_shape shape = {.width = w};
        double found;
        BO_TRY(lab_degree_complete(count, user, budget, &shape, &found));
        const double size = fabs((double)shape.more);
        if (fabs(found / budget - 1) > tolerance || size > (double)w / 2 || size >= best) continue;
        best = size;
        *out = shape;
    }
    if (isfinite(best)) return BO_OK;
    return bo_fail(lab_context(run), BO_INVALID, "no width near %zu has %g parameters within 0.5%%", width, budget);
}

double lab_degree_margin_3(const double numbers[LAB_DEGREES])
{
    return log(fmin(numbers[LAB_D2], numbers[LAB_D4]) / numbers[LAB_D3]);
}

double lab_degree_margin_e(const double numbers[LAB_DEGREES])
{
    return log(fmin(fmin(numbers[LAB_D2], numbers[LAB_D3]), numbers[LAB_D4]) / numbers[LAB_DE]);
}

double lab_degree_spread(const double numbers[LAB_DEGREES])
{
    double min = INFINITY, max = 0;
    for (size_t i = 0; i < LAB_DEGREES; i++) min = fmin(min, numbers[i]), max = fmax(max, numbers[i]);
    return max / min - 1;
}

void lab_degree_record(lab_run *run, const char *table, const char *row, const double numbers[LAB_DEGREES])
{
    for (size_t i = 0; i < LAB_DEGREES; i++) {
        char column[16];
        snprintf(column, sizeof column, "d = %s", lab_degree_names[i]);
        lab_cell(run, table, row, column, numbers[i]);
    }
}

void lab_degree_fair(lab_run *run, const lab_degree_totals *totals)
{
    lab_claim(run, "budget", totals->spread);
    lab_claim(run, "converged", totals->settled / totals->trained);
}
