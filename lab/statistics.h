/* Descriptive statistics. */
#ifndef BO_LAB_STATISTICS_H
#define BO_LAB_STATISTICS_H

#include <stddef.h>

double lab_mean(const double *values, size_t count);
double lab_deviation(const double *values, size_t count); /* sample standard deviation (n - 1); 0 for one number */
double lab_median(const double *values, size_t count);    /* sorts a copy; NAN for no numbers or more than 4096 */
/* The least-squares slope of y over x. NAN if there are fewer than two different x. */
double lab_slope(const double *x, const double *y, size_t count);
/* The slope of log y over log x, the exponent of a power law. NAN if a number is not positive. */
double lab_exponent(const double *x, const double *y, size_t count);
double lab_correlation(const double *x, const double *y, size_t count);
/* t with P(|T| <= t) = 0.99 for Student's distribution with `freedom` >= 1 degrees of freedom. */
double lab_student_99(size_t freedom);

#endif
