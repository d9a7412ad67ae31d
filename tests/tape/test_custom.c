/* The public graph: custom operations compared with finite differences and built-in ones, gradients of inputs and
 * results, attributes of other sizes, and errors, which must be reported without crashes. Uses public headers only. */
#include <bochner/optim.h>
#include "base/rng.h"
#include "tape/enums.h"
#include "../base/counting.h"

enum { ROWS = 5, COLUMNS = 7, SIZE = ROWS * COLUMNS };

typedef struct fixture {
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
    bo_value x, w, loss;
} fixture;

static fixture begin(int threads)
{
    fixture f = {.context = test_context(threads)};
    assert_ok(f.context, bo_weights_create(f.context, &f.weights));
    assert_ok(f.context, bo_graph_create(f.context, f.weights, &f.graph));
    f.x = bo_graph_input(f.graph, "x", BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
    f.w = bo_graph_weight(f.graph, &(bo_weight_desc){.name = "w",
                                                     .rank = 2,
                                                     .shape = (size_t[]){ROWS, COLUMNS},
                                                     .init = {BO_WEIGHT_INIT_KIND_NORMAL, 0, 1}});
    return f;
}

static void end(fixture *f)
{
    bo_graph_destroy(f->graph);
    bo_weights_destroy(f->weights);
    bo_context_destroy(f->context);
}

static void number(float *x, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) x[i] = (float)((double)(bo_hash(seed, i) >> 11) * 0x1p-52 - 1);
}

/* The mean of y² over all of y, as a number to differentiate. */
static bo_value mean_square(fixture *f, bo_value y)
{
    bo_value zero =
        bo_graph_input(f->graph, "zero", BO_ELEMENT_FLOAT32, bo_graph_rows(f->graph, y), bo_graph_columns(f->graph, y));
    return bo_graph_loss(f->graph, BO_LOSS_KIND_MSE, y, zero);
}

static void prepare(fixture *f, const bo_graph_compile_desc *desc)
{
    float numbers[SIZE];
    assert_ok(f->context, bo_graph_compile(f->context, f->graph, desc));
    assert_ok(f->context, bo_weights_allocate(f->context, f->weights, true));
    assert_ok(f->context, bo_weights_init(f->context, f->weights, 1));
    assert_ok(f->context, bo_graph_allocate(f->context, f->graph));
    number(numbers, SIZE, 1);
    assert_ok(f->context, bo_graph_write(f->context, f->graph, f->x, numbers));
}

static double run(fixture *f)
{
    float loss;
    assert_ok(f->context, bo_weights_zero_gradients(f->context, f->weights));
    assert_ok(f->context, bo_graph_run(f->context, f->graph, NULL));
    assert_ok(f->context, bo_graph_read(f->context, f->graph, f->loss, &loss));
    return (double)loss;
}

/* ---- y = a x sin w: cos w is saved, and threads share the work --------------------------------------------------- */

typedef struct sine_attributes {
    double a;
} sine_attributes;

static bo_status sine_sizes(bo_context *context, const bo_operation_call *call, bool gradients, size_t *saved,
                            size_t *scratch)
{
    (void)context;
    *saved = gradients ? call->in[0].rows * call->in[0].columns * sizeof(float) : 0;
    *scratch = 64;
    return BO_OK;
}

static void sine_range(void *user, size_t first, size_t last)
{
    const bo_operation_call *call = user;
    const sine_attributes *a = call->attributes;
    const float *x = call->in[0].data, *w = call->in[1].data;
    for (size_t i = first; i < last; i++) {
        ((float *)call->out[0].data)[i] = (float)a->a * x[i] * sinf(w[i]);
        if (call->saved) ((float *)call->saved)[i] = cosf(w[i]);
    }
}

static bo_status sine_forward(bo_context *context, const bo_operation_call *call)
{
    assert_true((uintptr_t)call->attributes % 64 == 0);
    assert_non_null(call->scratch);
    assert_null(call->din);
    bo_operation_call copy = *call;
    bo_context_parallel(context, call->in[0].rows * call->in[0].columns, 4, sine_range, &copy);
    return BO_OK;
}

static bo_status sine_backward(bo_context *context, const bo_operation_call *call)
{
    const sine_attributes *a = call->attributes;
    const float *x = call->in[0].data, *w = call->in[1].data, *cosine = call->saved;
    (void)context;
    assert_null(call->out[0].data); /* it declared that it does not read this */
    for (size_t i = 0; i < call->in[0].rows * call->in[0].columns; i++) {
        if (call->din[0]) call->din[0][i] += (float)a->a * sinf(w[i]) * call->dout[0][i];
        if (call->din[1]) call->din[1][i] += (float)a->a * x[i] * cosine[i] * call->dout[0][i];
    }
    return BO_OK;
}

static double sine_operations(const bo_operation_call *call)
{
    return 3 * (double)call->in[0].rows * (double)call->in[0].columns;
}

static const bo_operation_desc sine = {.name = "sine",
                                       .inputs = 2,
                                       .sizes = sine_sizes,
                                       .forward = sine_forward,
                                       .backward = sine_backward,
                                       .operations = sine_operations,
                                       .unread_outputs = 1};

/* Central differences of the float loss with step h have an error of h² f''' / 6 plus ε |loss| / h; with |loss| < 4 and
 * derivatives below 10 that is at most 2e-4 for h = 2^-7. */
static void gradients_match_finite_differences(void **state)
{
    (void)state;
    const double h = 0x1p-7;
    for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
        fixture f = begin(2);
        float x[SIZE], w[SIZE], dx[SIZE], dw[SIZE], dy[SIZE], same[SIZE];
        bo_graph_segment(f.graph, true);
        bo_value y = bo_graph_apply_custom(f.graph, &sine, &(sine_attributes){1.5}, sizeof(sine_attributes), 2,
                                           (bo_value[]){f.x, f.w});
        y = bo_graph_apply_custom(f.graph, &sine, &(sine_attributes){0.5}, sizeof(sine_attributes), 2,
                                  (bo_value[]){y, f.w});
        bo_graph_segment(f.graph, false);
        bo_value sum = bo_graph_add(f.graph, bo_graph_multiply(f.graph, y, f.x), f.w); /* w and x are used twice */
        f.loss = mean_square(&f, sum);
        bo_graph_keep_gradient(f.graph, f.x);
        bo_graph_keep_gradient(f.graph, sum);
        bo_graph_compile_desc desc = {.loss = f.loss, .gradients = true, .checkpoint = checkpoint};
        prepare(&f, &desc);
        run(&f);
        assert_close(bo_graph_describe(f.graph)->flops, 3 * 2 * 3 * SIZE,
                     3 * SIZE * 3); /* in addition to the product */
        assert_ok(f.context, bo_graph_read_gradient(f.context, f.graph, f.x, dx));
        assert_ok(f.context, bo_graph_read_gradient(f.context, f.graph, f.w, dw));
        assert_ok(f.context, bo_graph_read_gradient(f.context, f.graph, sum, dy));
        assert_ok(f.context, bo_weights_get(f.context, f.weights, "w", NULL, same));
        assert_memory_equal(dw, same, sizeof dw);
        assert_ok(f.context, bo_weights_get(f.context, f.weights, "w", w, NULL));
        number(x, SIZE, 1);
        for (size_t i = 0; i < SIZE; i++) { /* the gradient of the mean of squares: 2 y / n */
            double inner = 1.5 * (double)x[i] * sin((double)w[i]), outer = 0.5 * inner * sin((double)w[i]);
            assert_close(dy[i], 2 * (outer * (double)x[i] + (double)w[i]) / SIZE, 1e-6);
        }
        for (size_t i = 0; i < 2 * SIZE; i++) {
            float *at = i < SIZE ? &x[i] : &w[i - SIZE], before = *at;
            double sides[2];
            for (int s = 0; s < 2; s++) {
                *at = before + (float)(s ? h : -h);
                assert_ok(f.context, bo_graph_write(f.context, f.graph, f.x, x));
                assert_ok(f.context, bo_weights_set(f.context, f.weights, "w", w));
                sides[s] = run(&f);
            }
            *at = before;
            assert_close(i < SIZE ? dx[i] : dw[i - SIZE], (sides[1] - sides[0]) / (2 * h), 2e-4);
        }
        end(&f);
    }
}

/* ---- silu(a) b, which the library also has ----------------------------------------------------------------------- */

static bo_status product_forward(bo_context *context, const bo_operation_call *call)
{
    (void)context;
    const float *a = call->in[0].data, *b = call->in[1].data;
    for (size_t i = 0; i < call->in[0].rows * call->in[0].columns; i++) ((float *)call->out[0].data)[i] = a[i] * b[i];
    return BO_OK;
}

static bo_status product_backward(bo_context *context, const bo_operation_call *call)
{
    (void)context;
    const float *in[2] = {call->in[0].data, call->in[1].data};
    for (size_t j = 0; j < 2; j++)
        for (size_t i = 0; call->din[j] && i < call->in[0].rows * call->in[0].columns; i++)
            call->din[j][i] += call->dout[0][i] * in[1 - j][i];
    return BO_OK;
}

static const bo_operation_desc product = {
    .name = "my product", .inputs = 2, .forward = product_forward, .backward = product_backward};

static void a_built_in_operation_can_be_rebuilt_to_the_bit(void **state)
{
    (void)state;
    float values[2][SIZE], dx[2][SIZE], dw[2][SIZE];
    for (int custom = 0; custom < 2; custom++) {
        fixture f = begin(3);
        bo_value y = custom ? bo_graph_apply_custom(f.graph, &product, NULL, 0, 2, (bo_value[]){f.x, f.w})
                            : bo_graph_multiply(f.graph, f.x, f.w);
        bo_graph_keep(f.graph, y);
        bo_graph_keep_gradient(f.graph, f.x);
        f.loss = mean_square(&f, bo_graph_unary(f.graph, BO_UNARY_TANH, y));
        prepare(&f, &(bo_graph_compile_desc){.loss = f.loss, .gradients = true});
        run(&f);
        assert_ok(f.context, bo_graph_read(f.context, f.graph, y, values[custom]));
        assert_ok(f.context, bo_graph_read_gradient(f.context, f.graph, f.x, dx[custom]));
        assert_ok(f.context, bo_graph_read_gradient(f.context, f.graph, f.w, dw[custom]));
        end(&f);
    }
    assert_memory_equal(values[0], values[1], sizeof *values);
    assert_memory_equal(dx[0], dx[1], sizeof *dx);
    assert_memory_equal(dw[0], dw[1], sizeof *dw);
}

/* ---- kept gradients ---------------------------------------------------------------------------------------------- */

/* loss = mean (x + y)², y = x + w: the sum passes the gradient of y on, and more is added to that of x. */
static void kept_gradients_are_nobodys_scratch(void **state)
{
    (void)state;
    fixture f = begin(1);
    float dx[SIZE], dy[SIZE], dsum[SIZE];
    bo_value y = bo_graph_add(f.graph, f.x, f.w), sum = bo_graph_add(f.graph, f.x, y);
    f.loss = mean_square(&f, sum);
    bo_graph_keep_gradient(f.graph, f.x);
    bo_graph_keep_gradient(f.graph, y);
    bo_graph_keep_gradient(f.graph, sum);
    prepare(&f, &(bo_graph_compile_desc){.loss = f.loss, .gradients = true});
    for (int again = 0; again < 2; again++) { /* the second run overwrites, it does not add */
        run(&f);
        assert_ok(f.context, bo_graph_read_gradient(f.context, f.graph, f.x, dx));
        assert_ok(f.context, bo_graph_read_gradient(f.context, f.graph, y, dy));
        assert_ok(f.context, bo_graph_read_gradient(f.context, f.graph, sum, dsum));
        assert_memory_equal(dy, dsum, sizeof dy);
        for (size_t i = 0; i < SIZE; i++) assert_close(dx[i], 2 * (double)dy[i], 0);
    }
    end(&f);
}

static void gradients_of_nothing_are_refused(void **state)
{
    (void)state;
    fixture f = begin(1);
    float gradient[SIZE];
    bo_value unseen = bo_graph_input(f.graph, "unseen", BO_ELEMENT_FLOAT32, 2, 2);
    f.loss = mean_square(&f, f.w);
    bo_graph_compile_desc desc = {.loss = f.loss, .gradients = true};
    prepare(&f, &desc);
    assert_fails(f.context, BO_INVALID, "keep_gradient", bo_graph_read_gradient(f.context, f.graph, f.x, gradient));
    bo_graph_keep_gradient(f.graph, unseen);
    assert_fails(f.context, BO_INVALID, "does not depend on it", bo_graph_compile(f.context, f.graph, &desc));
    end(&f);
    f = begin(1);
    bo_graph_keep_gradient(f.graph, bo_graph_input(f.graph, "ids", BO_ELEMENT_INT32, 2, 1));
    assert_fails(f.context, BO_INVALID, "not float32",
                 bo_graph_compile(f.context, f.graph, &(bo_graph_compile_desc){0}));
    end(&f);
    f = begin(1); /* frozen weights only: the gradient of the input is enough to compile a backward pass */
    assert_ok(f.context, bo_weights_freeze(f.context, f.weights, "w", true));
    assert_fails(f.context, BO_INVALID, "no weight's name", bo_weights_freeze(f.context, f.weights, "*.bias", true));
    f.loss = mean_square(&f, bo_graph_multiply(f.graph, f.x, f.w));
    desc.loss = f.loss;
    assert_fails(f.context, BO_INVALID, "all are frozen", bo_graph_compile(f.context, f.graph, &desc));
    bo_graph_keep_gradient(f.graph, f.x);
    prepare(&f, &desc);
    run(&f);
    assert_ok(f.context, bo_graph_read_gradient(f.context, f.graph, f.x, gradient));
    assert_fails(f.context, BO_INVALID, "frozen", bo_weights_get(f.context, f.weights, "w", NULL, gradient));
    end(&f);
}

/* ---- attributes of other sizes ----------------------------------------------------------------------------------- */

static void attributes_grow_with_versions(void **state)
{
    (void)state;
    struct {
        bo_unary_attributes known;
        double later;
    } longer = {{.function = BO_UNARY_RELU, .factor = 2}, 0};
    bo_unary function = BO_UNARY_RELU; /* a struct that ends after its first field */
    fixture f = begin(1);
    bo_value shorter = bo_graph_apply(f.graph, BO_OPERATION_UNARY, &function, sizeof function, 1, &f.x);
    bo_value nothing = bo_graph_apply(f.graph, BO_OPERATION_UNARY, NULL, 0, 1, &f.x);
    bo_value more = bo_graph_apply(f.graph, BO_OPERATION_UNARY, &longer, sizeof longer, 1, &f.x);
    float y[3][SIZE], x[SIZE];
    number(x, SIZE, 1);
    bo_value all[3] = {shorter, nothing, more};
    for (int i = 0; i < 3; i++) bo_graph_keep(f.graph, all[i]);
    prepare(&f, &(bo_graph_compile_desc){0});
    assert_ok(f.context, bo_graph_run(f.context, f.graph, NULL));
    for (int i = 0; i < 3; i++) assert_ok(f.context, bo_graph_read(f.context, f.graph, all[i], y[i]));
    for (size_t i = 0; i < SIZE; i++) {
        assert_close(y[0][i], fmax((double)x[i], 0), 0);
        assert_close(y[1][i], (double)x[i] * 0.5 * erfc(-(double)x[i] / sqrt(2)), 1e-6); /* gelu is number 0 */
        assert_close(y[2][i], 2 * fmax((double)x[i], 0), 0);
    }
    longer.later = 1;
    bo_graph_scope(f.graph, "from the future");
    assert_int_equal(bo_graph_apply(f.graph, BO_OPERATION_UNARY, &longer, sizeof longer, 1, &f.x), 0);
    assert_fails(f.context, BO_INVALID, "from the future: unary: attributes of",
                 bo_graph_compile(f.context, f.graph, &(bo_graph_compile_desc){0}));
    end(&f);
}

/* Attributes and inputs with any contents are accepted or refused. Their words are 0 or bytes of 1, which are also
 * valid flags; pointers of attention and maps are NULL. */
static void any_attributes_are_checked(void **state)
{
    (void)state;
    enum { ATTRIBUTE_WORDS = 16 };
    size_t refused = 0, accepted = 0;
    for (int operation = 0; bo_operation_name((bo_operation)operation); operation++)
        for (size_t changed = 0; changed <= ATTRIBUTE_WORDS + 1; changed++)
            for (size_t count = 0; count <= 8; count++) {
                const bool points = operation == BO_OPERATION_ATTENTION || operation == BO_OPERATION_FEATURES;
                uint64_t attributes[ATTRIBUTE_WORDS] = {0};
                fixture f = begin(1);
                bo_value ids = bo_graph_input(f.graph, "ids", BO_ELEMENT_INT32, ROWS, 1);
                bo_value one = bo_graph_input(f.graph, "one", BO_ELEMENT_FLOAT32, 1, COLUMNS);
                bo_value inputs[8] = {f.x, f.w, one, ids, f.x, f.w, one, ids};
                if (changed % 2) inputs[0] = ids, inputs[1] = f.x;
                for (size_t i = points; i < ATTRIBUTE_WORDS; i++)
                    if (changed == i || changed == ATTRIBUTE_WORDS) attributes[i] = 0x0101010101010101;
                /* bytes after the struct must be zero, and are refused elsewhere */
                const size_t bytes = changed < ATTRIBUTE_WORDS    ? 8 * (changed + 1)
                                     : changed == ATTRIBUTE_WORDS ? 32
                                                                  : 0;
                bo_value y = bo_graph_apply(f.graph, (bo_operation)operation, attributes, bytes, count, inputs);
                bo_status status = bo_graph_compile(f.context, f.graph, &(bo_graph_compile_desc){0});
                assert_int_equal(status, y ? BO_OK : BO_INVALID);
                assert_true(y || strlen(bo_context_error(f.context)));
                (*(y ? &accepted : &refused))++;
                end(&f);
            }
    if (accepted < 5 || refused < 1000) fail_msg("%zu accepted, %zu refused", accepted, refused);
}

/* ---- mistakes ---------------------------------------------------------------------------------------------------- */

static bo_status fails_with_message(bo_context *context, const bo_operation_call *call)
{
    return bo_context_fail(context, BO_NUMERIC, "input of %zu rows is odd", call->in[0].rows);
}

static bo_status fails_silently(bo_context *context, const bo_operation_call *call)
{
    (void)context, (void)call;
    return BO_UNSUPPORTED;
}

static bo_status writes_nan(bo_context *context, const bo_operation_call *call)
{
    (void)context;
    for (size_t i = 0; i < SIZE; i++) ((float *)call->out[0].data)[i] = i == 3 ? NAN : 1;
    return BO_OK;
}

static bo_status no_shape(bo_context *context, const bo_operation_call *call, bo_tensor *outputs)
{
    (void)context;
    outputs[0].rows = call->in[0].rows;
    return BO_OK;
}

static bo_status odd_element(bo_context *context, const bo_operation_call *call, bo_tensor *outputs)
{
    (void)context;
    outputs[0] = (bo_tensor){.rows = call->in[0].rows, .columns = 1, .element = BO_ELEMENT_INT8};
    return BO_OK;
}

static bo_status huge_shape(bo_context *context, const bo_operation_call *call, bo_tensor *outputs)
{
    (void)context, (void)call;
    outputs[0] = (bo_tensor){.rows = SIZE_MAX / 2, .columns = 8};
    return BO_OK;
}

static bo_status refused_shape(bo_context *context, const bo_operation_call *call, bo_tensor *outputs)
{
    (void)outputs;
    return bo_context_fail(context, BO_INVALID, "%zu columns, expected 3", call->in[0].columns);
}

static bo_status huge_sizes(bo_context *context, const bo_operation_call *call, bool gradients, size_t *saved,
                            size_t *scratch)
{
    (void)context, (void)call, (void)gradients;
    *saved = 0;
    *scratch = SIZE_MAX - 4;
    return BO_OK;
}

static void mistakes_are_sentences(void **state)
{
    (void)state;
    const struct {
        const char *message;
        size_t inputs;
        bo_operation_desc desc;
    } wrong[] = {
        {"layer 3: bo_graph_apply_custom: argument 'desc->name' is NULL", 2, {.forward = writes_nan}},
        {"layer 3: op: it has no forward", 2, {.name = "op"}},
        {"layer 3: op: 2 inputs, expected 3", 2, {.name = "op", .inputs = 3, .forward = writes_nan}},
        {"layer 3: op: expected 1 to 16 inputs", 17, {.name = "op", .forward = writes_nan}},
        {"layer 3: op: expected 1 to 16 inputs", 0, {.name = "op", .forward = writes_nan}},
        {"layer 3: op: expected at most 4 outputs", 2, {.name = "op", .outputs = 5, .forward = writes_nan}},
        {"sets output 0 to 5 x 0", 2, {.name = "op", .shape = no_shape, .forward = writes_nan}},
        {"with element 3", 2, {.name = "op", .shape = odd_element, .forward = writes_nan}},
        {"less than 2^48 bytes", 2, {.name = "op", .shape = huge_shape, .forward = writes_nan}},
        {"layer 3: op: 7 columns, expected 3", 2, {.name = "op", .shape = refused_shape, .forward = writes_nan}},
        {"layer 3: op: requests", 2, {.name = "op", .sizes = huge_sizes, .forward = writes_nan}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fixture f = begin(1);
        bo_value inputs[17];
        for (size_t j = 0; j < 17; j++) inputs[j] = j % 2 ? f.w : f.x;
        bo_graph_scope(f.graph, "layer %d", 3);
        bo_value y = bo_graph_apply_custom(f.graph, &wrong[i].desc, NULL, 0, wrong[i].inputs, inputs);
        assert_fails(f.context, BO_INVALID, wrong[i].message,
                     bo_graph_compile(f.context, f.graph, &(bo_graph_compile_desc){0}));
        assert_true(y == 0 || wrong[i].desc.sizes);
        end(&f);
    }
}

static void failures_name_scope_and_operation(void **state)
{
    (void)state;
    const struct {
        const char *message;
        bo_status status;
        bo_status (*forward)(bo_context *, const bo_operation_call *);
    } failing[] = {{"layer 3: op: input of 5 rows is odd", BO_NUMERIC, fails_with_message},
                   {"layer 3: op: not supported", BO_UNSUPPORTED, fails_silently}};
    for (size_t i = 0; i < 2; i++) {
        fixture f = begin(1);
        bo_graph_scope(f.graph, "layer 3");
        bo_operation_desc desc = {.name = "op", .forward = failing[i].forward};
        bo_graph_apply_custom(f.graph, &desc, NULL, 0, 1, &f.x);
        prepare(&f, &(bo_graph_compile_desc){0});
        (void)bo_context_fail(f.context, BO_INVALID, "something old");
        assert_fails(f.context, failing[i].status, failing[i].message, bo_graph_run(f.context, f.graph, NULL));
        end(&f);
    }
    fixture f = begin(1);
    const char *scope;
    bo_operation_desc desc = {.name = "op", .forward = writes_nan};
    bo_graph_scope(f.graph, "before");
    bo_value y = bo_graph_unary(f.graph, BO_UNARY_TANH, f.x);
    bo_graph_scope(f.graph, "layer 4");
    y = bo_graph_apply_custom(f.graph, &desc, NULL, 0, 1, &y);
    bo_graph_scope(f.graph, "behind");
    f.loss = mean_square(&f, bo_graph_multiply(f.graph, y, f.w));
    prepare(&f, &(bo_graph_compile_desc){.loss = f.loss, .gradients = true}); /* y needs no gradient */
    assert_true(isnan(run(&f)));
    assert_ok(f.context, bo_graph_find_nonfinite(f.context, f.graph, NULL, &scope));
    assert_string_equal(scope, "layer 4");
    end(&f);
    f = begin(1);
    bo_graph_scope(f.graph, "layer 5");
    y = bo_graph_apply_custom(f.graph, &desc, NULL, 0, 1, &f.w);
    f.loss = mean_square(&f, y);
    bo_graph_compile_desc with = {.loss = f.loss, .gradients = true};
    assert_fails(f.context, BO_UNSUPPORTED, "layer 5: op has no gradient", bo_graph_compile(f.context, f.graph, &with));
    end(&f);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

typedef struct work {
    bo_context *context;
    counting *counted;
    size_t by_runs;
} work;

static bo_status live(void *arg)
{
    work *w = arg;
    bo_weights *weights = NULL;
    bo_graph *graph = NULL;
    bo_optimizer *optimizer = NULL;
    bo_status status = bo_weights_create(w->context, &weights);
    if (status == BO_OK) status = bo_graph_create(w->context, weights, &graph);
    if (status == BO_OK) {
        bo_value x = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
        bo_value v =
            bo_graph_weight(graph, &(bo_weight_desc){.name = "w", .rank = 2, .shape = (size_t[]){ROWS, COLUMNS}});
        bo_value y =
            bo_graph_apply_custom(graph, &sine, &(sine_attributes){1}, sizeof(sine_attributes), 2, (bo_value[]){x, v});
        bo_value t = bo_graph_input(graph, "t", BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
        bo_value loss = bo_graph_loss(graph, BO_LOSS_KIND_MSE, y, t);
        bo_graph_keep_gradient(graph, x);
        status = bo_graph_compile(w->context, graph, &(bo_graph_compile_desc){.loss = loss, .gradients = true});
    }
    if (status == BO_OK) status = bo_weights_allocate(w->context, weights, true);
    if (status == BO_OK) status = bo_graph_allocate(w->context, graph);
    if (status == BO_OK) status = bo_optimizer_create(w->context, &(bo_optimizer_desc){0}, weights, &optimizer);
    const size_t before = w->counted->calls;
    if (status == BO_OK) status = bo_graph_run(w->context, graph, NULL);
    if (status == BO_OK) status = bo_optimizer_step(w->context, optimizer, 1, NULL);
    w->by_runs = w->counted->calls - before;
    bo_optimizer_destroy(optimizer);
    bo_graph_destroy(graph);
    bo_weights_destroy(weights);
    return status;
}

static void any_allocation_may_fail_and_runs_make_none(void **state)
{
    (void)state;
    counting counted = {0};
    work w = {.context = counting_context(&counted, 1), .counted = &counted};
    counting_inject(&(injection){.counted = &counted, .context = w.context, .work = live, .what = &w, .all = 20000});
    assert_ok(w.context, live(&w));
    assert_int_equal(w.by_runs, 0);
    bo_context_destroy(w.context);
    assert_int_equal(counted.live, 0);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void check_image(const char *path, const void *image, size_t size)
{
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(size + 1);
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, size + 1, file), size);
    assert_memory_equal(bytes, image, size);
    fclose(file);
    free(bytes);
}

/* Three runs of the same steps, two of them in two parts with everything saved and loaded in between, by files and by
 * memory: the same bits. */
static void saved_runs_continue_to_the_bit(void **state)
{
    (void)state;
    const char *weights_path = "test_custom_weights.safetensors", *state_path = "test_custom_optimizer.safetensors";
    float w[3][SIZE];
    for (int parts = 0; parts < 3; parts++) {
        fixture f = begin(1);
        bo_optimizer *optimizer;
        void *images[2];
        size_t sizes[2];
        bo_optimizer_desc desc = {.kind = BO_OPTIMIZER_ADAMW, .average = 0.9};
        f.loss = mean_square(&f, bo_graph_multiply(f.graph, f.x, f.w));
        prepare(&f, &(bo_graph_compile_desc){.loss = f.loss, .gradients = true});
        assert_ok(f.context, bo_optimizer_create(f.context, &desc, f.weights, &optimizer));
        for (int t = 0; t < 3; t++) {
            run(&f);
            assert_ok(f.context, bo_optimizer_step(f.context, optimizer, 1, NULL));
            if (!parts || t) continue;
            assert_ok(f.context, bo_weights_save(f.context, f.weights, &(bo_sink){.path = weights_path}));
            assert_ok(f.context, bo_optimizer_save(f.context, optimizer, &(bo_sink){.path = state_path}));
            assert_ok(f.context,
                      bo_weights_save(f.context, f.weights, &(bo_sink){.bytes = &images[0], .size = &sizes[0]}));
            assert_ok(f.context,
                      bo_optimizer_save(f.context, optimizer, &(bo_sink){.bytes = &images[1], .size = &sizes[1]}));
            check_image(weights_path, images[0], sizes[0]);
            check_image(state_path, images[1], sizes[1]);
            bo_optimizer_destroy(optimizer);
            assert_ok(f.context, bo_weights_init(f.context, f.weights, 77));
            assert_ok(f.context, parts == 1 ? bo_weights_load(f.context, f.weights, &(bo_source){.path = weights_path})
                                            : bo_weights_load(f.context, f.weights,
                                                              &(bo_source){.bytes = images[0], .size = sizes[0]}));
            assert_ok(f.context, bo_optimizer_create(f.context, &desc, f.weights, &optimizer));
            assert_ok(f.context, parts == 1 ? bo_optimizer_load(f.context, optimizer, &(bo_source){.path = state_path})
                                            : bo_optimizer_load(f.context, optimizer,
                                                                &(bo_source){.bytes = images[1], .size = sizes[1]}));
            assert_fails(
                f.context, BO_FORMAT, "memory",
                bo_optimizer_load(f.context, optimizer, &(bo_source){.bytes = images[1], .size = sizes[1] / 2}));
            bo_free(images[0]);
            bo_free(images[1]);
            assert_int_equal(bo_optimizer_describe(optimizer)->steps, 1);
            assert_fails(f.context, BO_FORMAT, "steps",
                         bo_optimizer_load(f.context, optimizer, &(bo_source){.path = weights_path}));
            assert_fails(f.context, BO_FORMAT, "w",
                         bo_weights_load(f.context, f.weights, &(bo_source){.path = state_path}));
        }
        assert_ok(f.context, bo_optimizer_swap_average(f.context, optimizer));
        assert_ok(f.context, bo_weights_get(f.context, f.weights, "w", w[parts], NULL));
        bo_optimizer_destroy(optimizer);
        end(&f);
    }
    assert_memory_equal(w[0], w[1], sizeof *w);
    assert_memory_equal(w[0], w[2], sizeof *w);
    remove(weights_path);
    remove(state_path);
}

static void names_match_the_messages(void **state)
{
    (void)state;
    bo_operation found;
    for (int i = 0; bo_operation_name((bo_operation)i); i++) {
        assert_true(bo_operation_parse(bo_operation_name((bo_operation)i), &found));
        assert_int_equal(found, i);
    }
    assert_string_equal(bo_operation_name(BO_OPERATION_ROUND), "round");
    assert_null(bo_operation_name((bo_operation)(BO_OPERATION_ROUND + 1)));
    assert_false(bo_operation_parse("nothing", &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(a_built_in_operation_can_be_rebuilt_to_the_bit),
        cmocka_unit_test(kept_gradients_are_nobodys_scratch),
        cmocka_unit_test(gradients_of_nothing_are_refused),
        cmocka_unit_test(attributes_grow_with_versions),
        cmocka_unit_test(any_attributes_are_checked),
        cmocka_unit_test(mistakes_are_sentences),
        cmocka_unit_test(failures_name_scope_and_operation),
        cmocka_unit_test(any_allocation_may_fail_and_runs_make_none),
        cmocka_unit_test(saved_runs_continue_to_the_bit),
        cmocka_unit_test(names_match_the_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
