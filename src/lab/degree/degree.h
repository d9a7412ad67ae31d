/* The parts of degree: each measures some of its claims and tables for one seed. */
#ifndef BO_LAB_DEGREE_H
#define BO_LAB_DEGREE_H

#include "../lab.h"

/* ---- budgets -------------------------------------------------------------------------------------------------------- */

enum { LAB_COUNTINGS = 3, LAB_INTEGERS = 3, LAB_MOST_LAYERS = 12 };

/* Layers of degree d = 2, 3, 4 (index d - 2) for one budget of matrices, where a layer is said to cost d - 1, d, d + 1 of them
 * (counting 0, 1, 2); the last as near as whole layers come to it. */
size_t lab_degree_layers(const lab_run *run, size_t counting, size_t index);
/* The d that theory has win by this counting, as an index: that of largest ln d / c(d). */
size_t lab_degree_winner(size_t counting);
extern const char *const lab_degree_countings[LAB_COUNTINGS]; /* rows of tables */
extern const char *const lab_degree_names[LAB_INTEGERS + 1];  /* "2", "3", "4", "e" */

/* What came out for every degree and number of layers that some counting asks for. */
typedef struct lab_degree_errors {
    double error[LAB_INTEGERS][LAB_MOST_LAYERS + 1]; /* NAN: not asked for */
    double steps[LAB_INTEGERS][LAB_MOST_LAYERS + 1]; /* until the loss was below a threshold */
} lab_degree_errors;
/* Calls `train` once for each. */
typedef bo_status (*lab_degree_train)(void *user, size_t index, size_t layers, double *error, double *steps);
bo_status lab_degree_each(lab_run *run, lab_degree_train train, void *user, lab_degree_errors *out);
/* ln of the least error of the other two over that of the predicted winner: positive where it wins. */
double lab_degree_margin(const lab_run *run, const lab_degree_errors *errors, size_t counting);

bo_status lab_degree_arrays(lab_run *run); /* networks on rows of numbers */
bo_status
lab_degree_tokens(lab_run *run); /* transformers on sequences and text, without activation functions or with */
bo_status lab_degree_mixing(lab_run *run); /* the token-mixing MLP as a polynomial of degree 2 */

#endif
