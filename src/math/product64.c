/* Small products in double on the calling thread: linalg.h. */
#include "linalg.h"
#include "panel.h"
#include "../base/carver.h"
#include "../device/cpu/kernels.h"

typedef struct panels {
    double *a, *b;
} panels;

static panels panels_in(const bo_kernels *kernels, size_t m, size_t n, size_t k, void *workspace, size_t *bytes)
{
    bo_carver carver = {.at = workspace};
    panels out;
    out.a = bo_carve(&carver, bo_round_up(m, kernels->gemm64.mr) * k, sizeof(double));
    out.b = bo_carve(&carver, bo_round_up(n, kernels->gemm64.nr) * k, sizeof(double));
    if (bytes) *bytes = carver.bytes;
    return out;
}

size_t bo_product64_bytes(const bo_kernels *kernels, size_t m, size_t n, size_t k)
{
    size_t bytes;
    panels_in(kernels, m, n, k, NULL, &bytes);
    return bytes;
}

void bo_product64_run(const bo_kernels *kernels, const bo_product64 *product, void *workspace)
{
    const bo_micro_f64 *micro = &kernels->gemm64;
    const size_t m = product->m, n = product->n, k = product->k;
    panels packed = panels_in(kernels, m, n, k, workspace, NULL);
    bo_pack_f64(micro->mr, m, k, 1, product->a, product->lda, !product->ta, packed.a);
    bo_pack_f64(micro->nr, n, k, 1, product->b, product->ldb, product->tb, packed.b);
    for (size_t i = 0; i < m; i += micro->mr)
        for (size_t j = 0; j < n; j += micro->nr) {
            if (product->upper && j + micro->nr <= i) continue;
            micro->f64(k, packed.a + i * k, packed.b + j * k, product->c + i * product->ldc + j, product->ldc,
                       bo_min(micro->mr, m - i), bo_min(micro->nr, n - j), product->add);
        }
}
