/* The runs behind the usual loss law: English as bytes, rfa-gate with 128 features, Muon, cosine, one pass. */
#include "plan.h"

static const bo_plan_run runs[] = {
    {20641, 249856, 2048, 2.44786},  {20641, 999424, 2048, 1.89914},  {115396, 249856, 2048, 1.98911},
    {115396, 999424, 2048, 1.62449}, {214344, 499712, 2048, 1.74033}, {358185, 249856, 2048, 1.84819},
    {115396, 999936, 512, 1.60802},  {115396, 999424, 8192, 1.75},
};

bo_status bo_plan_losses_usual(bo_context *context, bo_plan_losses *out)
{
    return bo_plan_losses_fit(context, runs, sizeof runs / sizeof *runs, out);
}
