/* Fibers, barriers and the functions of warps. */
#include "emulator.h"
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

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

struct fiber {
    dim3 index;
    wait state;
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
    unsigned rounds[MAX_THREADS / LANES]; /* exchanges of each warp so far */
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

void start(int index)
{
    fiber *f = &now->fibers[index];
    char *stack = now->stacks + (size_t)index * STACK;
    f->state = RUNNING;
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
#if defined(__x86_64__)
    bo_emulated_switch(&now->scheduler, now->fibers[index].stack_pointer);
#else
    swapcontext(&now->scheduler, &now->fibers[index].context);
#endif
}

/* Runs the lanes of a warp until each has finished or waits for the block. */
void run_warp(int first, int end)
{
    for (;;) {
        int at_warp = 0, live = 0;
        for (int i = first; i < end; i++)
            if (now->fibers[i].state == RUNNING) resume(i);
        for (int i = first; i < end; i++) {
            at_warp += now->fibers[i].state == AT_WARP;
            live += now->fibers[i].state != DONE;
        }
        if (at_warp == 0) return;
        if (at_warp != live) {
            fprintf(stderr, "emulator: %d of %d lanes of a warp wait for the others, which wait for the block\n",
                    at_warp, live);
            abort();
        }
        now->rounds[first / LANES]++;
        for (int i = first; i < end; i++)
            if (now->fibers[i].state == AT_WARP) now->fibers[i].state = RUNNING;
    }
}

void run_block()
{
    for (int i = 0; i < now->count; i++) start(i);
    memset(now->rounds, 0, sizeof now->rounds);
    now->vote = now->voted = 0;
    memset(now->shared.data(), 0xFF, now->shared.size());
    for (;;) {
        int waiting = 0;
        for (int first = 0; first < now->count; first += LANES)
            run_warp(first, first + LANES < now->count ? first + LANES : now->count);
        now->voted = now->vote;
        now->vote = 0;
        for (int i = 0; i < now->count; i++) {
            if (now->fibers[i].state != AT_BLOCK) continue;
            now->fibers[i].state = RUNNING;
            waiting++;
        }
        if (waiting == 0) return;
    }
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

void emulate_grid(dim3 grid, dim3 block, size_t shared, const std::function<void()> &thread)
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
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = dim3(x, y, z);
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
    if ((uintptr_t)row % 16) {
        fprintf(stderr, "emulator: ldmatrix of an address that is not a multiple of 16\n");
        abort();
    }
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
    __syncwarp(); /* a lane must not change the rows before all have read them */
}

} // namespace bo

int emulated_or(int predicate)
{
    now->vote |= predicate != 0;
    bo::emulate_block_barrier();
    return now->voted;
}
