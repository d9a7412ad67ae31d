/* The definition of bo_device, for src/device only (and for tests that define operations). */
#ifndef BO_DEVICE_INTERNAL_H
#define BO_DEVICE_INTERNAL_H

#include <pthread.h>
#include "device.h"

struct bo_borrowed {
    void *memory;
    size_t bytes;
    bool lent;
    struct bo_borrowed *next;
};

/* Invariants: `functions` is NULL for the CPU only. A GPU is in the list of open GPUs while users > 0. `borrowed` is
 * protected by the lock. */
struct bo_device {
    char name[24];
    const bo_gpu_functions *functions;
    bo_gpu *gpu;
    bo_gpu_properties properties;
    int index;
    size_t users; /* number of contexts and allocations */
    pthread_mutex_t lock;
    struct bo_borrowed *borrowed;     /* memory for results */
    const struct bo_backend *backend; /* operations of a test; NULL: the default operations */
    struct bo_device *next;
};

/* Opens a GPU, or returns it if it is open. The caller releases it. */
bo_status bo_device_open(bo_context *context, int index, bo_device **out);
/* Number of open GPUs, for tests. */
size_t bo_devices_open(void);

#endif
