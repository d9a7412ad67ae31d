/* Committees: the weighted mean of a few machines that were fitted to the same rows with other kernels or metrics. The
 * weights are nonnegative, add up to 1, and minimize the squared error of the mean of the left-out predictions
 * (stacking, Breiman 1996).
 *
 * The first machine is the leader: it owns the other members, and the intervals use its standard deviations with the
 * errors of the mean. */
#include "../base/base.h"
#include "left_out.h"
#include "machine.h"
#include "prediction.h"
#include "samples.h"
#include "tune.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MAX_MEMBERS = BO_COMMITTEE };
static const double min_share = 0.05;

/* products[a][b] = Σ_i w_i e_a e_b of the errors of two members, over all outputs. */
static void error_products(size_t count, const bo_left_out *left_out, double products[MAX_MEMBERS][MAX_MEMBERS])
{
    const size_t outputs = left_out[0].outputs;
    memset(products, 0, MAX_MEMBERS * sizeof *products);
    for (size_t k = 0; k < left_out[0].rows * outputs; k++)
        for (size_t a = 0; a < count; a++)
            for (size_t b = 0; b < count; b++)
                products[a][b] += left_out[0].weight[k / outputs] * (left_out[a].prediction[k] - left_out[a].truth[k]) *
                                  (left_out[b].prediction[k] - left_out[b].truth[k]);
}

/* Minimizes shareᵀ P share over the members whose share is positive, by multiplicative updates, which stay in the
 * simplex. */
static void minimize(size_t count, double products[MAX_MEMBERS][MAX_MEMBERS], double *share)
{
    enum { STEPS = 2000 };
    double scale = 0, total = 0;
    for (size_t a = 0; a < count; a++) scale += products[a][a] / (double)count;
    for (size_t a = 0; a < count; a++) total += share[a] = share[a] > 0 ? 1 : 0;
    for (size_t a = 0; a < count; a++) share[a] /= total;
    if (!(scale > 0)) return;
    for (int step = 0; step < STEPS; step++) {
        double slope[MAX_MEMBERS] = {0};
        total = 0;
        for (size_t a = 0; a < count; a++)
            for (size_t b = 0; b < count; b++) slope[a] += products[a][b] * share[b] / scale;
        for (size_t a = 0; a < count; a++) total += share[a] *= exp(-0.5 * slope[a]);
        for (size_t a = 0; a < count; a++) share[a] /= total;
    }
}

/* Shares of members below min_share are set to 0, and the rest is adjusted. */
static void find_shares(size_t count, const bo_left_out *left_out, double *share)
{
    double products[MAX_MEMBERS][MAX_MEMBERS];
    error_products(count, left_out, products);
    for (size_t a = 0; a < count; a++) share[a] = 1;
    minimize(count, products, share);
    for (size_t a = 0; a < count; a++)
        if (share[a] < min_share) share[a] = 0;
    minimize(count, products, share);
}

/* Replaces the left-out predictions of the leader by the predictions of the mean. */
static void mean_predictions(size_t count, const double *share, size_t leader, bo_left_out *left_out)
{
    bo_left_out *combined = &left_out[leader];
    double inflation = 0;
    for (size_t a = 0; a < count; a++) inflation += share[a] * left_out[a].inflation;
    combined->inflation = inflation;
    for (size_t k = 0; k < combined->rows * combined->outputs; k++) {
        double sum = 0;
        for (size_t a = 0; a < count; a++) sum += share[a] * left_out[a].prediction[k];
        combined->prediction[k] = sum;
    }
}

bo_status bo_committee_join(bo_context *context, const bo_targets *targets, size_t count, bo_machine **machines,
                            bo_left_out *left_out, bo_machine **out)
{
    assert(count > 0 && count <= MAX_MEMBERS);
    double share[MAX_MEMBERS];
    find_shares(count, left_out, share);
    size_t leader = 0, members = 0;
    for (size_t a = 0; a < count; a++) {
        members += share[a] > 0;
        if (share[a] > share[leader]) leader = a;
    }
    bo_machine *machine = machines[leader];
    if (members > 1) {
        machine->other_members = bo_alloc(context, members - 1, sizeof(bo_machine *), "the members of a committee");
        machine->share = bo_alloc_raw(context, members, sizeof(double), "the members of a committee");
        if (!machine->other_members || !machine->share) return BO_MEMORY;
        machine->share[0] = share[leader];
        mean_predictions(count, share, leader, left_out);
        BO_TRY(bo_machine_calibrate(context, machine, targets, &left_out[leader]));
    }
    for (size_t a = 0; a < count; a++) {
        if (a == leader || share[a] == 0) continue;
        bo_machine_free_uncertainty(machines[a]);
        machine->other_members[machine->other_members_count++] = machines[a];
        machine->share[machine->other_members_count] = share[a];
        machines[a] = NULL;
    }
    machine->report.members = members;
    machines[leader] = NULL;
    *out = machine;
    return BO_OK;
}

bo_status bo_committee_mean(bo_context *context, const bo_machine *machine, const bo_input_view *inputs, double *mean)
{
    const size_t numbers = inputs->rows * machine->report.outputs;
    if (machine->other_members_count == 0) return BO_OK;
    double *other = bo_alloc_raw(context, numbers, sizeof *other, "predictions");
    bo_status status = other ? BO_OK : BO_MEMORY;
    for (size_t k = 0; status == BO_OK && k < numbers; k++) mean[k] *= machine->share[0];
    for (size_t a = 0; status == BO_OK && a < machine->other_members_count; a++) {
        status = bo_machine_predict_plain(context, machine->other_members[a], inputs, other, NULL);
        for (size_t k = 0; status == BO_OK && k < numbers; k++) mean[k] += machine->share[a + 1] * other[k];
    }
    bo_free(other);
    return status;
}
