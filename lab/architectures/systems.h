/* Linear systems s_t = A s_(t-1) + B u_t, y_t = Re(C s_t) + D u_t in float64, made of the parameters that the engine's
 * state-space layers have (operations.h has the formulas): what those layers are held against. */
#ifndef BO_LAB_ARCHITECTURES_SYSTEMS_H
#define BO_LAB_ARCHITECTURES_SYSTEMS_H

#include "../tools/tape.h"

enum { LAB_SYSTEM_STATES = 8 };

typedef double _Complex lab_number;

/* One channel's. */
typedef struct lab_system {
    lab_number a[LAB_SYSTEM_STATES * LAB_SYSTEM_STATES], b[LAB_SYSTEM_STATES], c[LAB_SYSTEM_STATES];
    double d;
} lab_system;

/* Channel `channel` of the layer `prefix` on the tape: LAB_SYSTEM_STATES states, rank 1. */
bo_status lab_system_of(lab_tape *tape, const char *prefix, bo_ssm kind, size_t channels, size_t channel,
                        lab_system *out);
/* y of `tokens` numbers u, from rest. */
void lab_system_run(const lab_system *system, size_t tokens, const double *u, double *y);

#endif
