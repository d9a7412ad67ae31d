/* A trial in float64: the arrays of a trial as doubles, and the results of the float64 functions of the library. */
#ifndef BO_TEST_ATTENTION_TRIAL_F64_H
#define BO_TEST_ATTENTION_TRIAL_F64_H

#include "trial.h"

typedef struct trial_f64 {
    const trial *of;
    double *array[TRIAL_ARRAYS];    /* inputs, and the output */
    double *gradient[TRIAL_ARRAYS]; /* [OUT] is the given dout */
} trial_f64;

static inline trial_f64 trial_f64_make(const trial *t)
{
    trial_f64 w = {.of = t};
    for (size_t a = 0; a < TRIAL_ARRAYS; a++) {
        w.array[a] = oracle_zeros(t->count[a]);
        w.gradient[a] = oracle_zeros(t->count[a]);
        for (size_t i = 0; i < t->count[a]; i++) w.array[a][i] = (double)t->array[a][i];
    }
    for (size_t i = 0; i < t->count[OUT]; i++) w.gradient[OUT][i] = (double)t->gradient[OUT][i];
    return w;
}

static inline void trial_f64_drop(trial_f64 *w)
{
    for (size_t a = 0; a < TRIAL_ARRAYS; a++) free(w->array[a]), free(w->gradient[a]);
}

#define TRIAL_F64_MEMBERS(from)                                                                                        \
    .q = from[Q], .k = from[K], .v = from[V], .log_gate = from[LOG_GATE], .sigma = from[SIGMA], .m = from[M],          \
    .mix = from[MIX], .beta = from[BETA], .log_decay = from[LOG_DECAY], .lambda = from[LAMBDA], .m_k = from[M_K],      \
    .bias = from[BIAS], .bias_k = from[BIAS_K]

static inline bo_attention_inputs_f64 trial_f64_inputs(const trial_f64 *w)
{
    const double *given[TRIAL_ARRAYS];
    for (size_t a = 0; a < TRIAL_ARRAYS; a++) given[a] = w->of->count[a] ? w->array[a] : NULL;
    return (bo_attention_inputs_f64){TRIAL_F64_MEMBERS(given)};
}

static inline bo_attention_gradients_f64 trial_f64_gradients(const trial_f64 *w)
{
    double *requested[TRIAL_ARRAYS];
    for (size_t a = 0; a < TRIAL_ARRAYS; a++) requested[a] = w->of->count[a] ? w->gradient[a] : NULL;
    return (bo_attention_gradients_f64){TRIAL_F64_MEMBERS(requested)};
}

static inline void trial_f64_forward(bo_context *context, trial_f64 *w)
{
    bo_attention_inputs_f64 in = trial_f64_inputs(w);
    bo_attention_call call = call_of_shape(&w->of->desc.shape);
    call.element = BO_ELEMENT_FLOAT64;
    CALL_SET_INPUTS(&call, &in);
    call.out.data = w->array[OUT];
    bo_status status = bo_attention_forward(context, w->of->attention, &call);
    if (status != BO_OK) fail_msg("%s: forward in float64: %s", w->of->desc.name, bo_context_error(context));
}

static inline void trial_f64_backward(bo_context *context, trial_f64 *w)
{
    bo_attention_inputs_f64 in = trial_f64_inputs(w);
    bo_attention_gradients_f64 g = trial_f64_gradients(w);
    for (size_t a = 0; a < OUT; a++)
        for (size_t i = 0; i < w->of->count[a]; i++) w->gradient[a][i] = NAN; /* to be overwritten */
    bo_attention_call call = call_of_shape(&w->of->desc.shape);
    call.element = BO_ELEMENT_FLOAT64;
    CALL_SET_INPUTS(&call, &in);
    CALL_SET_GRADIENTS(&call, &g);
    call.dout.data = w->gradient[OUT];
    bo_status status = bo_attention_backward(context, w->of->attention, &call);
    if (status != BO_OK) fail_msg("%s: backward in float64: %s", w->of->desc.name, bo_context_error(context));
}

#endif
