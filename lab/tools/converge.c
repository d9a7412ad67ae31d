#include "converge.h"
#include <math.h>

static bo_status run_steps(lab_run *run, bo_trainer *trainer, const lab_patience *rule, lab_converged *out)
{
    const uint64_t end = out->steps + rule->every < rule->max_steps ? out->steps + rule->every : rule->max_steps;
    while (out->steps < end) {
        double loss;
        BO_TRY(bo_trainer_step(lab_context(run), trainer, &loss));
        if (!isfinite(loss)) return BO_NUMERIC;
        out->steps++;
    }
    return rule->report ? rule->report(rule->user, (double)end / (double)rule->max_steps) : BO_OK;
}

static bo_status evaluate(lab_run *run, bo_trainer *trainer, const lab_patience *rule, double *loss, lab_converged *out)
{
    bo_training_score score;
    BO_TRY(bo_trainer_evaluate(lab_context(run), trainer, &score));
    if (!isfinite(score.loss)) return BO_NUMERIC;
    *loss = score.loss;
    if (!(score.loss < out->loss)) return BO_OK;
    out->loss = score.loss;
    out->best = out->steps;
    return rule->improved ? rule->improved(rule->user) : BO_OK;
}

static bool ends(const lab_patience *rule, const lab_converged *out)
{
    return out->steps >= rule->max_steps || out->loss <= rule->solved;
}

static bo_status train_phase(lab_run *run, bo_trainer *trainer, const lab_patience *rule, lab_converged *out)
{
    double best = INFINITY;
    size_t without = 0; /* evaluations since the last improvement */
    while (without < rule->patience && !ends(rule, out)) {
        double loss;
        BO_TRY(run_steps(run, trainer, rule, out));
        BO_TRY(evaluate(run, trainer, rule, &loss, out));
        const bool better = loss < (1 - rule->gain) * best;
        if (better) best = loss;
        without = better || out->steps <= rule->min_steps ? 0 : without + 1;
    }
    return BO_OK;
}

bo_status lab_converge(lab_run *run, const bo_trainer_desc *desc, const lab_patience *rule, lab_converged *out)
{
    bo_trainer_desc phase = *desc;
    bo_status status = BO_OK;
    *out = (lab_converged){.loss = INFINITY};
    phase.steps = rule->max_steps;
    phase.schedule = (bo_schedule){.kind = BO_SCHEDULE_CONSTANT};
    for (size_t i = 0; status == BO_OK && i < rule->phases && !ends(rule, out); i++) {
        bo_trainer *trainer;
        BO_TRY(bo_trainer_create(lab_context(run), &phase, &trainer));
        status = train_phase(run, trainer, rule, out);
        bo_trainer_destroy(trainer);
        phase.optimizer.rate /= 4;
        phase.optimizer.other_rate /= 4;
        phase.seed++;
        phase.schedule.warmup = UINT64_MAX;
    }
    out->diverged = status == BO_NUMERIC;
    out->settled = status == BO_OK && (out->steps < rule->max_steps || out->loss <= rule->solved);
    return out->diverged ? BO_OK : status;
}
