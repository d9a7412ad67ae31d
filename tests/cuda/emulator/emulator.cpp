/* Fibers, barriers and the functions of warps. */
#include "emulator.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <atomic>
#include <numeric>
#include "races.h"

/* ---- random orders ----------------------------------------------------------------------------------------------- */

namespace {

std::atomic<bool> seed_used;

/* BOCHNER_EMULATOR_SEED, or different for each process. */
uint64_t seed()
{
    static const uint64_t value = [] {
        const char *given = getenv("BOCHNER_EMULATOR_SEED");
        if (given && *given) return (uint64_t)strtoull(given, nullptr, 10);
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        return ((uint64_t)now.tv_nsec * 2654435761u + (uint64_t)getpid()) % 1000000;
    }();
    seed_used = true;
    return value;
}

void print_seed()
{
    fprintf(stderr, "emulator: BOCHNER_EMULATOR_SEED=%llu repeats the order of warps\n", (unsigned long long)seed());
}

/* A failed test states the order of its warps. Programs that are not tests may fail as expected, and print nothing. */
void at_exit(int status, void *)
{
    if (status && status != 77 && seed_used && !strncmp(program_invocation_short_name, "test_", 5)) print_seed();
}
const int registered = on_exit(at_exit, nullptr);

[[noreturn]] void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "emulator: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    print_seed();
    abort();
}

/* xorshift64*: a number below `count`. */
unsigned draw(unsigned count)
{
    static thread_local uint64_t state = seed() * 0x9E3779B97F4A7C15u + 0xD1B54A32D192ED03u;
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return (unsigned)((state * 0x2545F4914F6CDD1Du >> 32) * count >> 32);
}

} // namespace

/* ---- fibers ------------------------------------------------------------------------------------------------------ */

#if defined(__x86_64__)
/* Saves the registers that a function must preserve, and continues on another stack. */
extern "C" void bo_emulated_switch(void **from, void *to);
asm(R"(
.text
.globl bo_emulated_switch
.hidden bo_emulated_switch
bo_emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
#endif

namespace {

enum { MAX_THREADS = 1024, LANES = 32, SLOT = 64, STACK = 128 << 10 };
enum wait { RUNNING, AT_WARP, AT_BLOCK, DONE };

/* A copy to shared memory that its thread has not waited for. */
struct pending_copy {
    void *to;
    const void *from;
    unsigned bytes, group;
    bool present;
    const void *caller;
};

struct fiber {
    dim3 index;
    wait state;
    unsigned groups; /* committed groups of copies */
    std::vector<pending_copy> copies;
#if defined(__x86_64__)
    void *stack_pointer;
#else
    ucontext_t context;
#endif
};

/* One block at a time per host thread. Exchanges alternate between two areas, so a lane may enter the next exchange
 * before other lanes have read the last one. */
struct block_state {
    fiber fibers[MAX_THREADS];
    unsigned char slots[2][MAX_THREADS * SLOT];
    unsigned rounds[MAX_THREADS / LANES];   /* exchanges of each warp so far */
    unsigned barriers[MAX_THREADS / LANES]; /* the last of them that was a barrier */
    int count, current;
    int vote, voted; /* of emulated_or */
    char *stacks;
    std::vector<unsigned char> shared;
    const std::function<void()> *thread;
#if defined(__x86_64__)
    void *scheduler;
#else
    ucontext_t scheduler;
#endif
};

thread_local block_state *now;

void yield(wait state)
{
    fiber *f = &now->fibers[now->current];
    f->state = state;
#if defined(__x86_64__)
    bo_emulated_switch(&f->stack_pointer, now->scheduler);
#else
    swapcontext(&f->context, &now->scheduler);
#endif
}

void entry()
{
    (*now->thread)();
    yield(DONE);
    abort();
}

/* Copies that are pending at the end of a thread have no effect. */
void drop_copies(fiber *f)
{
    for (const pending_copy &copy : f->copies) bo::race_copy_ends(copy.to, copy.bytes, nullptr);
    f->copies.clear();
}

void start(int index)
{
    fiber *f = &now->fibers[index];
    char *stack = now->stacks + (size_t)index * STACK;
    f->state = RUNNING;
    f->groups = 0;
#if defined(__x86_64__)
    /* six registers, then the address that `ret` continues at; the stack is aligned as after a call */
    void **top = (void **)(stack + STACK - 64);
    *--top = nullptr;
    *--top = (void *)entry;
    for (int i = 0; i < 6; i++) *--top = nullptr;
    f->stack_pointer = top;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = STACK;
    f->context.uc_link = nullptr;
    makecontext(&f->context, entry, 0);
#endif
}

void resume(int index)
{
    now->current = index;
    threadIdx = now->fibers[index].index;
    bo::race_thread(index);
#if defined(__x86_64__)
    bo_emulated_switch(&now->scheduler, now->fibers[index].stack_pointer);
#else
    swapcontext(&now->scheduler, &now->fibers[index].context);
#endif
    bo::race_thread(-1);
}

/* Runs the lanes of a warp, in random order, until each has finished or waits for the block. */
void run_warp(int first, int end)
{
    for (;;) {
        int at_warp = 0, live = 0;
        const int count = end - first, begin = (int)draw((unsigned)count), step = draw(2) ? 1 : count - 1;
        for (int i = 0, lane = begin; i < count; i++, lane = (lane + step) % count)
            if (now->fibers[first + lane].state == RUNNING) resume(first + lane);
        for (int i = first; i < end; i++) {
            at_warp += now->fibers[i].state == AT_WARP;
            live += now->fibers[i].state != DONE;
        }
        if (at_warp == 0) return;
        if (at_warp != live)
            fail("%d of %d lanes of a warp wait for the others, which wait for the block", at_warp, live);
        now->rounds[first / LANES]++;
        for (int i = first; i < end; i++)
            if (now->fibers[i].state == AT_WARP) now->fibers[i].state = RUNNING;
    }
}

void run_block()
{
    const int warps = (now->count + LANES - 1) / LANES;
    int order[MAX_THREADS / LANES];
    std::iota(order, order + warps, 0);
    for (int i = 0; i < now->count; i++) start(i);
    memset(now->rounds, 0, sizeof now->rounds);
    memset(now->barriers, 0, sizeof now->barriers);
    now->vote = now->voted = 0;
    memset(now->shared.data(), 0xFF, now->shared.size());
    for (;;) {
        int waiting = 0;
        for (int w = warps - 1; w > 0; w--) std::swap(order[w], order[draw((unsigned)w + 1)]);
        for (int w = 0; w < warps; w++) {
            const int first = order[w] * LANES;
            run_warp(first, first + LANES < now->count ? first + LANES : now->count);
        }
        bo::race_block_barrier();
        now->voted = now->vote;
        now->vote = 0;
        for (int i = 0; i < now->count; i++) {
            if (now->fibers[i].state != AT_BLOCK) continue;
            now->fibers[i].state = RUNNING;
            waiting++;
        }
        if (waiting == 0) break;
    }
    for (int i = 0; i < now->count; i++) drop_copies(&now->fibers[i]);
}

} // namespace

namespace bo {

unsigned char *emulate_shared()
{
    return (unsigned char *)(((uintptr_t)now->shared.data() + 127) / 128 * 128);
}

void emulate_block_barrier()
{
    yield(AT_BLOCK);
}

const unsigned char *emulate_exchange(const void *value, size_t bytes)
{
    int me = now->current, warp = me / LANES;
    unsigned char *area = now->slots[now->rounds[warp] % 2];
    if (bytes > SLOT) abort();
    memcpy(area + (size_t)me * SLOT, value, bytes);
    yield(AT_WARP);
    return area + (size_t)warp * LANES * SLOT;
}

void emulate_warp_barrier()
{
    char nothing = 0;
    emulate_exchange(&nothing, 1);
    if (now->barriers[now->current / LANES] != now->rounds[now->current / LANES]) {
        now->barriers[now->current / LANES] = now->rounds[now->current / LANES];
        race_warp_barrier(now->current / LANES);
    }
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

void emulate_copy(void *shared, const void *global, unsigned bytes, bool present)
{
    if (((uintptr_t)shared | (uintptr_t)global) % bytes) fail("a copy of %u bytes that are not aligned", bytes);
    fiber *f = &now->fibers[now->current];
    f->copies.push_back({shared, global, bytes, f->groups, present, __builtin_return_address(0)});
    race_copy_begins(shared, bytes, f->copies.back().caller);
}

void emulate_copy_commit()
{
    now->fibers[now->current].groups++;
}

/* Bytes are copied here, the latest time at which a GPU may copy them. */
void emulate_copy_wait(unsigned pending)
{
    fiber *f = &now->fibers[now->current];
    size_t kept = 0;
    for (const pending_copy &copy : f->copies) {
        if (copy.group + pending >= f->groups) {
            f->copies[kept++] = copy;
            continue;
        }
        race_copy_ends(copy.to, copy.bytes, copy.caller);
        race_thread(-1);
        if (copy.present)
            memcpy(copy.to, copy.from, copy.bytes);
        else
            memset(copy.to, 0, copy.bytes);
        race_thread(now->current);
    }
    f->copies.resize(kept);
}

/* ---- grids ------------------------------------------------------------------------------------------------------- */

void emulate_grid(dim3 grid, dim3 block, size_t shared, const void *kernel, const std::function<void()> &thread)
{
    block_state *outer = now;
    static thread_local block_state *kept;
    if (!kept) {
        kept = new block_state();
        kept->stacks = (char *)mmap(nullptr, (size_t)MAX_THREADS * STACK, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (kept->stacks == MAP_FAILED) abort();
    }
    now = kept;
    now->count = (int)(block.x * block.y * block.z);
    now->thread = &thread;
    now->shared.resize(shared + 256);
    gridDim = grid, blockDim = block;
    for (int i = 0; i < now->count; i++)
        now->fibers[i].index =
            dim3((unsigned)i % block.x, (unsigned)i / block.x % block.y, (unsigned)i / block.x / block.y);
    race_grid(emulate_shared(), shared, kernel);
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    uint64_t step = 1 + draw((unsigned)std::min<uint64_t>(blocks, 0x7FFFFFFF));
    while (std::gcd(step, blocks) != 1) step++;
    for (uint64_t i = 0, at = draw((unsigned)std::min<uint64_t>(blocks, 0x7FFFFFFF)); i < blocks;
         i++, at = (at + step) % blocks) {
        blockIdx = dim3((unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y), (unsigned)(at / grid.x / grid.y));
        run_block();
    }
    now = outer;
}

/* ---- tensor cores ------------------------------------------------------------------------------------------------ */

static float half_of(uint32_t pair, int which)
{
    return __bfloat162float({(uint16_t)(which ? pair >> 16 : pair)});
}

void emulate_mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    struct factors {
        uint32_t a[4], b[2];
    } value;
    memcpy(value.a, a, sizeof value.a);
    memcpy(value.b, b, sizeof value.b);
    const unsigned char *all = emulate_exchange(&value, sizeof value);
    int lane = emulated_lane(), group = lane / 4, column = lane % 4 * 2;
    for (int e = 0; e < 4; e++) {
        int upper = e / 2, n = column + e % 2; /* D[group + 8 upper][n] */
        double sum = 0;
        for (int k = 0; k < 16; k++) {
            factors left, right;
            memcpy(&left, all + (size_t)(group * 4 + k % 8 / 2) * SLOT, sizeof left);
            memcpy(&right, all + (size_t)(n * 4 + k % 8 / 2) * SLOT, sizeof right);
            sum += (double)half_of(left.a[upper + k / 8 * 2], k % 2) * (double)half_of(right.b[k / 8], k % 2);
        }
        d[e] = (float)((double)d[e] + sum);
    }
}

void emulate_ldmatrix(uint32_t (&r)[4], const void *row, bool transposed)
{
    if ((uintptr_t)row % 16) fail("ldmatrix of an address that is not a multiple of 16");
    race_read_by_warp(row, 16, __builtin_return_address(0));
    const unsigned char *all = emulate_exchange(&row, sizeof row);
    int lane = emulated_lane();
    for (int j = 0; j < 4; j++) {
        uint16_t two[2];
        for (int e = 0; e < 2; e++) {
            int line = lane / 4, column = lane % 4 * 2 + e;
            const uint16_t *from;
            if (transposed) {
                int swap = line;
                line = column, column = swap;
            }
            memcpy(&from, all + (size_t)(j * 8 + line) * SLOT, sizeof from);
            memcpy(&two[e], from + column, sizeof two[e]);
        }
        r[j] = (uint32_t)two[1] << 16 | two[0];
    }
    char nothing = 0; /* a lane must not change the rows before all have read them */
    emulate_exchange(&nothing, 1);
}

} // namespace bo

int emulated_or(int predicate)
{
    now->vote |= predicate != 0;
    bo::emulate_block_barrier();
    return now->voted;
}
