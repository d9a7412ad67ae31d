/* Where a text may be cut without changing its ids: between two characters that no merge ever joins. Tokenizers like Llama's
 * merge within whole texts; cut at such places they fall into words, which a cache remembers. */
#ifndef BO_TEXT_CUT_POINTS_H
#define BO_TEXT_CUT_POINTS_H

#include "tokenizer.h"

/* Fills tokenizer->joints, or leaves it empty where cutting could change something: every character must become symbols of
 * its own, and none of those that stand for bytes may be merged. */
bo_status bo_cut_points_find(bo_context *context, bo_tokenizer *tokenizer);
/* How much of the text comes before its first seam: at least one character, at most all of it. */
size_t bo_cut_points_next(const bo_tokenizer *tokenizer, const char *text, size_t length);

#endif
