/* Creation of a context, with the table of compute kernels for this CPU, and its description. */
#include <stdlib.h>
#include "../base/enums.h"
#include "../base/base.h"
#include "cpu/kernels.h"
#include "device.h"

bo_status bo_context_create(const bo_context_desc *desc, bo_context **out)
{
    static const bo_context_desc defaults = {0};
    if (!desc) desc = &defaults;
    if (!out) return BO_INVALID;
    *out = NULL;
    if (desc->reserved[0] | desc->reserved[1] | desc->reserved[2] | desc->reserved[3]) return BO_INVALID;
    if (!bo_precision_name(desc->precision)) return BO_INVALID;
    const char *isa = desc->isa ? desc->isa : getenv("BOCHNER_ISA");
    if (isa && !*isa) isa = NULL;
    const bo_kernels *kernels = bo_kernels_find(isa);
    return kernels ? bo_context_make(desc, kernels, out) : BO_UNSUPPORTED;
}

const bo_context_info *bo_context_describe(const bo_context *context)
{
    if (!context) return NULL;
    bo_context_info *info = bo_context_update_info(context);
    info->isa = bo_kernels_isa(bo_context_kernels(context));
    info->device = bo_device_name(bo_device_of(context));
    return info;
}

void bo_context_memory(const bo_context *context, bo_memory_bound *out)
{
    if (out) *out = context ? bo_device_memory(bo_device_of(context)) : bo_process_memory();
}
