/* Search and loading of the GPU plugin. */
#ifndef BO_DEVICE_GPU_LOAD_H
#define BO_DEVICE_GPU_LOAD_H

#include "plugin.h"

/* Loads the plugin once per process. NULL: it is missing or unusable (see the context's error). */
const bo_gpu_functions *bo_gpu_load(bo_context *context);
/* Loads the plugin and returns its path; NULL as above. */
const char *bo_gpu_plugin_path(bo_context *context);

#endif
