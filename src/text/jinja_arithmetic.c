/* Operators on numbers, strings and lists. */
#include "jinja_run.h"
#include <math.h>

static bo_status too_large(bo_jinja_run *run)
{
    return bo_jinja_fail(run, BO_UNSUPPORTED, "whole numbers beyond 64 bits are not supported");
}

static bo_jinja_value of_fraction(double fraction)
{
    return (bo_jinja_value){.kind = BO_JINJA_FRACTION, .fraction = fraction};
}

static bo_status power(bo_jinja_run *run, int64_t base, int64_t exponent, bo_jinja_value *out)
{
    int64_t result = 1;
    if (exponent < 0 && base == 0) return bo_jinja_fail(run, BO_INVALID, "division by zero");
    if (exponent < 0) {
        *out = of_fraction(pow((double)base, (double)exponent));
        return BO_OK;
    }
    if (base == 0 || base == 1) exponent = exponent > 0 ? 1 : 0;
    if (base == -1) exponent %= 2;
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(result, base, &result)) return too_large(run);
    *out = bo_jinja_of_whole(result);
    return BO_OK;
}

/* Division and remainder round toward minus infinity, as in Python. */
static bo_status divide(bo_jinja_run *run, int sign, int64_t a, int64_t b, bo_jinja_value *out)
{
    if (b == 0) return bo_jinja_fail(run, BO_INVALID, "division by zero");
    if (sign == '/') {
        *out = of_fraction((double)a / (double)b);
        return BO_OK;
    }
    if (b == -1) { /* INT64_MIN / -1 overflows */
        if (a == INT64_MIN && sign == BO_JINJA_FLOOR) return too_large(run);
        *out = bo_jinja_of_whole(sign == BO_JINJA_FLOOR ? -a : 0);
        return BO_OK;
    }
    const bool down = a % b != 0 && (a % b < 0) != (b < 0);
    *out = bo_jinja_of_whole(sign == BO_JINJA_FLOOR ? a / b - down : a % b + (down ? b : 0));
    return BO_OK;
}

static bo_status whole_arithmetic(bo_jinja_run *run, int sign, int64_t a, int64_t b, bo_jinja_value *out)
{
    int64_t result = 0;
    bool overflow = false;
    if (sign == BO_JINJA_POWER) return power(run, a, b, out);
    if (sign == '/' || sign == '%' || sign == BO_JINJA_FLOOR) return divide(run, sign, a, b, out);
    if (sign == '+')
        overflow = __builtin_add_overflow(a, b, &result);
    else if (sign == '-')
        overflow = __builtin_sub_overflow(a, b, &result);
    else
        overflow = __builtin_mul_overflow(a, b, &result);
    *out = bo_jinja_of_whole(result);
    return overflow ? too_large(run) : BO_OK;
}

static bo_status real_arithmetic(bo_jinja_run *run, int sign, double a, double b, bo_jinja_value *out)
{
    double result;
    if ((sign == '/' || sign == '%' || sign == BO_JINJA_FLOOR) && b == 0)
        return bo_jinja_fail(run, BO_INVALID, "division by zero");
    double rest = sign == '%' || sign == BO_JINJA_FLOOR ? fmod(a, b) : 0;
    const double whole = rest != 0 || sign == BO_JINJA_FLOOR ? (a - rest) / b : 0;
    const bool down = rest != 0 && (rest < 0) != (b < 0);
    switch (sign) {
    case '+':
        result = a + b;
        break;
    case '-':
        result = a - b;
        break;
    case '*':
        result = a * b;
        break;
    case '/':
        result = a / b;
        break;
    case '%':
        result = rest == 0 ? copysign(0, b) : down ? rest + b : rest;
        break;
    case BO_JINJA_FLOOR:
        result = whole - down == 0 ? copysign(0, a / b) : floor(whole - down + 0.5);
        break;
    default:
        if (a < 0 && floor(b) != b) return bo_jinja_fail(run, BO_UNSUPPORTED, "complex numbers are not supported");
        if (a == 0 && b < 0) return bo_jinja_fail(run, BO_INVALID, "division by zero");
        result = pow(a, b);
        if (isinf(result) && isfinite(a) && isfinite(b))
            return bo_jinja_fail(run, BO_INVALID, "the result of '**' is out of range");
        break;
    }
    *out = of_fraction(result);
    return BO_OK;
}

/* ---- strings and lists ------------------------------------------------------------------------------------------- */

static bo_status add_lists(bo_jinja_run *run, const bo_jinja_value *a, const bo_jinja_value *b, bo_jinja_value *out)
{
    BO_TRY(bo_jinja_list_new(run, a->kind, a->list->count + b->list->count, out));
    for (size_t i = 0; i < a->list->count; i++) BO_TRY(bo_jinja_list_add(run, out->list, a->list->items[i]));
    for (size_t i = 0; i < b->list->count; i++) BO_TRY(bo_jinja_list_add(run, out->list, b->list->items[i]));
    return BO_OK;
}

static bo_status concatenate(bo_jinja_run *run, const bo_jinja_value *a, const bo_jinja_value *b, bo_jinja_value *out)
{
    bo_jinja_builder builder = {0};
    BO_TRY(bo_jinja_print(run, &builder, a));
    BO_TRY(bo_jinja_print(run, &builder, b));
    *out = bo_jinja_built(&builder);
    return BO_OK;
}

static bool can_repeat(const bo_jinja_value *value)
{
    return value->kind == BO_JINJA_TEXT || value->kind == BO_JINJA_LIST || value->kind == BO_JINJA_TUPLE;
}

static bo_status repeat(bo_jinja_run *run, const bo_jinja_value *what, int64_t times, bo_jinja_value *out)
{
    bo_jinja_builder builder = {0};
    const size_t each = what->kind == BO_JINJA_TEXT ? what->length : what->list->count * sizeof(bo_jinja_value);
    if (each > 0 && times > (int64_t)(BO_JINJA_MEMORY / each))
        return bo_jinja_fail(run, BO_INVALID, "a repetition takes more than %d MiB of memory", BO_JINJA_MEMORY >> 20);
    if (what->kind == BO_JINJA_TEXT) {
        for (int64_t i = 0; i < times && what->length > 0; i++) BO_TRY(bo_jinja_build_text(run, &builder, what));
        *out = bo_jinja_built(&builder);
        return BO_OK;
    }
    BO_TRY(bo_jinja_list_new(run, what->kind, 0, out));
    for (int64_t i = 0; i < times && what->list->count > 0; i++)
        for (size_t j = 0; j < what->list->count; j++) BO_TRY(bo_jinja_list_add(run, out->list, what->list->items[j]));
    return BO_OK;
}

bo_status bo_jinja_arithmetic(bo_jinja_run *run, int sign, const bo_jinja_value *a, const bo_jinja_value *b,
                              bo_jinja_value *out)
{
    if (a->kind == BO_JINJA_MARKUP || b->kind == BO_JINJA_MARKUP)
        return bo_jinja_fail(run, BO_UNSUPPORTED, "an operator on the result of the filter 'safe' is not supported");
    if (sign == '~') return concatenate(run, a, b, out);
    if (bo_jinja_is_whole(a) && bo_jinja_is_whole(b))
        return whole_arithmetic(run, sign, bo_jinja_whole(a), bo_jinja_whole(b), out);
    if (bo_jinja_is_number(a) && bo_jinja_is_number(b))
        return real_arithmetic(run, sign, bo_jinja_fraction(a), bo_jinja_fraction(b), out);
    if (sign == '+' && a->kind == b->kind && a->kind == BO_JINJA_TEXT) return concatenate(run, a, b, out);
    if (sign == '+' && a->kind == b->kind && can_repeat(a)) return add_lists(run, a, b, out);
    if (sign == '*' && can_repeat(a) && bo_jinja_is_whole(b)) return repeat(run, a, bo_jinja_whole(b), out);
    if (sign == '*' && can_repeat(b) && bo_jinja_is_whole(a)) return repeat(run, b, bo_jinja_whole(a), out);
    if (sign == '%' && a->kind == BO_JINJA_TEXT)
        return bo_jinja_fail(run, BO_UNSUPPORTED, "the operator '%%' on a string is not supported");
    if (a->kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, a);
    if (b->kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, b);
    const char *name = sign == BO_JINJA_FLOOR ? "//" : sign == BO_JINJA_POWER ? "**" : (char[]){(char)sign, 0};
    return bo_jinja_fail(run, BO_INVALID, "the operator '%s' does not apply to %s and %s", name, bo_jinja_kind_name(a),
                         bo_jinja_kind_name(b));
}
