/* Kernels with one gate per channel, in plain C: the reference for tests of the fast versions. */
#include "ref.h"

void bo_ref_state_step_gated(size_t rows, size_t n, bool update, const float *decay, const float *f, const float *v,
                             float *s, size_t queries, const float *q, size_t ldq, float *out, size_t ldo)
{
    for (size_t i = 0; update && i < rows; i++) {
        for (size_t j = 0; j < n; j++) s[i * n + j] = decay[i] * s[i * n + j] + f[i] * v[j];
    }
    bo_ref_multiply(queries, n, rows, q, ldq, 1, s, n, false, out, ldo);
}

void bo_ref_product(size_t n, const float *x, const float *y, bool add, float *z)
{
    for (size_t i = 0; i < n; i++) z[i] = add ? z[i] + x[i] * y[i] : x[i] * y[i];
}

void bo_ref_gated_scores(size_t rows, size_t n, const float *q, size_t ldq, const float *k, size_t ldk, const float *g,
                         size_t ldg, float *out, size_t ldo)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j <= i; j++) {
            float sum = 0.0f;
            for (size_t c = 0; c < n; c++) {
                float weighed = q[i * ldq + c];
                for (size_t t = i; t > j; t--) weighed *= g[t * ldg + c];
                sum += weighed * k[j * ldk + c];
            }
            out[i * ldo + j] = sum;
        }
    }
}

void bo_ref_gated_gradients(size_t rows, size_t n, const float *w, size_t ldw, const float *q, const float *k,
                            size_t ldk, const float *g, float *dq, float *dk, float *dlog)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t c = 0; c < n; c++) {
            /* decay: product of the gates after j; passed: the sum that reaches i from tokens before t */
            float decay = 1.0f, passed = 0.0f;
            for (size_t j = i + 1; j-- > 0;) {
                dq[i * n + c] += w[i * ldw + j] * decay * k[j * ldk + c];
                dk[j * n + c] += w[i * ldw + j] * decay * q[i * n + c];
                decay *= g[j * n + c];
            }
            for (size_t t = 1; t <= i; t++) {
                passed = passed * g[(t - 1) * n + c] + w[i * ldw + t - 1] * k[(t - 1) * ldk + c];
                decay = q[i * n + c];
                for (size_t after = i; after >= t; after--) decay *= g[after * n + c];
                dlog[t * n + c] += decay * passed;
            }
        }
    }
}
