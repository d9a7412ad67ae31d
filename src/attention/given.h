/* The inputs of attention after q, k and v, in the order of bo_attention_given. Code that treats all inputs alike is
 * generated from this list. An input has the name of its member in bo_attention_inputs, bo_attention_gradients,
 * bo_strided_call and bo_gpu_attention; in the last two, gradients have the prefix d. */
#ifndef BO_ATTENTION_GIVEN_H
#define BO_ATTENTION_GIVEN_H

#include "attention.h"
#include "../base/counts.h"

/* TOKENS(BIT, name): one row per key, of the type of q; PARAMETER(BIT, name): float32, with its size in parameters.c.
 * Empty macros skip the inputs of one form. */
#define BO_ATTENTION_GIVEN_LIST(TOKENS, PARAMETER)                                                                     \
    TOKENS(LOG_GATE, log_gate)                                                                                         \
    PARAMETER(SIGMA, sigma)                                                                                            \
    PARAMETER(M, m)                                                                                                    \
    PARAMETER(MIX, mix)                                                                                                \
    TOKENS(BETA, beta)                                                                                                 \
    PARAMETER(LOG_DECAY, log_decay)                                                                                    \
    PARAMETER(LAMBDA, lambda)                                                                                          \
    PARAMETER(M_K, m_k)                                                                                                \
    PARAMETER(BIAS, bias)                                                                                              \
    PARAMETER(BIAS_K, bias_k)
#define BO_GIVEN_NONE(BIT, name)

/* BO_GIVEN_<BIT>: the index of an input in the list, which is the number of its bit. */
#define BO_GIVEN_PLACE(BIT, name) BO_GIVEN_##BIT,
enum { BO_ATTENTION_GIVEN_LIST(BO_GIVEN_PLACE, BO_GIVEN_PLACE) BO_GIVEN_COUNT };
#undef BO_GIVEN_PLACE

#define BO_GIVEN_CHECK(BIT, name)                                                                                      \
    _Static_assert((int)BO_ATTENTION_GIVEN_##BIT == 1 << BO_GIVEN_##BIT, #name ": the place must be the bit");
BO_ATTENTION_GIVEN_LIST(BO_GIVEN_CHECK, BO_GIVEN_CHECK)
#undef BO_GIVEN_CHECK
_Static_assert((int)BO_GIVEN_COUNT == BO_ATTENTION_GIVEN_COUNT, "every input must be in the list");

/* The bits of all inputs of one form. */
#define BO_GIVEN_BIT(BIT, name) | BO_ATTENTION_GIVEN_##BIT
enum {
    BO_GIVEN_TOKENS = 0 BO_ATTENTION_GIVEN_LIST(BO_GIVEN_BIT, BO_GIVEN_NONE),
    BO_GIVEN_PARAMETERS = 0 BO_ATTENTION_GIVEN_LIST(BO_GIVEN_NONE, BO_GIVEN_BIT)
};
#undef BO_GIVEN_BIT

/* The number of inputs of each form. Every parameter (bo_parameter) is an input. */
#define BO_GIVEN_ONE(BIT, name) +1
enum {
    BO_GIVEN_OF_TOKENS = BO_ATTENTION_GIVEN_LIST(BO_GIVEN_ONE, BO_GIVEN_NONE),
    BO_GIVEN_OF_PARAMETERS = BO_ATTENTION_GIVEN_LIST(BO_GIVEN_NONE, BO_GIVEN_ONE)
};
#undef BO_GIVEN_ONE
_Static_assert((int)BO_GIVEN_OF_PARAMETERS == (int)BO_PARAMETER_COUNT, "every parameter must be in the list");

/* Returns the name of an input by its index. */
const char *bo_given_name(size_t place);
/* Returns the length of an input per key head: of each row, or of a parameter. 0: the attention does not have it. */
size_t bo_given_width(const bo_attention *attention, size_t place);

#endif
