/* Server-sent events, as the HTML standard defines them; only the field `data` is of interest. */
#include "response.h"
#include <stdlib.h>
#include <string.h>

void load_events_begin(load_events *events, load_bytes_fn event, void *owner)
{
    load_text_clear(&events->line);
    load_text_clear(&events->data);
    events->after_return = events->some = events->broken = false;
    events->event = event;
    events->owner = owner;
}

void load_events_free(load_events *events)
{
    free(events->line.bytes);
    free(events->data.bytes);
    events->line = events->data = (load_text){0};
}

static void end_event(load_events *events)
{
    if (events->some) events->event(events->owner, events->data.bytes, events->data.length);
    load_text_clear(&events->data);
    events->some = false;
}

/* Lines of data of one event are joined by line feeds. Comments (lines that start with a colon) and other fields are
 * ignored. */
static void end_line(load_events *events)
{
    const char *line = events->line.length ? events->line.bytes : "";
    const size_t length = events->line.length;
    const char *colon = memchr(line, ':', length);
    const size_t name = colon ? (size_t)(colon - line) : length;
    if (length == 0) {
        end_event(events);
    } else if (name == 4 && memcmp(line, "data", 4) == 0) {
        const char *value = colon ? colon + 1 : line + length, *end = line + length;
        if (value < end && *value == ' ') value++;
        if (events->some) load_text_add(&events->data, "\n", 1);
        load_text_add(&events->data, value, (size_t)(end - value));
        events->some = true;
        events->broken = events->data.length > LOAD_EVENT_BYTES;
    }
    load_text_clear(&events->line);
}

void load_events_read(load_events *events, const char *bytes, size_t count)
{
    const char *at = bytes, *end = bytes + count;
    while (at < end && !events->broken) {
        if (events->after_return && *at == '\n') at++;
        events->after_return = false;
        const char *stop = at;
        while (stop < end && *stop != '\n' && *stop != '\r') stop++;
        load_text_add(&events->line, at, (size_t)(stop - at));
        events->broken = events->line.length > LOAD_EVENT_BYTES;
        if (stop < end && !events->broken) {
            events->after_return = *stop == '\r';
            end_line(events);
        }
        at = stop + (stop < end);
    }
}
