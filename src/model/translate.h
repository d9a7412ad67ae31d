/* Translation, and the functions that its evaluation shares. */
#ifndef BO_MODEL_TRANSLATE_H
#define BO_MODEL_TRANSLATE_H

#include "../text/packs.h"
#include <bochner/tasks.h>
#include "lanes.h"

/* Fills in the defaults of the descriptor (NULL: greedy). A penalty of 0 turns the length penalty off. Models that do
 * not translate are refused. */
bo_status bo_translate_resolve(bo_context *context, const bo_model *model, const bo_translate_desc *desc,
                               bo_translate_desc *out);

/* Returns the token that starts and ends texts. */
int32_t bo_translate_end(const bo_model *model);
/* Refuses a text with token ids or positions outside the model's tables, or without the end token of the model. */
bo_status bo_translate_check(bo_context *context, const bo_model *model, const bo_texts *texts, size_t example,
                             size_t side);

/* ---- search: greedy, or beam search with several hypotheses ------------------------------------------------------ */

typedef struct bo_search {
    size_t beam;    /* hypotheses per source; 1: greedy */
    double penalty; /* α of bo_search_score, at least 0 */
    int32_t end;    /* token that starts and ends a text */
    const size_t
        *max_tokens; /* maximum tokens per source, at least 1; a longer text is truncated and has no end token */
} bo_search;

/* Returns log p / ((5 + length) / 6)^α (1609.08144, equation 14 without coverage); length includes the end token. */
double bo_search_score(const bo_search *search, double log_p, size_t length);
/* Stores the result for source i in ids[i], without the end token, and its log p in scores[i] (scores NULL: not
 * stored). There must be at least `beam` lanes per source. Finished hypotheses leave the beam (1409.3215, section
 * 3.2). */
bo_status bo_lanes_search(bo_context *context, bo_lanes *lanes, const bo_text_view *sources, size_t count,
                          const bo_search *search, bo_ids *ids, double *scores);

#endif
