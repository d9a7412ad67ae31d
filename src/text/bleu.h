/* How BLEU cuts text into tokens. */
#ifndef BO_TEXT_BLEU_H
#define BO_TEXT_BLEU_H

#include "buffer.h"

/* The text with blanks around its tokens, appended to *out: the rules of mteval-v13a (NIST 2009), the "13a" of others. They
 * only ever look at ASCII. */
bo_status bo_bleu_tokenize(bo_context *context, const char *text, size_t bytes, bo_buffer *out);

#endif
