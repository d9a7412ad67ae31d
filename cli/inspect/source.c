/* The model and the text of an inspection. */
#include "inspect.h"
#include "../text/ids.h"
#include "../network/network.h"
#include "../text/text_tasks.h"
#include <stdlib.h>

enum { MAX_TOKENS = 1 << 20 }; /* maximum tokens read from a text */

static bool too_short(cli_session *session, const char *what, size_t count, size_t length)
{
    if (count >= 4)
        cli_fail(session, "%s: %s tokens, but a window has %s; use a longer text or --length %zu", what,
                 cli_count(count).s, cli_count(length).s, count);
    else
        cli_fail(session, "%s: %zu tokens, expected at least 4; use a longer text", what, count);
    return false;
}

static size_t window_length(const cli_inspect_source *source, const bo_model *model)
{
    enum { DEFAULT_WINDOW = 256 };
    const size_t context = bo_model_describe(model)->context;
    return source->length ? source->length : context < DEFAULT_WINDOW ? context : DEFAULT_WINDOW;
}

static bool read_text(cli_session *session, const cli_inspect_source *source, cli_inspected *out)
{
    const bo_corpus_desc desc = {.paths = source->data->items,
                                 .path_count = source->data->count,
                                 .tokenizer = bo_model_tokenizer(out->model),
                                 .field = source->field,
                                 .separator = source->separator};
    const size_t length = window_length(source, out->model);
    bo_corpus *corpus;
    if (!desc.tokenizer) {
        cli_fail(session, "%s: no tokenizer.json, which is needed to read text; give --ids IDS.npy", source->directory);
        return false;
    }
    bo_status status = bo_corpus_open(session->context, &desc, &corpus);
    if (status != BO_OK) return cli_fail_status(session, status), false;
    const uint64_t all = bo_corpus_tokens(corpus);
    out->more = all > MAX_TOKENS;
    out->count = out->more ? MAX_TOKENS : (size_t)all;
    out->ids = cli_allocate(out->count + 1, sizeof *out->ids, "the tokens of the text");
    status = out->count ? bo_corpus_read(session->context, corpus, 0, out->count, out->ids) : BO_OK;
    bo_corpus_close(corpus);
    if (status != BO_OK) return cli_fail_status(session, status), false;
    return out->count >= length || too_short(session, source->data->items[0], out->count, length);
}

static bool read_ids(cli_session *session, const cli_inspect_source *source, cli_inspected *out)
{
    const size_t length = window_length(source, out->model);
    cli_ids ids;
    if (!cli_ids_load(session, source->ids, bo_model_describe(out->model)->vocab, &ids)) return false;
    out->ids = ids.items;
    out->count = ids.sequences * ids.tokens;
    return out->count >= length || too_short(session, source->ids, out->count, length);
}

bool cli_inspected_open(cli_session *session, const cli_inspect_source *source, cli_inspected *out)
{
    *out = (cli_inspected){0};
    if (!cli_is_no_network(session, source->directory)) return false;
    const bo_status status =
        bo_model_load(session->context, &(bo_source){.path = source->directory}, NULL, &out->model);
    if (status != BO_OK) return cli_fail_model(session, source->directory, status), false;
    const bo_model_task task = bo_model_describe(out->model)->task;
    if (task != BO_MODEL_TASK_LANGUAGE) {
        cli_fail(session, "%s: expected a language model, found %s", source->directory, cli_task_phrase(task));
        return false;
    }
    if (source->ids) return read_ids(session, source, out);
    return !source->data || source->data->count == 0 || read_text(session, source, out);
}

void cli_inspected_close(cli_inspected *inspected)
{
    free(inspected->ids);
    bo_model_destroy(inspected->model);
    *inspected = (cli_inspected){0};
}
