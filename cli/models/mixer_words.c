#include "mixer_words.h"

const char *cli_mixer_title(const bo_model_desc *d)
{
    return d->mixer == BO_MIXER_ATTENTION ? "attention" : "mixer";
}

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

const char *cli_mixer_name(const bo_model_desc *d, char out[CLI_MIXER_WORDS])
{
    char gate[48] = "";
    if (d->mixer == BO_MIXER_ATTENTION) add_gate(&d->attention, gate);
    if (d->mixer == BO_MIXER_ATTENTION)
        snprintf(out, CLI_MIXER_WORDS, "%s%s", bo_attention_name(&d->attention), gate);
    else if (d->mixer == BO_MIXER_SSM)
        snprintf(out, CLI_MIXER_WORDS, "%s %s", bo_mixer_name(d->mixer), bo_ssm_name(d->ssm));
    else
        snprintf(out, CLI_MIXER_WORDS, "%s", bo_mixer_name(d->mixer));
    return out;
}

const char *cli_mixer_words(const bo_model_desc *d, char out[CLI_MIXER_WORDS])
{
    char state[80] = "", rank[80] = "", kernel[80] = "", name[CLI_MIXER_WORDS];
    if (d->mixer == BO_MIXER_ATTENTION) return cli_attention_summary(&d->attention, out);
    if (d->mixer == BO_MIXER_SSM) snprintf(state, sizeof state, ", state %s", cli_count(d->state_size).s);
    if (d->state_rank) snprintf(rank, sizeof rank, ", rank %s", cli_count(d->state_rank).s);
    if (d->kernel) snprintf(kernel, sizeof kernel, ", kernel %s", cli_count(d->kernel).s);
    snprintf(out, CLI_MIXER_WORDS, "%.40s%.36s%.36s%.36s", cli_mixer_name(d, name), state, rank, kernel);
    return out;
}
