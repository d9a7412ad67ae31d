/* How a model's weights are kept while it is read. */
#include "weights.h"

static const bo_storage kinds[] = {BO_STORAGE_FLOAT32, BO_STORAGE_BFLOAT16, BO_STORAGE_INT8};

const char *cli_weights_choice(int index)
{
    return index < (int)CLI_COUNT_OF(kinds) ? bo_storage_name(kinds[index]) : NULL;
}

bo_status cli_weights_load(bo_context *context, const char *folder, int weights, bo_model **out)
{
    const bo_status status = bo_model_load(context, folder, out);
    return status == BO_OK ? bo_model_store(context, *out, kinds[weights]) : status;
}
