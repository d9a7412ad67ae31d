/* Options and results of bochner embed, shared by the command and its report. */
#ifndef CLI_TABLES_EMBED_H
#define CLI_TABLES_EMBED_H

#include "../common/cli.h"
#include "../common/json.h"

typedef struct cli_embed_options {
    cli_given was_given;
    const char *target, *drop, *categorical, *out, *save, *model, *reconstruct;
    bo_format format;
    bo_impute impute;
    bo_kernel kernel;
    bo_function function;
    bo_draw draw;
    bo_scaling scaling;
    bo_gram_precision precision;
    size_t components, features, degree, memory, sample;
    double gamma, alpha;
    bool stream, error;
} cli_embed_options;

typedef struct cli_embed_result {
    const bo_embedding *embedding;
    const char *data;
    size_t rows;          /* number of embedded rows */
    double seconds;       /* time to compute the coordinates */
    double error, inside; /* sums over these rows of the squared distance to the subspace, and of |c|² */
} cli_embed_result;

void cli_embed_print(const cli_embed_result *result, const cli_embed_options *options, FILE *out);
/* Adds the members and ends the object. */
void cli_embed_json(const cli_embed_result *result, const cli_embed_options *options, cli_json *json);

#endif
