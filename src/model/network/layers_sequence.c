/* Layers along sequences. An image is a sequence of its pixels, row by row. Attention and mixers are residual blocks
 * with a norm. Recurrent layers, state-space systems and mixing are plain layers. */
#include <math.h>
#include <stddef.h>
#include "../../attention/enums.h"
#include "../../nn/enums.h"
#include "../../features/facts.h"
#include "../../base/rng.h"
#include "../blocks.h"
#include "internal.h"

#define AT(member) offsetof(bo_layer_options, member)
enum { MAX_NUMBERS = 1 << 28, FEATURES = 64 };

static size_t tokens_of(const bo_recorder *r)
{
    return bo_shape_places(&r->shapes[0]);
}

bo_value bo_record_positions(bo_recorder *r)
{
    const size_t tokens = tokens_of(r), rows = r->examples * tokens;
    int32_t *places = bo_alloc(r->context, rows, sizeof *places, "positions");
    for (size_t i = 0; places && i < rows; i++) places[i] = (int32_t)(i % tokens);
    return bo_record_places(r, "positions", rows, places);
}

static bo_value normed(bo_recorder *r)
{
    return bo_nn_norm(r->graph, bo_nn_join(r->layer->name, ".input_norm").text, r->in[0],
                      &(bo_norm_layer){.width = r->shapes[0].channels, .epsilon = 1e-6});
}

/* ---- recurrent --------------------------------------------------------------------------------------------------- */

static const bo_field recurrent_fields[] = {
    {.name = "width", .type = BO_FIELD_WIDTH, .offset = AT(width), .required = true},
};

static bo_value recurrent(bo_recorder *r, bo_recurrence cell)
{
    r->shape.channels = r->options->width.value;
    return bo_nn_recurrent(
        r->graph, r->layer->name, r->in[0],
        &(bo_recurrent_layer){
            .cell = cell, .size = r->shape.channels, .layer = r->layer->place, .tokens = tokens_of(r)});
}

static bo_value record_rnn(bo_recorder *r)
{
    return recurrent(r, BO_RECURRENCE_RNN);
}

static bo_value record_gru(bo_recorder *r)
{
    return recurrent(r, BO_RECURRENCE_GRU);
}

static bo_value record_lstm(bo_recorder *r)
{
    return recurrent(r, BO_RECURRENCE_LSTM);
}

/* ---- state space ------------------------------------------------------------------------------------------------- */

BO_FIELD_NAMES(bo_ssm, ssm)

static const bo_field ssm_fields[] = {
    {.name = "kind", .type = BO_FIELD_NAME, .offset = AT(kind), .names = ssm_names},
    {.name = "size", .type = BO_FIELD_COUNT, .offset = AT(size), .default_value = 16},
    {.name = "rank", .type = BO_FIELD_COUNT, .offset = AT(rank), .default_value = 1},
};

/* One linear system per channel. "mixer" of kind ssm adds a gate and projections. */
static bo_value record_ssm(bo_recorder *r)
{
    if (r->options->size > 1024 || r->options->rank > r->options->size)
        return bo_record_refuse(
            r, "a state of %zu numbers with rank %zu: expected at most 1024 numbers, and a rank that is not larger",
            r->options->size, r->options->rank);
    return bo_nn_systems(r->graph, r->layer->name, r->in[0],
                         &(bo_ssm_layer){.kind = (bo_ssm)r->options->kind,
                                         .channels = r->shapes[0].channels,
                                         .size = r->options->size,
                                         .rank = r->options->rank,
                                         .layer = r->layer->place,
                                         .tokens = tokens_of(r)});
}

/* ---- mixing along tokens ----------------------------------------------------------------------------------------- */

static const bo_field mix_fields[] = {
    {.name = "heads", .type = BO_FIELD_COUNT, .offset = AT(heads), .default_value = 1},
    {.name = "causal", .type = BO_FIELD_BOOL, .offset = AT(causal)},
};

/* y_t = Σ_s W[t, s] x_s, with one matrix per group of channels. */
static bo_value record_mix(bo_recorder *r)
{
    const size_t tokens = tokens_of(r), heads = r->options->heads;
    if ((double)heads * (double)tokens * (double)tokens > MAX_NUMBERS)
        return bo_record_refuse(r, "%zu matrices of %zu x %zu are too large", heads, tokens, tokens);
    if (r->shapes[0].channels % heads != 0)
        return bo_record_refuse(r, "%zu heads should divide its %zu channels", heads, r->shapes[0].channels);
    const bo_value matrix =
        bo_nn_parameter(r->graph, r->layer->name, ".weight", 3, (size_t[]){heads, tokens, tokens},
                        (bo_weight_init){.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = 1 / sqrt((double)tokens)});
    bo_mix_attributes attributes = {
        .sequences = {.tokens = tokens, .layer = r->layer->place}, .heads = heads, .causal = r->options->causal};
    return bo_graph_one(r->graph, BO_OPERATION_MIX, &attributes, 2, (bo_value[]){r->in[0], matrix});
}

/* ---- positions --------------------------------------------------------------------------------------------------- */

static const bo_field position_fields[] = {
    {.name = "kind", .type = BO_FIELD_NAME, .offset = AT(kind), BO_FIELD_LIST("learned", "sinusoidal")},
};

static bo_value record_positions(bo_recorder *r)
{
    const bo_positions kind = r->options->kind ? BO_POSITIONS_SINUSOIDAL : BO_POSITIONS_LEARNED;
    return bo_nn_positions(r->graph, r->layer->name, r->in[0], bo_record_positions(r), kind, tokens_of(r));
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

static const char *preset_name(unsigned value)
{
    return bo_attention_preset_name(value);
}

static const bo_field attention_fields[] = {
    {.name = "kind",
     .type = BO_FIELD_NAME,
     .offset = AT(kind),
     .names = preset_name,
     .alias = bo_attention_preset_find},
    {.name = "heads", .type = BO_FIELD_COUNT, .offset = AT(heads), .default_value = 1},
    {.name = "dim", .type = BO_FIELD_COUNT, .offset = AT(dim)},
    {.name = "features", .type = BO_FIELD_COUNT, .offset = AT(size)},
    {.name = "causal", .type = BO_FIELD_BOOL, .offset = AT(causal)},
    {.name = "positions", .type = BO_FIELD_NAME, .offset = AT(positions), BO_FIELD_LIST("none", "rope")},
    {.name = "dropout", .type = BO_FIELD_RANGE, .offset = AT(rate), .max = 1},
};

static uint64_t seed_of(const bo_layer *layer, uint64_t seed)
{
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("network.attention", layer->place));
    return bo_rng_bits(&rng);
}

/* Sets the heads: the channels of the input divided by the number of heads, or `dim` columns each. */
static bo_status create_heads(bo_context *context, const bo_layer *layer, const bo_shape *in, bo_attention_desc *desc)
{
    const bo_layer_options *o = &layer->options;
    if (!o->dim && in->channels % o->heads != 0)
        return bo_fail(context, BO_INVALID, "%zu heads should divide the %zu channels of its input", o->heads,
                       in->channels);
    desc->heads = o->heads;
    desc->dim = o->dim ? o->dim : in->channels / o->heads;
    const size_t features = o->size ? o->size : FEATURES;
    if ((double)desc->heads * (double)desc->dim * (double)features <= MAX_NUMBERS) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED, "%zu heads of %zu numbers and %zu features are too many", desc->heads,
                   desc->dim, features);
}

/* Returns the requested number of features for maps that sample frequencies. Other maps determine their number. */
static size_t features_of(const bo_layer_options *o, const bo_attention_desc *desc)
{
    const bool draws = bo_attention_has(desc, BO_TRAIT_DRAWS) && bo_features_needs_length(&desc->features);
    return o->size || !draws ? o->size : FEATURES;
}

static bo_status create_attention(bo_context *context, bo_layer *layer, const bo_shape *in, const bo_network *network)
{
    bo_attention_desc desc = {.causal = layer->options.causal};
    BO_TRY(create_heads(context, layer, in, &desc));
    bo_attention_preset(preset_name(layer->options.kind), &desc);
    desc.features.features = features_of(&layer->options, &desc);
    desc.features.seed = seed_of(layer, network->seed);
    return bo_attention_create(context, &desc, &layer->attention);
}

/* q and k are normalized unless the kind normalizes them. The output is normalized if attention has no normalizer. */
static bo_block attention_block(const bo_recorder *r)
{
    const bo_attention_desc *d = bo_attention_describe(r->layer->attention);
    return (bo_block){.norm_epsilon = 1e-6,
                      .query_norm = bo_query_norm(d),
                      .output_norm = bo_output_norm(d),
                      .sigma = 1,
                      .gate_first = 1,
                      .gate_last = 5,
                      .positions = r->options->positions ? BO_POSITIONS_ROPE : BO_POSITIONS_NONE,
                      .rope_base = 10000};
}

static bo_branch branch_of(const bo_recorder *r, const bo_block *block)
{
    return (bo_branch){.block = block,
                       .attention = r->layer->attention,
                       .width = r->shapes[0].channels,
                       .context = tokens_of(r),
                       .dropout = r->options->rate,
                       .layer = r->layer->place,
                       .tokens = tokens_of(r)};
}

/* x + attention(rms(x)) */
static bo_value record_attention(bo_recorder *r)
{
    const bo_block block = attention_block(r);
    const bo_branch branch = branch_of(r, &block);
    const bo_value positions = r->options->positions ? bo_record_positions(r) : 0;
    return bo_nn_mixer(r->graph, r->layer->name, normed(r), r->in[0], positions, &branch);
}

/* ---- mixers ------------------------------------------------------------------------------------------------------ */

static const char *mixer_name(unsigned value)
{
    return value == BO_MIXER_ATTENTION ? "" : bo_mixer_name((bo_mixer)value); /* attention is a separate type */
}

static const bo_field mixer_fields[] = {
    {.name = "kind", .type = BO_FIELD_NAME, .offset = AT(kind), .names = mixer_name, .required = true},
    {.name = "heads", .type = BO_FIELD_COUNT, .offset = AT(heads), .default_value = 1},
    {.name = "kernel", .type = BO_FIELD_COUNT, .offset = AT(length), .default_value = 4},
    {.name = "ssm", .type = BO_FIELD_NAME, .offset = AT(second), .names = ssm_names},
    {.name = "size", .type = BO_FIELD_COUNT, .offset = AT(size), .default_value = 16},
    {.name = "rank", .type = BO_FIELD_COUNT, .offset = AT(rank), .default_value = 1},
    {.name = "dropout", .type = BO_FIELD_RANGE, .offset = AT(rate), .max = 1},
    {.name = "output", .type = BO_FIELD_BOOL, .offset = AT(self), .default_value = 1},
};

static bo_status create_mixer(bo_context *context, bo_layer *layer, const bo_shape *in, const bo_network *network)
{
    const bo_mixer kind = (bo_mixer)layer->options.kind;
    bo_attention_desc desc = bo_nn_mixer_attention();
    if (!bo_nn_mixer_attends(kind)) return BO_OK;
    BO_TRY(create_heads(context, layer, in, &desc));
    desc.features.seed = seed_of(layer, network->seed);
    return bo_attention_create(context, &desc, &layer->attention);
}

/* x + mixer(rms(x)), causal, as in models. Without output, a mixer of degree d is its normalized product of x alone. */
static bo_value record_mixer(bo_recorder *r)
{
    const bo_layer_options *o = r->options;
    const bool degree = o->kind >= BO_MIXER_DEGREE_2 && o->kind <= BO_MIXER_DEGREE_E;
    const size_t tokens = tokens_of(r), width = r->shapes[0].channels;
    if (o->kind == BO_MIXER_MLP && (double)o->heads * (double)tokens * (double)tokens > MAX_NUMBERS)
        return bo_record_refuse(r, "%zu matrices of %zu x %zu are too large", o->heads, tokens, tokens);
    if (width % o->heads != 0) return bo_record_refuse(r, "%zu heads should divide its %zu channels", o->heads, width);
    if (o->size > 1024 || o->rank > o->size)
        return bo_record_refuse(
            r, "a state of %zu numbers with rank %zu: expected at most 1024 numbers, and a rank that is not larger",
            o->size, o->rank);
    bo_block block = r->layer->attention ? attention_block(r) : (bo_block){.norm_epsilon = 1e-6};
    const bo_branch branch = branch_of(r, &block);
    block.mixer = (bo_mixer)o->kind;
    block.heads = o->heads;
    block.ssm = (bo_ssm)o->second;
    block.state_size = o->size;
    block.state_rank = o->rank;
    block.kernel = o->length;
    if (!o->self && !degree)
        return bo_record_refuse(r, "\"output\": false needs a mixer of a degree, found %s", bo_mixer_name(block.mixer));
    if (degree) block.query_norm = BO_CHOICE_NO; /* norms of q and k would lower the degree by 2 */
    if (!o->self) return bo_nn_mixer_degree(r->graph, r->layer->name, r->in[0], 0, &branch);
    return bo_nn_mixer(r->graph, r->layer->name, normed(r), r->in[0], 0, &branch);
}

#define FIELDS(list)         .fields = list, .field_count = sizeof list / sizeof *list
#define SEQUENCE(word, list) .name = word, FIELDS(list), .accepts = BO_ACCEPTS_PLACES

const bo_layer_type bo_layers_sequence[] = {
    {SEQUENCE("rnn", recurrent_fields), .sets_width = true, .record = record_rnn},
    {SEQUENCE("gru", recurrent_fields), .sets_width = true, .record = record_gru},
    {SEQUENCE("lstm", recurrent_fields), .sets_width = true, .record = record_lstm},
    {SEQUENCE("ssm", ssm_fields), .record = record_ssm},
    {SEQUENCE("mix", mix_fields), .record = record_mix},
    {SEQUENCE("positions", position_fields), .record = record_positions},
    {SEQUENCE("attention", attention_fields), .create = create_attention, .record = record_attention},
    {SEQUENCE("mixer", mixer_fields), .create = create_mixer, .record = record_mixer},
    {0},
};
