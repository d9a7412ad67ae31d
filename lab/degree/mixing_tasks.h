/* Tasks that depend on the entire input, so that no part of the input alone is informative. The rows are also
 * sequences of `places` vectors. */
#ifndef BO_LAB_DEGREE_MIXING_TASKS_H
#define BO_LAB_DEGREE_MIXING_TASKS_H

#include "../experiment.h"
#include <bochner/network.h>

typedef enum lab_mixing {
    /* Σ_{r ≤ 40} (a_r·A + a)³ (b_r·B + b)³ of 6 + 6 numbers in [-1, 1]: degree 6, separation rank 40. The target is a
     * number. */
    LAB_MIXING_POLYNOMIAL = 0,
    /* Π x_i of `places` signs: degree `places`, separation rank 1. Two classes. */
    LAB_MIXING_PARITY = 1,
    /* The product of `places` permutations of three elements, each given as one of six (one-hot): separation rank 6.
     * Six classes. */
    LAB_MIXING_PERMUTATIONS = 2,
    /* Σ_{r ≤ 24} ± Π_{i ∈ S_r} x_i of `places` signs, S_r random sets of `order` places: degree `order`. The target is
     * a number. */
    LAB_MIXING_PARITIES = 3,
    LAB_MIXING_COUNT = 4
} lab_mixing;

typedef struct lab_mixing_desc {
    lab_mixing kind;
    size_t places; /* not for POLYNOMIAL */
    size_t order;  /* for PARITIES, at most `places` */
    size_t rows;
} lab_mixing_desc;

enum { LAB_PERMUTATIONS = 6 }; /* of three elements; 0 is the identity */
/* Applies first b, then a: (a b)(i) = a(b(i)). */
int lab_permutations_compose(int a, int b);
/* The image of i under permutation p, 0 to 2. */
int lab_permutation_of(int p, int i);

typedef struct lab_mixing_rows {
    bo_examples *examples; /* one fifth for validation, one for test, the rest for training */
    float *x;
    double *y;
} lab_mixing_rows;

bo_status lab_mixing_rows_open(lab_run *run, const lab_mixing_desc *desc, lab_mixing_rows *out);
void lab_mixing_rows_close(lab_mixing_rows *rows);

#endif
