/* A model trained at several learning rates: the best rate, and the loss at other rates. */
#ifndef BO_LAB_LEARNING_RATES_H
#define BO_LAB_LEARNING_RATES_H

#include <stddef.h>

enum { LAB_MAX_RATES = 16 };

/* Rates ascend, evenly spaced on a logarithmic scale; losses are finite. */
typedef struct lab_rates {
    size_t count;
    double rates[LAB_MAX_RATES], losses[LAB_MAX_RATES];
} lab_rates;

/* Returns `count` rates starting at `first`, each `factor` times the previous; losses are NAN. */
lab_rates lab_rates_make(size_t count, double first, double factor);
size_t lab_rates_best(const lab_rates *r); /* index of the smallest loss */
/* The minimum of a parabola through the best rate and its neighbors, over the logarithm of the rate; at an end, that
 * end. */
double lab_rates_between(const lab_rates *r);
/* The loss at any rate, by linear interpolation over the logarithm; beyond the ends, the loss of the end. */
double lab_rates_loss(const lab_rates *r, double rate);

#endif
