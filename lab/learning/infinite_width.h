/* infinite-width: its smaller halves. */
#ifndef BO_LAB_LEARNING_INFINITE_WIDTH_H
#define BO_LAB_LEARNING_INFINITE_WIDTH_H

#include "../experiment.h"

/* Where steps by signs go: table and claims of Gaussian and of tangent features. */
bo_status lab_infinite_width_signs(lab_run *run);
/* Which of many frozen features training picks: table and claim. */
bo_status lab_infinite_width_selection(lab_run *run);

#endif
