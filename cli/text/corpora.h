/* Training and validation text of a language model, from files. */
#ifndef CLI_TEXT_CORPORA_H
#define CLI_TEXT_CORPORA_H

#include "../common/cli.h"

typedef struct cli_corpora {
    const char *const *paths; /* training text */
    size_t count;
    const char *valid;     /* validation text; NULL: the end of the training text */
    double valid_fraction; /* fraction of the training text, without `valid`; 0: no validation text */
    const char *field, *separator;
    const bo_tokenizer *tokenizer;
} cli_corpora;

/* Opens both; *valid is NULL if there is no validation text. After a failure, *train may be open. */
bo_status cli_corpora_open(bo_context *context, const cli_corpora *files, bo_corpus **train, bo_corpus **valid);

#endif
