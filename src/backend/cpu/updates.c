/* Updates of weights on the CPU: one pass over memory each, in blocks of fixed size. The loops are limited by memory
 * bandwidth, so automatic vectorization is sufficient. Only AdamW, which divides, has a kernel. */
#include "updates.h"
#include <math.h>
#include "../../math/panel.h"

enum {
    BLOCK = 1 << 14, /* floats per task */
    /* maximum number of blocks of a sum, since partial sums are on the stack; longer vectors have larger blocks */
    MAX_BLOCKS = 1024,
};

/* ---- sums -------------------------------------------------------------------------------------------------------- */

typedef double (*sum_fn)(const bo_kernels *kernels, size_t n, const float *x);

typedef struct sum_job {
    const bo_kernels *kernels;
    sum_fn sum;
    const float *x;
    size_t count, block;
    double parts[MAX_BLOCKS];
} sum_job;

static void sum_task(void *arg, size_t index, int worker)
{
    (void)worker;
    sum_job *job = arg;
    size_t first = index * job->block;
    job->parts[index] = job->sum(job->kernels, bo_min(job->block, job->count - first), job->x + first);
}

/* Blocks depend only on the count, and their sums are added in order. */
static double sum_blocks(bo_context *context, size_t count, const float *x, sum_fn sum)
{
    size_t min_block = bo_round_up(bo_ceil_div(count, MAX_BLOCKS), 16);
    sum_job job = {.kernels = bo_context_kernels(context), .sum = sum, .x = x, .count = count};
    job.block = min_block > BLOCK ? min_block : BLOCK;
    size_t blocks = bo_ceil_div(count, job.block);
    bo_parallel(context, blocks, sum_task, &job);
    double total = 0;
    for (size_t i = 0; i < blocks; i++) total += job.parts[i];
    return total;
}

static double squares(const bo_kernels *kernels, size_t n, const float *x)
{
    return kernels->dot(n, x, x);
}

/* Eight independent sums hide the latency of additions. */
static double sizes(const bo_kernels *kernels, size_t n, const float *x)
{
    (void)kernels;
    double sums[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (size_t j = 0; j < 8; j++) sums[j] += fabsf(x[i + j]);
    }
    for (; i < n; i++) sums[i % 8] += fabsf(x[i]);
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

double bo_cpu_sum_squares(bo_context *context, size_t count, const float *x)
{
    return sum_blocks(context, count, x, squares);
}

static bo_status sum_squares(bo_context *context, size_t count, const bo_update *list, void *scratch, double *out)
{
    (void)scratch;
    for (size_t i = 0; i < count; i++) out[i] = sum_blocks(context, list[i].count, list[i].g, squares);
    return BO_OK;
}

static bo_status sum_sizes(bo_context *context, size_t count, const bo_update *list, void *scratch, double *out)
{
    (void)scratch;
    for (size_t i = 0; i < count; i++) out[i] = sum_blocks(context, list[i].count, list[i].g, sizes);
    return BO_OK;
}

/* ---- in-place updates -------------------------------------------------------------------------------------------- */

bo_rule_numbers bo_momentum_numbers(const bo_rule *rule, const bo_rates *rates)
{
    return (bo_rule_numbers){
        .scale = (float)rule->scale,
        .rate = (float)bo_rates_rate(rule, rates),
        .keep = (float)bo_rates_keep(rule, rates),
        .momentum = (float)rule->momentum,
        .rest = (float)(1 - rule->momentum),
        .nesterov = rule->nesterov,
    };
}

typedef struct loop_job {
    const bo_rule_numbers *numbers;
    bo_update_loop loop;
    size_t count;
    const float *g;
    float *m, *v, *w;
} loop_job;

static void loop_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const loop_job *job = arg;
    size_t first = index * BLOCK;
    job->loop(job->numbers, bo_min(BLOCK, job->count - first), job->g ? job->g + first : NULL,
              job->m ? job->m + first : NULL, job->v ? job->v + first : NULL, job->w ? job->w + first : NULL);
}

void bo_update_blocks(bo_context *context, const bo_rule_numbers *k, bo_update_loop loop, size_t count, const void *g,
                      void *m, void *v, void *w)
{
    loop_job job = {.numbers = k, .loop = loop, .count = count, .g = g, .m = m, .v = v, .w = w};
    bo_parallel(context, bo_ceil_div(count, BLOCK), loop_task, &job);
}

static void approach_loop(const bo_rule_numbers *k, size_t n, const float *g, float *restrict m, float *v,
                          float *restrict w)
{
    (void)m, (void)v;
    const float *restrict x = g;
    for (size_t i = 0; i < n; i++) w[i] += k->rate * (x[i] - w[i]);
}

static void copy_loop(const bo_rule_numbers *k, size_t n, const float *g, float *m, float *v, float *restrict w)
{
    (void)k, (void)m, (void)v;
    const float *restrict x = g;
    for (size_t i = 0; i < n; i++) w[i] = x[i];
}

static void swap_loop(const bo_rule_numbers *k, size_t n, const float *g, float *restrict m, float *v,
                      float *restrict w)
{
    (void)k, (void)g, (void)v;
    for (size_t i = 0; i < n; i++) {
        float previous = m[i];
        m[i] = w[i];
        w[i] = previous;
    }
}

static void sgd_loop(const bo_rule_numbers *k, size_t n, const float *g, float *restrict m, float *v, float *restrict w)
{
    (void)v;
    float s = k->scale, rate = k->rate, keep = k->keep, mu = k->momentum;
    if (!m) {
        for (size_t i = 0; i < n; i++) w[i] = keep * w[i] - rate * (s * g[i]);
    } else if (k->nesterov) {
        for (size_t i = 0; i < n; i++) {
            float gradient = s * g[i];
            m[i] = mu * m[i] + gradient;
            w[i] = keep * w[i] - rate * (gradient + mu * m[i]);
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            m[i] = mu * m[i] + s * g[i];
            w[i] = keep * w[i] - rate * m[i];
        }
    }
}

static inline float sign_of(float x)
{
    return (float)((x > 0) - (x < 0));
}

static void sign_loop(const bo_rule_numbers *k, size_t n, const float *g, float *restrict m, float *v,
                      float *restrict w)
{
    (void)v;
    float rate = k->rate, keep = k->keep, mu = k->momentum, rest = k->rest * k->scale;
    if (!m) {
        for (size_t i = 0; i < n; i++) w[i] = keep * w[i] - rate * sign_of(g[i]);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        m[i] = mu * m[i] + rest * g[i];
        w[i] = keep * w[i] - rate * sign_of(m[i]);
    }
}

static void adamw_loop(const bo_rule_numbers *k, size_t n, const float *g, float *m, float *v, float *w)
{
    k->kernels->adamw(n, &k->adamw, g, m, v, w);
}

static bo_status approach(bo_context *context, double a, size_t count, const bo_update *list)
{
    bo_rule_numbers k = {.rate = (float)a};
    for (size_t i = 0; i < count; i++)
        bo_update_blocks(context, &k, a == 1 ? copy_loop : approach_loop, list[i].count, list[i].g, NULL, NULL,
                         list[i].w);
    return BO_OK;
}

static bo_status swap(bo_context *context, size_t count, const bo_update *list)
{
    for (size_t i = 0; i < count; i++)
        bo_update_blocks(context, NULL, swap_loop, list[i].count, NULL, list[i].m, NULL, list[i].w);
    return BO_OK;
}

static bo_status with_momentum(bo_context *context, const bo_rule *rule, bo_update_loop loop, size_t count,
                               const bo_update *list)
{
    for (size_t i = 0; i < count; i++) {
        const bo_update *u = &list[i];
        bo_rule_numbers k = bo_momentum_numbers(rule, &u->rates);
        bo_update_blocks(context, &k, loop, u->count, u->g, u->m, NULL, u->w);
    }
    return BO_OK;
}

static bo_status sgd(bo_context *context, const bo_rule *rule, size_t count, const bo_update *list)
{
    return with_momentum(context, rule, sgd_loop, count, list);
}

static bo_status sign(bo_context *context, const bo_rule *rule, size_t count, const bo_update *list)
{
    return with_momentum(context, rule, sign_loop, count, list);
}

static bo_status adamw(bo_context *context, const bo_rule *rule, size_t count, const bo_update *list)
{
    double t = (double)rule->step;
    bo_rule_numbers k = {.kernels = bo_context_kernels(context)};
    for (size_t i = 0; i < count; i++) {
        const bo_update *u = &list[i];
        k.adamw = (bo_adamw_step){
            .scale = (float)rule->scale,
            .keep = (float)bo_rates_keep(rule, &u->rates),
            .rate = (float)(bo_rates_rate(rule, &u->rates) / (1 - pow(rule->beta1, t))),
            .beta1 = (float)rule->beta1,
            .rest1 = (float)(1 - rule->beta1),
            .beta2 = (float)rule->beta2,
            .rest2 = (float)(1 - rule->beta2),
            .correction = (float)(1 / sqrt(1 - pow(rule->beta2, t))),
            .epsilon = (float)rule->epsilon,
        };
        bo_update_blocks(context, &k, adamw_loop, u->count, u->g, u->m, u->v, u->w);
    }
    return BO_OK;
}

/* Sums need no memory: their parts are on the stack. */
static size_t bytes(bo_context *context, size_t count, const bo_update *list, size_t matrices,
                    const bo_muon_matrix *matrix)
{
    (void)count, (void)list;
    size_t max_bytes = 0;
    for (size_t i = 0; i < matrices; i++)
        max_bytes = bo_max(max_bytes, bo_cpu_muon_bytes(context, matrix[i].rows, matrix[i].columns));
    return max_bytes;
}

const bo_updates bo_cpu_updates = {
    .bytes = bytes,
    .sum_squares = sum_squares,
    .sum_sizes = sum_sizes,
    .approach = approach,
    .swap = swap,
    .sgd = sgd,
    .sign = sign,
    .adamw = adamw,
    .muon = bo_cpu_muon,
};
