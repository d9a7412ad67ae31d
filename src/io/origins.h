/* Origins of columns: values far from 0 are differences from an origin, so that float32 holds them. */
#ifndef BO_IO_ORIGINS_H
#define BO_IO_ORIGINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BO_SKETCH_VALUES = 64 };

/* A sample of the distinct values of a column. It depends neither on their order nor on their counts: the hash of a
 * value selects a place, and each place keeps the value with the largest hash. All zero: empty. */
typedef struct bo_value_sketch {
    uint64_t hash[BO_SKETCH_VALUES];
    double value[BO_SKETCH_VALUES];
} bo_value_sketch;

/* Ignores 0 and NaN. */
void bo_sketch_add(bo_value_sketch *sketch, double value);

/* The origin of a column whose values other than 0 are from `low` to `high`: 0, or a number among them. Zeros are
 * ignored: a 0 often means a missing time or place, and the difference of a single value needs no precision. A few
 * other values far from the rest, such as -1 or 9999999999, are ignored too; the sketch, which may be NULL, identifies
 * them. */
double bo_origin_of(double low, double high, const bo_value_sketch *sketch);
/* x := value - origin in float32. False if the value or the difference is beyond the range of float32, or NaN. */
bool bo_origin_narrow(double value, double origin, float *x);

#endif
