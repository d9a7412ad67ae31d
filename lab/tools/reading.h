/* A language model that reads whole windows at once: logits after every token, and what passes between its layers. */
#ifndef BO_LAB_TOOLS_READING_H
#define BO_LAB_TOOLS_READING_H

#include "../../src/model/model.h"
#include "language.h"

typedef struct lab_reading {
    size_t windows;      /* read at a time, each of the model's context; 0: 1 */
    bool logits, stream; /* what is wanted */
    bo_attention *const
        *attentions; /* one per layer in place of the model's, of the same parameters; NULL: the model's */
} lab_reading;

/* Freed by lab_reader_close, also after a failure. */
typedef struct lab_reader {
    size_t rows; /* tokens read at a time: windows x context */
    size_t context;
    bo_model_graph graph;
    size_t parts;     /* of the residual stream: the embedding, then what it is after every mixer and every MLP … */
    bo_value *stream; /* … by these values; NULL: not asked for */
    int32_t *positions;
} lab_reader;

bo_status lab_reader_open(lab_run *run, const bo_model *model, const lab_reading *reading, lab_reader *out);
void lab_reader_close(lab_reader *reader);
/* ids: rows of them. Positions of every window are first, first + 1, …: of use where the model has some. */
bo_status lab_reader_read(lab_run *run, lab_reader *reader, const int32_t *ids, int32_t first);
/* rows x vocab, after a reading. */
bo_status lab_reader_logits(lab_run *run, lab_reader *reader, float *out);
/* rows x width of one part of the stream. */
bo_status lab_reader_part(lab_run *run, lab_reader *reader, size_t part, float *out);
/* Windows one after the other from the held-out text, from `at` on, and from its beginning again where it ends. */
bo_status lab_reader_held_out(lab_run *run, const lab_reader *reader, const lab_text *text, uint64_t at, int32_t *ids);
/* Mean -log p of the tokens that follow, in nats, over all tokens of the windows that have one; logits as read. */
double lab_reader_loss(const lab_reader *reader, const float *logits, const int32_t *ids);

#endif
