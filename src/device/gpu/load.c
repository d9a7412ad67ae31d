/* Search and loading of the GPU plugin: load.h. */
#include "load.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include "../../base/base.h"
#include "../../base/plugin.h"

/* The plugin of this process. It is never closed, because the driver cannot be unloaded. */
static struct {
    pthread_mutex_t lock;
    const bo_gpu_functions *functions; /* NULL: not loaded */
    char path[BO_PLUGIN_TEXT];         /* of the plugin, if it is loaded */
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const bo_gpu_functions *load(bo_context *context, char *path)
{
    if (!bo_plugin_find("libbochner_cuda.so", "BOCHNER_CUDA", path)) {
        bo_fail(context, BO_UNSUPPORTED,
                "the CUDA plugin was not found: %.1000s; it is built if nvcc is found (see docs/guides/gpu.md)", path);
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        bo_fail(context, BO_UNSUPPORTED, "the CUDA plugin cannot be opened: %s", dlerror());
        return NULL;
    }
    const bo_gpu_functions *(*find)(void);
    *(void **)&find = dlsym(handle, "bo_cuda_plugin");
    const bo_gpu_functions *functions = find ? find() : NULL;
    const bool sized = functions && functions->bytes == sizeof *functions;
    if (!sized || strcmp(functions->version, BO_VERSION_STRING) != 0) {
        bo_fail(context, BO_UNSUPPORTED,
                "%.1000s is a plugin for %s%.20s; this is version %s: install both from one build", path,
                sized ? "version " : "another version", sized ? functions->version : "", BO_VERSION_STRING);
        return NULL;
    }
    return functions;
}

const bo_gpu_functions *bo_gpu_load(bo_context *context)
{
    pthread_mutex_lock(&plugin.lock);
    if (!plugin.functions) plugin.functions = load(context, plugin.path);
    const bo_gpu_functions *functions = plugin.functions;
    pthread_mutex_unlock(&plugin.lock);
    return functions;
}

const char *bo_gpu_plugin_path(bo_context *context)
{
    return bo_gpu_load(context) ? plugin.path : NULL;
}
