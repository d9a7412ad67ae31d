/* Shared by the parts of `bochner bench tasks`: options and the measured model. */
#ifndef BO_BENCH_TASKS_H
#define BO_BENCH_TASKS_H

#include "../bench.h"
#include "../../cli/common/curves.h"

typedef struct tasks_options {
    cli_given was_given;
    bench_run run;
    size_t layers, width, heads, features; /* shape of every model */
    size_t bytes, documents;               /* bytes per document; documents per training step */
    const char *lengths_text, *batches_text;
    cli_counts lengths, batches; /* tokens read before a step is timed; batch sizes of decoding */
    size_t repeats;
    bool quick;
    const char *plot;
} tasks_options;

typedef struct tasks_bench {
    bench_run *run;
    bo_context *context;
    const tasks_options *options;
    bo_tokenizer *tokenizer; /* tokenizer of bytes */
    cli_curves times;        /* time of a decoding step by length: softmax and linear attention for each batch */
} tasks_bench;

/* Each function prints a message and returns false on failure. */
bool tasks_train_part(tasks_bench *bench);
bool tasks_decode_part(tasks_bench *bench);

/* Prints a message and returns false if the call failed. */
bool tasks_ok(tasks_bench *bench, bo_status status);

/* A transformer with the attention preset, for texts of `context` tokens. */
bo_model_desc tasks_model(const tasks_bench *bench, const char *attention, size_t context);

#endif
