/* Calibrates the initial parameters of attention on text. Each kind has a small family of parameters. The member with
 * the smallest error of the head's output is chosen for each key head:
 *
 *     M of DARK and HYBRID    f I and f W, W the whitening of q and k, which keeps their mean length
 *     σ of RFA                f
 *     maps of LEARNED, HYBRID f W, W the initial map
 *
 * A smaller f makes attention flatter and the kernel estimate less noisy. The best f depends on the data. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../nn/enums.h"
#include "../attention/attention.h"
#include "../base/base.h"
#include "../base/trace.h"
#include "../model/capture.h"
#include "../model/whiten.h"
#include "../nn/nn.h"
#include "linearize.h"

enum { TOKENS = 4096, MAX_WINDOW = 1024 };

/* A forward pass of the source model, and the arrays of one of its layers. */
typedef struct sample {
    bo_capture *capture;
    size_t window, sequences;
    float *arrays[BO_CAPTURE_ARRAYS];
} sample;

static void close_sample(sample *s)
{
    bo_capture_destroy(s->capture);
    for (size_t i = 0; i < BO_CAPTURE_ARRAYS; i++) bo_free(s->arrays[i]);
}

static bo_status open_sample(bo_context *context, const bo_model *source, const bo_corpus *corpus, uint64_t tokens,
                             sample *s)
{
    s->window = bo_min(bo_model_describe(source)->context, MAX_WINDOW);
    BO_TRY(bo_capture_text(context, source, corpus, s->window, tokens ? tokens : TOKENS, "calibration", &s->capture));
    s->sequences = bo_capture_sequences(s->capture);
    return BO_OK;
}

static bo_status read_layer(bo_context *context, sample *s, size_t layer)
{
    for (int a = 0; a < BO_CAPTURE_ARRAYS; a++) {
        const size_t columns = bo_capture_columns(s->capture, layer, (bo_capture_array)a);
        bo_free(s->arrays[a]);
        s->arrays[a] = bo_alloc_raw(context, bo_capture_rows(s->capture) * columns, sizeof(float), "a layer's values");
        if (!s->arrays[a]) return BO_MEMORY;
        BO_TRY(bo_capture_read(context, s->capture, layer, (bo_capture_array)a, s->arrays[a]));
    }
    return BO_OK;
}

static bo_attention_shape shape_of(const sample *s)
{
    return (bo_attention_shape){.sequences = s->sequences, .tokens = s->window, .layout = BO_LAYOUT_TOKENS_FIRST};
}

/* ---- the family of parameters of a layer ------------------------------------------------------------------------- */

/* Invariants: base[0] are the initial values and base[1] is the whitening (NULL: the kind has no M, or there is no
 * whitening); `now` has the candidate values and `best` the best ones so far, key_heads x each numbers. All are NULL if
 * the kind has no calibrated parameter. */
typedef struct family {
    const bo_attention *attention;
    const bo_attention_desc *desc;
    size_t each; /* numbers per key head */
    float *base[2], *now, *best;
    float *log_gate, *out;
    float *log_decay; /* gate FIXED: one per key head; otherwise NULL */
    float *mix;       /* weight of the window, one per head; NULL: 1 */
    double *errors;   /* one per key head */
} family;

static void close_family(family *f)
{
    float *arrays[] = {f->base[0], f->base[1], f->now, f->best, f->log_gate, f->out, f->mix, f->log_decay};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) bo_free(arrays[i]);
    bo_free(f->errors);
}

/* Returns the name of the calibrated parameter. NULL: the kind has none. */
static const char *parameter_of(const bo_attention_desc *desc)
{
    if (bo_attention_has(desc, BO_TRAIT_MATRIX)) return "m";
    if (bo_attention_has(desc, BO_TRAIT_SIGMA)) return "sigma";
    return bo_attention_has(desc, BO_TRAIT_AFFINE) ? "map_q.weight" : NULL;
}

static bo_nn_name weight_name(size_t layer, const char *parameter)
{
    bo_nn_name name;
    snprintf(name.text, sizeof name.text, "model.layers.%zu.self_attn.%s", layer, parameter);
    return name;
}

static bool has_token_gate(const bo_attention_desc *desc)
{
    return desc->gate == BO_GATE_CONVEX || desc->gate == BO_GATE_DECAY;
}

static float log_sigmoid(float x)
{
    return (float)-log1p(exp(-(double)x));
}

/* Gates at their initial biases: the same for all tokens. */
static bo_status fill_gates(bo_context *context, const bo_model *model, size_t rows, size_t layer, family *f)
{
    const size_t heads = f->desc->key_heads;
    float *bias = bo_alloc(context, heads, sizeof *bias, "biases of gates");
    f->log_gate = bo_alloc_raw(context, rows * heads, sizeof(float), "gates");
    bo_status status = bias && f->log_gate ? BO_OK : BO_MEMORY;
    if (status == BO_OK)
        status = bo_weights_get(context, bo_model_weights(model), weight_name(layer, "g_proj.bias").text, bias, NULL);
    for (size_t i = 0; i < rows * heads && status == BO_OK; i++) f->log_gate[i] = log_sigmoid(bias[i % heads]);
    bo_free(bias);
    return status;
}

static bo_status fill_decay(bo_context *context, const bo_model *model, size_t layer, family *f)
{
    if (f->desc->gate != BO_GATE_FIXED) return BO_OK;
    f->log_decay = bo_alloc(context, f->desc->key_heads, sizeof(float), "decays");
    if (!f->log_decay) return BO_MEMORY;
    BO_TRY(bo_weights_get(context, bo_model_weights(model), weight_name(layer, "decay").text, f->log_decay, NULL));
    for (size_t h = 0; h < f->desc->key_heads; h++) f->log_decay[h] = log_sigmoid(f->log_decay[h]);
    return BO_OK;
}

/* The features of a learned map sum to about their number where exp(s q·k) is 1, so this is the weight of the
 * window. */
static bo_status fill_mix(bo_context *context, family *f)
{
    const bo_attention_desc *d = f->desc;
    if (!bo_attention_has(d, BO_TRAIT_MIX) || !bo_attention_has(d, BO_TRAIT_AFFINE)) return BO_OK;
    f->mix = bo_alloc(context, d->heads, sizeof *f->mix, "weights of windows");
    for (size_t i = 0; f->mix && i < d->heads; i++)
        f->mix[i] = (float)bo_features_describe(bo_attention_features(f->attention, 0))->features;
    return f->mix ? BO_OK : BO_MEMORY;
}

static bo_status open_family(bo_context *context, const bo_model *model, size_t layer, const sample *s, family *f)
{
    const char *parameter = parameter_of(f->desc);
    const size_t rows = bo_capture_rows(s->capture), heads = f->desc->key_heads;
    const bo_attention_shape shape = shape_of(s);
    f->each = bo_attention_has(f->desc, BO_TRAIT_SIGMA) ? f->desc->dim : f->desc->rank * f->desc->dim;
    float **arrays[] = {&f->base[0], &f->base[1], &f->now, &f->best};
    for (size_t i = 0; parameter && i < sizeof arrays / sizeof *arrays; i++) {
        *arrays[i] = bo_alloc(context, heads * f->each, sizeof(float), "parameters of attention");
        if (!*arrays[i]) return BO_MEMORY;
    }
    f->out = bo_alloc_raw(context, rows * f->desc->heads * f->desc->value_dim, sizeof(float), "outputs of attention");
    f->errors = bo_alloc(context, heads, sizeof *f->errors, "errors of heads");
    if (!f->out || !f->errors) return BO_MEMORY;
    if (parameter)
        BO_TRY(bo_weights_get(context, bo_model_weights(model), weight_name(layer, parameter).text, f->base[0], NULL));
    if (has_token_gate(f->desc)) BO_TRY(fill_gates(context, model, rows, layer, f));
    BO_TRY(fill_decay(context, model, layer, f));
    BO_TRY(fill_mix(context, f));
    if (!bo_attention_has(f->desc, BO_TRAIT_MATRIX)) return BO_OK;
    const bo_status status = bo_attention_whiten_arrays(context, f->attention, &shape, s->arrays[BO_CAPTURE_ARRAY_Q],
                                                        s->arrays[BO_CAPTURE_ARRAY_K], 0, f->base[1]);
    if (status != BO_NUMERIC) return status;
    bo_context_forget_error(context); /* q and k are constant, for example in a pruned head */
    bo_free(f->base[1]);
    f->base[1] = NULL;
    return BO_OK;
}

static bo_attention_inputs inputs_of(const sample *s, const family *f, const float *parameter)
{
    bo_attention_inputs in = {.q = s->arrays[BO_CAPTURE_ARRAY_Q],
                              .k = s->arrays[BO_CAPTURE_ARRAY_K],
                              .v = s->arrays[BO_CAPTURE_ARRAY_V],
                              .log_gate = f->log_gate,
                              .log_decay = f->log_decay,
                              .mix = f->mix};
    *(bo_attention_has(f->desc, BO_TRAIT_SIGMA) ? &in.sigma : &in.m) = parameter;
    return in;
}

/* Computes the relative squared error of every key head with the parameters `now`. */
static bo_status measure(bo_context *context, const sample *s, family *f)
{
    const bo_attention_desc *d = f->desc;
    const bo_attention_shape shape = shape_of(s);
    const bo_attention_inputs in = inputs_of(s, f, f->now);
    BO_TRY(bo_attention_forward_arrays(context, f->attention, &shape, &in, NULL, NULL, f->out, NULL));
    const float *target = s->arrays[BO_CAPTURE_ARRAY_OUT];
    const size_t group = d->heads / d->key_heads, width = d->value_dim, rows = s->window * s->sequences;
    for (size_t h = 0; h < d->key_heads; h++) {
        double error = 0, size = 0;
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0, at = (r * d->heads + h * group) * width; i < group * width; i++, at++) {
                const double difference = (double)f->out[at] - (double)target[at];
                error += difference * difference;
                size += (double)target[at] * (double)target[at];
            }
        f->errors[h] = size > 0 ? error / size : 0;
    }
    return BO_OK;
}

/* Tries one member of the family for all key heads and keeps it for the heads where it is better. The first member is
 * kept even if its error is NaN or infinite. */
static bo_status try(bo_context *context, const sample *s, family *f, bool whitened, double factor, bool first,
                     bo_head_fit *fits)
{
    const size_t heads = f->desc->key_heads;
    const float *base = f->base[whitened];
    for (size_t i = 0; base && i < heads * f->each; i++) f->now[i] = (float)factor * base[i];
    BO_TRY(measure(context, s, f));
    for (size_t h = 0; h < heads; h++) {
        const bool better = f->errors[h] < fits[h].error || (isnan(fits[h].error) && !isnan(f->errors[h]));
        if (first) fits[h].start = f->errors[h];
        if (!first && !better) continue;
        fits[h].error = f->errors[h];
        fits[h].factor = factor;
        fits[h].whitened = whitened;
        if (base) memcpy(f->best + h * f->each, f->now + h * f->each, f->each * sizeof(float));
    }
    return BO_OK;
}

static bo_status choose(bo_context *context, const sample *s, family *f, bo_head_fit *fits)
{
    static const double shrinking[] = {1, 0.7, 0.5, 0.35, 0.25}, sigmas[] = {1, 0.5, 1.5, 2, 3, 4, 6};
    const bool sigma = bo_attention_has(f->desc, BO_TRAIT_SIGMA);
    const double *factors = sigma ? sigmas : shrinking;
    const size_t count = !f->now ? 1 : sigma ? sizeof sigmas / sizeof *sigmas : sizeof shrinking / sizeof *shrinking;
    const int bases = bo_attention_has(f->desc, BO_TRAIT_MATRIX) && f->base[1] ? 2 : 1;
    for (int b = 0; b < bases; b++)
        for (size_t i = 0; i < count; i++) BO_TRY(try(context, s, f, b == 1, factors[i], b == 0 && i == 0, fits));
    return BO_OK;
}

/* ---- predicted errors -------------------------------------------------------------------------------------------- */

/* Copies head `head` of an array of `heads` heads, multiplied by M (rows x dim; NULL: the identity). */
static void copy_head(size_t rows, size_t heads, size_t dim, size_t head, const float *from, const float *m,
                      size_t rank, float *to)
{
    for (size_t r = 0; r < rows; r++, to += rank) {
        const float *x = from + (r * heads + head) * dim;
        if (!m) memcpy(to, x, dim * sizeof *to);
        for (size_t i = 0; m && i < rank; i++) {
            double sum = 0;
            for (size_t j = 0; j < dim; j++) sum += (double)m[i * dim + j] * (double)x[j];
            to[i] = (float)sum;
        }
    }
}

/* Predicts the error of a key head with its calibrated M, for the first query head of the group. */
static bo_status predict_head(bo_context *context, const sample *s, const family *f, size_t head,
                              const bo_attention *one, float *workspace, bo_head_fit *fit)
{
    const bo_attention_desc *d = f->desc;
    const size_t rows = s->window * s->sequences, rank = f->now ? d->rank : d->dim;
    const float *m = f->now ? f->best + head * f->each : NULL;
    const bo_attention_shape shape = shape_of(s);
    float *q = workspace, *k = q + rows * rank, *v = k + rows * rank;
    bo_error_prediction found;
    copy_head(rows, d->heads, d->dim, head * (d->heads / d->key_heads), s->arrays[BO_CAPTURE_ARRAY_Q], m, rank, q);
    copy_head(rows, d->key_heads, d->dim, head, s->arrays[BO_CAPTURE_ARRAY_K], m, rank, k);
    copy_head(rows, d->key_heads, d->value_dim, head, s->arrays[BO_CAPTURE_ARRAY_V], NULL, d->value_dim, v);
    BO_TRY(bo_attention_predict(context, one, &shape, q, k, v, d->scale, &found));
    fit->predicted = bo_error_predicted(&found, d->features.features);
    return BO_OK;
}

static bo_status predict(bo_context *context, const sample *s, const family *f, bo_head_fit *fits)
{
    const bo_attention_desc *d = f->desc;
    const size_t rows = s->window * s->sequences, rank = f->now ? d->rank : d->dim;
    for (size_t h = 0; h < d->key_heads; h++) fits[h].predicted = NAN;
    if (d->kind != BO_ATTENTION_FAVOR && d->kind != BO_ATTENTION_DARK) return BO_OK;
    bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR,
                              .heads = 1,
                              .dim = rank,
                              .value_dim = d->value_dim,
                              .causal = true,
                              .scale = d->scale,
                              .features = {.function = d->features.function,
                                           .draw = d->features.draw,
                                           .features = d->features.features,
                                           .seed = d->features.seed}};
    bo_attention *one = NULL;
    float *workspace = bo_alloc_raw(context, rows * (2 * rank + d->value_dim), sizeof *workspace, "rows of a head");
    bo_status status = workspace ? bo_attention_create(context, &desc, &one) : BO_MEMORY;
    for (size_t h = 0; h < d->key_heads && status == BO_OK; h++)
        status = predict_head(context, s, f, h, one, workspace, &fits[h]);
    bo_attention_destroy(one);
    bo_free(workspace);
    return status;
}

static bo_status set_parameters(bo_context *context, bo_model *model, size_t layer, const family *f)
{
    const char *parameter = parameter_of(f->desc);
    if (!parameter) return BO_OK;
    for (size_t i = 0; f->mix && i < f->desc->heads; i++) f->mix[i] = logf(f->mix[i]); /* the layer stores logarithms */
    if (f->mix) BO_TRY(bo_weights_set(context, bo_model_weights(model), weight_name(layer, "mix").text, f->mix));
    if (strcmp(parameter, "map_q.weight") == 0)
        BO_TRY(bo_weights_set(context, bo_model_weights(model), weight_name(layer, "map_k.weight").text, f->best));
    return bo_weights_set(context, bo_model_weights(model), weight_name(layer, parameter).text, f->best);
}

static bo_status fit(bo_context *context, bo_model *model, size_t layer, const sample *s, family *f, bo_head_fit *fits)
{
    BO_TRY(choose(context, s, f, fits));
    BO_TRY(predict(context, s, f, fits));
    for (size_t h = 0; h < f->desc->key_heads; h++) fits[h].layer = layer, fits[h].head = h;
    return set_parameters(context, model, layer, f);
}

/* Draws data-dependent frequencies for the initial parameters. */
static bo_status draw(bo_context *context, bo_attention *attention, const sample *s, const family *f)
{
    const bo_attention_inputs in = inputs_of(s, f, f->base[0]);
    const bo_attention_shape shape = shape_of(s);
    bo_calibration *calibration;
    BO_TRY(bo_calibration_create(context, attention, 0, &calibration));
    bo_status status = bo_calibration_add_arrays(context, calibration, &shape, &in);
    if (status == BO_OK) status = bo_calibration_apply(context, calibration, attention, 0, NULL);
    bo_calibration_destroy(calibration);
    return status;
}

/* fits NULL: draws data-dependent frequencies instead. */
static bo_status prepare_layer(bo_context *context, bo_model *model, size_t layer, sample *s, bo_head_fit *fits)
{
    const bo_attention *attention = model->attentions[layer];
    family f = {.attention = attention, .desc = bo_attention_describe(attention)};
    BO_TRY(read_layer(context, s, layer));
    bo_status status = open_family(context, model, layer, s, &f);
    if (status == BO_OK)
        status = fits ? fit(context, model, layer, s, &f, fits) : draw(context, model->attentions[layer], s, &f);
    close_family(&f);
    return status;
}

/* ---- all layers -------------------------------------------------------------------------------------------------- */

/* In a linearized model, only replaced attention is calibrated. Other layers keep their parameters. */
static bool is_calibrated(const bo_model_desc *d, size_t layer)
{
    const bo_block *b = bo_model_block(d, layer);
    return bo_model_is_linearized(d) ? bo_block_replaces(b) : b->mixer == BO_MIXER_ATTENTION;
}

static bo_status check_shapes(bo_context *context, const bo_model *source, const bo_model *model)
{
    const bo_model_desc *a = bo_model_describe(source), *b = bo_model_describe(model);
    if (a->task != BO_MODEL_TASK_LANGUAGE || b->task != BO_MODEL_TASK_LANGUAGE)
        return bo_fail(context, BO_INVALID, "calibration: expected language models with attention");
    if (a->layers != b->layers)
        return bo_fail(context, BO_INVALID, "calibration: the models have %zu and %zu layers, expected the same shape",
                       a->layers, b->layers);
    for (size_t i = 0; i < a->layers; i++) {
        const bo_block *x = bo_model_block(a, i), *y = bo_model_block(b, i);
        if (!is_calibrated(b, i)) continue;
        if (x->mixer != BO_MIXER_ATTENTION || y->mixer != BO_MIXER_ATTENTION)
            return bo_fail(context, BO_INVALID,
                           "calibration: layer %zu: expected attention, found the mixers %s and %s", i,
                           bo_mixer_name(x->mixer), bo_mixer_name(y->mixer));
        if (x->heads != y->heads || x->key_heads != y->key_heads || x->head_dim != y->head_dim)
            return bo_fail(context, BO_INVALID,
                           "calibration: the models have %zu and %zu heads in layer %zu, expected the same shape",
                           x->heads, y->heads, i);
    }
    return BO_OK;
}

/* True if the frequencies of an attention are drawn from data. */
static bool draws(const bo_attention_desc *d)
{
    return d->proposal != BO_PROPOSAL_NONE || d->features.sampling == BO_SAMPLING_OPTIMAL;
}

/* Gates start at their biases. */
static bo_status reset_gates(bo_context *context, bo_model *model, size_t layer, const bo_attention_desc *d)
{
    if (!has_token_gate(d)) return BO_OK;
    float *zeros = bo_alloc(context, d->key_heads * model->desc.width, sizeof *zeros, "weights of gates");
    if (!zeros) return BO_MEMORY;
    const bo_status status =
        bo_weights_set(context, bo_model_weights(model), weight_name(layer, "g_proj.weight").text, zeros);
    bo_free(zeros);
    return status;
}

/* Adds the heads of the layer to `found` if they have calibrated parameters. Data-dependent frequencies are drawn once,
 * for the initial parameters. */
static bo_status calibrate_layer(bo_context *context, bo_model *model, size_t layer, sample *s, bo_head_fit *fits,
                                 size_t *found)
{
    const bo_attention *attention = model->attentions[layer];
    const bo_attention_desc *d = bo_attention_describe(attention);
    const bool drawn = draws(d), fitted = bo_attention_has(d, BO_TRAIT_FEATURES) && !drawn;
    BO_TRY(reset_gates(context, model, layer, d));
    if (!fitted && (!drawn || bo_attention_is_ready(attention))) return BO_OK;
    BO_TRY(prepare_layer(context, model, layer, s, fitted ? fits + *found : NULL));
    if (fitted) *found += d->key_heads;
    return BO_OK;
}

bo_status bo_model_calibrate(bo_context *context, const bo_model *source, bo_model *model, const bo_corpus *corpus,
                             uint64_t tokens, bo_head_fit *fits, size_t *count)
{
    BO_REQUIRE(context, source, model, corpus);
    BO_SPAN(context, "linearize", "calibrate");
    BO_TRY(check_shapes(context, source, model));
    const bo_model_desc *d = bo_model_describe(model);
    bo_head_fit *layer_fits = bo_alloc(context, bo_model_key_heads(d), sizeof *layer_fits, "a calibration");
    if (!layer_fits) return BO_MEMORY;
    sample s = {0};
    size_t found = 0;
    bo_status status = open_sample(context, source, corpus, tokens, &s);
    for (size_t i = 0; i < d->layers && status == BO_OK; i++) {
        status = bo_progress(context, "calibrating", (double)i, (double)d->layers);
        if (status == BO_OK && is_calibrated(d, i)) status = calibrate_layer(context, model, i, &s, layer_fits, &found);
    }
    if (status == BO_OK && fits) memcpy(fits, layer_fits, found * sizeof *layer_fits);
    if (status == BO_OK && count) *count = found;
    close_sample(&s);
    bo_free(layer_fits);
    return status;
}

/* ---- whitening --------------------------------------------------------------------------------------------------- */

bo_status bo_model_whiten(bo_context *context, bo_model *model, const bo_corpus *corpus, uint64_t tokens, double amount)
{
    BO_REQUIRE(context, model, corpus);
    BO_TRY(check_shapes(context, model, model));
    const size_t window = bo_min(bo_model_describe(model)->context, MAX_WINDOW);
    return bo_model_whiten_windows(context, model, corpus, window, tokens ? tokens : TOKENS, amount);
}
