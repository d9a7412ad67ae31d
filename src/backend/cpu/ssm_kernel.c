/* Kernels of systems: their impulse responses.
 *
 * If powers of A keep its form (DIAGONAL; CLOSED: (σ I + P Qᵀ)^L = σ^L I + P M_L Qᵀ, M_2L = 2 σ^L M_L + M_L Qᵀ P M_L),
 * kernels are computed by doubling: first CHUNK states A^k B one by one, then rows C A^(CHUNK j), doubling their number
 * with every squaring of A^L, and K[CHUNK j + k] = C A^(CHUNK j) · A^k B: two products per number and state. LOW_RANK
 * has dense powers and is computed token by token, since rank + 1 products per state are fewer than N. */
#include <complex.h>
#include "ssm.h"

/* A^L - 1 in double: μ of each state and lane and, for CLOSED, M of each lane (rank x rank). */
typedef struct power {
    bo_number *mu, *m;
    float *systems; /* mu, p and q of its transpose, in the layout of a group */
} power;

static size_t chunks_of(size_t tokens)
{
    return bo_block_count(tokens, BO_SSM_CHUNK);
}

static bool closes(const bo_ssm_view *view)
{
    return view->attributes->kind != BO_SSM_LOW_RANK;
}

static bo_number number_at(const float *rows, size_t i, size_t lane)
{
    const float *at = rows + i * BO_COMPLEX_ROW + lane;
    return bo_number_of((double)at[0], (double)at[BO_CHANNELS]);
}

static void set(float *rows, size_t i, size_t lane, bo_number value)
{
    rows[i * BO_COMPLEX_ROW + lane] = (float)creal(value);
    rows[i * BO_COMPLEX_ROW + BO_CHANNELS + lane] = (float)cimag(value);
}

/* ---- powers ------------------------------------------------------------------------------------------------------ */

/* Computes (Qᵀ P)_ij of a lane. */
static bo_number inner(const bo_ssm_view *view, const bo_ssm_group *g, size_t lane, size_t i, size_t j)
{
    bo_number sum = 0;
    for (size_t n = 0; n < view->size; n++)
        sum += number_at(g->q, n * view->rank + i, lane) * number_at(g->p, n * view->rank + j, lane);
    return sum;
}

/* Computes M = 2 σ^L M + M (Qᵀ P) M of a lane; σ^L = 1 + μ_L is equal for all states. */
static void square_middle(const bo_ssm_view *view, const bo_ssm_group *g, size_t lane, bo_number mu, bo_number *m)
{
    size_t r = view->rank;
    bo_number left[BO_SYSTEMS_RANK * BO_SYSTEMS_RANK] = {0}, twice[BO_SYSTEMS_RANK * BO_SYSTEMS_RANK];
    for (size_t i = 0; i < r; i++)
        for (size_t k = 0; k < r; k++) {
            bo_number middle = inner(view, g, lane, i, k);
            for (size_t j = 0; j < r; j++) left[i * r + j] += middle * m[k * r + j];
        }
    for (size_t i = 0; i < r; i++)
        for (size_t j = 0; j < r; j++) {
            twice[i * r + j] = 2 * (1 + mu) * m[i * r + j];
            for (size_t k = 0; k < r; k++) twice[i * r + j] += m[i * r + k] * left[k * r + j];
        }
    memcpy(m, twice, r * r * sizeof *m);
}

/* A^L to A^2L: (1 + μ)² - 1 = μ (2 + μ). */
static void square(const bo_ssm_view *view, const bo_ssm_group *g, power *a)
{
    size_t r = view->rank;
    for (size_t lane = 0; r && lane < BO_CHANNELS; lane++)
        square_middle(view, g, lane, a->mu[lane], a->m + lane * r * r);
    for (size_t i = 0; i < view->size * BO_CHANNELS; i++) a->mu[i] *= 2 + a->mu[i];
}

static void power_begin(const bo_ssm_view *view, const bo_ssm_group *g, power *a)
{
    size_t r = view->rank;
    for (size_t n = 0; n < view->size; n++)
        for (size_t lane = 0; lane < BO_CHANNELS; lane++) a->mu[n * BO_CHANNELS + lane] = number_at(g->mu, n, lane);
    for (size_t lane = 0; lane < BO_CHANNELS; lane++)
        for (size_t i = 0; i < r * r; i++) a->m[lane * r * r + i] = i % (r + 1) == 0;
}

/* Returns the system that maps a row c to c A^L: P and Q are exchanged. */
static bo_systems transposed(const bo_ssm_view *view, const bo_ssm_group *g, const power *a)
{
    size_t r = view->rank;
    bo_ssm_group to = bo_ssm_group_at(view, a->systems);
    memset(a->systems, 0, view->floats * sizeof(float));
    for (size_t n = 0; n < view->size; n++)
        for (size_t lane = 0; lane < BO_CHANNELS; lane++) {
            set(to.mu, n, lane, a->mu[n * BO_CHANNELS + lane]);
            for (size_t j = 0; j < r; j++) {
                bo_number sum = 0;
                for (size_t i = 0; i < r; i++) sum += number_at(g->p, n * r + i, lane) * a->m[lane * r * r + i * r + j];
                set(to.q, n * r + j, lane, sum);
                set(to.p, n * r + j, lane, number_at(g->q, n * r + j, lane));
            }
        }
    return bo_ssm_systems_of(view, &to);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Sets the first of CHUNK tokens to 1 or 0, and the other tokens to 0. */
static void impulse(bool first, float u[BO_SSM_CHUNK * BO_CHANNELS])
{
    memset(u, 0, BO_SSM_CHUNK * BO_CHANNELS * sizeof *u);
    for (size_t lane = 0; first && lane < BO_CHANNELS; lane++) u[lane] = 1;
}

/* Computes the response chunk by chunk; `kept` receives the state before each. NULL: states, or the kernel, are not
 * needed. */
static void impulse_response(const bo_ssm_view *view, const bo_ssm_group *g, size_t tokens, float *state, float *kept,
                             float *kernel)
{
    _Alignas(64) float u[BO_SSM_CHUNK * BO_CHANNELS], ignored[BO_SSM_CHUNK * BO_CHANNELS] = {0};
    bo_systems systems = bo_ssm_systems_of(view, g);
    memset(state, 0, view->state * sizeof *state);
    for (size_t chunk = 0; chunk < chunks_of(tokens); chunk++) {
        size_t first = chunk * BO_SSM_CHUNK, left = tokens - first;
        impulse(chunk == 0, u);
        if (kept) memcpy(kept + chunk * view->state, state, view->state * sizeof *state);
        view->kernels->run(&systems, left < BO_SSM_CHUNK ? left : BO_SSM_CHUNK, state, u,
                           kernel ? kernel + first * BO_CHANNELS : ignored);
    }
}

/* Computes the states A^k B for k < CHUNK, and the first values of the kernel. */
static void first_states(const bo_ssm_view *view, const bo_ssm_group *g, size_t tokens, float *states, float *kernel)
{
    _Alignas(64) float u[BO_SSM_CHUNK * BO_CHANNELS];
    bo_systems systems = bo_ssm_systems_of(view, g);
    impulse(true, u);
    memset(states, 0, view->state * sizeof *states);
    for (size_t k = 0; k < tokens && k < BO_SSM_CHUNK; k++) {
        float *state = states + k * view->state;
        if (k) memcpy(state, state - view->state, view->state * sizeof *state);
        view->kernels->run(&systems, 1, state, u + k * BO_CHANNELS, kernel + k * BO_CHANNELS);
    }
}

/* Computes the rows C A^(CHUNK j), j < count. Each step with L = CHUNK · (rows so far) doubles them. */
static void double_rows(const bo_ssm_view *view, const bo_ssm_group *g, size_t count, power *a, float *rows)
{
    float nothing[BO_CHANNELS] = {0}, ignored[BO_CHANNELS] = {0};
    memcpy(rows, g->c, view->state * sizeof *rows);
    power_begin(view, g, a);
    for (size_t length = 1; length < BO_SSM_CHUNK; length *= 2) square(view, g, a);
    for (size_t done = 1; done < count; done *= 2) {
        bo_systems on = transposed(view, g, a);
        for (size_t j = done; j < 2 * done && j < count; j++) {
            float *row = rows + j * view->state;
            memcpy(row, row - done * view->state, view->state * sizeof *row);
            view->kernels->run(&on, 1, row, nothing, ignored);
        }
        square(view, g, a);
    }
}

size_t bo_ssm_kernel_workspace(const bo_ssm_view *view, size_t tokens)
{
    size_t numbers = BO_CHANNELS * (view->size + view->rank * view->rank),
           states = chunks_of(tokens) + BO_SSM_CHUNK + 2;
    return numbers * sizeof(bo_number) / sizeof(float) + view->floats + states * view->state;
}

void bo_ssm_kernel(const bo_ssm_view *view, const bo_ssm_group *g, size_t tokens, float *workspace, float *kernel)
{
    size_t chunks = chunks_of(tokens);
    power a = {.mu = (bo_number *)(void *)workspace};
    a.m = a.mu + BO_CHANNELS * view->size;
    a.systems = (float *)(a.m + BO_CHANNELS * view->rank * view->rank);
    float *states = a.systems + view->floats, *rows = states + BO_SSM_CHUNK * view->state;
    memset(kernel, 0, tokens * BO_CHANNELS * sizeof *kernel);
    if (!closes(view)) {
        impulse_response(view, g, tokens, states, NULL, kernel);
    } else {
        first_states(view, g, tokens, states, kernel);
        double_rows(view, g, chunks, &a, rows);
        for (size_t j = 1; j < chunks; j++) {
            size_t first = j * BO_SSM_CHUNK, left = tokens - first;
            view->kernels->read(view->size, rows + j * view->state, left < BO_SSM_CHUNK ? left : BO_SSM_CHUNK, states,
                                kernel + first * BO_CHANNELS);
        }
    }
    for (size_t lane = 0; tokens && lane < BO_CHANNELS; lane++) kernel[lane] += g->d[lane];
}

void bo_ssm_kernel_back(const bo_ssm_view *view, const bo_ssm_group *g, size_t tokens, const float *dkernel,
                        float *workspace, const bo_ssm_group *sums)
{
    _Alignas(64) float u[BO_SSM_CHUNK * BO_CHANNELS], ignored[BO_SSM_CHUNK * BO_CHANNELS] = {0};
    bo_systems systems = bo_ssm_systems_of(view, g);
    bo_systems_gradients gradients = bo_ssm_gradients_of(sums);
    float *flow = workspace, *work = flow + view->state, *kept = work + BO_SSM_CHUNK * view->state;
    impulse_response(view, g, tokens, flow, kept, NULL);
    memset(flow, 0, view->state * sizeof *flow);
    memset(sums->mu, 0, view->floats * sizeof(float));
    for (size_t chunk = chunks_of(tokens); chunk-- > 0;) {
        size_t first = chunk * BO_SSM_CHUNK, left = tokens - first;
        impulse(chunk == 0, u);
        view->kernels->run_back(&systems, left < BO_SSM_CHUNK ? left : BO_SSM_CHUNK, kept + chunk * view->state, u,
                                dkernel + first * BO_CHANNELS, flow, work, &gradients, ignored);
    }
    for (size_t lane = 0; tokens && lane < BO_CHANNELS; lane++) sums->d[lane] = dkernel[lane];
}
