#include "mixer_words.h"
#include <string.h>

const char *cli_mixer_title(const bo_model_desc *d)
{
    return d->mixer == BO_MIXER_ATTENTION ? "attention" : "mixer";
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* The gate, if the name of the attention does not imply it. */
static void add_gate(const bo_attention_desc *a, char out[48])
{
    bo_attention_desc preset = {.kind = a->kind};
    out[0] = 0;
    if (bo_attention_preset(bo_attention_name(a), &preset) && preset.gate == a->gate) return;
    if (a->gate != BO_GATE_NONE) snprintf(out, 48, ", %s gate", bo_gate_name(a->gate));
}

const char *cli_attention_summary(const bo_attention_desc *a, char out[CLI_MIXER_WORDS])
{
    char gate[48], features[80] = "", window[80] = "";
    add_gate(a, gate);
    if (a->features.features) snprintf(features, sizeof features, ", %s features", cli_count(a->features.features).s);
    if (a->window) snprintf(window, sizeof window, ", window %s", cli_count(a->window).s);
    snprintf(out, CLI_MIXER_WORDS, "%s%.40s%.40s%.40s", bo_attention_name(a), gate, features, window);
    return out;
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static const bo_attention_desc *attention_at(const bo_model *model, size_t layer)
{
    const bo_attention *attention = bo_model_attention(model, layer);
    return attention ? bo_attention_describe(attention) : NULL;
}

static bool is_like(const bo_attention_desc *a, const bo_attention_desc *b)
{
    char one[CLI_MIXER_WORDS], other[CLI_MIXER_WORDS];
    return strcmp(cli_attention_summary(a, one), cli_attention_summary(b, other)) == 0;
}

/* Adds "0" or "5-7" to a list, or "…" if there is no room. */
static void add_range(char list[64], size_t first, size_t last)
{
    const size_t used = strlen(list);
    char range[56];
    const char *comma = used ? "," : "";
    int length = first == last ? snprintf(range, sizeof range, "%s%zu", comma, first)
                               : snprintf(range, sizeof range, "%s%zu-%zu", comma, first, last);
    if (used + (size_t)length + sizeof "layers ,…" <= 64)
        snprintf(list + used, 64 - used, "%s", range);
    else if (!strstr(list, "…"))
        snprintf(list + used, 64 - used, ",…");
}

static void list_layers(const bo_model *model, cli_layer_kind *kind)
{
    const size_t layers = bo_model_describe(model)->layers;
    char list[64] = "";
    for (size_t i = 0, last; i < layers; i = last + 1) {
        last = i;
        if (!is_like(attention_at(model, i), kind->attention)) continue;
        while (last + 1 < layers && is_like(attention_at(model, last + 1), kind->attention)) last++;
        kind->count += last - i + 1;
        add_range(list, i, last);
    }
    snprintf(kind->layers, sizeof kind->layers, "layer%s %.56s", kind->count == 1 ? "" : "s", list);
}

static cli_layer_kind kind_of(const bo_model *model, size_t layer)
{
    const bo_attention_desc *a = attention_at(model, layer);
    cli_layer_kind kind = {.attention = a,
                           .state_bytes = bo_attention_state_bytes(bo_model_attention(model, layer)),
                           .keeps_all = bo_attention_has(a, BO_TRAIT_CAPACITY) && !a->window};
    list_layers(model, &kind);
    return kind;
}

size_t cli_layer_kinds(const bo_model *model, cli_layer_kind out[CLI_LAYER_KINDS])
{
    const bo_model_desc *d = bo_model_describe(model);
    size_t found = 0;
    if (d->mixer != BO_MIXER_ATTENTION) return 0;
    for (int named = 1; named >= 0; named--) /* the kind of the descriptor first */
        for (size_t i = 0; i < d->layers && found < CLI_LAYER_KINDS; i++) {
            const bo_attention_desc *a = attention_at(model, i);
            bool is_new = is_like(a, &d->attention) == (named == 1);
            for (size_t k = 0; k < found; k++) is_new = is_new && !is_like(a, out[k].attention);
            if (is_new) out[found++] = kind_of(model, i);
        }
    return found;
}

/* ---- mixers ------------------------------------------------------------------------------------------------------ */

static void name_attentions(const bo_model *model, char out[CLI_MIXER_WORDS])
{
    cli_layer_kind kinds[CLI_LAYER_KINDS];
    const size_t count = cli_layer_kinds(model, kinds);
    size_t used = 0;
    for (size_t i = 0; i < count && used < CLI_MIXER_WORDS; i++) {
        char gate[48];
        bool named = false; /* the same kind with another window */
        for (size_t k = 0; k < i; k++)
            named |= strcmp(bo_attention_name(kinds[k].attention), bo_attention_name(kinds[i].attention)) == 0;
        if (named) continue;
        add_gate(kinds[i].attention, gate);
        used += (size_t)snprintf(out + used, CLI_MIXER_WORDS - used, "%s%s%s", used ? " and " : "",
                                 bo_attention_name(kinds[i].attention), gate);
    }
}

const char *cli_mixer_name(const bo_model *model, char out[CLI_MIXER_WORDS])
{
    const bo_model_desc *d = bo_model_describe(model);
    if (d->mixer == BO_MIXER_ATTENTION)
        name_attentions(model, out);
    else if (d->mixer == BO_MIXER_SSM)
        snprintf(out, CLI_MIXER_WORDS, "%s %s", bo_mixer_name(d->mixer), bo_ssm_name(d->ssm));
    else
        snprintf(out, CLI_MIXER_WORDS, "%s", bo_mixer_name(d->mixer));
    return out;
}

static const char *attention_words(const bo_model *model, char out[CLI_MIXER_WORDS])
{
    cli_layer_kind kinds[CLI_LAYER_KINDS];
    const size_t count = cli_layer_kinds(model, kinds);
    char words[CLI_MIXER_WORDS];
    size_t used = 0;
    for (size_t i = 0; i < count && used < CLI_MIXER_WORDS; i++) {
        cli_attention_summary(kinds[i].attention, words);
        used += i == 0 ? (size_t)snprintf(out, CLI_MIXER_WORDS, "%s", words)
                       : (size_t)snprintf(out + used, CLI_MIXER_WORDS - used, "; %s in %s", words, kinds[i].layers);
    }
    return out;
}

const char *cli_mixer_words(const bo_model *model, char out[CLI_MIXER_WORDS])
{
    const bo_model_desc *d = bo_model_describe(model);
    char state[80] = "", rank[80] = "", kernel[80] = "", name[CLI_MIXER_WORDS];
    if (d->mixer == BO_MIXER_ATTENTION) return attention_words(model, out);
    if (d->mixer == BO_MIXER_SSM) snprintf(state, sizeof state, ", state %s", cli_count(d->state_size).s);
    if (d->state_rank) snprintf(rank, sizeof rank, ", rank %s", cli_count(d->state_rank).s);
    if (d->kernel) snprintf(kernel, sizeof kernel, ", kernel %s", cli_count(d->kernel).s);
    snprintf(out, CLI_MIXER_WORDS, "%.40s%.36s%.36s%.36s", cli_mixer_name(model, name), state, rank, kernel);
    return out;
}
