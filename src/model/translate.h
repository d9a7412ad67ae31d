/* What translating and judging translations share. */
#ifndef BO_MODEL_TRANSLATE_H
#define BO_MODEL_TRANSLATE_H

#include <bochner/tasks.h>
#include "internal.h"

/* The descriptor without zeros (NULL: greedy); penalty 0: none. Refused where the model translates nothing. */
bo_status bo_translate_resolve(bo_context *context, const bo_model *model, const bo_texts *texts,
                               const bo_translate_desc *desc, bo_translate_desc *out);

/* What begins and ends texts. */
int32_t bo_translate_end(const bo_model *model);
/* Refuses a text that the model's tables do not have, or that does not end as the model's do. */
bo_status bo_translate_check(bo_context *context, const bo_model *model, const bo_texts *texts, size_t example,
                             size_t side);

#endif
