#include "encoder.h"

/* A text on its way through one splitter; [begin, end) is a part that may still grow. */
typedef struct bo_cutting {
    bo_encoder *encoder;
    size_t step;
    const char *text;
    bool first;
    size_t begin, end;
    bool matched; /* the part that may grow is a match */
} bo_cutting;

static bo_status pass_on(bo_cutting *cutting, size_t begin, size_t end)
{
    if (begin == end) return BO_OK;
    return bo_split(cutting->encoder, cutting->step + 1, cutting->text + begin, end - begin,
                    cutting->first && begin == 0);
}

/* What is waiting goes on; [begin, end) waits in its place. */
static bo_status wait_instead(bo_cutting *cutting, size_t begin, size_t end, bool matched)
{
    bo_status status = pass_on(cutting, cutting->begin, cutting->end);
    cutting->begin = begin;
    cutting->end = end;
    cutting->matched = matched;
    return status;
}

/* The next stretch of the text, which is a match or lies between two. */
static bo_status take(bo_cutting *cutting, bo_behavior behavior, size_t begin, size_t end, bool matched)
{
    const bool waiting = cutting->begin < cutting->end;
    bool joins = false;
    if (begin == end) return BO_OK;
    switch (behavior) {
    case BO_SPLIT_REMOVED:
        return matched ? BO_OK : pass_on(cutting, begin, end);
    case BO_SPLIT_ISOLATED:
        return pass_on(cutting, begin, end);
    case BO_SPLIT_CONTIGUOUS:
        joins = waiting && cutting->matched == matched;
        break;
    case BO_SPLIT_MERGED_WITH_PREVIOUS: /* one match joins the text before it */
        joins = waiting && matched && !cutting->matched;
        break;
    case BO_SPLIT_MERGED_WITH_NEXT:
        joins = waiting && !matched && cutting->matched;
        break;
    }
    if (!joins) return wait_instead(cutting, begin, end, matched);
    cutting->end = end;
    cutting->matched = matched;
    return BO_OK;
}

static bo_status cut(bo_encoder *encoder, size_t step, const char *text, size_t length, bool first)
{
    const bo_splitter *splitter = &encoder->tokenizer->splitters[step];
    bo_cutting cutting = {.encoder = encoder, .step = step, .text = text, .first = first};
    for (size_t at = 0, begin, end; at < length; at = end) {
        BO_TRY(
            bo_pattern_find(encoder->context, &splitter->pattern, &encoder->matcher, text, length, at, &begin, &end));
        BO_TRY(take(&cutting, splitter->behavior, at, begin, splitter->invert));
        BO_TRY(take(&cutting, splitter->behavior, begin, end, !splitter->invert));
    }
    return pass_on(&cutting, cutting.begin, cutting.end);
}

/* The text with its blanks replaced and a prefix before it. */
static bo_status mark(bo_encoder *encoder, size_t step, const char **text, size_t *length, bool first)
{
    const bo_splitter *splitter = &encoder->tokenizer->splitters[step];
    const size_t blank = strlen(splitter->blank), prefix = strlen(splitter->prefix);
    const bool wanted = splitter->prefixing == BO_PREFIX_ALWAYS || (splitter->prefixing == BO_PREFIX_FIRST && first);
    const bool begins = (*length >= prefix && memcmp(*text, splitter->prefix, prefix) == 0) ||
                        (blank > 0 && *length > 0 && **text == ' ');
    if (*length == 0 || (blank == 0 && (!wanted || begins))) return BO_OK;
    bo_buffer *to = &encoder->marked[step];
    to->length = 0;
    if (wanted && !begins) BO_TRY(bo_buffer_append(encoder->context, to, splitter->prefix, prefix));
    for (const char *at = *text, *end = at + *length; at < end;) {
        const char *found = blank ? memchr(at, ' ', (size_t)(end - at)) : NULL;
        BO_TRY(bo_buffer_append(encoder->context, to, at, (size_t)((found ? found : end) - at)));
        if (found) BO_TRY(bo_buffer_append(encoder->context, to, splitter->blank, blank));
        at = found ? found + 1 : end;
    }
    *text = to->bytes;
    *length = to->length;
    return BO_OK;
}

bo_status bo_split(bo_encoder *encoder, size_t step, const char *text, size_t length, bool first)
{
    if (step == encoder->tokenizer->splitter_count) return bo_encode_word(encoder, text, length);
    BO_TRY(mark(encoder, step, &text, &length, first));
    if (encoder->tokenizer->splitters[step].pattern.text) return cut(encoder, step, text, length, first);
    return bo_split(encoder, step + 1, text, length, first);
}
