/* The functions of this directory: matrix tiles (AMX). */
#ifndef BO_KERNELS_AMX_H
#define BO_KERNELS_AMX_H

#include "../bf16.h"

void bo_amx_prepare(void);

#endif
