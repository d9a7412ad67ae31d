/* Shared by the fuzz targets that read descriptions of networks. */
#ifndef BO_FUZZ_NETWORKS_H
#define BO_FUZZ_NETWORKS_H

#include "model/model.h"
#include "model/network/internal.h"

/* Large numbers are refused, because they would use as much memory as they request. */
static inline bool fuzz_is_small(const cJSON *json)
{
    const cJSON *item;
    if (cJSON_IsNumber(json) && !(json->valuedouble <= 40)) return false;
    cJSON_ArrayForEach(item, json) if (!fuzz_is_small(item)) return false;
    return true;
}

#endif
