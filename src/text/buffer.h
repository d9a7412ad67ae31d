/* A growing array of bytes. */
#ifndef BO_TEXT_BUFFER_H
#define BO_TEXT_BUFFER_H

#include "../base/base.h"
#include <string.h>

typedef struct bo_buffer {
    char *bytes;
    size_t length, capacity;
} bo_buffer;

static inline bo_status bo_buffer_reserve(bo_context *context, bo_buffer *buffer, size_t more)
{
    if (buffer->capacity - buffer->length >= more) return BO_OK;
    size_t capacity = 2 * buffer->capacity + more + 64;
    char *larger = bo_realloc(context, buffer->bytes, capacity, 1, "text");
    if (!larger) return BO_MEMORY;
    buffer->bytes = larger;
    buffer->capacity = capacity;
    return BO_OK;
}

static inline bo_status bo_buffer_append(bo_context *context, bo_buffer *buffer, const char *bytes, size_t length)
{
    BO_TRY(bo_buffer_reserve(context, buffer, length));
    if (length > 0) memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
    return BO_OK;
}

static inline void bo_buffer_free(bo_buffer *buffer)
{
    bo_free(buffer->bytes);
    *buffer = (bo_buffer){0};
}

#endif
