/* A test bench: an operation with operands in memory that detects reads and writes out of bounds.
 *
 * Every block has guards on both sides that must not change. Guards of inputs are NANs (or -1), so that reading them
 * shows too; with AddressSanitizer any access to them is an error. Outputs are NAN before the call, and scratch
 * contains garbage. */
#ifndef BO_TEST_BACKEND_BENCH_H
#define BO_TEST_BACKEND_BENCH_H

#include "truth.h"
#include <bochner/devices.h>
#include "base/counting.h"

#if defined(BO_SANITIZE_ADDRESS)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

/* The guards of inputs and outputs differ, so that a NAN copied from an input guard is recognized. */
enum { BLOCK_GUARD = 128, BLOCK_POISON = 0xFF, BLOCK_WRITTEN = 0xFB };

/* Invariant: if bytes is 0, data is NULL and no memory is allocated. */
typedef struct block {
    size_t bytes;
    unsigned char guard;
    unsigned char *memory, *data, *copy;
    void *device; /* address of the data on a device, during a call */
} block;

static inline size_t block_bytes(const block *b)
{
    return (b->bytes + 63) / 64 * 64 + 2 * (size_t)BLOCK_GUARD;
}

static inline block block_make(size_t bytes, unsigned char fill, unsigned char guard)
{
    block b = {.bytes = bytes, .guard = guard};
    if (!bytes) return b;
    b.memory = aligned_alloc(64, block_bytes(&b)), b.copy = malloc(bytes);
    assert_true(b.memory && b.copy);
    b.data = b.memory + BLOCK_GUARD;
    memset(b.memory, guard, block_bytes(&b));
    memset(b.data, fill, bytes);
    ASAN_POISON_MEMORY_REGION(b.memory, BLOCK_GUARD);
    ASAN_POISON_MEMORY_REGION(b.data + bytes, block_bytes(&b) - BLOCK_GUARD - bytes);
    return b;
}

/* Fails if a guard has changed. */
static inline void block_check(const block *b, const char *name, const char *what)
{
    if (!b->bytes) return;
    ASAN_UNPOISON_MEMORY_REGION(b->memory, block_bytes(b));
    for (size_t i = 0; i < block_bytes(b); i++) {
        bool guard = i < BLOCK_GUARD || i >= BLOCK_GUARD + b->bytes;
        if (guard && b->memory[i] != b->guard)
            fail_msg("%s: byte %td of %s was written, which has %zu", name, (ptrdiff_t)i - BLOCK_GUARD, what, b->bytes);
    }
    ASAN_POISON_MEMORY_REGION(b->memory, BLOCK_GUARD);
    ASAN_POISON_MEMORY_REGION(b->data + b->bytes, block_bytes(b) - BLOCK_GUARD - b->bytes);
}

static inline void block_drop(block *b)
{
    if (b->memory) ASAN_UNPOISON_MEMORY_REGION(b->memory, block_bytes(b));
    free(b->memory);
    free(b->copy);
    *b = (block){0};
}

static inline void block_remember(block *b)
{
    if (b->bytes) memcpy(b->copy, b->data, b->bytes);
}

static inline void block_same(const block *b, const char *name, const char *what)
{
    if (b->bytes && memcmp(b->copy, b->data, b->bytes)) fail_msg("%s: %s changed", name, what);
}

static inline block block_of_doubles(const double *x, size_t count)
{
    block b = block_make(count * sizeof(float), BLOCK_POISON, BLOCK_POISON);
    for (size_t i = 0; i < count; i++) ((float *)b.data)[i] = (float)x[i];
    block_remember(&b);
    return b;
}

/* ---- bench ------------------------------------------------------------------------------------------------------- */

typedef struct bench {
    const op_case *c;
    const bo_op *op;
    bo_context *context;
    bo_op_call call;
    block in[BO_OP_INPUTS], out[BO_OP_OUTPUTS], dout[BO_OP_OUTPUTS], din[BO_OP_INPUTS], saved, scratch;
    unsigned char garbage; /* initial contents of scratch and saved */
    counting *counted;     /* counts the allocations of the context; NULL: not counted */
    size_t state_bytes;    /* bytes of each state of the pass, if it has states */
} bench;

static inline void bench_try(const bench *b, bo_status status, const char *what)
{
    if (status != BO_OK)
        fail_msg("%s: %s: %s: %s", b->c->name, what, bo_status_string(status), bo_context_error(b->context));
}

/* Operands of the case; shape() must return the outputs of the reference. */
static inline bench bench_make(bo_context *context, const bo_op *op, const op_case *c, const plain_op *plain,
                               const op_truth *t, unsigned char garbage)
{
    bench b = {.c = c, .op = op, .context = context, .garbage = garbage};
    b.call.attributes = c->attributes, b.call.inputs = plain->inputs, b.call.pass = &c->pass;
    for (size_t k = 0; k < plain->inputs; k++) {
        const plain_tensor *p = &plain->in[k];
        b.call.in[k] = (bo_tensor){.element = p->element, .rows = p->rows, .columns = p->columns};
    }
    bench_try(&b, op->shape(context, &b.call), "shape");
    if (b.call.outputs != plain->outputs)
        fail_msg("%s: shape finds %zu outputs, there are %zu", c->name, b.call.outputs, plain->outputs);
    for (size_t o = 0; o < plain->outputs; o++) {
        const bo_tensor *found = &b.call.out[o];
        const plain_tensor *p = &plain->out[o];
        if (found->rows != p->rows || found->columns != p->columns || found->element != BO_ELEMENT_FLOAT32)
            fail_msg("%s: shape finds output %zu to be %zu x %zu, it is %zu x %zu floats", c->name, o, found->rows,
                     found->columns, p->rows, p->columns);
        b.out[o] = block_make(plain_count(p) * sizeof(float), BLOCK_POISON, BLOCK_WRITTEN);
        b.dout[o] = block_of_doubles(t->dout[o], plain_count(p));
    }
    for (size_t k = 0; k < plain->inputs; k++) {
        const plain_tensor *p = &plain->in[k];
        b.in[k] = p->index ? block_make(plain_count(p) * sizeof(int32_t), 0, BLOCK_POISON)
                           : block_of_doubles(p->x, plain_count(p));
        if (p->index) memcpy(b.in[k].data, p->index, b.in[k].bytes);
        block_remember(&b.in[k]);
        if (t->has[k]) b.din[k] = block_make(plain_count(p) * sizeof(float), BLOCK_POISON, BLOCK_WRITTEN);
    }
    return b;
}

static inline void bench_drop(bench *b)
{
    for (size_t i = 0; i < BO_OP_INPUTS; i++) {
        block_drop(&b->in[i]);
        block_drop(&b->din[i]);
    }
    for (size_t i = 0; i < BO_OP_OUTPUTS; i++) {
        block_drop(&b->out[i]);
        block_drop(&b->dout[i]);
    }
    block_drop(&b->saved);
    block_drop(&b->scratch);
}

/* Checks that nothing was written out of bounds. */
static inline void bench_check(const bench *b, const char *when)
{
    char what[64];
    for (size_t i = 0; i < BO_OP_INPUTS; i++) {
        snprintf(what, sizeof what, "input %zu in %s", i, when);
        block_check(&b->in[i], b->c->name, what);
        if (!(b->c->pass.training && b->c->moved >> i & 1)) block_same(&b->in[i], b->c->name, what);
        snprintf(what, sizeof what, "gradient %zu in %s", i, when);
        block_check(&b->din[i], b->c->name, what);
    }
    for (size_t i = 0; i < BO_OP_OUTPUTS; i++) {
        snprintf(what, sizeof what, "output %zu in %s", i, when);
        block_check(&b->out[i], b->c->name, what);
        snprintf(what, sizeof what, "gradient of output %zu in %s", i, when);
        block_check(&b->dout[i], b->c->name, what);
        block_same(&b->dout[i], b->c->name, what);
    }
    snprintf(what, sizeof what, "saved in %s", when);
    block_check(&b->saved, b->c->name, what);
    snprintf(what, sizeof what, "scratch in %s", when);
    block_check(&b->scratch, b->c->name, what);
}

typedef bo_status (*bench_direction)(bo_context *context, const bo_op_call *call);

/* ---- calls on a device ------------------------------------------------------------------------------------------- */

/* All blocks, with their guards, are copied to the device before a call and back after it. */
enum { BENCH_LAYERS = 3, BENCH_STATES = 64, BENCH_ARENA = 96 << 20 };

/* Memory of the device for the operands of one call. */
typedef struct bench_device {
    bo_device *device;
    char *arena;
    size_t used;
    void *states[BENCH_STATES]; /* of the pass, on the device */
    bo_graph_pass pass;
    bo_staged *staged;
} bench_device;

/* One arena for all calls of a program. */
static inline char *bench_arena(bo_device *device, bo_context *context)
{
    static char *arena;
    if (!arena) arena = bo_buffer_allocate(context, device, BENCH_ARENA, "operands");
    assert_non_null(arena);
    return arena;
}

static inline void *bench_place(bench_device *d, size_t bytes)
{
    char *at = d->arena + d->used;
    d->used += (bytes + 255) / 256 * 256;
    if (d->used > BENCH_ARENA) fail_msg("operands of %zu bytes exceed the arena", d->used);
    return at;
}

static inline void bench_upload(const bench *b, bench_device *d, block *of)
{
    if (!of->bytes) return;
    char *at = bench_place(d, block_bytes(of) + BLOCK_GUARD); /* data stays aligned to 256 */
    ASAN_UNPOISON_MEMORY_REGION(of->memory, block_bytes(of));
    of->device = at + 2 * BLOCK_GUARD;
    bench_try(b, bo_buffer_write(b->context, d->device, at + BLOCK_GUARD, of->memory, block_bytes(of)), "upload");
}

static inline void bench_download(const bench *b, const bench_device *d, block *of)
{
    if (!of->bytes) return;
    bench_try(b, bo_buffer_read(b->context, d->device, of->memory, (char *)of->device - BLOCK_GUARD, block_bytes(of)),
              "download");
    ASAN_POISON_MEMORY_REGION(of->memory, BLOCK_GUARD);
    ASAN_POISON_MEMORY_REGION(of->data + of->bytes, block_bytes(of) - BLOCK_GUARD - of->bytes);
}

typedef void (*bench_visit)(const bench *b, bench_device *d, block *of);

static inline void bench_download_each(const bench *b, bench_device *d, block *of)
{
    bench_download(b, d, of);
}

static inline void bench_blocks(bench *b, bench_device *d, bench_visit visit)
{
    for (size_t i = 0; i < BO_OP_INPUTS; i++) visit(b, d, &b->in[i]), visit(b, d, &b->din[i]);
    for (size_t i = 0; i < BO_OP_OUTPUTS; i++) visit(b, d, &b->out[i]), visit(b, d, &b->dout[i]);
    visit(b, d, &b->saved);
    visit(b, d, &b->scratch);
}

/* Copies the states of the pass in either direction. */
static inline void bench_states(const bench *b, bench_device *d, bool up)
{
    const bo_graph_pass *pass = b->call.pass;
    if (!pass->states || !b->state_bytes) return;
    assert_true(BENCH_LAYERS * pass->sequences <= BENCH_STATES);
    for (size_t i = 0; i < BENCH_LAYERS * pass->sequences; i++) {
        if (!pass->states[i]) continue;
        if (up) d->states[i] = bench_place(d, b->state_bytes);
        bench_try(b,
                  up ? bo_buffer_write(b->context, d->device, d->states[i], pass->states[i], b->state_bytes)
                     : bo_buffer_read(b->context, d->device, pass->states[i], d->states[i], b->state_bytes),
                  "states");
    }
    d->pass.states = d->states;
}

/* Copies everything to the device; `call` receives its addresses. */
static inline void bench_enter(bench *b, bench_device *d, bo_op_call *call)
{
    d->arena = bench_arena(d->device, b->context);
    bench_blocks(b, d, bench_upload);
    for (size_t i = 0; i < BO_OP_INPUTS; i++) {
        if (call->in[i].data) call->in[i].data = b->in[i].device;
        if (call->din[i]) call->din[i] = b->din[i].device;
    }
    for (size_t i = 0; i < BO_OP_OUTPUTS; i++) {
        if (call->out[i].data) call->out[i].data = b->out[i].device;
        if (call->dout[i]) call->dout[i] = b->dout[i].device;
    }
    if (call->saved) call->saved = b->saved.device;
    if (call->scratch) call->scratch = b->scratch.device;
    d->pass = *call->pass;
    bench_states(b, d, true);
    call->pass = &d->pass;
    bool moved;
    bench_try(b, bo_backend_of(d->device)->stage(b->context, call->pass, BENCH_LAYERS, 0, &d->staged, &moved), "stage");
    call->staged = d->staged;
    if (b->op->prepare) bench_try(b, b->op->prepare(b->context, call), "prepare");
}

static inline void bench_leave(bench *b, bench_device *d)
{
    bench_try(b, bo_device_wait(b->context, d->device), "the device");
    bench_blocks(b, d, bench_download_each);
    bench_states(b, d, false);
    bo_backend_of(d->device)->unstage(d->staged);
}

/* One call, which must not allocate memory. */
static inline void bench_call(bench *b, bench_direction direction, const char *what)
{
    bench_device device = {.device = bo_device_of(b->context)};
    bo_op_call call = b->call;
    if (bo_device_is_gpu(device.device)) bench_enter(b, &device, &call);
    size_t before = b->counted ? atomic_load(&b->counted->calls) : 0;
    bench_try(b, direction(b->context, &call), what);
    size_t now = b->counted ? atomic_load(&b->counted->calls) : 0;
    if (bo_device_is_gpu(device.device)) bench_leave(b, &device);
    if (now != before) fail_msg("%s: %s allocates %zu times", b->c->name, what, now - before);
    bench_check(b, what);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* Memory for one call, requested before any operand has memory; in backward the memory that forward saved is kept. */
static inline void bench_workspaces(bench *b, bool gradients, bool backward)
{
    size_t saved = 0, scratch = 0;
    for (size_t k = 0; k < b->call.inputs; k++) b->call.in[k].data = NULL;
    for (size_t o = 0; o < b->call.outputs; o++) b->call.out[o].data = NULL;
    bench_try(b, b->op->sizes(b->context, &b->call, gradients, &saved, &scratch), "sizes");
    block_drop(&b->scratch);
    b->scratch = block_make(scratch, b->garbage, BLOCK_WRITTEN);
    if (backward && saved != b->saved.bytes)
        fail_msg("%s: %zu bytes are saved by forward, %zu for backward", b->c->name, b->saved.bytes, saved);
    if (!backward) {
        block_drop(&b->saved);
        b->saved = block_make(saved, b->garbage, BLOCK_WRITTEN);
    }
    b->call.saved = b->saved.data, b->call.scratch = b->scratch.data;
}

static inline void bench_forward(bench *b, bool gradients)
{
    for (size_t k = 0; k < b->call.inputs; k++) b->call.din[k] = NULL, b->call.add[k] = false;
    for (size_t o = 0; o < b->call.outputs; o++) b->call.dout[o] = NULL;
    bench_workspaces(b, gradients, false);
    for (size_t k = 0; k < b->call.inputs; k++) b->call.in[k].data = b->in[k].data;
    for (size_t o = 0; o < b->call.outputs; o++) {
        b->call.out[o].data = b->out[o].data;
        memset(b->out[o].data, BLOCK_POISON, b->out[o].bytes);
    }
    bench_call(b, b->op->forward, "forward");
}

/* Bit masks: requested gradients, accumulated gradients, outputs with a gradient. Operands that backward declares as
 * unread are absent. */
static inline void bench_backward(bench *b, unsigned requested, unsigned added, unsigned given)
{
    for (size_t k = 0; k < b->call.inputs; k++) {
        b->call.din[k] = requested >> k & 1 ? b->din[k].data : NULL;
        b->call.add[k] = added >> k & 1;
    }
    for (size_t o = 0; o < b->call.outputs; o++) b->call.dout[o] = given >> o & 1 ? b->dout[o].data : NULL;
    bench_workspaces(b, true, true);
    for (size_t k = 0; k < b->call.inputs; k++)
        b->call.in[k].data = b->op->reads_inputs >> k & 1 ? b->in[k].data : NULL;
    for (size_t o = 0; o < b->call.outputs; o++) {
        bool present = b->op->reads_outputs >> o & 1 || b->op->forward_in_backward;
        b->call.out[o].data = present ? b->out[o].data : NULL;
        if (b->op->forward_in_backward) memset(b->out[o].data, BLOCK_POISON, b->out[o].bytes);
        block_remember(&b->out[o]);
    }
    bench_call(b, b->op->backward, "backward");
    for (size_t o = 0; !b->op->forward_in_backward && o < b->call.outputs; o++)
        block_same(&b->out[o], b->c->name, "an output in backward");
}

#endif
