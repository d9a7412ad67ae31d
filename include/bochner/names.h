/** @file
 * Names of the values of enumerations, as the command line, files and messages use them.
 *
 *     const char *name = bo_enum_name(BO_ENUM_KERNEL, BO_KERNEL_MATERN52);       // "matern52"
 *     int kernel = bo_enum_parse(BO_ENUM_KERNEL, "Matern52");                    // BO_KERNEL_MATERN52; -1: unknown
 *     for (int i = 0; (name = bo_enum_name(BO_ENUM_KERNEL, i)); i++) puts(name); // all names
 */
#ifndef BOCHNER_NAMES_H
#define BOCHNER_NAMES_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** The enumerations whose values have names. */
typedef enum bo_enum {
    BO_ENUM_ATTENTION_KIND = 1,     /**< bo_attention_kind (attention.h) */
    BO_ENUM_GATE = 2,               /**< bo_gate (attention.h) */
    BO_ENUM_PROPOSAL = 3,           /**< bo_proposal (attention.h) */
    BO_ENUM_PRECISION = 4,          /**< bo_precision (base.h) */
    BO_ENUM_CONVERT_DTYPE = 5,      /**< bo_convert_dtype (convert.h) */
    BO_ENUM_MODEL_TASK = 6,         /**< bo_model_task (model.h) */
    BO_ENUM_POOLING = 7,            /**< bo_pooling (model.h) */
    BO_ENUM_CROSS = 8,              /**< bo_cross (model.h) */
    BO_ENUM_NETWORK_INPUT = 9,      /**< bo_network_input (network.h) */
    BO_ENUM_FORMAT = 10,            /**< bo_format (data.h) */
    BO_ENUM_TASK = 11,              /**< bo_task (data.h) */
    BO_ENUM_IMPUTE = 12,            /**< bo_impute (data.h) */
    BO_ENUM_COLUMN_USE = 13,        /**< bo_column_use (data.h) */
    BO_ENUM_OMISSION = 14,          /**< bo_omission (data.h) */
    BO_ENUM_SPLIT = 15,             /**< bo_split (data.h) */
    BO_ENUM_P_VALUE = 16,           /**< bo_p_value (drift.h) */
    BO_ENUM_SOLVER = 17,            /**< bo_solver (machines.h) */
    BO_ENUM_LOSS = 18,              /**< bo_loss (machines.h) */
    BO_ENUM_SCALING = 19,           /**< bo_scaling (machines.h) */
    BO_ENUM_METRIC_CHOICE = 20,     /**< bo_metric_choice (machines.h) */
    BO_ENUM_GRAM_PRECISION = 21,    /**< bo_gram_precision (machines.h) */
    BO_ENUM_TARGET_SCALE = 22,      /**< bo_target_scale (machines.h) */
    BO_ENUM_SCORE = 23,             /**< bo_score (metrics.h) */
    BO_ENUM_KERNEL = 24,            /**< bo_kernel (features.h) */
    BO_ENUM_FUNCTION = 25,          /**< bo_function (features.h) */
    BO_ENUM_DRAW = 26,              /**< bo_draw (features.h) */
    BO_ENUM_SAMPLING = 27,          /**< bo_sampling (features.h) */
    BO_ENUM_HIDDEN_ACTIVATION = 28, /**< bo_hidden_activation (features.h) */
    BO_ENUM_MLP = 29,               /**< bo_mlp (kinds.h) */
    BO_ENUM_NORM = 30,              /**< bo_norm (kinds.h) */
    BO_ENUM_POSITIONS = 31,         /**< bo_positions (kinds.h) */
    BO_ENUM_RESIDUAL = 32,          /**< bo_residual (kinds.h) */
    BO_ENUM_ROPE_SCALING_KIND = 33, /**< bo_rope_scaling_kind (kinds.h) */
    BO_ENUM_MIXER = 34,             /**< bo_mixer (kinds.h) */
    BO_ENUM_SSM = 35,               /**< bo_ssm (kinds.h) */
    BO_ENUM_PARAMETRIZATION = 36,   /**< bo_parametrization (kinds.h) */
    BO_ENUM_STORAGE = 37,           /**< bo_storage (kinds.h) */
    BO_ENUM_LORA_INIT = 38,         /**< bo_lora_init (kinds.h) */
    BO_ENUM_OPERATION = 39,         /**< bo_operation (operations.h) */
    BO_ENUM_OPTIMIZER_KIND = 40,    /**< bo_optimizer_kind (optim.h) */
    BO_ENUM_SCHEDULE_KIND = 41,     /**< bo_schedule_kind (optim.h) */
    BO_ENUM_MUON_FACTOR = 42,       /**< bo_muon_factor (optim.h) */
    BO_ENUM_MUON_ITERATION = 43,    /**< bo_muon_iteration (optim.h) */
    BO_ENUM_PLAN_TERM = 44,         /**< bo_plan_term (plan.h) */
    BO_ENUM_PLAN_ORIGIN = 45,       /**< bo_plan_origin (plan.h) */
    BO_ENUM_ATTENTION_PRESET = 46,  /**< the presets of bo_attention_preset() (attention.h), by their number */
} bo_enum;

/** Returns the name of a value of an enumeration.
 *
 * @param which  the enumeration
 * @param value  the value
 * @return the name, static memory; NULL if the value is out of range; "" if the value has no name that can be parsed
 */
BO_API const char *bo_enum_name(bo_enum which, int value);

/** Finds the value of an enumeration by its name. Case is ignored, and "_" equals "-".
 *
 * @param which  the enumeration
 * @param name   the name, or one of its aliases
 * @return the value, which is not negative; -1 if there is no such name
 */
BO_API int bo_enum_parse(bo_enum which, const char *name);

#ifdef __cplusplus
}
#endif
#endif
