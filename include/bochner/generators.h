/* Bochner: made-up data for tasks of long sequences, whose answers are known: nested operations, pairs of documents with or
 * without a common source, pairs to remember. Lines are as texts.h reads them: label, tab, text (tab, text). A line follows
 * from the seed and its number, whatever the number of threads.
 *
 *     bo_listops_desc desc = {.least = 100, .most = 500};
 *     bo_generate_listops(context, &desc, 1000, 1, write, file, &made); */
#ifndef BOCHNER_GENERATORS_H
#define BOCHNER_GENERATORS_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BO_GENERATED_CLASSES = 36 }; /* at most */

/* What came out. */
typedef struct bo_generated {
    uint64_t lines, bytes, tokens;         /* tokens of the texts: bytes, or words */
    uint64_t labels[BO_GENERATED_CLASSES]; /* how often each class came, in order */
    uint64_t tried;                        /* lines drawn in all, with those that did not fit */
} bo_generated;

/* Takes whole lines, in order, from the thread that called; false: it said why itself (BO_IO). */
typedef bool (*bo_write_fn)(void *user, const char *lines, size_t bytes);

/* ListOps by the rules of the Long Range Arena (Tay et al. 2020, 2011.04006; Nangia and Bowman 2018): a value is a digit with
 * probability 3/4, and at the greatest depth; else one of MIN, MAX, MED (of an even number: the middle between both, rounded
 * down) and SM (the sum modulo 10) of 2 to `arguments` values. Kept are trees with more than `least` and fewer than `most`
 * tokens (a digit is one, an operation two: itself and its end), each once. The label is the value, 0 to 9.
 *
 * A token is a byte: digits, the operations m M d s, and ] for the end of one: [MIN 4 [MAX 2 3 ] 1 ] is m4M23]1]. */
typedef struct bo_listops_desc {
    size_t least, most;      /* 0: 500 and 2000 */
    size_t depth, arguments; /* 0: 10 and 10; at most 64 each */
    bool words;              /* as in the brackets above, between blanks */
} bo_listops_desc;
BO_API bo_status bo_generate_listops(bo_context *context, const bo_listops_desc *desc, uint64_t count, uint64_t seed,
                                     bo_write_fn write, void *user, bo_generated *made);

/* Two documents, and whether they are noisy copies of one source (label 1) or of two (label 0), half each. A source is words
 * drawn from a topic, a few words of a vocabulary; a document is a stretch of it, from a place of its own, with words left out,
 * replaced by others of the topic and exchanged with near ones. Words are orders of the same letters, so that documents are
 * alike in every count of single bytes. Zero means the default, except for the fractions. */
typedef struct bo_match_desc {
    size_t length;        /* bytes of a document, at most; 0: 1000 */
    size_t words;         /* of the vocabulary, 2 to 5040; 0: 500 */
    size_t topic;         /* words of a topic, 2 to 1024; 0: 30, or all where there are fewer */
    bool same_words;      /* harder: where there are two sources, one is the other in any order, and counts of words say
                           * nothing either */
    double drop, replace; /* of the words, 0 to 0.9 */
    size_t shuffle;       /* words are exchanged within spans of so many; 0, 1: they are not */
    double shift; /* a source is longer than a document by this part of it, and documents begin anywhere; 0 to 4 */
} bo_match_desc;
BO_API bo_status bo_generate_match(bo_context *context, const bo_match_desc *desc, uint64_t count, uint64_t seed,
                                   bo_write_fn write, void *user, bo_generated *made);

/* Associative recall: keys with values among signs that mean nothing (. , : ;), then ? and a key. The label is the value that
 * stood behind that key: "…k3.;,q8,,?k" is 3. Keys are lower-case letters (one, two or three, as many as there must be),
 * values 0 … 9 A … Z. A token is a byte; or a word after a blank, which is easier: a pair is one word, and values are A … Z, as
 * " . kD ; , qI , , k" is D. Zero means the default. */
typedef struct bo_recall_desc {
    size_t length; /* tokens of a text; 0: 256 */
    size_t pairs;  /* in a text, with different keys; 0: 8 */
    size_t keys;   /* there are, up to 26^3; 0: 26, or as many as there are pairs */
    size_t values; /* there are, 2 to 36, of words 26; 0: 10 */
    bool words;
    /* The value asked for stands this many tokens before the last one, drawn uniformly from nearest to farthest. Both 0: any
     * pair may be asked for. */
    size_t nearest, farthest;
} bo_recall_desc;
BO_API bo_status bo_generate_recall(bo_context *context, const bo_recall_desc *desc, uint64_t count, uint64_t seed,
                                    bo_write_fn write, void *user, bo_generated *made);

#ifdef __cplusplus
}
#endif
#endif
