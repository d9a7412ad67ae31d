/* The names of operations. */
#include "enums.h"
#include "internal.h"

const char *bo_operation_name(bo_operation operation)
{
    return (unsigned)operation < BO_OPERATION_COUNT ? bo_backend_cpu()->ops[operation]->name : NULL;
}

bool bo_operation_parse(const char *name, bo_operation *out)
{
    if (!name || !out) return false;
    for (int i = 0; i < BO_OPERATION_COUNT; i++) {
        if (!bo_same_name(name, bo_operation_name((bo_operation)i))) continue;
        *out = (bo_operation)i;
        return true;
    }
    return false;
}
