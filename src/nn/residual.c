/* Properties of the mixer and the MLP that a block determines: residual rules, with their names and norms, and biases.
 */
#include <string.h>
#include "enums.h"
#include "../base/base.h"
#include "nn.h"

static const bo_residual_rule rules[] = {
    [BO_RESIDUAL_SEQUENTIAL] = {"sequential", .mixer = "input_layernorm", .mlp = "post_attention_layernorm"},
    [BO_RESIDUAL_PARALLEL] = {"parallel", .mixer = "input_layernorm", .mlp = "post_attention_layernorm",
                              .parallel = true},
    [BO_RESIDUAL_SHARED] = {"shared", .mixer = "input_layernorm", .mlp = "input_layernorm", .parallel = true},
    [BO_RESIDUAL_SANDWICH] = {"sandwich", .mixer = "input_layernorm", .mixer_summand = "post_attention_layernorm",
                              .mlp = "pre_feedforward_layernorm", .mlp_summand = "post_feedforward_layernorm"},
    [BO_RESIDUAL_AFTER] = {"after", .mixer_summand = "post_attention_layernorm",
                           .mlp_summand = "post_feedforward_layernorm"},
};
_Static_assert(sizeof rules / sizeof *rules == BO_RESIDUAL_COUNT, "every residual rule has a row");

const bo_residual_rule *bo_residual_rule_of(bo_residual residual)
{
    return &rules[residual];
}

const char *bo_residual_name(bo_residual residual)
{
    return (unsigned)residual < BO_RESIDUAL_COUNT ? rules[residual].name : NULL;
}

bool bo_residual_parse(const char *name, bo_residual *out)
{
    for (int i = 0; name && out && i < BO_RESIDUAL_COUNT; i++) {
        if (!bo_same_name(name, rules[i].name)) continue;
        *out = (bo_residual)i;
        return true;
    }
    return false;
}

/* ---- biases ------------------------------------------------------------------------------------------------------ */

static bool resolve_choice(bo_choice choice, bool default_value)
{
    return choice == BO_CHOICE_AUTO ? default_value : choice == BO_CHOICE_YES;
}

bo_block_biases bo_block_biases_of(const bo_block *b)
{
    bo_block_biases out = {.attention = resolve_choice(b->attention_bias, b->bias),
                           .mlp = resolve_choice(b->mlp_bias, b->bias)};
    out.output = resolve_choice(b->output_bias, out.attention);
    return out;
}
