/* Benchmarks on a GPU: `bochner bench attention`, `train`, `decode` and `machines` with --device. Kernels are timed by
 * events in the queue of the device, without transfers. Entire training and decoding steps are timed by the host clock,
 * because the host reads their results. Rates are compared with a copy and a matrix product of the same run. */
#ifndef BO_BENCH_DEVICE_H
#define BO_BENCH_DEVICE_H

#include "../bench.h"

enum { DEVICE_REPEATS = 99, DEVICE_NAME = 128 };

/* Options of every benchmark on a device. */
typedef struct device_options {
    cli_given was_given;
    const char *device, *kinds;
} device_options;
extern const cli_option device_rows[];
/* The precision of options (default: bfloat16). */
#define DEVICE_PRECISION(options) (CLI_GIVEN(options, precision) ? (options)->precision : BO_PRECISION_BFLOAT16)

typedef struct device_bench {
    bench_run *run;
    bo_context *context;
    struct bo_device *device;
    bo_element storage;     /* type of the values of graphs */
    char name[DEVICE_NAME]; /* name of the GPU */
    size_t repeats;
    bool emulated;          /* no GPU: sizes of the references are small, and times are not meaningful */
    double copied, product; /* references: bytes read and written per second, operations per second; 0: not measured */
} device_bench;

/* True if the options ask for a device other than the CPU. */
bool device_requested(const device_options *options);
/* Opens the device with a separate context. Prints a message and returns false on failure. Call device_close in either
 * case. */
bool device_open(bench_run *run, const device_options *options, bo_precision precision, size_t repeats,
                 device_bench *out);
void device_close(device_bench *bench);
bool device_ok(device_bench *bench, bo_status status); /* false after a message if the call failed */
/* Device memory in use by all programs. */
double device_used(device_bench *bench);
/* Measures the references and adds them as metrics. */
bool device_references(device_bench *bench);
/* Calls `use` for each item of --kinds until it returns false. */
bool device_each_kind(device_bench *bench, const char *kinds,
                      bool (*use)(device_bench *bench, const char *kind, void *of), void *of);

/* Median seconds of a call that submits work to the device: it is called once, then recorded and repeated. */
typedef bo_status (*device_work)(bo_context *context, void *what);
bo_status device_time(device_bench *bench, device_work work, void *what, double *seconds);

/* One sample of a step that waits for the device: its seconds by the host clock. */
typedef bool (*device_step)(device_bench *bench, void *what, double *seconds);
/* Median over the repeats, after one untimed step for each of `warmups`. */
bool device_time_steps(device_bench *bench, size_t warmups, device_step step, void *what, double *seconds);

/* ---- the benchmarks ---------------------------------------------------------------------------------------------- */

typedef struct device_attention_options {
    const device_options *device;
    const cli_counts *lengths, *features;
    size_t heads, dim, batch_tokens, repeats;
    uint64_t seed;
    bo_precision precision;
    bool grid; /* shapes of equal work instead of `lengths` and `features` */
} device_attention_options;
int device_attention(bench_run *run, const device_attention_options *options);

typedef struct device_train_options {
    const device_options *device;
    size_t layers, width, heads, context, vocab, batch, repeats;
    bo_precision precision;
} device_train_options;
int device_train(bench_run *run, const device_train_options *options);

typedef struct device_decode_options {
    const device_options *device;
    size_t layers, width, heads, vocab, sequences, repeats;
    const cli_counts *lengths;
    bo_precision precision;
} device_decode_options;
int device_decode(bench_run *run, const device_decode_options *options);

typedef struct device_fit_options {
    const device_options *device;
    size_t rows, columns, features, repeats;
    uint64_t seed;
} device_fit_options;
int device_fit(bench_run *run, const device_fit_options *options);

#endif
