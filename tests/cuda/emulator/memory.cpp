/* Memory of the emulated devices. It can be accessed only while work of its device is executed, so that code of the
 * host, or of another device, that uses its addresses ends with a segmentation fault, as it would with a GPU. */
#include "emulator.h"
#include <sys/mman.h>
#include <map>
#include <mutex>

namespace bo {

namespace {

/* An address range; memory is committed on first use, in huge pages, whose protection changes quickly. */
const size_t MAX_BYTES = (size_t)64 << 30, GRAIN = 4096, HUGE = (size_t)2 << 20;

/* Invariant: free and used ranges (first byte, bytes) partition [start, start + top). Ranges of free bytes do not
 * touch. */
struct device_memory {
    char *start = nullptr;
    size_t top = 0;
    int users = 0; /* nested uses of device_access */
    std::map<size_t, size_t> unused, used;

    size_t used_bytes() const
    {
        size_t bytes = 0;
        for (const auto &range : used) bytes += range.second;
        return bytes;
    }
} memories[MAX_DEVICES];
std::mutex guard; /* reads of results run concurrently with other work */

void protect(const device_memory &memory, int protection)
{
    const size_t bytes = (memory.top + HUGE - 1) / HUGE * HUGE;
    if (bytes && mprotect(memory.start, bytes, protection) != 0) abort();
}

/* Tests of devices without enough memory set BOCHNER_EMULATED_BYTES. */
size_t capacity()
{
    const char *bytes = getenv("BOCHNER_EMULATED_BYTES");
    return bytes ? (size_t)strtoull(bytes, nullptr, 10) : MAX_BYTES;
}

/* Reserves the first free range that is large enough, or extends the memory. */
bool reserve(device_memory &memory, size_t bytes, size_t *at)
{
    for (auto range = memory.unused.begin(); range != memory.unused.end(); ++range) {
        if (range->second < bytes) continue;
        *at = range->first;
        const size_t rest = range->second - bytes;
        memory.unused.erase(range);
        if (rest) memory.unused[*at + bytes] = rest;
        return true;
    }
    if (bytes > MAX_BYTES - memory.top) return false;
    *at = memory.top;
    memory.top += bytes;
    return true;
}

} // namespace

device_access::device_access(int number) : device(number)
{
    if (!device_is_current(number)) abort(); /* a launch or a copy would fail */
    std::lock_guard<std::mutex> lock(guard);
    if (memories[device].users++ == 0) protect(memories[device], PROT_READ | PROT_WRITE);
}

device_access::~device_access()
{
    std::lock_guard<std::mutex> lock(guard);
    if (--memories[device].users == 0) protect(memories[device], PROT_NONE);
}

bool device_used(int device)
{
    std::lock_guard<std::mutex> lock(guard);
    return !memories[device].used.empty();
}

int device_locate(const void *address)
{
    std::lock_guard<std::mutex> lock(guard);
    for (int device = 0; device < MAX_DEVICES; device++) {
        const char *start = memories[device].start;
        if (start && (const char *)address >= start && (const char *)address < start + MAX_BYTES) return device;
    }
    return -1;
}

static char *allocate(device_memory &memory, size_t bytes)
{
    std::lock_guard<std::mutex> lock(guard);
    size_t at;
    const char *limit = getenv("BOCHNER_EMULATED_BYTES"); /* tests of exhausted memory */
    size_t all = bytes;
    for (const auto &range : memory.used) all += range.second;
    if (limit && *limit && all > (size_t)atoll(limit)) return nullptr;
    if (!memory.start) {
        void *range = mmap(nullptr, MAX_BYTES + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED) return nullptr;
        memory.start = (char *)(((uintptr_t)range + HUGE - 1) / HUGE * HUGE);
        madvise(memory.start, MAX_BYTES, MADV_HUGEPAGE);
    }
    if (memory.used_bytes() + bytes > capacity() || !reserve(memory, bytes, &at)) return nullptr;
    memory.used[at] = bytes;
    if (memory.users) protect(memory, PROT_READ | PROT_WRITE); /* what was added */
    return memory.start + at;
}

void *device_allocate(int device, size_t bytes)
{
    bytes = (bytes + GRAIN) / GRAIN * GRAIN;
    char *out = allocate(memories[device], bytes);
    if (!out) return nullptr;
    device_access access(device);
    memset(out, 0xFF, bytes); /* NANs, as memory of a device is not filled */
    return out;
}

void device_release(int device, void *address)
{
    device_memory &memory = memories[device];
    if (!address) return;
    std::lock_guard<std::mutex> lock(guard);
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
