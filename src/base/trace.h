/* Spans of time on the trace of a context (bo_context_desc.trace). Without a trace each function is one branch.
 *
 *     bo_status bo_model_load(bo_context *context, …)
 *     {
 *         BO_SPAN(context, "load", "load model");   // until the function returns
 *
 * Spans of a context nest: the one that began last ends first. */
#ifndef BO_BASE_TRACE_H
#define BO_BASE_TRACE_H

#include "base.h"

/* What an event says beside its name: members of a JSON object. A member that has no room is left out. */
typedef struct bo_trace_facts {
    size_t used;
    char text[1024];
} bo_trace_facts;

void bo_trace_add_text(bo_trace_facts *facts, const char *key, const char *text); /* any bytes */
void bo_trace_add_count(bo_trace_facts *facts, const char *key, uint64_t count);

bool bo_trace_is_on(const bo_context *context);
/* The name is copied; the category is a constant. Facts may be NULL. */
void bo_trace_begin(bo_context *context, const char *category, const char *name);
void bo_trace_end(bo_context *context, const bo_trace_facts *facts);

/* A span from here to the end of the block, whichever way it is left; one per block. */
bo_context *bo_trace_enter(bo_context *context, const char *category, const char *name);
void bo_trace_leave(bo_context **context);
#define BO_SPAN(context, category, name)                                                                               \
    bo_context *bo_span_ __attribute__((cleanup(bo_trace_leave), unused)) = bo_trace_enter((context), (category), (name))

/* The most bytes that the file of this context may have: 512 MiB unless set. What comes later is left out. */
void bo_trace_set_limit(bo_context *context, uint64_t bytes);

#endif
