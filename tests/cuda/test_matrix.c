/* Linear layers, cross-entropy and quadratic forms on a device in bfloat16, compared with the CPU on the same rounded
 * inputs: outputs, gradients that are written and added, stored weights, logits that stay float32. */
#include <bochner/devices.h>
#include "testing.h"
#include "backend/backend.h"
#include "base/rng.h"

static bo_context *host, *device;

typedef enum law { VALUE, WEIGHT, TARGETS } law;

/* A tensor: on the device an activation is bfloat16, and a weight is float32 or in a narrow storage type. On the host
 * all are float32, with equal values. */
typedef struct operand {
    law law;
    size_t rows, columns;
    bo_element stored; /* of a weight */
} operand;

typedef struct trial {
    const char *name;
    bo_operation op;
    const void *attributes;
    size_t inputs;
    operand in[6];
    bool add;       /* gradients are added to */
    bool float_out; /* results are float32 */
} trial;

/* The call on one backend, and its results as floats. */
typedef struct outcome {
    float *out[BO_OP_OUTPUTS], *din[BO_OP_INPUTS];
} outcome;

static size_t count_of(const bo_tensor *t)
{
    return t->rows * t->columns;
}

static size_t bytes_of(bo_element element, size_t count)
{
    return count * (element == BO_ELEMENT_BFLOAT16 ? 2 : 4);
}

/* Normal samples that are exact in bfloat16. */
static float *random_floats(size_t count, double size, uint64_t seed)
{
    float *x = aligned_alloc(64, (count * sizeof *x + 63) / 64 * 64 + 64);
    uint16_t *rounded = malloc(count * sizeof *rounded + 1);
    bo_rng rng = bo_rng_make(seed, 7);
    for (size_t i = 0; i < count; i++) x[i] = (float)(size * bo_rng_normal(&rng));
    assert_ok(host, bo_backend_cpu()->narrow(host, BO_ELEMENT_BFLOAT16, 1, count, x, rounded));
    assert_ok(host, bo_backend_cpu()->widen(host, BO_ELEMENT_BFLOAT16, 1, count, rounded, x));
    free(rounded);
    return x;
}

/* ---- memory of a backend ----------------------------------------------------------------------------------------- */

static void *upload_bytes(bo_context *context, const void *from, size_t bytes)
{
    bo_device *target = bo_device_of(context);
    void *at = bo_buffer_allocate(context, target, bytes + 64, "an operand");
    assert_non_null(at);
    assert_ok(context, bo_buffer_write(context, target, at, from, bytes));
    return at;
}

static void *upload(bo_context *context, const bo_tensor *t, const float *x)
{
    const size_t bytes = bo_element_bytes(t->element, t->rows, t->columns);
    if (t->element == BO_ELEMENT_FLOAT32) return upload_bytes(context, x, bytes);
    void *narrow = malloc(bytes + 1);
    assert_ok(host, bo_backend_cpu()->narrow(host, t->element, t->rows, t->columns, x, narrow));
    void *at = upload_bytes(context, narrow, bytes);
    free(narrow);
    return at;
}

static float *download(bo_context *context, bo_element element, const void *from, size_t count)
{
    float *x = malloc(count * sizeof *x + 1);
    void *raw = malloc(bytes_of(element, count) + 1);
    assert_ok(context, bo_buffer_read(context, bo_device_of(context), raw, from, bytes_of(element, count)));
    if (element == BO_ELEMENT_BFLOAT16)
        assert_ok(host, bo_backend_cpu()->widen(host, element, 1, count, raw, x));
    else
        memcpy(x, raw, count * sizeof *x);
    free(raw);
    return x;
}

/* ---- one trial --------------------------------------------------------------------------------------------------- */

static bo_tensor tensor_of(const operand *o, bool narrow)
{
    bo_tensor t = {.element = BO_ELEMENT_FLOAT32, .rows = o->rows, .columns = o->columns};
    if (o->law == TARGETS) t.element = BO_ELEMENT_INT32;
    if (o->law == WEIGHT && narrow) t.element = o->stored;
    if (o->law == VALUE && narrow) t.element = BO_ELEMENT_BFLOAT16;
    return t;
}

/* shape() sees values as float32, as when a graph is recorded. */
static void find_shapes(bo_context *context, const bo_op *op, const trial *t, bool narrow, bo_op_call *call)
{
    for (size_t i = 0; i < t->inputs; i++) call->in[i] = tensor_of(&t->in[i], narrow && t->in[i].law == WEIGHT);
    assert_ok(context, op->shape(context, call));
    for (size_t i = 0; i < t->inputs; i++) call->in[i] = tensor_of(&t->in[i], narrow);
    for (size_t o = 0; narrow && o < call->outputs; o++)
        if (!(op->float_outputs >> o & 1) && !t->float_out) call->out[o].element = BO_ELEMENT_BFLOAT16;
}

/* Rounds values to the storage type `element`. */
static void round_to(bo_element element, const bo_tensor *t, float *x)
{
    if (element == BO_ELEMENT_FLOAT32) return;
    void *kept = malloc(bo_element_bytes(element, t->rows, t->columns));
    assert_ok(host, bo_backend_cpu()->narrow(host, element, t->rows, t->columns, x, kept));
    assert_ok(host, bo_backend_cpu()->widen(host, element, t->rows, t->columns, kept, x));
    free(kept);
}

static void fill_inputs(bo_context *context, const trial *t, bo_op_call *call)
{
    for (size_t i = 0; i < t->inputs; i++) {
        const size_t count = count_of(&call->in[i]);
        if (t->in[i].law == TARGETS) {
            int32_t *targets = malloc(count * sizeof *targets);
            for (size_t r = 0; r < count; r++) targets[r] = r % 5 == 3 ? -1 : (int32_t)(r * 7919 % t->in[1].rows);
            call->in[i].data = upload_bytes(context, targets, count * sizeof *targets);
            free(targets);
            continue;
        }
        float *x = random_floats(count, t->in[i].law == WEIGHT ? 0.3 : 1, 10 + i);
        round_to(t->in[i].law == WEIGHT ? t->in[i].stored : BO_ELEMENT_FLOAT32, &call->in[i], x);
        call->in[i].data = upload(context, &call->in[i], x);
        free(x);
        if (t->in[i].law == WEIGHT && t->in[i].stored != BO_ELEMENT_FLOAT32) continue; /* it has no gradient */
        float *before = random_floats(count, 1, 30 + i);
        call->din[i] = upload(context, &call->in[i], before);
        call->add[i] = t->add;
        free(before);
    }
}

typedef bo_status (*direction)(bo_context *context, const bo_op_call *call);

static void submit(bo_context *context, const bo_op *op, bo_op_call *call, direction go)
{
    bo_device *target = bo_device_of(context);
    size_t saved, scratch;
    assert_ok(context, op->sizes(context, call, true, &saved, &scratch));
    call->scratch = bo_buffer_allocate(context, target, scratch + 64, "scratch");
    assert_ok(context, go(context, call));
    if (bo_device_is_gpu(target)) assert_ok(context, bo_device_wait(context, target));
    bo_buffer_release(target, call->scratch);
}

static outcome run(bo_context *context, const trial *t)
{
    bo_device *target = bo_device_of(context);
    const bo_op *op = bo_backend_of(target)->ops[t->op];
    bo_op_call call = {.attributes = t->attributes, .inputs = t->inputs};
    outcome found = {0};
    find_shapes(context, op, t, context == device, &call);
    fill_inputs(context, t, &call);
    for (size_t o = 0; o < call.outputs; o++) {
        float *any = random_floats(count_of(&call.out[o]), 1, 50 + o);
        call.out[o].data = upload(context, &call.out[o], any);
        free(any);
    }
    submit(context, op, &call, op->forward);
    void *dout[BO_OP_OUTPUTS] = {0};
    for (size_t o = 0; o < call.outputs; o++) {
        found.out[o] = download(context, call.out[o].element, call.out[o].data, count_of(&call.out[o]));
        float *any = random_floats(count_of(&call.out[o]), 1, 50 + o);
        call.dout[o] = dout[o] = upload(context, &call.out[o], any);
        free(any);
    }
    submit(context, op, &call, op->backward);
    for (size_t i = 0; i < t->inputs; i++) {
        if (call.din[i]) found.din[i] = download(context, call.in[i].element, call.din[i], count_of(&call.in[i]));
        bo_buffer_release(target, call.in[i].data);
        bo_buffer_release(target, call.din[i]);
    }
    for (size_t o = 0; o < call.outputs; o++)
        bo_buffer_release(target, call.out[o].data), bo_buffer_release(target, dout[o]);
    return found;
}

static void compare(const trial *t, const char *what, size_t index, size_t count, float *found, float *expected)
{
    double error = 0, size = 1e-30;
    for (size_t i = 0; found && i < count; i++) {
        error += pow((double)found[i] - (double)expected[i], 2);
        size += pow((double)expected[i], 2);
    }
    if (!(sqrt(error) <= 0.01 * sqrt(size)))
        fail_msg("%s: %s %zu: relative error %g", t->name, what, index, sqrt(error / size));
    free(found), free(expected);
}

static void check(const trial *t)
{
    outcome expected = run(host, t), found = run(device, t);
    bo_op_call call = {.attributes = t->attributes, .inputs = t->inputs};
    find_shapes(host, bo_backend_cpu()->ops[t->op], t, false, &call);
    for (size_t o = 0; o < call.outputs; o++)
        compare(t, "output", o, count_of(&call.out[o]), found.out[o], expected.out[o]);
    for (size_t i = 0; i < t->inputs; i++)
        compare(t, "gradient", i, count_of(&call.in[i]), found.din[i], expected.din[i]);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void linear_layers(void **state)
{
    (void)state;
    const bo_linear_attributes plain = {.weights = 1},
                               residual = {.weights = 1, .bias = true, .residual = true, .scale = 0.5, .keep = 0.7},
                               many = {.weights = 2, .bias = true};
    const bo_element stored[] = {BO_ELEMENT_BFLOAT16, BO_ELEMENT_INT8, BO_ELEMENT_INT4};
    for (int add = 0; add < 2; add++) {
        check(
            &(trial){"linear", BO_OPERATION_LINEAR, &plain, 2, {{VALUE, 33, 40, 0}, {WEIGHT, 24, 40, 0}}, add, false});
        check(&(trial){"linear with a residual",
                       BO_OPERATION_LINEAR,
                       &residual,
                       4,
                       {{VALUE, 9, 17, 0}, {WEIGHT, 7, 17, 0}, {WEIGHT, 1, 7, 0}, {VALUE, 9, 7, 0}},
                       add,
                       false});
        check(&(trial){
            "two weights",
            BO_OPERATION_LINEAR,
            &many,
            5,
            {{VALUE, 130, 64, 0}, {WEIGHT, 32, 64, 0}, {WEIGHT, 40, 64, 0}, {WEIGHT, 1, 32, 0}, {WEIGHT, 1, 40, 0}},
            add,
            false});
        check(&(trial){
            "x is a weight", BO_OPERATION_LINEAR, &plain, 2, {{WEIGHT, 33, 40, 0}, {WEIGHT, 24, 40, 0}}, add, false});
        check(&(trial){
            "W is a value", BO_OPERATION_LINEAR, &plain, 2, {{VALUE, 33, 40, 0}, {VALUE, 24, 40, 0}}, add, false});
        check(&(trial){"logits", BO_OPERATION_LINEAR, &plain, 2, {{VALUE, 5, 40, 0}, {WEIGHT, 24, 40, 0}}, add, true});
    }
    for (size_t i = 0; i < 3; i++)
        for (size_t columns = 31; columns < 1100; columns += 503)
            check(&(trial){"stored weights",
                           BO_OPERATION_LINEAR,
                           &plain,
                           2,
                           {{VALUE, 3, columns, 0}, {WEIGHT, 9, columns, stored[i]}},
                           false,
                           false});
}

/* As in decoding: every way to store weights, and all parts of the formula. */
static void few_rows(void **state)
{
    (void)state;
    const bo_linear_attributes residual = {.weights = 1, .bias = true, .residual = true, .scale = 0.5, .keep = 0.7},
                               many = {.weights = 3, .bias = false};
    const bo_element stored[] = {BO_ELEMENT_FLOAT32, BO_ELEMENT_BFLOAT16, BO_ELEMENT_INT8, BO_ELEMENT_INT4};
    for (size_t i = 0; i < 4; i++)
        for (size_t rows = 1; rows <= 13; rows += 6)
            for (size_t columns = 32; columns < 3000; columns = columns * 5 + 64) {
                const operand x = {VALUE, rows, columns, 0};
                check(&(trial){"few rows",
                               BO_OPERATION_LINEAR,
                               &residual,
                               4,
                               {x, {WEIGHT, 15, columns, stored[i]}, {WEIGHT, 1, 15, 0}, {VALUE, rows, 15, 0}},
                               rows == 1,
                               columns == 32});
                check(&(trial){"few rows of three weights",
                               BO_OPERATION_LINEAR,
                               &many,
                               4,
                               {x,
                                {WEIGHT, 9, columns, stored[i]},
                                {WEIGHT, 1, columns, stored[i]},
                                {WEIGHT, 4, columns, stored[i]}},
                               false,
                               false});
            }
}

static void cross_entropies(void **state)
{
    (void)state;
    const bo_cross_entropy_attributes plain = {0}, all = {.scale = 0.6, .smoothing = 0.2, .bias = true},
                                      taught = {.teacher = 0.4, .bias = true};
    for (int add = 0; add < 2; add++) {
        check(&(trial){"cross-entropy",
                       BO_OPERATION_CROSS_ENTROPY,
                       &plain,
                       3,
                       {{VALUE, 70, 24, 0}, {WEIGHT, 517, 24, 0}, {TARGETS, 70, 1, 0}},
                       add,
                       false});
        check(&(trial){"smoothed cross-entropy",
                       BO_OPERATION_CROSS_ENTROPY,
                       &all,
                       4,
                       {{VALUE, 70, 24, 0}, {WEIGHT, 1001, 24, 0}, {TARGETS, 70, 1, 0}, {WEIGHT, 1, 1001, 0}},
                       add,
                       false});
        check(&(trial){
            "cross-entropy with a teacher",
            BO_OPERATION_CROSS_ENTROPY,
            &taught,
            5,
            {{VALUE, 40, 24, 0}, {WEIGHT, 130, 24, 0}, {TARGETS, 40, 1, 0}, {WEIGHT, 1, 130, 0}, {VALUE, 40, 24, 0}},
            add,
            false});
    }
    /* rows that fit into shared memory, and that do not, up to the vocabularies of Llama 3 and Gemma 3 */
    static const size_t classes[] = {9001, 59001, 128256, 262144};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        check(&(trial){"cross-entropy of many classes",
                       BO_OPERATION_CROSS_ENTROPY,
                       &plain,
                       3,
                       {{VALUE, 6, 8, 0}, {WEIGHT, classes[i], 8, 0}, {TARGETS, 6, 1, 0}},
                       false,
                       false});
        check(&(trial){"cross-entropy of many classes with a teacher",
                       BO_OPERATION_CROSS_ENTROPY,
                       &taught,
                       5,
                       {{VALUE, 3, 8, 0},
                        {WEIGHT, classes[i], 8, 0},
                        {TARGETS, 3, 1, 0},
                        {WEIGHT, 1, classes[i], 0},
                        {VALUE, 3, 8, 0}},
                       false,
                       false});
    }
    check(&(trial){"stored weights",
                   BO_OPERATION_CROSS_ENTROPY,
                   &plain,
                   3,
                   {{VALUE, 20, 24, 0}, {WEIGHT, 517, 24, BO_ELEMENT_BFLOAT16}, {TARGETS, 20, 1, 0}},
                   false,
                   false});
}

static void quadratic_forms(void **state)
{
    (void)state;
    for (int add = 0; add < 2; add++)
        check(&(trial){
            "quadratic", BO_OPERATION_QUADRATIC, NULL, 2, {{VALUE, 21, 13, 0}, {WEIGHT, 6, 169, 0}}, add, false});
}

int main(void)
{
    if (!getenv("BOCHNER_CUDA")) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_layers),
        cmocka_unit_test(few_rows),
        cmocka_unit_test(cross_entropies),
        cmocka_unit_test(quadratic_forms),
    };
    host = test_context(1);
    if (bo_context_create(&(bo_context_desc){.threads = 1, .precision = BO_PRECISION_BFLOAT16}, &device) != BO_OK)
        return 1;
    assert_ok(device, bo_context_use_device(device, "cuda"));
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bo_context_destroy(device);
    bo_context_destroy(host);
    return failed;
}
