/* Declarations shared by the GPU updates. */
#ifndef BO_BACKEND_GPU_UPDATES_H
#define BO_BACKEND_GPU_UPDATES_H

#include "gpu.h"
#include "../updates.h"
#include "../../base/carver.h"

size_t bo_gpu_muon_bytes(size_t count, const bo_muon_matrix *matrices);
bo_status bo_gpu_muon(bo_context *context, const bo_rule *rule, bo_newton_schulz iteration, size_t steps, size_t count,
                      const bo_muon_matrix *matrices, void *scratch);

#endif
