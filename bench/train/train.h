/* Shared by the parts of `bochner bench train`: a random corpus, the measured model, and step times. */
#ifndef BO_BENCH_TRAIN_H
#define BO_BENCH_TRAIN_H

#include "../device/device.h"

typedef struct train_options {
    cli_given was_given;
    bench_run run;
    size_t layers, width, heads, context, vocab, batch; /* shape of the training step */
    size_t tokens;                                      /* tokens of the long context */
    size_t decode_layers, decode_width;                 /* shape of the model that is too large for the cache */
    const char *lengths_text;
    cli_counts lengths; /* tokens read before decoding is timed */
    size_t repeats;
    device_options device;
    bo_precision precision; /* on a device */
} train_options;

typedef struct train_bench {
    bench_run *run;
    bo_context *context;
    const train_options *options;
    bo_tokenizer *tokenizer;
    bo_corpus *corpus;
} train_bench;

/* Each function prints a message and returns false on failure. */
bool train_step_part(train_bench *bench);
bool train_length_part(train_bench *bench);
bool train_decode_part(train_bench *bench);

/* Prints a message and returns false if the call failed. */
bool train_ok(train_bench *bench, bo_status status);

/* Opens a tokenizer and a corpus of random characters, and closes them. Prints a message and returns false on failure.
 */
bool train_open(train_bench *bench);
void train_close(train_bench *bench);

/* A transformer with the attention preset and the shape of the options. */
bo_model_desc train_model(const train_bench *bench, const char *attention);
/* The same as a classic GPT, the model of the peer's script. */
bo_model_desc train_classic(const train_bench *bench, const char *attention);
/* The trainer of the peer's script: AdamW, all sequences of a step in one batch. */
bo_trainer_desc train_trainer(const train_bench *bench, bo_model *model, size_t batch);

#endif
