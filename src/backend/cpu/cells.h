/* Cells of recurrent layers: the computation for one token of one sequence from x and U h, and its gradient. Gates are
 * in the order of bo_recurrent_attributes. */
#ifndef BO_BACKEND_CPU_CELLS_H
#define BO_BACKEND_CPU_CELLS_H

#include "../backend.h"
#include "../../device/cpu/kernels.h"

typedef struct bo_cell_step {
    const bo_kernels *kernels;
    size_t size; /* size of h */
    const float *x, *bias;
    float *product;       /* U h_(t-1); is overwritten */
    float *kept;          /* data for the gradient */
    float *hidden, *cell; /* h and, for LSTM, c of the previous token; overwritten with the values of this token */
} bo_cell_step;

/* The gradient of one token. Rows of the token before the first are zeros. */
typedef struct bo_cell_back {
    const bo_kernels *kernels;
    size_t size;
    const float *hidden, *kept;               /* of the token */
    const float *hidden_before, *kept_before; /* of the token before */
    const float *dout;
    const float *back; /* gradient through U from the token after */
    float *carry;      /* other gradients from the next token; replaced by the gradients for the previous token */
    float *dproduct;   /* gradient of U h + b */
    float *dx;         /* equals dproduct if the cell has one gradient for both */
    float *work;       /* workspace of h floats */
} bo_cell_back;

typedef struct bo_recurrent_cell {
    size_t gates;  /* g: x has g h columns */
    size_t kept;   /* saved floats per token, divided by h */
    size_t states; /* floats of a state, divided by h */
    bool apart;    /* dx differs from dproduct */
    void (*step)(const bo_cell_step *s);
    void (*back)(const bo_cell_back *s);
} bo_recurrent_cell;

const bo_recurrent_cell *bo_cell_of(bo_recurrence kind);

#endif
