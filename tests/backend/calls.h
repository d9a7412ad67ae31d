/* Calls of single operations with their memory. */
#ifndef BO_TEST_BACKEND_CALLS_H
#define BO_TEST_BACKEND_CALLS_H

#include "testing.h"
#include "backend/backend.h"

static const bo_graph_pass no_pass = {0};

static inline float *test_floats(size_t count, float value)
{
    float *x = malloc((count + 1) * sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = value;
    return x;
}

static inline float *test_normals(size_t count, uint64_t stream)
{
    float *x = test_floats(count, 0);
    bo_rng rng = bo_rng_make(17, stream);
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(&rng);
    return x;
}

/* A call in progress: the caller owns the inputs; the call owns outputs, gradients, saved and scratch. */
typedef struct test_call {
    const bo_op *op;
    bo_op_call call;
    float *dout[BO_OP_OUTPUTS];
} test_call;

static inline void test_input(test_call *t, void *data, bo_element element, size_t rows, size_t columns)
{
    t->call.in[t->call.inputs++] = (bo_tensor){data, element, rows, columns};
}

/* Garbage (NaN) followed by a guard; the size is stored before it. */
enum { TEST_GUARD = 64 };

static inline void *test_allocate(size_t bytes)
{
    char *memory = aligned_alloc(64, TEST_GUARD + (bytes + 63) / 64 * 64 + TEST_GUARD);
    memcpy(memory, &bytes, sizeof bytes);
    memset(memory + TEST_GUARD, 0xff, bytes + TEST_GUARD);
    return memory + TEST_GUARD;
}

static inline void test_leave(void *memory)
{
    if (!memory) return;
    size_t bytes;
    memcpy(&bytes, (char *)memory - TEST_GUARD, sizeof bytes);
    for (size_t i = 0; i < TEST_GUARD; i++) assert_int_equal(((unsigned char *)memory)[bytes + i], 0xff);
    free((char *)memory - TEST_GUARD);
}

static inline test_call test_begin(bo_operation kind, const void *attributes)
{
    test_call t = {.op = bo_backend_cpu()->ops[kind]};
    assert_non_null(t.op);
    t.call.attributes = attributes;
    t.call.pass = &no_pass;
    return t;
}

static inline void test_forward(bo_context *context, test_call *t, bool gradients)
{
    size_t saved, scratch;
    assert_ok(context, t->op->shape(context, &t->call));
    assert_ok(context, t->op->sizes(context, &t->call, gradients, &saved, &scratch));
    t->call.saved = gradients ? test_allocate(saved) : NULL;
    t->call.scratch = test_allocate(scratch);
    for (size_t i = 0; i < t->call.outputs; i++)
        t->call.out[i].data = test_allocate(t->call.out[i].rows * t->call.out[i].columns * sizeof(float));
    assert_ok(context, t->op->forward(context, &t->call));
    test_leave(t->call.scratch);
    t->call.scratch = NULL;
}

/* dout NULL means ones. Computes gradients of every float input; `add`: added to ones. */
static inline void test_backward(bo_context *context, test_call *t, const float *dout, bool add)
{
    size_t saved, scratch, count = t->call.out[0].rows * t->call.out[0].columns;
    t->dout[0] = test_floats(count, 1);
    if (dout) memcpy(t->dout[0], dout, count * sizeof *dout);
    t->call.dout[0] = t->dout[0];
    for (size_t i = 0; i < t->call.inputs; i++) {
        size_t floats = t->call.in[i].rows * t->call.in[i].columns;
        if (t->call.in[i].element == BO_ELEMENT_INT32) continue;
        free(t->call.din[i]);
        t->call.din[i] = test_floats(floats, add ? 1 : NAN);
        t->call.add[i] = add;
    }
    assert_ok(context, t->op->sizes(context, &t->call, true, &saved, &scratch));
    t->call.scratch = test_allocate(scratch);
    assert_ok(context, t->op->backward(context, &t->call));
    test_leave(t->call.scratch);
    t->call.scratch = NULL;
}

static inline void test_end(test_call *t)
{
    for (size_t i = 0; i < t->call.inputs; i++) free(t->call.din[i]);
    for (size_t i = 0; i < t->call.outputs; i++) test_leave(t->call.out[i].data);
    free(t->dout[0]);
    test_leave(t->call.saved);
}

static inline float *test_out(const test_call *t)
{
    return t->call.out[0].data;
}

static inline size_t test_out_bytes(const test_call *t)
{
    return t->call.out[0].rows * t->call.out[0].columns * sizeof(float);
}

#endif
