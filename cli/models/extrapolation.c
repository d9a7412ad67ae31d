#include "extrapolation.h"
#include "mixer_words.h"

/* True if every token attends to all earlier ones with weights of its own. */
static bool keeps_all_keys(const bo_model_desc *d)
{
    return d->mixer == BO_MIXER_ATTENTION && bo_attention_has(&d->attention, BO_TRAIT_CAPACITY) && !d->attention.window;
}

/* True if two tokens can be further apart than in training: there is no window, or features see the tokens before it. */
static bool rotates_further(const bo_model_desc *d)
{
    const bool rope = d->positions == BO_POSITIONS_ROPE || d->positions == BO_POSITIONS_ROPE_NEIGHBORS;
    const bool in_window = bo_attention_has(&d->attention, BO_TRAIT_CAPACITY) && d->attention.window;
    return d->mixer == BO_MIXER_ATTENTION && rope && !(in_window && d->attention.window <= d->context);
}

bool cli_say_extrapolation(cli_session *session, const bo_model_desc *d, uint64_t tokens)
{
    const bool sinusoidal = d->positions == BO_POSITIONS_SINUSOIDAL, keys = keeps_all_keys(d),
               further = rotates_further(d);
    char name[CLI_MIXER_WORDS];
    if (tokens <= d->context || d->positions == BO_POSITIONS_LEARNED) return false; /* these end with the context */
    if (keys || sinusoidal)
        cli_warn(
            session,
            "%s tokens of context, but the model was trained with %s: %s%s%s%s did not occur in training, and the loss "
            "usually rises; use at most %s tokens or train with a larger --context",
            cli_count(tokens).s, cli_count(d->context).s, keys ? cli_mixer_name(d, name) : "",
            keys ? " attention to this many keys" : "", keys && (sinusoidal || further) ? " and " : "",
            sinusoidal ? "such positions (sinusoidal)"
            : further  ? "such distances (RoPE)"
                       : "",
            cli_count(d->context).s);
    else if (further)
        cli_say(
            session,
            "Context     %s tokens, trained with %s: the state of %s has a fixed size, but such distances (RoPE) did not "
            "occur in training",
            cli_count(tokens).s, cli_count(d->context).s, cli_mixer_name(d, name));
    return keys || sinusoidal || further;
}
