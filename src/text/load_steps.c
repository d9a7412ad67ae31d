/* Normalizers and pre-tokenizers. */
#include "load.h"

#include <string.h>
#include <utf8proc.h>

/* ---- normalizers -------------------------------------------------------------------------------------------------- */

static bo_status load_form(bo_loading *loading, const cJSON *part, bo_text_normalizer *step)
{
    static const struct {
        const char *name;
        int options;
    } forms[] = {
        {"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
        {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
        {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
        {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i)
        if (strcmp(bo_load_type(part), forms[i].name) == 0) {
            *step = (bo_text_normalizer){.kind = BO_NORMALIZE_FORM, .form = forms[i].options};
            return BO_OK;
        }
    return bo_load_refuse(loading, "a normalizer", part);
}

static bo_status keep_content(bo_loading *loading, const cJSON *part, const char *name, bo_text_normalizer *step)
{
    const char *content = bo_load_text(part, name);
    if (!content)
        return bo_fail(loading->context, BO_FORMAT, "%s: a normalizer of type %s has no \"%s\"", loading->where,
                       bo_load_type(part), name);
    step->content = bo_strdup(loading->context, content);
    return step->content ? BO_OK : BO_MEMORY;
}

bo_status bo_load_normalizer(bo_loading *loading, const cJSON *part)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    const char *type = bo_load_type(part);
    if (!part || cJSON_IsNull(part)) return BO_OK;
    if (strcmp(type, "Sequence") == 0) return bo_load_sequence(loading, part, "normalizers", bo_load_normalizer);
    if (tokenizer->normalizer_count == BO_MOST_STEPS)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: more than %d normalizers are not supported",
                       loading->where, BO_MOST_STEPS);
    bo_text_normalizer *step = &tokenizer->normalizers[tokenizer->normalizer_count++]; /* freed whatever comes of it */
    if (strcmp(type, "Prepend") == 0) {
        step->kind = BO_NORMALIZE_PREPEND;
        return keep_content(loading, part, "prepend", step);
    }
    if (strcmp(type, "Replace") == 0) {
        step->kind = BO_NORMALIZE_REPLACE;
        BO_TRY(bo_load_pattern(loading, cJSON_GetObjectItemCaseSensitive(part, "pattern"), &step->pattern));
        return keep_content(loading, part, "content", step);
    }
    if (strcmp(type, "Strip") == 0) {
        step->kind = BO_NORMALIZE_STRIP;
        step->left = bo_load_flag(part, "strip_left", true);
        step->right = bo_load_flag(part, "strip_right", true);
        return BO_OK;
    }
    if (strcmp(type, "Lowercase") == 0) {
        step->kind = BO_NORMALIZE_LOWERCASE;
        return BO_OK;
    }
    return load_form(loading, part, step);
}

/* ---- pre-tokenizers ----------------------------------------------------------------------------------------------- */

static bo_status load_byte_level(bo_loading *loading, const cJSON *part, bo_splitter *step)
{
    strcpy(step->prefix, " ");
    step->prefixing = bo_load_flag(part, "add_prefix_space", true) ? BO_PREFIX_ALWAYS : BO_PREFIX_NEVER;
    step->behavior = BO_SPLIT_ISOLATED;
    loading->tokenizer->byte_level = true;
    if (!bo_load_flag(part, "use_regex", true)) return BO_OK;
    return bo_pattern_compile(loading->context, loading->where, bo_gpt2_pattern, &step->pattern);
}

static bo_status load_split(bo_loading *loading, const cJSON *part, bo_splitter *step)
{
    static const char *const names[] = {
        [BO_SPLIT_REMOVED] = "Removed",
        [BO_SPLIT_ISOLATED] = "Isolated",
        [BO_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [BO_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [BO_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *behavior = bo_load_text(part, "behavior");
    size_t i = 0, count = sizeof names / sizeof *names;
    while (i < count && !(behavior && strcmp(behavior, names[i]) == 0)) ++i;
    if (i == count)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: the behavior \"%.80s\" of a Split is not supported",
                       loading->where, behavior ? behavior : "");
    step->behavior = (bo_behavior)i;
    step->invert = bo_load_flag(part, "invert", false);
    return bo_load_pattern(loading, cJSON_GetObjectItemCaseSensitive(part, "pattern"), &step->pattern);
}

static bo_status load_metaspace(bo_loading *loading, const cJSON *part, bo_splitter *step)
{
    const char *blank = bo_load_text(part, "replacement"), *scheme = bo_load_text(part, "prepend_scheme");
    if (!blank || !*blank || strlen(blank) >= sizeof step->blank)
        return bo_fail(loading->context, BO_FORMAT, "%s: a Metaspace has no character for \"replacement\"",
                       loading->where);
    strcpy(step->blank, blank);
    strcpy(step->prefix, blank);
    if (!scheme) scheme = bo_load_flag(part, "add_prefix_space", true) ? "always" : "never";
    step->prefixing = strcmp(scheme, "always") == 0  ? BO_PREFIX_ALWAYS
                      : strcmp(scheme, "first") == 0 ? BO_PREFIX_FIRST
                                                     : BO_PREFIX_NEVER;
    step->behavior = BO_SPLIT_MERGED_WITH_NEXT;
    return bo_load_flag(part, "split", true) ? bo_pattern_string(loading->context, blank, &step->pattern) : BO_OK;
}

/* Pre-tokenizers that are an expression and what becomes of its matches. */
static bo_status load_named(bo_loading *loading, const cJSON *part, bo_splitter *step)
{
    const char *type = bo_load_type(part), *expression = NULL;
    if (strcmp(type, "Digits") == 0) {
        bool single = bo_load_flag(part, "individual_digits", false);
        expression = "\\p{N}";
        step->behavior = single ? BO_SPLIT_ISOLATED : BO_SPLIT_CONTIGUOUS;
    } else if (strcmp(type, "Whitespace") == 0) {
        expression = "\\w+|[^\\w\\s]+";
        step->behavior = BO_SPLIT_REMOVED;
        step->invert = true;
    } else if (strcmp(type, "WhitespaceSplit") == 0) {
        expression = "\\s+";
        step->behavior = BO_SPLIT_REMOVED;
    }
    if (!expression) return bo_load_refuse(loading, "a pre-tokenizer", part);
    return bo_pattern_compile(loading->context, loading->where, expression, &step->pattern);
}

bo_status bo_load_splitter(bo_loading *loading, const cJSON *part)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    const char *type = bo_load_type(part);
    if (!part || cJSON_IsNull(part)) return BO_OK;
    if (strcmp(type, "Sequence") == 0) return bo_load_sequence(loading, part, "pretokenizers", bo_load_splitter);
    if (tokenizer->byte_level) /* what follows would split letters, which are not made here */
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: a pre-tokenizer (%.80s) after ByteLevel is not supported",
                       loading->where, type);
    if (tokenizer->splitter_count == BO_MOST_STEPS)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: more than %d pre-tokenizers are not supported",
                       loading->where, BO_MOST_STEPS);
    bo_splitter *step = &tokenizer->splitters[tokenizer->splitter_count++]; /* freed whatever comes of it */
    if (strcmp(type, "ByteLevel") == 0) return load_byte_level(loading, part, step);
    if (strcmp(type, "Split") == 0) return load_split(loading, part, step);
    if (strcmp(type, "Metaspace") == 0) return load_metaspace(loading, part, step);
    return load_named(loading, part, step);
}
