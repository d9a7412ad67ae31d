/* Short descriptions of the mixer of a text model, for reports. */
#ifndef CLI_MODEL_MIXER_TEXT_H
#define CLI_MODEL_MIXER_TEXT_H

#include "../common/cli.h"
#include "blocks.h"

enum { CLI_MIXER_TEXT = 240, CLI_LAYER_LIST = 512, CLI_RANGE = 48 };

/* The representative block of the model: the first linearized block, otherwise the first. */
const bo_block *cli_main_block(const bo_model_desc *desc);
const char *cli_mixer_title(const bo_model_desc *desc); /* "attention" or "mixer" */
/* "rfa-gate, 128 features"; "dark, 64 features; softmax in layer 0"; "ssm low-rank, state 16, rank 1, kernel 4".
 * Returns `out`. */
const char *cli_mixer_text(const bo_model *model, char out[CLI_MIXER_TEXT]);
/* "rfa-gate"; "dark and softmax"; "ssm low-rank". Returns `out`. */
const char *cli_mixer_name(const bo_model *model, char out[CLI_MIXER_TEXT]);
/* "favor, 64 features", in the same format. */
const char *cli_attention_summary(const bo_attention_desc *desc, char out[CLI_MIXER_TEXT]);
/* The layers of a linearized model that keep their attention, "0,5-7"; "" if there are no such layers, or if the model
 * is not linearized. Returns `out`. */
const char *cli_kept_layers(const bo_model_desc *desc, char out[CLI_LAYER_LIST]);

/* The layers of the decoder, or of a model with one stack, that have block `index` of its list: "0-1,3-4". Returns
 * `out`. */
const char *cli_block_layers(const bo_model_desc *desc, size_t index, char out[CLI_LAYER_LIST]);
/* The description of one block, in the format of cli_mixer_text: "gated-delta, 64 features". */
const char *cli_block_mixer(const bo_block *block, char out[CLI_MIXER_TEXT]);

/* "4 heads", "4 to 8 heads": for the layers with attention, or for the first layer if no layer has attention. Returns
 * `out`. */
const char *cli_heads_text(const bo_model_desc *desc, char out[CLI_RANGE]);
/* "4 heads of dimension 32, 2 key heads". `before` separates the key heads: ", ". Returns `out`. */
enum { CLI_HEAD_TEXT = 4 * CLI_RANGE };
const char *cli_head_text(const bo_model_desc *desc, const char *before, char out[CLI_HEAD_TEXT]);
/* The positions of the first layer with positions. */
bo_positions cli_positions_of(const bo_model_desc *desc);

/* Layers of a model with the same mixer, heads and positions. */
typedef struct cli_layer_kind {
    const bo_block *block;
    size_t count;       /* number of layers */
    size_t state_bytes; /* attention: the state of one layer at the length of the context; otherwise 0 */
    bool keeps_all;     /* keeps the keys of all earlier tokens: the state grows with the text */
    char layers[64];    /* "layer 0", "layers 1-4", "layers 0,5-7" */
} cli_layer_kind;
/* The kinds of layers of a model; the kind of the main block comes first. Freed by the caller. */
cli_layer_kind *cli_layer_kinds(const bo_model *model, size_t *count);

#endif
