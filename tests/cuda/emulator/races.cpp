/* The shadow of shared memory, and the functions that instrumented kernels call. */
#include "races.h"

#ifdef BO_EMULATOR_RACES
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>
#include "emulator.h"

namespace {

enum { LANES = 32, WARPS = 32 };

/* Valid while `epoch` is that of the block: epochs increase with every block and barrier. */
struct memory_access {
    uint32_t epoch = 0, warp_epoch = 0;
    uint16_t thread = 0;
    bool whole_warp = false;
    const void *at = nullptr;
};

/* One byte. If several threads have read it, `reads` are two of them, if possible of different warps: a write races
 * with all reads of other threads exactly if it races with one of these or no read is left out. */
struct cell {
    memory_access write, reads[2], copy;
};

/* Dynamic shared memory, or the static variables of kernels, which are thread-local variables of this module. */
struct region {
    const unsigned char *start = nullptr;
    size_t bytes = 0;
    std::vector<cell> cells;
};

struct shadow {
    region dynamic, fixed;
    uint32_t epoch = 0, warp_epochs[WARPS] = {};
    const void *kernel = nullptr;
};

thread_local shadow *current;
thread_local int running = -1;

std::mutex guard;
std::set<std::tuple<int, const void *, const void *>> reported;
size_t found[bo::RACE_KINDS];

/* ---- reports ----------------------------------------------------------------------------------------------------- */

const char *module_path(const void *address, const char **base)
{
    Dl_info info;
    if (!dladdr(address, &info)) return nullptr;
    *base = (const char *)info.dli_fbase;
    return info.dli_fname;
}

/* The function at an address, and the places that were inlined into each other there. */
std::string describe(const void *address, bool function)
{
    char text[64];
    const char *base, *path = module_path(address, &base);
    snprintf(text, sizeof text, "%p", address);
    if (!path) return text;
    snprintf(text, sizeof text, "0x%zx", (size_t)((const char *)address - base));
    const std::string command = std::string("addr2line -Cif -e '") + path + "' " + text + " 2>/dev/null";
    FILE *lines = popen(command.c_str(), "r");
    if (!lines) return text;
    std::string out;
    char line[4096];
    for (int i = 0; fgets(line, sizeof line, lines); i++) {
        line[strcspn(line, "\n")] = 0;
        if (i % 2 == 0) {
            if (function) out = line; /* the last one is the outermost */
        } else if (!function) {
            const char *slash = strrchr(line, '/');
            std::string place = slash ? slash + 1 : line;
            place = place.substr(0, place.find(' '));
            out += (out.empty() ? "" : " < ") + place;
        }
    }
    pclose(lines);
    return out.empty() ? text : out;
}

const char *const kinds[bo::RACE_KINDS] = {"two writes", "a read, then a write", "a write, then a read",
                                           "an access during a copy"};

void describe_access(const char *verb, const memory_access &a)
{
    const char *who = a.whole_warp ? "all lanes" : "thread";
    fprintf(stderr, "  %s", who);
    if (!a.whole_warp) fprintf(stderr, " %d", a.thread);
    fprintf(stderr, " (warp %d) %s at %s\n", a.thread / LANES, verb, describe(a.at, false).c_str());
}

void report(bo::race_kind kind, const region &area, size_t byte, const memory_access &first,
            const memory_access &second)
{
    std::lock_guard<std::mutex> lock(guard);
    if (!reported.insert({kind, first.at, second.at}).second) return;
    static const char *const verbs[][2] = {
        {"wrote", "wrote"}, {"read", "wrote"}, {"wrote", "read"}, {"began a copy", "read or wrote"}};
    found[kind]++;
    fprintf(stderr, "emulator: race of %s: byte %zu of %s shared memory, block (%u, %u, %u) of %s\n", kinds[kind], byte,
            area.start == current->dynamic.start ? "dynamic" : "static", blockIdx.x, blockIdx.y, blockIdx.z,
            describe(current->kernel, true).c_str());
    describe_access(verbs[kind][0], first);
    describe_access(verbs[kind][1], second);
}

/* Ends a process with races, after its output. */
struct at_exit {
    ~at_exit()
    {
        size_t sum = 0;
        for (size_t count : found) sum += count;
        if (!sum) return;
        fflush(nullptr);
        fprintf(stderr, "emulator: %zu races in shared memory\n", sum);
        _exit(66);
    }
} at_exit;

/* ---- the shadow -------------------------------------------------------------------------------------------------- */

/* True if nothing orders an earlier access before one of this thread. */
bool concurrent(const memory_access &earlier, const memory_access &later)
{
    if (earlier.epoch != current->epoch) return false;
    if (earlier.thread == later.thread && !earlier.whole_warp && !later.whole_warp) return false;
    const int warp = earlier.thread / LANES;
    return warp != later.thread / LANES || earlier.warp_epoch == current->warp_epochs[warp];
}

void note_read(cell &c, const memory_access &a)
{
    memory_access &first = c.reads[0], &second = c.reads[1];
    if (!concurrent(first, a))
        first = a;
    else if (!concurrent(second, a) || second.thread / LANES == first.thread / LANES)
        second = a;
}

void touch(region &area, size_t offset, size_t bytes, bool write, const memory_access &a)
{
    for (size_t i = offset; i < offset + bytes; i++) {
        cell &c = area.cells[i];
        if (c.copy.at) report(bo::RACE_COPY, area, i, c.copy, a);
        if (concurrent(c.write, a)) report(write ? bo::RACE_WRITE_WRITE : bo::RACE_WRITE_READ, area, i, c.write, a);
        for (int r = 0; write && r < 2; r++)
            if (concurrent(c.reads[r], a)) report(bo::RACE_READ_WRITE, area, i, c.reads[r], a);
        if (write)
            c.write = a;
        else
            note_read(c, a);
    }
}

region *region_at(const void *at, size_t bytes, size_t *offset)
{
    for (region *area : {&current->dynamic, &current->fixed}) {
        *offset = (size_t)((const unsigned char *)at - area->start);
        if (*offset < area->bytes && bytes <= area->bytes - *offset) return area;
    }
    return nullptr;
}

memory_access access_by(const void *caller)
{
    memory_access a;
    a.epoch = current->epoch, a.thread = (uint16_t)running, a.warp_epoch = current->warp_epochs[running / LANES];
    a.at = (const char *)caller - 1; /* in the call, not after it */
    return a;
}

void see(const void *at, size_t bytes, bool write, const void *caller)
{
    size_t offset;
    if (running < 0) return;
    if (region *area = region_at(at, bytes, &offset)) touch(*area, offset, bytes, write, access_by(caller));
}

int find_thread_locals(struct dl_phdr_info *info, size_t, void *out)
{
    size_t in_module = 0, bytes = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto &part = info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + part.p_vaddr, self = (uintptr_t)find_thread_locals;
        if (part.p_type == PT_LOAD && self - start < part.p_memsz) in_module = 1;
        if (part.p_type == PT_TLS) bytes = part.p_memsz;
    }
    if (!in_module) return 0;
    region *area = (region *)out;
    area->start = (const unsigned char *)info->dlpi_tls_data, area->bytes = bytes;
    return 1;
}

} // namespace

namespace bo {

void race_grid(const unsigned char *shared, size_t bytes, const void *kernel)
{
    static thread_local shadow kept;
    current = &kept;
    if (!kept.fixed.start) {
        dl_iterate_phdr(find_thread_locals, &kept.fixed);
        kept.fixed.cells.resize(kept.fixed.bytes);
    }
    kept.kernel = kernel;
    kept.dynamic.start = shared, kept.dynamic.bytes = bytes;
    if (kept.dynamic.cells.size() < bytes) kept.dynamic.cells.resize(bytes);
    race_block_barrier();
}

void race_block_barrier()
{
    current->epoch++;
}

void race_warp_barrier(int warp)
{
    current->warp_epochs[warp]++;
}

void race_thread(int thread)
{
    running = thread;
}

void race_read_by_warp(const void *at, size_t bytes, const void *caller)
{
    size_t offset;
    region *area = region_at(at, bytes, &offset);
    memory_access a = access_by(caller);
    a.whole_warp = true;
    if (area) touch(*area, offset, bytes, false, a);
}

void race_copy_begins(const void *at, size_t bytes, const void *caller)
{
    size_t offset;
    region *area = region_at(at, bytes, &offset);
    if (!area) return;
    const memory_access a = access_by(caller);
    touch(*area, offset, bytes, true, a);
    for (size_t i = offset; i < offset + bytes; i++) area->cells[i].copy = a;
}

void race_copy_ends(const void *at, size_t bytes, const void *caller)
{
    size_t offset;
    region *area = region_at(at, bytes, &offset);
    if (!area) return;
    for (size_t i = offset; i < offset + bytes; i++) area->cells[i].copy.at = nullptr;
    if (caller) touch(*area, offset, bytes, true, access_by(caller));
}

size_t races_found(race_kind kind)
{
    return found[kind];
}

void races_forget()
{
    reported.clear();
    std::fill(found, found + RACE_KINDS, 0);
}

} // namespace bo

/* ---- called by instrumented code --------------------------------------------------------------------------------- */

#define HOOK extern "C" __attribute__((visibility("hidden")))
#define HOOKS(bytes)                                                                                                   \
    HOOK void __tsan_read##bytes(void *at)                                                                             \
    {                                                                                                                  \
        see(at, bytes, false, __builtin_return_address(0));                                                            \
    }                                                                                                                  \
    HOOK void __tsan_write##bytes(void *at)                                                                            \
    {                                                                                                                  \
        see(at, bytes, true, __builtin_return_address(0));                                                             \
    }                                                                                                                  \
    HOOK void __tsan_unaligned_read##bytes(void *at)                                                                   \
    {                                                                                                                  \
        see(at, bytes, false, __builtin_return_address(0));                                                            \
    }                                                                                                                  \
    HOOK void __tsan_unaligned_write##bytes(void *at)                                                                  \
    {                                                                                                                  \
        see(at, bytes, true, __builtin_return_address(0));                                                             \
    }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

HOOK void __tsan_read_range(void *at, size_t bytes)
{
    see(at, bytes, false, __builtin_return_address(0));
}

HOOK void __tsan_write_range(void *at, size_t bytes)
{
    see(at, bytes, true, __builtin_return_address(0));
}

HOOK void __tsan_init()
{
}

HOOK void __tsan_func_entry(void *)
{
}

HOOK void __tsan_func_exit()
{
}

HOOK void __tsan_vptr_update(void **, void *)
{
}

HOOK void __tsan_vptr_read(void **)
{
}

/* The linker passes calls of memcpy, memmove and memset to __wrap_…; later versions of clang call __tsan_…. */
#define MEMORY_HOOKS(prefix)                                                                                           \
    HOOK void *prefix##memcpy(void *to, const void *from, size_t bytes)                                                \
    {                                                                                                                  \
        see(from, bytes, false, __builtin_return_address(0));                                                          \
        see(to, bytes, true, __builtin_return_address(0));                                                             \
        return __real_memcpy(to, from, bytes);                                                                         \
    }                                                                                                                  \
    HOOK void *prefix##memmove(void *to, const void *from, size_t bytes)                                               \
    {                                                                                                                  \
        see(from, bytes, false, __builtin_return_address(0));                                                          \
        see(to, bytes, true, __builtin_return_address(0));                                                             \
        return __real_memmove(to, from, bytes);                                                                        \
    }                                                                                                                  \
    HOOK void *prefix##memset(void *to, int byte, size_t bytes)                                                        \
    {                                                                                                                  \
        see(to, bytes, true, __builtin_return_address(0));                                                             \
        return __real_memset(to, byte, bytes);                                                                         \
    }
extern "C" void *__real_memcpy(void *to, const void *from, size_t bytes);
extern "C" void *__real_memmove(void *to, const void *from, size_t bytes);
extern "C" void *__real_memset(void *to, int byte, size_t bytes);
MEMORY_HOOKS(__wrap_)
MEMORY_HOOKS(__tsan_)
#endif
