/* Text to words: the pre-tokenizers of a tokenizer, one after the other. */
#include "encoder.h"
#include "unicode.h"

#include <bochner/base.h>
#include <string.h>

/* ---- parts of a text --------------------------------------------------------------------------------------------- */

/* The state of a text in one splitter; [begin, end) is a part that may still grow. */
typedef struct bo_cutting {
    bo_encoder *encoder;
    size_t step;
    const char *text;
    size_t lead;
    size_t begin, end;
    bool waiting; /* there is such a part */
    bool matched; /* it is a match */
} bo_cutting;

/* The bytes of a part as byte-level symbols, for the next steps. */
static bo_status write_byte_level(bo_encoder *encoder, size_t step, const char **text, size_t *length, size_t *lead)
{
    bo_buffer *to = &encoder->byte_level[step];
    const size_t old_lead = *lead;
    to->length = 0;
    BO_TRY(bo_buffer_reserve(encoder->context, to, *length * BO_BYTE_LEVEL_SIZE));
    for (size_t i = 0; i < *length; ++i) {
        if (i == old_lead) *lead = to->length;
        to->length += bo_byte_level_write((unsigned char)(*text)[i], to->bytes + to->length);
    }
    if (old_lead >= *length) *lead = to->length;
    *text = to->bytes;
    *length = to->length;
    return BO_OK;
}

static bo_status pass_on(bo_cutting *cutting, size_t begin, size_t end)
{
    if (begin == end) return BO_OK;
    const char *text = cutting->text + begin;
    size_t length = end - begin, lead = begin < cutting->lead ? cutting->lead - begin : 0;
    if (cutting->encoder->tokenizer->splitters[cutting->step].byte_level)
        BO_TRY(write_byte_level(cutting->encoder, cutting->step, &text, &length, &lead));
    return bo_split_text(cutting->encoder, cutting->step + 1, text, length, lead);
}

/* Passes the pending part on; [begin, end) becomes the pending part. */
static bo_status wait_instead(bo_cutting *cutting, size_t begin, size_t end, bool matched)
{
    bo_status status = pass_on(cutting, cutting->begin, cutting->end);
    cutting->begin = begin;
    cutting->end = end;
    cutting->waiting = true;
    cutting->matched = matched;
    return status;
}

/* Processes the next section of the text: a match, which may be empty, or the text between two matches. */
static bo_status add_piece(bo_cutting *cutting, bo_behavior behavior, size_t begin, size_t end, bool matched)
{
    bool joins = false;
    switch (behavior) {
    case BO_SPLIT_REMOVED:
        return matched ? BO_OK : pass_on(cutting, begin, end);
    case BO_SPLIT_ISOLATED:
        return pass_on(cutting, begin, end);
    case BO_SPLIT_CONTIGUOUS:
        joins = cutting->waiting && cutting->matched == matched;
        break;
    case BO_SPLIT_MERGED_WITH_PREVIOUS: /* a match joins the text before it */
        joins = cutting->waiting && matched && !cutting->matched;
        break;
    case BO_SPLIT_MERGED_WITH_NEXT:
        joins = cutting->waiting && !matched && cutting->matched;
        break;
    }
    if (!joins) return wait_instead(cutting, begin, end, matched);
    cutting->end = end;
    cutting->matched = matched;
    return BO_OK;
}

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

static bool is_match(bo_cut cut, uint32_t point)
{
    if (cut == BO_CUT_SPACES) return bo_point_space(point);
    return bo_char_in(cut == BO_CUT_NUMERIC ? BO_CHARS_NUMERIC : BO_CHARS_PUNCTUATION, point);
}

/* Each character of a set is a match. */
static bo_status cut_characters(bo_cutting *cutting, const bo_splitter *splitter, size_t length)
{
    size_t begin = 0;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        bytes = bo_utf8_length(cutting->text + at, length - at);
        if (!is_match(splitter->cut, bo_utf8_point(cutting->text + at, bytes))) continue;
        if (begin < at) BO_TRY(add_piece(cutting, splitter->behavior, begin, at, splitter->invert));
        BO_TRY(add_piece(cutting, splitter->behavior, at, at + bytes, !splitter->invert));
        begin = at + bytes;
    }
    return begin < length ? add_piece(cutting, splitter->behavior, begin, length, splitter->invert) : BO_OK;
}

static bo_status cut_matches(bo_cutting *cutting, const bo_splitter *splitter, size_t length)
{
    bo_encoder *encoder = cutting->encoder;
    bo_scan scan;
    BO_TRY(bo_scan_begin(encoder->context, &splitter->pattern, &encoder->matcher, cutting->text, length,
                         &encoder->copies[cutting->step], &scan));
    for (size_t at = 0, begin, end;; at = end) {
        bool found;
        BO_TRY(bo_scan_next(encoder->context, &scan, &begin, &end, &found));
        if (at < begin) BO_TRY(add_piece(cutting, splitter->behavior, at, begin, splitter->invert));
        if (!found) return BO_OK;
        BO_TRY(add_piece(cutting, splitter->behavior, begin, end, !splitter->invert));
    }
}

static bo_status cut_lengths(bo_cutting *cutting, const bo_splitter *splitter, size_t length)
{
    for (size_t begin = 0, end; begin < length; begin = end) {
        end = begin;
        for (size_t i = 0; i < splitter->chars && end < length; ++i)
            end += bo_utf8_length(cutting->text + end, length - end);
        BO_TRY(pass_on(cutting, begin, end));
    }
    return BO_OK;
}

static bo_status cut(bo_cutting *cutting, const bo_splitter *splitter, size_t length)
{
    switch (splitter->cut) {
    case BO_CUT_NOT:
        return pass_on(cutting, 0, length);
    case BO_CUT_PATTERN:
        return cut_matches(cutting, splitter, length);
    case BO_CUT_LENGTH:
        return cut_lengths(cutting, splitter, length);
    default:
        return cut_characters(cutting, splitter, length);
    }
}

/* ---- spaces ------------------------------------------------------------------------------------------------------ */

/* The text with its spaces replaced and a prefix before it. */
static bo_status mark(bo_encoder *encoder, size_t step, const char **text, size_t *length, size_t *lead)
{
    const bo_splitter *splitter = &encoder->tokenizer->splitters[step];
    const size_t replacement = strlen(splitter->replacement), prefix = strlen(splitter->prefix), old_lead = *lead;
    const bool prefixed = splitter->prefixing == BO_PREFIX_ALWAYS || (splitter->prefixing == BO_PREFIX_FIRST && *lead);
    const bool begins = (*length >= prefix && memcmp(*text, splitter->prefix, prefix) == 0) ||
                        (replacement > 0 && *length > 0 && **text == ' ');
    if (*length == 0 || (replacement == 0 && (!prefixed || begins))) return BO_OK;
    bo_buffer *to = &encoder->marked[step];
    to->length = 0;
    if (prefixed && !begins) {
        BO_TRY(bo_buffer_append(encoder->context, to, splitter->prefix, prefix));
        if (old_lead) *lead += prefix;
    }
    for (const char *at = *text, *end = at + *length; at < end;) {
        const char *found = replacement ? memchr(at, ' ', (size_t)(end - at)) : NULL;
        BO_TRY(bo_buffer_append(encoder->context, to, at, (size_t)((found ? found : end) - at)));
        if (found) BO_TRY(bo_buffer_append(encoder->context, to, splitter->replacement, replacement));
        if (found && (size_t)(found - *text) < old_lead) *lead += replacement - 1;
        at = found ? found + 1 : end;
    }
    *text = to->bytes;
    *length = to->length;
    return BO_OK;
}

bo_status bo_split_text(bo_encoder *encoder, size_t step, const char *text, size_t length, size_t lead)
{
    if (step == encoder->tokenizer->splitter_count) return bo_encode_word(encoder, text, length);
    BO_TRY(mark(encoder, step, &text, &length, &lead));
    bo_cutting cutting = {.encoder = encoder, .step = step, .text = text, .lead = lead};
    BO_TRY(cut(&cutting, &encoder->tokenizer->splitters[step], length));
    return pass_on(&cutting, cutting.begin, cutting.end);
}
