/* Which rule a weight follows, and what the optimizer keeps for it. */
#include "internal.h"
#include <math.h>

/* Steps are to change what the weight makes of its input by as much at every width (docs/parametrization.md). With a factor
 * s in front of the weight its gradient is s times, and its step 1/s times, that of the product. */
double bo_optim_part_rate_factor(const bo_optim_part *part)
{
    const bo_weight *w = part->weight;
    switch (part->rule) {
    case BO_OPTIMIZER_SGD: /* numbers of the gradient ∝ 1/out, of the step ∝ 1/in */
        return w->out / (w->in * w->scale * w->scale);
    case BO_OPTIMIZER_LINF: /* |g|₁ ∝ in: a step that is ∝ 1/in wants 1/in² */
        return w->rate * w->rate;
    case BO_OPTIMIZER_MUON: /* in bo_optim_part_shape_factor, a matrix at a time */
        return 1;
    default:
        return w->rate;
    }
}

bool bo_optim_part_make(const bo_optimizer_desc *desc, const bo_weight *weight, bo_optim_part *out)
{
    bool left = desc->kind == BO_OPTIMIZER_MUON && weight->role != BO_WEIGHT_MATRIX;
    *out = (bo_optim_part){
        .weight = weight,
        .rule = left ? BO_OPTIMIZER_ADAMW : desc->kind,
        .rate = left ? desc->other_rate : desc->rate,
        .decay = weight->role == BO_WEIGHT_VECTOR ? 0 : desc->decay,
    };
    double factor = bo_optim_part_rate_factor(out);
    out->rate *= factor;
    out->decay /= factor; /* rate times decay is of the width no function */
    return !weight->frozen && bo_optim_part_count(out) > 0;
}

size_t bo_optim_part_states(const bo_optimizer_desc *desc, const bo_optim_part *part, const char **names)
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

size_t bo_optim_part_count(const bo_optim_part *part)
{
    return part->weight->rows * part->weight->columns;
}

size_t bo_optim_part_stride(const bo_optim_part *part)
{
    return (bo_optim_part_count(part) + 15) / 16 * 16;
}

static double factor_of_shape(bo_muon_factor factor, double rows, double columns)
{
    switch (factor) {
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

/* That of the base model's matrix, from where |ΔW|₂ grows as √(out/in): the spectral condition (2310.17813). */
double bo_optim_part_shape_factor(const bo_optimizer_desc *desc, const bo_optim_part *part)
{
    const bo_weight *w = part->weight;
    return factor_of_shape(desc->factor, (double)w->rows / w->out, (double)w->columns / w->in) * sqrt(w->out / w->in) /
           w->scale;
}
