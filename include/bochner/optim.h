/* Bochner: optimizers and schedules. As descriptors, train.h takes them; as objects (advanced tier), they train
 * custom weights:
 *
 *     bo_optimizer_desc desc = {.kind = BO_OPTIMIZER_ADAMW, .rate = 1e-2};
 *     bo_schedule schedule = {.kind = BO_SCHEDULE_COSINE};
 *     bo_optimizer *optimizer;
 *     bo_optimizer_create(context, &desc, weights, &optimizer);       // weights of graph.h, with memory for gradients
 *     for (uint64_t t = 0; t < steps; t++) {
 *         bo_weights_zero_gradients(context, weights);
 *         … bo_graph_run(context, graph, &pass) …
 *         bo_optimizer_step(context, optimizer, bo_schedule_factor(&schedule, t, steps), NULL);
 *     } */
#ifndef BOCHNER_OPTIM_H
#define BOCHNER_OPTIM_H

#include <bochner/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ======================================================================================================= */

typedef enum bo_optimizer_kind {
    BO_OPTIMIZER_MUON = 0, /* hidden matrices by Muon, everything else by AdamW */
    BO_OPTIMIZER_ADAMW = 1,
    BO_OPTIMIZER_SGD = 2,
    BO_OPTIMIZER_SIGN = 3, /* signSGD */
    BO_OPTIMIZER_LINF = 4, /* steepest descent in the ℓ∞ norm, per tensor: -(α/2) |g|₁ sign g */
} bo_optimizer_kind;

typedef enum bo_schedule_kind {
    BO_SCHEDULE_COSINE = 0,
    BO_SCHEDULE_LINEAR = 1,
    BO_SCHEDULE_WSD = 2, /* stable, then linear decay over the last `decay` part */
    BO_SCHEDULE_CONSTANT = 3
} bo_schedule_kind;

typedef struct bo_schedule {
    bo_schedule_kind kind;
    uint64_t warmup;      /* steps; UINT64_MAX: none; 0: 2% of all, at least 10, at most half of all */
    double floor;         /* where the factor ends, in [0, 1] */
    double decay;         /* WSD: part of the steps, in [0, 1]; 0: 0.2 */
    uint64_t reserved[4]; /* zero */
} bo_schedule;

typedef enum bo_muon_factor {
    BO_MUON_FACTOR_TALL = 0,     /* √max(1, rows/columns) */
    BO_MUON_FACTOR_SPECTRAL = 1, /* √(rows/columns) */
    BO_MUON_FACTOR_RMS = 2,      /* 0.2 √max(rows, columns): AdamW's update size (2502.16982) */
    BO_MUON_FACTOR_NONE = 3
} bo_muon_factor;

typedef enum bo_muon_iteration {
    BO_MUON_ITERATION_QUINTIC = 0,
    BO_MUON_ITERATION_CUBIC = 1, /* converges to singular values of 1, slower */
} bo_muon_iteration;

/* Zero means the default in every field. */
typedef struct bo_optimizer_desc {
    bo_optimizer_kind kind;
    double rate;       /* MUON: 0.02, of its matrices; ADAMW 3e-3; SGD 0.1; SIGN 1e-3; LINF 1e-4 (times |g|₁) */
    double other_rate; /* MUON: of what AdamW takes; 0: 3e-3 */
    double decay;      /* decoupled weight decay, times the rate; of matrices, embeddings and the head. 0: none */
    double momentum;   /* in [0, 1); MUON: 0.95; SGD, SIGN: 0.9 (negative: none); the others have none */
    bool no_nesterov;
    double beta1, beta2, epsilon; /* ADAMW: 0.9, 0.95, 1e-10 */
    bo_muon_factor factor;
    bo_muon_iteration iteration;
    size_t iterations;    /* 0: 5; CUBIC: 12 */
    double clip;          /* most |gradient|; 0: 1; negative: none */
    double average;       /* of the weights: their moving average counts `average` for the past, in [0, 1); 0: none */
    uint64_t reserved[4]; /* zero */
} bo_optimizer_desc;

/* ==== Advanced ===================================================================================================== */

/* ---- custom weights ---------------------------------------------------------------------------------------------- */

/* BO_INVALID for what makes no sense: a floor outside [0, 1], … */
BO_API bo_status bo_schedule_check(bo_context *context, const bo_schedule *schedule);
/* The factor of the rate at step t = 0, 1, … of `steps` (0: not known yet, no fall): rises linearly to 1 over the
 * `warmup` first, (t + 1) / warmup, then falls as the kind says, so that t = steps would have `floor`. */
BO_API double bo_schedule_factor(const bo_schedule *schedule, uint64_t step, uint64_t steps);

typedef struct bo_optimizer bo_optimizer;

/* Weights that are frozen now are left out. The weights must have memory for gradients (bo_weights_allocate), and
 * outlive the optimizer. */
BO_API bo_status bo_optimizer_create(bo_context *context, const bo_optimizer_desc *desc, bo_weights *weights,
                                     bo_optimizer **out);
BO_API void bo_optimizer_destroy(bo_optimizer *optimizer);                            /* may be NULL */
BO_API const bo_optimizer_desc *bo_optimizer_describe(const bo_optimizer *optimizer); /* with defaults filled in */

/* One step with the gradients of the weights, which are only read, and the rates times `factor`. *norm (or NULL):
 * |gradient| before clipping, over the trained weights. BO_NUMERIC, with the name of a weight and nothing changed,
 * where that is not finite. Decay is for matrices, embeddings and the head: vectors (gains,
 * biases) have none. */
BO_API bo_status bo_optimizer_step(bo_context *context, bo_optimizer *optimizer, double factor, double *norm);
BO_API uint64_t bo_optimizer_steps(const bo_optimizer *optimizer); /* done so far */

/* Swaps the averaged weights (`average` of the descriptor) with the current ones: once before evaluating or saving
 * them, once after; no step in between. Nothing without averaging, or before the first step. */
BO_API bo_status bo_optimizer_swap_average(bo_context *context, bo_optimizer *optimizer);

/* The state (moments, average, steps done) as a safetensors file, which appears whole or not at all, or as its bytes
 * (released with bo_free); and back, into an optimizer of the same descriptor and weights. With the weights
 * (bo_weights_save) and the place in the data a run continues to the same bits. */
BO_API bo_status bo_optimizer_save(bo_context *context, const bo_optimizer *optimizer, const char *path);
BO_API bo_status bo_optimizer_load(bo_context *context, bo_optimizer *optimizer, const char *path);
BO_API bo_status bo_optimizer_save_memory(bo_context *context, const bo_optimizer *optimizer, void **bytes,
                                          size_t *size);
BO_API bo_status bo_optimizer_load_memory(bo_context *context, bo_optimizer *optimizer, const void *bytes, size_t size);

/* ---- names --------------------------------------------------------------------------------------------------------- */

BO_API const char *bo_optimizer_kind_name(bo_optimizer_kind kind);      /* "muon", "adamw", "sgd", "sign", "linf" */
BO_API const char *bo_schedule_kind_name(bo_schedule_kind kind);        /* "cosine", "linear", "wsd", "constant" */
BO_API const char *bo_muon_factor_name(bo_muon_factor factor);          /* "tall", "spectral", "rms", "none" */
BO_API const char *bo_muon_iteration_name(bo_muon_iteration iteration); /* "quintic", "cubic" */
BO_API bool bo_optimizer_kind_parse(const char *name, bo_optimizer_kind *out);
BO_API bool bo_schedule_kind_parse(const char *name, bo_schedule_kind *out);
BO_API bool bo_muon_factor_parse(const char *name, bo_muon_factor *out);
BO_API bool bo_muon_iteration_parse(const char *name, bo_muon_iteration *out);

#ifdef __cplusplus
}
#endif
#endif
