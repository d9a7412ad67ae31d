/* Bochner: status, context, logging. Everything else builds on this header.
 *
 * Errors. A call that can fail returns a bo_status; zero is success. The context that was passed holds a
 * sentence with the details (which file, line, column, option; what was expected, what was found):
 *
 *     bo_context *context;
 *     if (bo_context_create(NULL, &context) != BO_OK) return 1;
 *     if (bo_features_create(context, &desc, &phi) != BO_OK)
 *         fprintf(stderr, "%s\n", bo_context_error(context));
 *
 * The library never exits, aborts or prints.
 *
 * Threads. A context belongs to one thread at a time: it owns a thread pool, an error message, a log sink and a
 * table of kernels chosen for this CPU. Objects (features, machines, schemas) are immutable once made and may be
 * shared by threads that each bring a context of their own; what takes an object without const (a bo_fitting, a
 * bo_stream, bo_features_set_frequencies) needs it for itself.
 *
 * State. Outside contexts and objects the library keeps only, in each thread, which context's task it is running; OpenBLAS
 * keeps state of its own.
 *
 * Results do not depend on the number of threads: same seed, same bits. Eigenvalues, singular values and QR are OpenBLAS's,
 * which has threads of its own (OPENBLAS_NUM_THREADS), whatever the context says.
 *
 * Before version 1.0 descriptors may grow with each minor version, and the name of the shared library changes with it. */
#ifndef BOCHNER_BASE_H
#define BOCHNER_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BO_API           __attribute__((visibility("default")))
#define BO_PRINTF(at, n) __attribute__((format(printf, at, n)))
#else
#define BO_API
#define BO_PRINTF(at, n)
#endif

#define BO_VERSION_MAJOR  0
#define BO_VERSION_MINOR  1
#define BO_VERSION_PATCH  0
#define BO_VERSION_STRING "0.1.0"

/* The version of the library that is linked, which may differ from BO_VERSION_STRING of the header. */
BO_API const char *bo_version(void);

/* ---- status -------------------------------------------------------------------------------------------- */

/* One list gives the enum and the strings. Numbers are fixed for ever. */
#define BO_STATUS_LIST(X)                                                                                              \
    X(OK, 0, "ok")                                                                                                     \
    X(INVALID, 1, "invalid argument")        /* the caller asked for something that makes no sense */                  \
    X(MEMORY, 2, "out of memory")            /* an allocation failed */                                                \
    X(IO, 3, "input or output failed")       /* the operating system said no: missing file, full disk */               \
    X(FORMAT, 4, "malformed input")          /* a file does not say what it should */                                  \
    X(VERSION, 5, "made by a newer version") /* a file of ours, but newer than this library */                         \
    X(UNSUPPORTED, 6, "not supported")       /* a valid request this build or combination cannot serve */              \
    X(NUMERIC, 7, "numerical failure")       /* not positive definite, did not converge, NaN appeared */               \
    X(CANCELED, 8, "canceled")               /* the progress callback asked to stop */

typedef enum bo_status {
#define BO_STATUS_ENUM(name, number, text) BO_##name = number,
    BO_STATUS_LIST(BO_STATUS_ENUM)
#undef BO_STATUS_ENUM
} bo_status;

/* A short English phrase for a status; never NULL. */
BO_API const char *bo_status_string(bo_status status);

/* ---- context ------------------------------------------------------------------------------------------- */

typedef struct bo_context bo_context;

typedef enum bo_log_level { BO_LOG_WARNING = 1, BO_LOG_INFO = 2, BO_LOG_DEBUG = 3 } bo_log_level;

/* Receives one message without a newline. */
typedef void (*bo_log_fn)(void *user, bo_log_level level, const char *message);

/* Called now and then during long work from the thread that called the library. `total` is 0 when unknown.
 * Return false to cancel: the work stops soon, frees what it holds and returns BO_CANCELED. */
typedef bool (*bo_progress_fn)(void *user, const char *what, double done, double total);

/* Memory for objects and for work: all that grows with the data. `allocate` returns storage aligned to 64 bytes or NULL.
 * Not from here: what cJSON needs while a file's header or a schema is read or written, regular expressions (PCRE2) and
 * normal forms (utf8proc) of tokenizers, work space inside OpenBLAS and LIBXSMM.
 * Both functions may be called from several threads at once. */
typedef struct bo_allocator {
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *pointer);
    void *user;
} bo_allocator;

/* Zero means the default in every field. */
typedef struct bo_context_desc {
    int threads;             /* 0: as many as this process may run on; fewer if the system starts no more of them */
    const char *isa;         /* "avx512", "avx2", "ref"; NULL: $BOCHNER_ISA, else the best this CPU has */
    bo_log_fn log;           /* NULL: silent */
    bo_progress_fn progress; /* NULL: none */
    void *user;              /* passed to log and progress */
    bo_allocator allocator;  /* allocate == NULL: the C library's */
    const char *trace;       /* a file for spans of time, see below; NULL: $BOCHNER_TRACE, else none */
} bo_context_desc;

/* `desc` may be NULL. On failure *out is NULL; the only causes are BO_MEMORY, an isa this CPU lacks (BO_UNSUPPORTED) and a trace
 * that cannot be written (BO_IO; errno says why). */
BO_API bo_status bo_context_create(const bo_context_desc *desc, bo_context **out);
BO_API void bo_context_destroy(bo_context *context); /* NULL is fine */

/* Releases memory that a function of the library handed over to the caller, where its header says so. NULL is allowed. */
BO_API void bo_free(void *memory);

/* What went wrong in the last call that failed; "" if none did. Valid until the next call with this context. */
BO_API const char *bo_context_error(const bo_context *context);
BO_API int bo_context_threads(const bo_context *context);
BO_API const char *bo_context_isa(const bo_context *context); /* "avx512", "avx2" or "ref" */

/* A trace is a file of the Trace Event Format, which https://ui.perfetto.dev and chrome://tracing open: operations of graphs, tasks
 * of the pool's threads, phases of longer work, each with thread, start and duration. It is valid JSON at any time; all of it
 * is there once the context is destroyed. The path is taken by one context at a time: a context that finds another one writing
 * file.json, in this process or another, writes file.2.json, and so on; an older file is overwritten. After 512 MiB a trace ends.
 * docs/profiling.md has an example. */
BO_API const char *bo_context_trace(const bo_context *context); /* the file that is written; NULL: none */
/* A span of the caller's own on the trace, around the calls between the two. Spans nest. Without a trace: nothing. */
BO_API void bo_span_begin(bo_context *context, const char *name);
BO_API void bo_span_end(bo_context *context);

/* ---- the machine, and numbers that do not depend on it --------------------------------------------------- */

/* Bytes of memory that this computer has; 0: the system does not say. */
BO_API size_t bo_physical_memory(void);
/* A well mixed 64-bit number of (seed, index), by splitmix64: the same everywhere and for ever. */
BO_API uint64_t bo_hash(uint64_t seed, uint64_t index);

/* Bytes of the UTF-8 character that begins here, 1 to 4; 0: none does. Bytes behind one that belongs to no character are not
 * looked at, so that `length` may be 4 in text that ends with a NUL. */
BO_API size_t bo_utf8_length(const char *text, size_t length);

/* ---- parallel jobs --------------------------------------------------------------------------------------- */

/* Sums over the ranks of a parallel job, given by the caller (the program brings MPI, the library needs none). In place;
 * every rank gets the total, summed in the order of the ranks, so that it has the same bits everywhere and every time. */
typedef struct bo_collective {
    int rank, size;
    bo_status (*sum)(void *user, double *values, size_t count);
    bo_status (*sum_f32)(void *user, float *values, size_t count); /* training; may be NULL elsewhere */
    void *user;
} bo_collective;

#ifdef __cplusplus
}
#endif
#endif
