/* bochner info: the report on a text model and its training. */
#ifndef CLI_TOOLS_INFO_MODEL_H
#define CLI_TOOLS_INFO_MODEL_H

#include "../compare/run.h"
#include "../model/mixer_text.h"
#include "info.h"

typedef struct cli_info_adapter {
    double rank; /* NAN: no adapter */
    char base[4096];
} cli_info_adapter;

typedef struct cli_info_report {
    const char *directory;
    const bo_model_desc *desc;
    const bo_model *model;
    const bo_tokenizer *tokenizer; /* NULL: none */
    size_t state_bytes;            /* per sequence or hypothesis; 0: no state */
    cli_run_record run;
    cli_info_adapter adapter; /* merged into the model on loading */
    bo_profile *profile;      /* NULL: none */
} cli_info_report;

void cli_info_model_print(const cli_info_report *r);
void cli_info_model_json(const cli_info_report *r);

/* The descriptor with the layers of the encoder in place of those of the decoder. */
bo_model_desc cli_info_encoder(const bo_model_desc *d);

#endif
