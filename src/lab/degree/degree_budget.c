#include "degree.h"
#include <math.h>

const char *const lab_degree_countings[LAB_COUNTINGS] = {"d - 1 matrices", "d matrices", "d + 1 matrices"};
const char *const lab_degree_names[LAB_INTEGERS + 1] = {"2", "3", "4", "e"};

/* Budgets of 12, 24 and about 30 matrices; in quick runs half of them. */
static const size_t layers_of[LAB_COUNTINGS][LAB_INTEGERS] = {{12, 6, 4}, {12, 8, 6}, {10, 8, 6}};
static const size_t quick_layers[LAB_COUNTINGS][LAB_INTEGERS] = {{6, 3, 2}, {6, 4, 3}, {5, 4, 3}};

size_t lab_degree_layers(const lab_run *run, size_t counting, size_t index)
{
    return lab_size(run, layers_of[counting][index], quick_layers[counting][index]);
}

size_t lab_degree_winner(size_t counting)
{
    size_t best = 0;
    double most = 0;
    for (size_t i = 0; i < LAB_INTEGERS; i++) {
        const double worth = log((double)(i + 2)) / (double)(i + 1 + counting);
        if (worth > most) best = i, most = worth;
    }
    return best;
}

bo_status lab_degree_each(lab_run *run, lab_degree_train train, void *user, lab_degree_errors *out)
{
    for (size_t i = 0; i < LAB_INTEGERS; i++)
        for (size_t l = 0; l <= LAB_MOST_LAYERS; l++) out->error[i][l] = out->steps[i][l] = NAN;
    for (size_t c = 0; c < LAB_COUNTINGS; c++)
        for (size_t i = 0; i < LAB_INTEGERS; i++) {
            const size_t layers = lab_degree_layers(run, c, i);
            if (!isnan(out->error[i][layers])) continue;
            BO_TRY(train(user, i, layers, &out->error[i][layers], &out->steps[i][layers]));
        }
    return BO_OK;
}

double lab_degree_margin(const lab_run *run, const lab_degree_errors *errors, size_t counting)
{
    const size_t winner = lab_degree_winner(counting);
    double least = INFINITY;
    for (size_t i = 0; i < LAB_INTEGERS; i++)
        if (i != winner) least = fmin(least, errors->error[i][lab_degree_layers(run, counting, i)]);
    return log(least / errors->error[winner][lab_degree_layers(run, counting, winner)]);
}
