/* The life of a graph: recording, errors that are reported when it is compiled, compiling again, running, reading, and
 * the search for NaN and infinity. */
#include "toy.h"
#include "../base/counting.h"

enum { ROWS = 4, COLUMNS = 3, SIZE = ROWS * COLUMNS };

typedef struct fixture {
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
} fixture;

static fixture begin(void)
{
    fixture f = {.context = test_context(1)};
    assert_ok(f.context, bo_weights_create_on(f.context, toy_device(), &f.weights));
    assert_ok(f.context, bo_graph_create(f.context, f.weights, &f.graph));
    return f;
}

static void end(fixture *f)
{
    watch_begin(NULL);
    bo_graph_destroy(f->graph);
    bo_weights_destroy(f->weights);
    bo_context_destroy(f->context);
}

static bo_value weight(fixture *f, const char *name)
{
    return bo_graph_weight(f->graph, &(bo_weight_desc){.name = name,
                                                       .rank = 2,
                                                       .shape = (size_t[]){ROWS, COLUMNS},
                                                       .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = 0.5}});
}

static bo_value one(fixture *f, int op, bo_value a, bo_value b)
{
    return bo_graph_one(f->graph, op, NULL, b ? 2 : 1, (bo_value[]){a, b});
}

static void prepare(fixture *f, bo_value loss, bool checkpoint)
{
    bo_graph_compile_desc desc = {.loss = loss, .gradients = true, .checkpoint = checkpoint};
    assert_ok(f->context, bo_graph_compile(f->context, f->graph, &desc));
    assert_ok(f->context, bo_weights_allocate(f->context, f->weights, true));
    assert_ok(f->context, bo_weights_init(f->context, f->weights, 1));
    assert_ok(f->context, bo_graph_allocate(f->context, f->graph));
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* A weight is one value of a graph, however often it is read, and graphs of one set read its weights in any order. */
static void a_weight_is_one_value(void **state)
{
    (void)state;
    enum { MANY = 300 };
    fixture f = begin(), g = begin();
    bo_value values[MANY];
    char name[24];
    bo_graph_destroy(g.graph);
    assert_ok(g.context, bo_graph_create(g.context, f.weights, &g.graph));
    for (size_t round = 0; round < 2; round++)
        for (size_t i = 0; i < MANY; i++) {
            snprintf(name, sizeof name, "w%zu", i);
            const bo_value value = weight(&f, name);
            assert_string_equal(bo_graph_weight_of(f.graph, value)->name, name);
            if (round) assert_int_equal(value, values[i]);
            values[i] = value;
        }
    for (size_t i = MANY; i-- > 0;) {
        snprintf(name, sizeof name, "w%zu", i);
        assert_int_equal(weight(&g, name), MANY - i);
        assert_string_equal(bo_graph_weight_of(g.graph, MANY - i)->name, name);
    }
    for (size_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "w%zu", i);
        assert_int_equal(weight(&g, name), MANY - i);
    }
    assert_int_equal(bo_weights_count(f.weights), MANY);
    end(&g);
    end(&f);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* s = Σ (w w' + w), with w' computed from w: three paths lead to w. d/dw Σ (w sin w + w) = sin w + w cos w + 1. */
static void fan_out_adds_up(void **state)
{
    (void)state;
    fixture f = begin();
    bo_value w = weight(&f, "w"), product = one(&f, TOY_PRODUCT, w, one(&f, TOY_SINE, w, 0));
    bo_value loss = one(&f, TOY_SUM, one(&f, TOY_ADD, product, w), 0);
    prepare(&f, loss, false);
    const bo_graph_pass quarter = {.loss_scale = 0.25f};
    for (int pass = 0; pass < 4; pass++) assert_ok(f.context, bo_graph_run(f.context, f.graph, &quarter));
    const float *x = bo_weights_at(f.weights, 0)->data, *d = bo_weights_at(f.weights, 0)->gradient;
    double sum = 0;
    float value;
    for (size_t i = 0; i < SIZE; i++) {
        double at = (double)x[i];
        sum += at * sin(at) + at;
        assert_close(d[i], sin(at) + at * cos(at) + 1, 16 * 0x1p-24 * 4); /* 16 rounding errors of numbers below 4 */
    }
    assert_ok(f.context, bo_graph_read(f.context, f.graph, loss, &value));
    assert_close(value, sum, SIZE * 4 * 0x1p-24 * 4);
    end(&f);
}

/* Operations that lead to no trained weight, or that the loss does not depend on, have no backward pass. */
static void only_required_operations_have_backward(void **state)
{
    (void)state;
    fixture f = begin();
    bo_value w = weight(&f, "w"), x = bo_graph_input(f.graph, "x", BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
    bo_value frozen = bo_graph_weight(
        f.graph, &(bo_weight_desc){.name = "frozen", .rank = 2, .shape = (size_t[]){ROWS, COLUMNS}, .frozen = true});
    bo_value constant = one(&f, TOY_SINE, one(&f, TOY_ADD, x, frozen), 0);  /* forward only */
    bo_value unseen = one(&f, TOY_SINE, w, 0);                              /* forward only */
    bo_value loss = one(&f, TOY_SUM, one(&f, TOY_PRODUCT, constant, w), 0); /* both; the sum in backward only */
    float numbers_of_x[SIZE] = {1, 2, 3};
    bo_graph_keep(f.graph, unseen);
    prepare(&f, loss, false);
    assert_ok(f.context, bo_graph_write(f.context, f.graph, x, numbers_of_x));
    watch_begin(f.graph);
    assert_ok(f.context, bo_graph_run(f.context, f.graph, NULL));
    assert_int_equal(watched.forwards, 4);
    assert_int_equal(watched.backwards, 2);
    assert_null(bo_weights_find(f.weights, "frozen")->gradient);
    float kept[SIZE];
    assert_ok(f.context, bo_graph_read(f.context, f.graph, unseen, kept));
    for (size_t i = 0; i < SIZE; i++) assert_close(kept[i], sin(((float *)bo_weights_at(f.weights, 0)->data)[i]), 1e-7);
    /* the toy backend counts additions only, and this one has no backward */
    assert_close(bo_graph_describe(f.graph)->flops, SIZE, 0);
    end(&f);
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

/* Layers of two sums and two sines each, alternating: the backward pass of a sum reads nothing, but the forward pass of
 * the sine does. */
static bo_value layers(fixture *f, size_t count)
{
    bo_value w = weight(f, "w"), x = one(f, TOY_SINE, w, 0);
    for (size_t l = 0; l < count; l++) {
        bo_graph_scope(f->graph, "layer %zu", l);
        bo_graph_segment(f->graph, true);
        for (int i = 0; i < 2; i++) x = one(f, TOY_SINE, one(f, TOY_ADD, x, w), 0);
        bo_graph_segment(f->graph, false);
    }
    bo_graph_scope(f->graph, "head");
    return one(f, TOY_SUM, x, 0);
}

/* Every segment but the last is computed twice; of each, only the first tensor of the next segment is kept. */
static void checkpoints_cost_one_forward_and_save_memory(void **state)
{
    (void)state;
    enum { LAYERS = 8, BLOCK = 64 }; /* 12 floats take a block of 64 bytes */
    fixture f = begin();
    bo_value loss = layers(&f, LAYERS);
    prepare(&f, loss, false);
    size_t all = bo_graph_describe(f.graph)->bytes;
    watch_begin(f.graph);
    assert_ok(f.context, bo_graph_run(f.context, f.graph, NULL));
    assert_int_equal(watched.forwards, 1 + 4 * LAYERS);
    float *gradient = bo_weights_at(f.weights, 0)->gradient, before[SIZE];
    memcpy(before, gradient, sizeof before);
    memset(gradient, 0, sizeof before);
    prepare(&f, loss, true);
    watch_begin(f.graph);
    assert_ok(f.context, bo_graph_run(f.context, f.graph, NULL));
    assert_int_equal(watched.forwards, 1 + 4 * LAYERS + 4 * (LAYERS - 1));
    assert_int_equal(watched.again, 4 * (LAYERS - 1));
    assert_memory_equal(before, gradient, sizeof before);
    /* Without checkpoints: the saved cosines of all sines. With checkpoints: those of one layer, the first tensor of
     * each layer, and temporarily a sum, a sine, scratch, two gradients and the loss with its gradient. */
    assert_true(all >= 2 * LAYERS * BLOCK);
    assert_true(bo_graph_describe(f.graph)->bytes <= (LAYERS + 2 + 7) * BLOCK);
    end(&f);
}

/* From training to evaluation and back: the same loss, and gradients only if planned. */
static void plans_follow_one_another(void **state)
{
    (void)state;
    fixture f = begin();
    bo_value loss = layers(&f, 3);
    float first, value;
    prepare(&f, loss, true);
    assert_ok(f.context, bo_graph_run(f.context, f.graph, NULL));
    assert_ok(f.context, bo_graph_read(f.context, f.graph, loss, &first));
    size_t bytes = bo_graph_describe(f.graph)->bytes;
    float *gradient = bo_weights_at(f.weights, 0)->gradient, before = gradient[1];
    bo_graph_compile_desc forward = {.loss = loss};
    assert_ok(f.context, bo_graph_compile(f.context, f.graph, &forward));
    assert_ok(f.context, bo_graph_allocate(f.context, f.graph));
    assert_true(bo_graph_describe(f.graph)->bytes < bytes);
    assert_int_equal(f.graph->seed, 0);
    watch_begin(f.graph);
    assert_ok(f.context, bo_graph_run(f.context, f.graph, NULL));
    assert_int_equal(watched.backwards, 0);
    assert_ok(f.context, bo_graph_read(f.context, f.graph, loss, &value));
    assert_memory_equal(&first, &value, sizeof value);
    assert_memory_equal(&before, &gradient[1], sizeof before);
    prepare(&f, loss, true);
    assert_int_equal(bo_graph_describe(f.graph)->bytes, bytes);
    watch_begin(f.graph);
    assert_ok(f.context, bo_graph_run(f.context, f.graph, NULL));
    assert_close(gradient[1], 2 * before, 8 * 0x1p-24 * 16); /* eight terms, each rounded in a sum below 16 */
    end(&f);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* Records with `wrong`; compiling reports the error. */
static void refused_as(bo_status status, const char *message, bo_value (*wrong)(fixture *f))
{
    fixture f = begin();
    bo_value w = weight(&f, "w");
    bo_graph_scope(f.graph, "layer 3 attention");
    bo_value value = wrong(&f);
    bo_graph_scope(f.graph, "later");
    assert_int_equal(one(&f, TOY_SINE, w, 0) != 0, f.graph->status == BO_OK); /* nothing works after an error */
    bo_graph_compile_desc desc = {.loss = value, .gradients = true};
    assert_fails(f.context, status, message, bo_graph_compile(f.context, f.graph, &desc));
    assert_fails(f.context, BO_INVALID, "not compiled yet", bo_graph_allocate(f.context, f.graph));
    end(&f);
}

static void refused(const char *message, bo_value (*wrong)(fixture *f))
{
    refused_as(BO_INVALID, message, wrong);
}

static bo_value wrong_shape(fixture *f)
{
    return one(f, TOY_ADD, 1, bo_graph_input(f->graph, "x", BO_ELEMENT_FLOAT32, ROWS, COLUMNS + 1));
}

static bo_value wrong_value(fixture *f)
{
    return one(f, TOY_SINE, 77, 0);
}

static bo_value no_value(fixture *f)
{
    return one(f, TOY_SINE, 0, 0);
}

static bo_value wrong_operation(fixture *f)
{
    return one(f, BO_OPERATION_ATTENTION, 1, 0);
}

static bo_value nested(fixture *f)
{
    bo_graph_segment(f->graph, true);
    bo_graph_segment(f->graph, true);
    return 1;
}

static bo_value not_ended(fixture *f)
{
    bo_graph_segment(f->graph, true);
    return one(f, TOY_SUM, 1, 0);
}

static bo_value not_begun(fixture *f)
{
    bo_graph_segment(f->graph, false);
    return one(f, TOY_SUM, 1, 0);
}

static bo_value kept_nothing(fixture *f)
{
    bo_graph_keep(f->graph, 50);
    return one(f, TOY_SUM, 1, 0);
}

static bo_value not_a_number(fixture *f)
{
    return one(f, TOY_SINE, 1, 0);
}

static bo_value loss_of_another_graph(fixture *f)
{
    (void)f;
    return 1000;
}

static bo_value loss_without_weights(fixture *f)
{
    return one(f, TOY_SUM, bo_graph_input(f->graph, "x", BO_ELEMENT_FLOAT32, 2, 2), 0);
}

static bo_value same_twice(fixture *f)
{
    return one(f, TOY_SUM, one(f, TOY_ADD, 1, 1), 0);
}

static bo_value empty_input(fixture *f)
{
    return bo_graph_input(f->graph, "x", BO_ELEMENT_FLOAT32, 0, 3);
}

static bo_value enormous_input(fixture *f)
{
    return bo_graph_input(f->graph, "x", BO_ELEMENT_FLOAT32, SIZE_MAX / 2, 3);
}

static bo_value weight_of_another_shape(fixture *f)
{
    return bo_graph_weight(f->graph, &(bo_weight_desc){.name = "w", .rank = 1, .shape = (size_t[]){7}});
}

static void wrong_graphs_are_refused(void **state)
{
    (void)state;
    refused("layer 3 attention: toy: 16 numbers, expected 12", wrong_shape);
    refused("layer 3 attention: sine: input 0 is value 77, but the graph has values 1 to 1", wrong_value);
    refused("layer 3 attention: sine: input 0 is value 0", no_value);
    refused_as(BO_UNSUPPORTED, "layer 3 attention: operation attention is not supported on toy", wrong_operation);
    refused("layer 3 attention: segments cannot be nested", nested);
    refused("segment 1 has no end", not_ended);
    refused("layer 3 attention: a segment is ended that was not started", not_begun);
    refused("layer 3 attention: value 50 is to be kept", kept_nothing);
    refused("the loss is 4 x 3: expected a 1 x 1", not_a_number);
    refused("the loss is value 1000, but the graph has values 1 to", loss_of_another_graph);
    refused("does not depend on a trained weight", loss_without_weights);
    refused("layer 3 attention: add: inputs 0 and 1 are the same tensor", same_twice);
    refused("a tensor of 0 x 3", empty_input);
    refused("less than 2^48 bytes", enormous_input);
    refused("weight w is already declared as 4 x 3", weight_of_another_shape);
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    fixture f = begin();
    bo_value w = weight(&f, "w"), y = one(&f, TOY_SINE, w, 0), loss = one(&f, TOY_SUM, y, 0);
    bo_graph_compile_desc desc = {.loss = loss, .gradients = true};
    float numbers_of_w[SIZE];
    const char *scope;
    assert_fails(f.context, BO_INVALID, "allocate", bo_graph_run(f.context, f.graph, NULL));
    assert_ok(f.context, bo_graph_compile(f.context, f.graph, &desc));
    assert_fails(f.context, BO_INVALID, "allocate", bo_graph_run(f.context, f.graph, NULL));
    assert_fails(f.context, BO_INVALID, "allocate", bo_graph_find_nonfinite(f.context, f.graph, NULL, &scope));
    assert_fails(f.context, BO_INVALID, "allocate", bo_graph_read(f.context, f.graph, loss, numbers_of_w));
    assert_fails(f.context, BO_INVALID, "weight w has no memory for its values", bo_graph_allocate(f.context, f.graph));
    assert_ok(f.context, bo_weights_allocate(f.context, f.weights, false));
    assert_fails(f.context, BO_INVALID, "memory for its gradient", bo_graph_allocate(f.context, f.graph));
    assert_ok(f.context, bo_weights_allocate(f.context, f.weights, true));
    assert_ok(f.context, bo_graph_allocate(f.context, f.graph));
    assert_fails(f.context, BO_INVALID, "value 3 is not an input",
                 bo_graph_write(f.context, f.graph, loss, numbers_of_w));
    assert_fails(f.context, BO_INVALID, "value 2 is not kept", bo_graph_read(f.context, f.graph, y, numbers_of_w));
    assert_fails(f.context, BO_INVALID, "value 9 does not exist", bo_graph_read(f.context, f.graph, 9, numbers_of_w));
    assert_ok(f.context, bo_graph_read(f.context, f.graph, w, numbers_of_w));
    assert_int_equal(bo_graph_rows(f.graph, w), ROWS);
    assert_int_equal(bo_graph_columns(f.graph, w), COLUMNS);
    assert_int_equal(bo_graph_rows(f.graph, 0) + bo_graph_columns(f.graph, 12), 0);
    const bo_graph_info *info = bo_graph_describe(f.graph);
    assert_ptr_equal(info->weights, f.weights);
    assert_int_equal(info->values, loss + 1);
    assert_int_equal(info->value[loss].rows * info->value[loss].columns, 1);
    assert_true(info->bytes > 0);
    assert_fails(f.context, BO_INVALID, "loss",
                 bo_graph_compile(f.context, f.graph, &(bo_graph_compile_desc){.loss = w}));
    assert_true(info->bytes > 0); /* the plan remains */
    bo_graph_segment(f.graph, false);
    assert_fails(f.context, BO_INVALID, "not started", bo_graph_compile(f.context, f.graph, &desc));
    end(&f);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void errors_name_the_scope(void **state)
{
    (void)state;
    fixture f = begin();
    bo_graph_scope(f.graph, "first");
    bo_value loss = layers(&f, 2);
    prepare(&f, loss, false);
    watched.refuse = true;
    assert_fails(f.context, BO_NUMERIC, "first: toy: failure was requested", bo_graph_run(f.context, f.graph, NULL));
    end(&f);
}

static void find_nonfinite_returns_the_first(void **state)
{
    (void)state;
    fixture f = begin();
    bo_value w = weight(&f, "w"), x = bo_graph_input(f.graph, "temperature", BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
    bo_graph_scope(f.graph, "layer 0");
    bo_value y = one(&f, TOY_ADD, w, x);
    bo_graph_scope(f.graph, "layer 1");
    y = one(&f, TOY_SINE, one(&f, TOY_PRODUCT, y, x), 0);
    bo_graph_scope(f.graph, "head");
    float numbers_of_x[SIZE] = {0}, *numbers_of_w;
    const char *scope;
    prepare(&f, one(&f, TOY_SUM, y, 0), false);
    numbers_of_w = bo_weights_at(f.weights, 0)->data;
    assert_ok(f.context, bo_graph_write(f.context, f.graph, x, numbers_of_x));
    assert_ok(f.context, bo_graph_find_nonfinite(f.context, f.graph, NULL, &scope));
    assert_null(scope);
    numbers_of_x[2] = 1e30f, numbers_of_w[2] = 3e38f;
    assert_ok(f.context, bo_graph_write(f.context, f.graph, x, numbers_of_x));
    assert_ok(f.context, bo_graph_find_nonfinite(f.context, f.graph, NULL, &scope));
    assert_string_equal(scope, "layer 1");
    numbers_of_w[2] = INFINITY;
    assert_ok(f.context, bo_graph_find_nonfinite(f.context, f.graph, NULL, &scope));
    assert_string_equal(scope, "w");
    numbers_of_w[2] = 0, numbers_of_x[3] = NAN;
    assert_ok(f.context, bo_graph_write(f.context, f.graph, x, numbers_of_x));
    assert_ok(f.context, bo_graph_find_nonfinite(f.context, f.graph, NULL, &scope));
    assert_string_equal(scope, "temperature");
    watched.refuse = true; /* a failing operation is reported itself */
    numbers_of_x[3] = 0;
    assert_ok(f.context, bo_graph_write(f.context, f.graph, x, numbers_of_x));
    assert_ok(f.context, bo_graph_find_nonfinite(f.context, f.graph, NULL, &scope));
    assert_string_equal(scope, "layer 0");
    end(&f);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bo_status live(bo_context *context, counting *c, size_t *allocated_by_runs)
{
    fixture f = {.context = context};
    bo_status status = bo_weights_create_on(context, toy_device(), &f.weights);
    if (status == BO_OK) status = bo_graph_create(context, f.weights, &f.graph);
    if (status == BO_OK) {
        bo_value x = bo_graph_input(f.graph, "x", BO_ELEMENT_FLOAT32, ROWS, COLUMNS), loss = layers(&f, 5);
        (void)x;
        bo_graph_compile_desc desc = {.loss = loss, .gradients = true, .checkpoint = true};
        status = bo_graph_compile(context, f.graph, &desc);
    }
    if (status == BO_OK) status = bo_weights_allocate(context, f.weights, true);
    if (status == BO_OK) status = bo_weights_init(context, f.weights, 1);
    if (status == BO_OK) status = bo_graph_allocate(context, f.graph);
    size_t before = c->calls;
    for (int pass = 0; status == BO_OK && pass < 3; pass++) status = bo_graph_run(context, f.graph, NULL);
    *allocated_by_runs = c->calls - before;
    bo_graph_destroy(f.graph);
    bo_weights_destroy(f.weights);
    return status;
}

static void any_allocation_may_fail_and_runs_make_none(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    size_t before = c.live, by_runs;
    bo_status status = BO_MEMORY;
    for (size_t nth = 1; status == BO_MEMORY; nth++) {
        c.calls = 0;
        c.fail_at = nth;
        c.once = true;
        status = live(context, &c, &by_runs);
        bool reached = c.calls >= nth;
        c.fail_at = 0;
        assert_int_equal(c.live, before);
        assert_true(status == BO_OK || (status == BO_MEMORY && strlen(bo_context_error(context))));
        assert_false(status == BO_OK && reached);
    }
    assert_int_equal(status, BO_OK);
    assert_int_equal(by_runs, 0);
    bo_context_destroy(context);
    assert_int_equal(c.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_weight_is_one_value),
        cmocka_unit_test(fan_out_adds_up),
        cmocka_unit_test(only_required_operations_have_backward),
        cmocka_unit_test(checkpoints_cost_one_forward_and_save_memory),
        cmocka_unit_test(plans_follow_one_another),
        cmocka_unit_test(wrong_graphs_are_refused),
        cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(errors_name_the_scope),
        cmocka_unit_test(find_nonfinite_returns_the_first),
        cmocka_unit_test(any_allocation_may_fail_and_runs_make_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
