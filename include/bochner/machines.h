/* Bochner: kernel machines. Ridge regression and classification on random features: one linear system instead of an
 * n x n kernel matrix, in memory or in one pass over a stream, with nothing to tune.
 *
 *     bo_machine_desc desc = {.task = BO_TASK_REGRESSION};                 // zero: every default
 *     bo_samples train = {.rows = n, .dim = d, .targets = 1, .x = x, .y = y};
 *     bo_machine *machine;
 *     bo_machine_fit(context, &desc, &train, &machine);
 *     bo_machine_predict(context, machine, m, x_new, d, mean, std);        // std or NULL
 *     bo_machine_destroy(machine);
 *
 * With a fifth of a table's rows held out for a test, as `bochner fit --holdout 0.2` does:
 *
 *     bo_data *train, *test;
 *     bo_metrics *metrics;
 *     bo_table_load(context, &(bo_table_desc){.data = {.path = "t.csv"}, .split = {.test = 0.2}}, &train, NULL,
 *                   &test);
 *     bo_samples samples;
 *     bo_data_get_samples(train, &samples);
 *     bo_machine_fit(context, &desc, &samples, &machine);
 *     bo_machine_create_metrics(context, machine, 0, &metrics);
 *     bo_machine_evaluate(context, machine, test->rows, test->x, test->dim, test->y, metrics);
 *     printf("%g\n", bo_metrics_rmse(metrics));
 *
 * The model is f(x) = β·φ(s(x)) + b: s scales the inputs as the training data asks, φ are `features` random features.
 * β minimizes Σ_i w_i |f(x_i) - y_i|² + λ|β|², no factor n; the intercept b is not penalized. */
#ifndef BOCHNER_MACHINES_H
#define BOCHNER_MACHINES_H

#include <bochner/base.h>
#include <bochner/data.h>
#include <bochner/features.h>
#include <bochner/metrics.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

typedef struct bo_machine bo_machine;

/* ---- describe ---------------------------------------------------------------------------------------------------- */

typedef enum bo_loss {
    /* LOGISTIC for classes of at least as many rows as features, fitted in memory by the primal solver without
     * noise or dropout; else RIDGE */
    BO_LOSS_AUTO = 0,
    BO_LOSS_RIDGE = 1, /* squares; for classes one-vs-all with targets ±1, probabilities calibrated afterwards */
    /* multinomial, classification only: Σ w (log Σ_c exp f_c - f_y) + λ/2 |β|². More often right than RIDGE, for a
     * few times the work */
    BO_LOSS_LOGISTIC = 2
} bo_loss;

typedef enum bo_solver {
    BO_SOLVER_AUTO = 0,
    BO_SOLVER_PRIMAL = 1, /* Cholesky of the R x R Gram matrix */
    BO_SOLVER_DUAL = 2,   /* Cholesky of the n x n kernel matrix ZZᵀ: for R > n */
    BO_SOLVER_CG = 3,     /* preconditioned conjugate gradients: memory for 1024 rows of features instead of R² */
    BO_SOLVER_SGD = 4     /* mini-batches of 256 rows, the step from the spectrum; as little memory as CG */
    /* CG and SGD hold a tenth of the rows back (at most 1024; none below 200) to measure their error and calibrate
     * probabilities; those rows are not learned from */
} bo_solver;

typedef enum bo_scaling {
    BO_SCALING_AUTO = 0, /* COMMON when the inputs share one unit (bo_samples.common_unit), else COLUMNS */
    /* each column to mean 0, deviation 1, and what is farther than 5 deviations counted as 5; constant columns are
     * dropped */
    BO_SCALING_COLUMNS = 1,
    BO_SCALING_COMMON = 2, /* columns centered, then one factor for all: mean variance 1 */
    BO_SCALING_NONE = 3
} bo_scaling;

/* How products of features are summed into the Gram matrix. The sums themselves are float64 always. */
typedef enum bo_precision {
    BO_PRECISION_AUTO = 0, /* the coarsest that λ does not notice */
    /* features rounded to 8 bits (when predicting too), their products exact integers: several times the speed of
     * float32. For sin/cos and cos-with-bias features of rows that weigh the same. The rounding acts like noise on
     * the features, λ = n σ²; AUTO takes it when that is below λ/40 */
    BO_PRECISION_INT8 = 1,
    BO_PRECISION_FLOAT32 = 2,
    BO_PRECISION_FLOAT64 = 3 /* where λ is below about 1e-6 of the largest eigenvalue */
} bo_precision;

typedef struct bo_machine_desc {
    bo_task task; /* AUTO: by bo_samples.classes */
    bo_loss loss;
    bo_solver solver;
    bo_scaling scaling;
    /* the map; dim, seed and sample are set by fit. features (default: 4096, or as many as an exact map has; see
     * bo_machine_estimate); gamma (default: chosen); draw etc. as in features.h */
    bo_features_desc features;
    double lambda; /* (default: chosen) */
    bool no_intercept;
    double noise; /* standard deviation of noise added to the features, in expectation: λ += n σ² */
    /* probability that a feature is dropped while fitting, in expectation: a ridge on the column norms */
    double dropout;
    bool balanced;              /* classes weigh the same however many rows they have */
    const float *class_weights; /* `classes` numbers, or NULL */
    bo_precision precision;
    size_t stream_rows; /* streams: how many rows will come, where known (default: as many as the sample has) */
    size_t
        memory; /* bytes that fitting may use (default: three quarters of the machine's). Decides PRIMAL against CG */
    uint64_t seed;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_machine_desc;

/* Rows to learn from. */
typedef struct bo_samples {
    size_t rows, dim, targets;
    const float *x;  /* rows x dim */
    const double *y; /* rows x targets; class indices 0…classes-1 for classification */
    size_t classes;  /* 0: regression */
    /* one per row, >= 0; NULL: all 1. A row of weight k counts like k equal rows in the fit and like one with 1/k of
     * the noise in standard deviations */
    const float *weights;
    bool common_unit;     /* bo_schema_has_common_unit */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_samples;

/* The rows of a table; x and y stay its own. */
BO_API void bo_data_get_samples(const bo_data *data, bo_samples *out);

/* ---- fit, predict ------------------------------------------------------------------------------------------------ */

BO_API bo_status bo_machine_fit(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples,
                                bo_machine **out);
BO_API void bo_machine_destroy(bo_machine *machine);

/* mean: rows x outputs (regression: targets; classification: class scores). std: rows x outputs or NULL: predictive
 * standard deviation, noise included; BO_UNSUPPORTED for classes and for machines fitted by CG or SGD. */
BO_API bo_status bo_machine_predict(bo_context *context, const bo_machine *machine, size_t rows, const float *x,
                                    size_t ldx, double *mean, double *std);
/* Calibrated probabilities: rows x classes. */
BO_API bo_status bo_machine_predict_probabilities(bo_context *context, const bo_machine *machine, size_t rows,
                                                  const float *x, size_t ldx, double *probabilities);
/* The index of the largest score, one per row. */
BO_API bo_status bo_machine_classify(bo_context *context, const bo_machine *machine, size_t rows, const float *x,
                                     size_t ldx, int *classes);

/* What a machine is, and what fitting it found. Made by the library; later versions may add members at its end. */
typedef struct bo_fit_report {
    bo_task task;
    bo_loss loss;
    bo_solver solver; /* the one used */
    bo_scaling scaling;
    size_t rows, dim, outputs, classes, features;
    bo_kernel kernel;
    bo_function function;
    bo_draw draw;
    double gamma, lambda;
    bo_precision precision;             /* of the Gram matrix; FLOAT32 where none was made */
    double spectrum;                    /* largest eigenvalue of the Gram matrix, estimated */
    double search_seconds, fit_seconds; /* choosing γ and λ; everything else */
    double search_score; /* root mean square error of the choice on rows left out, in units of the targets' standard
                              * deviation (classes: of the ±1 scores); NAN if nothing was searched */
    double noise_std;    /* regression: standard deviation of the residual noise, first target */
    int iterations;      /* CG, SGD, logistic */
    double residual;     /* CG: relative residual reached */
    bool has_std;
    const char *why_solver;        /* a sentence */
    bo_features_accuracy accuracy; /* the statement of accuracy on training rows */
} bo_fit_report;
/* Owned by the machine. */
BO_API const bo_fit_report *bo_machine_report(const bo_machine *machine);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* One safetensors file. A regression fitted by DUAL keeps its training rows in it: standard deviations need them. `schema`
 * (or NULL) is stored with it. */
BO_API bo_status bo_machine_save(bo_context *context, const bo_machine *machine, const bo_schema *schema,
                                 const char *path);
/* *schema is the one that was stored, NULL where there was none; `schema` may be NULL. */
BO_API bo_status bo_machine_load(bo_context *context, const char *path, bo_machine **out, bo_schema **schema);

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* Empty metrics of the kind that this machine predicts; `points` as in bo_metrics_desc. */
BO_API bo_status bo_machine_create_metrics(bo_context *context, const bo_machine *machine, size_t points,
                                           bo_metrics **out);
/* Predicts rows and adds them: y is rows x targets, or class numbers. Progress is reported as "testing". */
BO_API bo_status bo_machine_evaluate(bo_context *context, const bo_machine *machine, size_t rows, const float *x,
                                     size_t ldx, const double *y, bo_metrics *metrics);

/* ==== Advanced ==================================================================================================== */

/* ---- files in memory --------------------------------------------------------------------------------------------- */

/* The bytes that bo_machine_save writes; `schema` or NULL. *bytes is released with bo_free. */
BO_API bo_status bo_machine_save_memory(bo_context *context, const bo_machine *machine, const bo_schema *schema,
                                        void **bytes, size_t *size);
/* As bo_machine_load. The bytes are not needed afterwards. */
BO_API bo_status bo_machine_load_memory(bo_context *context, const void *bytes, size_t size, bo_machine **out,
                                        bo_schema **schema);

/* ---- before and after a fit -------------------------------------------------------------------------------------- */

/* What a fit will take and what its defaults mean, before there is any data. */
typedef struct bo_fit_cost {
    size_t features;                      /* length of φ */
    bo_loss loss;                         /* what AUTO means */
    bo_solver solver;                     /* the same */
    const char *why_solver;               /* a sentence */
    bool searches_gamma, searches_lambda; /* the descriptor leaves them open */
    size_t bytes;                         /* of memory, at most */
    double operations;                    /* floating-point, with those of the search */
    double seconds;                       /* roughly, with the threads of this context on a recent processor */
    uint64_t reserved[4];                 /* zero: room for later versions */
} bo_fit_cost;
/* desc->task tells classes from numbers; `outputs`: classes or targets. A stream (desc->stream_rows > 0) is fitted by the
 * primal solver, and `rows` are those of its sample. */
BO_API bo_status bo_machine_estimate(bo_context *context, const bo_machine_desc *desc, size_t rows, size_t dim,
                                     size_t outputs, bo_fit_cost *out);
/* β in the units of the targets: features x outputs. Owned by the machine. */
BO_API const double *bo_machine_beta(const bo_machine *machine);

/* ---- streaming: partial fit, merge ------------------------------------------------------------------------------- */

/* A fit in progress: sums of outer products, O(R²) memory whatever the number of rows. */
typedef struct bo_fitting bo_fitting;

/* γ, scaling and the grid of λ come from `sample`: a uniform sample of the rows to come (bo_stream_sample); 10000 rows are
 * a good one. It is not itself learned from: the stream brings those rows again. */
BO_API bo_status bo_fitting_create(bo_context *context, const bo_machine_desc *desc, const bo_samples *sample,
                                   bo_fitting **out);
BO_API void bo_fitting_destroy(bo_fitting *fitting);
/* After a failure (memory, cancellation) part of the rows may have been added: begin anew. */
BO_API bo_status bo_fitting_add(bo_context *context, bo_fitting *fitting, const bo_samples *rows);
/* Adds what `other` has seen. Both must come from the same sample, descriptor and seed; checked. */
BO_API bo_status bo_fitting_merge(bo_context *context, bo_fitting *fitting, const bo_fitting *other);
/* Every rank calls it once after its last add; afterwards every rank can finish, to the same machine. */
BO_API bo_status bo_fitting_reduce(bo_context *context, bo_fitting *fitting, const bo_collective *collective);
/* Solves; the fitting can go on being added to and be finished again. */
BO_API bo_status bo_fitting_finish(bo_context *context, bo_fitting *fitting, bo_machine **out);

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* As options and files spell them, in lower case; NULL or false for what is none. */
BO_API const char *bo_solver_name(bo_solver solver);
BO_API const char *bo_loss_name(bo_loss loss);
BO_API const char *bo_scaling_name(bo_scaling scaling);
BO_API const char *bo_precision_name(bo_precision precision);
BO_API bool bo_solver_parse(const char *name, bo_solver *out);
BO_API bool bo_loss_parse(const char *name, bo_loss *out);
BO_API bool bo_scaling_parse(const char *name, bo_scaling *out);
BO_API bool bo_precision_parse(const char *name, bo_precision *out);

#ifdef __cplusplus
}
#endif
#endif
