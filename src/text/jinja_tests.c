/* Tests: value is name(arguments). */
#include "jinja_run.h"
#include <math.h>

#define DEFINE_TEST(name, condition)                                                                                   \
    static bo_status name(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)                             \
    {                                                                                                                  \
        (void)run;                                                                                                     \
        *out = bo_jinja_of_boolean(condition);                                                                         \
        return BO_OK;                                                                                                  \
    }

static bool is_text(const bo_jinja_value *value)
{
    return value->kind == BO_JINJA_TEXT || value->kind == BO_JINJA_MARKUP;
}

static bool is_iterable(const bo_jinja_value *v)
{
    return v->kind == BO_JINJA_UNDEFINED || is_text(v) || bo_jinja_is_list(v) || v->kind == BO_JINJA_DICT ||
           v->kind == BO_JINJA_LOOP;
}

/* An undefined value of Jinja2 has a length and items, and can be called. */
DEFINE_TEST(is_defined, v[0].kind != BO_JINJA_UNDEFINED)
DEFINE_TEST(is_undefined, v[0].kind == BO_JINJA_UNDEFINED)
DEFINE_TEST(is_none, v[0].kind == BO_JINJA_NONE)
DEFINE_TEST(is_string, is_text(&v[0]))
DEFINE_TEST(is_boolean, v[0].kind == BO_JINJA_BOOLEAN)
DEFINE_TEST(is_true, v[0].kind == BO_JINJA_BOOLEAN && v[0].boolean)
DEFINE_TEST(is_false, v[0].kind == BO_JINJA_BOOLEAN && !v[0].boolean)
DEFINE_TEST(is_integer, v[0].kind == BO_JINJA_WHOLE)
DEFINE_TEST(is_float, v[0].kind == BO_JINJA_FRACTION)
DEFINE_TEST(is_number, bo_jinja_is_number(&v[0]))
DEFINE_TEST(is_mapping, v[0].kind == BO_JINJA_DICT)
DEFINE_TEST(can_iterate, is_iterable(&v[0]))
DEFINE_TEST(is_sequence, v[0].kind == BO_JINJA_UNDEFINED || is_text(&v[0]) || v[0].kind == BO_JINJA_DICT ||
                             (bo_jinja_is_list(&v[0]) && v[0].kind <= BO_JINJA_SPAN))
DEFINE_TEST(is_callable,
            v[0].kind == BO_JINJA_UNDEFINED || v[0].kind == BO_JINJA_MACRO || v[0].kind == BO_JINJA_FUNCTION)

/* The remainder of the whole number v[0] divided by `by`, as in Python. */
static bo_status remainder_of(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value by, int64_t *out)
{
    bo_jinja_value rest;
    BO_TRY(bo_jinja_arithmetic(run, '%', &v[0], &by, &rest));
    *out = rest.kind == BO_JINJA_FRACTION ? (rest.fraction == 0   ? 0
                                             : rest.fraction == 1 ? 1
                                                                  : 2)
                                          : bo_jinja_whole(&rest);
    return BO_OK;
}

static bo_status is_odd(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    int64_t rest;
    BO_TRY(remainder_of(run, v, bo_jinja_of_whole(2), &rest));
    *out = bo_jinja_of_boolean(rest == 1);
    return BO_OK;
}

static bo_status is_even(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    int64_t rest;
    BO_TRY(remainder_of(run, v, bo_jinja_of_whole(2), &rest));
    *out = bo_jinja_of_boolean(rest == 0);
    return BO_OK;
}

static bo_status is_divisible(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    int64_t rest;
    BO_TRY(remainder_of(run, v, v[1], &rest));
    *out = bo_jinja_of_boolean(rest == 0);
    return BO_OK;
}

static bo_status is_equal(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    *out = bo_jinja_of_boolean(false);
    return bo_jinja_equal(run, &v[0], &v[1], &out->boolean);
}

static bo_status is_unequal(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    BO_TRY(is_equal(run, v, out));
    out->boolean = !out->boolean;
    return BO_OK;
}

/* Tests sign(v[0] - v[1]) * sign >= threshold. */
static bo_status compare(bo_jinja_run *run, const bo_jinja_value *v, int sign, int threshold, bo_jinja_value *out)
{
    int order;
    BO_TRY(bo_jinja_order(run, &v[0], &v[1], &order));
    *out = bo_jinja_of_boolean((order > 0 ? sign : order < 0 ? -sign : 0) >= threshold);
    return BO_OK;
}

static bo_status is_less(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return compare(run, v, -1, 1, out);
}

static bo_status is_at_most(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return compare(run, v, -1, 0, out);
}

static bo_status is_greater(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return compare(run, v, 1, 1, out);
}

static bo_status is_at_least(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return compare(run, v, 1, 0, out);
}

static bo_status is_in(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    *out = bo_jinja_of_boolean(false);
    return bo_jinja_contains(run, &v[0], &v[1], &out->boolean);
}

const bo_jinja_filter *bo_jinja_find_test(const char *name, size_t length)
{
    static const bo_jinja_filter tests[] = {
        {"boolean", is_boolean, 0, {NULL}},
        {"callable", is_callable, 0, {NULL}},
        {"defined", is_defined, 0, {NULL}},
        {"divisibleby", is_divisible, 1, {"num"}},
        {"eq", is_equal, 1, {"other"}},
        {"equalto", is_equal, 1, {"other"}},
        {"even", is_even, 0, {NULL}},
        {"false", is_false, 0, {NULL}},
        {"float", is_float, 0, {NULL}},
        {"ge", is_at_least, 1, {"other"}},
        {"gt", is_greater, 1, {"other"}},
        {"greaterthan", is_greater, 1, {"other"}},
        {"in", is_in, 1, {"seq"}},
        {"integer", is_integer, 0, {NULL}},
        {"iterable", can_iterate, 0, {NULL}},
        {"le", is_at_most, 1, {"other"}},
        {"lessthan", is_less, 1, {"other"}},
        {"lt", is_less, 1, {"other"}},
        {"mapping", is_mapping, 0, {NULL}},
        {"ne", is_unequal, 1, {"other"}},
        {"none", is_none, 0, {NULL}},
        {"number", is_number, 0, {NULL}},
        {"odd", is_odd, 0, {NULL}},
        {"sequence", is_sequence, 0, {NULL}},
        {"string", is_string, 0, {NULL}},
        {"true", is_true, 0, {NULL}},
        {"undefined", is_undefined, 0, {NULL}},
        {NULL, NULL, 0, {NULL}},
    };
    return bo_jinja_find(tests, name, length);
}
