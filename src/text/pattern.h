/* A search pattern of a tokenizer: a regular expression (Oniguruma syntax, matched by PCRE2) or a fixed string. */
#ifndef BO_TEXT_PATTERN_H
#define BO_TEXT_PATTERN_H

#include "buffer.h"

typedef struct bo_pattern {
    void *code; /* compiled by PCRE2; NULL: a string */
    char *text; /* original text */
    size_t length;
} bo_pattern;

extern const char *const bo_gpt2_pattern;

/* where: prefix of the error message. */
bo_status bo_pattern_compile(bo_context *context, const char *where, const char *expression, bo_pattern *out);
bo_status bo_pattern_string(bo_context *context, const char *text, size_t length, bo_pattern *out);
void bo_pattern_free(bo_pattern *pattern);

/* Workspace for matching; one per thread. */
typedef struct bo_matcher {
    void *data, *limits, *stack;
} bo_matcher;

bo_status bo_matcher_create(bo_context *context, bo_matcher *out);
void bo_matcher_free(bo_matcher *matcher);

/* The first nonempty match at or after `from` in valid UTF-8: *begin < *end, or both equal `length` if there is none.
 * BO_INVALID: the match exceeded the backtracking limit. */
bo_status bo_pattern_find(bo_context *context, const bo_pattern *pattern, bo_matcher *matcher, const char *text,
                          size_t length, size_t from, size_t *begin, size_t *end);

/* All matches in a text of valid UTF-8, one after the other. Matches may be empty, but not at the end of the previous
 * match. */
typedef struct bo_scan {
    const bo_pattern *pattern;
    bo_matcher *matcher;
    const char *text; /* with stand-ins (unicode_tables.h), of the same length */
    size_t length, from, last;
} bo_scan;

/* copy: holds the text with stand-ins during the scan, if it needs any. */
bo_status bo_scan_begin(bo_context *context, const bo_pattern *pattern, bo_matcher *matcher, const char *text,
                        size_t length, bo_buffer *copy, bo_scan *out);
/* *found is false after the last match; then *begin and *end are the length of the text. */
bo_status bo_scan_next(bo_context *context, bo_scan *scan, size_t *begin, size_t *end, bool *found);

/* Appends the text with all matches replaced; bytes that are not UTF-8 are copied. `lead` is the number of bytes at the
 * start of the text that come from the first character of the input, before and after (or NULL). BO_UNSUPPORTED: `to`
 * would have more than `max_bytes` bytes. */
typedef struct bo_replacement {
    const bo_pattern *pattern;
    const char *content;
    bo_matcher *matcher;
    bo_buffer *copy; /* work memory */
    size_t max_bytes;
} bo_replacement;

bo_status bo_pattern_replace(bo_context *context, const bo_replacement *replacement, const char *text, size_t length,
                             bo_buffer *to, size_t *lead);

#endif
