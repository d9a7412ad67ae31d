/* The tokens after which a model has nothing more to say. */
#include "chat.h"
#include "run.h"
#include <stdlib.h>

static void add_end(bo_ids *ids, double id, size_t vocab)
{
    if (!(id >= 0 && id < (double)vocab)) return;
    for (size_t i = 0; i < ids->count; i++)
        if (ids->items[i] == (int32_t)id) return;
    if (ids->count < ids->capacity) ids->items[ids->count++] = (int32_t)id;
}

/* eos_token_id is a number or a list of numbers. */
static void add_ends(cli_session *session, const char *folder, const char *name, size_t vocab, bo_ids *out)
{
    cJSON *json = cli_read_json(session, folder, name);
    const cJSON *ids = cJSON_GetObjectItemCaseSensitive(json, "eos_token_id"), *id;
    if (cJSON_IsNumber(ids)) add_end(out, ids->valuedouble, vocab);
    if (cJSON_IsArray(ids)) cJSON_ArrayForEach(id, ids) add_end(out, cJSON_IsNumber(id) ? id->valuedouble : -1, vocab);
    cJSON_Delete(json);
}

void cli_end_tokens(cli_session *session, const char *folder, const bo_tokenizer *tokenizer, const char *eos,
                    bo_ids *out)
{
    enum { MOST = 64 };
    static const char *const names[] = {"generation_config.json", "config.json"};
    const size_t vocab = bo_tokenizer_vocab(tokenizer);
    *out = (bo_ids){.items = cli_allocate(MOST, sizeof(int32_t), "end tokens"), .capacity = MOST};
    for (size_t i = 0; i < CLI_COUNT_OF(names); i++) add_ends(session, folder, names[i], vocab, out);
    add_end(out, bo_tokenizer_end(tokenizer), vocab);
    if (eos) add_end(out, bo_tokenizer_find(tokenizer, eos), vocab);
}
