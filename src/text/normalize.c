#include "encoder.h"
#include "unicode.h"

#include <stdlib.h>
#include <utf8proc.h>

/* Compositions and decompositions, of the stretches that are valid. */
static bo_status change_form(bo_context *context, int form, const char *text, size_t length, bo_buffer *to)
{
    for (size_t at = 0; at < length;) {
        size_t valid = bo_utf8_valid(text + at, length - at);
        if (valid > 0) {
            utf8proc_uint8_t *changed = NULL;
            utf8proc_ssize_t bytes = utf8proc_map((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)valid,
                                                  &changed, (utf8proc_option_t)form);
            bo_status status = bytes < 0 ? bo_fail(context, BO_MEMORY, "normalizing %zu bytes of text: %s", valid,
                                                   utf8proc_errmsg(bytes))
                                         : bo_buffer_append(context, to, (const char *)changed, (size_t)bytes);
            free(changed);
            BO_TRY(status);
            at += valid;
        }
        size_t invalid = bo_utf8_invalid(text + at, length - at);
        BO_TRY(bo_buffer_append(context, to, text + at, invalid));
        at += invalid;
    }
    return BO_OK;
}

static bo_status lower(bo_context *context, const char *text, size_t length, bo_buffer *to)
{
    for (size_t at = 0; at < length;) {
        utf8proc_int32_t point;
        utf8proc_uint8_t changed[4];
        size_t bytes = bo_utf8_character(text + at, length - at);
        if (bytes == 0) {
            BO_TRY(bo_buffer_append(context, to, text + at++, 1));
            continue;
        }
        utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)bytes, &point);
        utf8proc_ssize_t written = utf8proc_encode_char(utf8proc_tolower(point), changed);
        BO_TRY(bo_buffer_append(context, to, (const char *)changed, (size_t)written));
        at += bytes;
    }
    return BO_OK;
}

/* A regular expression wants valid text: each valid stretch is a text of its own. */
static bo_status replace(bo_encoder *encoder, const bo_text_normalizer *step, const char *text, size_t length,
                         bo_buffer *to)
{
    bo_context *context = encoder->context;
    const size_t content = strlen(step->content);
    for (size_t at = 0; at < length;) {
        size_t stretch = step->pattern.code ? bo_utf8_valid(text + at, length - at) : length, done = 0;
        while (done < stretch) {
            size_t begin, end;
            BO_TRY(bo_pattern_find(context, &step->pattern, &encoder->matcher, text + at, stretch, done, &begin, &end));
            BO_TRY(bo_buffer_append(context, to, text + at + done, begin - done));
            if (begin < end) BO_TRY(bo_buffer_append(context, to, step->content, content));
            done = end;
        }
        at += stretch;
        size_t invalid = bo_utf8_invalid(text + at, length - at);
        BO_TRY(bo_buffer_append(context, to, text + at, invalid));
        at += invalid;
    }
    return BO_OK;
}

static bo_status strip(bo_context *context, const bo_text_normalizer *step, const char *text, size_t length,
                       bo_buffer *to)
{
    size_t begin = 0, end = 0, bytes;
    while (step->left && bo_utf8_space(text + begin, length - begin, &bytes)) begin += bytes;
    for (size_t at = begin; at < length; at += bytes ? bytes : 1) /* end: behind the last that is no white space */
        if (!bo_utf8_space(text + at, length - at, &bytes) || !step->right) end = at + (bytes ? bytes : 1);
    if (end < begin) end = begin;
    return bo_buffer_append(context, to, text + begin, end - begin);
}

static bo_status apply(bo_encoder *encoder, const bo_text_normalizer *step, const char *text, size_t length,
                       bo_buffer *to)
{
    bo_context *context = encoder->context;
    switch (step->kind) {
    case BO_NORMALIZE_PREPEND:
        if (length > 0) BO_TRY(bo_buffer_append(context, to, step->content, strlen(step->content)));
        return bo_buffer_append(context, to, text, length);
    case BO_NORMALIZE_REPLACE:
        return replace(encoder, step, text, length, to);
    case BO_NORMALIZE_FORM:
        return change_form(context, step->form, text, length, to);
    case BO_NORMALIZE_LOWERCASE:
        return lower(context, text, length, to);
    case BO_NORMALIZE_STRIP:
        return strip(context, step, text, length, to);
    }
    return BO_OK;
}

bo_status bo_text_normalize(bo_encoder *encoder, const char *text, size_t length, const char **out, size_t *out_length)
{
    *out = text;
    *out_length = length;
    for (size_t i = 0; i < encoder->tokenizer->normalizer_count; ++i) {
        bo_buffer *to = &encoder->normal[i % 2];
        to->length = 0;
        BO_TRY(apply(encoder, &encoder->tokenizer->normalizers[i], *out, *out_length, to));
        *out = to->length ? to->bytes : "";
        *out_length = to->length;
    }
    return BO_OK;
}
