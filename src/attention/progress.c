/* Progress and cancellation of a pass: progress.h. */
#include "progress.h"

void bo_pass_progress_begin(bo_pass_progress *watch, bo_context *context, const char *what, size_t total)
{
    watch->context = context;
    watch->caller = pthread_self();
    watch->what = what;
    watch->total = total;
    watch->next = bo_seconds() + bo_context_progress_interval(context);
    atomic_init(&watch->stopped, false);
    atomic_init(&watch->done, 0);
}

bool bo_pass_stops(bo_pass_progress *watch, size_t more)
{
    if (!watch) return false;
    size_t done = atomic_fetch_add_explicit(&watch->done, more, memory_order_relaxed) + more;
    if (atomic_load_explicit(&watch->stopped, memory_order_relaxed))
        return true; /* a canceled pass does not call the callback again */
    if (pthread_equal(pthread_self(), watch->caller) && bo_seconds() >= watch->next) {
        watch->next = bo_seconds() + bo_context_progress_interval(watch->context);
        if (bo_progress(watch->context, watch->what, (double)done, (double)watch->total) != BO_OK)
            atomic_store(&watch->stopped, true);
    }
    return atomic_load_explicit(&watch->stopped, memory_order_relaxed);
}
