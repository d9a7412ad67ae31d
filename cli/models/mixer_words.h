/* Short descriptions of the mixer of a text model, for reports. */
#ifndef CLI_MODELS_MIXER_WORDS_H
#define CLI_MODELS_MIXER_WORDS_H

#include "../common/cli.h"

enum { CLI_MIXER_WORDS = 240, CLI_LAYER_KINDS = 4 };

const char *cli_mixer_title(const bo_model_desc *desc); /* "attention" or "mixer" */
/* "rfa-gate, 128 features"; "dark, 64 features; softmax in layer 0"; "ssm low-rank, state 16, rank 1, kernel 4". Returns
 * `out`. */
const char *cli_mixer_words(const bo_model *model, char out[CLI_MIXER_WORDS]);
/* "rfa-gate"; "dark and softmax"; "ssm low-rank". Returns `out`. */
const char *cli_mixer_name(const bo_model *model, char out[CLI_MIXER_WORDS]);
/* "favor, 64 features", as the others. */
const char *cli_attention_summary(const bo_attention_desc *desc, char out[CLI_MIXER_WORDS]);

/* The layers of a model that have the same attention. */
typedef struct cli_layer_kind {
    const bo_attention_desc *attention;
    size_t count, state_bytes; /* number of layers; state of one of them at the length of the context */
    bool keeps_all;            /* the keys of all earlier tokens: the state grows with the text */
    char layers[64];           /* "layer 0", "layers 1-4", "layers 0,5-7" */
} cli_layer_kind;
/* Returns their number, 0 if the layers have no attention. The kind that the model's descriptor names comes first. */
size_t cli_layer_kinds(const bo_model *model, cli_layer_kind out[CLI_LAYER_KINDS]);

#endif
