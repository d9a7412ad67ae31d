/* The number of values of each public enumeration. The public headers omit these counts because later versions add
 * values. */
#ifndef BO_COUNTS_H
#define BO_COUNTS_H

/* bochner/attention.h */
#define BO_ATTENTION_COUNT  (BO_ATTENTION_RIDGE + 1)
#define BO_GATE_COUNT       (BO_GATE_FIXED + 1)
#define BO_NORMALIZER_COUNT (BO_NORMALIZER_NONE + 1)
#define BO_PROPOSAL_COUNT   (BO_PROPOSAL_GAUSSIAN + 1)
/* bochner/data.h */
#define BO_SPLIT_COUNT (BO_SPLIT_TEST + 1)
/* bochner/features.h */
#define BO_KERNEL_COUNT   (BO_KERNEL_NTK + 1)
#define BO_FUNCTION_COUNT (BO_FUNCTION_LANDMARKS + 1)
#define BO_DRAW_COUNT     (BO_DRAW_MOMENT + 1)
#define BO_SAMPLING_COUNT (BO_SAMPLING_LEVERAGE + 1)
/* bochner/kinds.h */
#define BO_MLP_COUNT             (BO_MLP_SILU + 1)
#define BO_MIXER_COUNT           (BO_MIXER_DEGREE_E + 1)
#define BO_SSM_COUNT             (BO_SSM_LOW_RANK + 1)
#define BO_PARAMETRIZATION_COUNT (BO_PARAMETRIZATION_UNIT + 1)
#define BO_STORAGE_COUNT         (BO_STORAGE_INT4 + 1)
#define BO_LORA_INIT_COUNT       (BO_LORA_INIT_GRADIENT + 1)
#define BO_NORM_COUNT            (BO_NORM_LAYER + 1)
#define BO_POSITIONS_COUNT       (BO_POSITIONS_NONE + 1)
#define BO_RESIDUAL_COUNT        (BO_RESIDUAL_AFTER + 1)
#define BO_ROPE_SCALING_COUNT    (BO_ROPE_SCALING_KIND_LLAMA3 + 1)
/* bochner/model.h */
#define BO_MODEL_TASK_COUNT (BO_MODEL_TASK_PREDICT + 1)
#define BO_POOLING_COUNT    (BO_POOLING_LAST + 1)
#define BO_CROSS_COUNT      (BO_CROSS_SUMMARY + 1)
/* bochner/network.h */
#define BO_NETWORK_INPUT_COUNT (BO_NETWORK_INPUT_GRAPH + 1)
/* bochner/operations.h */
#define BO_OPERATION_COUNT       (BO_OPERATION_ROUND + 1)
#define BO_UNARY_COUNT           (BO_UNARY_IDENTITY + 1)
#define BO_LOSS_KIND_COUNT       (BO_LOSS_KIND_RELATIVE + 1)
#define BO_ATTENTION_GIVEN_COUNT 10 /* number of bits */
#define BO_SSM_FORM_COUNT        (BO_SSM_FORM_CONVOLUTION + 1)
#define BO_RECURRENCE_COUNT      (BO_RECURRENCE_LSTM + 1)
#define BO_POOL_COUNT            (BO_POOL_KIND_MEAN + 1)
#define BO_AGGREGATE_COUNT       (BO_AGGREGATE_MAX + 1)
#define BO_NOISE_COUNT           (BO_NOISE_ROWS + 1)
#define BO_SMALL_FLOAT_COUNT     (BO_SMALL_FLOAT_BF16 + 1)
/* bochner/optim.h */
#define BO_OPTIMIZER_COUNT      (BO_OPTIMIZER_LINF + 1)
#define BO_SCHEDULE_COUNT       (BO_SCHEDULE_CONSTANT + 1)
#define BO_MUON_FACTOR_COUNT    (BO_MUON_FACTOR_NONE + 1)
#define BO_MUON_ITERATION_COUNT (BO_MUON_ITERATION_CUBIC + 1)
/* bochner/plan.h */
#define BO_PLAN_TERM_COUNT   (BO_PLAN_TERM_ATTENTION + 1)
#define BO_PLAN_ORIGIN_COUNT (BO_PLAN_ORIGIN_ABSENT + 1)
/* bochner/texts.h */
#define BO_TEXTS_KIND_COUNT (BO_TEXTS_ALONE_PAIR + 1)

#endif
