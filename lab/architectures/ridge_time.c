/* The time per token of ridge attention by dimension and by length, and the time of a refit. */
#include "ridge_time.h"
#include <bochner/attention.h>
#include <math.h>

enum { LARGEST = 256, BATCHES = 9 }; /* larger states do not fit in the caches and scale differently */

/* Every repetition does the same work, so the minimum over batches is the time without other load on the host. */
typedef struct timing {
    lab_run *run;
    bo_rng rng;
    size_t dim;
    float *rows; /* q, k, v and the output of a token */
    double *h, *x;
} timing;

/* Measures the seconds per step over `steps` steps. */
static bo_status time_steps(timing *t, const bo_attention *attention, void *state, size_t steps, double *seconds)
{
    const bo_attention_call call = {.sequences = 1,
                                    .tokens = 1,
                                    .q = {t->rows},
                                    .k = {t->rows + t->dim},
                                    .v = {t->rows + 2 * t->dim},
                                    .out = {t->rows + 3 * t->dim},
                                    .initial = &state,
                                    .final = &state};
    *seconds = 0;
    for (size_t i = 0; i < steps; i++) {
        lab_fill_normal(&t->rng, 1 / sqrt((double)t->dim), 3 * t->dim, t->rows);
        const double start = lab_thread_seconds();
        BO_TRY(bo_attention_forward(lab_context(t->run), attention, &call));
        *seconds += (lab_thread_seconds() - start) / (double)steps;
    }
    return lab_progress(t->run, 0.8);
}

static bo_status time_refit(timing *t, double *seconds)
{
    bo_context *context = lab_context(t->run);
    const size_t d = t->dim;
    *seconds = INFINITY;
    for (size_t b = 0; b < BATCHES; b++) {
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j < d; j++) t->h[i * d + j] = (i == j ? 2 : 0) + 1 / (1 + fabs((double)i - (double)j));
        const double start = lab_thread_seconds();
        for (size_t i = 0; i < d; i++) t->x[i] = 1;
        BO_TRY(lab_solve_positive(context, d, 1, t->h, t->x));
        *seconds = fmin(*seconds, lab_thread_seconds() - start);
    }
    return BO_OK;
}

/* Measures two sequences alternately: a new one, and one after `before` tokens. */
static bo_status time_both(timing *t, const bo_attention *attention, void *const states[2], size_t before,
                           double seconds[2])
{
    double each;
    BO_TRY(time_steps(t, attention, states[0], 1, &each)); /* fills the caches and computes the first factor */
    BO_TRY(time_steps(t, attention, states[1], before + 1, &each));
    seconds[0] = seconds[1] = INFINITY;
    for (size_t b = 0; b < 2 * BATCHES; b++) {
        BO_TRY(time_steps(t, attention, states[b % 2], lab_size(t->run, 20, 5), &each));
        seconds[b % 2] = fmin(seconds[b % 2], each);
    }
    return BO_OK;
}

static bo_status time_size(timing *t, size_t before, double seconds[2])
{
    bo_context *context = lab_context(t->run);
    const bo_attention_desc desc = {.kind = BO_ATTENTION_RIDGE, .heads = 1, .dim = t->dim, .causal = true};
    bo_attention *attention;
    void *states[2] = {NULL, NULL};
    BO_TRY(bo_attention_create(context, &desc, &attention));
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < 2; i++) {
        states[i] = bo_alloc(context, bo_attention_state_bytes(attention), 1, "a state");
        status = states[i] ? bo_attention_state_init(context, attention, states[i]) : BO_MEMORY;
    }
    if (status == BO_OK) status = time_both(t, attention, states, before, seconds);
    bo_attention_destroy(attention);
    bo_free(states[0]);
    bo_free(states[1]);
    return status;
}

static bo_status time_all(timing *t)
{
    enum { STEPS = 4 };
    double dims[STEPS], step_time[STEPS], refit, seconds[2];
    for (size_t i = 0; i < STEPS; i++) {
        t->dim = (size_t)32 << i;
        dims[i] = (double)t->dim;
        BO_TRY(time_size(t, t->dim == 64 ? lab_size(t->run, 20000, 2000) : 0, seconds));
        if (t->dim == 64) lab_claim(t->run, "length", seconds[1] / seconds[0]);
        step_time[i] = seconds[0];
        BO_TRY(time_refit(t, &refit));
        lab_point(t->run, "time", "a step of the library", dims[i], 1e6 * step_time[i]);
        lab_point(t->run, "time", "a refit", dims[i], 1e6 * refit);
    }
    lab_claim(t->run, "square", lab_exponent(dims, step_time, STEPS));
    return BO_OK;
}

bo_status lab_ridge_time(lab_run *run)
{
    bo_context *context = lab_context(run);
    timing t = {.run = run, .rng = lab_rng(run, "lab.ridge-attention.time")};
    t.rows = bo_alloc(context, 4 * LARGEST, sizeof *t.rows, "a token");
    t.h = bo_alloc(context, LARGEST * LARGEST, sizeof *t.h, "a matrix");
    t.x = bo_alloc(context, LARGEST, sizeof *t.x, "a solution");
    bo_status status = t.rows && t.h && t.x ? time_all(&t) : BO_MEMORY;
    bo_free(t.rows);
    bo_free(t.h);
    bo_free(t.x);
    return status;
}
