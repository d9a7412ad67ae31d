/* The names of layers' kinds. */
#include <bochner/layers.h>
#include "../base/base.h"

static const char *const mlp_names[BO_MLP_COUNT] = {"relu2", "gelu", "swiglu", "none", "gelu-tanh"};
static const char *const norm_names[BO_NORM_COUNT] = {"rms", "layer"};
static const char *const position_names[BO_POSITIONS_COUNT] = {"rope", "rope-neighbours", "learned", "sinusoidal",
                                                               "none"};

const char *bo_mlp_name(bo_mlp mlp)
{
    return (unsigned)mlp < BO_MLP_COUNT ? mlp_names[mlp] : NULL;
}

const char *bo_norm_name(bo_norm norm)
{
    return (unsigned)norm < BO_NORM_COUNT ? norm_names[norm] : NULL;
}

const char *bo_positions_name(bo_positions positions)
{
    return (unsigned)positions < BO_POSITIONS_COUNT ? position_names[positions] : NULL;
}

bool bo_mlp_parse(const char *name, bo_mlp *out)
{
    int found = bo_find_name(name, mlp_names, BO_MLP_COUNT);
    if (found >= 0) *out = (bo_mlp)found;
    return found >= 0;
}

bool bo_norm_parse(const char *name, bo_norm *out)
{
    int found = bo_find_name(name, norm_names, BO_NORM_COUNT);
    if (found >= 0) *out = (bo_norm)found;
    return found >= 0;
}

bool bo_positions_parse(const char *name, bo_positions *out)
{
    int found = bo_find_name(name, position_names, BO_POSITIONS_COUNT);
    if (found >= 0) *out = (bo_positions)found;
    return found >= 0;
}
