#ifndef BO_LAB_ARCHITECTURES_RIDGE_POOL_H
#define BO_LAB_ARCHITECTURES_RIDGE_POOL_H

#include "../experiment.h"

/* Records the claims "pool…" and the tables "pool" and "pool-time" of ridge-attention. */
bo_status lab_ridge_pool(lab_run *run);

#endif
