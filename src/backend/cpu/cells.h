/* Cells of recurrent layers: what one token of one sequence does with x and U h, and the gradient of that. Gates are in the
 * order of bo_recurrent_attributes. */
#ifndef BO_BACKEND_CPU_CELLS_H
#define BO_BACKEND_CPU_CELLS_H

#include "../backend.h"
#include "../../kernels/kernels.h"

typedef struct bo_cell_step {
    const bo_kernels *kernels;
    size_t size; /* h */
    const float *x, *bias;
    float *product;       /* U h_(t-1); is overwritten */
    float *kept;          /* for the gradient */
    float *hidden, *cell; /* h and, of LSTM, c: those of the token before become those of this one */
} bo_cell_step;

/* Rows of the token before the first are zeros. */
typedef struct bo_cell_back {
    const bo_kernels *kernels;
    size_t size;
    const float *hidden, *kept;               /* of the token */
    const float *hidden_before, *kept_before; /* of the token before */
    const float *dout;
    const float *back; /* what comes by U from the token after */
    float *carry;      /* what else comes from there; left for the token before */
    float *dproduct;   /* of U h + b */
    float *dx;         /* dproduct itself where the cell does not keep them apart */
    float *work;       /* h numbers */
} bo_cell_back;

typedef struct bo_recurrent_cell {
    size_t gates;  /* g: x has g h columns */
    size_t kept;   /* times h: numbers kept of a token */
    size_t states; /* times h: numbers of a memory */
    bool apart;    /* dx is not dproduct */
    void (*step)(const bo_cell_step *s);
    void (*back)(const bo_cell_back *s);
} bo_recurrent_cell;

const bo_recurrent_cell *bo_cell_of(bo_recurrence kind);

#endif
