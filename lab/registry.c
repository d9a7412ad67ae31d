/* The experiments, in the order in which they are listed and reported: one line each. */
#include "internal.h"

#define EXPERIMENTS(X)                                                                                                 \
    X(rff_regression)                                                                                                  \
    X(rff_mlp)                                                                                                         \
    X(rf_equivalence)                                                                                                  \
    X(dark)                                                                                                            \
    X(rfa)                                                                                                             \
    X(rfa_training)                                                                                                    \
    X(crossover)                                                                                                       \
    X(recall)                                                                                                          \
    X(degree)                                                                                                          \
    X(degree_text)                                                                                                     \
    X(separation_rank)                                                                                                 \
    X(separation_growth)                                                                                               \
    X(gd_stability)                                                                                                    \
    X(gd_best_rate)                                                                                                    \
    X(sgd_interpolation)                                                                                               \
    X(noise_is_ridge)                                                                                                  \
    X(dropout_is_ridge)                                                                                                \
    X(dropout_and_batchnorm)                                                                                           \
    X(ridge_map)                                                                                                       \
    X(steepest_descent)                                                                                                \
    X(mup)                                                                                                             \
    X(unit_scale)                                                                                                      \
    X(muon)                                                                                                            \
    X(infinite_width)                                                                                                  \
    X(time_law)                                                                                                        \
    X(estimators)                                                                                                      \
    X(conv)                                                                                                            \
    X(batchnorm)                                                                                                       \
    X(gnn)                                                                                                             \
    X(rnn)                                                                                                             \
    X(rnn_bottleneck)                                                                                                  \
    X(pca_autoencoder)                                                                                                 \
    X(autoencoder_downstream)                                                                                          \
    X(purification)                                                                                                    \
    X(ssm)                                                                                                             \
    X(ridge_attention)                                                                                                 \
    X(scaled_dot)                                                                                                      \
    X(rope)                                                                                                            \
    X(poly_kernel)                                                                                                     \
    X(lora)                                                                                                            \
    X(circuits)

#define DECLARE(name) extern const lab_experiment lab_##name;
EXPERIMENTS(DECLARE)

static const lab_experiment *const experiments[] = {
#define LINE(name) &lab_##name,
    EXPERIMENTS(LINE)};

size_t bo_lab_count(void)
{
    return LAB_COUNT_OF(experiments);
}

const lab_experiment *lab_at(size_t index)
{
    return index < LAB_COUNT_OF(experiments) ? experiments[index] : NULL;
}

const lab_experiment *lab_find(const char *name)
{
    for (size_t i = 0; i < LAB_COUNT_OF(experiments); i++)
        if (bo_same_name(experiments[i]->about.name, name)) return experiments[i];
    return NULL;
}

const bo_lab_experiment *bo_lab_at(size_t index)
{
    const lab_experiment *experiment = lab_at(index);
    return experiment ? &experiment->about : NULL;
}

const bo_lab_experiment *bo_lab_find(const char *name)
{
    const lab_experiment *experiment = lab_find(name);
    return experiment ? &experiment->about : NULL;
}
