/* The memory that the states of running texts take. */
#ifndef BO_SERVE_MEMORY_H
#define BO_SERVE_MEMORY_H

#include <stddef.h>

enum { BO_SLOTS_DEFAULT = 64 };

/* On the CPU memory is taken as tokens are read; on a device, a slot takes `largest` when its text starts. */
typedef struct bo_slots_memory {
    size_t slots;
    size_t tokens;      /* maximum tokens of a text whose state grows; 0: it does not */
    size_t fixed;       /* bytes of a state, */
    size_t per_token;   /* and of each token; 0: the size is fixed */
    size_t pages;       /* bytes of memory pages that are not full */
    size_t largest;     /* of a text of the maximum length */
    size_t workspace;   /* bytes beside the states: graphs and logits, all that may be needed at some time */
    size_t budget;      /* of all texts; SIZE_MAX: no limit is known */
    const char *source; /* of the limit that the budget is a part of */
} bo_slots_memory;

#endif
