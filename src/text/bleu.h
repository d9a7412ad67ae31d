/* Tokenization for BLEU. */
#ifndef BO_TEXT_BLEU_H
#define BO_TEXT_BLEU_H

#include "buffer.h"

/* Appends the text with spaces around its tokens to *out, by the rules of mteval-v13a (NIST 2009), also called "13a".
 * The rules apply to ASCII only. */
bo_status bo_bleu_tokenize(bo_context *context, const char *text, size_t bytes, bo_buffer *out);

#endif
