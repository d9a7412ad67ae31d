/* Step times of many shapes: the count that predicts shapes not used in the fit, and the cost of depth. */
#include "time_law.h"
#include <math.h>
#include <stdio.h>

enum { MAX_SHAPES = 24, PROXIES = 3, PAIRS = 2 };

/* ---- predictors -------------------------------------------------------------------------------------------------- */

/* Columns of a law that is linear in a few counts, for lab_plan_least_squares. */
typedef void (*proxy_columns)(const bo_plan_counts *counts, double columns[BO_PLAN_TERM_COUNT]);

static void by_copies(const bo_plan_counts *counts, double columns[BO_PLAN_TERM_COUNT])
{
    columns[0] = 1;
    columns[1] = counts->copies;
    columns[2] = columns[3] = 0;
}

static void by_operations(const bo_plan_counts *counts, double columns[BO_PLAN_TERM_COUNT])
{
    columns[0] = 1;
    columns[1] = counts->operations + counts->attention;
    columns[2] = columns[3] = 0;
}

static const struct {
    const char *name;
    proxy_columns columns;
} proxies[PROXIES] = {
    {"copies", by_copies}, {"operations", by_operations}, {"layers, copies, operations, attention", lab_plan_terms}};

/* Errors of predictions for steps not used in the fit. */
typedef struct held_out {
    double error, worst, determination; /* root mean square and largest |predicted / measured - 1|; R² of log seconds */
} held_out;

static double predicted(const double cost[BO_PLAN_TERM_COUNT], const double columns[BO_PLAN_TERM_COUNT])
{
    double sum = 0;
    for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) sum += cost[t] * columns[t];
    return sum;
}

/* Finds costs that minimize Σ (predicted / measured - 1)² over the first `fitted` timings. */
static bo_status fit_proxy(lab_run *run, size_t proxy, const bo_plan_timing *timings, size_t fitted,
                           double cost[BO_PLAN_TERM_COUNT])
{
    double rows[MAX_SHAPES][BO_PLAN_TERM_COUNT], ones[MAX_SHAPES];
    for (size_t i = 0; i < fitted; i++) {
        bo_plan_counts counts;
        BO_TRY(bo_plan_count(lab_context(run), &timings[i].shape, &counts));
        proxies[proxy].columns(&counts, rows[i]);
        for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) rows[i][t] /= timings[i].seconds;
        ones[i] = 1;
    }
    if (lab_plan_least_squares(fitted, (const double (*)[BO_PLAN_TERM_COUNT])rows, ones, 15, cost)) return BO_OK;
    return bo_fail(lab_context(run), BO_NUMERIC, "the step times do not determine the cost of %s", proxies[proxy].name);
}

static bo_status validate_proxy(lab_run *run, size_t proxy, const bo_plan_timing *timings, size_t fitted, size_t count,
                                held_out *out)
{
    double cost[BO_PLAN_TERM_COUNT], squares = 0, logs = 0, log_seconds[MAX_SHAPES], spread = 0;
    const size_t n = count - fitted;
    BO_TRY(fit_proxy(run, proxy, timings, fitted, cost));
    *out = (held_out){0};
    for (size_t i = 0; i < n; i++) {
        const bo_plan_timing *timing = &timings[fitted + i];
        bo_plan_counts counts;
        double columns[BO_PLAN_TERM_COUNT];
        BO_TRY(bo_plan_count(lab_context(run), &timing->shape, &counts));
        proxies[proxy].columns(&counts, columns);
        const double ratio = predicted(cost, columns) / timing->seconds;
        squares += (ratio - 1) * (ratio - 1);
        logs += log(ratio) * log(ratio);
        out->worst = fmax(out->worst, fabs(ratio - 1));
        log_seconds[i] = log(timing->seconds);
    }
    for (size_t i = 0; i < n; i++) spread += pow(log_seconds[i] - lab_mean(log_seconds, n), 2);
    out->error = sqrt(squares / (double)n);
    out->determination = 1 - logs / spread;
    return BO_OK;
}

static bo_status compare_proxies(lab_run *run, const bo_plan_timing *timings, size_t fitted, size_t count)
{
    held_out found[PROXIES];
    for (size_t p = 0; p < PROXIES; p++) {
        BO_TRY(validate_proxy(run, p, timings, fitted, count, &found[p]));
        lab_cell(run, "proxies", proxies[p].name, "typical error", found[p].error);
        lab_cell(run, "proxies", proxies[p].name, "largest error", found[p].worst);
        lab_cell(run, "proxies", proxies[p].name, "R² of log seconds", found[p].determination);
    }
    lab_claim(run, "copies", found[0].error / found[1].error);
    lab_claim(run, "steps", found[2].error);
    return BO_OK;
}

/* ---- the shapes -------------------------------------------------------------------------------------------------- */

/* Layers and widths in groups of equal parameters: 12 · layers · width² plus the embedding. */
static const size_t quick_sizes[][2] = {{8, 32}, {2, 64}, {8, 64}, {2, 128}};
static const size_t full_sizes[][2] = {{8, 32}, {2, 64}, {32, 32}, {8, 64}, {2, 128}, {32, 64}, {8, 128}, {2, 256}};
static const size_t quick_windows[][2] = {{64, 4}, {256, 1}, {512, 1}}; /* context, batch */
static const size_t full_windows[][2] = {{64, 8}, {256, 8}, {1024, 2}};

static size_t list_shapes(const lab_run *run, bo_plan_timing *out)
{
    const size_t (*sizes)[2] = lab_quick(run) ? quick_sizes : full_sizes;
    const size_t (*windows)[2] = lab_quick(run) ? quick_windows : full_windows;
    const size_t many = lab_size(run, LAB_COUNT_OF(full_sizes), LAB_COUNT_OF(quick_sizes));
    size_t count = 0;
    for (size_t s = 0; s < many; s++)
        for (size_t w = 0; w < LAB_COUNT_OF(full_windows); w++)
            out[count++] =
                (bo_plan_timing){.shape = time_law_shape(sizes[s][0], sizes[s][1], windows[w][0], windows[w][1])};
    return count;
}

/* The seed determines which shapes are fitted. */
static void shuffle(lab_run *run, bo_plan_timing *timings, size_t count)
{
    bo_rng rng = lab_rng(run, "lab.time-law.split");
    for (size_t i = count; i > 1; i--) {
        const size_t other = (size_t)bo_rng_below(&rng, i);
        const bo_plan_timing swapped_timing = timings[other];
        timings[other] = timings[i - 1];
        timings[i - 1] = swapped_timing;
    }
}

static double seconds_of(const bo_plan_timing *timings, size_t count, size_t layers, size_t width, size_t context)
{
    for (size_t i = 0; i < count; i++) {
        const bo_plan_shape *s = &timings[i].shape;
        if (s->layers == layers && s->width == width && s->context == context) return timings[i].seconds;
    }
    return NAN;
}

/* ---- cost of depth ----------------------------------------------------------------------------------------------- */

/* Step times with a context of 256 at equal parameters, relative to 2 layers. Returns the relative time of 8 layers,
 * geometric mean over the sizes. */
static double compare_depths(lab_run *run, const bo_plan_timing *timings, size_t count, const char *optimizer)
{
    const size_t groups = lab_size(run, 3, 2);
    double product = 1;
    for (size_t g = 0; g < groups; g++) {
        const size_t width = (size_t)64 << g; /* of the 2-layer model */
        const double wide = seconds_of(timings, count, 2, width, 256);
        char column[64];
        snprintf(column, sizeof column, "%s, %.2gM parameters", optimizer,
                 1e-6 * (24.0 * (double)(width * width) + 256.0 * (double)width));
        for (size_t depth = 0; depth < 3; depth++) {
            const size_t layers = (size_t)2 << 2 * depth;
            const double ratio = seconds_of(timings, count, layers, width >> depth, 256) / wide;
            if (!isnan(ratio)) lab_point(run, "depth", column, (double)layers, ratio);
            if (layers == 8) product *= ratio;
        }
    }
    return pow(product, 1 / (double)groups);
}

/* Times the shapes with a context of 256 with AdamW, whose update costs the same for each parameter. */
static bo_status time_adamw(lab_run *run, const bo_plan_timing *timings, size_t count)
{
    bo_plan_timing subset[MAX_SHAPES];
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (timings[i].shape.context != 256) continue;
        subset[n] = timings[i];
        subset[n++].shape.optimizer = BO_OPTIMIZER_ADAMW;
    }
    BO_TRY(bo_plan_time(lab_context(run), lab_quick(run) ? 0.1 : 6, subset, n));
    lab_claim(run, "wider", compare_depths(run, subset, n, "AdamW"));
    return BO_OK;
}

bo_status time_law_steps(lab_run *run, double *slower)
{
    bo_plan_timing timings[MAX_SHAPES + PAIRS];
    const size_t count = list_shapes(run, timings), fitted = count * 2 / 3;
    bo_plan_timing *pair = timings + count;
    pair[0] = (bo_plan_timing){.shape = time_law_deep(run)};
    pair[1] = (bo_plan_timing){.shape = time_law_wide(run)};
    BO_TRY(bo_plan_time(lab_context(run), lab_quick(run) ? 0.1 : 16, timings, count + PAIRS));
    *slower = pair[0].seconds / pair[1].seconds;
    lab_claim(run, "wider-muon", compare_depths(run, timings, count, "Muon"));
    BO_TRY(time_adamw(run, timings, count));
    shuffle(run, timings, count);
    return compare_proxies(run, timings, fitted, count);
}
