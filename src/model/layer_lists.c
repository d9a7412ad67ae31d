/* Layers and their weights, named by numbers or by blocks. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../io/json.h"
#include "blocks.h"

static const char BLOCK[] = "block-";
enum { MAX_NAME = 512 }; /* bytes of a target of adapters */

/* Reads "block-N". Returns the text after it. NULL: no match. */
static const char *read_block(const char *text, size_t *index)
{
    char *end;
    if (strncmp(text, BLOCK, strlen(BLOCK)) != 0 || !isdigit((unsigned char)text[strlen(BLOCK)])) return NULL;
    *index = strtoul(text + strlen(BLOCK), &end, 10);
    return end;
}

static bo_status check_block(bo_context *context, const char *where, const bo_model_desc *d, size_t index)
{
    const size_t count = bo_blocks_of(d, BO_MODEL_PART_LAYERS).count;
    if (index < count) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s: %s%zu: the model has %zu block%s, numbered from 0 (bochner info)", where,
                   BLOCK, index, count, count == 1 ? "" : "s");
}

static bool has_block(const bo_model_desc *d, size_t layer, size_t index)
{
    return bo_model_block(d, layer) == &bo_blocks_of(d, BO_MODEL_PART_LAYERS).blocks[index];
}

/* ---- lists of layers --------------------------------------------------------------------------------------------- */

/* Reads "N" or "N-M" and the comma after it. Returns false if the text is malformed. */
static bool read_range(const char **text, size_t *first, size_t *last)
{
    char *end;
    if (!isdigit((unsigned char)**text)) return false;
    *first = *last = strtoul(*text, &end, 10);
    if (*end == '-') {
        if (!isdigit((unsigned char)end[1])) return false;
        *last = strtoul(end + 1, &end, 10);
    }
    const bool more = *end == ',' && end[1];
    *text = end + (*end == ',');
    return (more || !*end) && *first <= *last;
}

static bo_status mark_block(bo_context *context, const char *where, const bo_model_desc *d, size_t index, bool *marked)
{
    BO_TRY(check_block(context, where, d, index));
    for (size_t i = 0; i < d->layers; i++) marked[i] = marked[i] || has_block(d, i, index);
    return BO_OK;
}

bo_status bo_layers_list(bo_context *context, const char *where, const char *list, const bo_model_desc *d, bool *marked)
{
    enum { EACH = 24 }; /* characters of "N-M," */
    const char *text = list, *after;
    size_t first, last;
    if (strlen(list) > EACH * d->layers)
        return bo_fail(context, BO_INVALID, "%s: kept_layers must have at most %zu characters, found %zu", where,
                       EACH * d->layers, strlen(list));
    while (*text) {
        after = read_block(text, &first);
        if (after && (!*after || (*after == ',' && after[1]))) {
            BO_TRY(mark_block(context, where, d, first, marked));
            text = after + (*after == ',');
            continue;
        }
        if (!read_range(&text, &first, &last))
            return bo_fail(
                context, BO_INVALID,
                "%s: kept_layers must list numbers and ranges such as 0,5-7, or blocks such as block-1, found "
                "'%.60s'",
                where, list);
        if (last >= d->layers)
            return bo_fail(context, BO_INVALID, "%s: kept_layers must be below %zu, the number of layers, found %zu",
                           where, d->layers, last);
        for (size_t i = first; i <= last; i++) marked[i] = true;
    }
    return BO_OK;
}

/* ---- lists of weights -------------------------------------------------------------------------------------------- */

/* True if a name starts with the part of a layer: "self_attn.q_proj". */
static bool names_part(const char *rest, size_t length)
{
    static const char *const parts[] = {"self_attn", "mixer", "encoder_attn", "mlp"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const size_t part_length = strlen(parts[i]);
        if (length > part_length && strncmp(rest, parts[i], part_length) == 0 && rest[part_length] == '.') return true;
    }
    return false;
}

/* Writes a pattern per layer with the block: "model.layers.3.*.q_proj". */
static bo_status add_patterns(bo_context *context, const bo_model_desc *d, size_t index, const char *rest,
                              size_t length, bo_json_text *out)
{
    const char *between = !length ? "*" : names_part(rest, length) ? "" : "*.";
    BO_TRY(check_block(context, "lora: targets", d, index));
    for (size_t i = 0; i < d->layers; i++) {
        char pattern[640];
        if (!has_block(d, i, index)) continue;
        snprintf(pattern, sizeof pattern, "%smodel.layers.%zu.%s%.*s", out->length ? "," : "", i, between, (int)length,
                 rest);
        bo_json_raw(out, pattern);
    }
    return BO_OK;
}

bo_status bo_block_targets(bo_context *context, const bo_model_desc *d, const char *targets, char **out)
{
    bo_json_text text = {.context = context};
    bo_status status = BO_OK;
    for (const char *at = targets; *at && status == BO_OK;) {
        const size_t length = strcspn(at, ",");
        size_t index;
        const char *after = read_block(at, &index);
        const bool whole = after && after == at + length, part = after && *after == '.';
        if (length >= MAX_NAME) {
            status = bo_fail(context, BO_INVALID, "lora: targets: a name of %zu bytes is too long", length);
        } else if (whole || part) {
            status = add_patterns(context, d, index, after + part, length - (size_t)(after + part - at), &text);
        } else {
            char word[MAX_NAME + 2];
            snprintf(word, sizeof word, "%s%.*s", text.length ? "," : "", (int)length, at);
            bo_json_raw(&text, word);
        }
        at += length + (at[length] == ',');
    }
    if (status == BO_OK && !text.bytes) bo_json_raw(&text, "");
    *out = text.bytes;
    if (status == BO_OK && (text.failed || !text.bytes)) status = BO_MEMORY;
    if (status != BO_OK) bo_free(text.bytes), *out = NULL;
    return status;
}
