/** @file
 * The rules of the whole API, and the basis of all other headers: version, status, context.
 *
 *     bo_context *context;
 *     if (bo_context_create(NULL, &context) != BO_OK) return 1;
 *     if (bo_features_create(context, &desc, &phi) != BO_OK)
 *         fprintf(stderr, "%s\n", bo_context_error(context));
 *
 * **Tiers.** Each header has up to three parts. Simple is what a first program needs; Advanced gives more control. Both
 * are stable: within one major version (before 1.0: one minor version) a program keeps compiling and keeps running with
 * a later library. Experimental may change in every minor version and is declared only if BO_EXPERIMENTAL is defined
 * before the header is included. docs/reference/api.md has the policy and a table of all functions with their tier.
 *
 * **Names.** A function is bo_{object}_{verb or property}. The verbs are:
 *
 *     create, destroy   an object in memory, made from a descriptor (made from data: fit, train)
 *     open, close       something that is read piece by piece
 *     load, save        a whole object from a source and to a sink: a file, a directory, memory, a callback
 *     describe          the descriptor that an object was made from, with the defaults filled in, or information about
 * it estimate          the cost of an operation in memory, floating-point operations or time, before it is run report
 * information about an object measure           the difference between a result and the exact one name, parse       an
 * enumerator as text, and back
 *
 * Names that end in `_bytes` are sizes in bytes. In such structs, a plural noun counts (`classes`), and an array has
 * the items (`class_names`).
 *
 * **Errors.** A function that can fail returns a ::bo_status; BO_OK is zero. The context keeps a sentence with the
 * details: which file, line, column or field; what was expected and what was found. If a function fails, the pointers
 * that it would have set are NULL, and nothing is leaked. The library never exits, aborts or prints. Every function
 * that returns a status can return these, which its comment does not repeat:
 *
 *     BO_INVALID    an argument or a field of a descriptor is out of range, or a reserved member is not zero
 *     BO_MEMORY     an allocation failed
 *     BO_CANCELED   the progress callback of the context returned false
 *
 * **NULL.** A pointer may be NULL if its documentation contains "or NULL", "may be NULL" or "NULL:" (followed by what
 * it means), or if it points to an array of zero elements. destroy, close and bo_free() accept NULL and do nothing.
 * Every function checks its other pointers. A function that returns a status refuses NULL with BO_INVALID and changes
 * nothing; the message names the function and the argument, as in "bo_machine_fit: argument 'samples' is NULL". If the
 * context is NULL, there is no message. The functions that record a graph return 0 and leave the error to
 * bo_graph_compile(). All other functions do nothing and return 0, false or NULL (a double: NAN; an id, a label or a
 * file descriptor: -1; bo_context_error(): ""). A NULL in place of a required pointer inside a descriptor is refused in
 * the same way.
 *
 * **Descriptors.** Zero means the default in every field that is not documented otherwise, so that `{.field = value}`
 * or `{0}` initializes a descriptor. The last member of most structs is `reserved`. It must be zero; later versions
 * turn reserved members into fields. A function that returns a status refuses other values with BO_INVALID. Structs
 * that a function fills in (`out`) need no initialization. Structs that the library allocates may grow at their end.
 * Enumerations may get new values.
 *
 * **Ownership.** The caller owns the objects that create, open, load and fit return, and the memory that a sink
 * receives (to be released with bo_free()). A const pointer that a function returns belongs to the object and is valid
 * as long as the object. Arguments are copied or only used during the call, except where the documentation states that
 * they must outlive the object.
 *
 * **Threads.** A context may be used by one thread at a time. It owns a pool of threads, an error message, a log
 * function and the compute kernels chosen for this CPU. Functions with a const object may run concurrently in several
 * threads, each with its own context. A function that takes an object without const needs exclusive access to it. Apart
 * from contexts and objects, the library has one piece of state: each thread of a pool stores the context whose task it
 * is running.
 *
 * **Determinism.** Results do not depend on the number of threads: the same seed gives the same bits on the same kind
 * of CPU.
 */
#ifndef BOCHNER_BASE_H
#define BOCHNER_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* BO_API marks exported functions; BO_PRINTF lets compilers check format strings. */
#if defined(__GNUC__)
#define BO_API           __attribute__((visibility("default")))
#define BO_PRINTF(at, n) __attribute__((format(printf, at, n)))
#else
#define BO_API
#define BO_PRINTF(at, n)
#endif

/** The major version of this header. */
#define BO_VERSION_MAJOR 0
/** The minor version of this header. */
#define BO_VERSION_MINOR 1
/** The patch level of this header. */
#define BO_VERSION_PATCH 0
/** The version of this header as text. */
#define BO_VERSION_STRING "0.1.0"

/* ==== Simple ====================================================================================================== */

/** Returns the version of the linked library.
 *
 * It may differ from BO_VERSION_STRING, the version of the header.
 *
 * @return the version as "major.minor.patch"; static memory
 */
BO_API const char *bo_version(void);

/* ---- status ------------------------------------------------------------------------------------------------------ */

/* The enum and the strings of bo_status_string() are made from this list. Numbers never change. */
#define BO_STATUS_LIST(X)                                                                                              \
    X(OK, 0, "ok")                           /**< success */                                                           \
    X(INVALID, 1, "invalid argument")        /**< an argument is out of range or contradicts another one */            \
    X(MEMORY, 2, "out of memory")            /**< an allocation failed */                                              \
    X(IO, 3, "input or output failed")       /**< the operating system reported an error: missing file, full disk */   \
    X(FORMAT, 4, "malformed input")          /**< the contents of a file or of a memory block are malformed */         \
    X(VERSION, 5, "made by a newer version") /**< a file in a Bochner format that is newer than this library */        \
    X(UNSUPPORTED, 6, "not supported")       /**< a valid request that this build or this combination does not do */   \
    X(NUMERIC, 7, "numerical failure")       /**< no solution, no convergence, NaN or infinity */                      \
    X(CANCELED, 8, "canceled")               /**< the progress callback returned false */

/** The outcome of a call. */
typedef enum bo_status {
#define BO_STATUS_ENUM(name, number, text) BO_##name = number,
    BO_STATUS_LIST(BO_STATUS_ENUM)
#undef BO_STATUS_ENUM
} bo_status;

/** Returns a short English phrase for a status.
 *
 * @param status   any value
 * @return the phrase; static memory, never NULL
 */
BO_API const char *bo_status_string(bo_status status);

/* ---- context ----------------------------------------------------------------------------------------------------- */

/** The environment of calls: threads, error message, log, progress, allocator. Used by one thread at a time. */
typedef struct bo_context bo_context;

/** The importance of a log message. */
typedef enum bo_log_level {
    BO_LOG_WARNING = 1, /**< the result may not be what the caller expects */
    BO_LOG_INFO = 2,    /**< a decision that the library made */
    BO_LOG_DEBUG = 3    /**< details for debugging */
} bo_log_level;

/** Receives a log message.
 *
 * @param user      `user` of the bo_context_desc
 * @param level     the importance
 * @param message   one message without a newline; valid during the call
 */
typedef void (*bo_log_fn)(void *user, bo_log_level level, const char *message);

/** Reports progress, and can cancel.
 *
 * Called repeatedly during long operations, from the thread that called the library.
 *
 * @param user    `user` of the bo_context_desc
 * @param what    the current phase, such as "testing"; valid during the call
 * @param done    the amount of work done
 * @param total   the amount of work in total; 0 if unknown
 * @return false to cancel: the operation stops soon, frees its memory and returns BO_CANCELED
 */
typedef bool (*bo_progress_fn)(void *user, const char *what, double done, double total);

/** An allocator for objects and workspaces: all memory that grows with the data.
 *
 * Both functions may be called concurrently from several threads. Temporary JSON trees of headers and schemas, and
 * PCRE2 and utf8proc in tokenizers, do not use it.
 */
typedef struct bo_allocator {
    void *(*allocate)(void *user, size_t bytes); /**< returns memory aligned to 64 bytes, or NULL */
    void (*release)(void *user, void *pointer);  /**< releases memory that `allocate` returned */
    void *user;                                  /**< passed to both functions */
} bo_allocator;

/** The precision of the matrix products of layers, attention and cross-entropy. */
typedef enum bo_precision {
    BO_PRECISION_FLOAT32 = 0, /**< float32 */
    /** The factors are rounded to bfloat16, and their products are summed in float32. Weights, activations, gradients,
     * states and all other operations remain float32. Faster on CPUs with AMX or AVX512-BF16. */
    BO_PRECISION_BFLOAT16 = 1
} bo_precision;

/** The settings of a context. */
typedef struct bo_context_desc {
    /** Number of threads, including the calling one (default, also for negative numbers: the number of CPUs available
     * to this process). Fewer are used if the system cannot start as many. */
    int threads;
    /** "amx", "avx512bf16", "avx512", "avx2", "neon" or "ref"; NULL: $BOCHNER_ISA, or else the best of this CPU */
    const char *isa;
    bo_log_fn log;           /**< receives log messages; NULL: no log */
    bo_progress_fn progress; /**< receives progress; NULL: none */
    void *user;              /**< passed to `log` and `progress` */
    bo_allocator allocator;  /**< the allocator (default, if `allocate` is NULL: the C library) */
    const char *trace;       /**< path of a trace file (see bo_context_info); NULL: $BOCHNER_TRACE, or else no trace */
    /** The precision of products (default: FLOAT32). Graphs, models and attention that are created with this context
     * compute in it. Kernel machines, decompositions and calibrations always compute in float32 or float64. */
    bo_precision precision;
    uint64_t reserved[4]; /**< must be zero */
} bo_context_desc;

/** Creates a context.
 *
 * There is no error message if this function fails, because there is no context to store it.
 *
 * @param desc       the settings, or NULL for the defaults
 * @param[out] out   the new context; release it with bo_context_destroy()
 * @return BO_OK; BO_UNSUPPORTED if `isa` is unknown or this CPU lacks it; BO_IO if the trace file cannot be written
 *     (errno has the cause)
 */
BO_API bo_status bo_context_create(const bo_context_desc *desc, bo_context **out);

/** Destroys a context, its threads and its error message, and completes its trace.
 *
 * @param context   the context, or NULL
 */
BO_API void bo_context_destroy(bo_context *context);

/** Releases memory that a function of the library returned to the caller.
 *
 * Use it where the documentation of the function names bo_free(). Thread-safe.
 *
 * @param memory   the memory, or NULL
 */
BO_API void bo_free(void *memory);

/** Returns the error message of the last call that failed.
 *
 * @param context   the context
 * @return the message; "" before the first failure. Valid until the next call with this context
 */
BO_API const char *bo_context_error(const bo_context *context);

/* ---- sources and sinks of bytes ---------------------------------------------------------------------------------- */

/** Where a function reads bytes: a file, memory, or a callback. Exactly one of `path`, `bytes` and `read` is set.
 *
 *     bo_machine_load(context, &(bo_source){.path = "houses.model"}, &machine, NULL);
 *     bo_machine_load(context, &(bo_source){.bytes = image, .size = length}, &machine, NULL);
 */
typedef struct bo_source {
    const char *path;  /**< a file; where the documentation of a function says so, a directory */
    const void *bytes; /**< memory, which is not used after the call unless the function says so */
    size_t size;       /**< the number of bytes in memory */
    /** Stores the next bytes, at most `capacity` of them, and sets `*count` to their number; 0 means the end. An error
     * ends the call with the same status. */
    bo_status (*read)(void *user, void *to, size_t capacity, size_t *count);
    void *user;           /**< passed to `read` */
    const char *name;     /**< the name of memory or a callback in messages (default: "memory" or "stream") */
    uint64_t reserved[4]; /**< must be zero */
} bo_source;

/** Where a function writes bytes: a file, memory, or a callback. Exactly one of `path`, `bytes` and `write` is set.
 *
 *     bo_machine_save(context, machine, NULL, &(bo_sink){.path = "houses.model"});
 *     bo_machine_save(context, machine, NULL, &(bo_sink){.bytes = &image, .size = &length});
 */
typedef struct bo_sink {
    /** A file, which is written under a temporary name, flushed and renamed, so that a crash never leaves a partial
     * file; where the documentation of a function says so, a directory. */
    const char *path;
    /** Receives memory, released with bo_free(); NULL after a failure. The bytes are followed by a NUL, so that text is
     * a string. */
    void **bytes;
    size_t *size; /**< receives the number of bytes; required with `bytes` */
    /** Receives the next bytes, in order. An error ends the call with the same status; the bytes written so far are
     * then invalid. */
    bo_status (*write)(void *user, const void *from, size_t count);
    void *user;           /**< passed to `write` */
    const char *name;     /**< the name of memory or a callback in messages (default: "memory" or "stream") */
    uint64_t reserved[4]; /**< must be zero */
} bo_sink;

/* ==== Advanced ==================================================================================================== */

/** The compute settings of a context. Allocated by the library. Later versions may add members at the end. */
typedef struct bo_context_info {
    int threads;     /**< the number of threads, including the calling one */
    const char *isa; /**< instruction set: "amx", "avx512bf16", "avx512", "avx2", "neon" or "ref"; static memory */
    bo_precision precision; /**< the precision of products */
    const char *device;     /**< "cpu"; "cuda:0", "cuda:1", …: a GPU (devices.h), valid while the context uses it */
    /** The path of the trace file that the context writes; NULL: no trace.
     *
     * A trace is a file in the Trace Event Format, which https://ui.perfetto.dev and chrome://tracing open. It contains
     * the operations of graphs, the tasks of the threads of the pool and the phases of long calls, each with thread,
     * start and duration. The file is valid JSON at any time; it is complete when the context is destroyed. A path is
     * used by one context at a time: if another context, in this process or another, is writing file.json, the trace is
     * written to file.2.json, and so on. An older file is overwritten. A trace ends after 512 MiB.
     * docs/guides/profiling.md has an example. */
    const char *trace;
} bo_context_info;

/** Describes the compute settings of a context.
 *
 * @param context   the context
 * @return the description, owned by the context; `device` changes when the context uses another device
 */
BO_API const bo_context_info *bo_context_describe(const bo_context *context);

/** An amount of memory, and the source of the limit. */
typedef struct bo_memory_bound {
    size_t bytes;       /**< number of bytes; SIZE_MAX: no limit is known */
    const char *source; /**< the source of the limit, such as "physical memory"; static memory */
} bo_memory_bound;

/** Queries the memory that objects of a context can use: the memory of the process, or the free memory of its GPU.
 *
 * The memory of the process is the smallest of the physical memory, the memory limits of the cgroup of the process and
 * of the groups that contain it, and the remainder of the address-space and data limits (`ulimit -v`, `ulimit -d`)
 * after the memory that the process has already mapped. Memory that other processes use is not subtracted.
 *
 * @param context    the context; NULL: the memory of the process
 * @param[out] out   the limit; `source` is "physical memory", "cgroup memory limit", "address-space limit (ulimit -v)",
 *     "data limit (ulimit -d)" or "free memory of the GPU"
 */
BO_API void bo_context_memory(const bo_context *context, bo_memory_bound *out);

/** Starts a named span on the trace, around the calls up to the matching bo_span_end().
 *
 * Spans nest. Without a trace the function does nothing.
 *
 * @param context   the context
 * @param name      the name, copied; NULL: an empty name
 */
BO_API void bo_span_begin(bo_context *context, const char *name);

/** Ends the span that the last bo_span_begin() started.
 *
 * @param context   the context
 */
BO_API void bo_span_end(bo_context *context);

/* ---- callbacks: for custom operations and layers (graph.h) ------------------------------------------------------- */

/** Sets the error message of a context and returns the status: `return bo_context_fail(…);`.
 *
 * @param context   the context
 * @param status    the status to return
 * @param format    a format as for printf(), followed by its arguments
 * @return `status`
 */
BO_API bo_status bo_context_fail(bo_context *context, bo_status status, const char *format, ...) BO_PRINTF(3, 4);

/** Processes one range of a parallel loop.
 *
 * @param user    as passed to bo_context_parallel()
 * @param begin   the first index of the range
 * @param end     the index after the last one
 */
typedef void (*bo_range_fn)(void *user, size_t begin, size_t end);

/** Runs a parallel loop over [0, count) on the threads of a context.
 *
 * Calls `range` for consecutive ranges of `grain` indices (the last one may be shorter), in any order, and returns when
 * all calls have returned. The ranges do not depend on the number of threads. `range` must not use the context. A call
 * from within a range runs on the calling thread.
 *
 * @param context   the context
 * @param count     the number of indices
 * @param grain     the length of a range; 0 means 1
 * @param range     the function to call, concurrently from several threads
 * @param user      passed to `range`; may be NULL
 */
BO_API void bo_context_parallel(bo_context *context, size_t count, size_t grain, bo_range_fn range, void *user);

/* ---- parallel jobs ----------------------------------------------------------------------------------------------- */

/** Sums over the ranks of a parallel job, supplied by the caller.
 *
 * The `bochner` program uses MPI; the library does not need it. Sums are in place: every rank receives the total,
 * summed in the order of the ranks, so that it has the same bits on every rank and in every run.
 */
typedef struct bo_collective {
    int rank;                                                      /**< the rank of this process, from 0 */
    int size;                                                      /**< the number of ranks */
    bo_status (*sum)(void *user, double *values, size_t count);    /**< replaces each of `count` values by its sum */
    bo_status (*sum_f32)(void *user, float *values, size_t count); /**< likewise; for training, otherwise may be NULL */
    void *user;                                                    /**< passed to both functions */
    uint64_t reserved[4];                                          /**< must be zero */
} bo_collective;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Returns the length of the UTF-8 character at the start of a text. Thread-safe.
 *
 * Reading stops at the first byte that does not belong to the character. `length` may therefore be 4 for a text that
 * ends with a NUL.
 *
 * @param text     the text
 * @param length   the number of bytes that may be read
 * @return the number of bytes, 1 to 4; 0 if the bytes are not UTF-8
 */
BO_API size_t bo_utf8_length(const char *text, size_t length);

#endif

#ifdef __cplusplus
}
#endif
#endif
