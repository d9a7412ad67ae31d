/* Short descriptions of the mixer of a text model, for reports. */
#ifndef CLI_MODELS_MIXER_WORDS_H
#define CLI_MODELS_MIXER_WORDS_H

#include "../common/cli.h"

enum { CLI_MIXER_WORDS = 160 };

const char *cli_mixer_title(const bo_model_desc *desc); /* "attention" or "mixer" */
/* "rfa-gate, 128 features"; "ssm low-rank, state 16, rank 1, kernel 4". Returns `out`. */
const char *cli_mixer_words(const bo_model_desc *desc, char out[CLI_MIXER_WORDS]);
/* "rfa-gate"; "ssm low-rank". Returns `out`. */
const char *cli_mixer_name(const bo_model_desc *desc, char out[CLI_MIXER_WORDS]);
/* "favor, 64 features", as the others. */
const char *cli_attention_summary(const bo_attention_desc *desc, char out[CLI_MIXER_WORDS]);

#endif
