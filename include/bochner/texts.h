/* Bochner: labeled texts and pairs of texts, from tab-separated lines; how well labels and translations do.
 *
 *     bo_texts_desc desc = {.kind = BO_TEXTS_LABELED, .paths = paths, .path_count = 1, .tokenizer = tokenizer};
 *     bo_texts *texts;
 *     bo_texts_open(context, &desc, &texts);
 *     bo_text_view first = bo_texts_get(texts, 0, 0);                     // its ids */
#ifndef BOCHNER_TEXTS_H
#define BOCHNER_TEXTS_H

#include <bochner/text.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bo_texts_kind {
    BO_TEXTS_LABELED = 0,      /* label, tab, text */
    BO_TEXTS_LABELED_PAIR = 1, /* label, tab, text, tab, text */
    BO_TEXTS_PAIR = 2,         /* source, tab, target */
    BO_TEXTS_ALONE = 3,        /* a text a line: to be labeled or translated */
    BO_TEXTS_ALONE_PAIR = 4,   /* text, tab, text: to be labeled */
} bo_texts_kind;

/* Zero means the default. */
typedef struct bo_texts_desc {
    bo_texts_kind kind;
    const char *const *paths; /* one example a line, also gzipped; "-": standard input */
    size_t path_count;
    /* Or lines in memory, which need not outlive the call; `before` of the same input came before them, for messages, which
     * call it standard input. */
    const char *memory;
    size_t memory_bytes, before;
    const bo_tokenizer *tokenizer; /* must outlive the texts */
    /* The classes there are: another is refused. NULL: those of the whole file, in order: numbers by value where all are
     * numbers, else by bytes. A number is known by its value: 1 and 1.0 are one class. */
    const char *const *labels;
    size_t classes;
    size_t longest; /* most tokens of a text (the model's context); 0: any */
    bool cut;       /* longer ones are cut there (and counted), instead of refused */
    size_t end;     /* an id + 1 that is put behind every text; 0: none. `longest` does not count it */
    bool empty;     /* ALONE: an empty line is a text of no tokens, at the end of the input too */
    /* The part from `skip` to skip + take of the examples, in an order drawn from `seed` (files are often sorted by class);
     * take 0: to the end. Both 0: all, in the order of the file. */
    double skip, take;
    uint64_t seed;
} bo_texts_desc;

typedef struct bo_texts bo_texts; /* immutable, shared by threads */

/* BO_FORMAT, and file and line are named: a tab that is missing or too many, an empty (or blank) label or text, bytes that are
 * not UTF-8, a NUL, a label that has control characters or is none of `labels`, a text longer than `longest`. BO_INVALID: no
 * line at all, or (labeled, without `labels`) only one class. A carriage return before the end of a line is no part of it;
 * empty lines at the end of a file are none. Special tokens (<|endoftext|>) in a text are taken letter by letter. */
BO_API bo_status bo_texts_open(bo_context *context, const bo_texts_desc *desc, bo_texts **out);
BO_API void bo_texts_close(bo_texts *texts); /* NULL is fine */
/* A byte-level BPE (text.h) learned from the texts of such files, not from their labels: all of `texts` but tokenizer, longest,
 * cut and end counts. */
BO_API bo_status bo_tokenizer_train_texts(bo_context *context, const bo_tokenizer_desc *desc,
                                          const bo_texts_desc *texts, bo_tokenizer **out);

BO_API bo_texts_kind bo_texts_kind_of(const bo_texts *texts);
BO_API size_t bo_texts_count(const bo_texts *texts); /* examples */
BO_API size_t bo_texts_sides(const bo_texts *texts); /* texts of an example: 1 or 2 */
BO_API uint64_t bo_texts_tokens(const bo_texts *texts, size_t side);
BO_API size_t bo_texts_longest(const bo_texts *texts, size_t side); /* tokens; with the end */
BO_API size_t bo_texts_truncated(const bo_texts *texts);            /* how many texts were cut */
BO_API size_t bo_texts_classes(const bo_texts *texts);
BO_API const char *const *bo_texts_labels(const bo_texts *texts); /* classes of them; NULL: unlabeled */
BO_API uint64_t bo_texts_fingerprint(const bo_texts *texts);      /* of ids, labels and order */

typedef struct bo_text_view {
    const int32_t *ids;
    size_t count; /* with the end */
} bo_text_view;
BO_API bo_text_view bo_texts_get(const bo_texts *texts, size_t example, size_t side);
BO_API int32_t bo_texts_label(const bo_texts *texts, size_t example); /* -1: unlabeled */
BO_API size_t bo_texts_line(const bo_texts *texts, size_t example,
                            const char **path); /* from 1, for messages; path NULL is fine */
/* The text as it stood in the file, for BLEU and for showing; not terminated. */
BO_API const char *bo_texts_words(const bo_texts *texts, size_t example, size_t side, size_t *bytes);

/* ---- packs ------------------------------------------------------------------------------------------------------------ */

/* Examples of any length are packed into rows of a fixed number of tokens, never padded to the longest. An epoch takes every
 * example once, in an order of its own (drawn from seed and epoch), and lays each into the fullest of a few open packs that has
 * room on every side; the packs are shuffled in turn. A batch is `batch` packs; it follows from (seed, step) alone, and the
 * last one of an epoch goes on with packs of the next. */
typedef struct bo_packs_desc {
    const bo_texts *texts;
    /* Tokens of a pack. PAIR: of sources and of targets; else [0] alone, for both texts of an example together. At least the
     * longest. */
    size_t rows[2];
    size_t most;  /* examples of a pack */
    size_t batch; /* packs of a step */
    uint64_t seed;
    bool in_order; /* evaluation: nothing is shuffled, and there is one epoch: packs after it are empty */
} bo_packs_desc;
typedef struct bo_packs bo_packs;
BO_API bo_status bo_packs_create(bo_context *context, const bo_packs_desc *desc, bo_packs **out);
BO_API void bo_packs_destroy(bo_packs *packs);           /* NULL is fine */
BO_API size_t bo_packs_per_epoch(const bo_packs *packs); /* of the first */
BO_API double bo_packs_fill(const bo_packs *packs);      /* part of the rows of the first epoch that hold tokens */
/* The examples of pack `index` of step `step` (its first `*count` places of `examples`, room for desc.most). Epochs are laid
 * out as they come and kept one at a time: of one thread. */
BO_API bo_status bo_packs_get(bo_context *context, bo_packs *packs, uint64_t step, size_t index, size_t *examples,
                              size_t *count);

/* ---- quality ---------------------------------------------------------------------------------------------------------- */

/* BLEU of a corpus (Papineni 2002), 0 to 100: n-grams up to 4 with clipped counts, brevity penalty, one reference each; tokens
 * are what stands between spaces after the 13a rules of mteval (tokenize), or as it is. No smoothing: 0 where some n-gram
 * order has no match. */
typedef struct bo_bleu {
    double score, precisions[4] /* percent */, brevity_penalty;
    uint64_t length, reference_length;
} bo_bleu;
typedef struct bo_bleu_counts {
    uint64_t matches[4], totals[4], length, reference_length;
} bo_bleu_counts;
BO_API bo_status bo_bleu_add(bo_context *context, bo_bleu_counts *counts, const char *hypothesis, size_t bytes,
                             const char *reference, size_t reference_bytes, bool tokenize);
BO_API bo_bleu bo_bleu_of(const bo_bleu_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
