/* Long passes can be watched and stopped: tasks say how far they are, and the one that runs on the calling thread asks its
 * progress callback now and then. */
#ifndef BO_ATTENTION_PROGRESS_H
#define BO_ATTENTION_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include "../base/base.h"

typedef struct bo_pass_progress {
    bo_context *context;
    pthread_t caller;
    const char *what;
    atomic_bool stopped; /* the callback said so: the context has the message */
    atomic_size_t done;
    size_t total;
    double next; /* when to ask again; the calling thread's own */
} bo_pass_progress;

void bo_pass_progress_begin(bo_pass_progress *watch, bo_context *context, const char *what, size_t total);
/* `more` of the total is done. True: stop soon. watch may be NULL. */
bool bo_pass_stops(bo_pass_progress *watch, size_t more);

#endif
