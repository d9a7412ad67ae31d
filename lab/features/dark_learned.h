/* The effect on queries and keys of a matrix M that is learned while the query and key projections of a softmax model
 * stay frozen. */
#ifndef BO_LAB_FEATURES_DARK_LEARNED_H
#define BO_LAB_FEATURES_DARK_LEARNED_H

#include "../experiment.h"

/* dark: the softmax model finetuned with DARK attention. Records the table "learned" and its claims. */
bo_status lab_dark_learned(lab_run *run, const lab_text *text, const bo_model *softmax, const bo_model *dark);

#endif
