/* One AdamW step (kernels.h), for any instruction set. The code that compilers vectorize is limited by division and
 * memory, so no vector operations are used. The including file defines ISA(name). */
#include <math.h>

void ISA(adamw)(size_t n, const bo_adamw_step *step, const float *restrict g, float *restrict m, float *restrict v,
                float *restrict w)
{
    bo_adamw_step s = *step;
    for (size_t i = 0; i < n; i++) {
        float gradient = s.scale * g[i];
        m[i] = s.beta1 * m[i] + s.rest1 * gradient;
        v[i] = s.beta2 * v[i] + s.rest2 * (gradient * gradient);
        w[i] = s.keep * w[i] - s.rate * (m[i] / (sqrtf(v[i]) * s.correction + s.epsilon));
    }
}
