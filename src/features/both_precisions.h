/* Includes BO_TEMPLATE once for float and once for double. In it, REAL is the type and R(name) the function's
 * name with its suffix; <tgmath.h> picks the right sin, exp and sqrt. A template is the part of a file under
 * #ifdef REAL, the rest of the same file includes this header: formulas exist once. */
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
