/* Accessors of single properties of tokenizers, corpora and texts, for the library; each accepts NULL. */
#ifndef BO_TEXT_FACTS_H
#define BO_TEXT_FACTS_H

#include <bochner/text.h>

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

/** Returns the number of ids. All ids are smaller.
 *
 * @param tokenizer   the tokenizer
 * @return the size of the vocabulary
 */
size_t bo_tokenizer_vocab(const bo_tokenizer *tokenizer);

/** Reports whether ids are bytes.
 *
 * @param tokenizer   the tokenizer
 * @return true for the tokenizer of bytes
 */
bool bo_tokenizer_is_raw(const bo_tokenizer *tokenizer);

/** Returns the id that ends a document, such as that of "<|endoftext|>".
 *
 * @param tokenizer   the tokenizer
 * @return the id; -1 if there is none
 */
int32_t bo_tokenizer_end(const bo_tokenizer *tokenizer);

/** Returns a hash that changes if ids change. Models store it.
 *
 * @param tokenizer   the tokenizer
 * @return the hash
 */
uint64_t bo_tokenizer_fingerprint(const bo_tokenizer *tokenizer);

/* ---- corpora ----------------------------------------------------------------------------------------------------- */

/** Returns the number of documents.
 *
 * @param corpus   the corpus
 * @return the number of documents
 */
uint64_t bo_corpus_documents(const bo_corpus *corpus);

/** Returns a hash of the tokens. A resumed run needs the same.
 *
 * @param corpus   the corpus
 * @return the hash
 */
uint64_t bo_corpus_fingerprint(const bo_corpus *corpus);

/** Returns the start of the first document after a token.
 *
 * @param corpus   the corpus
 * @param at       the token
 * @return the first token of that document; bo_corpus_tokens() if there is none
 */
uint64_t bo_corpus_next_document(const bo_corpus *corpus, uint64_t at);

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/** Returns the number of examples.
 *
 * @param texts   the texts
 * @return the number of examples
 */
size_t bo_texts_count(const bo_texts *texts);

/** Returns the number of texts per example.
 *
 * @param texts   the texts
 * @return 1 or 2
 */
size_t bo_texts_sides(const bo_texts *texts);

/** Returns the number of classes.
 *
 * @param texts   the texts
 * @return the number of classes; 0 if the texts have no labels
 */
size_t bo_texts_classes(const bo_texts *texts);

/** Returns the names of the classes.
 *
 * @param texts   the texts
 * @return one name per class, owned by the texts; NULL if the texts have no labels
 */
const char *const *bo_texts_class_names(const bo_texts *texts);

/** Returns the class of an example.
 *
 * @param texts     the texts
 * @param example   the example
 * @return the class; -1 if the texts have no labels or there is no such example
 */
int32_t bo_texts_label(const bo_texts *texts, size_t example);

/** Returns the ids of one text, including the end token.
 *
 * @param texts        the texts
 * @param example      the example
 * @param side         the text of the example: 0 or 1
 * @param[out] count   the number of ids; 0 if there is no such text
 * @return the ids, owned by the texts; NULL if there is no such text
 */
const int32_t *bo_texts_ids(const bo_texts *texts, size_t example, size_t side, size_t *count);

/** Returns one text as it is written in the file.
 *
 * @param texts        the texts
 * @param example      the example
 * @param side         the text of the example: 0 or 1
 * @param[out] bytes   the number of bytes; 0 if there is no such text
 * @return the text without a NUL at the end, owned by the texts; NULL if there is no such text
 */
const char *bo_texts_text(const bo_texts *texts, size_t example, size_t side, size_t *bytes);

/** Returns the columns of a line.
 *
 * @param texts   the texts
 * @return the kind
 */
bo_texts_kind bo_texts_get_kind(const bo_texts *texts);

/** Returns the number of tokens of all texts of one side.
 *
 * @param texts   the texts
 * @param side    0 or 1
 * @return the number of tokens
 */
uint64_t bo_texts_tokens(const bo_texts *texts, size_t side);

/** Returns the maximum number of tokens of a text of one side, including the end token.
 *
 * @param texts   the texts
 * @param side    0 or 1
 * @return the number of tokens
 */
size_t bo_texts_longest(const bo_texts *texts, size_t side);

/** Returns the number of texts that were truncated.
 *
 * @param texts   the texts
 * @return the number of texts
 */
size_t bo_texts_truncated(const bo_texts *texts);

/** Returns a hash of ids, labels and order.
 *
 * @param texts   the texts
 * @return the hash
 */
uint64_t bo_texts_fingerprint(const bo_texts *texts);

/** Returns the line of an example, for messages.
 *
 * @param texts       the texts
 * @param example     the example
 * @param[out] path   the file, owned by the texts; NULL if there is no such example. The argument may be NULL
 * @return the line number, from 1; 0 if there is no such example
 */
size_t bo_texts_line(const bo_texts *texts, size_t example, const char **path);

#endif
