/* Bochner: how good predictions are, gathered block by block.
 *
 *     bo_metrics *metrics;
 *     bo_metrics_create(context, &(bo_metrics_desc){.targets = 1, .has_std = true}, &metrics);
 *     bo_metrics_add(context, metrics, rows, y, mean, std);              // for each block of rows
 *     printf("RMSE %g, R2 %g\n", bo_metrics_rmse(metrics), bo_metrics_r2(metrics));
 *     bo_metrics_destroy(metrics);
 *
 * bo_machine_create_metrics and bo_machine_evaluate of machines.h do both for a machine. */
#ifndef BOCHNER_METRICS_H
#define BOCHNER_METRICS_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* One of targets and classes is 0. */
typedef struct bo_metrics_desc {
    size_t targets;            /* regression: numbers that are predicted for a row */
    size_t classes;            /* classification: classes to choose from */
    bool has_std;              /* regression: standard deviations come with the predictions */
    size_t points;             /* regression: predictions to keep, for a picture; 0: none */
    const char *const *labels; /* of the classes, for reports; borrowed; NULL: none */
    uint64_t reserved[4];      /* zero: room for later versions */
} bo_metrics_desc;

typedef struct bo_metrics bo_metrics; /* its members are below */

BO_API bo_status bo_metrics_create(bo_context *context, const bo_metrics_desc *desc, bo_metrics **out);
BO_API void bo_metrics_destroy(bo_metrics *metrics);

/* Regression: y, mean and std (NULL without has_std) are rows x targets. What is refused with BO_INVALID adds nothing, here and
 * in the functions below. */
BO_API bo_status bo_metrics_add(bo_context *context, bo_metrics *metrics, size_t rows, const double *y,
                                const double *mean, const double *std);
/* Classification: y are class numbers below `classes`, `predicted` what was chosen, probabilities rows x classes. A
 * probability counts as at least 1e-15: one wrong certainty is not infinite. */
BO_API bo_status bo_metrics_add_classes(bo_context *context, bo_metrics *metrics, size_t rows, const double *y,
                                        const int *predicted, const double *probabilities);

/* Of everything that was added; NAN before the first row. Over all targets. */
BO_API double bo_metrics_rmse(const bo_metrics *metrics);
/* The mean over targets. */
BO_API double bo_metrics_r2(const bo_metrics *metrics);
/* The share inside the 95% interval; NAN without std. */
BO_API double bo_metrics_coverage(const bo_metrics *metrics);
/* In [0, 1]. */
BO_API double bo_metrics_accuracy(const bo_metrics *metrics);
/* The mean, in nats. */
BO_API double bo_metrics_log_loss(const bo_metrics *metrics);

/* ==== Advanced ==================================================================================================== */

/* Half of a 95% interval in standard deviations: Φ⁻¹(0.975). */
#define BO_INTERVAL_95 1.959963984540054

/* Classification, one row: its class, what was chosen, and -log p(truth). */
BO_API bo_status bo_metrics_add_class(bo_context *context, bo_metrics *metrics, size_t truth, size_t predicted,
                                      double loss);

/* bo_metrics_rmse of one target. NAN for a target that does not exist. */
BO_API double bo_metrics_target_rmse(const bo_metrics *metrics, size_t target);
/* Likewise; NAN where the truth does not vary. */
BO_API double bo_metrics_target_r2(const bo_metrics *metrics, size_t target);
/* Likewise. */
BO_API double bo_metrics_target_coverage(const bo_metrics *metrics, size_t target);

/* Of one target. */
typedef struct bo_target_sums {
    double squared_error;           /* Σ (prediction - y)² */
    double mean, squared_deviation; /* of y, by Welford's recurrence: the mean, and Σ (y - mean)² */
    uint64_t covered;               /* predictions with y inside mean ± BO_INTERVAL_95 std */
} bo_target_sums;

/* Made by the library and read-only to callers; later versions may add members at its end. */
struct bo_metrics {
    bo_metrics_desc desc;
    uint64_t rows;
    bo_target_sums *sums; /* regression: one per target */
    uint64_t right;       /* classification: rows whose class was found */
    uint64_t *confusion;  /* classification: classes x classes; the row is the truth, the column what was predicted */
    double log_loss;      /* classification: Σ -log p(truth) */
    /* Regression, first target: all predictions up to desc.points of them, then a uniform sample. */
    size_t points;
    double *truth, *predicted, *deviation; /* deviation is NULL without std */
};

#ifdef __cplusplus
}
#endif
#endif
