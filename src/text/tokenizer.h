/* The internal representation of a tokenizer: the content of tokenizer.json, prepared for use. */
#ifndef BO_TEXT_TOKENIZER_H
#define BO_TEXT_TOKENIZER_H

#include "pattern.h"
#include "vocabulary.h"

#include <bochner/text.h>

enum { BO_MOST_STEPS = 16 };

/* ---- normalization ----------------------------------------------------------------------------------------------- */

typedef enum bo_text_normalizer_kind {
    BO_NORMALIZE_PREPEND,
    BO_NORMALIZE_REPLACE,
    BO_NORMALIZE_FORM,
    BO_NORMALIZE_LOWERCASE,
    BO_NORMALIZE_STRIP
} bo_text_normalizer_kind;

typedef struct bo_text_normalizer {
    bo_text_normalizer_kind kind;
    bo_pattern pattern; /* REPLACE */
    char *content;      /* PREPEND, REPLACE */
    int form;           /* FORM: options of utf8proc */
    bool left, right;   /* STRIP */
} bo_text_normalizer;

/* ---- splitting into words ---------------------------------------------------------------------------------------- */

/* The treatment of matches, with the names of Hugging Face. */
typedef enum bo_behavior {
    BO_SPLIT_REMOVED,
    BO_SPLIT_ISOLATED,
    BO_SPLIT_MERGED_WITH_PREVIOUS,
    BO_SPLIT_MERGED_WITH_NEXT,
    BO_SPLIT_CONTIGUOUS
} bo_behavior;

typedef enum bo_prefixing { BO_PREFIX_NEVER, BO_PREFIX_FIRST, BO_PREFIX_ALWAYS } bo_prefixing;

/* First the blanks are replaced and the prefix is added to a text that does not begin with it; then the text is
 * split. */
typedef struct bo_splitter {
    char blank[8];  /* "": blanks are kept */
    char prefix[8]; /* a blank, or the replacement of blanks */
    bo_prefixing prefixing;
    bo_pattern pattern; /* text NULL: no splitting */
    bo_behavior behavior;
    bool invert; /* the text between matches counts as matched */
} bo_splitter;

/* ---- tokens that are found in the text first --------------------------------------------------------------------- */

typedef struct bo_added {
    int32_t id;
    bool special, left, right; /* left, right: includes the white space on that side */
} bo_added;

/* Pairs of characters that some merge joins: the last one of its left side and the first one of its right side
 * (cut_points.h). Open addressing, at most half full; 0 is an empty slot. slots NULL: unknown. */
typedef struct bo_joints {
    uint64_t *slots;
    size_t mask;
} bo_joints;

/* ---- the tokenizer ----------------------------------------------------------------------------------------------- */

struct bo_tokenizer {
    bool bytes;   /* every byte is a token; then only vocab, end and fingerprint are used */
    size_t vocab; /* ids are below it; an id without a token has an empty text */
    int32_t end;
    uint64_t fingerprint;
    char *source; /* the tokenizer.json that is saved */
    size_t source_bytes;

    bo_spellings texts;  /* by id, as spelled in the vocabulary */
    bo_spellings pieces; /* by id, as they appear in running text */
    bo_lookup by_text;
    size_t longest; /* bytes of the longest text */

    bo_added *added; /* sorted by the first byte of their texts, longest first */
    size_t added_count;
    size_t added_from[257]; /* those that begin with byte b are added_from[b] to added_from[b + 1] */

    bo_text_normalizer normalizers[BO_MOST_STEPS];
    size_t normalizer_count;
    bo_splitter splitters[BO_MOST_STEPS];
    size_t splitter_count;

    bo_merges merges;
    bo_joints joints;
    bool byte_level; /* symbols are bytes, spelled as letters; otherwise characters */
    bool byte_fallback, fuse_unknown, ignore_merges;
    int32_t unknown;       /* -1: unknown characters cannot be encoded */
    int32_t byte_ids[256]; /* the symbol of a byte: its letter, or <0x0A> with byte fallback; -1: none */
    int32_t ascii_ids[128];

    char *stripped; /* removed from the start and end of decoded text, at most the given number of times */
    size_t strip_start, strip_stop;
    int32_t *frame; /* special tokens before and after a text, on request */
    size_t frame_before, frame_after;
};

/* Reads tokenizer.json from memory. where: prefix of messages. */
bo_status bo_tokenizer_parse(bo_context *context, const char *where, const char *text, size_t length,
                             bo_tokenizer **out);

/* True if a text may be encoded in parts that end where a blank follows a non-blank ASCII character: no word spans that
 * position. */
bool bo_tokenizer_cuttable(const bo_tokenizer *tokenizer);

/* Removes `content` from the start of the text at most `start` times, and from its end at most `stop` times. */
void bo_strip_ends(const char *content, size_t start, size_t stop, const char **text, size_t *length);

/* Makes space for `more` ids. */
bo_status bo_ids_reserve(bo_context *context, bo_ids *ids, size_t more);

#endif
