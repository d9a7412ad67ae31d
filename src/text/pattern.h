/* A search pattern of a tokenizer: a regular expression (PCRE2, Unicode) or a fixed string. */
#ifndef BO_TEXT_PATTERN_H
#define BO_TEXT_PATTERN_H

#include "../base/base.h"

typedef struct bo_pattern {
    void *code; /* compiled by PCRE2; NULL: a string */
    char *text; /* original text */
    size_t length;
} bo_pattern;

extern const char *const bo_gpt2_pattern;

/* where: prefix of the error message. */
bo_status bo_pattern_compile(bo_context *context, const char *where, const char *expression, bo_pattern *out);
bo_status bo_pattern_string(bo_context *context, const char *text, bo_pattern *out);
void bo_pattern_free(bo_pattern *pattern);

/* Work memory for matching; one per thread. */
typedef struct bo_matcher {
    void *data, *limits, *stack;
} bo_matcher;

bo_status bo_matcher_create(bo_context *context, bo_matcher *out);
void bo_matcher_free(bo_matcher *matcher);

/* The first nonempty match at or after `from` in valid UTF-8: *begin < *end, or both equal `length` if there is none.
 * BO_INVALID: the match exceeded the backtracking limit. */
bo_status bo_pattern_find(bo_context *context, const bo_pattern *pattern, bo_matcher *matcher, const char *text,
                          size_t length, size_t from, size_t *begin, size_t *end);

#endif
