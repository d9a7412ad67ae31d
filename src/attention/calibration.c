/* Statistics of q and k, data-dependent frequencies, and the quality of these frequencies. */
#include <assert.h>
#include <math.h>
#include <string.h>
#include "enums.h"
#include "../base/rng.h"
#include "calibration.h"
#include "kinds.h"
#include "parameters.h"
#include "measure.h"

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* Adding batches. With momentum μ, a batch b changes every statistic by S ← μ S + (1 - μ) S_b. Without momentum all
 * rows have equal weight: S ← S + (S_b - S) n_b / n. The same share of the sampled rows, chosen at random, is replaced
 * by rows of the batch. */

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

void bo_calibration_destroy(bo_calibration *calibration)
{
    if (!calibration) return;
    for (size_t i = 0; calibration->sides && i < 2 * calibration->laws; i++) {
        bo_second_moments_free(&calibration->sides[i].moments);
        bo_free(calibration->sides[i].sample);
    }
    bo_attention_destroy(calibration->layout);
    bo_free(calibration->sides);
    bo_free(calibration);
}

static bo_status check(bo_context *context, const bo_attention *attention, double momentum)
{
    const bo_attention_desc *d = &attention->desc;
    if (!(momentum >= 0 && momentum < 1))
        return bo_fail(context, BO_INVALID, "calibration: momentum must be in [0, 1), found %g", momentum);
    if (!attention->features || !bo_features_frequencies(attention->features[0]))
        return bo_fail(context, BO_INVALID, "calibration: this attention (kind %s) has no frequencies to draw",
                       bo_attention_kind_name(d->kind));
    if (d->proposal == BO_PROPOSAL_NONE && d->features.sampling == BO_SAMPLING_DRAWN)
        return bo_fail(context, BO_INVALID,
                       "calibration: frequencies with proposal none and sampling drawn do not depend on data");
    return BO_OK;
}

static bo_status make_layout(bo_context *context, const bo_attention_desc *d, bo_attention **out)
{
    bo_attention_desc exact = {.kind = BO_ATTENTION_SOFTMAX,
                               .heads = d->heads,
                               .key_heads = d->key_heads,
                               .dim = d->dim,
                               .value_dim = d->value_dim,
                               .causal = d->causal};
    return bo_attention_create(context, &exact, out);
}

static bo_status begin(bo_context *context, bo_calibration *c)
{
    BO_TRY(make_layout(context, &c->desc, &c->layout));
    c->sides = bo_alloc(context, 2 * c->laws, sizeof *c->sides, "a calibration");
    if (!c->sides) return BO_MEMORY;
    for (size_t i = 0; i < 2 * c->laws; i++) {
        BO_TRY(bo_second_moments_alloc(context, c->width, &c->sides[i].moments));
        c->sides[i].sample = bo_alloc(context, BO_SAMPLE_ROWS * c->width, sizeof(float), "rows of a calibration");
        if (!c->sides[i].sample) return BO_MEMORY;
    }
    return BO_OK;
}

bo_status bo_calibration_create(bo_context *context, const bo_attention *attention, double momentum,
                                bo_calibration **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, attention, out);
    BO_TRY(check(context, attention, momentum));
    bo_calibration *c = bo_alloc(context, 1, sizeof *c, "a calibration");
    if (!c) return BO_MEMORY;
    c->desc = attention->desc;
    c->desc.features.length_scales = NULL; /* owned by the attention */
    c->width = attention->desc.features.dim;
    c->laws = attention->desc.one_draw ? 1 : attention->desc.key_heads;
    assert(c->laws && attention->desc.key_heads % c->laws == 0);
    c->momentum = momentum;
    bo_status status = begin(context, c);
    if (status == BO_OK)
        *out = c;
    else
        bo_calibration_destroy(c);
    return status;
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

/* A batch after all checks, and its statistics. */
typedef struct batch {
    bo_call call;
    bo_row_transform *transforms; /* one per key head */
    char *transposes;             /* memory of the transforms */
    bo_second_moments *moments;   /* two per distribution */
    float *rows;                  /* BO_SAMPLE_ROWS x width */
    size_t *slots;                /* BO_SAMPLE_ROWS entries */
} batch;

static bo_side side_of(const bo_calibration *c, const batch *b, size_t i)
{
    size_t key_heads = c->desc.key_heads / c->laws, first = i / 2 * key_heads;
    bo_side side = i % 2 ? bo_side_keys(&b->call, b->call.in->k, first, key_heads)
                         : bo_side_queries(&b->call, b->call.in->q, first, key_heads);
    side.transforms = b->transforms;
    side.width = c->width;
    return side;
}

static void batch_free(const bo_calibration *c, batch *b)
{
    for (size_t i = 0; b->moments && i < 2 * c->laws; i++) bo_second_moments_free(&b->moments[i]);
    void *const blocks[] = {b->transforms, b->transposes, b->moments, b->rows, b->slots};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

/* A transform uses the attention's descriptor but not its frequencies. */
static bo_status make_transforms(bo_context *context, const bo_calibration *c, batch *b)
{
    bo_attention like = {.desc = c->desc,
                         .kernels = b->call.kernels,
                         .traits = bo_attention_traits(&c->desc),
                         .group = b->call.attention->group};
    bo_carver count = {0};
    BO_TRY(bo_parameters_check(context, &like, b->call.in, false));
    bo_row_transform_make(&like, b->call.in, 0, &count);
    b->transposes = bo_alloc_raw(context, c->desc.key_heads, bo_max(count.bytes, 64), "transforms of a batch");
    b->transforms = bo_alloc(context, c->desc.key_heads, sizeof *b->transforms, "transforms of a batch");
    if (!b->transposes || !b->transforms) return BO_MEMORY;
    for (size_t h = 0; h < c->desc.key_heads; h++) {
        bo_carver carver = {.at = b->transposes + h * count.bytes};
        b->transforms[h] = bo_row_transform_make(&like, b->call.in, h, &carver);
    }
    return BO_OK;
}

/* Performs all steps that can fail. */
static bo_status look(bo_context *context, const bo_calibration *c, batch *b)
{
    BO_TRY(make_transforms(context, c, b));
    b->moments = bo_alloc(context, 2 * c->laws, sizeof *b->moments, "moments of a batch");
    b->rows = bo_alloc_raw(context, BO_SAMPLE_ROWS * c->width, sizeof(float), "rows of a batch");
    b->slots = bo_alloc_raw(context, BO_SAMPLE_ROWS, sizeof(size_t), "rows of a batch");
    if (!b->moments || !b->rows || !b->slots) return BO_MEMORY;
    for (size_t i = 0; i < 2 * c->laws; i++) {
        bo_side side = side_of(c, b, i);
        if (bo_side_rows(&side)) BO_TRY(bo_second_moments_measure(context, &side, 1, &b->moments[i]));
    }
    return BO_OK;
}

static void move_toward(size_t count, double share, const double *to, double *x)
{
    for (size_t i = 0; i < count; i++) x[i] = share == 1 ? to[i] : x[i] + share * (to[i] - x[i]);
}

/* Replaces sampled rows by rows of the batch. Their number is the batch's share, rounded up or down at random. */
static void renew(const bo_calibration *c, const batch *b, const bo_side *side, size_t i, double share)
{
    bo_rng rng = bo_rng_make(c->desc.features.seed, bo_rng_stream("calibration", c->batches * 2 * c->laws + i));
    size_t count = (size_t)(share * BO_SAMPLE_ROWS + bo_rng_uniform(&rng));
    count = bo_min(count, BO_SAMPLE_ROWS);
    bo_rng_permutation(&rng, BO_SAMPLE_ROWS, b->slots);
    bo_side_spread(side, count, bo_rng_uniform(&rng), b->rows);
    for (size_t r = 0; r < count; r++)
        memcpy(c->sides[i].sample + b->slots[r] * c->width, b->rows + r * c->width, c->width * sizeof(float));
}

static void merge_batch(bo_calibration *c, const batch *b)
{
    for (size_t i = 0; i < 2 * c->laws; i++) {
        bo_calibration_side *to = &c->sides[i];
        bo_side side = side_of(c, b, i);
        uint64_t rows = bo_side_rows(&side);
        if (!rows) continue;
        double share = to->rows == 0      ? 1
                       : c->momentum != 0 ? 1 - c->momentum
                                          : (double)rows / (double)(to->rows + rows);
        move_toward(c->width, share, b->moments[i].mean, to->moments.mean);
        move_toward(c->width * c->width, share, b->moments[i].second, to->moments.second);
        renew(c, b, &side, i, share);
        to->rows += rows;
    }
    c->batches++;
}

static bo_status check_batch(bo_context *context, const bo_attention_shape *shape, const bo_attention_inputs *in)
{
    BO_TRY(bo_check_reserved(context, "bo_attention_inputs", in->reserved));
    if (shape->no_keys) return bo_fail(context, BO_INVALID, "calibration needs keys; the shape has none");
    return BO_OK;
}

/* Statistics do not depend on which keys a query sees: the numbers of queries and keys may differ. */
bo_status bo_calibration_add_arrays(bo_context *context, bo_calibration *calibration, const bo_attention_shape *shape,
                                    const bo_attention_inputs *inputs)
{
    BO_REQUIRE(context, calibration, shape, inputs);
    BO_REQUIRE(context, inputs->q, inputs->k);
    bo_geometry geometry;
    BO_TRY(check_batch(context, shape, inputs));
    bo_attention layout = *calibration->layout;
    layout.desc.causal = false;
    BO_TRY(bo_geometry_make(context, &layout, shape, &geometry));
    batch b = {.call = bo_layout_of(calibration->layout, shape, &geometry)};
    b.call.in = inputs;
    bo_status status = look(context, calibration, &b);
    if (status == BO_OK) merge_batch(calibration, &b);
    batch_free(calibration, &b);
    bo_geometry_free(&geometry);
    return status;
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

/* The quality of frequencies for the data is measured by the second moment of the estimate of a single frequency over
 * independent rows of q and k: c(w)² = E (f(q, w)·f(k, w))² = tr(A B) with A = E f(q, w) f(q, w)ᵀ and B = E f(k, w)
 * f(k, w)ᵀ, where f includes the weight of w (features/propose.h). No importance sampling has less than (E c(w))², w ~
 * N(0, I) (arXiv 2406.18802 for one feature per frequency, Cauchy-Schwarz in general). For every pair of rows, E c² of
 * drawn positive features and the variance of trigonometric features are known. */

enum { FREQUENCIES = 2048 };

static double log_mean(size_t count, const double *x)
{
    return bo_log_sum(count, x) - log((double)count);
}

/* ---- the minimum ------------------------------------------------------------------------------------------------- */

/* E f(x, w)² times the density of w is a mixture of N(2t, I) over the rows t = √γ x / length scale, with weights
 * exp(|t|²). This structure stores the rows of one side in this form. */
typedef struct mixture {
    double *t;        /* count x dim */
    double *reached;  /* cumulative weights of the rows, divided by their total */
    double log_total; /* log of the mean of exp(|t|²) */
} mixture;

static bo_status mixture_make(bo_context *context, const bo_features_desc *map, const bo_feature_sample *x,
                              mixture *out)
{
    size_t dim = map->dim;
    out->t = bo_alloc_raw(context, x->count * dim, sizeof *out->t, "rows of a mixture");
    out->reached = bo_alloc_raw(context, x->count, sizeof *out->reached, "rows of a mixture");
    if (!out->t || !out->reached) return BO_MEMORY;
    for (size_t i = 0; i < x->count; i++) {
        out->reached[i] = 0;
        for (size_t j = 0; j < dim; j++) {
            double length = map->length_scales ? (double)map->length_scales[j] : 1;
            double t = sqrt(map->gamma) * (double)x->rows[i * x->stride + j] / length;
            out->t[i * dim + j] = t;
            out->reached[i] += t * t;
        }
    }
    out->log_total = log_mean(x->count, out->reached);
    double all = out->log_total + log((double)x->count), sum = 0;
    for (size_t i = 0; i < x->count; i++) out->reached[i] = sum += exp(out->reached[i] - all);
    return BO_OK;
}

/* Draws frequencies alternately from both mixtures, with rows in systematic order. */
static void mixture_draw(const bo_features_desc *map, const mixture *sides, size_t rows, float *w)
{
    size_t dim = map->dim, at[2] = {0};
    bo_rng rng = bo_rng_make(map->seed, bo_rng_stream("calibration.floor", 0));
    for (size_t i = 0; i < FREQUENCIES; i++) {
        const mixture *m = &sides[i % 2];
        double tooth = ((double)(i / 2) + 0.5) / (FREQUENCIES / 2);
        while (at[i % 2] + 1 < rows && m->reached[at[i % 2]] < tooth) at[i % 2]++;
        for (size_t j = 0; j < dim; j++)
            w[i * dim + j] = (float)(sqrt(map->gamma) * (2 * m->t[at[i % 2] * dim + j] + bo_rng_normal(&rng)));
    }
}

/* Computes log (E c)² of positive features. With A = E f(q, w)², B = E f(k, w)² and w from the mean of both mixtures,
 * it is the square of the mean of √(AB) / ½(A / E A + B / E B), which never exceeds √(E A E B). */
static bo_status floor_of_mixtures(bo_context *context, const bo_features *samples, const bo_feature_sample *q,
                                   const bo_feature_sample *k, const mixture *sides, double *numbers, double *out)
{
    double *a = numbers, *b = numbers + FREQUENCIES;
    BO_TRY(bo_features_log_energies(context, samples, q, a));
    BO_TRY(bo_features_log_energies(context, samples, k, b));
    for (size_t i = 0; i < FREQUENCIES; i++) {
        const double parts[] = {a[i] - sides[0].log_total, b[i] - sides[1].log_total};
        a[i] = 0.5 * (a[i] + b[i]) - (bo_log_sum(2, parts) - log(2));
    }
    *out = 2 * log_mean(FREQUENCIES, a);
    return BO_OK;
}

static bo_status floor_of_positive(bo_context *context, bo_features *samples, const bo_feature_sample *q,
                                   const bo_feature_sample *k, double *out)
{
    const bo_features_desc *map = bo_features_describe(samples);
    mixture sides[2] = {{0}};
    float *w = bo_alloc_raw(context, FREQUENCIES * map->dim, sizeof *w, "frequencies");
    double *numbers = bo_alloc_raw(context, 2 * FREQUENCIES, sizeof *numbers, "second moments of frequencies");
    bo_status status = w && numbers ? mixture_make(context, map, q, &sides[0]) : BO_MEMORY;
    if (status == BO_OK) status = mixture_make(context, map, k, &sides[1]);
    if (status == BO_OK) {
        mixture_draw(map, sides, q->count, w);
        status = bo_features_set_frequencies(context, samples, w);
    }
    if (status == BO_OK) status = floor_of_mixtures(context, samples, q, k, sides, numbers, out);
    for (size_t i = 0; i < 2; i++) {
        bo_free(sides[i].t);
        bo_free(sides[i].reached);
    }
    bo_free(w);
    bo_free(numbers);
    return status;
}

/* ---- all three quantities ---------------------------------------------------------------------------------------- */

/* Computes log E c² over the frequencies of a map and, if requested, log (E c)². */
static bo_status average(bo_context *context, const bo_features *map, const bo_feature_sample *q,
                         const bo_feature_sample *k, double *second, double *log_floor)
{
    size_t count = bo_features_frequencies(map);
    double *c = bo_alloc_raw(context, count, sizeof *c, "second moments of frequencies");
    bo_status status = c ? bo_features_log_scores(context, map, q, k, c) : BO_MEMORY;
    if (status == BO_OK && log_floor) *log_floor = 2 * log_mean(count, c);
    for (size_t i = 0; status == BO_OK && i < count; i++) c[i] *= 2;
    if (status == BO_OK) *second = log_mean(count, c);
    bo_free(c);
    return status;
}

/* Returns the second moment for a frequency that was chosen among candidates, relative to E k²: the second moment of
 * the choice plus the variance due to the finite number of candidates. */
static double log_chosen(const bo_features *map, double log_choice, double log_law)
{
    double share = (double)bo_features_frequencies(map) / (double)bo_features_describe(map)->candidates;
    return log(exp(fmax(0, log_choice)) + share * expm1(fmax(0, log_law)));
}

static bo_status evaluate_positive(bo_context *context, const bo_features *map, bo_features *samples,
                                   const bo_feature_sample *q, const bo_feature_sample *k, double square,
                                   bo_calibration_report *out)
{
    double choice;
    BO_TRY(floor_of_positive(context, samples, q, k, &out->log_floor));
    BO_TRY(bo_features_log_second(context, map, false, q, k, &out->log_isotropic));
    BO_TRY(bo_features_log_second(context, map, true, q, k, &out->log_drawn));
    if (!bo_features_resampled(map)) return BO_OK;
    BO_TRY(average(context, map, q, k, &choice, NULL));
    out->log_drawn = square + log_chosen(map, choice - square, out->log_drawn - square);
    return BO_OK;
}

/* Frequencies sampled from the kernel's spectrum give log_isotropic and log_floor. */
static bo_status evaluate_general(bo_context *context, const bo_features *map, const bo_features *samples,
                                  const bo_feature_sample *q, const bo_feature_sample *k, double square,
                                  bo_calibration_report *out)
{
    double choice;
    BO_TRY(average(context, samples, q, k, &out->log_isotropic, &out->log_floor));
    BO_TRY(average(context, map, q, k, &choice, NULL));
    out->log_drawn = square + log_chosen(map, choice - square, out->log_isotropic - square);
    return BO_OK;
}

/* Returns the variance of one frequency over pairs, for features that are used as drawn. */
static double log_flat_variance(const bo_features *map, const bo_feature_sample *q, const bo_feature_sample *k)
{
    enum { SHIFTS = 16 };
    double m = (double)bo_features_frequencies(map), sum = 0;
    for (size_t shift = 0; shift < SHIFTS; shift++)
        for (size_t i = 0; i < q->count; i++) {
            size_t j = (i + 1 + shift * k->count / SHIFTS) % k->count;
            sum += m * bo_features_variance(map, q->rows + i * q->stride, k->rows + j * k->stride);
        }
    return log(sum / (double)(SHIFTS * q->count));
}

/* The ratio of the floor to the second moment varies less over frequencies than both quantities. */
static bo_status evaluate_flat(bo_context *context, const bo_features *map, bo_features *samples,
                               const bo_feature_sample *q, const bo_feature_sample *k, double square,
                               bo_calibration_report *out)
{
    double second, log_floor;
    BO_TRY(average(context, samples, q, k, &second, &log_floor));
    out->log_drawn = out->log_isotropic = square + log1p(exp(log_flat_variance(map, q, k) - square));
    out->log_floor = out->log_isotropic + (log_floor - second);
    return BO_OK;
}

/* Evaluates the frequencies of a map on the data of a distribution. */
static bo_status evaluate_law(bo_context *context, const bo_calibration *calibration, size_t law,
                              const bo_features *map, bo_calibration_report *out)
{
    bo_feature_sample q = bo_calibration_sample(calibration, &calibration->sides[2 * law]);
    bo_feature_sample k = bo_calibration_sample(calibration, &calibration->sides[2 * law + 1]);
    bo_frequency_origin origin = {.seed = bo_features_describe(map)->seed, .frequencies = FREQUENCIES};
    double square;
    BO_TRY(bo_features_log_square(context, map, &q, &k, &square));
    bo_features *samples;
    bool positive = bo_features_describe(map)->function == BO_FUNCTION_POSITIVE;
    BO_TRY(bo_features_like(context, map, &origin, &samples));
    bo_status status = positive                ? evaluate_positive(context, map, samples, &q, &k, square, out)
                       : bo_features_flat(map) ? evaluate_flat(context, map, samples, &q, &k, square, out)
                                               : evaluate_general(context, map, samples, &q, &k, square, out);
    bo_features_destroy(samples);
    out->log_isotropic -= square;
    out->log_drawn -= square;
    out->log_floor -= square;
    return status;
}

/* ---- drawing frequencies ----------------------------------------------------------------------------------------- */

/* Draws frequencies from the statistics. On failure no map of the attention is changed. */

/* ---- distributions ----------------------------------------------------------------------------------------------- */

/* Computes the moments of factor ∘ x from those of x. */
static void scale_moments(size_t dim, const double *factor, const bo_second_moments *from, bo_second_moments *to)
{
    for (size_t i = 0; i < dim; i++) {
        to->mean[i] = factor[i] * from->mean[i];
        for (size_t j = 0; j < dim; j++) to->second[i * dim + j] = factor[i] * factor[j] * from->second[i * dim + j];
    }
}

/* Computes the factor of a distribution for the inputs of this map after length scales and √γ. */
static bo_status calibration_root(bo_context *context, const bo_calibration *c, size_t law, const bo_features_desc *map,
                                  bo_proposal proposal, double *root)
{
    size_t dim = c->width;
    bo_second_moments sides[2] = {{0}};
    double *factor = bo_alloc_raw(context, dim, sizeof *factor, "scales of a distribution");
    bo_status status = factor ? BO_OK : BO_MEMORY;
    for (size_t j = 0; status == BO_OK && j < dim; j++)
        factor[j] = sqrt(map->gamma) / (map->length_scales ? (double)map->length_scales[j] : 1);
    for (size_t i = 0; status == BO_OK && i < 2; i++) {
        status = bo_second_moments_alloc(context, dim, &sides[i]);
        if (status == BO_OK) scale_moments(dim, factor, &c->sides[2 * law + i].moments, &sides[i]);
    }
    if (status == BO_OK) status = bo_proposal_root(context, proposal, dim, &sides[0], &sides[1], root);
    for (size_t i = 0; i < 2; i++) bo_second_moments_free(&sides[i]);
    bo_free(factor);
    return status;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

static bo_status draw_map(bo_context *context, const bo_calibration *c, const bo_attention *attention, size_t law,
                          uint64_t draw, bo_features **out)
{
    const bo_attention_desc *d = &attention->desc;
    const bo_features *map = attention->features[law];
    bo_feature_sample q = bo_calibration_sample(c, &c->sides[2 * law]),
                      k = bo_calibration_sample(c, &c->sides[2 * law + 1]);
    bool choose = d->features.sampling == BO_SAMPLING_OPTIMAL, propose = d->proposal != BO_PROPOSAL_NONE;
    bo_frequency_origin origin = {.seed = bo_attention_seed(attention, law, draw),
                                  .candidates = d->features.candidates};
    double *root = bo_alloc_raw(context, propose ? c->width * c->width : 0, sizeof *root, "a proposal");
    bo_status status = root ? BO_OK : BO_MEMORY;
    if (choose) origin.q = &q, origin.k = &k;
    if (propose && status == BO_OK) {
        status = calibration_root(context, c, law, bo_features_describe(map), d->proposal, root);
        origin.factor = root;
    }
    if (status == BO_OK) status = bo_features_like(context, map, &origin, out);
    bo_free(root);
    return status;
}

/* Stores the report of the distribution with the worst features. */
static bo_status update_report(bo_context *context, const bo_calibration *c, size_t law, const bo_features *map,
                               bo_calibration_report *report)
{
    bo_calibration_report found = {.key_head = law};
    BO_TRY(evaluate_law(context, c, law, map, &found));
    found.rows = report->rows + c->sides[2 * law].rows + c->sides[2 * law + 1].rows;
    if (law == 0 || found.log_drawn > report->log_drawn)
        *report = found;
    else
        report->rows = found.rows;
    return BO_OK;
}

static bo_status draw_all(bo_context *context, const bo_calibration *c, const bo_attention *attention, uint64_t draw,
                          bo_features **maps, bo_calibration_report *report)
{
    for (size_t h = 0; h < c->laws; h++) {
        BO_TRY(draw_map(context, c, attention, h, draw, &maps[h]));
        if (report) BO_TRY(update_report(context, c, h, maps[h], report));
        BO_TRY(bo_progress(context, "calibrating", (double)(h + 1), (double)c->laws));
    }
    return BO_OK;
}

/* ---- the public function ----------------------------------------------------------------------------------------- */

static bo_status check_match(bo_context *context, const bo_calibration *c, const bo_attention *attention)
{
    const bo_attention_desc *a = &c->desc, *b = &attention->desc;
    const struct {
        const char *name;
        size_t expected, found;
    } sizes[] = {{"heads", a->heads, b->heads}, {"key_heads", a->key_heads, b->key_heads},
                 {"dim", a->dim, b->dim},       {"features.dim", c->width, b->features.dim},
                 {"rank", a->rank, b->rank},    {"one_draw", a->one_draw, b->one_draw}};
    if (a->kind != b->kind)
        return bo_fail(context, BO_INVALID, "calibration: it was created for kind %s, but the attention has kind %s",
                       bo_attention_kind_name(a->kind), bo_attention_kind_name(b->kind));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].expected != sizes[i].found)
            return bo_fail(context, BO_INVALID, "calibration: it was created for %s = %zu, but the attention has %zu",
                           sizes[i].name, sizes[i].expected, sizes[i].found);
    if (b->proposal == BO_PROPOSAL_NONE && b->features.sampling == BO_SAMPLING_DRAWN)
        return bo_fail(context, BO_INVALID,
                       "calibration: frequencies with proposal none and sampling drawn do not depend on data");
    return BO_OK;
}

static bo_status check_data(bo_context *context, const bo_calibration *c)
{
    for (size_t i = 0; i < 2 * c->laws; i++)
        if (c->sides[i].rows == 0)
            return bo_fail(
                context, BO_INVALID,
                "calibration: no rows of %s have been added for key head %zu (call bo_calibration_add_arrays first)",
                i % 2 ? "k" : "q", i / 2);
    return BO_OK;
}

bo_status bo_calibration_apply(bo_context *context, const bo_calibration *calibration, bo_attention *attention,
                               uint64_t draw, bo_calibration_report *out)
{
    BO_REQUIRE(context, calibration, attention);
    bo_calibration_report report = {0};
    BO_TRY(check_match(context, calibration, attention));
    BO_TRY(check_data(context, calibration));
    size_t laws = calibration->laws;
    bo_features **maps = bo_alloc(context, laws, sizeof *maps, "calibrated maps");
    if (!maps) return BO_MEMORY;
    bo_status status = draw_all(context, calibration, attention, draw, maps, out ? &report : NULL);
    for (size_t h = 0; h < laws; h++) {
        if (status == BO_OK) bo_features_exchange(attention->features[h], maps[h]);
        bo_features_destroy(maps[h]);
    }
    bo_free(maps);
    if (status != BO_OK) return status;
    attention->draw = draw;
    attention->ready = true;
    bo_attention_refresh(attention);
    if (out) *out = report;
    return BO_OK;
}
