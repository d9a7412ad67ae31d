/* Declarations shared by the CPU updates: loops over vectors in blocks of fixed size. */
#ifndef BO_BACKEND_CPU_UPDATES_H
#define BO_BACKEND_CPU_UPDATES_H

#include "../updates.h"
#include "../../device/cpu/kernels.h"

/* The parameters of a rule in the form that the loops need. */
typedef struct bo_rule_numbers {
    float scale, rate, keep; /* keep: 1 - decay */
    float momentum, rest;    /* μ, 1 - μ */
    bool nesterov;
    const bo_kernels *kernels; /* for AdamW */
    bo_adamw_step adamw;
} bo_rule_numbers;

bo_rule_numbers bo_momentum_numbers(const bo_rule *rule, const bo_rates *rates);

/* A loop over n floats of each vector; vectors that it does not need are NULL. */
typedef void (*bo_update_loop)(const bo_rule_numbers *k, size_t n, const float *g, float *m, float *v, float *w);
void bo_update_blocks(bo_context *context, const bo_rule_numbers *k, bo_update_loop loop, size_t count, const void *g,
                      void *m, void *v, void *w);

double bo_cpu_sum_squares(bo_context *context, size_t count, const float *x);

/* The workspace for one matrix; several matrices need the maximum. */
size_t bo_cpu_muon_bytes(bo_context *context, size_t rows, size_t columns);
bo_status bo_cpu_muon(bo_context *context, const bo_rule *rule, bo_newton_schulz iteration, size_t steps, size_t count,
                      const bo_muon_matrix *matrices, void *scratch);

#endif
