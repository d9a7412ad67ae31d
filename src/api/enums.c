/* The names of all enumerations behind two functions. The names themselves are in the modules. */
#include <bochner/names.h>
#include "../attention/enums.h"
#include "../base/enums.h"
#include "../features/enums.h"
#include "../io/enums.h"
#include "../machines/enums.h"
#include "../math/enums.h"
#include "../model/enums.h"
#include "../nn/enums.h"
#include "../optim/enums.h"
#include "../plan/enums.h"
#include "../tape/enums.h"

/* X(stem, identifier, type): bo_<stem>_name and bo_<stem>_parse, BO_ENUM_<identifier>. */
#define ENUMS(X)                                                                                                       \
    X(attention_kind, ATTENTION_KIND, bo_attention_kind)                                                               \
    X(attention_preset, ATTENTION_PRESET, size_t)                                                                      \
    X(gate, GATE, bo_gate)                                                                                             \
    X(proposal, PROPOSAL, bo_proposal)                                                                                 \
    X(precision, PRECISION, bo_precision)                                                                              \
    X(convert_dtype, CONVERT_DTYPE, bo_convert_dtype)                                                                  \
    X(model_task, MODEL_TASK, bo_model_task)                                                                           \
    X(pooling, POOLING, bo_pooling)                                                                                    \
    X(cross, CROSS, bo_cross)                                                                                          \
    X(network_input, NETWORK_INPUT, bo_network_input)                                                                  \
    X(format, FORMAT, bo_format)                                                                                       \
    X(task, TASK, bo_task)                                                                                             \
    X(impute, IMPUTE, bo_impute)                                                                                       \
    X(column_use, COLUMN_USE, bo_column_use)                                                                           \
    X(omission, OMISSION, bo_omission)                                                                                 \
    X(split, SPLIT, bo_split)                                                                                          \
    X(p_value, P_VALUE, bo_p_value)                                                                                    \
    X(solver, SOLVER, bo_solver)                                                                                       \
    X(loss, LOSS, bo_loss)                                                                                             \
    X(scaling, SCALING, bo_scaling)                                                                                    \
    X(metric_choice, METRIC_CHOICE, bo_metric_choice)                                                                  \
    X(gram_precision, GRAM_PRECISION, bo_gram_precision)                                                               \
    X(target_scale, TARGET_SCALE, bo_target_scale)                                                                     \
    X(score, SCORE, bo_score)                                                                                          \
    X(kernel, KERNEL, bo_kernel)                                                                                       \
    X(function, FUNCTION, bo_function)                                                                                 \
    X(draw, DRAW, bo_draw)                                                                                             \
    X(sampling, SAMPLING, bo_sampling)                                                                                 \
    X(hidden_activation, HIDDEN_ACTIVATION, bo_hidden_activation)                                                      \
    X(mlp, MLP, bo_mlp)                                                                                                \
    X(norm, NORM, bo_norm)                                                                                             \
    X(positions, POSITIONS, bo_positions)                                                                              \
    X(residual, RESIDUAL, bo_residual)                                                                                 \
    X(rope_scaling_kind, ROPE_SCALING_KIND, bo_rope_scaling_kind)                                                      \
    X(mixer, MIXER, bo_mixer)                                                                                          \
    X(ssm, SSM, bo_ssm)                                                                                                \
    X(parametrization, PARAMETRIZATION, bo_parametrization)                                                            \
    X(storage, STORAGE, bo_storage)                                                                                    \
    X(lora_init, LORA_INIT, bo_lora_init)                                                                              \
    X(operation, OPERATION, bo_operation)                                                                              \
    X(optimizer_kind, OPTIMIZER_KIND, bo_optimizer_kind)                                                               \
    X(schedule_kind, SCHEDULE_KIND, bo_schedule_kind)                                                                  \
    X(muon_factor, MUON_FACTOR, bo_muon_factor)                                                                        \
    X(muon_iteration, MUON_ITERATION, bo_muon_iteration)                                                               \
    X(plan_term, PLAN_TERM, bo_plan_term)                                                                              \
    X(plan_origin, PLAN_ORIGIN, bo_plan_origin)

/* The functions of the modules take different types. */
#define DEFINE(stem, identifier, type)                                                                                 \
    static const char *name_##stem(int value)                                                                          \
    {                                                                                                                  \
        return bo_##stem##_name((type)value);                                                                          \
    }                                                                                                                  \
                                                                                                                       \
    static int parse_##stem(const char *name)                                                                          \
    {                                                                                                                  \
        type value;                                                                                                    \
        return bo_##stem##_parse(name, &value) ? (int)value : -1;                                                      \
    }
ENUMS(DEFINE)

#define ROW(stem, identifier, type) [BO_ENUM_##identifier] = {name_##stem, parse_##stem},
static const struct {
    const char *(*name)(int value);
    int (*parse)(const char *name);
} enums[] = {ENUMS(ROW)};

static bool is_known(bo_enum which)
{
    return (unsigned)which < sizeof enums / sizeof *enums && enums[which].name;
}

const char *bo_enum_name(bo_enum which, int value)
{
    return is_known(which) ? enums[which].name(value) : NULL;
}

int bo_enum_parse(bo_enum which, const char *name)
{
    return name && is_known(which) ? enums[which].parse(name) : -1;
}
