/* The backward pass of a normalized group, in plain C. */
#include "ref.h"

void bo_ref_norm_back(size_t n, const bo_norm_row *row, const float *x, const float *dy, const float *gain, bool add,
                      float *dx, float *dgain, float *dbias)
{
    for (size_t j = 0; j < n; j++) {
        float centered = x[j] - row->mean;
        if (dgain) dgain[j] += dy[j] * (centered * row->rate);
        if (dbias) dbias[j] += dy[j];
        if (!dx) continue;
        float g = gain ? dy[j] * gain[j] : dy[j], value = row->rate * (g - row->shift - centered * row->slope);
        dx[j] = add ? dx[j] + value : value;
    }
}
