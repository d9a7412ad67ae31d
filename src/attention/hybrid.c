/* Softmax inside a window, features outside, one denominator. */
#include "internal.h"

const bo_engine bo_engine_hybrid = {0};
