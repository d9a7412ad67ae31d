/* A text of any length read in pieces, in constant memory: layers go on from a state, and what is pooled is carried along. */
#ifndef BO_MODEL_PIECES_H
#define BO_MODEL_PIECES_H

#include "internal.h"

/* A graph over so many rows reads a piece of the text and, where that is the last and shorter, rows that nobody looks at: each
 * has a state. Invariants: states[2 i + s] is layer i's of the text (s = 0) and of the rest (1). */
typedef struct bo_pieces {
    const bo_model *model;
    bo_model_graph graph; /* SOURCE */
    char *memory;
    void **states;
    int32_t *tokens, *positions; /* of a piece */
    float *pooled;               /* of a piece */
    double *sums;                /* of the text so far */
} bo_pieces;

/* Do texts of this model stream? Only where every layer reads forwards and keeps a state of fixed size. */
bool bo_pieces_fit(const bo_model *model);
bo_status bo_pieces_create(bo_context *context, const bo_model *model, bo_pieces **out);
void bo_pieces_destroy(bo_pieces *pieces); /* NULL is fine */
/* The pooled vector (width) of a text. */
bo_status bo_pieces_read(bo_context *context, bo_pieces *pieces, bo_text_view text, float *pooled);

#endif
