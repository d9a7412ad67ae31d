/* Tasks that ask for all of their input at once: no part of it says anything alone. Rows of
 * numbers, which are sequences, too: of `places` vectors. */
#ifndef BO_LAB_DEGREE_MIXING_TASKS_H
#define BO_LAB_DEGREE_MIXING_TASKS_H

#include "../experiment.h"
#include <bochner/network.h>

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

typedef struct lab_mixing_rows {
    bo_examples *examples; /* the last fifth is held out (BO_SPLIT_VALID), the rest is for training */
    float *x;
    double *y;
} lab_mixing_rows;

/* places 0: 8 of parity, 4 permutations. */
bo_status lab_mixing_rows_open(lab_run *run, lab_mixing kind, size_t places, size_t rows, lab_mixing_rows *out);
void lab_mixing_rows_close(lab_mixing_rows *rows);

#endif
