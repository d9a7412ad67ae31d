/* Arguments of operations on numbers and rows: device/add.cu, device/convert.cu. */
#ifndef BO_CUDA_ARGUMENTS_ROWS_H
#define BO_CUDA_ARGUMENTS_ROWS_H

/* y = a + b; accumulate: y += a + b. b NULL: y = a, or y += a. */
typedef struct bo_cuda_add {
    bo_cuda_type type;
    size_t count;
    const void *a, *b;
    void *y;
    bool accumulate;
} bo_cuda_add;

/* to[i] = from[i] in another type, rounded to nearest, ties to even. */
typedef struct bo_cuda_convert {
    size_t count;
    bo_cuda_type from_type, to_type;
    const void *from;
    void *to;
} bo_cuda_convert;

/* *out = 1 if all numbers are finite, else 0. */
typedef struct bo_cuda_finite {
    bo_cuda_type type;
    size_t count;
    const void *x;
    int32_t *out;
} bo_cuda_finite;

/* out[r] = the column of the largest number of row r; the first of equal ones. */
typedef struct bo_cuda_largest {
    size_t rows, columns;
    const float *x;
    int32_t *out;
} bo_cuda_largest;

#define BO_CUDA_LAUNCHES_ROWS(X)                                                                                       \
    X(add, bo_cuda_add)                                                                                                \
    X(convert, bo_cuda_convert)                                                                                        \
    X(finite, bo_cuda_finite)                                                                                          \
    X(largest, bo_cuda_largest)

#endif
