/* lora: its two halves. */
#ifndef BO_LAB_ARCHITECTURES_LORA_H
#define BO_LAB_ARCHITECTURES_LORA_H

#include "../experiment.h"

/* One layer: tables "beginnings" and "rank", and the claims of both. */
bo_status lab_lora_layer(lab_run *run);

#endif
