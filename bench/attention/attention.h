/* What the parts of `bochner bench attention` share: shapes with their arrays, times, figures over a yardstick. */
#ifndef BO_BENCH_ATTENTION_H
#define BO_BENCH_ATTENTION_H

#include "../bench.h"
#include "../../cli/common/curves.h"
#include <stdio.h>

enum {
    ATTENTION_HEADS = 8,
    ATTENTION_DIM = 64, /* of queries, keys and values */
};

typedef struct attention_options {
    cli_given was_given;
    bench_run run;
    const char *lengths_text, *features_text, *plot, *plot_laws;
    bench_list lengths, features; /* from the texts */
    size_t tokens, sequences, repeats;
} attention_options;

typedef struct attention_bench {
    bench_run *run;
    bo_context *context;
    const attention_options *options;
    float *noise;     /* of mean 0 and variance 1; NULL until it is needed */
    cli_curves times; /* of a forward pass by length: a curve for each number of features, and exact attention's */
    cli_curves laws;  /* error of the output by features */
} attention_bench;

/* Each returns false after saying why it could not go on. */
bool attention_forward_part(attention_bench *bench);
bool attention_backward_part(attention_bench *bench);
bool attention_exact_part(attention_bench *bench);
bool attention_peer_part(attention_bench *bench);
bool attention_crossover_part(attention_bench *bench);
bool attention_flat_part(attention_bench *bench);
bool attention_memory_part(attention_bench *bench);
bool attention_decode_part(attention_bench *bench);
bool attention_family_part(attention_bench *bench);
bool attention_gates_part(attention_bench *bench);
bool attention_laws_part(attention_bench *bench);

/* ---- arrays and shapes ----------------------------------------------------------------------------------- */

/* The descriptor that is measured: FAVOR with positive features, causal, H = 8, d = d_v = 64. */
bo_attention_desc attention_favor(const attention_bench *bench, size_t features);
bo_attention_desc attention_exact(void);

/* Floats aligned to 64 bytes; ends the program where there is no memory. attention_fill makes them unit-variance
 * noise. */
float *attention_floats(size_t count);
void attention_fill(attention_bench *bench, uint64_t stream, float *out, size_t count);

/* What a kind takes beside q, k and v, for so many rows of each head; NULL: it does not. log g from -1 to 0, β in (0, 1),
 * W with rows of norm 1 or so. */
typedef struct attention_extras {
    float *log_gate, *beta, *w;
} attention_extras;
attention_extras attention_some_extras(attention_bench *bench, const bo_attention_desc *desc, size_t rows);
void attention_drop_extras(attention_extras *extras);
void attention_add_extras(const attention_extras *extras, bo_attention_inputs *inputs);

/* One sequence of a shape, its attention, inputs and room for outputs; with `gradients` also for the backward pass. */
typedef struct attention_case {
    bo_context *context;
    bo_attention *attention;
    bo_attention_shape shape;
    float *q, *k, *v, *out, *dout, *dq, *dk, *dv;
    attention_extras extras, dextras;
    void *tape;
} attention_case;

/* False: after a message. Close it in either case. */
bool attention_case_open(attention_bench *bench, bo_context *context, const bo_attention_desc *desc, size_t tokens,
                         bool gradients, attention_case *out);
void attention_case_close(attention_case *what);
bo_status attention_case_forward(void *what);  /* without a tape */
bo_status attention_case_backward(void *what); /* for every input, after attention_case_both */
bo_status attention_case_both(void *what);     /* forward with a tape, and backward */

/* `first` is a state that has absorbed a prompt; `states` are `count` copies of it. */
typedef struct attention_decoder {
    bo_context *context;
    bo_attention *attention;
    size_t bytes, count; /* of a state, and how many */
    char *first, *room;
    void **states;
    float *q, *k, *v, *out; /* count x heads x dim */
    attention_extras extras;
} attention_decoder;

/* False: after a message. Close it in either case. */
bool attention_decoder_open(attention_bench *bench, const bo_attention_desc *desc, size_t prompt,
                            attention_decoder *out);
void attention_decoder_fork(attention_bench *bench, attention_decoder *decoder, size_t count);
bo_status attention_decoder_step(void *what);            /* one token of every copy */
void attention_decoder_drop(attention_decoder *decoder); /* the copies */
void attention_decoder_close(attention_decoder *decoder);

/* ---- times ------------------------------------------------------------------------------------------------- */

/* Something to be timed. A sample is the mean of `calls` calls in a row; 0: as many as take 20 ms. */
typedef struct attention_work {
    bo_context *context; /* where a failed call left its message */
    bo_status (*run)(void *what);
    void *what;
    size_t calls;
} attention_work;

/* Seconds of a call of each: medians over --repeats rounds in which they take turns, after one call each to warm up.
 * ratios: to the first of the same round, medians too; NULL: not wanted. False: a call failed, which was said, or
 * Ctrl-C. */
bool attention_time(attention_bench *bench, attention_work *works, size_t count, double *seconds, double *ratios);

/* Rate of a work of so many operations beside small-GEMM on all cores, measured before and after each sample.
 * Medians. */
typedef struct attention_rate {
    double seconds, gflops, yardstick, ratio;
} attention_rate;
bool attention_against_small_gemm(attention_bench *bench, attention_work *work, double operations, attention_rate *out);
bool attention_small_gemm(attention_bench *bench, double *gflops, const char **implementation);

/* ---- where one overtakes the other --------------------------------------------------------------------------- */

/* Lengths are added in ascending order with time / time it is compared with, until that is 1 or less. Between two
 * lengths the logarithm of the ratio is taken to be linear in the logarithm of the length. */
typedef struct attention_crossing {
    size_t first, last; /* lengths added; 0: none */
    double ratio;       /* at the last */
    double at;          /* the length of ratio 1; INFINITY: none yet. first: at or below it */
} attention_crossing;
void attention_crossing_add(attention_crossing *crossing, size_t tokens, double ratio);

/* ---- the picture ----------------------------------------------------------------------------------------------- */

/* The pictures that --plot and --plot-laws ask for, on logarithmic axes. The exit status. */
int attention_plot(attention_bench *bench);

#endif
