/* The steps that streaming fits and fits in memory share: prepare.c and streaming.c. */
#ifndef BO_MACHINES_FITTING_H
#define BO_MACHINES_FITTING_H

#include "internal.h"
#include "tune.h"

bo_fit_shape bo_samples_shape(const bo_samples *samples);
/* Everything before the first row is added: scaling, targets, γ and λ, the map. `rows`: the expected number of rows.
 * `setting`: what was chosen before, or NULL. */
bo_status bo_fitting_prepare(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples, size_t rows,
                             const bo_setting *setting, bo_fitting **out);
/* The problem of this fit with these samples. */
bo_fit_problem bo_fitting_problem(const bo_fitting *fitting, const bo_samples *samples);
/* Creates the moments, to which bo_fitting_add adds rows. */
bo_status bo_fitting_open(bo_context *context, bo_fitting *fitting);
/* A machine with the scaling and the map of the fit, without coefficients. */
bo_status bo_fitting_machine(bo_context *context, const bo_fitting *fitting, bo_machine **out);

#endif
