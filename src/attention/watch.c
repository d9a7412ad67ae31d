/* Watching a pass: watch.h. */
#include "watch.h"

static const double interval = 0.05; /* seconds between two questions */

void bo_watch_begin(bo_watch *watch, bo_context *context, const char *what, size_t total)
{
    watch->context = context;
    watch->caller = pthread_self();
    watch->what = what;
    watch->total = total;
    watch->next = bo_seconds() + interval;
    atomic_init(&watch->stopped, false);
    atomic_init(&watch->done, 0);
}

bool bo_watch_stops(bo_watch *watch, size_t more)
{
    if (!watch) return false;
    size_t done = atomic_fetch_add_explicit(&watch->done, more, memory_order_relaxed) + more;
    if (pthread_equal(pthread_self(), watch->caller) && bo_seconds() >= watch->next) {
        watch->next = bo_seconds() + interval;
        if (bo_progress(watch->context, watch->what, (double)done, (double)watch->total) != BO_OK)
            atomic_store(&watch->stopped, true);
    }
    return atomic_load_explicit(&watch->stopped, memory_order_relaxed);
}
