/* A test program for the cases of some operations. */
#ifndef BO_TEST_BACKEND_SUBJECTS_H
#define BO_TEST_BACKEND_SUBJECTS_H

#include "harness.h"

static inline void subject_check(void (*cases)(op_visitor, void *))
{
    harness h;
    harness_begin(&h);
    cases(harness_check, &h);
    harness_end(&h);
}

#define SUBJECT(name)                                                                                                  \
    static void of_##name(void **state)                                                                                \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        subject_check(cases_##name);                                                                                   \
    }

#endif
