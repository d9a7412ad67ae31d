/* Bochner: plans. How long a step of training takes on this machine, what loss a run ends with, and so which shape of model
 * a budget is best spent on (the time law of 2406.18922, whose step time is linear in numbers copied).
 *
 *     bo_plan_machine machine;
 *     bo_plan_calibrate(context, NULL, &machine);                                // less than a minute
 *     bo_plan plan;
 *     bo_plan_propose(context, &machine, NULL, &(bo_plan_budget){.minutes = 10}, &plan);
 *     const bo_plan_choice *best = &plan.choices[0];                             // layers, width, …; step, tokens, loss
 *
 * Models are those of bo_model_desc with their defaults: an embedding that is also the output, layers of attention and an MLP
 * of 4 widths, trained on windows of a text as bo_trainer does unless told otherwise. */
#ifndef BOCHNER_PLAN_H
#define BOCHNER_PLAN_H

#include <bochner/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a step is made of ----------------------------------------------------------------------------------------- */

/* Zero means the default, except layers, width, heads, context and batch. */
typedef struct bo_plan_shape {
    size_t layers, width, heads, context, batch;
    size_t features;       /* 0: 128, or what the attention itself has */
    size_t vocab;          /* 0: 256, bytes */
    const char *attention; /* a name of bo_attention_preset; NULL: "rfa-gate" */
    bo_optimizer_kind optimizer;
} bo_plan_shape;

/* What is proportional to time, in one step: forward, backward and update. */
typedef struct bo_plan_counts {
    double parameters;
    double tokens;
    double layers;     /* calls are: a layer is as many whatever its size */
    double copies;     /* numbers moved: (a x b)(b x c) moves ab + bc + ac, a function of n numbers 2n */
    double operations; /* of products with weights, and of Muon's */
    double attention;  /* operations of attention, by the count of bo_attention_cost */
} bo_plan_counts;
BO_API bo_status bo_plan_count(bo_context *context, const bo_plan_shape *shape, bo_plan_counts *out);
/* The model and its training as descriptors; pointers and lengths are the caller's to fill in. */
BO_API bo_status bo_plan_descriptors(bo_context *context, const bo_plan_shape *shape, bo_model_desc *model,
                                     bo_trainer_desc *training);

/* ---- this machine --------------------------------------------------------------------------------------------------- */

typedef struct bo_plan_timing {
    bo_plan_shape shape;
    double seconds; /* of a step: the median over rounds */
    double spread;  /* half the distance of the quartiles, over the median */
} bo_plan_timing;

/* Steps of all shapes in turns, so that what else the machine does meets all alike: `seconds` in all (0: 30), at least three
 * rounds. Fills in seconds and spread. Models learn made-up tokens, and all of them are in memory at once. A context of one thread
 * is timed by what the thread is given, so that a busy machine does not matter. */
BO_API bo_status bo_plan_time(bo_context *context, double seconds, bo_plan_timing *timings, size_t count);

/* Step seconds are Σ cost · count over these terms; bits of a set of them are 1 << term. */
typedef enum bo_plan_term {
    BO_PLAN_TERM_LAYERS = 0,
    BO_PLAN_TERM_COPIES = 1,
    BO_PLAN_TERM_OPERATIONS = 2,
    BO_PLAN_TERM_ATTENTION = 3,
    BO_PLAN_TERMS = 4
} bo_plan_term;
BO_API const char *bo_plan_term_name(bo_plan_term term); /* "layers", "copies", "operations", "attention" */

enum { BO_PLAN_SHAPES = 24, BO_PLAN_NAME = 24 };

/* Invariants: the timings are of one attention and one optimizer, and count is at most BO_PLAN_SHAPES. */
typedef struct bo_plan_machine {
    char isa[BO_PLAN_NAME];
    int threads;
    double cost[BO_PLAN_TERMS]; /* seconds each; none is negative */
    double error; /* root mean square of predicted / measured - 1, of shapes left out of the fit in turn */
    size_t count;
    bo_plan_timing timings[BO_PLAN_SHAPES]; /* what was fitted */
} bo_plan_machine;

/* Non-negative costs that make Σ (predicted / measured - 1)² least. More timings than terms, all of one attention and one
 * optimizer. terms 0: all. */
BO_API bo_status bo_plan_fit(bo_context *context, const bo_plan_timing *timings, size_t count, unsigned terms,
                             bo_plan_machine *out);

/* Zero means the default in every field. */
typedef struct bo_plan_calibration {
    const char *attention; /* NULL: "rfa-gate" */
    bo_optimizer_kind optimizer;
    bool quick;     /* fewer and smaller shapes */
    double seconds; /* 0: 40, quick 4; at least three rounds are taken */
} bo_plan_calibration;
/* Times models of a dozen shapes and fits. */
BO_API bo_status bo_plan_calibrate(bo_context *context, const bo_plan_calibration *desc, bo_plan_machine *out);

/* JSON. BO_FORMAT: something is missing or makes no sense. */
BO_API bo_status bo_plan_machine_save(bo_context *context, const bo_plan_machine *machine, const char *path);
BO_API bo_status bo_plan_machine_load(bo_context *context, const char *path, bo_plan_machine *out);

/* A number, and where it lies 19 times in 20. */
typedef struct bo_plan_range {
    double value, low, high;
} bo_plan_range;
/* Seconds of a step. Attention and optimizer of the shape must be the machine's. */
BO_API bo_status bo_plan_step(bo_context *context, const bo_plan_machine *machine, const bo_plan_shape *shape,
                              bo_plan_range *out);

/* ---- the loss ----------------------------------------------------------------------------------------------------------- */

/* What a run came to: nats per token on text held out, after `tokens` of fresh text, `batch` of them a step. */
typedef struct bo_plan_run {
    double parameters, tokens, batch, loss;
} bo_plan_run;

/* L = floor + size N^-size_power + data (D / (1 + (b / batch)²))^-data_power for N parameters, D tokens, b of them a step: the
 * law of 2203.15556, where tokens count for less in batches beyond a critical one (as in 1812.06162; the square is what runs
 * here showed). */
typedef struct bo_plan_law {
    double floor, size, size_power, data, data_power, batch;
} bo_plan_law;

enum { BO_PLAN_RUNS = 64 };
typedef struct bo_plan_losses {
    bo_plan_law law;
    double error; /* root mean square of fitted / measured - 1 */
    size_t count;
    bo_plan_law without[BO_PLAN_RUNS]; /* the law of all runs but one: what it owes to each (the jackknife) */
} bo_plan_losses;

/* 8 to BO_PLAN_RUNS runs. Where all have one batch, `batch` is INFINITY. */
BO_API bo_status bo_plan_losses_fit(bo_context *context, const bo_plan_run *runs, size_t count, bo_plan_losses *out);
/* Of the runs that this library was tried with: English as bytes (docs/plan.md). */
BO_API bo_status bo_plan_losses_usual(bo_context *context, bo_plan_losses *out);
BO_API double bo_plan_law_at(const bo_plan_law *law, double parameters, double tokens, double batch);
BO_API bo_plan_range bo_plan_loss(const bo_plan_losses *losses, double parameters, double tokens, double batch);

/* ---- plans ---------------------------------------------------------------------------------------------------------------- */

/* One of minutes and tokens, or parameters, or parameters with one of these; what is 0 is free. With minutes alone the
 * model is chosen for the least loss; with parameters or tokens alone the other follows: the pair that no other beats in the
 * same time. */
typedef struct bo_plan_budget {
    double parameters; /* within a tenth, or the nearest there are */
    double minutes, tokens;
    size_t context;  /* 0: 256 */
    size_t features; /* 0: 128, or what the attention itself has */
    size_t memory;   /* bytes; 0: three quarters of what the machine has */
} bo_plan_budget;

typedef struct bo_plan_choice {
    bo_plan_shape shape;
    double parameters, tokens;
    uint64_t steps;
    size_t micro_batch;
    size_t memory; /* bytes, as bo_trainer_estimate has them */
    bo_plan_range step, minutes, loss;
} bo_plan_choice;

enum { BO_PLAN_CHOICES = 6 };
typedef struct bo_plan {
    size_t count;
    bo_plan_choice choices[BO_PLAN_CHOICES]; /* the best, then others that differ in size, depth or batch */
} bo_plan;
/* losses NULL: the usual. BO_INVALID: nothing fits; the message says the least that does. */
BO_API bo_status bo_plan_propose(bo_context *context, const bo_plan_machine *machine, const bo_plan_losses *losses,
                                 const bo_plan_budget *budget, bo_plan *out);

#ifdef __cplusplus
}
#endif
#endif
