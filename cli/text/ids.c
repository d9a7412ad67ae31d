#include "ids.h"
#include <math.h>
#include <stdlib.h>

/* (tokens) or (sequences, tokens). */
static bool read_shape(cli_session *session, const char *path, const bo_array *array, cli_ids *out)
{
    char shape[128];
    *out = (cli_ids){.batch = array->rank == 2, .sequences = array->rank == 2 ? array->shape[0] : 1};
    if (array->rank == 1 || array->rank == 2) out->tokens = array->shape[array->rank - 1];
    if (out->sequences && out->tokens) return true;
    bo_array_format(array, shape, sizeof shape);
    cli_fail(session, "%s: expected ids of shape (tokens) or (batch, tokens), at least one; found shape %s", path,
             shape);
    return false;
}

/* Arrays hold float32, which represents whole numbers up to 2^24. */
static bool read_items(cli_session *session, const char *path, const bo_array *array, size_t vocab, cli_ids *out)
{
    for (size_t i = 0; i < array->count; i++) {
        const double value = (double)array->values[i];
        if (value >= 0 && value < (double)vocab && value == floor(value)) {
            out->items[i] = (int32_t)value;
            continue;
        }
        cli_fail(session, "%s: expected ids from 0 to %zu, the vocabulary of the model; found %.10g at position %zu",
                 path, vocab - 1, value, i);
        return false;
    }
    return true;
}

bool cli_ids_load(cli_session *session, const char *path, size_t vocab, cli_ids *out)
{
    bo_array *array;
    const bo_status status = bo_array_load(session->context, &(bo_source){.path = path}, &array);
    *out = (cli_ids){0};
    if (status != BO_OK) return cli_fail_status(session, status), false;
    bool done = read_shape(session, path, array, out);
    if (done) {
        out->items = cli_allocate(array->count, sizeof *out->items, "ids");
        done = read_items(session, path, array, vocab, out);
    }
    bo_array_destroy(array);
    if (!done) cli_ids_free(out);
    return done;
}

void cli_ids_free(cli_ids *ids)
{
    free(ids->items);
    *ids = (cli_ids){0};
}

bool cli_ends_text(const bo_model *model, int32_t id)
{
    const bo_model_info *info = bo_model_report(model);
    for (size_t i = 0; i < info->end_count; i++)
        if (info->end_tokens[i] == id) return true;
    return false;
}
