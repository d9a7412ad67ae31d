/* Linear systems s_t = A s_(t-1) + B u_t, y_t = Re(C s_t) + D u_t in float64, with the parameters of the state-space
 * layers of the library (see operations.h for the formulas). This code is the reference for those layers. */
#ifndef BO_LAB_ARCHITECTURES_SYSTEMS_H
#define BO_LAB_ARCHITECTURES_SYSTEMS_H

#include "../experiment.h"

enum { LAB_SYSTEM_STATES = 8 };

typedef double _Complex lab_number;

/* The system of one channel. */
typedef struct lab_system {
    lab_number a[LAB_SYSTEM_STATES * LAB_SYSTEM_STATES], b[LAB_SYSTEM_STATES], c[LAB_SYSTEM_STATES];
    double d;
} lab_system;

/* Extracts channel `channel` of the layer `prefix` on the tape: LAB_SYSTEM_STATES states, rank 1. */
bo_status lab_system_of(lab_tape *tape, const char *prefix, bo_ssm kind, size_t channels, size_t channel,
                        lab_system *out);
/* Computes y for `tokens` inputs u, starting from a zero state. */
void lab_system_run(const lab_system *system, size_t tokens, const double *u, double *y);

#endif
