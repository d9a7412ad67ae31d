/* Whitening: the matrices M of DARK, and of HYBRID with a rank, from the queries and keys of a text. */
#ifndef BO_MODEL_WHITEN_H
#define BO_MODEL_WHITEN_H

#include "model.h"

/* Refuses a model without a matrix M, and a model with data-dependent frequencies: these are fitted to M q and M k,
 * which are unknown before M. */
bo_status bo_model_whiten_check(bo_context *context, const bo_model *model);
/* Sets M of all layers that have one (bo_attention_whiten_arrays) from the queries and keys of a language model with
 * its present weights, on about `tokens` tokens of the text in windows of `window` tokens. The text has at least one
 * window. */
bo_status bo_model_whiten_windows(bo_context *context, bo_model *model, const bo_corpus *corpus, size_t window,
                                  uint64_t tokens, double amount);

#endif
