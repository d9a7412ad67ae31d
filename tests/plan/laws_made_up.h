/* Simulated runs of a known loss law and a known time law. */
#ifndef TEST_PLAN_LAWS_MADE_UP_H
#define TEST_PLAN_LAWS_MADE_UP_H

#include "plan/plan.h"
#include "base/rng.h"
#include "testing.h"

enum { SIZES = 5, LENGTHS = 3, GRID = SIZES * LENGTHS };
/* floor, size, size_power, data, data_power */
static const double true_law[5] = {0.8, 30, 0.35, 150, 0.42};
static const double true_cost[3] = {4e-4, 5e-11, 1e-11};
static const bo_plan_family family = {.config = "{}", .batch = 8, .threads = 1, .isa = "generic"};

static inline double true_loss(double parameters, double bytes)
{
    return true_law[0] + true_law[1] * pow(parameters, -true_law[2]) + true_law[3] * pow(bytes, -true_law[4]);
}

/* Counts of the form of a transformer with 1024 tokens per step. */
static inline bo_plan_counts counts_of(double layers, double width)
{
    const double weights = 12 * layers * width * width;
    return (bo_plan_counts){.parameters = 256 * width + weights,
                            .tokens = 1024,
                            .layers = layers,
                            .copies = 3 * 40 * 1024 * layers * width + 20 * weights,
                            .operations = 6 * 1024 * weights};
}

static inline double true_step(const bo_plan_counts *counts)
{
    return true_cost[0] * counts->layers + true_cost[1] * counts->copies + true_cost[2] * counts->operations;
}

static inline bo_plan_observation observation(double layers, double width, double bytes)
{
    bo_plan_observation o = {.name = "a run", .counts = counts_of(layers, width), .bytes = bytes};
    o.loss = true_loss(o.counts.parameters, bytes);
    o.seconds = true_step(&o.counts);
    return o;
}

/* Losses and times deviate by normal noise of these relative sizes. */
static inline void grid(bo_plan_observation runs[GRID], double noise, double time_noise, uint64_t seed)
{
    static const double layers[SIZES] = {1, 2, 2, 6, 4}, width[SIZES] = {32, 48, 96, 64, 128};
    bo_rng rng = bo_rng_make(seed, 1);
    for (size_t i = 0; i < GRID; i++) {
        runs[i] = observation(layers[i % SIZES], width[i % SIZES], 2e5 * pow(3, (double)(i / SIZES)));
        runs[i].loss *= exp(noise * bo_rng_normal(&rng));
        runs[i].seconds *= exp(time_noise * bo_rng_normal(&rng));
    }
}

static inline bo_plan_laws *fit_grid(bo_context *context, const bo_plan_observation *runs, size_t count)
{
    bo_plan_laws *laws;
    assert_ok(context, bo_plan_laws_fit(context, &family, runs, count, &laws));
    return laws;
}

static inline bool holds(bo_plan_range range, double truth)
{
    return range.low <= truth && truth <= range.high;
}

/* Simulates a set of runs with this seed and counts the intervals that contain the truth: 5 parameters, and the loss
 * and the step of a new, larger run. */
static inline void hold_truth(bo_context *context, uint64_t seed, const bo_plan_counts *far, size_t covered[7])
{
    bo_plan_observation runs[GRID];
    bo_plan_forecast f;
    bo_rng rng = bo_rng_make(seed, 2);
    grid(runs, 0.01, 0.03, 100 + seed);
    bo_plan_laws *laws = fit_grid(context, runs, GRID);
    assert_ok(context, bo_plan_forecast_run(context, laws, far, 6e6, &f));
    for (size_t k = 0; k < 5; k++) covered[k] += holds(laws->loss[k].range, true_law[k]);
    covered[5] += holds(f.loss, true_loss(far->parameters, 6e6) * exp(0.01 * bo_rng_normal(&rng)));
    covered[6] += holds(f.step, true_step(far) * exp(0.03 * bo_rng_normal(&rng)));
    bo_plan_laws_destroy(laws);
}

#endif
