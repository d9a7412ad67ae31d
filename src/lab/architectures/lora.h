/* lora: its two halves. */
#ifndef BO_LAB_LORA_H
#define BO_LAB_LORA_H

#include "../lab.h"

/* One layer: tables "beginnings" and "rank", and the claims of both. */
bo_status lab_lora_layer(lab_run *run);

#endif
