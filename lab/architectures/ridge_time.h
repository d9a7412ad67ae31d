#ifndef BO_LAB_ARCHITECTURES_RIDGE_TIME_H
#define BO_LAB_ARCHITECTURES_RIDGE_TIME_H

#include "../experiment.h"

/* Records the claims "square" and "length" and the table "time" of ridge-attention. */
bo_status lab_ridge_time(lab_run *run);

#endif
