/* Arrays with strides. */
#ifndef BO_ATTENTION_ARRAYS_H
#define BO_ATTENTION_ARRAYS_H

#include <bochner/attention.h>

/* Returns the array with its strides: those without gaps, tokens first, if they are all 0. */
bo_attention_array bo_attention_array_strides(const bo_attention_array *array, size_t tokens, size_t heads,
                                              size_t width);

#endif
