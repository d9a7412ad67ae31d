/* Synthetic labeled data for tasks on long sequences: nested operations (ListOps), pairs of documents with or without a
 * common source, associative recall of key-value pairs. Lines are in the format of texts.h: label, tab, text (tab,
 * text). A line depends on the seed and on its number only, not on the number of threads.
 *
 *     bo_listops_desc desc = {.min_tokens = 100, .max_tokens = 500};
 *     bo_generate_listops(context, &desc, 1000, 1, write, file, &made); */
#ifndef CLI_SHARED_GENERATORS_H
#define CLI_SHARED_GENERATORS_H

#include <bochner/base.h>

enum { BO_GENERATED_CLASSES = 36 }; /* at most */

/* The lines that were generated. */
typedef struct bo_generated {
    uint64_t lines, bytes, tokens;         /* tokens: bytes, or words */
    uint64_t labels[BO_GENERATED_CLASSES]; /* lines of each class, in order */
    uint64_t tried;                        /* lines drawn, including those that were rejected */
} bo_generated;

/* Receives complete lines, in order, on the calling thread. Returns false after reporting an error (BO_IO). */
typedef bool (*bo_write_fn)(void *user, const char *lines, size_t bytes);

/* ListOps by the rules of the Long Range Arena (Tay et al. 2020, 2011.04006; Nangia and Bowman 2018). A value is a
 * digit with probability 3/4 and always at the greatest depth; otherwise it is one of MIN, MAX, MED (of an even number:
 * the mean of the two in the middle, rounded down) and SM (the sum modulo 10) of 2 to `arguments` values. Trees with
 * more than `min_tokens` and fewer than `max_tokens` tokens are kept, without duplicates (a digit is one token; an
 * operation is two, its start and its end). The label is the value, 0 to 9.
 *
 * A token is a byte: digits, the operations m M d s, and ] for the end of one. [MIN 4 [MAX 2 3 ] 1 ] is m4M23]1]. */
typedef struct bo_listops_desc {
    size_t min_tokens, max_tokens; /* (default: 500 and 2000) */
    size_t depth, arguments;       /* at most 64 each (default: 10 and 10) */
    bool words;                    /* tokens are words separated by spaces, as in the brackets above */
} bo_listops_desc;
bo_status bo_generate_listops(bo_context *context, const bo_listops_desc *desc, uint64_t count, uint64_t seed,
                              bo_write_fn write, void *user, bo_generated *made);

/* Two documents that are noisy copies of one source (label 1) or of two sources (label 0), half of the lines each. A
 * source consists of words drawn from a topic, which is a part of the vocabulary. A document is a part of its source,
 * from a random position, with words dropped, replaced by other words of the topic, and exchanged with nearby words.
 * All words are permutations of the same letters, so that documents have the same counts of bytes. Zero means the
 * default, except for the fractions. */
typedef struct bo_match_desc {
    size_t length;        /* maximum bytes of a document (default: 1000) */
    size_t words;         /* of the vocabulary, 2 to 5040 (default: 500) */
    size_t topic;         /* words of a topic, 2 to 1024 (default: 30, or all words if there are fewer) */
    bool same_words;      /* harder: of two sources, one is a permutation of the other */
    double drop, replace; /* fractions of the words, 0 to 0.9 */
    size_t shuffle;       /* words are exchanged within spans of this length; 0 or 1: not exchanged */
    double shift; /* relative excess length of a source over a document; documents start anywhere in it; 0 to 4 */
} bo_match_desc;
bo_status bo_generate_match(bo_context *context, const bo_match_desc *desc, uint64_t count, uint64_t seed,
                            bo_write_fn write, void *user, bo_generated *made);

/* Associative recall: keys with values among filler characters (. , : ;), then ? and a key. The label is the value of
 * that key: "…k3.;,q8,,?k" is 3. Keys are one, two or three lower-case letters, as `keys` requires; values are 0 … 9 A
 * … Z. A token is a byte. With `words`, which is easier, a token is a word after a space, a pair is one word, and
 * values are A … Z: " . kD ; , qI , , k" is D. Zero means the default. */
typedef struct bo_recall_desc {
    size_t length; /* tokens of a text (default: 256) */
    size_t pairs;  /* in a text, with different keys (default: 8) */
    size_t keys;   /* number of different keys, up to 26^3 (default: 26, or the number of pairs) */
    size_t values; /* number of different values, 2 to 36, with words 26 (default: 10) */
    bool words;
    /* Distance in tokens from the requested value to the last token, drawn uniformly from nearest to farthest. Both 0:
     * any pair. */
    size_t nearest, farthest;
} bo_recall_desc;
bo_status bo_generate_recall(bo_context *context, const bo_recall_desc *desc, uint64_t count, uint64_t seed,
                             bo_write_fn write, void *user, bo_generated *made);

#endif
