/* Operations and memory traffic of a training step, computed from the shape of the model. */
#include "plan.h"
#include "../attention/enums.h"
#include "../attention/attention.h"
#include "../model/model.h"
#include <math.h>

static const size_t MAX_SIZE = (size_t)1 << 30; /* products of a few numbers of this size stay finite */

static bo_status check(bo_context *context, const char *what, size_t value)
{
    if (value >= 1 && value <= MAX_SIZE) return BO_OK;
    return bo_fail(context, BO_INVALID, "plan: %s: expected 1 to %zu, found %zu", what, MAX_SIZE, value);
}

/* Returns the library's static copy of an attention name. NULL: unknown name. */
static const char *lasting_name(const char *name)
{
    return bo_attention_preset_find(name);
}

static bo_status check_sizes(bo_context *context, const bo_plan_shape *s)
{
    BO_TRY(check(context, "layers", s->layers));
    BO_TRY(check(context, "width", s->width));
    BO_TRY(check(context, "heads", s->heads));
    BO_TRY(check(context, "context", s->context));
    BO_TRY(check(context, "batch", s->batch));
    BO_TRY(check(context, "vocabulary", s->vocab));
    if (s->features) BO_TRY(check(context, "features", s->features));
    if (s->width % s->heads == 0) return BO_OK;
    return bo_fail(context, BO_INVALID, "plan: heads: expected a divisor of the width %zu, found %zu", s->width,
                   s->heads);
}

static bo_model_desc model_of(const bo_plan_shape *s)
{
    bo_model_desc model = {
        .layers = s->layers, .width = s->width, .block.heads = s->heads, .context = s->context, .vocab = s->vocab};
    bo_attention_preset(s->attention, &model.block.attention);
    model.block.attention.features.features = s->features;
    return model;
}

bo_status bo_plan_resolve(bo_context *context, const bo_plan_shape *shape, bo_plan_shape *out)
{
    BO_TRY(bo_check_reserved(context, "bo_plan_shape", shape->reserved));
    *out = *shape;
    if (!out->vocab) out->vocab = BO_PLAN_VOCAB;
    out->attention = lasting_name(shape->attention ? shape->attention : BO_PLAN_ATTENTION_NAME);
    if (!out->attention) return bo_fail(context, BO_INVALID, "plan: unknown attention '%s'", shape->attention);
    if ((unsigned)out->optimizer >= BO_OPTIMIZER_COUNT)
        return bo_fail(context, BO_INVALID, "plan: unknown optimizer %d", (int)out->optimizer);
    BO_TRY(check_sizes(context, out));
    const bo_model_desc model = model_of(out);
    bo_model_desc resolved;
    BO_TRY(bo_model_resolve(context, &model, NULL, &resolved));
    out->features = resolved.block.attention.features.features;
    bo_model_desc_release(&resolved);
    return BO_OK;
}

bo_status bo_plan_descriptors(bo_context *context, const bo_plan_shape *shape, bo_model_desc *model,
                              bo_trainer_desc *training)
{
    BO_REQUIRE(context, shape, model, training);
    bo_plan_shape s;
    BO_TRY(bo_plan_resolve(context, shape, &s));
    *model = model_of(&s);
    *training = (bo_trainer_desc){.batch = s.batch, .optimizer = {.kind = s.optimizer}};
    return BO_OK;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Average number of keys that a query compares with individually. */
static double attended_keys(const bo_attention_desc *d, double tokens)
{
    const double window = (double)d->window;
    if (d->window && window < tokens) return (window * tokens - window * (window - 1) / 2) / tokens;
    return (tokens + 1) / 2;
}

/* Scores are written and read once per attended key, and so are features; the state is written and read once per
 * chunk. */
static double head_copies(const bo_attention *attention, const bo_attention_cost *plan, double tokens)
{
    const bo_attention_desc *d = bo_attention_describe(attention);
    const bo_features *map = bo_attention_features(attention, 0);
    const double dim = (double)d->dim, features = map ? (double)bo_features_describe(map)->features : dim;
    const double chunk = plan->chunk ? (double)plan->chunk : 64;
    const bool scores = bo_attention_has(d, BO_TRAIT_WINDOW), state = !bo_attention_has(d, BO_TRAIT_CAPACITY);
    /* the factorization, updated per token */
    const double solve = bo_attention_has(d, BO_TRAIT_ITERATIONS) ? 2 * dim * dim : 0;
    return tokens * ((scores ? 2 * attended_keys(d, tokens) : 0) + solve +
                     (state ? 2 * features + 2 * features * (dim + 1) / chunk : 0));
}

/* Counts by creating the attention of a model with one such head. */
bo_status bo_plan_head_of(bo_context *context, const bo_plan_shape *s, bo_plan_head *out)
{
    bo_plan_shape one = *s;
    one.width = s->width / s->heads;
    one.heads = one.layers = 1;
    const bo_model_desc model = model_of(&one);
    bo_model_desc resolved;
    bo_attention *attention;
    bo_attention_cost plan;
    BO_TRY(bo_model_resolve(context, &model, NULL, &resolved));
    bo_status status = bo_attention_create(context, &resolved.block.attention, &attention);
    bo_model_desc_release(&resolved);
    BO_TRY(status);
    const bo_attention_shape sequence = {.sequences = 1, .tokens = s->context};
    status = bo_attention_estimate_arrays(context, attention, &sequence, &plan);
    if (status == BO_OK) *out = (bo_plan_head){plan.operations, head_copies(attention, &plan, (double)s->context)};
    bo_attention_destroy(attention);
    return status;
}

/* ---- the optimizer ----------------------------------------------------------------------------------------------- */

enum { ITERATIONS = 5 }; /* Muon's */

/* One matrix with r <= c under Muon: momentum, update, and five times A = XXᵀ and A² (half of each, by symmetry) and
 * BX. */
static void add_muon(double r, double c, double count, bo_plan_counts *out)
{
    out->operations += count * ITERATIONS * (r * r * c + r * r * r + 2 * r * r * c);
    out->copies += count * (7 * r * c + ITERATIONS * (4 * r * c + 5 * r * r));
}

static void add_update(const bo_plan_shape *s, bo_plan_counts *out)
{
    const double d = (double)s->width, layers = (double)s->layers, matrices = (4 + 2 * BO_PLAN_MLP) * layers * d * d;
    const double adamw = s->optimizer == BO_OPTIMIZER_MUON ? out->parameters - matrices : out->parameters;
    out->copies += out->parameters + 7 * adamw; /* norm of the gradient; g, w and two moments */
    if (s->optimizer != BO_OPTIMIZER_MUON) return;
    add_muon(d, d, 4 * layers, out);
    add_muon(d, BO_PLAN_MLP * d, 2 * layers, out);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* Parameters besides projections, such as gates, norms of queries and keys, and maps, accurate to 1% of the total. */
static double count_parameters(const bo_plan_shape *s)
{
    const double d = (double)s->width, layers = (double)s->layers, heads = (double)s->heads;
    return (double)s->vocab * d + layers * ((4 + 2 * BO_PLAN_MLP) * d * d + 3 * d + heads * (d + 1)) + d;
}

/* Forward pass. Products: four projections (2Td each for input and output), q, k and v into and out of attention (4Td),
 * and the two of the MLP. Then two norms, RoPE of q and k, and the activation of the MLP. */
static double layer_copies(double tokens, double d)
{
    const double products = tokens * d * (4 * 2 + 4 + 2 * (BO_PLAN_MLP + 1)) + (4 + 2 * BO_PLAN_MLP) * d * d;
    const double functions = tokens * d * 2 * (2 + 2 + BO_PLAN_MLP);
    return products + functions;
}

/* The backward pass costs twice the forward pass, in products and in attention: 3 times in total. */
bo_plan_counts bo_plan_count_with(const bo_plan_shape *s, const bo_plan_head *head)
{
    const double d = (double)s->width, layers = (double)s->layers, vocab = (double)s->vocab;
    const double tokens = (double)s->batch * (double)s->context, heads = layers * (double)s->heads * (double)s->batch;
    const double ends = 2 * tokens * d + vocab * d + tokens * vocab; /* embedding and logits */
    bo_plan_counts counts = {.parameters = count_parameters(s), .tokens = tokens, .layers = layers};
    counts.operations = 3 * 2 * tokens * ((4 + 2 * BO_PLAN_MLP) * layers * d * d + vocab * d);
    counts.attention = 3 * heads * head->operations;
    counts.copies = 3 * (layers * layer_copies(tokens, d) + heads * head->copies + ends);
    add_update(s, &counts);
    return counts;
}

bo_status bo_plan_count(bo_context *context, const bo_plan_shape *shape, bo_plan_counts *out)
{
    BO_REQUIRE(context, shape, out);
    bo_plan_shape s;
    bo_plan_head head;
    BO_TRY(bo_plan_resolve(context, shape, &s));
    BO_TRY(bo_plan_head_of(context, &s, &head));
    *out = bo_plan_count_with(&s, &head);
    return BO_OK;
}

void bo_plan_terms_of(const bo_plan_counts *counts, double terms[BO_PLAN_TERM_COUNT])
{
    terms[BO_PLAN_TERM_LAYERS] = counts->layers;
    terms[BO_PLAN_TERM_COPIES] = counts->copies;
    terms[BO_PLAN_TERM_OPERATIONS] = counts->operations;
    terms[BO_PLAN_TERM_ATTENTION] = counts->attention;
}
