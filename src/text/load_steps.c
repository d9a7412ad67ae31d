/* The normalizers and pre-tokenizers of tokenizer.json. */
#include "load.h"

#include <bochner/base.h>
#include <string.h>
#include <utf8proc.h>

/* ---- normalizers ------------------------------------------------------------------------------------------------- */

static bo_status add_normalizer(bo_loading *loading, bo_text_normalizer step, bo_text_normalizer **out)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    if (tokenizer->normalizer_count == BO_MAX_STEPS)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: more than %d normalizers are not supported",
                       loading->where, BO_MAX_STEPS);
    bo_text_normalizer *added = &tokenizer->normalizers[tokenizer->normalizer_count++]; /* freed with the tokenizer */
    *added = step;
    if (out) *out = added;
    return BO_OK;
}

static bo_status load_content(bo_loading *loading, const bo_json *part, const char *name, bo_text_normalizer *step)
{
    const char *content = bo_load_text(part, name);
    if (!content)
        return bo_fail(loading->context, BO_FORMAT, "%s: a normalizer of type %s has no \"%s\"", loading->where,
                       bo_load_type(part), name);
    step->content = bo_strdup(loading->context, content);
    return step->content ? BO_OK : BO_MEMORY;
}

static bo_status load_prepend(bo_loading *loading, const bo_json *part)
{
    bo_text_normalizer *step = NULL;
    BO_TRY(add_normalizer(loading, (bo_text_normalizer){.kind = BO_NORMALIZE_PREPEND}, &step));
    return load_content(loading, part, "prepend", step);
}

static bo_status load_replace(bo_loading *loading, const bo_json *part)
{
    bo_text_normalizer *step = NULL;
    BO_TRY(add_normalizer(loading, (bo_text_normalizer){.kind = BO_NORMALIZE_REPLACE}, &step));
    BO_TRY(bo_load_pattern(loading, bo_json_member(part, "pattern"), &step->pattern));
    return load_content(loading, part, "content", step);
}

static bo_status load_strip(bo_loading *loading, const bo_json *part)
{
    return add_normalizer(loading,
                          (bo_text_normalizer){.kind = BO_NORMALIZE_STRIP,
                                               .left = bo_load_flag(part, "strip_left", true),
                                               .right = bo_load_flag(part, "strip_right", true)},
                          NULL);
}

static bo_status load_charsmap(bo_loading *loading, const bo_json *part)
{
    const char *text = bo_load_text(part, "precompiled_charsmap");
    bo_text_normalizer *step = NULL;
    if (!text)
        return bo_fail(loading->context, BO_FORMAT, "%s: a normalizer of type Precompiled has no character map",
                       loading->where);
    BO_TRY(add_normalizer(loading, (bo_text_normalizer){.kind = BO_NORMALIZE_CHARSMAP}, &step));
    return bo_charsmap_read(loading->context, loading->where, text, &step->charsmap);
}

enum { NFC = UTF8PROC_STABLE | UTF8PROC_COMPOSE, NFD = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE };

/* The steps of BERT: cleaned text, spaces around ideographs, no accents, lower case. */
static bo_status load_bert(bo_loading *loading, const bo_json *part)
{
    const bool lower = bo_load_flag(part, "lowercase", true);
    const bo_text_normalizer steps[] = {
        {.kind = BO_NORMALIZE_CLEAN},
        {.kind = BO_NORMALIZE_IDEOGRAPHS},
        {.kind = BO_NORMALIZE_FORM, .form = NFD},
        {.kind = BO_NORMALIZE_WITHOUT, .set = BO_CHARS_NONSPACING},
        {.kind = BO_NORMALIZE_LOWERCASE},
    };
    const bool accents = bo_load_flag(part, "strip_accents", lower);
    const bool requested[] = {bo_load_flag(part, "clean_text", true), bo_load_flag(part, "handle_chinese_chars", true),
                              accents, accents, lower};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i)
        if (requested[i]) BO_TRY(add_normalizer(loading, steps[i], NULL));
    return BO_OK;
}

/* Normalizers without settings. */
static const struct {
    const char *type;
    bo_text_normalizer step;
} plain_normalizers[] = {
    {"NFC", {.kind = BO_NORMALIZE_FORM, .form = NFC}},
    {"NFD", {.kind = BO_NORMALIZE_FORM, .form = NFD}},
    {"NFKC", {.kind = BO_NORMALIZE_FORM, .form = NFC | UTF8PROC_COMPAT}},
    {"NFKD", {.kind = BO_NORMALIZE_FORM, .form = NFD | UTF8PROC_COMPAT}},
    {"Lowercase", {.kind = BO_NORMALIZE_LOWERCASE}},
    {"StripAccents", {.kind = BO_NORMALIZE_WITHOUT, .set = BO_CHARS_MARK}},
    {"Nmt", {.kind = BO_NORMALIZE_NMT}},
    {"ByteLevel", {.kind = BO_NORMALIZE_BYTE_LEVEL}},
};

bo_status bo_load_normalizer(bo_loading *loading, const bo_json *part)
{
    static const struct {
        const char *type;
        bo_load_fn load;
    } loaders[] = {{"Prepend", load_prepend},
                   {"Replace", load_replace},
                   {"Strip", load_strip},
                   {"Precompiled", load_charsmap},
                   {"BertNormalizer", load_bert}};
    const char *type = bo_load_type(part);
    if (!part || bo_json_is(part, BO_JSON_NULL)) return BO_OK;
    if (strcmp(type, "Sequence") == 0) return bo_load_sequence(loading, part, "normalizers", bo_load_normalizer);
    for (size_t i = 0; i < sizeof loaders / sizeof *loaders; ++i)
        if (strcmp(type, loaders[i].type) == 0) return loaders[i].load(loading, part);
    for (size_t i = 0; i < sizeof plain_normalizers / sizeof *plain_normalizers; ++i)
        if (strcmp(type, plain_normalizers[i].type) == 0)
            return add_normalizer(loading, plain_normalizers[i].step, NULL);
    return bo_load_refuse(loading, "a normalizer", part);
}

/* ---- pre-tokenizers ---------------------------------------------------------------------------------------------- */

static bo_status add_splitter(bo_loading *loading, bo_splitter step, bo_splitter **out)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    if (tokenizer->splitter_count == BO_MAX_STEPS)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: more than %d pre-tokenizers are not supported",
                       loading->where, BO_MAX_STEPS);
    bo_splitter *added = &tokenizer->splitters[tokenizer->splitter_count++]; /* freed with the tokenizer */
    *added = step;
    if (out) *out = added;
    return BO_OK;
}

static bo_status read_behavior(const bo_loading *loading, const bo_json *part, const char *default_value,
                               bo_behavior *out)
{
    static const char *const names[] = {
        [BO_SPLIT_REMOVED] = "Removed",
        [BO_SPLIT_ISOLATED] = "Isolated",
        [BO_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [BO_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [BO_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *behavior = bo_load_text(part, "behavior");
    if (!behavior) behavior = default_value;
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (strcmp(behavior, names[i]) == 0) {
            *out = (bo_behavior)i;
            return BO_OK;
        }
    return bo_fail(loading->context, BO_UNSUPPORTED, "%s: the behavior \"%.80s\" of a %s is not supported",
                   loading->where, behavior, bo_load_type(part));
}

static bo_status load_byte_level(bo_loading *loading, const bo_json *part)
{
    bo_splitter *step = NULL;
    BO_TRY(
        add_splitter(loading, (bo_splitter){.prefix = " ", .behavior = BO_SPLIT_ISOLATED, .byte_level = true}, &step));
    if (bo_load_flag(part, "add_prefix_space", true)) step->prefixing = BO_PREFIX_ALWAYS;
    if (!bo_load_flag(part, "use_regex", true)) return BO_OK;
    step->cut = BO_CUT_PATTERN;
    return bo_pattern_compile(loading->context, loading->where, bo_gpt2_pattern, &step->pattern);
}

static bo_status load_split(bo_loading *loading, const bo_json *part)
{
    bo_splitter *step = NULL;
    BO_TRY(add_splitter(loading, (bo_splitter){.cut = BO_CUT_PATTERN}, &step));
    BO_TRY(read_behavior(loading, part, "", &step->behavior));
    step->invert = bo_load_flag(part, "invert", false);
    return bo_load_pattern(loading, bo_json_member(part, "pattern"), &step->pattern);
}

static bo_status read_prefixing(const bo_loading *loading, const bo_json *part, bo_prefixing *out)
{
    static const char *const names[] = {
        [BO_PREFIX_NEVER] = "never", [BO_PREFIX_FIRST] = "first", [BO_PREFIX_ALWAYS] = "always"};
    const char *scheme = bo_load_text(part, "prepend_scheme");
    if (!scheme) scheme = bo_load_flag(part, "add_prefix_space", true) ? "always" : "never";
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (strcmp(scheme, names[i]) == 0) {
            *out = (bo_prefixing)i;
            return BO_OK;
        }
    return bo_fail(loading->context, BO_FORMAT,
                   "%s: the \"prepend_scheme\" of a Metaspace is \"%.80s\", expected first, never or always",
                   loading->where, scheme);
}

static bo_status load_metaspace(bo_loading *loading, const bo_json *part)
{
    const char *replacement = bo_load_text(part, "replacement");
    bo_splitter *step = NULL;
    BO_TRY(add_splitter(loading, (bo_splitter){.behavior = BO_SPLIT_MERGED_WITH_NEXT}, &step));
    if (!replacement || !*replacement || bo_utf8_length(replacement, strlen(replacement)) != strlen(replacement))
        return bo_fail(loading->context, BO_FORMAT, "%s: a Metaspace has no character for \"replacement\"",
                       loading->where);
    strcpy(step->replacement, replacement);
    strcpy(step->prefix, replacement);
    BO_TRY(read_prefixing(loading, part, &step->prefixing));
    if (step->prefixing == BO_PREFIX_FIRST) loading->tokenizer->leads = true;
    if (!bo_load_flag(part, "split", true)) return BO_OK;
    step->cut = BO_CUT_PATTERN;
    return bo_pattern_string(loading->context, replacement, strlen(replacement), &step->pattern);
}

static bo_status load_digits(bo_loading *loading, const bo_json *part)
{
    const bool single = bo_load_flag(part, "individual_digits", false);
    const bo_splitter step = {.cut = BO_CUT_NUMERIC, .behavior = single ? BO_SPLIT_ISOLATED : BO_SPLIT_CONTIGUOUS};
    return add_splitter(loading, step, NULL);
}

static bo_status load_punctuation(bo_loading *loading, const bo_json *part)
{
    bo_splitter *step = NULL;
    BO_TRY(add_splitter(loading, (bo_splitter){.cut = BO_CUT_PUNCTUATION}, &step));
    return read_behavior(loading, part, "Isolated", &step->behavior);
}

/* Words and other symbols, without the white space between them. The characters of words are defined as in Rust. */
static bo_status load_whitespace(bo_loading *loading, const bo_json *part)
{
    bo_splitter *step = NULL;
    (void)part;
    BO_TRY(add_splitter(loading, (bo_splitter){.cut = BO_CUT_PATTERN, .behavior = BO_SPLIT_REMOVED, .invert = true},
                        &step));
    return bo_pattern_compile(loading->context, loading->where,
                              "[" BO_WORD_CHARACTERS "]+|[^" BO_WORD_CHARACTERS "\\s]+", &step->pattern);
}

static bo_status load_whitespace_split(bo_loading *loading, const bo_json *part)
{
    (void)part;
    return add_splitter(loading, (bo_splitter){.cut = BO_CUT_SPACES, .behavior = BO_SPLIT_REMOVED}, NULL);
}

static bo_status load_bert_splitter(bo_loading *loading, const bo_json *part)
{
    BO_TRY(load_whitespace_split(loading, part));
    return add_splitter(loading, (bo_splitter){.cut = BO_CUT_PUNCTUATION, .behavior = BO_SPLIT_ISOLATED}, NULL);
}

static bo_status load_delimiter(bo_loading *loading, const bo_json *part)
{
    const char *delimiter = bo_load_text(part, "delimiter");
    bo_splitter *step = NULL;
    if (!delimiter || !*delimiter)
        return bo_fail(loading->context, BO_FORMAT, "%s: a CharDelimiterSplit has no \"delimiter\"", loading->where);
    BO_TRY(add_splitter(loading, (bo_splitter){.cut = BO_CUT_PATTERN, .behavior = BO_SPLIT_REMOVED}, &step));
    return bo_pattern_string(loading->context, delimiter, strlen(delimiter), &step->pattern);
}

static bo_status load_fixed_length(bo_loading *loading, const bo_json *part)
{
    bo_splitter step = {.cut = BO_CUT_LENGTH, .chars = 5};
    const bo_json *length = bo_json_member(part, "length");
    if (length && (!bo_json_size(length, &step.chars) || step.chars == 0))
        return bo_fail(loading->context, BO_FORMAT, "%s: the \"length\" of a FixedLength is not a positive number",
                       loading->where);
    return add_splitter(loading, step, NULL);
}

bo_status bo_load_splitter(bo_loading *loading, const bo_json *part)
{
    static const struct {
        const char *type;
        bo_load_fn load;
    } loaders[] = {
        {"ByteLevel", load_byte_level},
        {"Split", load_split},
        {"Metaspace", load_metaspace},
        {"Digits", load_digits},
        {"Punctuation", load_punctuation},
        {"Whitespace", load_whitespace},
        {"WhitespaceSplit", load_whitespace_split},
        {"BertPreTokenizer", load_bert_splitter},
        {"CharDelimiterSplit", load_delimiter},
        {"Delimiter", load_delimiter},
        {"FixedLength", load_fixed_length},
    };
    const char *type = bo_load_type(part);
    if (!part || bo_json_is(part, BO_JSON_NULL)) return BO_OK;
    if (strcmp(type, "Sequence") == 0) return bo_load_sequence(loading, part, "pretokenizers", bo_load_splitter);
    for (size_t i = 0; i < sizeof loaders / sizeof *loaders; ++i)
        if (strcmp(type, loaders[i].type) == 0) return loaders[i].load(loading, part);
    return bo_load_refuse(loading, "a pre-tokenizer", part);
}
