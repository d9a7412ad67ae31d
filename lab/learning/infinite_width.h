/* infinite-width: its smaller experiments. */
#ifndef BO_LAB_LEARNING_INFINITE_WIDTH_H
#define BO_LAB_LEARNING_INFINITE_WIDTH_H

#include "../experiment.h"

/* The direction of sign steps: records the table and claims for Gaussian and tangent features. */
bo_status lab_infinite_width_signs(lab_run *run);
/* The features that training selects from many frozen features: records the table and the claim. */
bo_status lab_infinite_width_selection(lab_run *run);

#endif
