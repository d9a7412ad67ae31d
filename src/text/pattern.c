/* Regular expressions by PCRE2, and fixed strings. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "pattern.h"
#include "expression.h"
#include "unicode.h"

#include <pcre2.h>
#include <string.h>

/* Contractions, words, numbers and other symbols, each with one preceding space; then white space except the space that
 * belongs to the next word. */
const char *const bo_gpt2_pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

enum {
    MAX_EXPRESSION = 1 << 16,
    MAX_STEPS = 200000, /* backtracking limit per match; longer texts have a higher limit: */
    STEPS_PER_BYTE = 64,
    MAX_HEAP = 1 << 16, /* KiB, without a JIT compiler for this CPU */
    STACK_FIRST = 1 << 15,
    STACK_MAX = 1 << 20
};

/* Line anchors match at every line, and lines end with a line feed, as in Oniguruma. */
static pcre2_code *compile_lines(const char *expression, int *error, PCRE2_SIZE *at)
{
    pcre2_compile_context *settings = pcre2_compile_context_create(NULL);
    if (!settings) return NULL;
    pcre2_set_newline(settings, PCRE2_NEWLINE_LF);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, error, at, settings);
    pcre2_compile_context_free(settings);
    return code;
}

static bo_status compile(bo_context *context, const char *where, const char *expression, pcre2_code **out)
{
    int error = 0;
    PCRE2_SIZE at = 0;
    bo_buffer translated = {0};
    const size_t length = strlen(expression);
    if (length > MAX_EXPRESSION)
        return bo_fail(context, BO_INVALID, "%s: the regular expression has %zu bytes; expected at most %d", where,
                       length, MAX_EXPRESSION);
    const bo_status status = bo_expression_translate(context, where, expression, &translated);
    if (status == BO_OK) *out = compile_lines(translated.bytes, &error, &at);
    bo_buffer_free(&translated);
    BO_TRY(status);
    if (!*out) {
        PCRE2_UCHAR message[160] = "";
        pcre2_get_error_message(error, message, sizeof message);
        return bo_fail(context, BO_INVALID, "%s: the regular expression %.200s is invalid: %s", where, expression,
                       (const char *)message);
    }
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without JIT matching is slower but gives the same result */
    return BO_OK;
}

bo_status bo_pattern_string(bo_context *context, const char *text, size_t length, bo_pattern *out)
{
    *out = (bo_pattern){.text = bo_alloc_raw(context, length + 1, 1, "a pattern"), .length = length};
    if (!out->text) return BO_MEMORY;
    memcpy(out->text, text, length);
    out->text[length] = 0;
    return BO_OK;
}

bo_status bo_pattern_compile(bo_context *context, const char *where, const char *expression, bo_pattern *out)
{
    BO_TRY(bo_pattern_string(context, expression, strlen(expression), out));
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
    pcre2_jit_stack *stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MAX, NULL);
    *out = (bo_matcher){pcre2_match_data_create(1, NULL), limits, stack};
    if (!out->data || !limits) {
        bo_matcher_free(out);
        return bo_fail(context, BO_MEMORY, "out of memory for matching a regular expression");
    }
    pcre2_set_heap_limit(limits, MAX_HEAP);
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

/* Like bo_pattern_find, with options of PCRE2. *found: whether there is a match. */
static bo_status match(bo_context *context, const bo_pattern *pattern, bo_matcher *matcher, const char *text,
                       size_t length, size_t from, uint32_t options, size_t *begin, size_t *end, bool *found)
{
    *begin = *end = length;
    const size_t steps = length < UINT32_MAX / STEPS_PER_BYTE ? STEPS_PER_BYTE * length : UINT32_MAX;
    pcre2_set_match_limit(matcher->limits, steps > MAX_STEPS ? (uint32_t)steps : MAX_STEPS);
    const int status = pcre2_match(pattern->code, (PCRE2_SPTR)text, length, from, options | PCRE2_NO_UTF_CHECK,
                                   matcher->data, matcher->limits);
    *found = status >= 0;
    if (status == PCRE2_ERROR_NOMATCH) return BO_OK;
    if (status < 0)
        return bo_fail(context, BO_INVALID, "the regular expression %.200s exceeds the backtracking limit on this text",
                       pattern->text);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(matcher->data);
    if (span[0] > span[1] || span[0] < from) /* \K can cause this */
        return bo_fail(context, BO_INVALID, "the regular expression %.200s matches backwards", pattern->text);
    *begin = span[0];
    *end = span[1];
    return BO_OK;
}

bo_status bo_pattern_find(bo_context *context, const bo_pattern *pattern, bo_matcher *matcher, const char *text,
                          size_t length, size_t from, size_t *begin, size_t *end)
{
    bool found;
    if (pattern->code) return match(context, pattern, matcher, text, length, from, PCRE2_NOTEMPTY, begin, end, &found);
    const char *match_at = pattern->length ? memmem(text + from, length - from, pattern->text, pattern->length) : NULL;
    *begin = match_at ? (size_t)(match_at - text) : length;
    *end = match_at ? *begin + pattern->length : length;
    return BO_OK;
}

/* ---- scanning ---------------------------------------------------------------------------------------------------- */

bo_status bo_scan_begin(bo_context *context, const bo_pattern *pattern, bo_matcher *matcher, const char *text,
                        size_t length, bo_buffer *copy, bo_scan *out)
{
    *out = (bo_scan){.pattern = pattern, .matcher = matcher, .text = text, .length = length, .last = SIZE_MAX};
    if (!pattern->code || bo_utf8_stand_in(text, length, NULL) == length) return BO_OK;
    copy->length = 0;
    BO_TRY(bo_buffer_append(context, copy, text, length));
    bo_utf8_stand_in(copy->bytes, length, copy->bytes);
    out->text = copy->bytes;
    return BO_OK;
}

static bo_status find_next(bo_context *context, bo_scan *scan, size_t *begin, size_t *end, bool *found)
{
    const bo_pattern *pattern = scan->pattern;
    if (pattern->code)
        return match(context, pattern, scan->matcher, scan->text, scan->length, scan->from, 0, begin, end, found);
    const char *match_at = memmem(scan->text + scan->from, scan->length - scan->from, pattern->text, pattern->length);
    *found = match_at != NULL;
    *begin = match_at ? (size_t)(match_at - scan->text) : scan->length;
    *end = match_at ? *begin + pattern->length : scan->length;
    return BO_OK;
}

bo_status bo_scan_next(bo_context *context, bo_scan *scan, size_t *begin, size_t *end, bool *found)
{
    *begin = *end = scan->length;
    *found = false;
    while (scan->from <= scan->length) {
        BO_TRY(find_next(context, scan, begin, end, found));
        if (!*found) break;
        if (*begin < *end || *end != scan->last) {
            scan->from = scan->last = *end;
            return BO_OK;
        }
        const size_t rest = scan->length - scan->from; /* an empty match at the end of the previous one */
        scan->from += rest ? bo_utf8_length(scan->text + scan->from, rest) : 1;
    }
    *begin = *end = scan->length;
    *found = false;
    scan->from = scan->length + 1;
    return BO_OK;
}

/* ---- replacing --------------------------------------------------------------------------------------------------- */

static bo_status append_within(bo_context *context, const bo_replacement *replacement, bo_buffer *to, const char *text,
                               size_t length)
{
    if (to->length + length > replacement->max_bytes)
        return bo_fail(context, BO_UNSUPPORTED, "replacing \"%.80s\" produces a text of more than %zu bytes",
                       replacement->pattern->text, replacement->max_bytes);
    return bo_buffer_append(context, to, text, length);
}

/* Replaces the matches in valid text that begins at `offset` of the whole text. The source of a replacement is the last
 * character of the match. */
static bo_status replace_valid(bo_context *context, const bo_replacement *replacement, const char *text, size_t length,
                               size_t offset, size_t lead, bo_buffer *to, size_t *new_lead)
{
    bo_scan scan;
    const size_t content = strlen(replacement->content);
    BO_TRY(bo_scan_begin(context, replacement->pattern, replacement->matcher, text, length, replacement->copy, &scan));
    for (size_t at = 0, begin, end; at <= length; at = end) {
        bool found;
        BO_TRY(bo_scan_next(context, &scan, &begin, &end, &found));
        BO_TRY(append_within(context, replacement, to, text + at, begin - at));
        if (offset + at < lead) *new_lead += (offset + begin < lead ? begin : lead - offset) - at;
        if (!found) break;
        BO_TRY(append_within(context, replacement, to, replacement->content, content));
        if (offset + end <= lead) *new_lead += content;
    }
    return BO_OK;
}

bo_status bo_pattern_replace(bo_context *context, const bo_replacement *replacement, const char *text, size_t length,
                             bo_buffer *to, size_t *lead)
{
    const size_t old_lead = lead ? *lead : 0;
    size_t new_lead = 0;
    for (size_t at = 0; at < length;) {
        const size_t valid = bo_utf8_valid(text + at, length - at);
        if (valid > 0) BO_TRY(replace_valid(context, replacement, text + at, valid, at, old_lead, to, &new_lead));
        at += valid;
        const size_t invalid = bo_utf8_invalid(text + at, length - at);
        BO_TRY(append_within(context, replacement, to, text + at, invalid));
        at += invalid;
    }
    if (lead) *lead = new_lead;
    return BO_OK;
}
