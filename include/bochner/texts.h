/* Bochner: labeled texts and pairs of texts, from tab-separated lines; the quality of translations.
 *
 *     bo_texts_desc desc = {.kind = BO_TEXTS_LABELED, .paths = paths, .path_count = 1, .tokenizer = tokenizer};
 *     bo_texts *texts;
 *     bo_texts_open(context, &desc, &texts);
 *     size_t count;
 *     const int32_t *first = bo_texts_ids(texts, 0, 0, &count); */
#ifndef BOCHNER_TEXTS_H
#define BOCHNER_TEXTS_H

#include <bochner/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

typedef enum bo_texts_kind {
    BO_TEXTS_LABELED = 0,      /* label, tab, text */
    BO_TEXTS_LABELED_PAIR = 1, /* label, tab, text, tab, text */
    BO_TEXTS_PAIR = 2,         /* source, tab, target */
    BO_TEXTS_ALONE = 3,        /* one text per line: to be labeled or translated */
    BO_TEXTS_ALONE_PAIR = 4,   /* text, tab, text: to be labeled */
} bo_texts_kind;

/* Zero means the default, except paths (or memory) and tokenizer. */
typedef struct bo_texts_desc {
    bo_texts_kind kind;
    const char *const *paths; /* one example per line, also gzipped; "-": standard input */
    size_t path_count;
    /* Instead of paths: lines in memory, which need not outlive the call. Messages call them standard input and number them
     * after the `before` lines of that input which came before. */
    const char *memory;
    size_t memory_bytes, before;
    const bo_tokenizer *tokenizer; /* must outlive the texts */
    /* The classes: a label that is none of them is refused. Default: the labels of all files, in order: by value if all of them
     * are numbers, else by bytes. Numbers are compared by value: 1 and 1.0 are one class. */
    const char *const *labels;
    size_t classes;
    size_t longest; /* most tokens of a text, the context of the model (default: any number) */
    bool cut;       /* longer texts are cut there and counted, instead of refused */
    size_t end;     /* an id + 1 that is appended to every text; 0: none. `longest` does not count it */
    bool empty;     /* ALONE: an empty line is a text of no tokens, also at the end of the input */
    /* The part from `skip` to skip + take of the examples, in an order drawn from `seed` (files are often sorted by class);
     * take 0: to the end. Both 0: all, in the order of the file. */
    double skip, take;
    uint64_t seed;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_texts_desc;

typedef struct bo_texts bo_texts; /* immutable, shared by threads */

/* BO_FORMAT, with file and line: a tab that is missing or too many, an empty (or blank) label or text, bytes that are not UTF-8,
 * a NUL, a label with control characters or one that is none of `labels`, a text longer than `longest`. BO_INVALID: no line at
 * all, or (labeled, without `labels`) only one class. A carriage return before the end of a line is no part of it; empty lines
 * at the end of a file are ignored. Special tokens (<|endoftext|>) in a text are encoded letter by letter. */
BO_API bo_status bo_texts_open(bo_context *context, const bo_texts_desc *desc, bo_texts **out);
BO_API void bo_texts_close(bo_texts *texts);

/* The number of examples. */
BO_API size_t bo_texts_count(const bo_texts *texts);
/* The number of texts per example: 1 or 2. */
BO_API size_t bo_texts_sides(const bo_texts *texts);
/* The number of classes; 0: the texts have no labels. */
BO_API size_t bo_texts_classes(const bo_texts *texts);
/* The labels of the classes; NULL: the texts have no labels. */
BO_API const char *const *bo_texts_class_names(const bo_texts *texts);
/* The class of an example; -1: the texts have no labels, or there is no such example. */
BO_API int32_t bo_texts_label(const bo_texts *texts, size_t example);
/* The ids of one text of an example, with the end. NULL and *count 0: there is no such text. */
BO_API const int32_t *bo_texts_ids(const bo_texts *texts, size_t example, size_t side, size_t *count);
/* The same text as it stands in the file; not terminated. NULL and *bytes 0: there is no such text. */
BO_API const char *bo_texts_words(const bo_texts *texts, size_t example, size_t side, size_t *bytes);

/* ==== Advanced ==================================================================================================== */

/* Learns a byte-level BPE (text.h) from the texts of such files, without their labels. tokenizer, longest, cut and end of
 * `texts` are ignored. */
BO_API bo_status bo_tokenizer_train_texts(bo_context *context, const bo_tokenizer_desc *desc,
                                          const bo_texts_desc *texts, bo_tokenizer **out);

BO_API bo_texts_kind bo_texts_get_kind(const bo_texts *texts);
/* The number of tokens of all texts of one side. */
BO_API uint64_t bo_texts_tokens(const bo_texts *texts, size_t side);
/* The most tokens of a text of one side, with the end. */
BO_API size_t bo_texts_longest(const bo_texts *texts, size_t side);
/* The number of texts that were cut. */
BO_API size_t bo_texts_truncated(const bo_texts *texts);
/* Of ids, labels and order. */
BO_API uint64_t bo_texts_fingerprint(const bo_texts *texts);
/* The line of an example, from 1, and its file (path or NULL), for messages. 0 and *path NULL: there is no such example. */
BO_API size_t bo_texts_line(const bo_texts *texts, size_t example, const char **path);

/* ---- quality ------------------------------------------------------------------------------------------------------- */

/* BLEU of a corpus (Papineni 2002), 0 to 100: n-grams up to 4 with clipped counts, brevity penalty, one reference per text.
 * Words are separated by spaces, after the 13a rules of mteval (`tokenize`) or as they are. No smoothing: 0 if an n-gram order
 * has no match. */
typedef struct bo_bleu {
    double score, precisions[4] /* percent */, brevity_penalty;
    uint64_t length, reference_length;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_bleu;
/* Begins as {0}. */
typedef struct bo_bleu_counts {
    uint64_t matches[4], totals[4], length, reference_length;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_bleu_counts;
/* Adds one text and its reference. */
BO_API bo_status bo_bleu_add(bo_context *context, bo_bleu_counts *counts, const char *hypothesis, size_t bytes,
                             const char *reference, size_t reference_bytes, bool tokenize);
BO_API void bo_bleu_score(const bo_bleu_counts *counts, bo_bleu *out);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* The ids of a text that lies anywhere. */
typedef struct bo_text_view {
    const int32_t *ids;
    size_t count; /* with the end */
} bo_text_view;

/* ---- packs --------------------------------------------------------------------------------------------------------- */

/* Examples of any length are packed into rows of a fixed number of tokens, without padding to the longest. An epoch takes every
 * example once, in an order of its own (drawn from seed and epoch), and puts each into the fullest of a few open packs with
 * enough room on every side; then the packs are shuffled. A batch is `batch` packs. It follows from (seed, step) alone; the last
 * batch of an epoch continues with packs of the next. */
typedef struct bo_packs_desc {
    const bo_texts *texts;
    size_t rows; /* tokens of a pack (PAIR: of its sources; else of all texts of its examples); at least the longest */
    size_t target_rows; /* PAIR: tokens of its targets; at least the longest */
    size_t most;        /* examples of a pack */
    size_t batch;       /* packs of a step */
    uint64_t seed;
    bool in_order;        /* for evaluation: nothing is shuffled, and there is one epoch: packs after it are empty */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_packs_desc;
typedef struct bo_packs bo_packs;
BO_API bo_status bo_packs_create(bo_context *context, const bo_packs_desc *desc, bo_packs **out);
BO_API void bo_packs_destroy(bo_packs *packs);
/* The number of packs in the first epoch. */
BO_API size_t bo_packs_per_epoch(const bo_packs *packs);
/* The fraction of the rows of the first epoch that hold tokens. */
BO_API double bo_packs_occupancy(const bo_packs *packs);
/* The examples of pack `index` of step `step`: *count numbers in `examples`, which has room for desc.most. Epochs are laid out
 * when they are reached and kept one at a time: the object belongs to one thread. */
BO_API bo_status bo_packs_get(bo_context *context, bo_packs *packs, uint64_t step, size_t index, size_t *examples,
                              size_t *count);

#endif

#ifdef __cplusplus
}
#endif
#endif
