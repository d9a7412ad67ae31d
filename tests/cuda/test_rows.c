/* Operations on rows and elements on a device in bfloat16, compared with the CPU in float32 on the same rounded inputs.
 * Values are BFLOAT16 and weights FLOAT32, as in a graph. */
#include <bochner/devices.h>
#include <math.h>
#include "testing.h"
#include "backend/backend.h"
#include "base/rng.h"

enum { MAX = 5, LAYERS = 1 };

static bo_context *host, *device;

typedef enum origin { NONE = 0, VALUE, WEIGHT, INDEX } origin;

/* An input: INDEX has integers below `below`. */
typedef struct operand {
    origin origin;
    size_t rows, columns;
    int32_t below;
} operand;

typedef struct trial {
    const char *name;
    bo_operation op;
    const void *attributes;
    operand in[MAX];
    bool training, loss,
        adds_evenly; /* adds_evenly: gradients of even inputs are accumulated, gradients of odd inputs are not */
} trial;

typedef struct results {
    size_t out_count, counts[MAX];
    float *out, *d[MAX];
} results;

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static size_t count_of(const operand *o)
{
    return o->rows * o->columns;
}

static bo_element element_of(bo_context *context, origin from)
{
    if (from == INDEX) return BO_ELEMENT_INT32;
    return from == VALUE && context == device ? BO_ELEMENT_BFLOAT16 : BO_ELEMENT_FLOAT32;
}

static size_t bytes_of(bo_element element, size_t count)
{
    return count * (element == BO_ELEMENT_BFLOAT16 ? 2 : 4);
}

/* Values that are exact in bfloat16, or integers. */
static void *numbers(const operand *o, uint64_t seed)
{
    const size_t count = count_of(o);
    float *x = malloc(count * sizeof *x + 64);
    uint16_t *rounded = malloc(count * sizeof *rounded + 64);
    bo_rng rng = bo_rng_make(seed, 11);
    for (size_t i = 0; i < count; i++)
        if (o->origin == INDEX)
            ((int32_t *)x)[i] = (int32_t)bo_rng_below(&rng, (uint64_t)o->below);
        else
            x[i] = (float)bo_rng_normal(&rng);
    if (o->origin != INDEX) {
        assert_ok(host, bo_backend_cpu()->narrow(host, BO_ELEMENT_BFLOAT16, 1, count, x, rounded));
        assert_ok(host, bo_backend_cpu()->widen(host, BO_ELEMENT_BFLOAT16, 1, count, rounded, x));
    }
    free(rounded);
    return x;
}

/* Backend memory with these values; x NULL: not written. */
static void *upload(bo_context *context, bo_element element, const void *x, size_t count)
{
    bo_device *target = bo_device_of(context);
    void *at = bo_buffer_allocate(context, target, bytes_of(element, count) + 64, "an operand");
    assert_non_null(at);
    if (!x) return at;
    void *rounded = malloc(bytes_of(element, count) + 64);
    if (element == BO_ELEMENT_BFLOAT16)
        assert_ok(host, bo_backend_cpu()->narrow(host, element, 1, count, x, rounded));
    else
        memcpy(rounded, x, bytes_of(element, count));
    assert_ok(context, bo_buffer_write(context, target, at, rounded, bytes_of(element, count)));
    free(rounded);
    return at;
}

static float *download(bo_context *context, bo_element element, const void *from, size_t count)
{
    float *x = malloc(count * sizeof *x + 64);
    void *rounded = malloc(bytes_of(element, count) + 64);
    assert_ok(context, bo_buffer_read(context, bo_device_of(context), rounded, from, bytes_of(element, count)));
    if (element == BO_ELEMENT_BFLOAT16)
        assert_ok(host, bo_backend_cpu()->widen(host, element, 1, count, rounded, x));
    else
        memcpy(x, rounded, bytes_of(element, count));
    free(rounded);
    return x;
}

/* ---- one call ---------------------------------------------------------------------------------------------------- */

typedef bo_status (*direction)(bo_context *context, const bo_op_call *call);

static void submit(bo_context *context, const bo_op *op, bo_op_call *call, direction go)
{
    bo_device *target = bo_device_of(context);
    size_t saved, scratch;
    bool moved;
    bo_staged *staged = NULL;
    assert_ok(context, op->sizes(context, call, true, &saved, &scratch));
    if (saved && !call->saved) call->saved = bo_buffer_allocate(context, target, saved, "saved");
    call->scratch = bo_buffer_allocate(context, target, scratch + 64, "scratch");
    if (bo_device_is_gpu(target))
        assert_ok(context, bo_backend_of(target)->stage(context, call->pass, LAYERS, 0, &staged, &moved));
    call->staged = staged;
    assert_ok(context, go(context, call));
    if (bo_device_is_gpu(target)) assert_ok(context, bo_device_wait(context, target));
    if (bo_device_is_gpu(target)) bo_backend_of(target)->unstage(staged);
    bo_buffer_release(target, call->scratch);
}

/* Forward and backward, with gradients that are added to for every other input. */
static results run(bo_context *context, const trial *t)
{
    bo_device *target = bo_device_of(context);
    const bo_op *op = bo_backend_of(target)->ops[t->op];
    const bo_graph_pass pass = {.training = t->training, .seed = 99};
    bo_op_call call = {.attributes = t->attributes, .pass = &pass};
    results r = {0};
    while (call.inputs < MAX && t->in[call.inputs].origin) call.inputs++;
    for (size_t i = 0; i < call.inputs; i++) {
        const operand *o = &t->in[i];
        call.in[i] = (bo_tensor){NULL, o->origin == INDEX ? BO_ELEMENT_INT32 : BO_ELEMENT_FLOAT32, o->rows, o->columns};
    }
    assert_ok(context, op->shape(context, &call));
    call.out[0].element = element_of(context, t->loss ? WEIGHT : VALUE);
    r.out_count = call.out[0].rows * call.out[0].columns;
    call.out[0].data = upload(context, call.out[0].element, NULL, r.out_count);
    for (size_t i = 0; i < call.inputs; i++) {
        void *x = numbers(&t->in[i], i + 1);
        call.in[i].element = element_of(context, t->in[i].origin);
        call.in[i].data = upload(context, call.in[i].element, x, count_of(&t->in[i]));
        free(x);
    }
    submit(context, op, &call, op->forward);
    r.out = download(context, call.out[0].element, call.out[0].data, r.out_count);
    float *dy = numbers(&(operand){VALUE, 1, r.out_count, 0}, 77);
    call.dout[0] = upload(context, call.out[0].element, dy, r.out_count);
    for (size_t i = 0; i < call.inputs; i++) {
        if (t->in[i].origin == INDEX) continue;
        float *before = numbers(&t->in[i], 5);
        call.din[i] = upload(context, call.in[i].element, before, count_of(&t->in[i]));
        call.add[i] = i % 2 == (t->adds_evenly ? 0 : 1);
        free(before);
    }
    submit(context, op, &call, op->backward);
    for (size_t i = 0; i < call.inputs; i++) {
        if (call.din[i]) r.counts[i] = count_of(&t->in[i]);
        if (call.din[i]) r.d[i] = download(context, call.in[i].element, call.din[i], r.counts[i]);
        bo_buffer_release(target, call.din[i]);
        bo_buffer_release(target, call.in[i].data);
    }
    bo_buffer_release(target, (void *)(uintptr_t)call.dout[0]);
    bo_buffer_release(target, call.out[0].data);
    bo_buffer_release(target, call.saved);
    free(dy);
    return r;
}

static void results_drop(results *r)
{
    free(r->out);
    for (size_t i = 0; i < MAX; i++) free(r->d[i]);
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

static void compare(const trial *t, const char *what, size_t count, const float *found, const float *expected)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        error += pow((double)found[i] - (double)expected[i], 2);
        size += pow((double)expected[i], 2);
        if (t->op == BO_OPERATION_DROPOUT && (found[i] == 0) != (expected[i] == 0))
            fail_msg("%s: the mask of %s differs from that of the CPU at %zu", t->name, what, i);
    }
    if (!(sqrt(error) <= 1e-2 * sqrt(size)))
        fail_msg("%s: %s has a relative error of %g", t->name, what, sqrt(error / size));
}

static void check(const trial *t)
{
    results expected = run(host, t), found = run(device, t), again = run(device, t);
    compare(t, "the output", found.out_count, found.out, expected.out);
    assert_memory_equal(found.out, again.out, found.out_count * sizeof(float));
    for (size_t i = 0; i < MAX; i++) {
        char what[64];
        snprintf(what, sizeof what, "gradient %zu", i);
        if (!found.counts[i]) continue;
        compare(t, what, found.counts[i], found.d[i], expected.d[i]);
        assert_memory_equal(found.d[i], again.d[i], found.counts[i] * sizeof(float));
    }
    results_drop(&expected), results_drop(&found), results_drop(&again);
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */

static void tables(void **state)
{
    (void)state;
    const bo_position_attributes learned = {BO_POSITION_KIND_LEARNED}, waves = {BO_POSITION_KIND_SINUSOIDAL};
    const trial trials[] = {
        {"embed", BO_OPERATION_EMBED, NULL, .in = {{INDEX, 70, 1, 40}, {WEIGHT, 40, 24, 0}}},
        {"embed, odd columns", BO_OPERATION_EMBED, NULL, .in = {{INDEX, 70, 1, 3}, {WEIGHT, 40, 13, 0}}},
        {"embed, many tokens", BO_OPERATION_EMBED, NULL, .in = {{INDEX, 2500, 1, 70000}, {WEIGHT, 70000, 8, 0}}},
        {"embed, one row", BO_OPERATION_EMBED, NULL, .in = {{INDEX, 1100, 1, 1}, {WEIGHT, 9, 264, 0}}},
        {"rows of a value", BO_OPERATION_EMBED, NULL, .in = {{INDEX, 30, 1, 20}, {VALUE, 20, 16, 0}}},
        {"learned", BO_OPERATION_POSITION, &learned,
         .in = {{VALUE, 90, 16, 0}, {INDEX, 90, 1, 30}, {WEIGHT, 30, 16, 0}}},
        {"sinusoids", BO_OPERATION_POSITION, &waves, .in = {{VALUE, 9, 272, 0}, {INDEX, 9, 1, 100000}}},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) check(&trials[i]);
}

static void norms(void **state)
{
    (void)state;
    static const size_t widths[] = {3, 16, 64, 100, 136, 264, 768, 1000, 1024, 1040, 4096, 8192};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int kind = 0; kind < 2; kind++) {
            const size_t width = widths[w];
            const bo_norm_attributes a = {kind ? BO_NORM_LAYER : BO_NORM_RMS, .width = width, .epsilon = 1e-5,
                                          .gain = true, .bias = kind};
            trial t = {"norm", BO_OPERATION_NORM, &a, .in = {{VALUE, 101, width, 0}, {WEIGHT, 1, width, 0}}};
            if (kind) t.in[2] = (operand){WEIGHT, 1, width, 0};
            if (width > 1000) t.in[0].rows = 5;
            check(&t);
            t.adds_evenly = true;
            check(&t);
        }
}

/* One column more than the largest norm. */
static void wider_norms_are_refused(void **state)
{
    (void)state;
    const bo_norm_attributes a = {.width = 8193, .epsilon = 1e-5};
    bo_op_call call = {.attributes = &a, .inputs = 1, .in = {{NULL, BO_ELEMENT_FLOAT32, 2, a.width}}};
    assert_fails(device, BO_UNSUPPORTED, "norm: groups of 8193 columns, on GPUs at most 8192; use the CPU",
                 bo_backend_of(bo_device_of(device))->ops[BO_OPERATION_NORM]->shape(device, &call));
}

static void turns(void **state)
{
    (void)state;
    const bo_rope_attributes halves = {.dim = 64}, neighbors = {.dim = 32, .layout = BO_ROPE_LAYOUT_NEIGHBORS},
                             some = {.dim = 12, .rotated = 6}, wide = {.dim = 160};
    const trial trials[] = {
        {"rope", BO_OPERATION_ROPE, &halves, .in = {{VALUE, 40, 192, 0}, {INDEX, 40, 1, 5000}}},
        {"rope of neighbors", BO_OPERATION_ROPE, &neighbors, .in = {{VALUE, 40, 64, 0}, {INDEX, 40, 1, 5000}}},
        {"rope of wide heads", BO_OPERATION_ROPE, &wide, .in = {{VALUE, 9, 160, 0}, {INDEX, 9, 1, 5000}}},
        {"rope of some columns", BO_OPERATION_ROPE, &some, .in = {{VALUE, 40, 24, 0}, {INDEX, 40, 1, 5000}}},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) check(&trials[i]);
}

static void curves(void **state)
{
    (void)state;
    for (int f = 0; f < BO_UNARY_COUNT; f++) {
        const bo_unary_attributes a = {(bo_unary)f, .factor = 2, .offset = 0.25}, gate = {(bo_unary)f, .factor = 0.5};
        check(&(trial){"unary", BO_OPERATION_UNARY, &a, .in = {{VALUE, 37, 11, 0}}});
        check(&(trial){"unary of a weight", BO_OPERATION_UNARY, &a, .in = {{WEIGHT, 1, 16, 0}}});
        check(&(trial){"glu", BO_OPERATION_GLU, &gate, .in = {{VALUE, 37, 11, 0}, {VALUE, 37, 11, 0}}});
        check(&(trial){"unary of octets", BO_OPERATION_UNARY, &a, .in = {{VALUE, 80, 72, 0}}, .adds_evenly = true});
        check(&(trial){"glu of octets", BO_OPERATION_GLU, &gate, .in = {{VALUE, 80, 72, 0}, {VALUE, 80, 72, 0}}});
    }
}

static void random_numbers(void **state)
{
    (void)state;
    const bo_dropout_attributes drop = {.rate = 0.3, .stream = 4};
    const bo_noise_attributes normal = {BO_NOISE_NORMAL, .amount = 0.5, .stream = 9},
                              mask = {BO_NOISE_MASK, .amount = 0.5, .stream = 9},
                              rows = {BO_NOISE_ROWS, .amount = 0.5, .stream = 9};
    const trial trials[] = {
        {"dropout", BO_OPERATION_DROPOUT, &drop, .in = {{VALUE, 63, 33, 0}}, .training = true},
        {"dropout of octets", BO_OPERATION_DROPOUT, &drop, .in = {{VALUE, 80, 72, 0}}, .training = true},
        {"no dropout", BO_OPERATION_DROPOUT, &drop, .in = {{VALUE, 63, 33, 0}}},
        {"noise", BO_OPERATION_NOISE, &normal, .in = {{VALUE, 63, 33, 0}}, .training = true},
        {"masked numbers", BO_OPERATION_NOISE, &mask, .in = {{VALUE, 63, 33, 0}}, .training = true},
        {"masked rows", BO_OPERATION_NOISE, &rows, .in = {{VALUE, 63, 33, 0}}, .training = true},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) check(&trials[i]);
}

static void other_operations(void **state)
{
    (void)state;
    const bo_product_attributes powers = {.first = 1, .second = 2, .third = 1.5};
    const bo_reshape_attributes columns = {.columns = 15};
    const bo_round_attributes formats = {BO_SMALL_FLOAT_BF16, BO_SMALL_FLOAT_BF16};
    const bo_batch_norm_attributes batch = {.epsilon = 1e-3};
    const bo_axis_windows axis = {.size = 6, .kernel = 3, .stride = 2, .before = 1, .after = 1};
    const bo_pool_attributes largest = {{axis, axis}, BO_POOL_KIND_MAX}, mean = {{axis, axis}, BO_POOL_KIND_MEAN};
    const operand one = {WEIGHT, 1, 24, 0};
    const trial trials[] = {
        {"add", BO_OPERATION_ADD, NULL, .in = {{VALUE, 9, 13, 0}, {WEIGHT, 9, 13, 0}}},
        {"scale", BO_OPERATION_SCALE, NULL, .in = {{VALUE, 300, 24, 0}, {WEIGHT, 1, 24, 0}}},
        {"scale rows", BO_OPERATION_SCALE, NULL, .in = {{VALUE, 300, 24, 0}, {VALUE, 300, 1, 0}}},
        {"product", BO_OPERATION_PRODUCT, &powers, .in = {{VALUE, 9, 13, 0}, {VALUE, 9, 13, 0}, {WEIGHT, 9, 13, 0}}},
        {"reshape", BO_OPERATION_RESHAPE, &columns, .in = {{VALUE, 9, 5, 0}}},
        {"round", BO_OPERATION_ROUND, &formats, .in = {{VALUE, 9, 5, 0}}},
        {"concat", BO_OPERATION_CONCAT, NULL, .in = {{VALUE, 9, 16, 0}, {WEIGHT, 9, 8, 0}, {VALUE, 9, 3, 0}}},
        {"batch norm", BO_OPERATION_BATCH_NORM, &batch, .in = {{VALUE, 300, 24, 0}, one, one, one, one},
         .training = true},
        {"largest", BO_OPERATION_POOL, &largest, .in = {{VALUE, 72, 5, 0}}},
        {"mean", BO_OPERATION_POOL, &mean, .in = {{VALUE, 72, 5, 0}}},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) check(&trials[i]);
}

static void losses(void **state)
{
    (void)state;
    static const char *const names[] = {"mse", "l1", "bce", "kl", "relative"};
    for (int kind = 0; kind <= BO_LOSS_KIND_RELATIVE; kind++) {
        const bo_loss_attributes a = {(bo_loss_kind)kind};
        check(
            &(trial){names[kind], BO_OPERATION_LOSS, &a, .in = {{VALUE, 30, 77, 0}, {VALUE, 30, 77, 0}}, .loss = true});
    }
}

/* An index outside the table produces NaNs and no gradient. */
static void rows_that_do_not_exist(void **state)
{
    (void)state;
    const trial t = {"embed", BO_OPERATION_EMBED, NULL, .in = {{INDEX, 20, 1, 12}, {WEIGHT, 10, 8, 0}}};
    int32_t *index = numbers(&t.in[0], 1);
    results r = run(device, &t);
    for (size_t i = 0; i < 20; i++) assert_int_equal(isnan(r.out[i * 8]) != 0, index[i] >= 10);
    for (size_t i = 0; i < r.counts[1]; i++) assert_true(isfinite(r.d[1][i]));
    results_drop(&r);
    free(index);
}

static int begin(void **state)
{
    (void)state;
    host = test_context(2);
    device = test_context(2);
    assert_ok(device, bo_context_use_device(device, "cuda"));
    return 0;
}

static int end(void **state)
{
    (void)state;
    bo_context_destroy(host);
    bo_context_destroy(device);
    return 0;
}

int main(void)
{
    if (!getenv("BOCHNER_CUDA")) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),
        cmocka_unit_test(norms),
        cmocka_unit_test(wider_norms_are_refused),
        cmocka_unit_test(turns),
        cmocka_unit_test(curves),
        cmocka_unit_test(losses),
        cmocka_unit_test(random_numbers),
        cmocka_unit_test(other_operations),
        cmocka_unit_test(rows_that_do_not_exist),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
