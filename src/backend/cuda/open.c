/* Finding and opening the plugin and a device. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include "../../base/plugin.h"
#include "cuda.h"

/* One plugin and one device per process. The lock orders the work of several threads, and protects these variables. */
static struct {
    pthread_mutex_t lock;
    pthread_once_t once;
    const bo_cuda_functions *functions; /* NULL: not loaded */
    char path[BO_PLUGIN_TEXT];          /* of the plugin, if it is loaded */
    bool open;
    int index;
    bo_cuda_device device;
} shared = {.once = PTHREAD_ONCE_INIT};

/* ---- the plugin -------------------------------------------------------------------------------------------------- */

static void make_lock(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&shared.lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

void bo_cuda_lock(void)
{
    pthread_once(&shared.once, make_lock);
    pthread_mutex_lock(&shared.lock);
}

void bo_cuda_unlock(void)
{
    pthread_mutex_unlock(&shared.lock);
}

static const bo_cuda_functions *load(bo_context *context)
{
    char *path = shared.path;
    if (!bo_plugin_find("libbochner_cuda.so", "BOCHNER_CUDA", path)) {
        bo_fail(context, BO_UNSUPPORTED,
                "the CUDA plugin was not found: %.1000s; it is built if nvcc is found (see docs/guides/gpu.md)", path);
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays open: the driver of CUDA cannot be unloaded */
    if (!handle) {
        bo_fail(context, BO_UNSUPPORTED, "the CUDA plugin cannot be opened: %s", dlerror());
        return NULL;
    }
    const bo_cuda_functions *(*find)(void);
    *(void **)&find = dlsym(handle, "bo_cuda_plugin");
    const bo_cuda_functions *functions = find ? find() : NULL;
    const bool sized = functions && functions->bytes == sizeof *functions;
    if (!sized || strcmp(functions->version, BO_VERSION_STRING) != 0) {
        bo_fail(context, BO_UNSUPPORTED,
                "%.1000s is a plugin for %s%.20s; this is version %s: install both from one build", path,
                sized ? "version " : "another version", sized ? functions->version : "", BO_VERSION_STRING);
        return NULL;
    }
    return functions;
}

const bo_cuda_functions *bo_cuda_load(bo_context *context)
{
    bo_cuda_lock();
    if (!shared.functions) shared.functions = load(context);
    const bo_cuda_functions *functions = shared.functions;
    bo_cuda_unlock();
    return functions;
}

const char *bo_cuda_plugin_path(bo_context *context)
{
    return bo_cuda_load(context) ? shared.path : NULL;
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

static bo_status open_device(bo_context *context, int index)
{
    const bo_cuda_functions *functions = bo_cuda_load(context);
    if (!functions) return BO_UNSUPPORTED;
    if (shared.open && shared.index == index) return BO_OK;
    if (shared.open)
        return bo_fail(context, BO_INVALID, "cuda:%d: this process already uses cuda:%d; use one process for each GPU",
                       index, shared.index);
    const int count = functions->devices();
    if (count == 0) return bo_fail(context, BO_UNSUPPORTED, "no GPU was found, or its driver is older than CUDA 13");
    if (index >= count)
        return bo_fail(context, BO_INVALID, "cuda:%d does not exist: this machine has %d GPU%s, cuda:0%s", index, count,
                       count == 1 ? "" : "s", count == 1 ? "" : " and up");
    shared.device.functions = functions;
    BO_TRY(bo_cuda_check(context, functions->open(index, &shared.device.cuda)));
    const bo_status described = bo_cuda_check(context, functions->properties(index, &shared.device.properties));
    if (described != BO_OK) {
        functions->close(shared.device.cuda);
        return described;
    }
    shared.index = index;
    shared.open = true;
    return BO_OK;
}

extern const bo_backend bo_backend_cuda;

bo_status bo_cuda_open(bo_context *context, int index, const bo_backend **out)
{
    bo_cuda_lock();
    const bo_status status = open_device(context, index);
    bo_cuda_unlock();
    *out = status == BO_OK ? &bo_backend_cuda : NULL;
    return status;
}

const bo_cuda_device *bo_cuda_open_device(void)
{
    return &shared.device;
}

void *bo_cuda_scratch(bo_context *context, size_t bytes)
{
    static void *memory;
    static size_t room;
    bo_cuda_lock();
    if (bytes > room) {
        const bo_cuda_device *d = &shared.device;
        if (memory) d->functions->release(d->cuda, memory);
        memory = NULL;
        room = bytes < 4096 ? 4096 : bytes;
        if (bo_cuda_check(context, d->functions->allocate(d->cuda, room, &memory)) != BO_OK) room = 0;
    }
    void *result = memory;
    bo_cuda_unlock();
    return result;
}

size_t bo_cuda_free_bytes(void)
{
    bo_cuda_properties now = {.free_bytes = 0};
    bo_cuda_lock();
    const bo_cuda_error error = shared.functions->properties(shared.index, &now);
    bo_cuda_unlock();
    return error ? 0 : now.free_bytes;
}

bo_status bo_cuda_check(bo_context *context, bo_cuda_error error)
{
    if (!error) return BO_OK;
    return bo_fail(context, strstr(error, "out of memory") ? BO_MEMORY : BO_UNSUPPORTED, "cuda: %s", error);
}
