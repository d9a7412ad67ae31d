/* The internal representation of a tokenizer: the content of tokenizer.json, prepared for use. */
#ifndef BO_TEXT_TOKENIZER_H
#define BO_TEXT_TOKENIZER_H

#include "charsmap.h"
#include "pattern.h"
#include "trie.h"
#include "unicode_tables.h"
#include "vocabulary.h"

#include <bochner/text.h>

enum { BO_MAX_STEPS = 32 };

/* ---- normalization ----------------------------------------------------------------------------------------------- */

typedef enum bo_text_normalizer_kind {
    BO_NORMALIZE_PREPEND,
    BO_NORMALIZE_REPLACE,
    BO_NORMALIZE_FORM,
    BO_NORMALIZE_STRIP,
    BO_NORMALIZE_LOWERCASE,
    BO_NORMALIZE_WITHOUT, /* removes a set of characters */
    BO_NORMALIZE_NMT,
    BO_NORMALIZE_BYTE_LEVEL, /* bytes become byte-level symbols */
    BO_NORMALIZE_CLEAN,
    BO_NORMALIZE_IDEOGRAPHS, /* spaces around ideographs */
    BO_NORMALIZE_CHARSMAP
} bo_text_normalizer_kind;

typedef struct bo_text_normalizer {
    bo_text_normalizer_kind kind;
    bo_pattern pattern;   /* REPLACE */
    char *content;        /* PREPEND, REPLACE */
    int form;             /* FORM: options of utf8proc */
    bool left, right;     /* STRIP */
    bo_char_set set;      /* WITHOUT */
    bo_charsmap charsmap; /* CHARSMAP */
} bo_text_normalizer;

/* ---- splitting into words ---------------------------------------------------------------------------------------- */

/* The treatment of matches, with Hugging Face names. */
typedef enum bo_behavior {
    BO_SPLIT_REMOVED,
    BO_SPLIT_ISOLATED,
    BO_SPLIT_MERGED_WITH_PREVIOUS,
    BO_SPLIT_MERGED_WITH_NEXT,
    BO_SPLIT_CONTIGUOUS
} bo_behavior;

typedef enum bo_prefixing { BO_PREFIX_NEVER, BO_PREFIX_FIRST, BO_PREFIX_ALWAYS } bo_prefixing;

typedef enum bo_cut {
    BO_CUT_NOT,
    BO_CUT_PATTERN,
    BO_CUT_SPACES,      /* each white-space character is a match */
    BO_CUT_NUMERIC,     /* each digit */
    BO_CUT_PUNCTUATION, /* each punctuation character */
    BO_CUT_LENGTH       /* every `chars` characters */
} bo_cut;

/* First the spaces are replaced and the prefix is added to a text that does not begin with it; then the text is split;
 * then the bytes of the parts become byte-level symbols. */
typedef struct bo_splitter {
    char replacement[8]; /* "": spaces are kept */
    char prefix[8];      /* a space, or the replacement of spaces */
    bo_prefixing prefixing;
    bo_cut cut;
    bo_pattern pattern;
    bo_behavior behavior;
    bool invert;     /* the text between matches counts as matched */
    bool byte_level; /* the bytes of the parts become byte-level symbols for the next steps */
    size_t chars;
} bo_splitter;

/* ---- tokens that are found in the text first --------------------------------------------------------------------- */

typedef struct bo_added {
    int32_t id;
    bool special, left, right; /* left, right: includes the white space on that side */
    bool word;                 /* only between characters that are not part of words */
    bool normalized;           /* found in the normalized text */
} bo_added;

/* Pairs of characters that some merge joins: the last one of its left side and the first one of its right side
 * (cut_points.h). Open addressing, at most half full; 0 is an empty slot. slots NULL: unknown. */
typedef struct bo_joints {
    uint64_t *slots;
    size_t mask;
} bo_joints;

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

typedef enum bo_decoder_kind {
    BO_DECODE_BYTE_LEVEL, /* byte-level symbols become bytes, and all tokens are joined */
    BO_DECODE_REPLACE,    /* matches of `pattern` become `to` */
    BO_DECODE_BYTES,      /* <0x0A> becomes a byte */
    BO_DECODE_STRIP,      /* removes `from` at most `start` times from the start and `stop` times from the end */
    BO_DECODE_FUSE,       /* all tokens are joined */
    BO_DECODE_METASPACE,  /* `from` becomes a space, but with `flag` not in the first token */
    BO_DECODE_WORDPIECE,  /* a space before tokens that do not start with `from`; `flag`: without spaces before signs */
    BO_DECODE_SUFFIX      /* `from` becomes a space, but not in the last token */
} bo_decoder_kind;

typedef struct bo_decoder {
    bo_decoder_kind kind;
    bo_pattern pattern;
    char *from, *to;
    size_t start, stop;
    bool flag;
} bo_decoder;

/* ---- the tokenizer ----------------------------------------------------------------------------------------------- */

typedef enum bo_token_model { BO_MODEL_BPE, BO_MODEL_UNIGRAM, BO_MODEL_WORDPIECE, BO_MODEL_WORDS } bo_token_model;

struct bo_tokenizer {
    bo_tokenizer_info info; /* bytes: nothing else is used; ids below `vocab` without a token have an empty text */
    char *source;           /* the tokenizer.json for saving */
    size_t source_bytes;

    bo_spellings texts;  /* by id, as spelled in the vocabulary */
    bo_spellings pieces; /* by id, as they appear in running text */
    bo_lookup by_text;
    bool *in_model;    /* by id: whether the model has the token, which may also be an added one */
    int32_t *added_of; /* by id: the number of the added token; -1: none */
    size_t longest;    /* bytes of the longest text */

    bo_added *added; /* in the order of the file */
    size_t added_count;
    bo_trie finders[2];    /* added tokens by the text to find: in the input, and in the normalized text */
    bool normal_specials;  /* some special token is found in the normalized text */
    bo_spellings patterns; /* those texts, by number of the added token */
    bo_pattern word;       /* a character of a word, if some added token needs it */

    bo_text_normalizer normalizers[BO_MAX_STEPS];
    size_t normalizer_count;
    bo_splitter splitters[BO_MAX_STEPS];
    size_t splitter_count;
    bool leads; /* some splitter adds a prefix to the first word only */

    bo_token_model model;
    bo_merges merges;
    bo_joints joints;
    bool byte_level; /* the last splitter converts bytes to byte-level symbols, and symbols are looked up by byte */
    bool byte_fallback, fuse_unknown, ignore_merges;
    char *word_prefix, *word_suffix; /* of symbols that do not start a word, and of symbols that end one; NULL: none */
    int32_t unknown;                 /* -1: unknown characters cannot be encoded */
    int32_t byte_ids[256]; /* the symbol of a byte: its byte-level symbol, or <0x0A> with byte fallback; -1: none */
    int32_t ascii_ids[128];
    bo_trie scored; /* Unigram: the ids by text */
    double *scores; /* Unigram: log-probabilities by id */
    double unknown_score;
    size_t max_chars; /* WordPiece: longer words are unknown */

    bool decodes; /* false: the texts of tokens are separated by spaces */
    bo_decoder decoders[BO_MAX_STEPS];
    size_t decoder_count;
    int32_t *frame; /* special tokens before and after a text, on request */
    size_t frame_before, frame_after;
};

/* The id of a token of the model; -1: none. */
static inline int32_t bo_tokenizer_symbol(const bo_tokenizer *tokenizer, const char *text, size_t length)
{
    const int32_t id = bo_lookup_find(&tokenizer->by_text, &tokenizer->texts, text, length);
    return id >= 0 && tokenizer->in_model[id] ? id : -1;
}

/* Reads tokenizer.json from memory. where: prefix of messages. */
bo_status bo_tokenizer_parse(bo_context *context, const char *where, const char *text, size_t length,
                             bo_tokenizer **out);

/* True if a text may be encoded in parts that end where a space follows a non-space ASCII character: no word spans that
 * position. */
bool bo_tokenizer_cuttable(const bo_tokenizer *tokenizer);

/* True for the special tokens around a document: the end token and the tokens of the template. */
bool bo_tokenizer_frames(const bo_tokenizer *tokenizer, int32_t id);

/* Reserves `more` ids. */
bo_status bo_ids_reserve(bo_context *context, bo_ids *ids, size_t more);

#endif
