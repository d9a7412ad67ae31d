/* Memory allocation. Each block stores its allocator and size in the 64 bytes before it, so that it can be freed or
 * resized without a context and keeps its alignment. */
#include "internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20, LARGE = 1 << 30 };

typedef struct header {
    bo_allocator allocator;
    size_t bytes;
} header;

_Static_assert(sizeof(header) <= ALIGNMENT, "the header must fit before an aligned block");

/* The GEMM walks matrices of many megabytes in strides. Huge pages avoid most address translation misses. */
static void *default_allocate(void *user, size_t bytes)
{
    (void)user;
    size_t alignment = bytes >= 2 * (size_t)HUGE_PAGE ? HUGE_PAGE : ALIGNMENT;
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *block = rounded < bytes ? NULL : aligned_alloc(alignment, rounded);
#ifdef MADV_HUGEPAGE
    if (block && alignment == HUGE_PAGE) madvise(block, rounded, MADV_HUGEPAGE);
#endif
    return block;
}

static void default_release(void *user, void *block)
{
    (void)user;
    free(block);
}

/* A system that overcommits memory returns blocks of any size and kills the process when they are filled. The limit is
 * not queried for smaller blocks, because the query takes longer than their allocation. */
static bool exceeds_memory(bo_context *context, size_t bytes, const char *what)
{
    return bytes >= LARGE && bo_check_memory(context, what, (double)bytes, bo_process_memory(),
                                             "use less data or smaller sizes, or raise the limit") != BO_OK;
}

static header *header_of(void *block)
{
    return (header *)((char *)block - ALIGNMENT);
}

void *bo_alloc_raw(bo_context *context, size_t count, size_t size, const char *what)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ALIGNMENT - HUGE_PAGE) {
        bo_fail(context, BO_MEMORY, "%s: %zu x %zu bytes exceed the address space", what, count, size);
        return NULL;
    }
    bo_allocator allocator = context->allocator;
    if (!allocator.allocate) {
        if (exceeds_memory(context, bytes, what)) return NULL;
        allocator = (bo_allocator){default_allocate, default_release, NULL};
    }
    /* An empty block has one byte. Without it, the address would be the end of the allocation, which leak detectors do
     * not count as a reference. */
    char *base = allocator.allocate(allocator.user, (bytes ? bytes : 1) + ALIGNMENT);
    if (!base) {
        bo_fail(context, BO_MEMORY, "%s: out of memory: %.1f MB could not be allocated", what, (double)bytes / 1e6);
        return NULL;
    }
    *(header *)base = (header){allocator, bytes};
    return base + ALIGNMENT;
}

void *bo_alloc(bo_context *context, size_t count, size_t size, const char *what)
{
    void *block = bo_alloc_raw(context, count, size, what);
    if (block) memset(block, 0, count * size);
    return block;
}

void *bo_realloc(bo_context *context, void *block, size_t count, size_t size, const char *what)
{
    void *grown = bo_alloc_raw(context, count, size, what);
    if (grown && block) {
        size_t old = header_of(block)->bytes, now = count * size;
        memcpy(grown, block, old < now ? old : now);
        bo_free(block);
    }
    return grown;
}

void bo_free(void *block)
{
    if (!block) return;
    header *h = header_of(block);
    bo_allocator allocator = h->allocator;
    allocator.release(allocator.user, h);
}

/* ---- sparse blocks ----------------------------------------------------------------------------------------------- */

enum { SPARSE = 1 << 20 }; /* smaller blocks are ordinary ones */

static void sparse_release(void *user, void *block)
{
    (void)user;
    munmap(block, ((header *)block)->bytes + ALIGNMENT);
}

void *bo_alloc_sparse(bo_context *context, size_t count, size_t size, const char *what)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes < SPARSE || bytes > SIZE_MAX / 2 ||
        context->allocator.allocate)
        return bo_alloc(context, count, size, what);
    char *base =
        mmap(NULL, bytes + ALIGNMENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        bo_fail(context, BO_MEMORY, "%s: out of memory: %.1f MB of address space could not be reserved", what,
                (double)bytes / 1e6);
        return NULL;
    }
#ifdef MADV_NOHUGEPAGE
    madvise(base, bytes + ALIGNMENT, MADV_NOHUGEPAGE); /* the first number written would take 2 MB */
#endif
    *(header *)base = (header){{NULL, sparse_release, NULL}, bytes};
    return base + ALIGNMENT;
}

void bo_zero_block(void *block)
{
    const header *h = header_of(block);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), first = page - ALIGNMENT;
    const bool sparse = h->allocator.release == sparse_release && h->bytes > first;
    if (sparse && madvise((char *)block + first, h->bytes - first, MADV_DONTNEED) == 0)
        memset(block, 0, first);
    else
        memset(block, 0, h->bytes);
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

char *bo_strdup(bo_context *context, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = bo_alloc_raw(context, bytes, 1, "a string");
    if (copy) memcpy(copy, text, bytes);
    return copy;
}
