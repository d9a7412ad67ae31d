/* The sizes supported by the fast kernels: columns of a row, frequencies, features per frequency, columns of values.
 * src/attention/gpu/linear.c has the same list. */
#ifndef BO_CUDA_FEATURES_SETS_CUH
#define BO_CUDA_FEATURES_SETS_CUH

#define BO_IF_SET(map, call, d, m, per, v, CASE)                                                                       \
    if ((map).dim == d && (map).frequencies == m && (map).features == m * per && (call).value_dim == v)                \
        CASE(d, m, per, v);

#define BO_FOR_SET(map, call, CASE)                                                                                    \
    BO_IF_SET(map, call, 64, 128, 1, 64, CASE)                                                                         \
    BO_IF_SET(map, call, 64, 64, 1, 64, CASE)                                                                          \
    BO_IF_SET(map, call, 64, 64, 2, 64, CASE)

#endif
