/* Random features in ten lines: φ(x)·φ(y) estimates the kernel exp(-γ|x - y|²), here exp(-0.5) = 0.607. */
#include <bochner/bochner.h>
#include <stdio.h>

int main(void)
{
    bo_context *context;
    bo_features *phi;
    bo_features_desc desc = {.kernel = BO_KERNEL_RBF, .dim = 2, .features = 4096, .gamma = 0.5, .seed = 1};
    if (bo_context_create(NULL, &context) != BO_OK) return 1;
    if (bo_features_create(context, &desc, &phi) != BO_OK) return puts(bo_context_error(context)), 1;

    float points[2][2] = {{0, 0}, {1, 0}}, z[2][4096], estimate = 0;
    bo_inputs rows = {.rows = 2, .x = points[0]};
    if (bo_features_apply(context, phi, &rows, z[0], 4096) != BO_OK) return puts(bo_context_error(context)), 1;
    for (int j = 0; j < 4096; j++) estimate += z[0][j] * z[1][j];
    printf("bochner %s: %.3f, exact value 0.607\n", bo_version(), estimate);

    bo_features_destroy(phi);
    bo_context_destroy(context);
    return estimate > 0.557f && estimate < 0.657f ? 0 : 1; /* five standard deviations */
}
