#include "degree.h"
#include <math.h>

const char *const lab_degree_countings[LAB_COUNTINGS] = {"c = d - 1", "c = d", "c = d + 1"};
const char *const lab_degree_names[LAB_INTEGERS + 1] = {"2", "3", "4", "e"};

static const size_t layers_of[2][LAB_COUNTINGS][LAB_INTEGERS] = {{{6, 3, 2}, {6, 4, 3}, {5, 4, 3}},
                                                                 {{12, 6, 4}, {12, 8, 6}, {10, 8, 6}}};

size_t lab_degree_layers(lab_degree_budget budget, size_t counting, size_t index)
{
    return layers_of[budget][counting][index];
}

size_t lab_degree_between(lab_degree_budget budget)
{
    return (size_t)lround((double)(3 * layers_of[budget][1][1]) / exp(1));
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

bo_status lab_degree_each(lab_degree_budget budget, lab_degree_train train, void *user, lab_degree_errors *out)
{
    for (size_t i = 0; i < LAB_INTEGERS; i++)
        for (size_t l = 0; l <= LAB_MOST_LAYERS; l++) out->error[i][l] = out->steps[i][l] = NAN;
    for (size_t c = 0; c < LAB_COUNTINGS; c++)
        for (size_t i = 0; i < LAB_INTEGERS; i++) {
            const size_t layers = lab_degree_layers(budget, c, i);
            if (!isnan(out->error[i][layers])) continue;
            BO_TRY(train(user, i, layers, &out->error[i][layers], &out->steps[i][layers]));
        }
    return BO_OK;
}

double lab_degree_margin(lab_degree_budget budget, lab_degree_numbers *numbers, size_t counting)
{
    const size_t winner = lab_degree_winner(counting);
    double least = INFINITY;
    for (size_t i = 0; i < LAB_INTEGERS; i++)
        if (i != winner) least = fmin(least, (*numbers)[i][lab_degree_layers(budget, counting, i)]);
    return log(least / (*numbers)[winner][lab_degree_layers(budget, counting, winner)]);
}
