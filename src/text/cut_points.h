/* Positions at which a text may be divided without changing its ids: between two characters that no merge joins.
 * Tokenizers such as Llama's merge within whole texts; division at these positions yields words, which can be
 * cached. */
#ifndef BO_TEXT_CUT_POINTS_H
#define BO_TEXT_CUT_POINTS_H

#include "tokenizer.h"

/* Fills tokenizer->joints, or leaves it empty if division could change the ids: every character must have its own
 * symbols, and tokens that represent bytes must not be merged. */
bo_status bo_cut_points_find(bo_context *context, bo_tokenizer *tokenizer);
/* Bytes before the first cut point: at least one character, at most the whole text. */
size_t bo_cut_points_next(const bo_tokenizer *tokenizer, const char *text, size_t length);

#endif
