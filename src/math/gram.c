/* The Gram matrix ZᵀZ of features, and the two halves of a symmetric matrix. */
#include "linalg.h"
#include "panel.h"
#include "upper.h"

/* Upper triangle of G += factor ZᵀZ, the rows of Z (`size` bytes a number) taken in runs of at most `most`. */
static bo_status gram(bo_context *context, bo_upper_kind kind, size_t size, size_t most, size_t n, size_t rows,
                      double factor, const void *z, size_t ldz, double *g, size_t ldg)
{
    if (n == 0 || rows == 0) return BO_OK;
    size_t run = bo_run_length(rows, most);
    bo_upper_panels panels;
    BO_TRY(bo_upper_panels_create(context, kind, n, run, &panels));
    for (size_t p = 0; p < rows; p += run) {
        const char *row = (const char *)z + p * ldz * size;
        bo_upper_update(context, kind, n, bo_smaller(run, rows - p), factor, row, ldz, g, ldg, &panels);
    }
    bo_upper_panels_destroy(&panels);
    return BO_OK;
}

bo_status bo_gram(bo_context *context, size_t n, size_t rows, const float *z, size_t ldz, double *g, size_t ldg,
                  bool precise)
{
    return gram(context, precise ? BO_UPPER_F32_PRECISE : BO_UPPER_F32, sizeof *z,
                precise ? BO_DEPTH64 : BO_DEPTH32_GRAM, n, rows, 1.0, z, ldz, g, ldg);
}

bo_status bo_gram8(bo_context *context, size_t n, size_t rows, const int8_t *q, size_t ldq, double scale, double *g,
                   size_t ldg)
{
    return gram(context, BO_UPPER_S8, sizeof *q, BO_DEPTH8, n, rows, scale, q, ldq, g, ldg);
}
