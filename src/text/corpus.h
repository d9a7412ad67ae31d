/* A corpus' inside. */
#ifndef BO_TEXT_CORPUS_H
#define BO_TEXT_CORPUS_H

#include "documents.h"
#include "tokenizer.h"

/* All tokens of all files are numbered; the corpus is [first, first + tokens) of them. Document d is the tokens
 * [starts[d], starts[d + 1]). They lie in `narrow` or, when ids do not fit there, in `wide`; files read with the byte tokenizer
 * have neither: they are the bytes of documents.items[d]. */
struct bo_corpus {
    const bo_tokenizer *tokenizer;
    bo_documents documents; /* the texts are kept for bytes alone */
    size_t document_count;
    uint64_t *starts; /* document_count + 1 */
    uint16_t *narrow;
    uint32_t *wide;
    uint64_t first, tokens, bytes;
};

/* Fills starts and the ids of a corpus whose documents are open, for tokenizers other than bytes. */
bo_status bo_corpus_encode(bo_context *context, bo_corpus *corpus);

#endif
