/* A language model that processes entire windows in one pass: logits after every token, and the residual stream between
 * its layers. */
#ifndef BO_LAB_TOOLS_READING_H
#define BO_LAB_TOOLS_READING_H

#include "language.h"

typedef struct lab_reading {
    size_t windows;      /* windows per pass, each as long as the context of the model; 0: 1 */
    bool logits, stream; /* which outputs are needed */
    /* one per layer, in place of those of the model, with the same parameters; NULL: those of the model */
    bo_attention *const *attentions;
} lab_reading;

/* Freed by lab_reader_close, also after a failure. */
typedef struct lab_reader {
    size_t rows; /* tokens per pass: windows x context */
    size_t context;
    struct bo_model_graph *graph;
    size_t parts; /* parts of the residual stream: the embedding, then the stream after every mixer and every MLP … */
    bo_value *stream; /* … as these values; NULL: not requested */
    int32_t *positions;
} lab_reader;

bo_status lab_reader_open(lab_run *run, const bo_model *model, const lab_reading *reading, lab_reader *out);
void lab_reader_close(lab_reader *reader);
size_t lab_reader_vocab(const lab_reader *reader); /* the columns of the logits */
/* ids: `rows` of them. The positions of every window are first, first + 1, …, if the model has positions. */
bo_status lab_reader_read(lab_run *run, lab_reader *reader, const int32_t *ids, int32_t first);
/* rows x vocab, after reading. */
bo_status lab_reader_logits(lab_run *run, lab_reader *reader, float *out);
/* rows x width of one part of the stream. */
bo_status lab_reader_part(lab_run *run, lab_reader *reader, size_t part, float *out);
/* Consecutive windows of the held-out text, starting at `at`, continuing at its start after its end. */
bo_status lab_reader_held_out(lab_run *run, const lab_reader *reader, const lab_text *text, uint64_t at, int32_t *ids);
/* Mean -log p of the next tokens in nats, over all tokens of the windows that have one; logits as read. */
double lab_reader_loss(const lab_reader *reader, const float *logits, const int32_t *ids);

#endif
