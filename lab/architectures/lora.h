/* lora: the interface between its two files. */
#ifndef BO_LAB_ARCHITECTURES_LORA_H
#define BO_LAB_ARCHITECTURES_LORA_H

#include "../experiment.h"

/* One layer: records the tables "beginnings" and "rank" and their claims. */
bo_status lab_lora_layer(lab_run *run);

#endif
