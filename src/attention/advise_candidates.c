/* The candidates of advice on the problems of a survey. */
#include "advise_candidates.h"
#include <math.h>

/* Signed features whose denominators all stay above half of what they should be: another draw scatters as much, and
 * would have to be twice as far off to come to 0, where outputs are anything. */
static const double least_denominator = 0.5;

#define FAVOR(function)        BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, 0, BO_FUNCTION_##function
#define LINEAR(kernel, degree) BO_ATTENTION_LINEAR, BO_KERNEL_##kernel, degree, BO_FUNCTION_##kernel
#define DRAWN                  BO_PROPOSAL_NONE, BO_SAMPLING_DRAWN

const bo_advice_candidate bo_candidates[] = {
    {FAVOR(POSITIVE), DRAWN, "favor with positive features",
     "positive features are accurate where the kernel is small"},
    {FAVOR(HYPERBOLIC), DRAWN, "favor with hyperbolic features",
     "positive features in opposite pairs are accurate where the kernel is small, most of all for small norms"},
    {FAVOR(SINCOS), DRAWN, "favor with trigonometric features (sincos)",
     "trigonometric features are accurate where the kernel is large"},
    {FAVOR(POSITIVE), BO_PROPOSAL_OPRF, BO_SAMPLING_DRAWN, "favor++",
     "bounded positive features keep their variance at larger norms"},
    {FAVOR(POSITIVE), BO_PROPOSAL_SDERF, BO_SAMPLING_DRAWN, "favor#",
     "positive features with frequencies for each principal direction keep their variance where directions differ"},
    {FAVOR(POSITIVE), BO_PROPOSAL_GAUSSIAN, BO_SAMPLING_DRAWN, "favor with proposal gaussian",
     "positive features have the least variance here with frequencies drawn for this data"},
    {FAVOR(POSITIVE), BO_PROPOSAL_GAUSSIAN, BO_SAMPLING_OPTIMAL, "favor with proposal gaussian and sampling optimal",
     "positive features have the least variance here with frequencies chosen by this data"},
    {LINEAR(TAYLOR, 0), DRAWN, "taylor", "scores are small, so that 1 + x + x²/2 is nearly exp(x)"},
    {LINEAR(POLYNOMIAL, 2), DRAWN, "poly of degree 2", "scores are small, so that (1 + x/2)² is nearly exp(x)"},
    {LINEAR(POLYNOMIAL, 4), DRAWN, "poly of degree 4", "scores are small, so that (1 + x/4)⁴ is nearly exp(x)"},
    {BO_ATTENTION_RFA, BO_KERNEL_RBF, 0, BO_FUNCTION_SINCOS, DRAWN, "rfa",
     "trigonometric features are accurate where the kernel is large, and unit norm changes little here"},
};
const size_t bo_candidate_count = sizeof bo_candidates / sizeof *bo_candidates;

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

static double binomial(size_t n, size_t k)
{
    double value = 1;
    for (size_t i = 1; i <= k; i++) value *= (double)(n - k + i) / (double)i;
    return round(value);
}

size_t bo_candidate_features(const bo_trials *t, const bo_advice_candidate *c)
{
    size_t degree = c->kernel == BO_KERNEL_TAYLOR ? 2 : (size_t)c->degree;
    double count = degree ? binomial(t->base->dim + degree, degree) : 0;
    return count < 1e15 ? (size_t)count : SIZE_MAX;
}

/* As a caller would create it. */
static bo_attention_desc desc_of(const bo_trials *t, const bo_advice_candidate *c, size_t features)
{
    bo_attention_desc desc = {.kind = c->kind,
                              .heads = t->base->heads,
                              .key_heads = t->base->key_heads,
                              .dim = t->base->dim,
                              .value_dim = t->base->value_dim,
                              .causal = t->base->causal,
                              .proposal = c->proposal};
    desc.features = (bo_features_desc){.kernel = c->kernel,
                                       .function = c->function,
                                       .sampling = c->sampling,
                                       .degree = c->degree,
                                       .features = features,
                                       .seed = t->seed};
    if (c->kind == BO_ATTENTION_RFA)
        desc.temperature = t->norms > 0 ? 1 / sqrt(t->norms) : 1; /* exp(q̂·k̂ / τ²) is then exp(s q·k) on average */
    else if (c->kind == BO_ATTENTION_LINEAR)
        desc.features.gamma = t->base->scale / (c->degree ? c->degree : 1);
    else
        desc.scale = t->base->scale;
    return desc;
}

/* ---- one size ---------------------------------------------------------------------------------------------------- */

/* A candidate with its map or with a window before it, and what calibrates it. */
typedef struct contest {
    const bo_trials *trials;
    bo_attention_desc desc; /* of any number of features */
    bo_calibration *seen;   /* NULL: none needed */
    size_t fixed;           /* features, where it has no choice */
} contest;

/* An attention with a key head for each problem. */
static bo_status make_attention(const contest *c, size_t features, bo_attention **out)
{
    bo_attention_desc desc = c->desc;
    desc.features.features = features;
    desc.heads = desc.key_heads = c->trials->few.count;
    return bo_attention_create(c->trials->context, &desc, out);
}

/* *out is to be ended (its calibration destroyed) whatever this returns. */
static bo_status contest_begin(const bo_trials *t, const bo_attention_desc *desc, size_t fixed, contest *out)
{
    *out = (contest){.trials = t, .desc = *desc, .fixed = fixed};
    if (desc->proposal == BO_PROPOSAL_NONE && desc->features.sampling == BO_SAMPLING_DRAWN) return BO_OK;
    bo_attention_shape shape = {.sequences = 1, .tokens = BO_SEEN_ROWS};
    bo_attention_inputs in = {.q = t->few.seen_q, .k = t->few.seen_k};
    bo_attention *attention;
    BO_TRY(make_attention(out, BO_FEWEST, &attention));
    bo_status status = bo_calibration_create(t->context, attention, 0, &out->seen);
    if (status == BO_OK) status = bo_calibration_add(t->context, out->seen, &shape, &in);
    bo_attention_destroy(attention);
    return status;
}

static bo_status draw_anew(const contest *c, bo_attention *attention, uint64_t draw)
{
    if (c->seen) return bo_calibration_apply(c->trials->context, c->seen, attention, draw, NULL);
    return bo_attention_redraw(c->trials->context, attention, draw);
}

/* The error of one draw; INFINITY where a denominator comes near 0 or numbers grow out of bounds. */
static bo_status try_draw(const contest *c, const bo_survey *survey, bo_attention *attention, uint64_t draw,
                          double *error)
{
    bo_verdict verdict;
    BO_TRY(draw_anew(c, attention, draw));
    if (c->desc.kind == BO_ATTENTION_HYBRID)
        return bo_beginnings_try(c->trials->context, &c->trials->beginnings, attention, error);
    BO_TRY(bo_survey_try(survey, attention, &verdict));
    *error = verdict.least >= least_denominator && !isnan(verdict.error) ? verdict.error : INFINITY;
    return BO_OK;
}

/* On few queries, with one draw. */
static bo_status try_size(const contest *c, size_t features, double *error)
{
    bo_attention *attention;
    BO_TRY(make_attention(c, features, &attention));
    bo_status status = try_draw(c, &c->trials->few, attention, 0, error);
    bo_attention_destroy(attention);
    return status;
}

/* On many queries: whether every draw reaches the target (none is tried after the first that does not), and the root
 * mean square of their errors. */
static bo_status confirm(const contest *c, size_t features, bool *reached, double *error)
{
    bo_attention *attention;
    double squares = 0, draws = 0;
    BO_TRY(make_attention(c, features, &attention));
    bo_status status = BO_OK;
    *reached = true;
    for (uint64_t draw = 0; status == BO_OK && *reached && draw < (c->fixed ? 1 : BO_DRAWS); draw++) {
        status = try_draw(c, &c->trials->many, attention, draw, error);
        *reached = status == BO_OK && *error <= c->trials->target;
        squares += *error * *error;
        draws++;
    }
    if (status == BO_OK) *error = sqrt(squares / draws);
    bo_attention_destroy(attention);
    return status;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

static bo_status predict(const contest *c, double *features)
{
    const bo_trials *t = c->trials;
    size_t least = c->fixed ? c->fixed : BO_FEWEST;
    bo_attention *attention;
    bo_prediction p;
    BO_TRY(make_attention(c, least, &attention));
    bo_status status = draw_anew(c, attention, 0);
    size_t frequencies = bo_features_frequencies(attention->features[0]);
    if (status == BO_OK) status = bo_survey_predict(&t->few, attention, &p);
    bo_attention_destroy(attention);
    if (status != BO_OK) return status;
    double room = t->target * t->target - p.floor * p.floor;
    double per_frequency = frequencies ? (double)(least / frequencies) : 0;
    *features = !(room > 0) ? INFINITY : c->fixed ? (double)c->fixed : per_frequency * p.slope / room;
    return BO_OK;
}

/* Where to begin: at what the formula asks for, which couplings of frequencies need less than. */
static size_t first_size(size_t most, double predicted)
{
    size_t features = BO_FEWEST;
    while (features < most && !((double)(2 * features) > 0.5 * predicted)) features *= 2;
    return features;
}

/* From there up until the target is reached, or down as long as it is; and up again until that is confirmed. */
static bo_status search_sizes(const contest *c, size_t hint, bo_row *row)
{
    double target = c->trials->target, smaller;
    size_t features = first_size(row->most, isnan(row->predicted) ? (double)hint : row->predicted);
    BO_TRY(try_size(c, features, &row->error));
    bool down = row->error <= target, reached = false;
    while (!(row->error <= target) && features < row->most) BO_TRY(try_size(c, features *= 2, &row->error));
    while (down && features > BO_FEWEST) {
        BO_TRY(try_size(c, features / 2, &smaller));
        if (!(smaller <= target)) break;
        features /= 2;
        row->error = smaller;
    }
    if (row->error <= target) {
        BO_TRY(confirm(c, features, &reached, &row->error));
        while (!reached && features < row->most) BO_TRY(confirm(c, features *= 2, &reached, &row->error));
    }
    row->features = reached ? features : 0;
    return BO_OK;
}

static bo_status search(const contest *c, size_t hint, bo_row *row)
{
    bool reached;
    BO_TRY(predict(c, &row->predicted));
    if (!c->fixed) return search_sizes(c, hint, row);
    BO_TRY(confirm(c, c->fixed, &reached, &row->error));
    row->features = reached ? c->fixed : 0;
    return BO_OK;
}

bo_status bo_candidate_search(const bo_trials *t, const bo_advice_candidate *candidate, size_t hint, bo_row *out)
{
    contest c;
    bo_attention_desc desc = desc_of(t, candidate, BO_FEWEST);
    *out = (bo_row){.candidate = candidate, .most = t->most};
    bo_status status = contest_begin(t, &desc, bo_candidate_features(t, candidate), &c);
    if (c.fixed) out->most = c.fixed;
    if (candidate->sampling == BO_SAMPLING_OPTIMAL) out->most = bo_least(t->most, BO_MOST_CHOSEN);
    if (status == BO_OK) status = search(&c, hint, out);
    bo_calibration_destroy(c.seen);
    out->desc = desc_of(t, candidate, out->features ? out->features : out->most);
    return status;
}

/* ---- with a window ----------------------------------------------------------------------------------------------- */

bool bo_row_has_hybrid(const bo_row *row)
{
    return row->candidate->kind != BO_ATTENTION_RFA && row->desc.kind != BO_ATTENTION_HYBRID;
}

/* Upwards from the fewest features: a draw, then those that confirm it. */
static bo_status search_with_window(const contest *c, bo_row *row)
{
    bool reached = false;
    size_t features = c->fixed ? c->fixed : BO_FEWEST;
    for (;; features *= 2) {
        BO_TRY(try_size(c, features, &row->error));
        if (row->error <= c->trials->target) BO_TRY(confirm(c, features, &reached, &row->error));
        if (reached || features >= row->most) break;
    }
    row->features = reached ? features : 0;
    row->desc.features.features = features;
    return BO_OK;
}

bo_status bo_hybrid_search(const bo_trials *t, const bo_row *row, bo_row *out)
{
    contest c;
    size_t fixed = bo_candidate_features(t, row->candidate);
    *out = *row;
    out->desc.kind = BO_ATTENTION_HYBRID;
    out->desc.scale = t->base->scale;
    out->desc.window = 64;
    out->most = fixed ? fixed : bo_least(row->features ? row->features : t->most, BO_MOST_CHOSEN);
    out->predicted = NAN;
    bo_status status = contest_begin(t, &out->desc, fixed, &c);
    if (status == BO_OK) status = search_with_window(&c, out);
    bo_calibration_destroy(c.seen);
    return status;
}
