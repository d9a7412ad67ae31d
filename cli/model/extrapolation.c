#include "extrapolation.h"
#include "mixer_text.h"
#include <stdlib.h>

/* Returns the attention of a layer in which every token attends to all earlier tokens with its own weights; NULL: no
 * such layer. */
static const bo_attention_desc *keeps_all_keys(const cli_layer_kind *kinds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kinds[i].keeps_all) return &kinds[i].block->attention;
    return NULL;
}

/* True if distances between tokens can exceed those in training: some layer has no window, or has features for the
 * tokens before it. */
static bool rotates_further(const bo_model_desc *d, const cli_layer_kind *kinds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bo_block *b = kinds[i].block;
        const bo_attention_desc *a = &b->attention;
        const bool in_window = bo_attention_has(a, BO_TRAIT_CAPACITY) && a->window;
        if (cli_rotates(b) && !(in_window && a->window <= d->context)) return true;
    }
    return false;
}

bool cli_report_extrapolation(cli_session *session, const bo_model *model, uint64_t tokens)
{
    const bo_model_desc *d = bo_model_describe(model);
    const bo_positions positions = cli_positions_of(d);
    size_t count;
    if (tokens <= d->context || positions == BO_POSITIONS_LEARNED)
        return false; /* absolute positions end with the context */
    cli_layer_kind *kinds = cli_layer_kinds(model, &count);
    const bo_attention_desc *keys = keeps_all_keys(kinds, count);
    const bool sinusoidal = positions == BO_POSITIONS_SINUSOIDAL, further = rotates_further(d, kinds, count);
    char name[CLI_MIXER_TEXT];
    free(kinds);
    if (keys || sinusoidal)
        cli_warn(
            session,
            "%s tokens of context, but the model was trained with %s: %s%s%s%s did not occur in training, and the loss "
            "usually rises; use at most %s tokens or train with a larger --context",
            cli_count(tokens).s, cli_count(d->context).s, keys ? bo_attention_name(keys) : "",
            keys ? " attention to this many keys" : "", keys && (sinusoidal || further) ? " and " : "",
            sinusoidal ? "such positions (sinusoidal)"
            : further  ? "such distances (RoPE)"
                       : "",
            cli_count(d->context).s);
    else if (further)
        cli_note(session,
                 "Context     %s tokens, trained with %s: the state of %s has a fixed size, but such distances (RoPE) "
                 "did not occur in training",
                 cli_count(tokens).s, cli_count(d->context).s, cli_mixer_name(model, name));
    return keys || sinusoidal || further;
}
