#include "internal.h"
bo_status bo_features_select(bo_context *context, bo_features *features)
{
    (void)features;
    return bo_fail(context, BO_UNSUPPORTED, "data-aware sampling is not there yet");
}
