#include "statistics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Corrects the rounding error of the first pass, so that the mean of equal numbers is exact. */
double lab_mean(const double *values, size_t count)
{
    double sum = 0, rest = 0;
    if (count == 0) return NAN;
    for (size_t i = 0; i < count; i++) sum += values[i];
    const double mean = sum / (double)count;
    if (!isfinite(mean)) return mean;
    for (size_t i = 0; i < count; i++) rest += values[i] - mean;
    return mean + rest / (double)count;
}

double lab_deviation(const double *values, size_t count)
{
    if (count < 2) return 0;
    const double mean = lab_mean(values, count);
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (values[i] - mean) * (values[i] - mean);
    return sqrt(sum / (double)(count - 1));
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double lab_median(const double *values, size_t count)
{
    enum { CAPACITY = 4096 };
    double sorted[CAPACITY];
    if (count == 0 || count > CAPACITY) return NAN;
    for (size_t i = 0; i < count; i++)
        if (isnan(values[i])) return NAN;
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    return 0.5 * (sorted[(count - 1) / 2] + sorted[count / 2]);
}

/* Sums of squares and products about the means. */
typedef struct scatter {
    double xx, xy, yy;
} scatter;

static scatter scatter_of(const double *x, const double *y, size_t count)
{
    const double x_mean = lab_mean(x, count), y_mean = lab_mean(y, count);
    scatter s = {0};
    for (size_t i = 0; i < count; i++) {
        s.xx += (x[i] - x_mean) * (x[i] - x_mean);
        s.xy += (x[i] - x_mean) * (y[i] - y_mean);
        s.yy += (y[i] - y_mean) * (y[i] - y_mean);
    }
    return s;
}

double lab_slope(const double *x, const double *y, size_t count)
{
    const scatter s = scatter_of(x, y, count);
    return s.xx > 0 ? s.xy / s.xx : NAN;
}

double lab_exponent(const double *x, const double *y, size_t count)
{
    double x_mean = 0, y_mean = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(x[i] > 0 && y[i] > 0)) return NAN;
        x_mean += log(x[i]) / (double)count;
        y_mean += log(y[i]) / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        xx += (log(x[i]) - x_mean) * (log(x[i]) - x_mean);
        xy += (log(x[i]) - x_mean) * (log(y[i]) - y_mean);
    }
    return xx > 0 ? xy / xx : NAN;
}

double lab_correlation(const double *x, const double *y, size_t count)
{
    const scatter s = scatter_of(x, y, count);
    return s.xx > 0 && s.yy > 0 ? s.xy / sqrt(s.xx * s.yy) : NAN;
}

double lab_student_99(size_t freedom)
{
    static const double table[] = {63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169,
                                   3.106,  3.055, 3.012, 2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845,
                                   2.831,  2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750};
    const size_t known = sizeof table / sizeof *table;
    const double z = 2.575829;
    if (freedom == 0) return NAN;
    if (freedom <= known) return table[freedom - 1];
    /* Two terms of the Cornish-Fisher expansion. */
    const double n = (double)freedom, z3 = z * z * z, z5 = z3 * z * z;
    return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n);
}
