/* Bochner: plans. Experimental.
 *
 * Predicts how long a training step takes on this machine and which loss a run reaches, and chooses the model on which
 * a budget is best spent (the time law of 2406.18922, whose step time is linear in the numbers copied).
 *
 *     bo_plan_machine *machine;
 *     bo_plan_machine_calibrate(context, NULL, &machine);                        // less than a minute
 *     bo_plan *plan;
 *     bo_plan_create(context, machine, NULL, &(bo_plan_budget){.minutes = 10}, &plan);
 *     const bo_plan_choice *best = &plan->choices[0];                            // layers, width, …; tokens, loss
 *     bo_plan_destroy(plan);
 *     bo_plan_machine_destroy(machine);
 *
 * Models have the defaults of bo_model_desc: an embedding that is also the output, layers of attention and an MLP of 4
 * widths. Training has the defaults of bo_trainer_desc. */
#ifndef BOCHNER_PLAN_H
#define BOCHNER_PLAN_H

#include <bochner/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* ---- what a step consists of ------------------------------------------------------------------------------------- */

/* Zero means the default, except for layers, width, heads, context and batch. */
typedef struct bo_plan_shape {
    size_t layers, width, heads, context, batch;
    size_t features;       /* (default: 128, or what the attention fixes) */
    size_t vocab;          /* (default: 256, bytes) */
    const char *attention; /* a name of bo_attention_preset (default: "rfa-gate") */
    bo_optimizer_kind optimizer;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_plan_shape;

/* Quantities that the time of one step is proportional to: forward, backward and update. */
typedef struct bo_plan_counts {
    double parameters;
    double tokens;
    double layers;        /* each costs a number of calls that does not depend on its size */
    double copies;        /* numbers moved: a product (a x b)(b x c) moves ab + bc + ac, a function of n numbers 2n */
    double operations;    /* of products with weights, and of Muon */
    double attention;     /* operations of attention, as bo_attention_cost counts them */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_plan_counts;

BO_API bo_status bo_plan_count(bo_context *context, const bo_plan_shape *shape, bo_plan_counts *out);
/* The descriptors of the model and of its training. The caller fills in pointers and lengths. */
BO_API bo_status bo_plan_descriptors(bo_context *context, const bo_plan_shape *shape, bo_model_desc *model,
                                     bo_trainer_desc *training);

/* ---- the machine ------------------------------------------------------------------------------------------------- */

typedef struct bo_plan_timing {
    bo_plan_shape shape;
    double seconds;       /* per step: the median over rounds */
    double spread;        /* half the interquartile range over the median */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_plan_timing;

/* Times training steps of all shapes and fills in seconds and spread. Shapes take turns, so that other load affects all
 * of them alike, for `seconds` in all (default: 30) and at least three rounds. All models are in memory at once and
 * learn random tokens. A context of one thread measures the CPU time of that thread. */
BO_API bo_status bo_plan_time(bo_context *context, double seconds, bo_plan_timing *timings, size_t count);

/* The seconds of a step are Σ cost · count over these terms. */
typedef enum bo_plan_term {
    BO_PLAN_TERM_LAYERS = 0,
    BO_PLAN_TERM_COPIES = 1,
    BO_PLAN_TERM_OPERATIONS = 2,
    BO_PLAN_TERM_ATTENTION = 3
} bo_plan_term;
/* "layers", "copies", "operations", "attention"; NULL outside the enum. */
BO_API const char *bo_plan_term_name(bo_plan_term term);

/* What was measured and what follows from it. Invariant: all timings have one attention and one optimizer. */
typedef struct bo_plan_machine {
    const char *isa;
    int threads;
    const double *costs; /* seconds each, in the order of bo_plan_term; none is negative */
    size_t cost_count;
    double error; /* root mean square of predicted / measured - 1, each shape predicted from the others */
    const bo_plan_timing *timings;
    size_t timing_count;
} bo_plan_machine;

/* Zero means the default in every field. */
typedef struct bo_plan_calibration {
    const char *attention; /* (default: "rfa-gate") */
    bo_optimizer_kind optimizer;
    bool quick;           /* fewer and smaller shapes */
    double seconds;       /* (default: 40, quick 4); at least three rounds are taken */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_plan_calibration;

/* Times models of a dozen shapes and fits their costs. desc: or NULL. */
BO_API bo_status bo_plan_machine_calibrate(bo_context *context, const bo_plan_calibration *desc, bo_plan_machine **out);
/* The non-negative costs that minimize Σ (predicted / measured - 1)². 5 to 24 timings of one attention and one
 * optimizer. terms: the terms to use, bits 1 << bo_plan_term (default: all). */
BO_API bo_status bo_plan_machine_fit(bo_context *context, const bo_plan_timing *timings, size_t count, unsigned terms,
                                     bo_plan_machine **out);
BO_API void bo_plan_machine_destroy(bo_plan_machine *machine);
/* JSON. load: BO_FORMAT where something is missing or out of range. */
BO_API bo_status bo_plan_machine_load(bo_context *context, const char *path, bo_plan_machine **out);
BO_API bo_status bo_plan_machine_save(bo_context *context, const bo_plan_machine *machine, const char *path);

/* A prediction with its 95% interval. */
typedef struct bo_plan_range {
    double value, low, high;
} bo_plan_range;

/* Predicts the seconds of a step. The shape must have the machine's attention and optimizer. */
BO_API bo_status bo_plan_step(bo_context *context, const bo_plan_machine *machine, const bo_plan_shape *shape,
                              bo_plan_range *out);

/* ---- the loss ---------------------------------------------------------------------------------------------------- */

/* The result of a run: nats per token on held-out text after `tokens` tokens, none of them seen twice, `batch` tokens
 * per step. */
typedef struct bo_plan_run {
    double parameters, tokens, batch, loss;
} bo_plan_run;

/* L = floor + size N^-size_power + data (D / (1 + (b / batch)²))^-data_power for N parameters and D tokens, b per step:
 * the law of 2203.15556, in which tokens count for less in batches beyond a critical one (as in 1812.06162; the square
 * fits the runs of this library best). */
typedef struct bo_plan_law {
    double floor, size, size_power, data, data_power, batch;
} bo_plan_law;

typedef struct bo_plan_losses {
    bo_plan_law law;
    double error;               /* root mean square of fitted / measured - 1 */
    const bo_plan_law *without; /* the law without each of the runs in turn (the jackknife) */
    size_t run_count;
} bo_plan_losses;

/* Fits a law to 8 to 64 runs. Where all runs have the same batch, law.batch is INFINITY. */
BO_API bo_status bo_plan_losses_fit(bo_context *context, const bo_plan_run *runs, size_t count, bo_plan_losses **out);
/* The law of the runs that come with the library: English text as bytes (docs/guides/plan.md). */
BO_API bo_status bo_plan_losses_default(bo_context *context, bo_plan_losses **out);
BO_API void bo_plan_losses_destroy(bo_plan_losses *losses);
BO_API double bo_plan_law_at(const bo_plan_law *law, double parameters, double tokens, double batch);
/* The same by the fitted law, with its interval. */
BO_API void bo_plan_loss(const bo_plan_losses *losses, double parameters, double tokens, double batch,
                         bo_plan_range *out);

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* One of minutes and tokens, or parameters, or parameters with one of them. Zero means free. With minutes alone, the
 * model with the least loss is chosen. With parameters or tokens alone, the other one follows: the pair that no other
 * shape beats in the same time. */
typedef struct bo_plan_budget {
    double parameters; /* within a tenth, or the nearest there is */
    double minutes, tokens;
    size_t context;       /* (default: 256) */
    size_t features;      /* (default: 128, or what the attention fixes) */
    size_t memory;        /* bytes (default: three quarters of the machine's) */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_plan_budget;

typedef struct bo_plan_choice {
    bo_plan_shape shape;
    double parameters, tokens;
    uint64_t steps;
    size_t micro_batch;
    size_t memory; /* bytes, by bo_trainer_estimate */
    bo_plan_range step, minutes, loss;
} bo_plan_choice;

typedef struct bo_plan {
    const bo_plan_choice *choices; /* the best, then others that differ in size, depth or batch */
    size_t choice_count;           /* at least 1 */
} bo_plan;

/* losses: or NULL, bo_plan_losses_default. BO_INVALID: nothing fits the budget; the message states the least that does.
 * */
BO_API bo_status bo_plan_create(bo_context *context, const bo_plan_machine *machine, const bo_plan_losses *losses,
                                const bo_plan_budget *budget, bo_plan **out);
BO_API void bo_plan_destroy(bo_plan *plan);

#endif

#ifdef __cplusplus
}
#endif
#endif
