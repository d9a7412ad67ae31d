/* The trace of a context: a file in the Trace Event Format, which Perfetto and chrome://tracing open.
 *
 * Each thread has a track with its own buffer, which only that thread writes. A buffer that is full or one second old
 * is written to the file under a lock. The end of the JSON is written after every piece and overwritten by the next
 * piece, so the file is valid JSON at any time, also after a crash. */
#include "trace.h"
#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    LONGEST_NAME = 128, /* name of a span, including the terminator */
    DEEPEST = 32,       /* maximum nesting of spans; deeper spans are omitted */
    MAX_EVENT = 4096,   /* maximum bytes of an event: a name with every byte escaped, arguments, and the rest */
    TRACK_BUFFER = BO_SIZE(1 << 16, 2 * MAX_EVENT),
    MIN_TASKS_NS = 50 * 1000, /* ns; consecutive tasks shorter than this are merged into one event */
    MAX_FILES = 1000,         /* maximum number of contexts that write traces with the same path at the same time */
};
static const uint64_t flush_after = 1000 * 1000 * 1000; /* ns */
static const char tail[] = "\n]}\n";

typedef struct open_span {
    uint64_t start; /* ns */
    const char *category;
    char name[LONGEST_NAME];
} open_span;

/* One row of the timeline. Invariants: when an event begins, used + MAX_EVENT + the tail fit into the text. No two
 * events on a track have the same start, so a viewer can determine which one contains the other. */
typedef struct bo_trace_track {
    struct bo_trace_track *next; /* next in the list of idle tracks */
    size_t pid, tid;
    bool named; /* its name has been written */
    bool branch;
    size_t depth; /* number of open spans; those from DEEPEST on are not in `open` */
    uint64_t latest, flushed;
    open_span open[DEEPEST];
    size_t used;
    char text[TRACK_BUFFER + sizeof tail];
} track;

/* Invariant: `end` is the position of the next event; in a regular file the tail is stored there. */
struct bo_trace {
    /* protects all members below except `threads`, `workers` and `path`, which are constant, and the contents of the
     * tracks */
    pthread_mutex_t mutex;
    size_t users; /* the context and its branches */
    int threads;
    track **workers; /* one per thread of the pool; the first belongs to the caller */
    track *idle;     /* tracks of destroyed branches, for reuse */
    size_t tracks;
    int file;
    bool regular;
    uint64_t end, limit;
    bool full;
    int error; /* errno of the first failed write; 0: none failed */
    char *path;
};

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Writes the escaped text to out[at …] without a terminator: at most 6 times the length of the text. */
static size_t put_escaped(char *out, size_t at, const char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t length = strlen(text), i = 0; i < length;) {
        const size_t bytes = bo_utf8_length(text + i, length - i);
        const unsigned char c = (unsigned char)text[i];
        if (bytes == 0 || c < 0x20 || c == '"' || c == '\\') {
            const unsigned code = bytes == 0 ? 0xfffd : c;
            out[at++] = '\\', out[at++] = 'u';
            for (int shift = 12; shift >= 0; shift -= 4) out[at++] = digits[code >> shift & 15];
            i++;
        } else {
            memcpy(out + at, text + i, bytes);
            at += bytes, i += bytes;
        }
    }
    return at;
}

static size_t put_constant(char *out, size_t at, const char *text)
{
    const size_t length = strlen(text);
    memcpy(out + at, text, length);
    return at + length;
}

static size_t put_count(char *out, size_t at, uint64_t count)
{
    char digits[20];
    size_t n = 0;
    do digits[n++] = (char)('0' + count % 10);
    while ((count /= 10) > 0);
    while (n > 0) out[at++] = digits[--n];
    return at;
}

/* Writes microseconds with three decimals. */
static size_t put_time(char *out, size_t at, uint64_t ns)
{
    at = put_count(out, at, ns / 1000);
    out[at++] = '.';
    for (unsigned rest = (unsigned)(ns % 1000), unit = 100; unit > 0; unit /= 10)
        out[at++] = (char)('0' + rest / unit % 10);
    return at;
}

/* ---- args -------------------------------------------------------------------------------------------------------- */

/* Writes the key of the next member. False: `bytes` more do not fit. */
static bool begin_arg(bo_trace_args *args, const char *key, size_t bytes)
{
    if (args->used + strlen(key) + bytes + 6 > sizeof args->text) return false;
    args->used = put_constant(args->text, args->used, args->used ? ",\"" : "\"");
    args->used = put_constant(args->text, args->used, key);
    args->used = put_constant(args->text, args->used, "\":");
    return true;
}

void bo_trace_add_text(bo_trace_args *args, const char *key, const char *text)
{
    char escaped[sizeof args->text];
    if (6 * strlen(text) > sizeof escaped) return;
    const size_t length = put_escaped(escaped, 0, text);
    if (!begin_arg(args, key, length + 2)) return;
    args->text[args->used++] = '"';
    memcpy(args->text + args->used, escaped, length);
    args->used += length;
    args->text[args->used++] = '"';
}

void bo_trace_add_count(bo_trace_args *args, const char *key, uint64_t count)
{
    if (begin_arg(args, key, 20)) args->used = put_count(args->text, args->used, count);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static bool write_all(bo_trace *trace, const char *text, size_t length, uint64_t at)
{
    while (length > 0) {
        const ssize_t written =
            trace->regular ? pwrite(trace->file, text, length, (off_t)at) : write(trace->file, text, length);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        text += written, length -= (size_t)written, at += (uint64_t)written;
    }
    return true;
}

/* Writes a piece of text that has space for the tail behind it. After a failed write nothing more is written, and the
 * file keeps its earlier content. */
static void put_piece(bo_trace *trace, char *text, size_t length)
{
    if (trace->error || trace->full) return;
    if (trace->regular) memcpy(text + length, tail, sizeof tail - 1);
    if (write_all(trace, text, length + (trace->regular ? sizeof tail - 1 : 0), trace->end)) {
        trace->end += length;
        return;
    }
    trace->error = errno;
    if (trace->regular && ftruncate(trace->file, (off_t)trace->end) == 0)
        write_all(trace, tail, sizeof tail - 1, trace->end);
}

static void flush_track(bo_trace *trace, track *t, uint64_t now)
{
    pthread_mutex_lock(&trace->mutex);
    if (t->used > 0 && trace->end + t->used > trace->limit && !trace->full) {
        char event[256];
        const int length = snprintf(event, sizeof event,
                                    ",\n{\"name\":\"the trace is full: later events are omitted\",\"ph\":\"i\","
                                    "\"s\":\"g\",\"ts\":%llu,\"pid\":%ld,\"tid\":1}",
                                    (unsigned long long)(now / 1000), (long)getpid());
        put_piece(trace, event, (size_t)length);
        trace->full = true;
    }
    if (t->used > 0) put_piece(trace, t->text, t->used);
    pthread_mutex_unlock(&trace->mutex);
    t->used = 0;
    t->flushed = now;
}

/* ---- tracks ------------------------------------------------------------------------------------------------------ */

/* Returns a time later than every start on this track, even if the clock is coarse. */
static uint64_t next_start(track *t)
{
    const uint64_t now = nanoseconds();
    t->latest = now > t->latest ? now : t->latest + 1;
    return t->latest;
}

/* Returns a time not before the latest start on this track. */
static uint64_t next_end(const track *t)
{
    const uint64_t now = nanoseconds();
    return now > t->latest ? now : t->latest;
}

static size_t put_head(track *t, const char *name, const char *phase)
{
    char *out = t->text;
    size_t at = put_constant(out, t->used, ",\n{\"name\":\"");
    at = put_escaped(out, at, name);
    at = put_constant(out, at, "\",\"ph\":\"");
    at = put_constant(out, at, phase);
    at = put_constant(out, at, "\",\"pid\":");
    at = put_count(out, at, t->pid);
    at = put_constant(out, at, ",\"tid\":");
    return put_count(out, at, t->tid);
}

static void put_thread(track *t, const char *what, const char *name)
{
    size_t at = put_head(t, what, "M");
    at = put_constant(t->text, at, ",\"args\":{");
    at = put_constant(t->text, at, name);
    t->used = put_constant(t->text, at, "}}");
}

/* Writes the name of the track and its position among the tracks. */
static void name_track(track *t)
{
    char args[64];
    snprintf(args, sizeof args,
             t->branch     ? "\"name\":\"context %zu\""
             : t->tid == 1 ? "\"name\":\"main\""
                           : "\"name\":\"worker %zu\"",
             t->tid - 1);
    put_thread(t, "thread_name", args);
    snprintf(args, sizeof args, "\"sort_index\":%zu", t->tid);
    put_thread(t, "thread_sort_index", args);
    t->named = true;
}

static void put_event(bo_trace *trace, track *t, const open_span *span, uint64_t end, const bo_trace_args *args)
{
    if (t->used + MAX_EVENT > TRACK_BUFFER) flush_track(trace, t, end);
    if (!t->named) name_track(t);
    char *out = t->text;
    size_t at = put_head(t, span->name, "X");
    at = put_constant(out, at, ",\"cat\":\"");
    at = put_constant(out, at, span->category);
    at = put_constant(out, at, "\",\"ts\":");
    at = put_time(out, at, span->start);
    at = put_constant(out, at, ",\"dur\":");
    at = put_time(out, at, end - span->start);
    if (args && args->used) {
        at = put_constant(out, at, ",\"args\":{");
        memcpy(out + at, args->text, args->used);
        at = put_constant(out, at + args->used, "}");
    }
    t->used = put_constant(out, at, "}");
    assert(t->used <= TRACK_BUFFER);
}

static track *add_track(bo_context *context, bo_trace *trace, bool branch)
{
    track *added = bo_alloc(context, 1, sizeof *added, "the trace");
    if (added) {
        added->branch = branch;
        added->pid = (size_t)getpid();
        added->tid = ++trace->tracks;
        added->flushed = nanoseconds();
    }
    return added;
}

/* Returns the track of this thread in this context. */
static track *track_of(const bo_context *context)
{
    int worker;
    if (context->track) return context->track;
    return context->trace->workers[bo_pool_inside(context, &worker) ? worker : 0];
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

bool bo_trace_is_on(const bo_context *context)
{
    return context->trace != NULL;
}

static void copy_name(char out[LONGEST_NAME], const char *name)
{
    const size_t length = strnlen(name, LONGEST_NAME - 1);
    memcpy(out, name, length);
    out[length] = 0;
}

void bo_trace_begin(bo_context *context, const char *category, const char *name)
{
    if (!context->trace) return;
    track *t = track_of(context);
    if (t->depth++ >= DEEPEST) return;
    open_span *span = &t->open[t->depth - 1];
    copy_name(span->name, name);
    span->category = category;
    span->start = next_start(t);
}

/* Called between two jobs of the pool, when no worker writes to its track. */
static void flush_old(const bo_context *context, track *t, uint64_t now)
{
    int worker;
    if (now - t->flushed < flush_after || bo_pool_inside(context, &worker)) return;
    flush_track(context->trace, t, now);
    for (int i = 1; !t->branch && i < context->trace->threads; i++)
        flush_track(context->trace, context->trace->workers[i], now);
}

void bo_trace_end(bo_context *context, const bo_trace_args *args)
{
    if (!context->trace) return;
    track *t = track_of(context);
    if (t->depth == 0 || --t->depth >= DEEPEST) return;
    const uint64_t now = next_end(t);
    put_event(context->trace, t, &t->open[t->depth], now, args);
    flush_old(context, t, now);
}

bo_context *bo_trace_enter(bo_context *context, const char *category, const char *name)
{
    bo_trace_begin(context, category, name);
    return context;
}

void bo_trace_leave(bo_context **context)
{
    bo_trace_end(*context, NULL);
}

void bo_span_begin(bo_context *context, const char *name)
{
    if (context) bo_trace_begin(context, "caller", name ? name : "");
}

void bo_span_end(bo_context *context)
{
    if (context) bo_trace_end(context, NULL);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

/* The name stays valid while the caller waits for the job. */
const char *bo_trace_job(const bo_trace *trace)
{
    const track *t = trace->workers[0];
    const size_t depth = t->depth < DEEPEST ? t->depth : DEEPEST;
    return depth > 0 ? t->open[depth - 1].name : "job";
}

void bo_trace_tasks_begin(const bo_trace *trace, int worker, bo_trace_tasks *tasks)
{
    *tasks = (bo_trace_tasks){.start = next_start(trace->workers[worker])};
}

static void put_tasks(bo_trace *trace, const char *job, int worker, bo_trace_tasks *tasks, uint64_t now)
{
    track *t = trace->workers[worker];
    open_span span = {.start = tasks->start, .category = "task"};
    bo_trace_args args;
    args.used = 0;
    bo_trace_add_count(&args, "first", tasks->first);
    bo_trace_add_count(&args, "tasks", tasks->count);
    copy_name(span.name, job);
    put_event(trace, t, &span, now, &args);
    t->latest = now; /* start of the next task */
    *tasks = (bo_trace_tasks){.start = now};
}

void bo_trace_task(bo_trace *trace, const char *job, int worker, size_t index, bo_trace_tasks *tasks)
{
    const uint64_t now = next_end(trace->workers[worker]);
    if (tasks->count++ == 0) tasks->first = index;
    tasks->end = now;
    if (now - tasks->start >= MIN_TASKS_NS) put_tasks(trace, job, worker, tasks, now);
}

void bo_trace_tasks_end(bo_trace *trace, const char *job, int worker, bo_trace_tasks *tasks)
{
    if (tasks->count > 0) put_tasks(trace, job, worker, tasks, tasks->end);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Numbered names: "file.json", then "file.2.json", "file.3.json", … */
static char *numbered(bo_context *context, const char *path, int number)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    const size_t stem = dot && dot != name ? (size_t)(dot - path) : strlen(path), size = strlen(path) + 16;
    char *out = bo_alloc(context, size, 1, "the trace");
    if (out && number == 1) snprintf(out, size, "%s", path);
    if (out && number > 1) snprintf(out, size, "%.*s.%d%s", (int)stem, path, number, path + stem);
    return out;
}

/* Opens the first file of that name that no other context writes, in this process or another; a file lock shows which
 * are in use. */
static bo_status open_file(bo_context *context, bo_trace *trace, const char *path)
{
    for (int number = 1; number <= MAX_FILES; number++) {
        struct stat info;
        bo_free(trace->path);
        trace->path = numbered(context, path, number);
        if (!trace->path) return BO_MEMORY;
        trace->file = open(trace->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (trace->file < 0 || fstat(trace->file, &info) != 0) return BO_IO;
        trace->regular = S_ISREG(info.st_mode);
        if (!trace->regular) return BO_OK;
        if (flock(trace->file, LOCK_EX | LOCK_NB) == 0) return ftruncate(trace->file, 0) == 0 ? BO_OK : BO_IO;
        if (errno != EWOULDBLOCK) return BO_IO;
        close(trace->file);
        trace->file = -1;
    }
    errno = EMFILE;
    return BO_IO;
}

static bo_status begin_file(bo_trace *trace)
{
    char event[256];
    const int length =
        snprintf(event, sizeof event,
                 "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\","
                 "\"pid\":%ld,\"tid\":1,\"args\":{\"name\":\"bochner\"}}",
                 (long)getpid());
    put_piece(trace, event, (size_t)length);
    errno = trace->error;
    return trace->error ? BO_IO : BO_OK;
}

static void release(bo_trace *trace)
{
    for (track *t = trace->idle, *next; t; t = next) {
        next = t->next;
        bo_free(t);
    }
    for (int i = 0; trace->workers && i < trace->threads; i++) bo_free(trace->workers[i]);
    if (trace->file >= 0) close(trace->file);
    pthread_mutex_destroy(&trace->mutex);
    bo_free(trace->workers);
    bo_free(trace->path);
    bo_free(trace);
}

bo_status bo_trace_open(bo_context *context, const char *path)
{
    bo_trace *trace = bo_alloc(context, 1, sizeof *trace, "the trace");
    if (!trace) return BO_MEMORY;
    pthread_mutex_init(&trace->mutex, NULL);
    trace->users = 1;
    trace->file = -1;
    trace->limit = (uint64_t)1 << 29;
    trace->threads = context->threads;
    trace->workers = bo_alloc(context, (size_t)trace->threads, sizeof *trace->workers, "the trace");
    bo_status status = trace->workers ? BO_OK : BO_MEMORY;
    for (int i = 0; status == BO_OK && i < trace->threads; i++)
        if (!(trace->workers[i] = add_track(context, trace, false))) status = BO_MEMORY;
    if (status == BO_OK) status = open_file(context, trace, path);
    if (status == BO_OK) status = begin_file(trace);
    if (status == BO_OK) {
        context->trace = trace;
        return BO_OK;
    }
    const int error = errno; /* saved for the caller */
    release(trace);
    errno = error;
    return status;
}

bo_status bo_trace_share(bo_context *context, bo_context *branch)
{
    bo_trace *trace = context->trace;
    if (!trace) return BO_OK;
    pthread_mutex_lock(&trace->mutex);
    track *available = trace->idle;
    if (available)
        trace->idle = available->next;
    else
        available = add_track(context, trace, true);
    if (available) trace->users++;
    pthread_mutex_unlock(&trace->mutex);
    if (!available) return BO_MEMORY;
    branch->trace = trace;
    branch->track = available;
    return BO_OK;
}

/* Ends the spans that are still open. */
static void finish_track(bo_trace *trace, track *t)
{
    const uint64_t now = next_end(t);
    for (; t->depth > 0; t->depth--)
        if (t->depth <= DEEPEST) put_event(trace, t, &t->open[t->depth - 1], now, NULL);
    flush_track(trace, t, now);
}

void bo_trace_close(bo_context *context)
{
    bo_trace *trace = context->trace;
    if (!trace) return;
    if (context->track)
        finish_track(trace, context->track);
    else
        for (int i = 0; i < trace->threads; i++) finish_track(trace, trace->workers[i]);
    pthread_mutex_lock(&trace->mutex);
    if (context->track) {
        track *t = context->track;
        t->next = trace->idle;
        trace->idle = t;
    }
    const bool last = --trace->users == 0;
    pthread_mutex_unlock(&trace->mutex);
    if (!last) return;
    if (!trace->regular && !trace->error && !write_all(trace, tail, sizeof tail - 1, 0)) trace->error = errno;
    if (trace->error)
        bo_log(context, BO_LOG_WARNING, "the trace %s is incomplete: %s", trace->path, strerror(trace->error));
    else if (trace->full)
        bo_log(context, BO_LOG_WARNING, "the trace %s reached its maximum size: events after %llu bytes are omitted",
               trace->path, (unsigned long long)trace->end);
    release(trace);
}

void bo_trace_set_limit(bo_context *context, uint64_t bytes)
{
    if (context->trace) context->trace->limit = bytes;
}

const char *bo_context_trace(const bo_context *context)
{
    return context && context->trace ? context->trace->path : NULL;
}
