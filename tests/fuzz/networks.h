/* Shared by the fuzz targets that read descriptions of networks. */
#ifndef BO_FUZZ_NETWORKS_H
#define BO_FUZZ_NETWORKS_H

#include "model/model.h"
#include "model/network/internal.h"

/* Large numbers are refused, because memory use grows with them. */
static inline bool fuzz_is_small(const bo_json *json)
{
    const bo_json *item;
    if (bo_json_is(json, BO_JSON_NUMBER) && !(json->number <= 40)) return false;
    BO_JSON_EACH(item, json) if (!fuzz_is_small(item)) return false;
    return true;
}

#endif
