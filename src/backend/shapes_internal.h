/* Functions shared by the shape files: error messages, and checks of one input. */
#ifndef BO_BACKEND_SHAPES_INTERNAL_H
#define BO_BACKEND_SHAPES_INTERNAL_H

#include <float.h>
#include <math.h>
#include "shapes.h"

#define REFUSE(...) return bo_fail(context, BO_INVALID, __VA_ARGS__)

/* Returns a b, or SIZE_MAX on overflow. */
static inline size_t times(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

/* True if x is in the range of float32. */
static inline bool is_float(double x)
{
    return fabs(x) <= (double)FLT_MAX;
}

static inline bo_status count_inputs(bo_context *context, const bo_op_call *call, const char *op, size_t expected)
{
    if (call->inputs != expected) REFUSE("%s: %zu inputs, expected %zu", op, call->inputs, expected);
    return BO_OK;
}

static inline const char *elements(bo_element element)
{
    static const char *const names[] = {"floats", "integers", "bfloat16", "int8", "int4"};
    return (unsigned)element < sizeof names / sizeof *names ? names[element] : "unknown elements";
}

/* Checks that input i has this element type, and this number of rows and columns if nonzero. */
static inline bo_status check(bo_context *context, const bo_op_call *call, const char *op, size_t i, const char *what,
                              bo_element element, size_t rows, size_t columns)
{
    const bo_tensor *in = &call->in[i];
    size_t expected_rows = rows ? rows : in->rows, expected_columns = columns ? columns : in->columns;
    if (in->element != element || in->rows != expected_rows || in->columns != expected_columns)
        REFUSE("%s: %s is %zu x %zu %s, expected %zu x %zu %s", op, what, in->rows, in->columns, elements(in->element),
               expected_rows, expected_columns, elements(element));
    return BO_OK;
}

static inline bo_status check_floats(bo_context *context, const bo_op_call *call, const char *op, size_t i,
                                     const char *what, size_t rows, size_t columns)
{
    return check(context, call, op, i, what, BO_ELEMENT_FLOAT32, rows, columns);
}

/* Checks for floats, or a narrow storage type if allowed (bo_op.stored_inputs). */
static inline bo_status check_stored(bo_context *context, const bo_op_call *call, const char *op, size_t i,
                                     const char *what, size_t rows, size_t columns)
{
    bo_element element = call->in[i].element;
    bool stored = element == BO_ELEMENT_BFLOAT16 || element == BO_ELEMENT_INT8 || element == BO_ELEMENT_INT4;
    return check(context, call, op, i, what, stored ? element : BO_ELEMENT_FLOAT32, rows, columns);
}

/* Checks for one integer per row. */
static inline bo_status check_integers(bo_context *context, const bo_op_call *call, const char *op, size_t i,
                                       const char *what, size_t rows)
{
    return check(context, call, op, i, what, BO_ELEMENT_INT32, rows, 1);
}

/* Checks that the rows are a multiple of the sequence length. */
static inline bo_status check_tokens(bo_context *context, const bo_op_call *call, const char *op, size_t tokens)
{
    if (tokens && call->in[0].rows % tokens)
        REFUSE("%s: sequences of %zu tokens do not divide %zu rows", op, tokens, call->in[0].rows);
    return BO_OK;
}

static inline void set_output(bo_op_call *call, size_t i, size_t rows, size_t columns)
{
    call->out[i] = (bo_tensor){.element = BO_ELEMENT_FLOAT32, .rows = rows, .columns = columns};
    if (call->outputs < i + 1) call->outputs = i + 1;
}

/* Sets the number of outputs, and checks that the first input is a matrix of floats. */
static inline bo_status begin(bo_context *context, bo_op_call *call, const char *op, size_t inputs)
{
    call->outputs = 0;
    BO_TRY(count_inputs(context, call, op, inputs));
    return check_floats(context, call, op, 0, "input 0", 0, 0);
}

static inline void set_output_like_input(bo_op_call *call)
{
    set_output(call, 0, call->in[0].rows, call->in[0].columns);
}

#endif
