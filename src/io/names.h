/* A list of names for an error message: as many as fit, and the number of the remaining names. */
#ifndef BO_IO_NAMES_H
#define BO_IO_NAMES_H

#include "../base/base.h"

/* All zero: empty. */
typedef struct bo_names {
    char text[640];
    size_t used, shown, count;
} bo_names;

__attribute__((format(printf, 2, 3))) void bo_names_add(bo_names *list, const char *format, ...);
/* "a, b, c and 12 more". */
const char *bo_names_text(bo_names *list);

#endif
