/* Regular expressions by PCRE2, and fixed strings. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "pattern.h"

#include <pcre2.h>
#include <string.h>

/* Contractions, words, numbers and other symbols, each with one preceding blank; then white space except the blank that
 * belongs to the next word. */
const char *const bo_gpt2_pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

enum {
    MOST_EXPRESSION = 1 << 16,
    MOST_STEPS = 200000, /* backtracking limit per match */
    MOST_HEAP = 1 << 16, /* KiB, without a JIT compiler for this CPU */
    STACK_FIRST = 1 << 15,
    STACK_MOST = 1 << 20
};

static bo_status compile(bo_context *context, const char *where, const char *expression, pcre2_code **out)
{
    int error = 0;
    PCRE2_SIZE at = 0;
    size_t length = strlen(expression);
    if (length > MOST_EXPRESSION)
        return bo_fail(context, BO_INVALID, "%s: the regular expression has %zu bytes; expected at most %d", where,
                       length, MOST_EXPRESSION);
    if (strstr(expression, "&&")) /* intersection of classes in other dialects, two characters in PCRE2 */
        return bo_fail(context, BO_UNSUPPORTED, "%s: \"&&\" in a regular expression is not supported: %.200s", where,
                       expression);
    *out = pcre2_compile((PCRE2_SPTR)expression, length, PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at,
                         NULL);
    if (!*out) {
        PCRE2_UCHAR words[160] = "";
        pcre2_get_error_message(error, words, sizeof words);
        return bo_fail(context, BO_INVALID, "%s: the regular expression %.200s is invalid at byte %zu: %s", where,
                       expression, (size_t)at, (const char *)words);
    }
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without JIT matching is slower but gives the same result */
    return BO_OK;
}

bo_status bo_pattern_string(bo_context *context, const char *text, bo_pattern *out)
{
    *out = (bo_pattern){.text = bo_strdup(context, text), .length = strlen(text)};
    return out->text ? BO_OK : BO_MEMORY;
}

bo_status bo_pattern_compile(bo_context *context, const char *where, const char *expression, bo_pattern *out)
{
    BO_TRY(bo_pattern_string(context, expression, out));
    pcre2_code *code = NULL;
    bo_status status = compile(context, where, expression, &code);
    out->code = code;
    if (status != BO_OK) bo_pattern_free(out);
    return status;
}

void bo_pattern_free(bo_pattern *pattern)
{
    pcre2_code_free(pattern->code);
    bo_free(pattern->text);
    *pattern = (bo_pattern){0};
}

/* ---- matching ---------------------------------------------------------------------------------------------------- */

bo_status bo_matcher_create(bo_context *context, bo_matcher *out)
{
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    pcre2_jit_stack *stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MOST, NULL);
    *out = (bo_matcher){pcre2_match_data_create(1, NULL), limits, stack};
    if (!out->data || !limits) {
        bo_matcher_free(out);
        return bo_fail(context, BO_MEMORY, "out of memory for matching a regular expression");
    }
    pcre2_set_match_limit(limits, MOST_STEPS);
    pcre2_set_heap_limit(limits, MOST_HEAP);
    if (stack) pcre2_jit_stack_assign(limits, NULL, stack);
    return BO_OK;
}

void bo_matcher_free(bo_matcher *matcher)
{
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->limits);
    pcre2_jit_stack_free(matcher->stack);
    *matcher = (bo_matcher){0};
}

bo_status bo_pattern_find(bo_context *context, const bo_pattern *pattern, bo_matcher *matcher, const char *text,
                          size_t length, size_t from, size_t *begin, size_t *end)
{
    *begin = *end = length;
    if (!pattern->code) {
        const char *found = pattern->length ? memmem(text + from, length - from, pattern->text, pattern->length) : NULL;
        if (found) *end = (*begin = (size_t)(found - text)) + pattern->length;
        return BO_OK;
    }
    int found = pcre2_match(pattern->code, (PCRE2_SPTR)text, length, from, PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK,
                            matcher->data, matcher->limits);
    if (found == PCRE2_ERROR_NOMATCH) return BO_OK;
    if (found < 0)
        return bo_fail(context, BO_INVALID, "the regular expression %.200s exceeds the backtracking limit on this text",
                       pattern->text);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(matcher->data);
    if (span[0] >= span[1] || span[0] < from) /* \K can cause this */
        return bo_fail(context, BO_INVALID, "the regular expression %.200s matches backwards", pattern->text);
    *begin = span[0];
    *end = span[1];
    return BO_OK;
}
