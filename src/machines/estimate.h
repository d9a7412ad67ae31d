/* Checks, defaults and cost of a fit: check.c, estimate.c, prepare.c. */
#ifndef BO_MACHINES_ESTIMATE_H
#define BO_MACHINES_ESTIMATE_H

#include <bochner/machines.h>
#include "../base/base.h"

/* On a device, fits use the primal solver and the ridge loss: sets these defaults. */
void bo_fit_for_device(bo_context *context, bo_machine_desc *desc);
/* Checks the descriptor and the samples of a fit: check.c. */
bo_status bo_fit_check(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples);
/* True if a fit uses the exact kernel of its rows instead of features: if the descriptor requests it (SECTIONS), or by
 * default for kernels of networks with at most as many rows as features, and for a kernel that the fit chooses
 * (choose_kernel) with at most BO_EXACT_MAX_ROWS dense rows. */
bool bo_fit_is_exact(const bo_machine_desc *desc, size_t rows, bool sparse, int threads);
enum { BO_EXACT_MAX_ROWS = 50000 };
/* Seconds to solve the system of an exact kernel. */
double bo_exact_seconds(double rows, double outputs, int threads);
/* Resolves the function and the number of features: exact kernel, landmarks or random features, within the budget. */
void bo_fit_resolve_map(bo_context *context, const bo_fit_shape *shape, bo_machine_desc *desc);
/* There are at most as many landmarks as rows. */
void bo_fit_limit_landmarks(bo_machine_desc *desc, size_t rows);

/* Features of a random map by default. */
enum { BO_FIT_FEATURES = 4096 };
/* The memory that a fit may use: the descriptor's limit, or three quarters of bo_process_memory. */
bo_memory_bound bo_fit_memory(const bo_machine_desc *desc);

/* Maximum number of rows that a fit keeps for validation: for intervals of numbers, for the calibration of classes, and
 * the part that data-dependent maps use. */
enum { BO_KEPT_ROWS = 4096, BO_KEPT_ROWS_OF_CLASSES = 2048, BO_SAMPLED_ROWS = 2048 };

/* From this number of columns on, frequencies are drawn independently. */
enum { BO_WIDE_COLUMNS = 16384 };
/* The descriptor of the map, with the defaults that fitting sets. */
bo_features_desc bo_fitting_map(const bo_machine_desc *desc, size_t dim);

#endif
