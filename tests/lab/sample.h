/* An experiment for tests, with a measurement function from the test. */
#ifndef BO_TEST_LAB_SAMPLE_H
#define BO_TEST_LAB_SAMPLE_H

#include "testing.h"
#include "lab/internal.h"

/* For use in measurements, which run on other threads, where assertions cannot stop the test. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) return bo_fail(lab_context(run), BO_INVALID, "line %d is false: %s", __LINE__, #condition);  \
    } while (0)

static const bo_lab_claim sample_claims[] = {
    {.name = "mean", .statement = "A mean.", .number = "a number", .rule = BO_LAB_BETWEEN, .bound = -1, .upper = 1},
    {.name = "each", .statement = "Each.", .number = "another", .rule = BO_LAB_EACH_AT_MOST, .bound = 2},
};

static const bo_lab_table sample_tables[] = {
    {.name = "curve", .title = "A curve", .rows = "x", .values = "y", .theory = "theory"},
    {.name = "kinds", .title = "Kinds", .rows = "kind", .values = "y", .plot = BO_LAB_BARS},
};

static inline lab_experiment sample_experiment(bo_status (*measure)(lab_run *run))
{
    return (lab_experiment){{.name = "made",
                             .group = "Made",
                             .title = "Made for a test",
                             .claim = "None.",
                             .source = "here",
                             .method = "None.",
                             LAB_CLAIMS(sample_claims),
                             LAB_TABLES(sample_tables),
                             .text = true,
                             .images = true},
                            measure};
}

/* Records claims, points, cells and notes. */
static inline bo_status sample_measure(lab_run *run)
{
    bo_rng rng = lab_rng(run, "made");
    double sum = 0;
    for (size_t i = 0; i < 8; i++) {
        const double value = bo_rng_normal(&rng);
        sum += value;
        lab_point(run, "curve", "measured", (double)(8 - i), value);
        lab_point(run, "curve", "theory", (double)(8 - i), 0.5);
        BO_TRY(lab_progress(run, (double)i / 8));
    }
    lab_cell(run, "kinds", "first", "a", sum);
    lab_cell(run, "kinds", "second", "b", lab_index(run) == 0 ? NAN : 1.0 / 3);
    lab_claim(run, "mean", 0.01 * sum);
    lab_claim(run, "each", 1);
    lab_note(run, "seed %llu, “%s”", (unsigned long long)lab_seed(run), lab_quick(run) ? "quick" : "full");
    return BO_OK;
}

#endif
