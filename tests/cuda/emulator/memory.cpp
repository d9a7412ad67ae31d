/* Memory of the emulated device. It can be accessed only while work of the device is executed, so that code of the host
 * which uses an address of the device ends with a segmentation fault, as it would with a GPU. */
#include "emulator.h"
#include <sys/mman.h>
#include <map>

namespace bo {

namespace {

/* Addresses; memory is taken when it is used, in huge pages, whose protection changes quickly. */
const size_t ROOM = (size_t)64 << 30, GRAIN = 4096, HUGE = (size_t)2 << 20;

/* Invariant: free and used ranges (first byte, bytes) partition [start, start + top). Ranges of free bytes do not
 * touch. */
struct device_memory {
    char *start = nullptr;
    size_t top = 0;
    int users = 0; /* nested uses of device_access */
    std::map<size_t, size_t> unused, used;
} memory;

void protect(int protection)
{
    const size_t bytes = (memory.top + HUGE - 1) / HUGE * HUGE;
    if (bytes && mprotect(memory.start, bytes, protection) != 0) abort();
}

/* Takes the first unused range that is large enough, or extends the memory. */
bool take(size_t bytes, size_t *at)
{
    for (auto range = memory.unused.begin(); range != memory.unused.end(); ++range) {
        if (range->second < bytes) continue;
        *at = range->first;
        const size_t rest = range->second - bytes;
        memory.unused.erase(range);
        if (rest) memory.unused[*at + bytes] = rest;
        return true;
    }
    if (bytes > ROOM - memory.top) return false;
    *at = memory.top;
    memory.top += bytes;
    return true;
}

} // namespace

device_access::device_access()
{
    if (memory.users++ == 0) protect(PROT_READ | PROT_WRITE);
}

device_access::~device_access()
{
    if (--memory.users == 0) protect(PROT_NONE);
}

void *device_allocate(size_t bytes)
{
    size_t at;
    bytes = (bytes + GRAIN) / GRAIN * GRAIN;
    if (!memory.start) {
        void *room = mmap(nullptr, ROOM + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED) return nullptr;
        memory.start = (char *)(((uintptr_t)room + HUGE - 1) / HUGE * HUGE);
        madvise(memory.start, ROOM, MADV_HUGEPAGE);
    }
    if (!take(bytes, &at)) return nullptr;
    memory.used[at] = bytes;
    device_access access;
    memset(memory.start + at, 0xFF, bytes); /* NANs, as memory of a device is not filled */
    return memory.start + at;
}

void device_release(void *address)
{
    if (!address) return;
    const auto found = memory.used.find((size_t)((char *)address - memory.start));
    if (found == memory.used.end()) abort(); /* not an address of the device, or released twice */
    size_t at = found->first, bytes = found->second;
    memory.used.erase(found);
    madvise(memory.start + at, bytes, MADV_DONTNEED);
    auto next = memory.unused.lower_bound(at);
    if (next != memory.unused.end() && next->first == at + bytes) {
        bytes += next->second;
        next = memory.unused.erase(next);
    }
    if (next != memory.unused.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == at) {
            before->second += bytes;
            return;
        }
    }
    memory.unused[at] = bytes;
}

} // namespace bo
