/* Host memory in storage types with fewer bits than float32. */
#ifndef BO_BACKEND_CPU_STORED_H
#define BO_BACKEND_CPU_STORED_H

#include "../backend.h"
#include "../../math/stored.h"

/* Functions of bo_backend. */
bo_status bo_cpu_narrow(bo_context *context, bo_element element, size_t rows, size_t columns, const void *floats,
                        void *to);
bo_status bo_cpu_widen(bo_context *context, bo_element element, size_t rows, size_t columns, const void *from,
                       void *floats);

static inline bo_stored bo_stored_of(bo_element element)
{
    if (element == BO_ELEMENT_BFLOAT16) return BO_STORED_BFLOAT16;
    if (element == BO_ELEMENT_INT4) return BO_STORED_INT4;
    return element == BO_ELEMENT_INT8 ? BO_STORED_INT8 : BO_STORED_FLOAT32;
}

/* Fails if the gradient of an input with a narrow storage type is requested. */
bo_status bo_refuse_stored(bo_context *context, const bo_op_call *call, const char *op);

#endif
