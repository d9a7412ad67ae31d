/* Predictions of fitted machines: predict.c, exact.c, gradients.c, conformal.c, target_scale.c. */
#ifndef BO_MACHINES_PREDICTION_H
#define BO_MACHINES_PREDICTION_H

#include "machine.h"

/* bo_machine_predict for rows that were checked. */
bo_status bo_machine_predict_view(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                  const bo_prediction *out);
/* Predictions in the units of beta, which are logarithms if the targets are, and deviations s(x), or NULL. */
bo_status bo_machine_predict_plain(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                   double *mean, double *deviation);
/* The same for a machine with an exact kernel: exact.c. */
bo_status bo_exact_predict(bo_context *context, const bo_machine *machine, const bo_input_view *inputs, double *mean,
                           double *std);
/* Scores in the units of y from a block of features: mean (rows x outputs). */
bo_status bo_machine_scores(bo_context *context, const bo_machine *machine, size_t rows, const float *z, size_t ldz,
                            double *mean);
/* (φ - center) √w / D of the training rows of a machine with uncertainty DUAL (train_rows x features), `block` rows at
 * a time. */
bo_status bo_machine_train_features(bo_context *context, const bo_machine *machine, size_t block, double *out);
/* The average gradient outer product, G = mean over the rows of Σ_t ∇f_t ∇f_tᵀ (bo_machine_gradients), in blocks of
 * rows. Writes the `dim` numbers G_jj and G (dim x dim); either may be NULL. BO_INVALID without rows. */
bo_status bo_machine_gradient_products(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                       double *diagonal, double *matrix);
/* Replaces the predictions of the leader by the predictions of the committee, if there is one. */
bo_status bo_committee_mean(bo_context *context, const bo_machine *machine, const bo_input_view *inputs, double *mean);
/* Multiplies standard deviations for noise of equal size by s(x). columns: rows x machine->intervals.columns. */
void bo_intervals_deviate(const bo_machine *machine, size_t rows, const double *columns, const double *mean,
                          double *std);
/* The ends of intervals from predictions and deviations of bo_machine_predict_plain. */
bo_status bo_intervals_apply(bo_context *context, const bo_machine *machine, size_t rows, double level,
                             const double *mean, const double *deviation, double *low, double *high);
/* Converts predictions in the units of beta, and ends of their intervals, to the units of the targets. */
void bo_target_scale_restore(const bo_machine *machine, size_t rows, double *mean);
void bo_target_scale_restore_ends(const bo_machine *machine, size_t rows, double *ends);

#endif
