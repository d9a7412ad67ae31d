/* Which rule a weight follows, and what the optimiser keeps for it. */
#include "internal.h"
#include <math.h>

bool bo_part_make(const bo_optimizer_desc *desc, const bo_weight *weight, bo_part *out)
{
    bool left = desc->kind == BO_OPTIMIZER_MUON && weight->role != BO_WEIGHT_MATRIX;
    *out = (bo_part){
        .weight = weight,
        .rule = left ? BO_OPTIMIZER_ADAMW : desc->kind,
        .rate = left ? desc->other_rate : desc->rate,
        .decay = weight->role == BO_WEIGHT_VECTOR ? 0 : desc->decay,
    };
    return !weight->frozen && bo_part_count(out) > 0;
}

size_t bo_part_states(const bo_optimizer_desc *desc, const bo_part *part, const char **names)
{
    size_t count = 0;
    if (part->rule == BO_OPTIMIZER_ADAMW) {
        names[count++] = "first_moment";
        names[count++] = "second_moment";
    } else if (desc->momentum >= 0) {
        names[count++] = "momentum";
    }
    if (desc->average > 0) names[count++] = "average";
    return count;
}

size_t bo_part_count(const bo_part *part)
{
    return part->weight->rows * part->weight->columns;
}

size_t bo_part_stride(const bo_part *part)
{
    return (bo_part_count(part) + 15) / 16 * 16;
}

double bo_part_shape_factor(const bo_optimizer_desc *desc, const bo_part *part)
{
    double rows = (double)part->weight->rows, columns = (double)part->weight->columns;
    switch (desc->factor) {
    case BO_MUON_FACTOR_TALL:
        return sqrt(fmax(1, rows / columns));
    case BO_MUON_FACTOR_SPECTRAL:
        return sqrt(rows / columns);
    case BO_MUON_FACTOR_RMS:
        return 0.2 * sqrt(fmax(rows, columns));
    default:
        return 1;
    }
}
