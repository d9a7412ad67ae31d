/* Shared by the parts of `bochner bench attention`: shapes with their arrays, timing, and rates relative to a
 * reference. */
#ifndef BO_BENCH_ATTENTION_H
#define BO_BENCH_ATTENTION_H

#include "../device/device.h"
#include "../../cli/common/curves.h"
#include <stdio.h>

enum {
    ATTENTION_HEADS = 8,
    ATTENTION_DIM = 64, /* dimension of queries, keys and values */
};

typedef struct attention_options {
    cli_given was_given;
    bench_run run;
    const char *lengths_text, *features_text, *plot, *plot_laws;
    cli_counts lengths, features; /* parsed from the strings above */
    size_t tokens, sequences, repeats;
    device_options device;
    size_t heads, dim, batch_tokens; /* on a device */
    bo_precision precision;
    bool grid;
} attention_options;

typedef struct attention_bench {
    bench_run *run;
    bo_context *context, *narrow; /* float32 and bfloat16 products */
    const attention_options *options;
    float *noise; /* normal noise with mean 0 and variance 1; NULL until first used */
    /* time of a forward pass by length: one curve per number of features and one for softmax attention */
    cli_curves times;
    cli_curves laws; /* error of the output by number of features */
} attention_bench;

/* Each function measures one part. It prints a message and returns false on failure. */
bool attention_forward_part(attention_bench *bench);
bool attention_backward_part(attention_bench *bench);
bool attention_exact_part(attention_bench *bench);
bool attention_peer_part(attention_bench *bench);
bool attention_precision_part(attention_bench *bench);
bool attention_crossover_part(attention_bench *bench);
bool attention_flat_part(attention_bench *bench);
bool attention_memory_part(attention_bench *bench);
bool attention_decode_part(attention_bench *bench);
bool attention_family_part(attention_bench *bench);
bool attention_gates_part(attention_bench *bench);
bool attention_laws_part(attention_bench *bench);

/* ---- arrays and shapes ------------------------------------------------------------------------------------------- */

/* The descriptor that is measured: causal FAVOR with positive features, 8 heads, d = d_v = 64. */
bo_attention_desc attention_favor(const attention_bench *bench, size_t features);
bo_attention_desc attention_exact(void);

/* Allocates floats aligned to 64 bytes; exits the program if out of memory. attention_fill fills them with noise
 * of unit variance. */
float *attention_floats(size_t count);
void attention_fill(attention_bench *bench, uint64_t stream, float *out, size_t count);

/* Inputs of an attention kind in addition to q, k and v, for a given number of rows per head; NULL for an input that
 * the kind does not have. log g is in [-1, 0], β in (0, 1), and the rows of W have norms near 1. */
typedef struct attention_extras {
    float *log_gate, *beta, *w;
} attention_extras;
attention_extras attention_some_extras(attention_bench *bench, const bo_attention_desc *desc, size_t rows);
void attention_drop_extras(attention_extras *extras);
void attention_add_extras(const attention_extras *extras, bo_attention_call *call);

/* One sequence of a shape with its attention, its inputs and memory for the outputs; with `gradients` also for the
 * backward pass. */
typedef struct attention_case {
    bo_context *context;
    bo_attention *attention;
    bo_attention_call shape; /* without arrays */
    float *q, *k, *v, *out, *dout, *dq, *dk, *dv;
    attention_extras extras, dextras;
    void *tape;
} attention_case;

/* Prints a message and returns false on failure. Call attention_case_close in either case. */
bool attention_case_open(attention_bench *bench, bo_context *context, const bo_attention_desc *desc, size_t tokens,
                         bool gradients, attention_case *out);
void attention_case_close(attention_case *what);
bo_status attention_case_forward(void *what);  /* without a tape */
bo_status attention_case_backward(void *what); /* gradients of every input, after attention_case_both */
bo_status attention_case_both(void *what);     /* forward with a tape, then backward */

/* `first` is a state that has absorbed a prompt; `states` are `count` copies of it. */
typedef struct attention_decoder {
    bo_context *context;
    bo_attention *attention;
    size_t bytes, count; /* bytes of one state; number of states */
    char *first, *buffer;
    void **states;
    float *q, *k, *v, *out; /* count x heads x dim */
    attention_extras extras;
} attention_decoder;

/* Prints a message and returns false on failure. Call attention_decoder_close in either case. */
bool attention_decoder_open(attention_bench *bench, const bo_attention_desc *desc, size_t prompt,
                            attention_decoder *out);
void attention_decoder_fork(attention_bench *bench, attention_decoder *decoder, size_t count);
bo_status attention_decoder_step(void *what);            /* decodes one token for each copy */
void attention_decoder_drop(attention_decoder *decoder); /* frees the copies */
void attention_decoder_close(attention_decoder *decoder);

/* ---- timing ------------------------------------------------------------------------------------------------------ */

/* A function to time. A sample is the mean of `calls` consecutive calls; 0 chooses the number that takes 20 ms. */
typedef struct attention_work {
    bo_context *context; /* context that holds the message of a failed call */
    bo_status (*run)(void *what);
    void *what;
    size_t calls;
} attention_work;

/* Measures the seconds per call of each function: medians over --repeats rounds in which the functions alternate, after
 * one warmup call each. `ratios` receives the medians of the ratios to the first function in the same round; it may be
 * NULL. Prints a message and returns false if a call failed, and after Ctrl-C. */
bool attention_time(attention_bench *bench, attention_work *works, size_t count, double *seconds, double *ratios);

/* Rate of a function with a known number of operations, relative to small-GEMM on all cores. Small-GEMM is measured
 * before and after each sample. All values are medians. */
typedef struct attention_rate {
    double seconds, gflops, reference, ratio;
} attention_rate;
bool attention_against_small_gemm(attention_bench *bench, attention_work *work, double operations, attention_rate *out);
bool attention_small_gemm(attention_bench *bench, double *gflops, const char **implementation);

/* ---- crossover length -------------------------------------------------------------------------------------------- */

/* Finds the length at which one method becomes faster than another. Lengths are added in ascending order with the ratio
 * of the two times, until the ratio is 1 or less. Between two lengths the logarithm of the ratio is interpolated
 * linearly in the logarithm of the length. */
typedef struct attention_crossing {
    size_t first, last; /* smallest and largest length added; 0: none */
    double ratio;       /* ratio at the last length */
    double at;          /* length with ratio 1; INFINITY: not found yet; first: at or below the smallest length */
} attention_crossing;
void attention_crossing_add(attention_crossing *crossing, size_t tokens, double ratio);

/* ---- plots ------------------------------------------------------------------------------------------------------- */

/* Writes the plots requested by --plot and --plot-laws, with logarithmic axes. Returns the exit status. */
int attention_plot(attention_bench *bench);

#endif
