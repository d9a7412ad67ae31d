/* Bochner: the rules of the whole API, and what every other header builds on: version, status, context.
 *
 *     bo_context *context;
 *     if (bo_context_create(NULL, &context) != BO_OK) return 1;
 *     if (bo_features_create(context, &desc, &phi) != BO_OK)
 *         fprintf(stderr, "%s\n", bo_context_error(context));
 *
 * Tiers. Each header has up to three parts. Simple is what a first program needs; Advanced gives more control. Both are
 * stable: within one major version (before 1.0: one minor version) a program keeps compiling and keeps running with a later
 * library. Experimental may change in every minor version and is declared only where BO_EXPERIMENTAL is defined before the
 * header is included. docs/reference/api.md has the policy and a table of all functions with their tier.
 *
 * Names. A function is bo_<object>_<verb or property>. The verbs are:
 *     create, destroy           an object in memory, made from a descriptor (from data: fit, train)
 *     open, close               something that is read piece by piece
 *     load, save                a whole object from and to a file or folder; load_memory, save_memory: from and to bytes
 *     describe                  the descriptor that an object was made from, with the defaults filled in
 *     estimate                  what something will cost in memory, operations or time, before it is spent
 *     report                    facts about an object
 *     measure                   how far a result is from the truth
 *     name, parse               an enumerator as text, and back
 * Names that end in _bytes are sizes in bytes. A plural noun counts (bo_model_weights); the singular with an index gets one
 * item (bo_model_weight), NULL past the end.
 *
 * Errors. A function that can fail returns a bo_status; BO_OK is zero. The context keeps a sentence with the details: which
 * file, line, column or field; what was expected and what was found. Pointers that a failed function was to set are NULL, and
 * nothing is leaked. The library never exits, aborts or prints.
 *
 * NULL. destroy, close and bo_free accept NULL and do nothing. Every other pointer must point to something, except where its
 * declaration says "or NULL" or names what NULL means.
 *
 * Descriptors. Zero means the default in every field whose comment does not say otherwise, so that `{.field = value}` or `{0}`
 * initializes one. The last member of most structs is `reserved`: it must be zero, and later versions take new fields from
 * it. A function that returns a status refuses others with BO_INVALID. Structs that the library allocates may grow at
 * their end. Enumerations may get new values.
 *
 * Ownership. The caller owns what create, open, load and fit return and what save_memory hands over (released with bo_free).
 * A const pointer that a function returns belongs to the object and lives as long as it does. Arguments are copied or only
 * used during the call, except where the declaration says that they must outlive the object.
 *
 * Threads. A context serves one thread at a time: it owns a pool of threads, an error message, a log function and the kernels
 * chosen for this CPU. Functions that take a const object may run in several threads at once, each with a context of its own;
 * a function that takes an object without const needs it exclusively. Apart from contexts and objects the library keeps no
 * state, except, in each thread, the context whose task that thread is running; OpenBLAS keeps state of its own.
 *
 * Determinism. Results do not depend on the number of threads: the same seed gives the same bits on one kind of CPU.
 * Eigenvalues, singular values and QR are computed by OpenBLAS, which has threads of its own (OPENBLAS_NUM_THREADS). */
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

/* ==== Simple ====================================================================================================== */

/* The version of the library that is linked, which may differ from BO_VERSION_STRING of the header. */
BO_API const char *bo_version(void);

/* ---- status -------------------------------------------------------------------------------------------- */

/* One list gives the enum and the strings. Numbers never change. */
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

/* Called from time to time during long work, from the thread that called the library. `total` is 0 where it is unknown.
 * Returning false cancels: the work stops soon, frees what it holds and returns BO_CANCELED. */
typedef bool (*bo_progress_fn)(void *user, const char *what, double done, double total);

/* Memory for objects and for work: everything that grows with the data. `allocate` returns storage aligned to 64 bytes, or
 * NULL. Both functions may be called from several threads at once. Some parts allocate by themselves: cJSON while a header or a
 * schema is read or written, PCRE2 and utf8proc in tokenizers, OpenBLAS for its work space. */
typedef struct bo_allocator {
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *pointer);
    void *user;
} bo_allocator;

typedef struct bo_context_desc {
    int threads;             /* 0: as many as this process may run on; fewer if the system starts no more of them */
    const char *isa;         /* "avx512", "avx2", "neon", "ref"; NULL: $BOCHNER_ISA, else the best this CPU has */
    bo_log_fn log;           /* NULL: silent */
    bo_progress_fn progress; /* NULL: none */
    void *user;              /* passed to log and progress */
    bo_allocator allocator;  /* allocate == NULL: the C library's */
    const char *trace;       /* a file for spans of time, see below; NULL: $BOCHNER_TRACE, else none */
    uint64_t reserved[4];    /* zero: room for later versions */
} bo_context_desc;

/* desc or NULL: all defaults. Causes of failure: BO_MEMORY; BO_UNSUPPORTED, an isa that this CPU lacks; BO_IO, a trace that
 * cannot be written (errno says why); BO_INVALID, reserved words that are not zero. */
BO_API bo_status bo_context_create(const bo_context_desc *desc, bo_context **out);
BO_API void bo_context_destroy(bo_context *context);

/* Releases memory that the library handed over to the caller, where its declaration says so. */
BO_API void bo_free(void *memory);

/* What went wrong in the last call that failed; "" before the first failure. Valid until the next call with this context. */
BO_API const char *bo_context_error(const bo_context *context);

/* ==== Advanced ==================================================================================================== */

BO_API int bo_context_threads(const bo_context *context);
BO_API const char *bo_context_isa(const bo_context *context); /* "avx512", "avx2", "neon" or "ref" */
/* Bytes of memory that this computer has; 0: the system does not say. */
BO_API size_t bo_physical_memory(void);

/* ---- tracing -------------------------------------------------------------------------------------------- */

/* A trace is a file of the Trace Event Format, which https://ui.perfetto.dev and chrome://tracing open: operations of graphs, tasks
 * of the pool's threads, phases of longer work, each with thread, start and duration. It is valid JSON at any time; all of it
 * is there once the context is destroyed. The path is taken by one context at a time: a context that finds another one writing
 * file.json, in this process or another, writes file.2.json, and so on; an older file is overwritten. After 512 MiB a trace ends.
 * docs/guides/profiling.md has an example. */
BO_API const char *bo_context_trace(const bo_context *context); /* the file that is written; NULL: none */
/* A span of the caller's own on the trace, around the calls between the two. Spans nest. Without a trace: nothing. */
BO_API void bo_span_begin(bo_context *context, const char *name);
BO_API void bo_span_end(bo_context *context);

/* ---- functions that the library calls back: custom operations and layers (graph.h) ----------------- */

/* Sets the message of bo_context_error and returns `status`, so that `return bo_context_fail(…)` reads as one thing. */
BO_API bo_status bo_context_fail(bo_context *context, bo_status status, const char *format, ...) BO_PRINTF(3, 4);

/* Calls range(user, begin, end) for the ranges of `grain` (0: 1) numbers that [0, count) consists of, the last of them perhaps
 * shorter, in any order on the context's threads, and returns when all are done. The ranges do not depend on the number of
 * threads. `range` must not use the context. A call from within a range runs on the thread that makes it. */
typedef void (*bo_range_fn)(void *user, size_t begin, size_t end);
BO_API void bo_context_parallel(bo_context *context, size_t count, size_t grain, bo_range_fn range, void *user);

/* ---- parallel jobs --------------------------------------------------------------------------------------- */

/* Sums over the ranks of a parallel job, supplied by the caller (the program uses MPI; the library does not need it). In place:
 * every rank gets the total, summed in the order of the ranks, so that it has the same bits on every rank and in every run. */
typedef struct bo_collective {
    int rank, size;
    bo_status (*sum)(void *user, double *values, size_t count);
    bo_status (*sum_f32)(void *user, float *values, size_t count); /* training; may be NULL elsewhere */
    void *user;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_collective;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* A well mixed 64-bit number of (seed, index), by splitmix64: the same on every machine and in every version. */
BO_API uint64_t bo_hash(uint64_t seed, uint64_t index);

/* The length in bytes of the UTF-8 character at the start of `text`, 1 to 4; 0: the bytes are not UTF-8. Reading stops at the
 * first byte that does not belong to the character, so that `length` may be 4 in a text that ends with a NUL. */
BO_API size_t bo_utf8_length(const char *text, size_t length);

#endif

#ifdef __cplusplus
}
#endif
#endif
