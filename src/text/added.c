/* Finds added tokens in a text: the leftmost match, and the longest of several. The details follow `tokenizers`: a
 * match that is rejected because of its neighbors still hides its text from the search, and the search does not skip
 * white space that belongs to the last token. */
#include "encoder.h"
#include "unicode.h"

#include <bochner/base.h>

/* The longest added token that starts at text[at]; -1: none. A special token with a marked byte does not match. */
static int32_t longest_at(const bo_encoder *encoder, bool normalized, const char *text, size_t length, size_t at,
                          size_t *end)
{
    const bo_trie *trie = &encoder->tokenizer->finders[normalized];
    const unsigned char *marks = normalized ? encoder->normal_marks : encoder->marks;
    bool plain = false;
    int32_t found = -1;
    uint32_t node = 0;
    for (size_t i = at; i < length && (node = bo_trie_step(trie, node, (unsigned char)text[i])) != 0; ++i) {
        plain = plain || (marks && marks[i]);
        const int32_t number = trie->values[node];
        if (number < 0 || (plain && encoder->tokenizer->added[number].special)) continue;
        found = number;
        *end = i + 1;
    }
    return found;
}

/* The start of the white space that ends at `at`, not before `from`. */
static size_t space_before(const char *text, size_t at, size_t from)
{
    while (at > from) {
        size_t begin = at - 1, bytes;
        while (begin > from && at - begin < 4 && ((unsigned char)text[begin] & 0xC0) == 0x80) --begin;
        if (!bo_utf8_space(text + begin, at - begin, &bytes) || bytes != at - begin) break;
        at = begin;
    }
    return at;
}

static size_t space_after(const char *text, size_t length, size_t at)
{
    size_t bytes;
    while (at < length && bo_utf8_space(text + at, length - at, &bytes)) at += bytes;
    return at;
}

/* True if the character is part of a word. A failure is left in encoder->failed. */
static bool is_word(bo_encoder *encoder, const char *text, size_t bytes)
{
    bo_scan scan;
    size_t begin, end;
    bool found = false;
    if (bytes == 0 || bo_utf8_length(text, bytes) != bytes) return false;
    bo_status status = bo_scan_begin(encoder->context, &encoder->tokenizer->word, &encoder->matcher, text, bytes,
                                     &encoder->copy, &scan);
    if (status == BO_OK) status = bo_scan_next(encoder->context, &scan, &begin, &end, &found);
    if (status != BO_OK) encoder->failed = status;
    return found;
}

static bool stands_alone(bo_encoder *encoder, const char *text, size_t length, size_t begin, size_t end)
{
    size_t before = begin;
    if (begin > 0) --before;
    while (before > 0 && begin - before < 4 && ((unsigned char)text[before] & 0xC0) == 0x80) --before;
    if (is_word(encoder, text + before, begin - before)) return false;
    return !is_word(encoder, text + end, bo_utf8_length(text + end, length - end));
}

/* True if the token is accepted at its position. */
static bool counts(bo_encoder *encoder, const bo_added *added, const char *text, size_t length, size_t begin,
                   size_t end)
{
    if (added->special && !encoder->specials) return false;
    return !added->word || stands_alone(encoder, text, length, begin, end);
}

const bo_added *bo_added_next(bo_encoder *encoder, bool normalized, const char *text, size_t length,
                              bo_added_search *search, size_t *from, size_t *to)
{
    const bo_trie *trie = &encoder->tokenizer->finders[normalized];
    for (size_t at = search->search; trie->edges && at < length;) {
        size_t end = at;
        const int32_t number =
            trie->first[(unsigned char)text[at]] ? longest_at(encoder, normalized, text, length, at, &end) : -1;
        if (number < 0) {
            ++at;
            continue;
        }
        const bo_added *added = &encoder->tokenizer->added[number];
        const size_t begin = at;
        at = end;
        if (!counts(encoder, added, text, length, begin, end)) continue;
        *from = search->begin;
        *to = added->left ? space_before(text, begin, search->begin) : begin;
        if (*to < *from) *to = *from;
        search->search = end;
        search->begin = added->right ? space_after(text, length, end) : end;
        return added;
    }
    *from = search->begin < length ? search->begin : length;
    *to = search->search = search->begin = length;
    return NULL;
}
