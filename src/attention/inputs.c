/* Checks of arrays, parameters and states before tasks run, and location of NaN and infinity afterwards. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "../features/enums.h"
#include "enums.h"
#include "calls.h"
#include "kinds.h"
#include "kv_cache.h"
#include "parameters.h"

#define REFUSE(...) return bo_fail(context, BO_INVALID, "attention: " __VA_ARGS__)

/* An array with values per token and key head, each in a given range. */
typedef struct token_array {
    const char *name, *expected;
    const float *values;
    size_t width;
    double sign; /* sign * value >= 0 */
} token_array;

/* Gates per channel are as large as q, so they are checked with vector instructions. False: check each value. */
static bool wide_row_fits(const bo_kernels *kernels, const token_array *of, const float *row)
{
    return of->sign < 0 && of->width > 1 && kernels->finite(of->width, row) && kernels->max(of->width, row) <= 0;
}

static bo_status check_head(bo_context *context, const bo_call *call, const token_array *of, size_t sequence,
                            size_t head)
{
    size_t stride, heads = call->attention->desc.key_heads;
    size_t first = bo_row_index(call, heads, of->width, true, sequence, head, &stride);
    for (size_t t = 0; t < call->sequences[sequence].keys; t++) {
        size_t at = first + t * stride;
        if (!call->f64 && wide_row_fits(call->kernels, of, of->values + at)) continue;
        for (size_t j = 0; j < of->width; j++) {
            double value = bo_number_at(of->values, call->f64, at + j);
            if (isfinite(value) && of->sign * value >= 0) continue;
            return bo_fail(context, isfinite(value) ? BO_INVALID : BO_NUMERIC,
                           "attention: %s is %g at sequence %zu, head %zu, token %zu: %s", of->name, value, sequence,
                           head, t, of->expected);
        }
    }
    return BO_OK;
}

bo_status bo_gates_check(bo_context *context, const bo_call *call)
{
    const bo_attention_desc *d = &call->attention->desc;
    const token_array arrays[] = {
        {"log_gate", "expected a finite number, at most 0 (the logarithm of a gate in (0, 1])", call->in->log_gate,
         bo_gate_width(d), -1},
        {"beta", "expected a finite number, at least 0", call->in->beta, 1, 1},
    };
    for (size_t i = 0; i < 2; i++)
        for (size_t s = 0; arrays[i].values && s < call->shape->sequences; s++)
            for (size_t h = 0; h < d->key_heads; h++) BO_TRY(check_head(context, call, &arrays[i], s, h));
    return BO_OK;
}

bo_status bo_inputs_check(bo_context *context, const bo_call *call)
{
    const bo_attention *attention = call->attention;
    const bo_attention_desc *d = &attention->desc;
    const bo_attention_inputs *in = call->in;
    bool no_keys = call->shape->no_keys;
    size_t keys_total = call->keys_total;
    BO_TRY(bo_check_reserved(context, "bo_attention_inputs", in->reserved));
    if (!in->q && call->queries_total) REFUSE("q is NULL");
    if (no_keys && (in->k || in->v)) REFUSE("the shape has no keys, but k or v is given");
    if (!no_keys && keys_total && (!in->k || !in->v)) REFUSE("%s is NULL", in->k ? "v" : "k");
    if (!attention->ready)
        REFUSE(
            "frequencies with proposal %s and sampling %s are drawn from data; calibrate first (bo_calibration_apply)",
            bo_proposal_name(d->proposal), bo_sampling_name(d->features.sampling));
    BO_TRY(bo_parameters_check(context, attention, in, call->f64));
    if (in->solves && !(attention->traits & BO_TRAIT_ITERATIONS)) {
        char list[BO_KIND_LIST_BYTES];
        REFUSE("solves applies only to kind %s, found %s", bo_kinds_with(BO_TRAIT_ITERATIONS, list),
               bo_attention_kind_name(d->kind));
    }
    if (in->log_gate && !bo_gate_width(d))
        REFUSE("log_gate is given but the gate is %s%s", bo_gate_name(d->gate),
               d->gate == BO_GATE_FIXED ? " (use log_decay)" : "");
    if (in->log_gate && no_keys) REFUSE("log_gate is given without keys");
    if (in->beta && no_keys) REFUSE("beta is given without keys");
    if (!in->log_gate && bo_gate_width(d) && keys_total)
        REFUSE("%s %s requires log_gate, found NULL", d->gate ? "gate" : "kind",
               d->gate ? bo_gate_name(d->gate) : bo_attention_kind_name(d->kind));
    return BO_OK;
}

typedef struct place {
    const void *state;
    size_t sequence;
} place;

static int by_address(const void *a, const void *b)
{
    uintptr_t left = (uintptr_t)((const place *)a)->state, right = (uintptr_t)((const place *)b)->state;
    return (left > right) - (left < right);
}

bo_status bo_states_check_distinct(bo_context *context, bo_work *work, size_t count, const void *const *initial,
                                   void *const *final)
{
    if (count < 2) return BO_OK;
    place *places = bo_work_alloc(context, work, count, sizeof *places, "the order of states");
    if (!places) return BO_MEMORY;
    for (size_t s = 0; s < count; s++) places[s] = (place){final[s], s};
    qsort(places, count, sizeof *places, by_address);
    size_t first_sequence = 0, second_sequence = 0;
    for (size_t i = 1; i < count; i++)
        if (places[i].state == places[i - 1].state)
            first_sequence = places[i - 1].sequence, second_sequence = places[i].sequence;
    for (size_t s = 0; initial && first_sequence == second_sequence && s < count; s++) {
        place key = {initial[s], s};
        const place *found = bsearch(&key, places, count, sizeof *places, by_address);
        if (found) first_sequence = found->sequence, second_sequence = s;
    }
    bo_work_free(work, places);
    if (first_sequence == second_sequence) return BO_OK;
    REFUSE("sequences %zu and %zu share a state that one of them writes",
           first_sequence < second_sequence ? first_sequence : second_sequence,
           first_sequence < second_sequence ? second_sequence : first_sequence);
}

bo_status bo_states_check(bo_context *context, const bo_call *call, void *const *final)
{
    const bo_attention *attention = call->attention;
    const void *const *initial = call->initial;
    size_t count = call->shape->sequences;
    bool full_matters = attention->traits & BO_TRAIT_CAPACITY && !attention->desc.window;
    for (size_t s = 0; s < count; s++) {
        if (initial && !initial[s]) REFUSE("the initial state of sequence %zu is NULL", s);
        if (initial) BO_TRY(bo_state_check(context, attention, initial[s]));
        if (final && !final[s]) REFUSE("the final state of sequence %zu is NULL", s);
        if (final && (uintptr_t) final[s] % 8) REFUSE("the final state of sequence %zu must be aligned to 8 bytes", s);
        uint64_t stored = initial ? bo_attention_state_tokens(initial[s]) : 0;
        if (final && full_matters && call->sequences[s].keys > attention->cached_keys - stored)
            REFUSE("the state of sequence %zu has %llu tokens, and %zu more exceed its capacity of %zu", s,
                   (unsigned long long)stored, call->sequences[s].keys, attention->cached_keys);
    }
    return final ? bo_states_check_distinct(context, call->work, count, initial, final) : BO_OK;
}

/* ---- causes of NaN and infinity ---------------------------------------------------------------------------------- */

static const char *precision_name(const bo_call *call)
{
    return call->f64 ? "float64" : "float32";
}

/* An array with one row per head and token of a call. */
typedef struct row_array {
    const char *name;
    const float *values;
    size_t heads, width;
    bool keys; /* one row per key, else one per query */
} row_array;

/* Fails with the position of the first NaN or infinity, followed by `advice`. False: all values are finite. */
static bool locate_nonfinite(bo_context *context, const bo_call *call, const row_array *of, const char *advice)
{
    for (size_t s = 0; s < call->shape->sequences; s++) {
        size_t tokens = of->keys ? call->sequences[s].keys : call->sequences[s].queries;
        for (size_t h = 0; h < of->heads; h++) {
            size_t stride, first = bo_row_index(call, of->heads, of->width, of->keys, s, h, &stride);
            for (size_t t = 0; of->values && t < tokens; t++) {
                size_t at = first + t * stride, j = 0;
                while (j < of->width && isfinite(bo_number_at(of->values, call->f64, at + j))) j++;
                if (j == of->width) continue;
                bo_fail(context, BO_NUMERIC, BO_NOT_FINITE_AT "; %s", of->name,
                        bo_number_at(of->values, call->f64, at + j), s, h, t, j, advice);
                return true;
            }
        }
    }
    return false;
}

/* A row and its position. */
typedef struct culprit {
    const char *name;
    double norm;
    size_t sequence, head, token;
} culprit;

static void find_largest(const bo_call *call, const char *name, const float *array, size_t heads, size_t width,
                         bool keys, culprit *worst)
{
    for (size_t s = 0; s < call->shape->sequences; s++)
        for (size_t h = 0; h < heads; h++) {
            size_t stride, first = bo_row_index(call, heads, width, keys, s, h, &stride);
            size_t tokens = keys ? call->sequences[s].keys : call->sequences[s].queries;
            for (size_t t = 0; array && t < tokens; t++) {
                double square = 0;
                for (size_t j = 0; j < width; j++) {
                    double number = bo_number_at(array, call->f64, first + t * stride + j);
                    square += number * number;
                }
                double norm = sqrt(square);
                if (norm > worst->norm) *worst = (culprit){name, norm, s, h, t};
            }
        }
}

/* Inputs are finite but a result overflowed: reports the position of the largest inputs as the likely cause. */
static bo_status report_largest(bo_context *context, const bo_call *call)
{
    const bo_attention_desc *d = &call->attention->desc;
    culprit worst = {.name = "q"};
    if (call->attention->engine->explain_overflow && !call->f64)
        BO_TRY(call->attention->engine->explain_overflow(context, call));
    find_largest(call, "q", call->in->q, d->heads, d->dim, false, &worst);
    find_largest(call, "k", call->in->k, d->key_heads, d->dim, true, &worst);
    find_largest(call, "v", call->in->v, d->key_heads, d->value_dim, true, &worst);
    return bo_fail(
        context, BO_NUMERIC,
        "attention: the result overflowed %s; the largest input is %s of norm %.3g at sequence %zu, head %zu, "
        "token %zu",
        precision_name(call), worst.name, worst.norm, worst.sequence, worst.head, worst.token);
}

/* Reports NaN or infinity in the gradient of a final or initial state. */
static bool locate_in_states(bo_context *context, const bo_call *call, const char *name, const float *const *gradients,
                             const char *advice)
{
    size_t floats = bo_attention_state_gradient_floats(call->attention);
    for (size_t s = 0; gradients && s < call->shape->sequences; s++)
        for (size_t i = 0; i < floats; i++) {
            if (isfinite(gradients[s][i])) continue;
            bo_fail(context, BO_NUMERIC,
                    "attention: the gradient of the %s state of sequence %zu is %g at number %zu; %s", name, s,
                    (double)gradients[s][i], i, advice);
            return true;
        }
    return false;
}

/* Reports NaN or infinity in the inputs. False: they are finite. */
static bool locate_in_inputs(bo_context *context, const bo_call *call)
{
    static const char advice[] = "expected a finite number";
    const bo_attention_desc *d = &call->attention->desc;
    const row_array arrays[] = {{"q", call->in->q, d->heads, d->dim, false},
                                {"k", call->in->k, d->key_heads, d->dim, true},
                                {"v", call->in->v, d->key_heads, d->value_dim, true},
                                {"dout", call->dout, d->heads, d->value_dim, false}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (locate_nonfinite(context, call, &arrays[i], advice)) return true;
    return locate_in_states(context, call, "final", call->d_final, advice);
}

bo_status bo_inputs_locate_nonfinite(bo_context *context, const bo_call *call)
{
    return locate_in_inputs(context, call) ? BO_NUMERIC : report_largest(context, call);
}

bo_status bo_gradients_locate_nonfinite(bo_context *context, const bo_call *call)
{
    char advice[80];
    snprintf(advice, sizeof advice, "the gradient overflowed %s (scale dout or the inputs down)", precision_name(call));
    const bo_attention_desc *d = &call->attention->desc;
    const bo_attention_gradients *g = call->gradients;
    if (locate_in_inputs(context, call)) return BO_NUMERIC;
    const row_array arrays[] = {{"the gradient of q", g->q, d->heads, d->dim, false},
                                {"the gradient of k", g->k, d->key_heads, d->dim, true},
                                {"the gradient of v", g->v, d->key_heads, d->value_dim, true},
                                {"the gradient of log_gate", g->log_gate, d->key_heads, bo_gate_width(d), true},
                                {"the gradient of beta", g->beta, d->key_heads, 1, true}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (locate_nonfinite(context, call, &arrays[i], advice)) return BO_NUMERIC;
    if (locate_in_states(context, call, "initial", (const float *const *)g->initial, advice)) return BO_NUMERIC;
    return bo_parameter_gradients_locate_nonfinite(context, call->attention, g, call->f64, advice);
}

/* ---- checks of all arrays ---------------------------------------------------------------------------------------- */

/* Checks all rows of one head of a sequence. NULL: no rows. */
static bool head_finite(const bo_call *call, const row_array *of, size_t sequence, size_t head)
{
    const bo_sequence *at = &call->sequences[sequence];
    bo_rows rows = bo_rows_at(call, of->values, of->heads, of->width, of->keys, sequence, head);
    return !rows.at ||
           bo_rows_finite(call->kernels, of->keys ? at->keys : at->queries, of->width, rows.at, rows.stride);
}

/* Checks q, k, v of one key head and its group, or their gradients. */
static bool group_finite(const bo_call *call, const float *q, const float *k, const float *v, size_t sequence,
                         size_t key_head)
{
    const bo_attention_desc *d = &call->attention->desc;
    size_t group = call->attention->group;
    const row_array of_q = {.values = q, .heads = d->heads, .width = d->dim},
                    of_k = {.values = k, .heads = d->key_heads, .width = d->dim, .keys = true},
                    of_v = {.values = v, .heads = d->key_heads, .width = d->value_dim, .keys = true};
    bool finite = head_finite(call, &of_k, sequence, key_head) && head_finite(call, &of_v, sequence, key_head);
    for (size_t g = 0; finite && g < group; g++) finite = head_finite(call, &of_q, sequence, key_head * group + g);
    return finite;
}

/* Checks the gradient of one key head's part of an initial state. */
static bool state_finite(const bo_call *call, const float *gradient, size_t key_head)
{
    const bo_attention *attention = call->attention;
    const bo_attention_desc *d = &attention->desc;
    const bo_kernels *kernels = call->kernels;
    if (attention->engine->memory_gradient)
        return kernels->finite(attention->engine->memory_gradient(attention),
                               bo_memory_gradient(attention, gradient, key_head));
    return kernels->finite(attention->count * (d->value_dim + 1), bo_sums_gradient(attention, gradient, key_head)) &&
           kernels->finite(attention->cached_keys * (d->dim + d->value_dim),
                           bo_kv_cache_gradient(attention, gradient, key_head)) &&
           kernels->finite(attention->cached_gates, bo_cached_gates_gradient(attention, gradient, key_head));
}

bool bo_gradients_finite(const bo_call *call, size_t sequence, size_t key_head)
{
    const bo_attention_desc *d = &call->attention->desc;
    const bo_attention_gradients *g = call->gradients;
    const row_array gates = {.values = g->log_gate, .heads = d->key_heads, .width = bo_gate_width(d), .keys = true},
                    betas = {.values = g->beta, .heads = d->key_heads, .width = 1, .keys = true};
    return group_finite(call, g->q, g->k, g->v, sequence, key_head) && head_finite(call, &gates, sequence, key_head) &&
           head_finite(call, &betas, sequence, key_head) &&
           (!g->initial || state_finite(call, g->initial[sequence], key_head));
}

static void look_task(void *arg, size_t index, int worker)
{
    const bo_call *call = arg;
    size_t key_heads = call->attention->desc.key_heads;
    (void)worker;
    if (!group_finite(call, call->in->q, call->in->k, call->in->v, index / key_heads, index % key_heads))
        atomic_store(call->not_finite, true);
}

bo_status bo_inputs_finite(bo_context *context, const bo_call *call)
{
    if (call->f64) return locate_in_inputs(context, call) ? BO_NUMERIC : BO_OK;
    enum {
        MIN_PARALLEL_FLOATS = BO_SIZE(1 << 18, 8)
    }; /* fewer floats are checked on one thread: starting a thread takes longer */
    const bo_attention_desc *d = &call->attention->desc;
    size_t tasks = call->shape->sequences * d->key_heads;
    if ((call->queries_total * d->heads + call->keys_total * d->key_heads) * (d->dim + d->value_dim) <
        MIN_PARALLEL_FLOATS)
        for (size_t i = 0; i < tasks; i++) look_task((void *)call, i, 0);
    else
        bo_parallel(context, tasks, look_task, (void *)call);
    return atomic_load(call->not_finite) ? bo_inputs_locate_nonfinite(context, call) : BO_OK;
}
