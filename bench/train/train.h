/* What the parts of `bochner bench train` share: a corpus of noise, the model that is measured, times of steps. */
#ifndef BO_BENCH_TRAIN_H
#define BO_BENCH_TRAIN_H

#include "../bench.h"

typedef struct train_options {
    cli_given was_given;
    bench_run run;
    size_t layers, width, heads, context, vocab, batch; /* of the training step */
    size_t tokens;                                      /* the long context */
    size_t decode_layers, decode_width;                 /* of the model that is too large for the cache */
    const char *lengths_text;
    bench_list lengths; /* tokens read before decoding is timed */
    size_t repeats;
} train_options;

typedef struct train_bench {
    bench_run *run;
    bo_context *context;
    const train_options *options;
    bo_tokenizer *tokenizer;
    bo_corpus *corpus;
} train_bench;

/* Each returns false after saying why it could not go on. */
bool train_step_part(train_bench *bench);
bool train_length_part(train_bench *bench);
bool train_decode_part(train_bench *bench);

/* False, after saying so: the call failed. */
bool train_ok(train_bench *bench, bo_status status);

/* A transformer with an attention by its preset's name, of the shape that the options ask for. */
bo_model_desc train_model(const train_bench *bench, const char *attention);

#endif
