/* The parts of degree. Each measures some of its claims and tables for one seed. */
#ifndef BO_LAB_DEGREE_H
#define BO_LAB_DEGREE_H

#include "../experiment.h"

/* ---- budgets ----------------------------------------------------------------------------------------------------- */

enum { LAB_COUNTINGS = 3, LAB_INTEGERS = 3, LAB_MOST_LAYERS = 12 };

/* Budgets of matrices: 12, 24 and about 30 of them if a layer costs d - 1, d, d + 1 matrices (counting 0, 1, 2), or
 * half as many. */
typedef enum lab_degree_budget { LAB_DEGREE_SMALL = 0, LAB_DEGREE_LARGE = 1 } lab_degree_budget;
/* Number of layers of degree d = 2, 3, 4 (index d - 2) within a budget; for the last counting rounded to whole
 * layers. */
size_t lab_degree_layers(lab_degree_budget budget, size_t counting, size_t index);
/* Number of layers of degree e at a cost of e. */
size_t lab_degree_between(lab_degree_budget budget);
/* Index of the degree d that theory predicts to be best for this counting: the largest ln d / c(d). */
size_t lab_degree_winner(size_t counting);
extern const char *const lab_degree_countings[LAB_COUNTINGS]; /* rows of tables */
extern const char *const lab_degree_names[LAB_INTEGERS + 1];  /* "2", "3", "4", "e" */

typedef double lab_degree_numbers[LAB_INTEGERS][LAB_MOST_LAYERS + 1]; /* NAN: not needed */
/* Results for every degree and number of layers that any counting needs. */
typedef struct lab_degree_errors {
    lab_degree_numbers error, steps; /* steps until the loss is below a threshold */
} lab_degree_errors;
/* Calls `train` once for each. */
typedef bo_status (*lab_degree_train)(void *user, size_t index, size_t layers, double *error, double *steps);
bo_status lab_degree_each(lab_degree_budget budget, lab_degree_train train, void *user, lab_degree_errors *out);
/* ln of the smallest number of the other two divided by that of the predicted best: positive if it is best. */
double lab_degree_margin(lab_degree_budget budget, lab_degree_numbers *numbers, size_t counting);

bo_status lab_degree_networks(lab_run *run); /* networks on vectors and on sequences */
bo_status lab_degree_text(lab_run *run);     /* transformers on text, with and without activation functions */
bo_status lab_degree_mixing(lab_run *run);   /* the token-mixing MLP as a polynomial of degree 2 */

#endif
