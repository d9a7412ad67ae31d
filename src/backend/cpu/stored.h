/* The CPU's memory in fewer bits than float32. */
#ifndef BO_BACKEND_CPU_STORED_H
#define BO_BACKEND_CPU_STORED_H

#include "../backend.h"

/* bo_backend's round and widen. */
bo_status bo_cpu_round_floats(bo_context *context, void *to, const void *floats, size_t count);
bo_status bo_cpu_widen_floats(bo_context *context, void *floats, const void *from, size_t count);

#endif
