/* The memory of the states of running sequences. */
#ifndef BO_SERVE_MEMORY_H
#define BO_SERVE_MEMORY_H

#include <stddef.h>

enum { BO_SLOTS_DEFAULT = 64 };

/* On the CPU, memory is allocated as tokens are read. On a device, a slot allocates `largest` bytes when its sequence
 * starts. */
typedef struct bo_slots_memory {
    size_t slots;
    size_t tokens;      /* maximum tokens of a sequence whose state grows; 0: it does not grow */
    size_t fixed;       /* bytes of a state, */
    size_t per_token;   /* and bytes per token; 0: the size is fixed */
    size_t pages;       /* bytes of memory pages that are not full */
    size_t largest;     /* bytes of the state of a sequence of the maximum length */
    size_t workspace;   /* bytes in addition to the states: all graphs and logits that may be needed */
    size_t budget;      /* bytes for all sequences; SIZE_MAX: no known limit */
    const char *source; /* origin of the limit from which the budget follows */
} bo_slots_memory;

#endif
