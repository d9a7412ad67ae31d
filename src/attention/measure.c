/* Measures the distance of the output from softmax attention and from the closed-form kernel of the kind, on some of
 * the queries; and the difference between single values φ(q)·φ(k) and the kernel, measured and predicted by the
 * variance formula. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "measure.h"
#include "../base/rng.h"
#include "../features/propose.h"
#include "linear.h"
#include "dark.h"

/* ---- one query --------------------------------------------------------------------------------------------------- */

static double largest(size_t count, const double *x)
{
    double high = -INFINITY;
    for (size_t i = 0; i < count; i++) high = fmax(high, x[i]);
    return high;
}

double bo_log_sum(size_t count, const double *x)
{
    double high = largest(count, x), sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(x[i])) return x[i];
        sum += exp(x[i] - high);
    }
    return isfinite(high) ? high + log(sum) : high; /* high is infinite, or there are no terms */
}

double bo_relative_error(double error, double norm)
{
    return norm > 0 ? sqrt(error / norm) : error == 0 ? 0 : INFINITY;
}

void bo_weights_softmax(const bo_kernels *kernels, size_t dim, double scale, const float *q, bo_rows k,
                        bo_compare_weights *w)
{
    for (size_t j = w->first; j < w->end; j++) w->log[j] = scale * kernels->dot(dim, q, k.at + j * k.stride);
    w->sign = NULL;
}

/* Returns the denominator relative to exp(top); 0 if the output must be 0. */
static double divisor(double sum, double top, const bo_denominator *d)
{
    if (d->none) return exp(-top);
    if (d->clamp == 0) return sum;
    double unit = exp(d->log_unit - top), denominator = fmax(sum, d->clamp * unit);
    return denominator > (double)FLT_MIN * unit ? denominator : 0;
}

void bo_weights_mix(const bo_compare_weights *w, bo_rows v, size_t value_dim, const bo_denominator *denominator,
                    double *out)
{
    double top = largest(w->end - w->first, w->log + w->first), sum = 0;
    memset(out, 0, value_dim * sizeof *out);
    if (top == -INFINITY) return;
    for (size_t j = w->first; j < w->end; j++) {
        double a = exp(w->log[j] - top) * (w->sign ? w->sign[j] : 1);
        const float *value = v.at + j * v.stride;
        sum += a;
        for (size_t c = 0; c < value_dim; c++) out[c] += a * (double)value[c];
    }
    double by = divisor(sum, top, denominator), factor = by != 0 ? 1 / by : 0;
    for (size_t c = 0; c < value_dim; c++) out[c] *= factor;
}

/* ---- studies ----------------------------------------------------------------------------------------------------- */

/* Some queries of every head are computed in float64 and compared with softmax attention and with the kernel of the
 * kind. Single kernel values are compared with features. */

enum { ROWS = BO_SIZE(64, BO_STUDY_PAIRS + 1) }; /* keys per block of features */
_Static_assert((int)ROWS > (int)BO_STUDY_PAIRS, "a query and its pairs must fit in one block");

/* ---- one key head of one sequence -------------------------------------------------------------------------------- */

/* The weight of key j at query t has the factor exp(decay[t] - decay[j] + input[j]); running[t] is the running log
 * scale at t. */
typedef struct head_keys {
    const bo_study *of;
    size_t sequence, key_head, count;
    bo_rows k, v;
    const bo_features *map; /* NULL: explicit keys, or a matrix memory */
    bo_row_transform transform;
    const float *t; /* keys after the transform */
    size_t ldt;
    double *decay, *input, *running;
} head_keys;

/* One tile: queries of one head, each with its position in the sequence. */
typedef struct tile_job {
    const head_keys *keys;
    size_t head, count;
    size_t place[BO_STUDY_TILE];
    bo_query_result *found; /* `count` entries */
} tile_job;

/* Workspace of one worker: logarithms and signs of weights, outputs, rows of a few pairs and their features. */
typedef struct workspace {
    double *log, *sign, *softmax, *kernel;
    float *rows, *z, *log_scale;
    void *block;
} workspace;

static workspace workspace_at(const bo_study *s, bo_carver *carver)
{
    const bo_attention *a = s->attention;
    workspace w = {.log = bo_carve(carver, s->longest_keys, sizeof(double)),
                   .sign = bo_carve(carver, s->longest_keys, sizeof(double)),
                   .softmax = bo_carve(carver, a->desc.value_dim, sizeof(double)),
                   .kernel = bo_carve(carver, a->desc.value_dim, sizeof(double))};
    if (!a->features) return w;
    w.rows = bo_carve_floats(carver, (BO_STUDY_PAIRS + 1) * a->desc.features.dim);
    w.z = bo_carve_floats(carver, ROWS * a->count);
    w.log_scale = bo_carve_floats(carver, ROWS);
    w.block = bo_carve(carver, 1, bo_features_block_bytes(a->features[0], ROWS));
    return w;
}

/* ---- weights of the kind's kernel -------------------------------------------------------------------------------- */

static size_t visible_end(const head_keys *keys, size_t place)
{
    return keys->of->attention->desc.causal ? place + 1 : keys->count;
}

/* Returns the first key in the window. Weights of earlier keys come from features, weights of later keys from
 * softmax. */
static size_t window_begin(const head_keys *keys, size_t place)
{
    const bo_attention_desc *desc = &keys->of->attention->desc;
    size_t end = visible_end(keys, place);
    if (bo_attention_has(desc, BO_TRAIT_CAPACITY) && !desc->window) return 0;
    return desc->window == 0 ? end : end > desc->window ? end - desc->window : 0;
}

/* Returns log |k(q, k_j)| and its sign, without gates. */
static double log_kernel(const tile_job *tile, size_t index, size_t j, double *sign)
{
    const head_keys *keys = tile->keys;
    const bo_study *s = keys->of;
    const bo_features_desc *map = &s->attention->desc.features;
    *sign = 1;
    if (!s->matrix)
        return map->gamma * s->call->kernels->dot(map->dim, s->queries + index * map->dim, keys->t + j * keys->ldt);
    double value = s->kernel[index * keys->count + j];
    if (value < 0) *sign = -1;
    return log(fabs(value));
}

static double log_mix(const head_keys *keys, size_t head)
{
    const float *mix = keys->of->call->in->mix;
    return keys->map && mix ? log((double)mix[head]) : 0;
}

/* Computes the weights of the kind's kernel. scores holds s q·k of every visible key and is overwritten. */
static void kernel_weights(const tile_job *tile, size_t index, double *sign, bo_compare_weights *w)
{
    const head_keys *keys = tile->keys;
    size_t window = window_begin(keys, tile->place[index]);
    double power = keys->of->attention->desc.power;
    if (!keys->map) w->first = window;
    for (size_t j = w->first; j < w->end; j++) {
        sign[j] = 1;
        if (j >= window && power > 0)
            w->log[j] = power * log(fabs(w->log[j]));
        else if (j >= window)
            w->log[j] += log_mix(keys, tile->head);
        else
            w->log[j] =
                log_kernel(tile, index, j, &sign[j]) + keys->decay[w->end - 1] - keys->decay[j] + keys->input[j];
    }
    w->sign = sign;
}

/* Returns the unit of a clamp: exp(log scale of the query + running log scale), or a weight in the window if that is
 * larger. */
static bo_denominator kernel_denominator(const tile_job *tile, size_t index, double query_scale,
                                         const bo_compare_weights *w)
{
    const head_keys *keys = tile->keys;
    const bo_attention_desc *desc = &keys->of->attention->desc;
    if (!keys->map) return (bo_denominator){0};
    size_t window = window_begin(keys, tile->place[index]);
    double unit = -INFINITY;
    if (window > 0) unit = query_scale + keys->running[window - 1];
    for (size_t j = window; j < w->end; j++) unit = fmax(unit, w->log[j]);
    return (bo_denominator){desc->normalizer == BO_NORMALIZER_NONE, desc->clamp, unit};
}

/* ---- one query --------------------------------------------------------------------------------------------------- */

static void distance(size_t count, const float *out, const double *truth, double *error, double *norm)
{
    for (size_t c = 0; c < count; c++) {
        double difference = (double)out[c] - truth[c];
        *error += difference * difference;
        *norm += truth[c] * truth[c];
    }
}

/* Returns log |a exp(x) - b exp(y)|. */
static double log_difference(double a, double x, double b, double y)
{
    double high = fmax(x, y);
    if (high == -INFINITY) return high;
    return high + log(fabs(a * exp(x - high) - b * exp(y - high)));
}

/* Returns the variance of pair p, the query and row p + 1: by the formula or, for frequencies chosen among candidates,
 * from these frequencies and the formula of the candidates. */
static double log_variance(const bo_features *map, size_t width, size_t count, size_t p, const workspace *at,
                           double log_unit)
{
    const float *x = at->rows, *y = at->rows + (p + 1) * width;
    if (!bo_features_resampled(map)) return log(bo_features_variance(map, x, y));
    const double parts[] = {log_unit + log(bo_features_choice_variance(map, at->z, at->z + (p + 1) * count)),
                            log(bo_features_candidate_variance(map, x, y))};
    return bo_log_sum(2, parts);
}

/* Compares features, closed form and variance for some of the keys before the window. The query's row is first. Stores
 * the query's log scale in log_scale[0]. */
static void sample_pairs(const tile_job *tile, size_t index, const workspace *at, bo_query_result *found)
{
    const head_keys *keys = tile->keys;
    const bo_attention *a = keys->of->attention;
    size_t width = a->desc.features.dim, visible = window_begin(keys, tile->place[index]), chosen[BO_STUDY_PAIRS];
    bo_rng rng = bo_rng_make(0, bo_rng_stream("attention.pairs", (uint64_t)(found - keys->of->found)));
    found->pairs = visible < BO_STUDY_PAIRS ? visible : BO_STUDY_PAIRS;
    memcpy(at->rows, keys->of->queries + index * width, width * sizeof(float));
    for (size_t p = 0; p < found->pairs; p++) {
        chosen[p] = visible <= BO_STUDY_PAIRS ? p : bo_rng_below(&rng, visible);
        memcpy(at->rows + (p + 1) * width, keys->t + chosen[p] * keys->ldt, width * sizeof(float));
    }
    bo_features_block(keys->map, found->pairs + 1, at->rows, width, at->z, a->count, at->log_scale, at->block);
    for (size_t p = 0; keys->of->closed && p < found->pairs; p++) {
        double sign, expected = log_kernel(tile, index, chosen[p], &sign);
        double value = a->kernels->dot(a->count, at->z, at->z + (p + 1) * a->count);
        double scale = (double)at->log_scale[0] + (double)at->log_scale[p + 1];
        found->log_kernel[p] = expected;
        found->log_error[p] = log_difference(value, scale, sign, expected);
        found->log_variance[p] = log_variance(keys->map, width, a->count, p, at, 2 * scale);
    }
}

static void query_task(void *arg, size_t index, int worker)
{
    const tile_job *tile = arg;
    const head_keys *keys = tile->keys;
    const bo_study *s = keys->of;
    const bo_attention_desc *desc = &s->attention->desc;
    bo_carver carver = {.at = s->scratch + (size_t)worker * s->per_worker};
    workspace at = workspace_at(s, &carver);
    bo_query_result *found = tile->found + index;
    size_t place = tile->place[index];
    bo_rows q = bo_rows_at(s->call, s->call->in->q, desc->heads, desc->dim, false, keys->sequence, tile->head);
    bo_rows out = bo_rows_at(s->call, s->out, desc->heads, desc->value_dim, false, keys->sequence, tile->head);
    bo_compare_weights weights = {.end = visible_end(keys, place), .log = at.log};
    bo_denominator sum = {0};

    bo_weights_softmax(s->call->kernels, desc->dim, s->scale, q.at + place * q.stride, keys->k, &weights);
    bo_weights_mix(&weights, keys->v, desc->value_dim, &sum, at.softmax);
    distance(desc->value_dim, out.at + place * out.stride, at.softmax, &found->softmax_error, &found->softmax_norm);
    if (keys->map) sample_pairs(tile, index, &at, found);
    if (!s->closed) return;
    kernel_weights(tile, index, at.sign, &weights);
    sum = kernel_denominator(tile, index, keys->map ? (double)at.log_scale[0] : 0, &weights);
    bo_weights_mix(&weights, keys->v, desc->value_dim, &sum, at.kernel);
    distance(desc->value_dim, out.at + place * out.stride, at.kernel, &found->kernel_error, &found->kernel_norm);
}

/* ---- the queries of one head ------------------------------------------------------------------------------------- */

/* Returns the position of sample i among the tokens of all sequences. */
static size_t sampled(const bo_study *s, size_t i)
{
    return (size_t)((double)s->call->queries_total * ((double)i + 0.5) / (double)s->samples);
}

static bo_status run_tile(const head_keys *keys, tile_job *tile)
{
    const bo_study *s = keys->of;
    const bo_attention_desc *desc = &s->attention->desc;
    size_t width = desc->features.dim, ld;
    bo_rows rows = bo_rows_at(s->call, s->call->in->q, desc->heads, desc->dim, false, keys->sequence, tile->head);
    for (size_t i = 0; keys->map && i < tile->count; i++) {
        float *to = s->queries + i * width;
        const float *row = bo_row_transform_forward(&keys->transform, BO_OF_QUERIES, 1,
                                                    rows.at + tile->place[i] * rows.stride, desc->dim, to, &ld);
        if (row != to) memcpy(to, row, width * sizeof *to);
    }
    if (s->matrix)
        BO_TRY(bo_kernel_matrix(s->context, bo_features_describe(keys->map), tile->count, s->queries, width,
                                keys->count, keys->t, keys->ldt, s->kernel, keys->count));
    bo_parallel(s->context, tile->count, query_task, tile);
    return BO_OK;
}

static bo_status run_head(const head_keys *keys, size_t head)
{
    const bo_study *s = keys->of;
    const bo_sequence *at = &s->call->sequences[keys->sequence];
    size_t i = 0, end = at->query_start + at->queries;
    while (i < s->samples && sampled(s, i) < at->query_start) i++;
    while (i < s->samples && sampled(s, i) < end) {
        tile_job tile = {.keys = keys, .head = head, .found = s->found + head * s->samples + i};
        for (; tile.count < BO_STUDY_TILE && i < s->samples && sampled(s, i) < end; i++)
            tile.place[tile.count++] = sampled(s, i) - at->query_start;
        BO_TRY(run_tile(keys, &tile));
    }
    return BO_OK;
}

/* ---- the keys of one key head ------------------------------------------------------------------------------------ */

typedef struct transform_job {
    head_keys *keys;
    float *t;
} transform_job;

/* Computes keys after the transform; writes their log scales to `running`. */
static void transform_task(void *arg, size_t index, int worker)
{
    const transform_job *job = arg;
    head_keys *keys = job->keys;
    const bo_study *s = keys->of;
    size_t first = index * ROWS, rows = keys->count - first < ROWS ? keys->count - first : ROWS, ld;
    bo_carver carver = {.at = s->scratch + (size_t)worker * s->per_worker};
    workspace at = workspace_at(s, &carver);
    const float *x = keys->k.at + first * keys->k.stride;
    const float *t = bo_row_transform_forward(&keys->transform, BO_OF_KEYS, rows, x, keys->k.stride,
                                              job->t + first * keys->transform.width, &ld);
    if (index == 0) keys->t = t, keys->ldt = ld;
    if (!s->attention->scaled) return;
    bo_features_block(keys->map, rows, t, ld, at.z, s->attention->count, at.log_scale, at.block);
    for (size_t r = 0; r < rows; r++) keys->running[first + r] = (double)at.log_scale[r];
}

/* Computes the running log scales of the hybrid: key j enters the sums when it leaves the window, with the gates of the
 * tokens after it. */
static void follow_window(head_keys *keys, bo_rows gate)
{
    size_t window = keys->of->attention->desc.window;
    double running = -INFINITY;
    for (size_t j = 0; j + window < keys->count; j++) {
        size_t t = j + window;
        double entry = keys->input[j] + keys->decay[t] - keys->decay[j];
        if (gate.at) running += (double)gate.at[t * gate.stride];
        keys->running[j] = running = fmax(running, keys->running[j] + entry);
    }
}

/* Accumulates gates and running log scales, key by key. */
static void follow_gates(head_keys *keys)
{
    const bo_study *s = keys->of;
    const bo_attention *a = s->attention;
    bo_rows gate =
        bo_rows_at(s->call, s->call->in->log_gate, a->desc.key_heads, 1, true, keys->sequence, keys->key_head);
    if (a->desc.gate == BO_GATE_FIXED) gate = (bo_rows){(float *)bo_fixed_gate(a, s->call->in, keys->key_head), 0};
    double decay = 0, running = a->scaled ? -INFINITY : 0;
    bool late = a->scaled && a->desc.window;
    for (size_t j = 0; j < keys->count; j++) {
        float log_gate = gate.at ? gate.at[j * gate.stride] : 0;
        keys->input[j] = (double)bo_log_input(a, log_gate);
        keys->decay[j] = decay += (double)log_gate;
        if (late) continue;
        if (a->scaled) running = fmax(running + (double)log_gate, keys->running[j] + keys->input[j]);
        keys->running[j] = running;
    }
    if (late) follow_window(keys, gate);
}

static bo_status run_key_head(const bo_study *s, size_t sequence, size_t key_head, double *numbers, float *t,
                              char *transform)
{
    const bo_attention *a = s->attention;
    const bo_attention_inputs *in = s->call->in;
    bo_carver carver = {.at = transform};
    head_keys keys = {.of = s, .sequence = sequence, .key_head = key_head, .map = bo_attention_features(a, key_head)};
    keys.count = s->call->sequences[sequence].keys;
    keys.k = bo_rows_at(s->call, in->k, a->desc.key_heads, a->desc.dim, true, sequence, key_head);
    keys.v = bo_rows_at(s->call, in->v, a->desc.key_heads, a->desc.value_dim, true, sequence, key_head);
    keys.decay = numbers;
    keys.input = numbers + s->longest_keys;
    keys.running = numbers + 2 * s->longest_keys;
    if (keys.map) {
        keys.transform = bo_row_transform_make(a, in, key_head, &carver);
        transform_job job = {&keys, t};
        bo_parallel(s->context, (keys.count + ROWS - 1) / ROWS, transform_task, &job);
        follow_gates(&keys);
    }
    for (size_t head = key_head * a->group; head < (key_head + 1) * a->group; head++) BO_TRY(run_head(&keys, head));
    return BO_OK;
}

static bo_status run_all(const bo_study *s, double *numbers, float *t, char *transform)
{
    size_t sequences = s->call->shape->sequences, key_heads = s->attention->desc.key_heads;
    for (size_t i = 0; i < sequences * key_heads; i++) {
        BO_TRY(run_key_head(s, i / key_heads, i % key_heads, numbers, t, transform));
        BO_TRY(bo_progress(s->context, "comparing attention", (double)(i + 1), (double)(sequences * key_heads)));
    }
    return BO_OK;
}

/* Fills `found`. The caller sets the members before it. */
static bo_status study_run(bo_study *s)
{
    const bo_attention *a = s->attention;
    size_t width = a->desc.features.dim, longest = s->longest_keys;
    bo_carver workplaces = {0}, transform = {0};
    workspace_at(s, &workplaces);
    bo_row_transform_make(a, NULL, 0, &transform);
    s->per_worker = workplaces.bytes;
    s->scratch = bo_alloc_raw(s->context, (size_t)bo_context_threads(s->context), s->per_worker, "comparing attention");
    s->queries = bo_alloc_raw(s->context, BO_STUDY_TILE * width, sizeof(float), "comparing attention");
    s->kernel =
        bo_alloc_raw(s->context, s->matrix ? BO_STUDY_TILE * longest : 0, sizeof(double), "kernel values of queries");
    double *numbers = bo_alloc_raw(s->context, 3 * longest, sizeof *numbers, "comparing attention");
    float *t = bo_alloc_raw(s->context, longest * width, sizeof *t, "comparing attention");
    char *transform_bytes = bo_alloc_raw(s->context, 1, transform.bytes, "comparing attention");
    bo_status status = BO_MEMORY;
    if (s->scratch && s->queries && s->kernel && numbers && t && transform_bytes)
        status = run_all(s, numbers, t, transform_bytes);
    bo_free(s->scratch);
    bo_free(s->queries);
    bo_free(s->kernel);
    bo_free(numbers);
    bo_free(t);
    bo_free(transform_bytes);
    return status;
}

/* ---- the comparison ---------------------------------------------------------------------------------------------- */

enum { QUERIES = 128 }; /* default number of queries per head */

/* ---- conclusions ------------------------------------------------------------------------------------------------- */

/* Returns the root of the mean of exp(2 x) or exp(x), relative to exp(log_rms). */
static double relative_rms(size_t count, const double *log_squares, double log_rms)
{
    return exp(0.5 * (bo_log_sum(count, log_squares) - log((double)count)) - log_rms);
}

static bo_status conclude_pairs(const bo_study *s, bo_attention_accuracy *out)
{
    size_t findings = s->attention->desc.heads * s->samples, count = 0;
    out->kernel_rms = out->kernel_error = out->kernel_predicted = NAN;
    if (!s->closed || !s->attention->features) return BO_OK;
    double *logs = bo_alloc_raw(s->context, 3 * findings * BO_STUDY_PAIRS, sizeof *logs, "kernel values of pairs");
    if (!logs) return BO_MEMORY;
    double *kernel = logs, *error = logs + findings * BO_STUDY_PAIRS, *variance = logs + 2 * findings * BO_STUDY_PAIRS;
    for (size_t i = 0; i < findings; i++)
        for (size_t p = 0; p < s->found[i].pairs; p++, count++) {
            kernel[count] = 2 * s->found[i].log_kernel[p];
            error[count] = 2 * s->found[i].log_error[p];
            variance[count] = s->found[i].log_variance[p];
        }
    if (count) {
        double log_rms = 0.5 * (bo_log_sum(count, kernel) - log((double)count));
        out->kernel_rms = exp(log_rms);
        out->kernel_error = relative_rms(count, error, log_rms);
        out->kernel_predicted = relative_rms(count, variance, log_rms);
    }
    bo_free(logs);
    return BO_OK;
}

static bo_status conclude(const bo_study *s, bo_attention_accuracy *out)
{
    bo_query_result sum = {0};
    for (size_t i = 0; i < s->attention->desc.heads * s->samples; i++) {
        sum.softmax_error += s->found[i].softmax_error;
        sum.softmax_norm += s->found[i].softmax_norm;
        sum.kernel_error += s->found[i].kernel_error;
        sum.kernel_norm += s->found[i].kernel_norm;
    }
    out->queries = s->samples;
    out->against_softmax = bo_relative_error(sum.softmax_error, sum.softmax_norm);
    out->against_kernel = s->closed ? bo_relative_error(sum.kernel_error, sum.kernel_norm) : NAN;
    return conclude_pairs(s, out);
}

/* ---- the public function ----------------------------------------------------------------------------------------- */

/* Kinds that do not estimate softmax are compared with softmax at the default scale. */
static double softmax_scale(const bo_attention_desc *desc)
{
    bo_kernel kernel = desc->features.kernel;
    bool one_number = bo_attention_has(desc, BO_TRAIT_ANY_KERNEL) && !bo_attention_has(desc, BO_TRAIT_GAMMA);
    if (one_number && (kernel == BO_KERNEL_SOFTMAX || kernel == BO_KERNEL_TAYLOR)) return desc->features.gamma;
    return !one_number && desc->scale != 0 ? desc->scale : 1 / sqrt((double)desc->dim);
}

static bo_status time_forward(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                              const bo_attention_inputs *inputs, float *out, double *seconds, size_t *bytes)
{
    bo_attention_cost plan;
    BO_TRY(bo_attention_estimate_arrays(context, attention, shape, &plan));
    double start = bo_seconds();
    BO_TRY(bo_attention_forward_arrays(context, attention, shape, inputs, NULL, NULL, out, NULL));
    *seconds = bo_seconds() - start;
    *bytes = plan.forward_bytes;
    return BO_OK;
}

static bo_status time_softmax(const bo_study *s, float *out, bo_attention_accuracy *error)
{
    const bo_attention_desc *desc = &s->attention->desc;
    const bo_attention_inputs *in = s->call->in, plain = {.q = in->q, .k = in->k, .v = in->v};
    bo_attention_desc exact = {.kind = BO_ATTENTION_SOFTMAX,
                               .heads = desc->heads,
                               .key_heads = desc->key_heads,
                               .dim = desc->dim,
                               .value_dim = desc->value_dim,
                               .causal = desc->causal,
                               .scale = s->scale};
    bo_attention *softmax = NULL;
    BO_TRY(bo_attention_create(s->context, &exact, &softmax));
    bo_status status =
        time_forward(s->context, softmax, s->call->shape, &plain, out, &error->softmax_seconds, &error->softmax_bytes);
    bo_attention_destroy(softmax);
    return status;
}

static bo_status compare(bo_study *s, bo_attention_accuracy *error)
{
    const bo_attention_desc *desc = &s->attention->desc;
    size_t floats = s->call->queries_total * desc->heads * desc->value_dim;
    float *out = bo_alloc_raw(s->context, floats, sizeof *out, "attention's output");
    s->found = bo_alloc(s->context, desc->heads * s->samples, sizeof *s->found, "comparing attention");
    if (out) memset(out, 0, floats * sizeof *out); /* touches the pages, so that neither timing includes page faults */
    bo_status status = out && s->found ? time_softmax(s, out, error) : BO_MEMORY;
    if (status == BO_OK)
        status = time_forward(s->context, s->attention, s->call->shape, s->call->in, out, &error->kind_seconds,
                              &error->kind_bytes);
    if (!s->out) s->out = out;
    if (status == BO_OK) status = study_run(s);
    if (status == BO_OK) status = conclude(s, error);
    bo_free(out);
    bo_free(s->found);
    return status;
}

bo_status bo_attention_measure_arrays(bo_context *context, const bo_attention *attention,
                                      const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                      const float *out, size_t queries, bo_attention_accuracy *error)
{
    BO_REQUIRE(context, attention, shape, inputs, error);
    bo_geometry geometry;
    memset(error, 0, sizeof *error);
    BO_TRY(bo_geometry_make(context, attention, shape, &geometry));
    bo_call call = bo_layout_of(attention, shape, &geometry);
    call.in = inputs;
    bo_study s = {.context = context, .attention = attention, .call = &call, .out = out};
    s.samples = queries ? queries : QUERIES;
    if (s.samples > call.queries_total) s.samples = call.queries_total;
    for (size_t i = 0; i < shape->sequences; i++)
        if (geometry.sequences[i].keys > s.longest_keys) s.longest_keys = geometry.sequences[i].keys;
    const bo_features_desc *map = attention->features ? bo_features_describe(attention->features[0]) : NULL;
    s.scale = softmax_scale(&attention->desc);
    s.closed = map ? map->kernel != BO_KERNEL_CUSTOM : (attention->traits & BO_TRAIT_CAPACITY) != 0;
    s.matrix = map && s.closed && (map->kernel != BO_KERNEL_SOFTMAX || map->length_scales);
    bo_status status = shape->no_keys
                           ? bo_fail(context, BO_INVALID, "comparing attention needs keys; the shape has none")
                           : compare(&s, error);
    bo_geometry_free(&geometry);
    return status;
}
