/* The names of layers' kinds. */
#include <bochner/layers.h>
#include "../base/base.h"

static const char *const mlp_names[BO_MLP_COUNT] = {"relu2", "gelu", "swiglu", "none", "gelu-tanh"};
static const char *const norm_names[BO_NORM_COUNT] = {"rms", "layer"};
static const char *const position_names[BO_POSITIONS_COUNT] = {"rope", "rope-neighbours", "learned", "sinusoidal",
                                                               "none"};

BO_NAMED(mlp, bo_mlp, mlp_names)
BO_NAMED(norm, bo_norm, norm_names)
BO_NAMED(positions, bo_positions, position_names)
