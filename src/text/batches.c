/* Selects the tokens that a step trains on: a pure function of seed, step and sequence. */
#include "facts.h"
#include "batches.h"
#include "../base/base.h"
#include "../base/rng.h"

#include <bochner/text.h>

/* An epoch consists of W adjacent windows of C inputs, starting at a random offset. With W = (T - C) / C windows there
 * are at least C possible offsets, so that over the epochs every token is a first input, a last input and a target. A
 * shorter corpus has one window, if it fits. */
uint64_t bo_batches_per_epoch(const bo_batches_desc *desc)
{
    if (!desc) return 0;
    uint64_t tokens = bo_corpus_tokens(desc->corpus), context = desc->context;
    if (context == 0 || tokens <= context) return 0;
    return tokens < 2 * context ? 1 : (tokens - context) / context;
}

/* Windows of a lane in an epoch. */
static uint64_t lane_length(const bo_batches_desc *desc)
{
    return bo_batches_per_epoch(desc) / desc->lanes;
}

static bo_status check_lanes(bo_context *context, const bo_batches_desc *desc)
{
    const uint64_t windows = bo_batches_per_epoch(desc);
    if (desc->lanes != desc->batch)
        return bo_fail(context, BO_INVALID, "batches: expected as many lanes as sequences, %zu, found %zu", desc->batch,
                       desc->lanes);
    if (windows >= desc->lanes) return BO_OK;
    return bo_fail(
        context, BO_INVALID,
        "batches: the corpus has %llu windows of %zu tokens, fewer than the %zu sequences that continue side "
        "by side; use shorter windows or fewer sequences",
        (unsigned long long)windows, desc->context, desc->lanes);
}

bo_status bo_batches_check(bo_context *context, const bo_batches_desc *desc)
{
    BO_REQUIRE(context, desc);
    BO_REQUIRE(context, desc->corpus);
    const size_t parts = desc->parts ? desc->parts : 1;
    BO_TRY(bo_check_reserved(context, "bo_batches_desc", desc->reserved));
    if (desc->context == 0 || desc->batch == 0)
        return bo_fail(context, BO_INVALID,
                       "batches: expected at least one sequence and one token, found %zu x %zu tokens", desc->batch,
                       desc->context);
    if (desc->context >= SIZE_MAX / desc->batch / sizeof(int32_t))
        return bo_fail(context, BO_INVALID, "batches: %zu x %zu tokens exceed the address space", desc->batch,
                       desc->context);
    if (desc->batch % parts != 0 || desc->part >= parts)
        return bo_fail(context, BO_INVALID, "batch: %zu sequences cannot be divided evenly among %zu ranks",
                       desc->batch, parts);
    const uint64_t tokens = bo_corpus_tokens(desc->corpus);
    if (tokens <= desc->context)
        return bo_fail(context, BO_INVALID,
                       "the corpus has %llu tokens, fewer than the %zu that one sequence needs (a context of %zu and "
                       "the token after it)",
                       (unsigned long long)tokens, desc->context + 1, desc->context);
    return desc->lanes ? check_lanes(context, desc) : BO_OK;
}

/* The first token of a window of an epoch. */
static uint64_t place_of(const bo_batches_desc *desc, uint64_t epoch, uint64_t window)
{
    const uint64_t windows = bo_batches_per_epoch(desc);
    const uint64_t places = bo_corpus_tokens(desc->corpus) - windows * desc->context; /* at least 1 */
    bo_rng rng = bo_rng_make(desc->seed, bo_rng_stream("text.offset", epoch));
    return bo_rng_below(&rng, places) + desc->context * window;
}

/* The first token of a sequence of a step, numbered over all parts. */
static uint64_t window_start(const bo_batches_desc *desc, uint64_t step, uint64_t sequence)
{
    if (desc->lanes) {
        const uint64_t length = lane_length(desc);
        return place_of(desc, step / length, sequence * length + step % length);
    }
    const uint64_t windows = bo_batches_per_epoch(desc), number = step * desc->batch + sequence;
    const uint64_t epoch = number / windows;
    return place_of(desc, epoch, bo_permute(desc->seed, epoch, windows, number % windows));
}

/* The number, over all parts, of a sequence of this part. */
static uint64_t number_of(const bo_batches_desc *desc, size_t sequence)
{
    return desc->part * (desc->batch / (desc->parts ? desc->parts : 1)) + sequence;
}

bool bo_batches_begins(const bo_batches_desc *desc, uint64_t step, size_t sequence)
{
    if (!desc) return false;
    if (!desc->lanes || bo_batches_per_epoch(desc) < desc->lanes || step % lane_length(desc) == 0) return true;
    const uint64_t start = window_start(desc, step, number_of(desc, sequence));
    return desc->documents && bo_corpus_next_document(desc->corpus, start - 1) == start;
}

/* Finds the runs of the window that starts at `start`, at most `capacity` of them (the last includes the rest). Returns
 * their number; writes their lengths and the position of each row within its run if requested. */
static size_t find_runs(const bo_batches_desc *desc, uint64_t start, size_t capacity, size_t *lengths,
                        int32_t *positions)
{
    const uint64_t end = start + desc->context;
    size_t runs = 0;
    while (start < end) {
        uint64_t next = end;
        if (desc->documents && runs + 1 < capacity) next = bo_corpus_next_document(desc->corpus, start);
        if (next > end) next = end;
        const size_t length = (size_t)(next - start);
        if (lengths) lengths[runs] = length;
        for (size_t i = 0; positions && i < length; ++i) *positions++ = (int32_t)i;
        ++runs;
        start = next;
    }
    return runs;
}

bo_status bo_batches_fill(bo_context *context, const bo_batches_desc *desc, uint64_t step, size_t first, size_t count,
                          int32_t *tokens, int32_t *targets, int32_t *positions, size_t *lengths, size_t *runs)
{
    BO_REQUIRE(context, desc);
    BO_REQUIRE_IF(context, count > 0, tokens, targets);
    BO_REQUIRE_IF(context, lengths != NULL, runs);
    BO_TRY(bo_batches_check(context, desc));
    const size_t parts = desc->parts ? desc->parts : 1, share = desc->batch / parts, length = desc->context;
    if (first > share || count > share - first)
        return bo_fail(context, BO_INVALID, "batches: sequences %zu to %zu requested; a step has %zu", first,
                       first + count, share);
    if (lengths && *runs < count)
        return bo_fail(context, BO_INVALID, "batches: %zu sequences requested, but the buffer holds %zu runs", count,
                       *runs);
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
        const uint64_t start = window_start(desc, step, number_of(desc, first + i));
        BO_TRY(bo_corpus_read(context, desc->corpus, start, length, tokens + i * length));
        for (size_t t = 0; t + 1 < length; ++t) targets[i * length + t] = tokens[i * length + t + 1];
        BO_TRY(bo_corpus_read(context, desc->corpus, start + length, 1, targets + i * length + length - 1));
        if (!lengths && !positions) continue;
        /* one run is reserved for each later window */
        const size_t capacity = lengths ? *runs - used - (count - i - 1) : SIZE_MAX;
        used += find_runs(desc, start, capacity, lengths ? lengths + used : NULL,
                          positions ? positions + i * length : NULL);
    }
    if (lengths) *runs = used;
    return BO_OK;
}
