/* Weights: names and shapes, one block of memory, initial values that depend on seed, name and position only. */
#include "tape/weights.h"
#include "../base/counting.h"
#include "base/rng.h"

static const bo_weight_desc some[] = {
    {.name = "embed",
     .rank = 2,
     .shape = (size_t[]){100, 33},
     .init = {BO_WEIGHT_INIT_KIND_NORMAL, 0.5, 2},
     .role = BO_WEIGHT_ROLE_EMBEDDING},
    {.name = "gain",
     .rank = 1,
     .shape = (size_t[]){5},
     .init = {BO_WEIGHT_INIT_KIND_ONE, 0, 0},
     .role = BO_WEIGHT_ROLE_VECTOR},
    {.name = "m",
     .rank = 3,
     .shape = (size_t[]){2, 3, 4},
     .rows = 1,
     .columns = 24,
     .init = {BO_WEIGHT_INIT_KIND_IDENTITY, 3, 1}},
    {.name = "bias", .rank = 1, .shape = (size_t[]){9}, .init = {BO_WEIGHT_INIT_KIND_SPREAD, 1, 5}, .frozen = true},
    {.name = "nothing", .rank = 4, .shape = (size_t[]){2, 2, 2, 2}},
    {.name = "large", .rank = 2, .shape = (size_t[]){1100, 1000}, .init = {BO_WEIGHT_INIT_KIND_NORMAL, 0, 1}},
    {.name = "delays", .rank = 2, .shape = (size_t[]){5, 3}, .init = {BO_WEIGHT_INIT_KIND_DELAYS, 2, 0}},
};
enum { COUNT = sizeof some / sizeof *some };

static bo_weights *declare_some(bo_context *context)
{
    bo_weights *weights;
    size_t index;
    assert_ok(context, bo_weights_create(context, &weights));
    for (size_t i = 0; i < COUNT; i++) {
        assert_ok(context, bo_weights_declare(context, weights, &some[i], &index));
        assert_int_equal(index, i);
    }
    return weights;
}

static void weights_are_contiguous(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_weights *weights = declare_some(context);
    size_t index, end = 0, numbers = 0, trained = 0;
    assert_ok(context, bo_weights_declare(context, weights, &some[2], &index)); /* a second graph finds them */
    assert_int_equal(index, 2);
    assert_int_equal(bo_weights_count(weights), COUNT);
    assert_null(bo_weights_find(weights, "embe"));
    assert_null(bo_weights_at(weights, 0)->data);
    assert_ok(context, bo_weights_allocate(context, weights, false));
    assert_null(bo_weights_gradients(weights));
    assert_ok(context, bo_weights_allocate(context, weights, true)); /* later, for training */
    for (size_t i = 0; i < COUNT; i++) {
        const bo_weight *w = bo_weights_at(weights, i);
        assert_true(w->offset >= end && w->offset < end + 16 && w->offset % 16 == 0);
        assert_ptr_equal(w->data, (float *)bo_weights_data(weights) + w->offset);
        assert_ptr_equal(w->gradient, w->frozen ? NULL : (float *)bo_weights_gradients(weights)->data + trained);
        if (!w->frozen) trained += (w->rows * w->columns + 15) / 16 * 16;
        end = w->offset + w->rows * w->columns;
        numbers += w->rows * w->columns;
    }
    assert_int_equal(bo_weights_gradients(weights)->floats, trained);
    assert_int_equal(bo_weights_gradient_floats(weights), trained);
    assert_true(bo_weights_floats(weights) >= end && bo_weights_floats(weights) < end + 16);
    assert_int_equal(bo_weights_describe(weights)->parameters, numbers);
    assert_int_equal(bo_weights_describe(weights)->trained, numbers - 9);
    assert_int_equal(bo_weights_describe(weights)->bytes, bo_weights_floats(weights) * sizeof(float));
    assert_int_equal(bo_weights_describe(weights)->count, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_ptr_equal(bo_weights_describe(weights)->weight[i], bo_weights_find(weights, some[i].name));
    for (int twice = 0; twice < 2; twice++) assert_ok(context, bo_weights_freeze(context, weights, "*", true));
    assert_int_equal(bo_weights_describe(weights)->trained, 0);
    for (int twice = 0; twice < 2; twice++) assert_ok(context, bo_weights_freeze(context, weights, "*", false));
    assert_int_equal(bo_weights_describe(weights)->trained, numbers);
    assert_int_equal(bo_weights_find(weights, "nothing")->rows, 8);
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

static bo_weight_desc vector_of(const char *name, size_t *size)
{
    return (bo_weight_desc){.name = name, .rank = 1, .shape = size};
}

/* The index by name: many names, and names whose hashes end in the same 12 bits, all ones, so that searches start in
 * the last slot and continue in the first ones. Declared again, each is found at its place. */
static void every_name_is_found(void **state)
{
    (void)state;
    enum { MANY = 5000, ALIKE = 60, ALL = MANY + ALIKE, LAST = 0xfff, NAME = 40 };
    bo_context *context = test_context(1);
    bo_weights *weights;
    char (*names)[NAME] = calloc(ALL, sizeof *names);
    assert_ok(context, bo_weights_create(context, &weights));
    assert_null(bo_weights_find(weights, "of an empty set"));
    for (size_t i = 0, number = 0; i < ALIKE; number++) {
        snprintf(names[i], NAME, "alike.%zu", number);
        i += (bo_rng_stream(names[i], 0) & LAST) == LAST;
    }
    for (size_t i = ALIKE; i < ALL; i++) snprintf(names[i], NAME, "model.layers.%zu.mlp.weight", i);
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < ALL; i++) {
            size_t index, size = 1 + i % 7, other = size + 1;
            const bo_weight_desc desc = vector_of(names[i], &size), changed = vector_of(names[i], &other);
            if (round == 0) assert_null(bo_weights_find(weights, names[i]));
            assert_ok(context, bo_weights_declare(context, weights, &desc, &index));
            assert_int_equal(index, i);
            assert_int_equal(bo_weights_declare(context, weights, &changed, NULL), BO_INVALID);
            assert_ptr_equal(bo_weights_find(weights, names[i]), bo_weights_at(weights, i));
        }
        assert_int_equal(bo_weights_count(weights), ALL);
    }
    for (size_t i = 0; i < ALL; i++) {
        assert_string_equal(bo_weights_at(weights, i)->name, names[i]);
        assert_ptr_equal(bo_weights_find(weights, names[i]), bo_weights_at(weights, i));
    }
    assert_null(bo_weights_find(weights, "model.layers.1.mlp.weigh"));
    assert_null(bo_weights_find(weights, ""));
    bo_weights_destroy(weights);
    bo_context_destroy(context);
    free(names);
}

static void laws_follow_their_definitions(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_weights *weights = declare_some(context);
    assert_ok(context, bo_weights_allocate(context, weights, true));
    assert_ok(context, bo_weights_init(context, weights, 3));
    const float *gain = bo_weights_find(weights, "gain")->data, *m = bo_weights_find(weights, "m")->data;
    const float *bias = bo_weights_find(weights, "bias")->data, *nothing = bo_weights_find(weights, "nothing")->data;
    for (size_t i = 0; i < 5; i++) assert_close(gain[i], 1, 0);
    for (size_t i = 0; i < 24; i++) assert_close(m[i], i / 4 % 3 == i % 4 + i / 12, 0);
    for (size_t i = 0; i < 9; i++) assert_close(bias[i], 1 + 0.5 * (double)i, 0);
    for (size_t i = 0; i < 16; i++) assert_close(nothing[i], 0, 0);
    const float *delays = bo_weights_find(weights, "delays")->data;
    for (size_t i = 0; i < 15; i++) assert_close(delays[i], i % 3 == 2 - i / 3 % 2, 0);
    const float *gaps = bo_weights_data(weights); /* padding between weights is zero */
    for (size_t i = bo_weights_find(weights, "gain")->offset + 5; i % 16; i++) assert_close(gaps[i], 0, 0);
    /* Mean and standard deviation of 3300 numbers of N(0.5, 4): five standard errors, 2 / √n and 2 / √(2n). */
    const float *embed = bo_weights_find(weights, "embed")->data;
    double sum = 0, squares = 0, n = 3300;
    for (size_t i = 0; i < 3300; i++) sum += (double)embed[i];
    for (size_t i = 0; i < 3300; i++) squares += pow((double)embed[i] - sum / n, 2);
    assert_close(sum / n, 0.5, 5 * 2 / sqrt(n));
    assert_close(sqrt(squares / n), 2, 5 * 2 / sqrt(2 * n));
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

/* Gradients take memory for the trained weights only, and the gradient of a weight does not move when others are added.
 */
static void only_trained_weights_have_gradients(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_weights *weights = declare_some(context);
    assert_ok(context, bo_weights_freeze(context, weights, "*", true));
    assert_int_equal(bo_weights_gradient_floats(weights), 0);
    assert_ok(context, bo_weights_allocate(context, weights, true));
    assert_null(bo_weights_gradients(weights));
    assert_ok(context, bo_weights_freeze(context, weights, some[1].name, false));
    assert_ok(context, bo_weights_allocate(context, weights, true));
    const bo_weight *first = bo_weights_at(weights, 1), *other = bo_weights_at(weights, 2);
    float *gradient = first->gradient;
    const size_t floats = bo_weights_gradients(weights)->floats;
    assert_ptr_equal(gradient, bo_weights_gradients(weights)->data);
    assert_true(floats >= first->rows * first->columns && floats < first->rows * first->columns + 16);
    gradient[0] = 1;
    assert_ok(context, bo_weights_freeze(context, weights, some[1].name, true));
    assert_ok(context, bo_weights_freeze(context, weights, some[2].name, false));
    assert_ok(context, bo_weights_allocate(context, weights, true));
    assert_null(first->gradient);
    assert_ptr_equal(other->gradient, bo_weights_gradients(weights)->next->data);
    assert_ok(context, bo_weights_freeze(context, weights, some[1].name, false));
    assert_ok(context, bo_weights_allocate(context, weights, true));
    assert_null(bo_weights_gradients(weights)->next->next);
    assert_ptr_equal(first->gradient, gradient);
    assert_true(gradient[0] == 1);
    ((float *)other->gradient)[0] = 2;
    assert_ok(context, bo_weights_zero_gradients(context, weights));
    assert_true(gradient[0] == 0 && ((float *)other->gradient)[0] == 0);
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

/* The same numbers in another set, at another position, with other threads; different numbers for another name or
 * seed. */
static void numbers_depend_on_seed_name_and_place(void **state)
{
    (void)state;
    bo_context *one = test_context(1), *four = test_context(4);
    bo_weights *weights = declare_some(one), *alone;
    bo_weight_desc other = some[5];
    size_t index, bytes = 1100 * 1000 * sizeof(float);
    other.name = "large too";
    assert_ok(four, bo_weights_create(four, &alone));
    assert_ok(four, bo_weights_declare(four, alone, &other, &index));
    assert_ok(four, bo_weights_declare(four, alone, &some[5], &index));
    assert_ok(one, bo_weights_allocate(one, weights, false));
    assert_ok(four, bo_weights_allocate(four, alone, false));
    assert_ok(one, bo_weights_init(one, weights, 3));
    assert_ok(four, bo_weights_init_one(four, alone, index, 3));
    const float *values = bo_weights_at(weights, 5)->data, *same_values = bo_weights_at(alone, 1)->data,
                *untouched = bo_weights_at(alone, 0)->data;
    assert_memory_equal(values, same_values, bytes);
    assert_close(untouched[0], 0, 0);
    assert_ok(four, bo_weights_init(four, alone, 3));
    assert_memory_not_equal(untouched, same_values, 64);
    assert_ok(four, bo_weights_init(four, alone, 4));
    assert_memory_not_equal(values, same_values, 64);
    bo_weights_destroy(alone);
    bo_weights_destroy(weights);
    bo_context_destroy(four);
    bo_context_destroy(one);
}

static void wrong_weights_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_weights *weights = declare_some(context);
    size_t index;
    const struct {
        const char *message;
        bo_weight_desc weight;
    } wrong[] = {
        {"argument 'desc->name' is NULL", {.rank = 1, .shape = (size_t[]){3}}},
        {"weight x: rank 0", {.name = "x"}},
        {"weight x: rank 5", {.name = "x", .rank = 5, .shape = (size_t[]){1, 1, 1, 1, 1}}},
        {"weight x: dimension 1 of its shape is 0", {.name = "x", .rank = 2, .shape = (size_t[]){3, 0}}},
        {"which is not allowed: it would have 2^46", {.name = "x", .rank = 2, .shape = (size_t[]){SIZE_MAX / 2, 4}}},
        {"weight x: 2 x 3, but its shape has 7",
         {.name = "x", .rank = 1, .shape = (size_t[]){7}, .rows = 2, .columns = 3}},
        {"blocks of 0 rows",
         {.name = "x", .rank = 2, .shape = (size_t[]){3, 3}, .init = {.kind = BO_WEIGHT_INIT_KIND_IDENTITY}}},
        {"weight gain is already declared as 1 x 5, and is declared again as 1 x 6",
         {.name = "gain", .rank = 1, .shape = (size_t[]){6}, .role = BO_WEIGHT_ROLE_VECTOR}},
        {"with another role", {.name = "gain", .rank = 1, .shape = (size_t[]){5}}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(context, BO_INVALID, wrong[i].message,
                     bo_weights_declare(context, weights, &wrong[i].weight, &index));
    assert_fails(context, BO_INVALID, "no memory yet", bo_weights_init(context, weights, 1));
    assert_ok(context, bo_weights_allocate(context, weights, false));
    bo_weight_desc late = {.name = "late", .rank = 1, .shape = (size_t[]){3}};
    assert_fails(context, BO_INVALID, "already has memory", bo_weights_declare(context, weights, &late, &index));
    assert_int_equal(bo_weights_count(weights), COUNT);
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

static bo_status live(bo_context *context)
{
    bo_weights *weights = NULL;
    size_t index;
    char name[16];
    bo_status status = bo_weights_create(context, &weights);
    for (size_t i = 0; status == BO_OK && i < 40; i++) {
        snprintf(name, sizeof name, "w%zu", i);
        bo_weight_desc weight = {.name = name, .rank = 2, .shape = (size_t[]){3, 4}};
        status = bo_weights_declare(context, weights, &weight, &index);
    }
    if (status == BO_OK) status = bo_weights_allocate(context, weights, true);
    if (status == BO_OK) status = bo_weights_init(context, weights, 1);
    bo_weights_destroy(weights);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    size_t before = c.live;
    bo_status status = BO_MEMORY;
    for (size_t nth = 1; status == BO_MEMORY; nth++) {
        c.calls = 0;
        c.fail_at = nth;
        c.once = true;
        status = live(context);
        assert_int_equal(c.live, before);
        assert_false(status == BO_OK && c.calls >= nth);
        c.fail_at = 0;
    }
    assert_int_equal(status, BO_OK);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_contiguous),
        cmocka_unit_test(only_trained_weights_have_gradients),
        cmocka_unit_test(every_name_is_found),
        cmocka_unit_test(laws_follow_their_definitions),
        cmocka_unit_test(numbers_depend_on_seed_name_and_place),
        cmocka_unit_test(wrong_weights_are_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
