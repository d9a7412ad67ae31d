/* Tasks that ask for all of their input at once: no part of it says anything alone. As rows of numbers for networks, and as
 * sequences of tokens for language models. */
#ifndef BO_LAB_MIXING_TASKS_H
#define BO_LAB_MIXING_TASKS_H

#include "language.h"

typedef enum lab_mixing {
    /* Σ_{r ≤ 40} (a_r·A + a)³ (b_r·B + b)³ of 6 + 6 numbers of [-1, 1]: degree 6, separation rank 40. A number. */
    LAB_MIXING_POLYNOMIAL = 0,
    /* Π x_i of `places` signs: degree `places`, separation rank 1. Two classes. */
    LAB_MIXING_PARITY = 1,
    /* The product of `places` permutations of three things, each one of six by a one: separation rank 6. Six classes. */
    LAB_MIXING_PERMUTATIONS = 2,
    LAB_MIXING_COUNT = 3
} lab_mixing;

enum { LAB_PERMUTATIONS = 6 }; /* of three things: 0 is the identity */
/* First b, then a: (a b)(i) = a(b(i)). */
int lab_permutations_compose(int a, int b);
/* Where permutation p sends i, 0 to 2. */
int lab_permutation_of(int p, int i);

/* ---- rows of numbers ---------------------------------------------------------------------------------------------------- */

typedef struct lab_mixing_rows {
    bo_examples *examples; /* the last fifth is held out (BO_PART_VALID), the rest is for training */
    float *x;
    double *y;
} lab_mixing_rows;

/* places 0: 8 of parity, 4 permutations. */
bo_status lab_mixing_rows_open(lab_run *run, lab_mixing kind, size_t places, size_t rows, lab_mixing_rows *out);
void lab_mixing_rows_close(lab_mixing_rows *rows);

/* ---- tokens ------------------------------------------------------------------------------------------------------------- */

/* PARITY: blocks of `places` of "01" and then "E" or "O"; PERMUTATIONS: of `places` of "abcdef" and then the product, one of
 * "ABCDEF". Every block is drawn anew. `blocks` to learn from, a fifth as many held out. */
bo_status lab_mixing_text(lab_run *run, lab_mixing kind, size_t places, size_t blocks, lab_text *out);
/* The nats of an answer that a loss of so many nats a token leaves, where the tokens before it cost what they must: log 2 or
 * log 6 each. */
double lab_mixing_answer(lab_mixing kind, size_t places, double loss);

#endif
