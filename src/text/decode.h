/* Ids to text: the decoders of a tokenizer, one after the other, on a list of tokens. */
#ifndef BO_TEXT_DECODE_H
#define BO_TEXT_DECODE_H

#include "tokenizer.h"

/* Fills tokenizer->pieces. where: prefix of messages. */
bo_status bo_make_pieces(bo_context *context, const char *where, bo_tokenizer *tokenizer);

#endif
