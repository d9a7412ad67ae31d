/* An allocator that counts live blocks and fails on request, for tests of leaks, peaks and out-of-memory errors. */
#ifndef BO_TEST_COUNTING_H
#define BO_TEST_COUNTING_H

#include "testing.h"
#include <stdatomic.h>

typedef struct counting {
    atomic_size_t live;  /* live blocks */
    atomic_size_t calls; /* number of allocation calls */
    atomic_size_t bytes, peak;
    size_t fail_at; /* this call, counted from 1, and all later ones fail; 0: none */
    bool once;      /* only that call fails */
} counting;

enum { COUNTING_HEADER = 64 }; /* keeps the alignment; the size is stored in it */

static inline void *counting_allocate(void *user, size_t bytes)
{
    counting *c = user;
    size_t call = atomic_fetch_add(&c->calls, 1) + 1;
    if (c->fail_at && (c->once ? call == c->fail_at : call >= c->fail_at)) return NULL;
    size_t rounded = (bytes + 63) / 64 * 64 + COUNTING_HEADER;
    char *base = aligned_alloc(64, rounded);
    if (!base) return NULL;
    /* no code may rely on zeros that it did not request */
    memset(base + COUNTING_HEADER, 0xA5, rounded - COUNTING_HEADER);
    *(size_t *)base = bytes;
    atomic_fetch_add(&c->live, 1);
    size_t now = atomic_fetch_add(&c->bytes, bytes) + bytes, peak = atomic_load(&c->peak);
    while (now > peak && !atomic_compare_exchange_weak(&c->peak, &peak, now)) {
    }
    return base + COUNTING_HEADER;
}

static inline void counting_release(void *user, void *pointer)
{
    counting *c = user;
    char *base = (char *)pointer - COUNTING_HEADER;
    atomic_fetch_sub(&c->live, 1);
    atomic_fetch_sub(&c->bytes, *(size_t *)base);
    free(base);
}

static inline bo_allocator counting_allocator(counting *c)
{
    return (bo_allocator){counting_allocate, counting_release, c};
}

static inline bo_context *counting_context(counting *c, int threads)
{
    bo_context_desc desc = {.threads = threads, .allocator = counting_allocator(c)};
    bo_context *context = NULL;
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    return context;
}

/* A function to test: see counting_inject. */
typedef struct injection {
    counting *counted; /* the allocator of `context` */
    bo_context *context;
    bo_status (*work)(void *what); /* runs once and frees its objects */
    void *what;
    /* long functions repeat themselves: after the first `all` allocations every stride-th one is tested */
    size_t all, stride;
    const char *spared; /* words of an allocation that the function can do without; NULL: none */
} injection;

/* Allocation k = 1, 2, 3, … fails, alone or with all later ones, until the function succeeds: BO_MEMORY with a message,
 * nothing leaks, and the next call succeeds. */
static inline void counting_inject(const injection *i)
{
    for (int once = 0; once < 2; once++)
        for (size_t k = 1;; k += k < i->all ? 1 : i->stride) {
            assert_true(k < 20000);
            const size_t live = i->counted->live, last = i->counted->calls + k;
            i->counted->once = once;
            i->counted->fail_at = last;
            const bo_status status = i->work(i->what);
            const bool reached = i->counted->calls >= last;
            i->counted->fail_at = 0;
            if (i->counted->live != live)
                fail_msg("allocation %zu failed: %zd blocks are left over", k, (ssize_t)(i->counted->live - live));
            if (!reached) {
                assert_ok(i->context, status);
                assert_true(k > 3); /* the function does allocate */
                break;
            }
            if (status == BO_OK && i->spared && strstr(bo_context_error(i->context), i->spared)) continue;
            if (status != BO_MEMORY)
                fail_msg("allocation %zu failed: %s (%s)", k, bo_status_string(status), bo_context_error(i->context));
            assert_true(strlen(bo_context_error(i->context)) > 10);
        }
    assert_ok(i->context, i->work(i->what));
}

#endif
