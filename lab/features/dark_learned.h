/* What M, learned while the projections to q and k stay frozen, makes of the queries and keys that a softmax model has. */
#ifndef BO_LAB_FEATURES_DARK_LEARNED_H
#define BO_LAB_FEATURES_DARK_LEARNED_H

#include "../tools/language.h"

/* `dark`: the softmax model with DARK attention, finetuned. Records the table "learned" and the claims that speak of it. */
bo_status lab_dark_learned(lab_run *run, const lab_text *text, const bo_model *softmax, const bo_model *dark);

#endif
