/* Includes BO_TEMPLATE once for float and once for double. In the template, REAL is the type and R(name) the function's
 * name with its suffix; <tgmath.h> selects the matching sin, exp and sqrt. A template is the part of a file under
 * #ifdef REAL; the rest of the same file includes this header. Each formula is therefore written once. */
#include <tgmath.h>

#define REAL    float
#define R(name) name##_f32
#include BO_TEMPLATE
#undef REAL
#undef R

#define REAL    double
#define R(name) name##_f64
#include BO_TEMPLATE
#undef REAL
#undef R
