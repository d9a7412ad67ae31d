/* Finding and opening the plugin for GPUs. */
#ifndef BO_DEVICE_GPU_LOAD_H
#define BO_DEVICE_GPU_LOAD_H

#include "plugin.h"

/* Loads the plugin, once per process. NULL: it is not installed, or not usable; the context's error states why. */
const bo_gpu_functions *bo_gpu_load(bo_context *context);
/* Loads the plugin and returns its path; NULL as above. */
const char *bo_gpu_plugin_path(bo_context *context);

#endif
