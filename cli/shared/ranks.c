#include "ranks.h"
#include "../../src/base/base.h"
#include "../../src/math/linalg.h"
#include <math.h>
#include <string.h>

/* ---- singular values --------------------------------------------------------------------------------------------- */

void bo_singular_close(bo_singular *s)
{
    bo_free(s->copy);
    bo_free(s->u);
    bo_free(s->values);
    bo_free(s->vt);
}

bo_status bo_singular_open(bo_context *context, size_t rows, size_t columns, const double *matrix, bo_singular *s)
{
    const size_t count = rows < columns ? rows : columns;
    *s = (bo_singular){rows,
                       columns,
                       count,
                       bo_alloc_raw(context, rows * columns, sizeof(double), "a copy of a matrix"),
                       bo_alloc_raw(context, rows * count, sizeof(double), "singular vectors"),
                       bo_alloc_raw(context, count, sizeof(double), "singular values"),
                       bo_alloc_raw(context, count * columns, sizeof(double), "singular vectors")};
    if (!s->copy || !s->u || !s->values || !s->vt) return BO_MEMORY;
    memcpy(s->copy, matrix, rows * columns * sizeof *matrix);
    return bo_svd(context, rows, columns, s->copy, s->u, s->values, s->vt);
}

bo_status bo_singular_values(bo_context *context, size_t rows, size_t columns, const double *matrix, double *values)
{
    bo_singular s;
    const bo_status status = bo_singular_open(context, rows, columns, matrix, &s);
    if (status == BO_OK) memcpy(values, s.values, s.count * sizeof *values);
    bo_singular_close(&s);
    return status;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

double bo_effective_rank(const double *values, size_t count)
{
    double sum = 0, entropy = 0;
    for (size_t i = 0; i < count; i++) sum += values[i] * values[i];
    for (size_t i = 0; i < count && sum > 0; i++) {
        const double part = values[i] * values[i] / sum;
        if (part > 0) entropy -= part * log(part);
    }
    return sum > 0 ? exp(entropy) : 0;
}

size_t bo_rank_within(const double *values, size_t count, double epsilon)
{
    double sum = 0, left = 0;
    size_t rank = count;
    for (size_t i = 0; i < count; i++) sum += values[i] * values[i];
    while (rank > 0 && (left += values[rank - 1] * values[rank - 1]) <= epsilon * epsilon * sum) rank--;
    return rank;
}
