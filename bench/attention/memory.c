/* Memory beyond inputs and outputs, measured by counting the allocations of the library. */
#include "attention.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { LENGTHS = 3, FACTOR = 4, MIN_LENGTH = 256, ALIGNMENT = 64 };

typedef struct counter {
    atomic_size_t current, peak;
} counter;

/* The size of a block is stored in the 64 bytes before it. */
static void *counting_allocate(void *user, size_t bytes)
{
    counter *count = user;
    if (bytes > SIZE_MAX / 2) return NULL;
    size_t whole = ALIGNMENT + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *block = aligned_alloc(ALIGNMENT, whole);
    if (!block) return NULL;
    *(size_t *)(void *)block = bytes;
    size_t current = atomic_fetch_add(&count->current, bytes) + bytes, peak = atomic_load(&count->peak);
    while (current > peak && !atomic_compare_exchange_weak(&count->peak, &peak, current)) continue;
    return block + ALIGNMENT;
}

static void counting_release(void *user, void *pointer)
{
    counter *count = user;
    if (!pointer) return;
    char *block = (char *)pointer - ALIGNMENT;
    atomic_fetch_sub(&count->current, *(size_t *)(void *)block);
    free(block);
}

/* The peak memory of a call in addition to the memory allocated before it. */
static bool count_call(attention_bench *bench, counter *count, attention_case *what, bo_status (*call)(void *),
                       double *bytes)
{
    size_t before = atomic_load(&count->current);
    atomic_store(&count->peak, before);
    bo_status status = call(what);
    if (status != BO_OK) cli_fail(bench->run->session, "%s", bo_context_error(what->context));
    *bytes = (double)(atomic_load(&count->peak) - before);
    return status == BO_OK;
}

typedef struct counted {
    size_t tokens;
    double forward, backward, tape, state;
} counted;

static bool count_length(attention_bench *bench, bo_context *context, counter *count, size_t features, counted *out)
{
    attention_case what;
    bo_attention_desc desc = attention_favor(bench, features);
    double forward_with_tape;
    size_t tape = 0;
    bool ok = attention_case_open(bench, context, &desc, out->tokens, true, &what) &&
              count_call(bench, count, &what, attention_case_forward, &out->forward) &&
              count_call(bench, count, &what, attention_case_both, &forward_with_tape) &&
              count_call(bench, count, &what, attention_case_backward, &out->backward);
    if (ok) {
        bo_attention_call_bytes(context, what.attention, &what.shape, false, &tape, NULL);
        out->tape = (double)tape;
        out->state = (double)bo_attention_state_bytes(what.attention);
        out->backward = fmax(out->backward, forward_with_tape);
    }
    attention_case_close(&what);
    return ok;
}

/* The bound is √N states: the memory of storing every √N-th state and recomputing the rest. The backward pass also
 * has scratch memory of constant size, so the bound is checked at the longest length. */
static void print_counts(attention_bench *bench, size_t features, const counted counts[LENGTHS])
{
    const counted *first = &counts[0], *last = &counts[LENGTHS - 1];
    double bytes[LENGTHS];
    for (size_t i = 0; i < LENGTHS; i++) bytes[i] = counts[i].backward + counts[i].tape;
    double share = bytes[LENGTHS - 1] / (sqrt((double)last->tokens) * last->state);
    char name[96];
    snprintf(name, sizeof name, "forward, %zu features, bytes at 16 N / bytes at N", features);
    double growth =
        last->forward > first->forward ? last->forward / first->forward : 1; /* zero memory counts as no growth */
    bench_add(bench->run, name, growth, "", 1, true, "N = %zu: %s, %zu: %s, %zu: %s; the state of %d heads has %s",
              first->tokens, cli_bytes(first->forward).s, counts[1].tokens, cli_bytes(counts[1].forward).s,
              last->tokens, cli_bytes(last->forward).s, ATTENTION_HEADS, cli_bytes(first->state).s);
    snprintf(name, sizeof name, "backward + tape, %zu features, bytes / (sqrt(N) states)", features);
    bench_add(bench->run, name, share, "", 1, true, "at the longest of N = %zu: %s, %zu: %s, %zu: %s", first->tokens,
              cli_bytes(bytes[0]).s, counts[1].tokens, cli_bytes(bytes[1]).s, last->tokens, cli_bytes(bytes[2]).s);
    double exponent = log(bytes[LENGTHS - 1] / bytes[0]) / log((double)last->tokens / (double)first->tokens);
    snprintf(name, sizeof name, "backward + tape, %zu features, exponent of N", features);
    bench_add(bench->run, name, exponent, "", NAN, true,
              "0.5 is sqrt(N); of the tape at %zu, %s are the denominators, two floats per query and head",
              last->tokens, cli_bytes(2.0 * sizeof(float) * ATTENTION_HEADS * (double)last->tokens).s);
}

static bool count_features(attention_bench *bench, bo_context *context, counter *count, size_t features)
{
    const cli_counts *lengths = &bench->options->lengths;
    size_t tokens = lengths->items[lengths->count - 1] / (FACTOR * FACTOR);
    if (tokens < MIN_LENGTH) tokens = MIN_LENGTH;
    counted counts[LENGTHS];
    for (size_t i = 0; i < LENGTHS; i++, tokens *= FACTOR) {
        counts[i] = (counted){.tokens = tokens};
        if (!count_length(bench, context, count, features, &counts[i])) return false;
    }
    print_counts(bench, features, counts);
    return true;
}

bool attention_memory_part(attention_bench *bench)
{
    counter count = {0};
    bo_context_desc desc = {.threads = bo_context_describe(bench->context)->threads,
                            .isa = bo_context_describe(bench->context)->isa,
                            .allocator = {counting_allocate, counting_release, &count}};
    bo_context *context;
    if (bo_context_create(&desc, &context) != BO_OK) {
        cli_fail(bench->run->session, "no second context for counting memory");
        return false;
    }
    const cli_counts *features = &bench->options->features;
    bool ok = true;
    for (size_t i = 0; ok && i < features->count; i++) ok = count_features(bench, context, &count, features->items[i]);
    bo_context_destroy(context);
    return ok;
}
