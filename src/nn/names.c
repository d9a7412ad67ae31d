/* The names of layers' kinds. */
#include <bochner/layers.h>
#include "../base/base.h"

static const char *const mlp_names[BO_MLP_COUNT] = {"relu2",           "gelu",     "swiglu",   "none",     "gelu-tanh",
                                                    "random-features", "degree-2", "degree-3", "degree-4", "degree-e",
                                                    "quadratic"};
static const char *const norm_names[BO_NORM_COUNT] = {"rms", "layer"};
static const char *const position_names[BO_POSITIONS_COUNT] = {"rope", "rope-neighbors", "learned", "sinusoidal",
                                                               "none"};
static const char *const mixer_names[BO_MIXER_COUNT] = {
    "attention", "mlp", "ssm", "conv", "rnn", "gru", "lstm", "degree-2", "degree-3", "degree-4", "degree-e"};
static const char *const ssm_names[BO_SSM_COUNT] = {"diagonal", "closed", "low-rank"};
static const char *const parametrization_names[BO_PARAMETRIZATION_COUNT] = {"standard", "mup", "unit"};
static const char *const storage_names[BO_STORAGE_COUNT] = {"float32", "bfloat16", "float8", "int8"};
static const char *const lora_init_names[BO_LORA_INIT_COUNT] = {"zero", "random", "weight", "gradient"};

BO_NAMED(mlp, bo_mlp, mlp_names)
BO_NAMED(norm, bo_norm, norm_names)
BO_NAMED(positions, bo_positions, position_names)
BO_NAMED(mixer, bo_mixer, mixer_names)
BO_NAMED(ssm, bo_ssm, ssm_names)
BO_NAMED(parametrization, bo_parametrization, parametrization_names)
BO_NAMED(storage, bo_storage, storage_names)
BO_NAMED(lora_init, bo_lora_init, lora_init_names)
