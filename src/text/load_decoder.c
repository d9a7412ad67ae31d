/* The decoders of tokenizer.json, and the special tokens that a template adds around a text. */
#include "load.h"

#include <bochner/base.h>
#include <string.h>

/* ---- decoders ---------------------------------------------------------------------------------------------------- */

static bo_status add_decoder(bo_loading *loading, bo_decoder step, bo_decoder **out)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    if (tokenizer->decoder_count == BO_MAX_STEPS)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: more than %d decoders are not supported", loading->where,
                       BO_MAX_STEPS);
    bo_decoder *added = &tokenizer->decoders[tokenizer->decoder_count++]; /* freed with the tokenizer */
    *added = step;
    if (out) *out = added;
    return BO_OK;
}

static bo_status load_from(bo_loading *loading, const bo_json *part, const char *name, bo_decoder *step)
{
    const char *text = bo_load_text(part, name);
    if (!text || !*text)
        return bo_fail(loading->context, BO_FORMAT, "%s: a %s has no \"%s\"", loading->where, bo_load_type(part), name);
    step->from = bo_strdup(loading->context, text);
    return step->from ? BO_OK : BO_MEMORY;
}

static bo_status load_strip(bo_loading *loading, const bo_json *part)
{
    bo_decoder *step = NULL;
    BO_TRY(add_decoder(loading, (bo_decoder){.kind = BO_DECODE_STRIP}, &step));
    bo_json_size(bo_json_member(part, "start"), &step->start);
    bo_json_size(bo_json_member(part, "stop"), &step->stop);
    return load_from(loading, part, "content", step);
}

static bo_status load_metaspace(bo_loading *loading, const bo_json *part)
{
    const char *scheme = bo_load_text(part, "prepend_scheme");
    const bool prefixed = scheme ? strcmp(scheme, "never") != 0 : bo_load_flag(part, "add_prefix_space", true);
    bo_decoder *step = NULL;
    BO_TRY(add_decoder(loading, (bo_decoder){.kind = BO_DECODE_METASPACE, .flag = prefixed}, &step));
    return load_from(loading, part, "replacement", step);
}

static bo_status load_wordpiece(bo_loading *loading, const bo_json *part)
{
    bo_decoder *step = NULL;
    BO_TRY(add_decoder(loading, (bo_decoder){.kind = BO_DECODE_WORDPIECE, .flag = bo_load_flag(part, "cleanup", true)},
                       &step));
    return load_from(loading, part, "prefix", step);
}

static bo_status load_suffix(bo_loading *loading, const bo_json *part)
{
    bo_decoder *step = NULL;
    BO_TRY(add_decoder(loading, (bo_decoder){.kind = BO_DECODE_SUFFIX}, &step));
    return load_from(loading, part, "suffix", step);
}

static bo_status load_replace(bo_loading *loading, const bo_json *part)
{
    const char *to = bo_load_text(part, "content");
    bo_decoder *step = NULL;
    BO_TRY(add_decoder(loading, (bo_decoder){.kind = BO_DECODE_REPLACE}, &step));
    if (!to) return bo_fail(loading->context, BO_FORMAT, "%s: a Replace decoder has no \"content\"", loading->where);
    step->to = bo_strdup(loading->context, to);
    if (!step->to) return BO_MEMORY;
    return bo_load_pattern(loading, bo_json_member(part, "pattern"), &step->pattern);
}

static bo_status load_byte_level(bo_loading *loading, const bo_json *part)
{
    (void)part;
    return add_decoder(loading, (bo_decoder){.kind = BO_DECODE_BYTE_LEVEL}, NULL);
}

static bo_status load_bytes(bo_loading *loading, const bo_json *part)
{
    (void)part;
    return add_decoder(loading, (bo_decoder){.kind = BO_DECODE_BYTES}, NULL);
}

static bo_status load_fuse(bo_loading *loading, const bo_json *part)
{
    (void)part;
    return add_decoder(loading, (bo_decoder){.kind = BO_DECODE_FUSE}, NULL);
}

bo_status bo_load_decoder(bo_loading *loading, const bo_json *part)
{
    static const struct {
        const char *type;
        bo_load_fn load;
    } loaders[] = {
        {"ByteLevel", load_byte_level}, {"ByteFallback", load_bytes}, {"Fuse", load_fuse},
        {"Metaspace", load_metaspace},  {"Strip", load_strip},        {"Replace", load_replace},
        {"WordPiece", load_wordpiece},  {"BPEDecoder", load_suffix},
    };
    const char *type = bo_load_type(part);
    if (!part || bo_json_is(part, BO_JSON_NULL)) return BO_OK;
    loading->tokenizer->decodes = true;
    if (strcmp(type, "Sequence") == 0) return bo_load_sequence(loading, part, "decoders", bo_load_decoder);
    for (size_t i = 0; i < sizeof loaders / sizeof *loaders; ++i)
        if (strcmp(type, loaders[i].type) == 0) return loaders[i].load(loading, part);
    return bo_load_refuse(loading, "a decoder", part);
}

/* ---- special tokens around a text -------------------------------------------------------------------------------- */

/* Templates have one to three special tokens. Each text is copied with all of them, and each is looked up by name. */
enum { MAX_FRAME = 64 };

static bo_status frame_add(bo_loading *loading, size_t id, bool before)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    size_t count = tokenizer->frame_before + tokenizer->frame_after;
    if (id >= tokenizer->info.vocab)
        return bo_fail(loading->context, BO_FORMAT, "%s: the template contains the id %zu; the vocabulary has %zu",
                       loading->where, id, tokenizer->info.vocab);
    if (count == MAX_FRAME)
        return bo_fail(loading->context, BO_UNSUPPORTED,
                       "%s: the template adds at least %zu tokens to a text, expected at most %d", loading->where,
                       count + 1, MAX_FRAME);
    int32_t *larger = bo_realloc(loading->context, tokenizer->frame, count + 1, sizeof *larger, "a template");
    if (!larger) return BO_MEMORY;
    larger[count] = (int32_t)id;
    tokenizer->frame = larger;
    ++*(before ? &tokenizer->frame_before : &tokenizer->frame_after);
    return BO_OK;
}

/* The list "single": special tokens before and after the sequence. */
static bo_status read_template(bo_loading *loading, const bo_json *part)
{
    const bo_json *known = bo_json_member(part, "special_tokens"), *item, *id;
    const bo_json *single = bo_json_member(part, "single");
    bool before = true;
    if (loading->tokenizer->frame)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: two templates are not supported", loading->where);
    if (bo_json_count(single) > MAX_FRAME + 1) /* the text is one of them */
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: the template has %d items, expected at most %d",
                       loading->where, bo_json_count(single), MAX_FRAME + 1);
    BO_JSON_EACH(item, single)
    {
        const bo_json *special = bo_json_member(item, "SpecialToken");
        const char *name = bo_load_text(special, "id");
        if (!special && !before)
            return bo_fail(loading->context, BO_UNSUPPORTED,
                           "%s: a template that contains the text twice is not supported", loading->where);
        if (!special) {
            before = false;
            continue;
        }
        const bo_json *entry = name ? bo_json_member(known, name) : NULL;
        BO_JSON_EACH(id, bo_json_member(entry, "ids"))
        {
            size_t number;
            if (!bo_json_size(id, &number))
                return bo_fail(loading->context, BO_FORMAT, "%s: the template's token \"%.80s\" has no id",
                               loading->where, name);
            BO_TRY(frame_add(loading, number, before));
        }
    }
    return BO_OK;
}

/* BERT and RoBERTa: "cls" before the text and "sep" after it, each as [token, id]. */
static bo_status read_pair(bo_loading *loading, const bo_json *part)
{
    static const char *const names[] = {"cls", "sep"};
    if (loading->tokenizer->frame)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: two templates are not supported", loading->where);
    for (int i = 0; i < 2; ++i) {
        const bo_json *pair = bo_json_member(part, names[i]);
        const bo_json *token = bo_json_is(pair, BO_JSON_ARRAY) ? pair->child : NULL;
        size_t id;
        if (!token || !bo_json_size(token->next, &id))
            return bo_fail(loading->context, BO_FORMAT, "%s: a %s has no token and id for \"%s\"", loading->where,
                           bo_load_type(part), names[i]);
        BO_TRY(frame_add(loading, id, i == 0));
    }
    return BO_OK;
}

bo_status bo_load_frame(bo_loading *loading, const bo_json *part)
{
    const char *type = bo_load_type(part);
    /* ByteLevel as a post-processor concerns offsets only */
    if (!part || bo_json_is(part, BO_JSON_NULL) || strcmp(type, "ByteLevel") == 0) return BO_OK;
    if (strcmp(type, "Sequence") == 0) return bo_load_sequence(loading, part, "processors", bo_load_frame);
    if (strcmp(type, "TemplateProcessing") == 0) return read_template(loading, part);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) return read_pair(loading, part);
    return bo_load_refuse(loading, "a post-processor", part);
}
