/* The model Unigram: the tokens whose log-probabilities have the largest sum (Kudo, 2018, "Subword Regularization"),
 * found by Viterbi's algorithm. */
#include "encoder.h"
#include "unicode.h"

#include <bochner/base.h>

static bo_status reserve(bo_encoder *encoder, size_t length)
{
    bo_merging *word = &encoder->merging;
    if (word->path_capacity >= length) return BO_OK;
    bo_free(word->paths);
    word->path_capacity = 0;
    word->paths = bo_alloc_raw(encoder->context, length, sizeof *word->paths, "the paths of a word");
    if (!word->paths) return BO_MEMORY;
    word->path_capacity = length;
    return BO_OK;
}

static void offer(bo_path *path, double score, size_t start, int32_t id)
{
    if (path->start == SIZE_MAX || score > path->score) *path = (bo_path){score, start, id};
}

/* paths[i]: the best path to byte i. A character that is not a token may be unknown. */
static void find_paths(const bo_encoder *encoder, const char *text, size_t length, bo_path *paths)
{
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    for (size_t i = 0; i <= length; ++i) paths[i] = (bo_path){0, SIZE_MAX, -1};
    for (size_t at = 0, bytes; at < length; at += bytes) {
        const double score = paths[at].score;
        bool single = false;
        uint32_t node = 0;
        bytes = bo_utf8_length(text + at, length - at);
        if (bytes == 0) bytes = 1;
        for (size_t i = at; i < length; ++i) {
            node = bo_trie_step(&tokenizer->scored, node, (unsigned char)text[i]);
            if (!node) break;
            const int32_t id = tokenizer->scored.values[node];
            if (id < 0 || bo_encoder_avoids(encoder, id, i + 1 == at + bytes)) continue;
            offer(&paths[i + 1], score + tokenizer->scores[id], at, id);
            single = single || i + 1 == at + bytes;
        }
        if (!single) offer(&paths[at + bytes], score + tokenizer->unknown_score, at, tokenizer->unknown);
    }
}

/* A run of unknown characters: a token, bytes, or the unknown token. */
static void add_unknowns(bo_encoder *encoder, const char *text, size_t length)
{
    const int32_t id = bo_encoder_symbol(encoder, text, length);
    if (id >= 0) {
        encoder->merging.ids[encoder->merging.count++] = id;
        return;
    }
    if (encoder->tokenizer->byte_fallback && bo_add_bytes(encoder, text, length)) return;
    const size_t first = bo_utf8_length(text, length);
    bo_add_unknown(encoder, text, first ? first : 1);
}

/* Links the path forward, so that it can be followed from the start: the end of the token at `start` is in
 * paths[start]. Unknown tokens in sequence are one. */
static void follow(bo_encoder *encoder, const char *text, size_t length)
{
    bo_path *paths = encoder->merging.paths;
    const int32_t unknown = encoder->tokenizer->unknown;
    size_t end = length, next = SIZE_MAX;
    while (end > 0) {
        const size_t start = paths[end].start;
        paths[end].start = next;
        next = end;
        end = start;
    }
    for (size_t at = 0, to = next, begin = 0; at < length; at = to, to = at < length ? paths[at].start : to) {
        const int32_t id = paths[to].id;
        const bool more = id == unknown && to < length && paths[paths[to].start].id == unknown;
        if (id != unknown) encoder->merging.ids[encoder->merging.count++] = id;
        if (id == unknown && !more) add_unknowns(encoder, text + begin, to - begin);
        if (!more) begin = to;
    }
}

bo_status bo_encode_unigram(bo_encoder *encoder, const char *text, size_t length)
{
    BO_TRY(bo_merging_reserve(encoder, length));
    BO_TRY(reserve(encoder, length + 1));
    encoder->merging.count = 0;
    find_paths(encoder, text, length, encoder->merging.paths);
    follow(encoder, text, length);
    return BO_OK;
}
