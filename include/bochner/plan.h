/** @file
 * Plans for training runs. Experimental.
 *
 * Predicts how long a training step takes on this host and which loss a run reaches, and chooses the model that makes
 * the best use of a budget (the time law of 2406.18922, in which the time of a step is linear in the amount of data
 * moved).
 *
 *     bo_plan_host *host;
 *     bo_plan_host_calibrate(context, NULL, &host);                           // less than a minute
 *     bo_plan *plan;
 *     bo_plan_create(context, &(bo_plan_basis){.host = host}, &(bo_plan_budget){.minutes = 10}, &plan);
 *     const bo_plan_choice *best = &plan->choices[0];                            // layers, width, …; tokens, loss
 *     bo_plan_destroy(plan);
 *     bo_plan_host_destroy(host);
 *
 * Models have the defaults of bo_model_desc: an embedding that is also the output projection, layers of attention, and
 * MLPs of 4 times the width. Training has the defaults of bo_trainer_desc. In this header, a host is the cost model of
 * a computer.
 *
 * **Ownership.** Hosts, loss laws and plans are copies; they do not refer to each other or to the arguments of the
 * calls that made them. Their members are read-only and valid until the object is destroyed.
 *
 * **Threads.** The objects do not change. Any number of threads may read them, each with its own context.
 */
#ifndef BOCHNER_PLAN_H
#define BOCHNER_PLAN_H

#include <bochner/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* ---- the contents of a step -------------------------------------------------------------------------------------- */

/** The shape of a model and its training. Zero means the default, except for layers, width, heads, context and batch.
 */
typedef struct bo_plan_shape {
    size_t layers;               /**< number of layers */
    size_t width;                /**< width */
    size_t heads;                /**< number of heads, a divisor of the width */
    size_t context;              /**< tokens per sequence */
    size_t batch;                /**< sequences per step */
    size_t features;             /**< number of features (default: 128, or the number that the attention fixes) */
    size_t vocab;                /**< size of the vocabulary (default: 256, bytes) */
    const char *attention;       /**< a name of bo_attention_preset() (default: "rfa-gate") */
    bo_optimizer_kind optimizer; /**< the optimizer */
    uint64_t reserved[4];        /**< must be zero */
} bo_plan_shape;

/** Quantities to which the time of one step (forward, backward and update) is proportional. */
typedef struct bo_plan_counts {
    double parameters;    /**< number of parameters */
    double tokens;        /**< tokens per step */
    double layers;        /**< number of layers; each has a fixed overhead that does not depend on its size */
    double copies;        /**< numbers moved: a product (a x b)(b x c) moves ab + bc + ac, a function of n numbers 2n */
    double operations;    /**< floating-point operations of products with weights and of Muon */
    double attention;     /**< floating-point operations of attention, counted as in bo_attention_cost */
    uint64_t reserved[4]; /**< must be zero */
} bo_plan_counts;

/** Counts the quantities of a step.
 *
 * @param context   the context
 * @param shape     the shape
 * @param[out] out  the counts
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_plan_count(bo_context *context, const bo_plan_shape *shape, bo_plan_counts *out);

/** Fills in the descriptors of the model and of its training. The caller adds the model, the data and the length of the
 * run.
 *
 * @param context        the context
 * @param shape          the shape
 * @param[out] model     the descriptor of the model
 * @param[out] training  the descriptor of the training
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_plan_descriptors(bo_context *context, const bo_plan_shape *shape, bo_model_desc *model,
                                     bo_trainer_desc *training);

/* ---- the cost model of the host ---------------------------------------------------------------------------------- */

/** The measured time of a shape. */
typedef struct bo_plan_timing {
    bo_plan_shape shape;  /**< the shape */
    double seconds;       /**< time per step: the median over rounds */
    double spread;        /**< half the interquartile range, divided by the median */
    uint64_t reserved[4]; /**< must be zero */
} bo_plan_timing;

/** Times training steps of all shapes.
 *
 * The shapes are timed in turns, so that other load on the host affects all of them equally. All models are in memory
 * at the same time and train on random tokens. With a context of one thread, the CPU time of that thread is measured.
 *
 * @param context          the context
 * @param seconds          total time (default: 30); at least three rounds are measured
 * @param[in,out] timings  `count` timings with their shapes; `seconds` and `spread` are filled in
 * @param count            the number of timings, at least 1
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_plan_time(bo_context *context, double seconds, bo_plan_timing *timings, size_t count);

/** The terms of the time of a step, which is Σ cost · count over these terms. */
typedef enum bo_plan_term {
    BO_PLAN_TERM_LAYERS = 0,     /**< number of layers */
    BO_PLAN_TERM_COPIES = 1,     /**< numbers moved */
    BO_PLAN_TERM_OPERATIONS = 2, /**< floating-point operations of products */
    BO_PLAN_TERM_ATTENTION = 3   /**< floating-point operations of attention */
} bo_plan_term;

/** The cost model of a host: measured timings and the fitted costs. All timings have the same attention and the same
 * optimizer. */
typedef struct bo_plan_host {
    const char *isa;               /**< the instruction set */
    int threads;                   /**< the number of threads */
    const double *costs;           /**< seconds per unit, in the order of bo_plan_term; none is negative */
    size_t cost_count;             /**< number of costs */
    double error;                  /**< root mean square of predicted / measured - 1, by leave-one-out */
    const bo_plan_timing *timings; /**< the timings */
    size_t timing_count;           /**< number of timings */
} bo_plan_host;

/** Describes a calibration. Zero means the default in every field. */
typedef struct bo_plan_calibration {
    const char *attention;       /**< a name of bo_attention_preset() (default: "rfa-gate") */
    bo_optimizer_kind optimizer; /**< the optimizer */
    bool quick;                  /**< use fewer and smaller shapes */
    double seconds;              /**< total time (default: 40, quick: 4); at least three rounds are measured */
    uint64_t reserved[4];        /**< must be zero */
} bo_plan_calibration;

/** Times models of a dozen shapes and fits their costs.
 *
 * @param context   the context
 * @param desc      the calibration; NULL: all defaults
 * @param[out] out  the cost model; release it with bo_plan_host_destroy()
 * @return BO_OK; BO_NUMERIC if the timings do not determine the costs
 */
BO_API bo_status bo_plan_host_calibrate(bo_context *context, const bo_plan_calibration *desc, bo_plan_host **out);

/** Destroys a cost model. @param host  the cost model, or NULL */
BO_API void bo_plan_host_destroy(bo_plan_host *host);

/** Loads a cost model from a JSON file of bo_plan_host_save().
 *
 * @param context   the context
 * @param path      the file
 * @param[out] out  the cost model; release it with bo_plan_host_destroy()
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if a field is missing or out of range
 */
BO_API bo_status bo_plan_host_load(bo_context *context, const char *path, bo_plan_host **out);

/** Saves a cost model to a JSON file.
 *
 * @param context  the context
 * @param host     the cost model
 * @param path     the file
 * @return BO_OK; BO_IO if the file cannot be written
 */
BO_API bo_status bo_plan_host_save(bo_context *context, const bo_plan_host *host, const char *path);

/** A prediction with its 95% interval. */
typedef struct bo_plan_range {
    double value; /**< the prediction */
    double low;   /**< lower end of the interval */
    double high;  /**< upper end of the interval */
} bo_plan_range;

/** Predicts the time of a step.
 *
 * @param context   the context
 * @param host      the cost model
 * @param shape     a shape with the attention and the optimizer of the cost model
 * @param[out] out  the time in seconds
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_plan_step(bo_context *context, const bo_plan_host *host, const bo_plan_shape *shape,
                              bo_plan_range *out);

/* ---- the loss ---------------------------------------------------------------------------------------------------- */

/** The result of a run on tokens none of which were seen twice. */
typedef struct bo_plan_run {
    double parameters; /**< number of parameters */
    double tokens;     /**< tokens trained on */
    double batch;      /**< tokens per step */
    double loss;       /**< nats per token on held-out text */
} bo_plan_run;

/** A loss law:
 *
 *     L = floor + size N^-size_power + data (D / (1 + (b / batch)²))^-data_power
 *
 * for N parameters and D tokens, b per step. This is the law of 2203.15556, extended so that tokens count less in
 * batches beyond a critical size (as in 1812.06162; the square fits the runs of this library best). */
typedef struct bo_plan_law {
    double floor;      /**< loss that no model and no amount of data reduces */
    double size;       /**< factor of the term of the size */
    double size_power; /**< power of the size */
    double data;       /**< factor of the term of the data */
    double data_power; /**< power of the data */
    double batch;      /**< critical batch, in tokens per step */
} bo_plan_law;

/** A loss law fitted to runs. */
typedef struct bo_plan_losses {
    bo_plan_law law;            /**< the law */
    double error;               /**< root mean square of fitted / measured - 1 */
    const bo_plan_law *without; /**< `run_count` laws, each fitted without one of the runs (the jackknife) */
    size_t run_count;           /**< number of runs */
} bo_plan_losses;

/** Fits a loss law to runs. If all runs have the same batch, `law.batch` is INFINITY.
 *
 * @param context   the context
 * @param runs      the runs; NULL: the built-in runs on English text as bytes (docs/guides/plan.md)
 * @param count     the number of runs, 8 to 64; not used without `runs`
 * @param[out] out  the law; release it with bo_plan_losses_destroy()
 * @return BO_OK; BO_NUMERIC if the runs do not determine a law
 */
BO_API bo_status bo_plan_losses_fit(bo_context *context, const bo_plan_run *runs, size_t count, bo_plan_losses **out);

/** Destroys a fitted law. @param losses  the law, or NULL */
BO_API void bo_plan_losses_destroy(bo_plan_losses *losses);

/** Predicts the loss of a run by a fitted law.
 *
 * @param losses      the law
 * @param parameters  number of parameters
 * @param tokens      tokens trained on
 * @param batch       tokens per step
 * @param[out] out    the loss in nats per token, with its interval
 */
BO_API void bo_plan_loss(const bo_plan_losses *losses, double parameters, double tokens, double batch,
                         bo_plan_range *out);

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/** A budget: minutes or tokens, or parameters, or parameters and one of the two. Zero means not limited.
 *
 * With minutes alone, the model with the lowest predicted loss is chosen. With parameters or tokens alone, the other
 * number is chosen so that no other shape reaches a lower loss in the same time. */
typedef struct bo_plan_budget {
    double parameters;    /**< number of parameters, met to within a tenth or as closely as possible */
    double minutes;       /**< training time */
    double tokens;        /**< training tokens */
    size_t context;       /**< tokens per sequence (default: 256) */
    size_t features;      /**< number of features (default: 128, or the number that the attention fixes) */
    size_t memory;        /**< memory in bytes (default: three quarters of the memory of the host) */
    uint64_t reserved[4]; /**< must be zero */
} bo_plan_budget;

/** A model and its training, with predictions. */
typedef struct bo_plan_choice {
    bo_plan_shape shape;   /**< the shape */
    double parameters;     /**< number of parameters */
    double tokens;         /**< training tokens */
    uint64_t steps;        /**< number of steps */
    size_t micro_batch;    /**< sequences computed at a time */
    size_t memory;         /**< memory in bytes, by bo_trainer_estimate() */
    bo_plan_range step;    /**< time per step, in seconds */
    bo_plan_range minutes; /**< training time, in minutes */
    bo_plan_range loss;    /**< loss, in nats per token; of fitted laws in nats per byte */
    size_t hidden;         /**< fitted laws: hidden width of the MLP; otherwise 0 */
    double beyond;         /**< fitted laws: bo_plan_forecast.beyond; otherwise 0 */
} bo_plan_choice;

/** A plan. */
typedef struct bo_plan {
    const bo_plan_choice *choices; /**< the best choice first, then alternatives that differ in size, depth or batch */
    size_t choice_count;           /**< number of choices, at least 1 */
} bo_plan;

/** Destroys a plan. @param plan  the plan, or NULL */
BO_API void bo_plan_destroy(bo_plan *plan);

/* ---- laws fitted to the user's runs ------------------------------------------------------------------------------ */

/** Counts the quantities of a training step of any model: any attention, mixer, MLP and vocabulary.
 *
 * `attention` is 0, because `operations` includes it. `copies` counts three times the activations that are stored for
 * backward, the weights three times for each micro-batch, and the update of the optimizer.
 *
 * @param context   the context
 * @param model     the model
 * @param training  batch, micro_batch, optimizer, activations and checkpointing; other members are not used
 * @param[out] out  the counts
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_plan_count_training(bo_context *context, const bo_model_desc *model,
                                        const bo_trainer_desc *training, bo_plan_counts *out);

/** Checks whether the runs of two language models can be fitted by one law.
 *
 * They may differ in width, layers, heads, vocabulary, seeds, and numbers that follow from the width: the rank, the
 * iterations and the scale of attention, the number of features and their bandwidth. Descriptions are compared, so the
 * format of a file does not matter.
 *
 * @param context  the context
 * @param first    the descriptor of a model (bo_model_describe())
 * @param second   the descriptor of another model
 * @return BO_OK, or BO_INVALID with a message that has the first difference
 */
BO_API bo_status bo_plan_compare(bo_context *context, const bo_model_desc *first, const bo_model_desc *second);

/** The common settings of the runs of a law. */
typedef struct bo_plan_family {
    const char *config;          /**< the text of config.json of one of the models; other shapes are derived from it */
    const char *options;         /**< the file of options for bochner train --config, or NULL if there is none */
    size_t batch;                /**< sequences per step */
    size_t micro_batch;          /**< sequences computed at a time (default: as bo_trainer_desc) */
    bo_optimizer_kind optimizer; /**< the optimizer */
    bo_storage activations;      /**< storage of activations */
    bool checkpointing;          /**< activation checkpointing */
    double token_bytes;          /**< bytes per token (default: 1) */
    const char *isa;             /**< the instruction set, or NULL if it is not known */
    int threads;                 /**< number of threads; 0: not known */
    uint64_t reserved[4];        /**< must be zero */
} bo_plan_family;

/** A finished run. */
typedef struct bo_plan_observation {
    const char *name;      /**< the name in reports */
    bo_plan_counts counts; /**< bo_plan_count_training() */
    double bytes;          /**< bytes of text trained on */
    double loss;           /**< nats per byte on held-out text; NAN: not known, only the time is used */
    double seconds;        /**< time per step; NAN: not known, only the loss is used */
    uint64_t reserved[4];  /**< must be zero */
} bo_plan_observation;

/** The origin of a parameter's value. */
typedef enum bo_plan_origin {
    BO_PLAN_ORIGIN_FITTED = 0, /**< fitted to the runs */
    BO_PLAN_ORIGIN_STORED = 1, /**< the runs do not determine it: the value of the law of the library */
    BO_PLAN_ORIGIN_ABSENT = 2  /**< the runs do not differ in this quantity: the floor includes the term */
} bo_plan_origin;

/** A parameter of a law with its 90% interval. */
typedef struct bo_plan_parameter {
    const char *name;      /**< "floor", "size", "size_power", "data", "data_power", or the name of a bo_plan_term */
    bo_plan_origin origin; /**< its origin */
    bo_plan_range range;   /**< value and interval */
} bo_plan_parameter;

/** A prediction for a run. Intervals contain 90% of new runs: they include the variation between runs. */
typedef struct bo_plan_forecast {
    /** nats per byte; NAN if the loss law has no term for the size and the size differs, or none for the data and the
     * bytes differ */
    bo_plan_range loss;
    bo_plan_range step; /**< seconds per step; NAN if no time is known */
    double beyond;      /**< factor by which parameters or bytes lie outside the range of the runs; 1: inside */
} bo_plan_forecast;

/** The loss law and the time law of one family of models.
 *
 *     L = floor + size N^-size_power + data D^-data_power     N parameters, D bytes; 2203.15556
 *     t = layers c1 + copies c2 + operations c3               seconds per step; 2406.18922
 *
 * The loss law minimizes the Huber loss of log(fitted / measured), the time law Σ (fitted / measured - 1)² over
 * non-negative costs. Intervals come from a bootstrap of the residuals of runs. */
typedef struct bo_plan_laws {
    bo_plan_family family;                   /**< the common settings of the runs; strings are copies */
    const bo_plan_observation *observations; /**< the runs */
    size_t count;                            /**< number of runs */
    const bo_plan_parameter *loss;           /**< 5 parameters of the loss law; fitted ones in the units of N and D */
    const bo_plan_parameter *costs;          /**< 3 costs: layers, copies, operations; ABSENT: not used, 0 */
    double loss_error;                       /**< standard deviation of log(measured / fitted) over runs */
    double step_error;                       /**< likewise for the time per step; NAN if no time is known */
    const bo_plan_forecast *left_out;        /**< `count` forecasts, of each run by laws of the other runs; NAN: none */
} bo_plan_laws;

/** Fits a loss law and a time law to runs. The result depends on the arguments only.
 *
 * An exponent is fitted if the runs have three or more sizes (or amounts of data) that differ by 5% or more, and if
 * there are more runs than parameters; otherwise it is the exponent of the built-in law, and its uncertainty is
 * included. A term is absent if the runs have one size (or one amount of data). The time law uses copies with two
 * shapes, copies and operations with three, and all costs with four or more.
 *
 * @param context       the context
 * @param family        the common settings of the runs; copied
 * @param observations  `count` runs; copied
 * @param count         the number of runs, at most 64
 * @param[out] out      the laws; release them with bo_plan_laws_destroy()
 * @return BO_OK; BO_INVALID if the runs are too few or too similar; the message states what is missing
 */
BO_API bo_status bo_plan_laws_fit(bo_context *context, const bo_plan_family *family,
                                  const bo_plan_observation *observations, size_t count, bo_plan_laws **out);

/** Destroys laws. @param laws  the laws, or NULL */
BO_API void bo_plan_laws_destroy(bo_plan_laws *laws);

/** Saves laws to a JSON file: the family and the runs.
 *
 * @param context  the context
 * @param laws     the laws
 * @param path     the file
 * @return BO_OK; BO_IO if the file cannot be written
 */
BO_API bo_status bo_plan_laws_save(bo_context *context, const bo_plan_laws *laws, const char *path);

/** Loads laws from a JSON file of bo_plan_laws_save(). They are fitted again, with the same result.
 *
 * @param context   the context
 * @param path      the file
 * @param[out] out  the laws; release them with bo_plan_laws_destroy()
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if a field is missing or out of range
 */
BO_API bo_status bo_plan_laws_load(bo_context *context, const char *path, bo_plan_laws **out);

/** Predicts the loss and the time per step of a run.
 *
 * @param context   the context
 * @param laws      the laws
 * @param counts    bo_plan_count_training() of the model
 * @param bytes     bytes of text to train on
 * @param[out] out  the prediction
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_plan_forecast_run(bo_context *context, const bo_plan_laws *laws, const bo_plan_counts *counts,
                                      double bytes, bo_plan_forecast *out);

/** The basis of predicted times and losses: the cost model of a host and a loss law, or laws fitted to the user's
 * runs. */
typedef struct bo_plan_basis {
    const bo_plan_host *host;     /**< the cost model of the host */
    const bo_plan_losses *losses; /**< the loss law (default: fitted to the built-in runs) */
    const bo_plan_laws *laws;     /**< instead of both: laws with a time law; the plan is for their family of models */
    uint64_t reserved[4];         /**< must be zero */
} bo_plan_basis;

/** Creates a plan for a budget.
 *
 * Fitted laws keep the batch and the context of the runs. Candidates have between half the parameters of the
 * smallest run and 16 times the parameters of the largest run. Their ratio of width to layers is from 16 to 128, or as
 * in the family's model.
 *
 * @param context   the context
 * @param basis     the basis of the predictions
 * @param budget    the budget; by laws: minutes, or parameters and tokens, or minutes and parameters; `memory`; context
 *     and features must be 0
 * @param[out] out  the plan; release it with bo_plan_destroy()
 * @return BO_OK; BO_INVALID if no model fits the budget, in which case the message states the smallest budget that is
 *     sufficient, or if the laws have no term that the budget needs
 */
BO_API bo_status bo_plan_create(bo_context *context, const bo_plan_basis *basis, const bo_plan_budget *budget,
                                bo_plan **out);

#endif

#ifdef __cplusplus
}
#endif
#endif
