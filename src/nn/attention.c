/* Attention of every kind as a layer: projections, norms, positions, gates and parameters as the kind requires.
 *
 *     q_proj, k_proj, v_proj, o_proj   projections             q_norm, k_norm   RMSNorm of each head of q and k
 *     g_proj                           scalar gates            o_norm           RMSNorm of each head's output
 *     gk_proj.0, gk_proj.1             gates of GLA            b_proj           β of DELTA and RIDGE
 *     sigma, m, mix, decay, lambda     as in bo_attention_call, before the functions below are applied
 *     map_q, map_k                     W, b and W', b' of learned maps */
#include <math.h>
#include <string.h>
#include "../attention/given.h"
#include "internal.h"

enum { GATE_RANK = 16, GLA_TEMPERATURE = 16 }; /* the values of GLA (2312.06635, section 4.4) */

typedef struct recorder {
    bo_graph *graph;
    const char *prefix;
    bo_value x;    /* input of the queries */
    bo_value keys; /* input of keys and values: x, or a source (cross attention); 0: states that have read it */
    const bo_block *block;
    const bo_attention_desc *kind;
} recorder;

/* ---- additional inputs of attention: each function returns 0 if the kind does not use the input ------------------ */

static bo_value project(const recorder *r, const char *suffix, bo_value x, const bo_linear_layer *desc)
{
    return bo_nn_linear(r->graph, bo_nn_join(r->prefix, suffix).text, x, desc);
}

/* log g = log σ(x wᵀ + b) per key head; GLA: (log σ of a low-rank projection) / 16 per channel. */
static bo_value add_log_gate(const recorder *r)
{
    size_t width = bo_gate_width(r->kind), heads = r->kind->key_heads;
    bo_weight_init bias = {.kind = BO_WEIGHT_INIT_KIND_SPREAD, .a = r->block->gate_first, .b = r->block->gate_last};
    if (!width || !r->keys) return 0;
    if (!bo_attention_has(r->kind, BO_TRAIT_CHANNELS)) {
        bo_linear_layer gate = {.out = heads, .bias = true, .role = BO_WEIGHT_ROLE_VECTOR, .bias_init = bias};
        return bo_nn_unary(r->graph, project(r, ".g_proj", r->keys, &gate), BO_UNARY_LOG_SIGMOID, 1, 0);
    }
    bo_value low = project(r, ".gk_proj.0", r->keys, &(bo_linear_layer){.out = GATE_RANK});
    bo_value high = project(r, ".gk_proj.1", low, &(bo_linear_layer){.out = heads * width, .bias = true});
    return bo_nn_unary(r->graph, high, BO_UNARY_LOG_SIGMOID, 1.0 / GLA_TEMPERATURE, 0);
}

static double sigma_of(const recorder *r)
{
    return r->block->sigma != 0 ? r->block->sigma : 1;
}

static bo_value add_sigma(const recorder *r)
{
    size_t shape[2] = {r->kind->key_heads, r->kind->dim};
    if (!bo_attention_has(r->kind, BO_TRAIT_SIGMA)) return 0;
    return bo_nn_parameter(r->graph, r->prefix, ".sigma", 2, shape,
                           (bo_weight_init){.kind = BO_WEIGHT_INIT_KIND_NORMAL, .a = sigma_of(r)});
}

static bo_value map_matrix(const recorder *r, const char *suffix)
{
    size_t shape[3] = {r->kind->key_heads, r->kind->rank, r->kind->dim};
    return bo_nn_parameter(r->graph, r->prefix, suffix, 3, shape,
                           (bo_weight_init){.kind = BO_WEIGHT_INIT_KIND_IDENTITY, .a = (double)r->kind->rank});
}

static bo_value map_bias(const recorder *r, const char *suffix)
{
    size_t shape[2] = {r->kind->key_heads, r->kind->rank};
    return bo_nn_parameter(r->graph, r->prefix, suffix, 2, shape, (bo_weight_init){0});
}

static bo_value add_m(const recorder *r)
{
    if (bo_attention_has(r->kind, BO_TRAIT_MATRIX)) return map_matrix(r, ".m");
    return bo_attention_has(r->kind, BO_TRAIT_AFFINE) ? map_matrix(r, ".map_q.weight") : 0;
}

static bo_value add_m_k(const recorder *r)
{
    return bo_attention_has(r->kind, BO_TRAIT_AFFINE) ? map_matrix(r, ".map_k.weight") : 0;
}

static bo_value add_bias(const recorder *r)
{
    return bo_attention_has(r->kind, BO_TRAIT_AFFINE) ? map_bias(r, ".map_q.bias") : 0;
}

static bo_value add_bias_k(const recorder *r)
{
    return bo_attention_has(r->kind, BO_TRAIT_AFFINE) ? map_bias(r, ".map_k.bias") : 0;
}

static bo_value add_mix(const recorder *r)
{
    if (!bo_attention_has(r->kind, BO_TRAIT_MIX)) return 0;
    bo_value log_mix = bo_nn_vector(r->graph, r->prefix, ".mix", r->kind->heads, (bo_weight_init){0});
    return bo_nn_unary(r->graph, log_mix, BO_UNARY_EXP, 1, 0);
}

static bo_value add_beta(const recorder *r)
{
    if (!bo_attention_has(r->kind, BO_TRAIT_BETA) || !r->keys) return 0;
    bo_linear_layer desc = {.out = r->kind->key_heads, .role = BO_WEIGHT_ROLE_VECTOR};
    return bo_nn_unary(r->graph, project(r, ".b_proj", r->keys, &desc), BO_UNARY_SIGMOID, 1, 0);
}

/* log σ of a parameter whose initial values give the decays of retention: σ(log(2^n - 1)) = 1 - 2^-n, n from 5 to at
 * most 12. */
static bo_value add_log_decay(const recorder *r)
{
    if (r->kind->gate != BO_GATE_FIXED) return 0;
    int last = 4 + (int)bo_min(r->kind->key_heads, 8);
    bo_weight_init init = {.kind = BO_WEIGHT_INIT_KIND_SPREAD, .a = log(ldexp(1, 5) - 1), .b = log(ldexp(1, last) - 1)};
    bo_value decay = bo_nn_vector(r->graph, r->prefix, ".decay", r->kind->key_heads, init);
    return bo_nn_unary(r->graph, decay, BO_UNARY_LOG_SIGMOID, 1, 0);
}

/* Λ = softplus(p) + 1/4, to avoid ill-conditioned systems (2506.05233); initially 1. */
static bo_value add_lambda(const recorder *r)
{
    const double min_lambda = 0.25;
    size_t shape[2] = {r->kind->key_heads, r->kind->dim};
    if (!bo_attention_has(r->kind, BO_TRAIT_LAMBDA)) return 0;
    bo_weight_init init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .a = log(expm1(1 - min_lambda))};
    bo_value raw = bo_nn_parameter(r->graph, r->prefix, ".lambda", 2, shape, init);
    return bo_nn_unary(r->graph, raw, BO_UNARY_SOFTPLUS, 1, min_lambda);
}

/* In the order of bo_attention_given. */
#define FURTHER(BIT, name) {BO_ATTENTION_GIVEN_##BIT, add_##name},
static const struct {
    bo_attention_given bit;
    bo_value (*add)(const recorder *r);
} further[] = {BO_ATTENTION_GIVEN_LIST(FURTHER, FURTHER)};
#undef FURTHER

/* ---- q and k ----------------------------------------------------------------------------------------------------- */

/* Returns the initial gain of q_norm and k_norm. After RMSNorm, |√s x| is √(s dim) times the gain. Estimates of exp(s
 * q·k) are useful only if that is small. */
static double first_gain(const recorder *r)
{
    const bo_attention_desc *d = r->kind;
    bool estimates = bo_attention_has(d, BO_TRAIT_PROPOSAL);
    return estimates && d->scale > 0 ? sigma_of(r) / sqrt(d->scale * (double)d->dim) : 1;
}

static bo_value prepare(const recorder *r, bo_value x, const char *norm, bo_value positions)
{
    const bo_block *b = r->block;
    if (b->query_norm == BO_CHOICE_YES)
        x = bo_nn_norm(r->graph, bo_nn_join(r->prefix, norm).text, x,
                       &(bo_norm_layer){.width = b->joint_norm ? 0 : r->kind->dim,
                                        .epsilon = b->norm_epsilon,
                                        .gain = first_gain(r)});
    if (r->x != r->keys) return x; /* positions of a target and of its source are not comparable */
    if (b->positions != BO_POSITIONS_ROPE && b->positions != BO_POSITIONS_ROPE_NEIGHBORS) return x;
    bo_rope_attributes rope = {.dim = r->kind->dim,
                               .rotated = b->rotated,
                               .base = b->rope_base,
                               .scaling = b->rope_scaling,
                               .layout = b->positions == BO_POSITIONS_ROPE ? BO_ROPE_LAYOUT_HALVES
                                                                           : BO_ROPE_LAYOUT_NEIGHBORS};
    return bo_graph_one(r->graph, BO_OPERATION_ROPE, &rope, 2, (bo_value[]){x, positions});
}

/* Projects k and v, and also q if all three have the same input. */
static void project_qkv(const recorder *r, bo_value *qkv)
{
    static const char *const suffixes[] = {".q_proj", ".k_proj", ".v_proj"};
    const bo_attention_desc *d = r->kind;
    bool bias = bo_block_biases_of(r->block).attention;
    bo_linear_layer descs[3] = {{.out = d->heads * d->dim, .bias = bias},
                                {.out = d->key_heads * d->dim, .bias = bias},
                                {.out = d->key_heads * d->value_dim, .bias = bias}};
    if (r->x == r->keys) {
        bo_nn_linears(r->graph, r->prefix, r->x, 3, suffixes, descs, qkv);
        return;
    }
    if (r->x) bo_nn_linears(r->graph, r->prefix, r->x, 1, suffixes, descs, qkv);
    if (r->keys) bo_nn_linears(r->graph, r->prefix, r->keys, 2, suffixes + 1, descs + 1, qkv + 1);
}

/* ---- layer ------------------------------------------------------------------------------------------------------- */

bo_value bo_nn_attend_from(bo_graph *graph, const char *prefix, const bo_attend_inputs *from, const bo_branch *desc)
{
    recorder r = {graph, prefix, from->x, from->keys, desc->block, bo_attention_describe(desc->attention)};
    bo_attention_attributes attributes = {.attention = desc->attention,
                                          .layer = desc->layer,
                                          .tokens = desc->tokens,
                                          .max_sequences = desc->max_sequences,
                                          .source = desc->source,
                                          .key_tokens = desc->key_tokens,
                                          .cross = r.x != r.keys,
                                          .queries_only = !r.keys};
    bo_value inputs[BO_OP_INPUTS] = {from->q};
    size_t count = r.keys ? 3 : 1;
    if (from->given) {
        inputs[0] = from->given->q, inputs[1] = from->given->k, inputs[2] = from->given->v;
    } else {
        project_qkv(&r, inputs);
        if (r.x) inputs[0] = prepare(&r, inputs[0], ".q_norm", from->positions);
        if (r.keys) inputs[1] = prepare(&r, inputs[1], ".k_norm", from->positions);
    }
    for (size_t i = 0; i < sizeof further / sizeof *further; i++)
        if ((inputs[count] = further[i].add(&r)) != 0) {
            attributes.given |= further[i].bit;
            count++;
        }
    bo_value out = bo_graph_one(graph, BO_OPERATION_ATTENTION, &attributes, count, inputs);
    if (desc->values) *desc->values = (bo_attention_values){.q = inputs[0], .k = inputs[1], .v = inputs[2], .out = out};
    return out;
}

bo_value bo_nn_attend(bo_graph *graph, const char *prefix, bo_value x, bo_value positions, const bo_branch *desc)
{
    return bo_nn_attend_from(graph, prefix, &(bo_attend_inputs){.x = x, .keys = x, .positions = positions}, desc);
}

bo_value bo_nn_attend_given(bo_graph *graph, const char *prefix, bo_value x, const bo_attention_values *given,
                            const bo_branch *desc)
{
    return bo_nn_attend_from(graph, prefix, &(bo_attend_inputs){.x = x, .keys = x, .given = given}, desc);
}

static bo_value normed(bo_graph *graph, const char *prefix, bo_value out, const bo_branch *desc)
{
    if (desc->block->output_norm != BO_CHOICE_YES) return out;
    return bo_nn_norm(graph, bo_nn_join(prefix, ".o_norm").text, out,
                      &(bo_norm_layer){.width = bo_attention_describe(desc->attention)->value_dim,
                                       .epsilon = desc->block->norm_epsilon});
}

bo_value bo_nn_projected(bo_graph *graph, const char *prefix, bo_value out, size_t width, const bo_branch *desc)
{
    const bo_linear_layer layer = {
        .out = width, .factor = desc->block->residual_scale, .init = {.kind = BO_WEIGHT_INIT_KIND_ZERO}};
    return bo_nn_linear(graph, bo_nn_join(prefix, ".o_proj").text, normed(graph, prefix, out, desc), &layer);
}

bo_value bo_nn_attended(bo_graph *graph, const char *prefix, bo_value out, bo_value residual, const bo_branch *desc)
{
    return bo_nn_output(graph, bo_nn_join(prefix, ".o_proj").text, normed(graph, prefix, out, desc), residual,
                        &(bo_output_layer){.bias = bo_block_biases_of(desc->block).output,
                                           .factor = desc->block->residual_scale,
                                           .dropout = desc->dropout,
                                           .stream = bo_nn_stream(desc->layer, 0),
                                           .norm = desc->norm});
}

static bo_choice choice(bool yes)
{
    return yes ? BO_CHOICE_YES : BO_CHOICE_NO;
}

static bo_block block_of(const bo_attention_layer *desc)
{
    return (bo_block){.residual_scale = desc->factor,
                      .norm_epsilon = desc->epsilon,
                      .query_norm = choice(desc->query_norm),
                      .output_norm = choice(desc->output_norm),
                      .joint_norm = desc->joint_norm,
                      .sigma = desc->sigma,
                      .gate_first = desc->gate_first,
                      .gate_last = desc->gate_last,
                      .attention_bias = choice(desc->bias),
                      .output_bias = choice(desc->bias && !desc->plain_output),
                      .positions = desc->positions,
                      .rope_base = desc->rope_base,
                      .rotated = desc->rotated,
                      .rope_scaling = desc->rope_scaling};
}

bo_value bo_nn_attention(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                         const bo_attention_layer *desc)
{
    BO_RECORD_REQUIRE(graph, prefix, desc);
    BO_RECORD_REQUIRE(graph, desc->attention);
    if (!bo_nn_reserved(graph, prefix, "bo_attention_layer", desc->reserved)) return 0;
    const bo_block block = block_of(desc);
    const bo_branch branch = {.block = &block,
                              .attention = desc->attention,
                              .dropout = desc->dropout,
                              .layer = desc->layer,
                              .tokens = desc->tokens,
                              .max_sequences = desc->max_sequences,
                              .key_tokens = desc->key_tokens,
                              .source = desc->source,
                              .norm = desc->norm,
                              .values = desc->values};
    return bo_nn_attended(graph, prefix, bo_nn_attend(graph, prefix, x, positions, &branch), residual, &branch);
}
