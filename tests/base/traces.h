/* Traces as a viewer reads them: parsed, with every event inside of its parent. */
#ifndef TEST_TRACES_H
#define TEST_TRACES_H

#include "testing.h"
#include "io/json_tree.h"
#include <unistd.h>

/* An event of phase X, in nanoseconds. */
typedef struct trace_event {
    const char *name, *category;
    int thread;
    int64_t start, end;
    const bo_json *args; /* NULL: none */
} trace_event;

typedef struct trace_events {
    bo_json *json;
    size_t count;
    trace_event *event; /* by thread, then start, then the longer first */
} trace_events;

static inline char *trace_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    char *text = calloc(1, (size_t)size + 1);
    assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    return text;
}

static inline int trace_order(const void *a, const void *b)
{
    const trace_event *x = a, *y = b;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (y->end > x->end) - (y->end < x->end);
}

/* Two events of a thread are disjoint or nested. */
static inline void trace_nests(const trace_events *t)
{
    size_t open[64], depth = 0;
    for (size_t i = 0; i < t->count; i++) {
        const trace_event *e = &t->event[i];
        while (depth && (t->event[open[depth - 1]].thread != e->thread || t->event[open[depth - 1]].end <= e->start))
            depth--;
        if (depth && t->event[open[depth - 1]].end < e->end)
            fail_msg("'%s' ends after '%s', in which it began", e->name, t->event[open[depth - 1]].name);
        assert_true(depth < 64);
        open[depth++] = i;
    }
}

static inline trace_events trace_parse(const char *path)
{
    char *text = trace_text(path);
    trace_events t = {.json = bo_json_read(text, strlen(text), NULL)};
    if (!t.json) fail_msg("%s is not valid JSON: %.200s", path, text);
    free(text);
    const bo_json *list = bo_json_member(t.json, "traceEvents"), *item;
    assert_true(bo_json_is(list, BO_JSON_ARRAY));
    t.event = calloc((size_t)bo_json_count(list) + 1, sizeof *t.event);
    BO_JSON_EACH(item, list)
    {
        const char *phase = bo_json_text_or_null(bo_json_member(item, "ph"));
        assert_non_null(phase);
        assert_true(bo_json_is(bo_json_member(item, "pid"), BO_JSON_NUMBER));
        assert_true(bo_json_is(bo_json_member(item, "tid"), BO_JSON_NUMBER));
        if (strcmp(phase, "X") != 0) continue;
        trace_event *e = &t.event[t.count++];
        const double start = bo_json_member(item, "ts")->number;
        const double length = bo_json_member(item, "dur")->number;
        e->name = bo_json_text_or_null(bo_json_member(item, "name"));
        e->category = bo_json_text_or_null(bo_json_member(item, "cat"));
        e->thread = (int)bo_json_member(item, "tid")->number;
        e->start = (int64_t)llround(1000 * start);
        e->end = e->start + (int64_t)llround(1000 * length);
        e->args = bo_json_member(item, "args");
        assert_true(e->name && e->category && length >= 0);
    }
    qsort(t.event, t.count, sizeof *t.event, trace_order);
    trace_nests(&t);
    return t;
}

static inline void trace_free(trace_events *t)
{
    free(t->event);
    bo_json_delete(t->json);
}

/* Number of events with this category and name; NULL: any. */
static inline size_t trace_count(const trace_events *t, const char *category, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++)
        count += (!category || strcmp(t->event[i].category, category) == 0) &&
                 (!name || strcmp(t->event[i].name, name) == 0);
    return count;
}

static inline const char *trace_fact(const trace_event *e, const char *key)
{
    const char *text = bo_json_text_or_null(bo_json_member(e->args, key));
    return text ? text : "";
}

/* A name for a file that does not exist. */
static inline const char *trace_path(char path[64])
{
    strcpy(path, "/tmp/bochner-trace-XXXXXX");
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    unlink(path);
    return strcat(path, ".json");
}

#endif
