/* A tokenizer's inside: what a tokenizer.json says, made ready. */
#ifndef BO_TEXT_TOKENIZER_H
#define BO_TEXT_TOKENIZER_H

#include "pattern.h"
#include "vocabulary.h"

#include <bochner/text.h>

enum { BO_MOST_STEPS = 16 };

/* ---- before the text is split ------------------------------------------------------------------------------------- */

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

/* ---- splitting into the words that are merged within -------------------------------------------------------------- */

/* What becomes of the matches, as Hugging Face names it. */
typedef enum bo_behavior {
    BO_SPLIT_REMOVED,
    BO_SPLIT_ISOLATED,
    BO_SPLIT_MERGED_WITH_PREVIOUS,
    BO_SPLIT_MERGED_WITH_NEXT,
    BO_SPLIT_CONTIGUOUS
} bo_behavior;

typedef enum bo_prefixing { BO_PREFIX_NEVER, BO_PREFIX_FIRST, BO_PREFIX_ALWAYS } bo_prefixing;

/* First the blanks are replaced and the prefix is put before a text that does not begin with it, then it is split. */
typedef struct bo_splitter {
    char blank[8];  /* "": blanks stay */
    char prefix[8]; /* a blank, or what blanks became */
    bo_prefixing prefixing;
    bo_pattern pattern; /* text NULL: nothing is split */
    bo_behavior behavior;
    bool invert; /* the text between matches is what counts as matched */
} bo_splitter;

/* ---- tokens that are found in the text before all else ------------------------------------------------------------ */

typedef struct bo_added {
    int32_t id;
    bool special, left, right; /* left, right: takes the white space there with it */
} bo_added;

/* Pairs of characters that some merge joins: the last one of its left side, the first one of its right side (cut_points.h). Open
 * addressing, at most half full; 0 is an empty place. slots NULL: unknown. */
typedef struct bo_joints {
    uint64_t *slots;
    size_t mask;
} bo_joints;

/* ---- the tokenizer ------------------------------------------------------------------------------------------------ */

struct bo_tokenizer {
    bool bytes;   /* every byte is a token; of the rest only vocab, end and fingerprint are used then */
    size_t vocab; /* ids are below it; one without a token has an empty text */
    int32_t end;
    uint64_t fingerprint;
    char *source; /* the tokenizer.json, as it will be saved */
    size_t source_bytes;

    bo_spellings texts;  /* by id, as the vocabulary spells them */
    bo_spellings pieces; /* by id, as they stand in running text */
    bo_lookup by_text;
    size_t longest; /* bytes of the longest text */

    bo_added *added; /* by the first byte of their texts, the longest first */
    size_t added_count;
    size_t added_from[257]; /* those that begin with byte b are added_from[b] to added_from[b + 1] */

    bo_text_normalizer normalizers[BO_MOST_STEPS];
    size_t normalizer_count;
    bo_splitter splitters[BO_MOST_STEPS];
    size_t splitter_count;

    bo_merges merges;
    bo_joints joints;
    bool byte_level; /* symbols are bytes, spelled as letters; else they are characters */
    bool byte_fallback, fuse_unknown, ignore_merges;
    int32_t unknown;       /* -1: what is unknown cannot be encoded */
    int32_t byte_ids[256]; /* the symbol of a byte: its letter, or <0x0A> when falling back; -1: none */
    int32_t ascii_ids[128];

    char *stripped; /* taken off decoded text, as often as stated, at its start and end */
    size_t strip_start, strip_stop;
    int32_t *frame; /* special tokens before and after a text, on request */
    size_t frame_before, frame_after;
};

/* Reads tokenizer.json from memory. where: begins the messages. */
bo_status bo_tokenizer_parse(bo_context *context, const char *where, const char *text, size_t length,
                             bo_tokenizer **out);

/* A text may be encoded in parts that end where a blank follows a sign of ASCII that is none: no word spans that place. */
bool bo_tokenizer_cuttable(const bo_tokenizer *tokenizer);

/* Takes `content` off the start of the text, at most `start` times, and off its end. */
void bo_strip_ends(const char *content, size_t start, size_t stop, const char **text, size_t *length);

/* Room for `more` ids behind those that are there. */
bo_status bo_ids_reserve(bo_context *context, bo_ids *ids, size_t more);

#endif
