/* Origins of columns: values far from 0 are differences from an origin, so that float32 holds them. */
#ifndef BO_IO_ORIGINS_H
#define BO_IO_ORIGINS_H

#include <stdbool.h>

/* The origin of a column whose values other than 0 are from `low` to `high`: 0, or a number among them. Zeros do not count: often a
 * 0 stands for a missing time or place, and the difference of a single value needs no precision. */
double bo_origin_of(double low, double high);
/* x := value - origin in float32. False if the value or the difference is beyond the range of float32, or NaN. */
bool bo_origin_narrow(double value, double origin, float *x);

#endif
