/* Spans of time on the trace of a context (bo_context_desc.trace). Without a trace each function is one branch.
 *
 *     bo_status bo_model_load(bo_context *context, …)
 *     {
 *         BO_SPAN(context, "load", "load model");   // until the function returns
 *
 * Spans of a context nest: the last span that started ends first. */
#ifndef BO_BASE_TRACE_H
#define BO_BASE_TRACE_H

#include "base.h"

/* Additional data of an event: members of a JSON object. A member that does not fit is omitted. */
typedef struct bo_trace_args {
    size_t used;
    char text[1024];
} bo_trace_args;

void bo_trace_add_text(bo_trace_args *args, const char *key, const char *text); /* any bytes */
void bo_trace_add_count(bo_trace_args *args, const char *key, uint64_t count);

bool bo_trace_is_on(const bo_context *context);
/* The name is copied; the category must be a constant. `args` may be NULL. */
void bo_trace_begin(bo_context *context, const char *category, const char *name);
void bo_trace_end(bo_context *context, const bo_trace_args *args);

/* Opens a span that ends with the enclosing block, however the block is left. Use it once per block. */
bo_context *bo_trace_enter(bo_context *context, const char *category, const char *name);
void bo_trace_leave(bo_context **context);
#define BO_SPAN(context, category, name)                                                                               \
    bo_context *bo_span_ __attribute__((cleanup(bo_trace_leave), unused)) =                                            \
        bo_trace_enter((context), (category), (name))

/* Sets the maximum size of the file of this context in bytes (default: 512 MiB). Later events are omitted. */
void bo_trace_set_limit(bo_context *context, uint64_t bytes);

#endif
