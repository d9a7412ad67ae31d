/* The runs behind the usual loss law: WikiText-2 as bytes, each seen once; rfa-gate with 128 features, heads of 32 (of 24 at width
 * 48), context 256, Muon and a cosine as bochner train has them; nats a byte over the first 131072 held out. */
#include "plan.h"

static const bo_plan_run runs[] = {
    {33058, 499712, 2048, 1.98774},   /* 2 x 32 */
    {68116, 499712, 2048, 1.85906},   /* 2 x 48 */
    {115396, 249856, 2048, 1.98911},  /* 2 x 64 */
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
    {822928, 499712, 2048, 1.60793},  /* 4 x 128 */
    {822928, 999424, 2048, 1.45066},  /* 4 x 128 */
};

bo_status bo_plan_losses_usual(bo_context *context, bo_plan_losses *out)
{
    return bo_plan_losses_fit(context, runs, sizeof runs / sizeof *runs, out);
}
