/* A model trained at several learning rates: which is best, and what another costs. */
#ifndef BO_LAB_LEARNING_RATES_H
#define BO_LAB_LEARNING_RATES_H

#include <stddef.h>

enum { LAB_MOST_RATES = 16 };

/* Rates ascend, evenly on a logarithmic scale, and losses are finite. */
typedef struct lab_rates {
    size_t count;
    double rates[LAB_MOST_RATES], losses[LAB_MOST_RATES];
} lab_rates;

/* `count` rates from `first` on, each `factor` times the one before; losses NAN. */
lab_rates lab_rates_make(size_t count, double first, double factor);
size_t lab_rates_best(const lab_rates *r); /* the one of least loss */
/* Where a parabola through it and its neighbors, over the logarithm of the rate, is least; at an end, that end. */
double lab_rates_between(const lab_rates *r);
/* Of any rate, on a line over the logarithm between its neighbors; beyond the ends, the end's. */
double lab_rates_loss(const lab_rates *r, double rate);

#endif
