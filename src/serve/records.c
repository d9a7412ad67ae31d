/* Generated tokens with their log probabilities, as JSON. */
#include "choice.h"
#include "../text/unicode.h"
#include <stdio.h>
#include <string.h>

static const char *piece_of(const bo_service *service, int32_t id, size_t *bytes)
{
    *bytes = 0;
    return service->tokenizer ? bo_tokenizer_piece(service->tokenizer, id, bytes) : "";
}

static size_t count_characters(const char *text, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

static bo_status reserve(bo_context *context, void **items, size_t *capacity, size_t needed, size_t size)
{
    if (needed <= *capacity) return BO_OK;
    const size_t larger = 2 * *capacity + needed + 16;
    void *block = bo_realloc(context, *items, larger, size, "generated tokens");
    if (!block) return BO_MEMORY;
    *items = block;
    *capacity = larger;
    return BO_OK;
}

bo_status bo_records_add(bo_context *context, const bo_service *service, bo_choice_records *r,
                         const bo_job_token *token)
{
    size_t bytes;
    const char *piece = piece_of(service, token->id, &bytes);
    void *items = r->items, *tops = r->tops;
    bo_status status = reserve(context, &items, &r->capacity, r->count + 1, sizeof *r->items);
    r->items = items;
    if (status == BO_OK)
        status = reserve(context, &tops, &r->top_capacity, r->top_count + token->top_count, sizeof *r->tops);
    r->tops = tops;
    if (status != BO_OK) return status;
    r->items[r->count++] = (bo_record){.id = token->id,
                                       .scored = token->scored,
                                       .logprob = token->logprob,
                                       .first_top = r->top_count,
                                       .top_count = token->top_count,
                                       .offset = r->characters,
                                       .bytes_before = r->bytes};
    for (size_t i = 0; i < token->top_count; i++)
        r->tops[r->top_count++] = (bo_top){token->top_ids[i], token->top_logprobs[i]};
    r->characters += count_characters(piece, bytes);
    r->bytes += bytes;
    return BO_OK;
}

void bo_records_clear(bo_choice_records *r)
{
    r->count = r->top_count = 0;
}

void bo_records_free(bo_choice_records *r)
{
    bo_free(r->items);
    bo_free(r->tops);
    *r = (bo_choice_records){0};
}

void bo_records_cut(bo_choice_records *r, size_t bytes)
{
    while (r->count > 0 && r->items[r->count - 1].bytes_before >= bytes) r->count--;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

void bo_token_write_name(const bo_service *service, int32_t id, bo_json_text *out)
{
    char name[16], digits[8];
    size_t bytes;
    const char *piece = piece_of(service, id, &bytes);
    if (!service->tokenizer) {
        snprintf(name, sizeof name, "%ld", (long)id);
        bo_json_string(out, name);
    } else if (bo_utf8_valid(piece, bytes) == bytes) {
        bo_json_text_of(out, piece, bytes);
    } else {
        bo_json_raw(out, "\"bytes:");
        for (size_t i = 0; i < bytes; i++) {
            snprintf(digits, sizeof digits, "\\\\x%02x", (unsigned char)piece[i]);
            bo_json_raw(out, digits);
        }
        bo_json_raw(out, "\"");
    }
}

static void write_logprob(bo_json_text *out, bool scored, float logprob)
{
    const double lowest = -9999; /* of a token with probability 0, as in other servers */
    if (scored)
        bo_json_number(out, (double)logprob > lowest ? (double)logprob : lowest);
    else
        bo_json_raw(out, "null");
}

/* True if an earlier token of the list has the same name. */
static bool is_repeated(const bo_service *service, const bo_top *tops, size_t index)
{
    size_t bytes, other_bytes;
    const char *piece = piece_of(service, tops[index].id, &bytes);
    for (size_t i = 0; i < index && service->tokenizer; i++) {
        const char *other = piece_of(service, tops[i].id, &other_bytes);
        if (other_bytes == bytes && memcmp(other, piece, bytes) == 0) return true;
    }
    return false;
}

/* Writes the most likely tokens as an object that maps names to log probabilities, or to ids. A name that two tokens
 * share is written once, for the more likely token. */
static void write_top_object(const bo_service *service, const bo_choice_records *r, const bo_record *record, bool ids,
                             bo_json_text *out)
{
    if (!record->scored) {
        bo_json_raw(out, "null");
        return;
    }
    bo_json_raw(out, "{");
    for (size_t i = 0; i < record->top_count; i++) {
        const bo_top *tops = r->tops + record->first_top; /* without most likely tokens, there is no list */
        if (is_repeated(service, tops, i)) continue;
        if (i) bo_json_raw(out, ", "); /* the first is never repeated */
        bo_token_write_name(service, tops[i].id, out);
        bo_json_raw(out, ": ");
        if (ids)
            bo_json_whole(out, (size_t)tops[i].id);
        else
            write_logprob(out, true, tops[i].logprob);
    }
    bo_json_raw(out, "}");
}

static void write_lists(const bo_service *service, const bo_choice_records *r, bool ids, bo_json_text *out)
{
    static const char *const names[] = {"{\"tokens\": [", "], \"token_logprobs\": [", "], \"top_logprobs\": [",
                                        "], \"text_offset\": [", "], \"top_token_ids\": ["};
    for (int list = 0; list < (ids ? 5 : 4); list++) {
        bo_json_raw(out, names[list]);
        for (size_t i = 0; i < r->count; i++) {
            const bo_record *record = &r->items[i];
            if (i) bo_json_raw(out, ", ");
            if (list == 0) bo_token_write_name(service, record->id, out);
            if (list == 1) write_logprob(out, record->scored, record->logprob);
            if (list == 2) write_top_object(service, r, record, false, out);
            if (list == 3) bo_json_whole(out, record->offset);
            if (list == 4) write_top_object(service, r, record, true, out);
        }
    }
    bo_json_raw(out, "]}");
}

/* {"token": …, "logprob": …, "bytes": […] without the closing brace. */
static void write_chat_token(const bo_service *service, int32_t id, bool scored, float logprob, bool ids,
                             bo_json_text *out)
{
    char number[8];
    size_t bytes;
    const char *piece = piece_of(service, id, &bytes);
    bo_json_raw(out, "{\"token\": ");
    bo_token_write_name(service, id, out);
    bo_json_raw(out, ", \"logprob\": ");
    write_logprob(out, scored, logprob);
    bo_json_raw(out, ", \"bytes\": [");
    for (size_t i = 0; i < bytes; i++) {
        snprintf(number, sizeof number, "%s%u", i ? ", " : "", (unsigned char)piece[i]);
        bo_json_raw(out, number);
    }
    bo_json_raw(out, "]");
    if (!ids) return;
    bo_json_raw(out, ", \"token_id\": ");
    bo_json_whole(out, (size_t)id);
}

static void write_content(const bo_service *service, const bo_choice_records *r, bool ids, bo_json_text *out)
{
    bo_json_raw(out, "{\"content\": [");
    for (size_t i = 0; i < r->count; i++) {
        const bo_record *record = &r->items[i];
        if (i) bo_json_raw(out, ", ");
        write_chat_token(service, record->id, record->scored, record->logprob, ids, out);
        bo_json_raw(out, ", \"top_logprobs\": [");
        for (size_t t = 0; t < record->top_count; t++) {
            const bo_top *top = &r->tops[record->first_top + t];
            if (t) bo_json_raw(out, ", ");
            write_chat_token(service, top->id, true, top->logprob, ids, out);
            bo_json_raw(out, "}");
        }
        bo_json_raw(out, "]}");
    }
    bo_json_raw(out, "], \"refusal\": null}");
}

void bo_records_write(const bo_service *service, const bo_choice_records *r, bool chat, bool ids, bo_json_text *out)
{
    if (chat)
        write_content(service, r, ids, out);
    else
        write_lists(service, r, ids, out);
}

void bo_records_write_ids(const bo_choice_records *r, bo_json_text *out)
{
    bo_json_raw(out, "[");
    for (size_t i = 0; i < r->count; i++) {
        if (i) bo_json_raw(out, ", ");
        bo_json_whole(out, (size_t)r->items[i].id);
    }
    bo_json_raw(out, "]");
}
