#include "members.h"
#include "../text/unicode.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum {
    COMPLETION = 1 << BO_REQUEST_COMPLETION,
    CHAT = 1 << BO_REQUEST_CHAT,
    EMBEDDING = 1 << BO_REQUEST_EMBEDDING,
    TOKENIZE = 1 << BO_REQUEST_TOKENIZE,
    DETOKENIZE = 1 << BO_REQUEST_DETOKENIZE,
    STATE = 1 << BO_REQUEST_STATE,
    TEXT = COMPLETION | CHAT,
    MESSAGES = CHAT | TOKENIZE | STATE,
    ALL = TEXT | EMBEDDING | TOKENIZE | DETOKENIZE | STATE
};

/* A member that no code reads. `values`: the values, as JSON, that are accepted because the response is as requested;
 * "": none; NULL: all, because the member never changes the response. */
typedef struct member_rule {
    const char *name;
    unsigned kinds;
    const char *values;
} member_rule;

/* docs/reference/http.md lists these members and the programs that define them. */
static const member_rule rules[] = {
    /* the sender, accounting, scheduling and caching */
    {"model", ALL, NULL},
    {"user", ALL, NULL},
    {"metadata", ALL, NULL},
    {"store", ALL, NULL},
    {"service_tier", ALL, NULL},
    {"safety_identifier", ALL, NULL},
    {"prompt_cache_key", ALL, NULL},
    {"prompt_cache_retention", ALL, NULL},
    {"request_id", ALL, NULL},
    {"priority", ALL, NULL},
    {"cache_prompt", TEXT, NULL},
    {"id_slot", TEXT, NULL},
    {"prediction", CHAT, NULL},
    /* settings of features that are refused below or never occur */
    {"parallel_tool_calls", CHAT, NULL},
    {"include_reasoning", CHAT, NULL},
    {"guided_decoding_backend", TEXT, NULL},
    {"guided_whitespace_pattern", TEXT, NULL},
    {"length_penalty", TEXT, NULL},
    {"spaces_between_special_tokens", TEXT, NULL},
    {"mirostat_tau", TEXT, NULL},
    {"mirostat_eta", TEXT, NULL},
    {"dynatemp_exponent", TEXT, NULL},
    {"xtc_threshold", TEXT, NULL},
    {"dry_base", TEXT, NULL},
    {"dry_allowed_length", TEXT, NULL},
    {"dry_penalty_last_n", TEXT, NULL},
    {"dry_sequence_breakers", TEXT, NULL},
    {"return_token_strs", TOKENIZE, NULL},
    /* the form of the response */
    {"response_format", TEXT, "{\"type\": \"text\"}"},
    {"tool_choice", MESSAGES, "\"none\", \"auto\""},
    {"functions", CHAT, "[]"},
    {"function_call", CHAT, "\"none\", \"auto\""},
    {"grammar", TEXT, "\"\""},
    {"json_schema", TEXT, ""},
    {"regex", TEXT, ""},
    {"ebnf", TEXT, ""},
    {"guided_json", TEXT, ""},
    {"guided_regex", TEXT, ""},
    {"guided_choice", TEXT, ""},
    {"guided_grammar", TEXT, ""},
    {"structural_tag", TEXT, ""},
    {"structured_outputs", TEXT, ""},
    {"suffix", COMPLETION, "\"\""},
    {"modalities", CHAT, "[\"text\"]"},
    {"audio", CHAT, ""},
    {"verbosity", CHAT, "\"medium\""},
    {"reasoning_effort", CHAT, "\"none\""},
    {"web_search_options", CHAT, ""},
    /* the tokens that may be sampled, and where generation ends */
    {"min_tokens", TEXT, "0"},
    {"stop_token_ids", TEXT, "[]"},
    {"include_stop_str_in_output", TEXT, "false"},
    {"allowed_token_ids", TEXT, ""},
    {"bad_words", TEXT, "[]"},
    {"logits_processors", TEXT, "[]"},
    {"use_beam_search", TEXT, "false"},
    {"early_stopping", TEXT, "false"},
    {"typical_p", TEXT, "1"},
    {"repeat_penalty", TEXT, "1"},
    {"repeat_last_n", TEXT, "64"},
    {"mirostat", TEXT, "0"},
    {"dynatemp_range", TEXT, "0"},
    {"xtc_probability", TEXT, "0"},
    {"dry_multiplier", TEXT, "0"},
    {"samplers", TEXT, ""},
    /* the tokens to read */
    {"truncate_prompt_tokens", TEXT | EMBEDDING, ""},
    {"add_special_tokens", COMPLETION | EMBEDDING, "true"},
    {"add_special_tokens", CHAT, "false"},
    {"chat_template", MESSAGES, ""},
    {"documents", MESSAGES, "[]"},
    {"add_generation_prompt", MESSAGES, "true"},
    {"continue_final_message", MESSAGES, "false"},
    {"cache_salt", ALL, ""},
    /* the contents of the response */
    {"echo", CHAT, "false"},
    {"skip_special_tokens", TEXT, "true"},
    {"return_tokens_as_token_ids", TEXT, "false"},
    {"prompt_logprobs", TEXT, ""},
    {"n_probs", TEXT, "0"},
    {"timings_per_token", TEXT, "false"},
    {"normalize", EMBEDDING, "false"},
};

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static bool was_read(const bo_member_names *read, const char *name)
{
    for (size_t i = 0; i < read->count; i++)
        if (strcmp(read->items[i], name) == 0) return true;
    return false;
}

void bo_members_add(bo_member_names *read, const char *name)
{
    if (was_read(read, name)) return;
    assert(read->count < sizeof read->items / sizeof *read->items);
    read->items[read->count++] = name;
}

/* A proxy that checks requests may use the other value of a repeated member. */
static bool occurs_before(const bo_json *body, const bo_json *item)
{
    for (const bo_json *before = body->child; before != item; before = before->next)
        if (strcmp(before->key, item->key) == 0) return true;
    return false;
}

/* Refuses a member. The message shows at most 64 bytes of its name, without partial characters. */
static bool refuse_name(const char *name, const char *why, bo_refusal *refusal)
{
    const size_t length = strlen(name), shown = bo_utf8_valid(name, length < 64 ? length : 64);
    return bo_refuse(refusal, 400, name, "%.*s%s: %s", (int)shown, name, shown < length ? "…" : "", why);
}

bool bo_members_check_names(const bo_json *body, bo_refusal *refusal)
{
    enum { MAX_MEMBERS = 256 }; /* more than the number of known names */
    size_t count = 0;
    for (const bo_json *item = body->child; item; item = item->next) {
        if (++count > MAX_MEMBERS)
            return bo_refuse(refusal, 400, NULL, "the body has more than %d members", MAX_MEMBERS);
        if (occurs_before(body, item)) return refuse_name(item->key, "the member occurs twice", refusal);
    }
    return true;
}

bool bo_members_are_few(const bo_json *object)
{
    enum { MAX_FIELDS = 64 };
    int count = 0;
    for (const bo_json *item = object->child; item && count <= MAX_FIELDS; item = item->next) count++;
    return count <= MAX_FIELDS;
}

static const member_rule *find_rule(const char *name, bo_request_kind kind)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if ((rules[i].kinds & 1u << kind) && strcmp(rules[i].name, name) == 0) return &rules[i];
    return NULL;
}

static bool check_value(const bo_json *item, const char *values, bo_refusal *refusal)
{
    char list[64];
    bool found = false;
    const bo_json *value;
    if (!values[0]) return bo_refuse(refusal, 400, item->key, "%s is not supported; leave it out", item->key);
    snprintf(list, sizeof list, "[%s]", values);
    bo_json *all = bo_json_read(list, strlen(list), NULL);
    if (!all) return bo_refuse(refusal, 500, NULL, "out of memory for the request");
    BO_JSON_EACH(value, all) found = found || bo_json_equal(item, value);
    const bool several = all->child->next;
    bo_json_delete(all);
    return found ||
           bo_refuse(refusal, 400, item->key, "%s: this value is not supported; leave the member out, or give %s%s",
                     item->key, several ? "one of " : "", values);
}

static bool check_member(const bo_json *item, bo_request_kind kind, const bo_member_names *read, bo_refusal *refusal)
{
    if (bo_json_is(item, BO_JSON_NULL) || was_read(read, item->key)) return true;
    const member_rule *rule = find_rule(item->key, kind);
    if (!rule)
        return refuse_name(item->key, "requests of this kind have no such member; /openapi.json lists the members",
                           refusal);
    return !rule->values || check_value(item, rule->values, refusal);
}

bool bo_members_check(const bo_json *body, bo_request_kind kind, const bo_member_names *read, bo_refusal *refusal)
{
    for (const bo_json *item = body->child; item; item = item->next)
        if (!check_member(item, kind, read, refusal)) return false;
    return true;
}
