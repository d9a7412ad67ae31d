/* Translating, and what judging translations shares with it. */
#ifndef BO_MODEL_TRANSLATE_H
#define BO_MODEL_TRANSLATE_H

#include <bochner/tasks.h>
#include "lanes.h"

/* The descriptor without zeros (NULL: greedy); penalty 0: none. Refused where the model translates nothing. */
bo_status bo_translate_resolve(bo_context *context, const bo_model *model, const bo_texts *texts,
                               const bo_translate_desc *desc, bo_translate_desc *out);

/* What begins and ends texts. */
int32_t bo_translate_end(const bo_model *model);
/* Refuses a text that the model's tables do not have, or that does not end as the model's do. */
bo_status bo_translate_check(bo_context *context, const bo_model *model, const bo_texts *texts, size_t example,
                             size_t side);

/* ---- searching: the likeliest token after token, or the best of several hypotheses --------------------------------------- */

typedef struct bo_search {
    size_t beam;        /* hypotheses of a source; 1: greedy */
    double penalty;     /* α of bo_search_score; at least 0 */
    int32_t end;        /* begins and ends a text */
    const size_t *most; /* tokens of each source's, at least 1: one that has so many is cut, and needs no end */
} bo_search;

/* log p / ((5 + length) / 6)^α (1609.08144, equation 14 without coverage); length counts the end. */
double bo_search_score(const bo_search *search, double log_p, size_t length);
/* ids[i] gets what is said of source i, without the end; scores[i] (NULL: not wanted) its log p. The lanes are at least `beam`
 * a source. Hypotheses that end leave their places in the beam (1409.3215, section 3.2). */
bo_status bo_lanes_search(bo_context *context, bo_lanes *lanes, const bo_text_view *sources, size_t count,
                          const bo_search *search, bo_ids *ids, double *scores);

#endif
