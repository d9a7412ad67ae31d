#include "corpora.h"

bo_status cli_corpora_open(bo_context *context, const cli_corpora *files, bo_corpus **train, bo_corpus **valid)
{
    const bool cut = !files->valid && files->valid_fraction > 0;
    bo_corpus_desc desc = {.paths = files->paths,
                           .path_count = files->count,
                           .tokenizer = files->tokenizer,
                           .field = files->field,
                           .separator = files->separator,
                           .take = cut ? 1 - files->valid_fraction : 0};
    *valid = NULL;
    const bo_status status = bo_corpus_open(context, &desc, train);
    if (status != BO_OK || (!cut && !files->valid)) return status;
    if (cut) {
        desc.skip = desc.take;
        desc.take = 0;
    } else {
        desc.paths = &files->valid;
        desc.path_count = 1;
    }
    return bo_corpus_open(context, &desc, valid);
}
