/* The runs behind the default loss law: WikiText-2 as bytes, each seen once; rfa-gate with 128 features, heads of 32
 * (of 24 at width 48), context 256; Muon with a cosine schedule, as in the defaults of bochner train. The loss is in
 * nats per byte over the first 131072 held-out bytes. */
#include "plan.h"

static const bo_plan_run runs[] = {
    {33058, 499712, 2048, 1.98774},   /* 2 x 32 */
    {33058, 1998848, 2048, 1.65642},  /* 2 x 32 */
    {68116, 499712, 2048, 1.85906},   /* 2 x 48 */
    {68116, 2998272, 4096, 1.51921},  /* 2 x 48 */
    {115396, 249856, 2048, 1.98911},  /* 2 x 64 */
    {115396, 499712, 1024, 1.74059},  /* 2 x 64 */
    {115396, 999424, 2048, 1.62449},  /* 2 x 64 */
    {115396, 999424, 8192, 1.86211},  /* 2 x 64 */
    {115396, 999424, 16384, 2.19248}, /* 2 x 64 */
    {115396, 999936, 512, 1.60802},   /* 2 x 64 */
    {115396, 2998272, 8192, 1.52031}, /* 2 x 64 */
    {115396, 3999744, 2048, 1.40757}, /* 2 x 64 */
    {214344, 499712, 2048, 1.74033},  /* 4 x 64 */
    {358185, 249856, 2048, 1.84819},  /* 3 x 96 */
    {358185, 999424, 2048, 1.49612},  /* 3 x 96 */
    {358185, 999424, 8192, 1.66065},  /* 3 x 96 */
    {358185, 999936, 512, 1.48692},   /* 3 x 96 */
    {427912, 499712, 2048, 1.64940},  /* 2 x 128 */
    {822928, 499712, 2048, 1.60793},  /* 4 x 128 */
    {822928, 999424, 2048, 1.45066},  /* 4 x 128 */
};

bo_status bo_plan_losses_default(bo_context *context, bo_plan_losses **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    return bo_plan_losses_fit(context, runs, sizeof runs / sizeof *runs, out);
}
