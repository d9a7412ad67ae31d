/* Internal declarations of src/linearize. */
#ifndef BO_LINEARIZE_H
#define BO_LINEARIZE_H

#include <bochner/linearize.h>

/* Sets the matrices M of DARK (and of HYBRID with a rank) of a language model to the whitening of its queries and keys
 * on a text. tokens: number of tokens to use; 0: 4096. amount: as in bo_attention_whiten; 0: preserves the mean length.
 * BO_INVALID: no layer has a matrix M, or the text is shorter than one window. */
bo_status bo_model_whiten(bo_context *context, bo_model *model, const bo_corpus *corpus, uint64_t tokens,
                          double amount);

#endif
