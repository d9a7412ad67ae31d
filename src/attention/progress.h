/* Progress and cancellation of long passes. Tasks report their progress. Tasks on the calling thread call the progress
 * callback from time to time, and the calling thread calls it after the tasks. */
#ifndef BO_ATTENTION_PROGRESS_H
#define BO_ATTENTION_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include "../base/base.h"

typedef struct bo_pass_progress {
    bo_context *context;
    pthread_t caller;
    const char *what;
    atomic_bool stopped; /* the callback canceled the pass; the context has the message */
    atomic_size_t done;
    size_t total;
    double next; /* time of the next call of the callback; used only by the calling thread */
} bo_pass_progress;

void bo_pass_progress_begin(bo_pass_progress *watch, bo_context *context, const char *what, size_t total);
/* Adds `more` to the completed work. True: stop soon. watch may be NULL. */
bool bo_pass_stops(bo_pass_progress *watch, size_t more);

#endif
