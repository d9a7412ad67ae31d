/* The scores of a classification, for ROC curves and the areas under them. */
#ifndef BO_MATH_RANKING_H
#define BO_MATH_RANKING_H

#include <bochner/metrics.h>

/* All scores of up to `max_rows` rows. From then on only counts in bins whose edges are quantiles of these rows. */
typedef struct bo_ranking bo_ranking;

bo_status bo_ranking_create(bo_context *context, size_t classes, size_t max_rows, bo_ranking **out);
void bo_ranking_destroy(bo_ranking *ranking);
/* Adds rows: y are classes, p probabilities (rows x classes). If memory is exhausted, nothing is added. */
bo_status bo_ranking_add(bo_context *context, bo_ranking *ranking, size_t rows, const double *y, const double *p);

/* Rows with the same score, or in the same bin: the number inside and outside the class. */
typedef struct bo_rank {
    double score;
    uint64_t inside, outside;
} bo_rank;

/* The ranks of a class by rising score; freed with bo_free. */
bo_status bo_ranking_ranks(bo_context *context, const bo_ranking *ranking, size_t class_index, bo_rank **ranks,
                           size_t *count);
/* The area under the ROC curve, its standard error and the bound of its error; NAN if no row is inside or none is
 * outside. */
bo_status bo_ranking_auc(bo_context *context, const bo_ranking *ranking, size_t class_index, bo_measure *out);

#endif
