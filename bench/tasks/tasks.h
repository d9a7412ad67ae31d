/* What the parts of `bochner bench tasks` share: options, and the model that is measured. */
#ifndef BO_BENCH_TASKS_H
#define BO_BENCH_TASKS_H

#include "../bench.h"
#include "../../cli/common/curves.h"

typedef struct tasks_options {
    cli_given was_given;
    bench_run run;
    size_t layers, width, heads, features; /* of every model */
    size_t bytes, documents;               /* of a document; of a step of training */
    const char *lengths_text, *batches_text;
    bench_list lengths, batches; /* tokens read before a step is timed; lanes that step together */
    size_t repeats;
    bool quick;
    const char *plot;
} tasks_options;

typedef struct tasks_bench {
    bench_run *run;
    bo_context *context;
    const tasks_options *options;
    bo_tokenizer *tokenizer; /* of bytes */
    cli_curves times;        /* of a step of decoding, by length: exact and linear for each batch */
} tasks_bench;

/* Each returns false after saying why it could not go on. */
bool tasks_train_part(tasks_bench *bench);
bool tasks_decode_part(tasks_bench *bench);

/* False, after saying so: the call failed. */
bool tasks_ok(tasks_bench *bench, bo_status status);

/* A transformer with an attention by its preset's name, for texts of `context` tokens. */
bo_model_desc tasks_model(const tasks_bench *bench, const char *attention, size_t context);

#endif
