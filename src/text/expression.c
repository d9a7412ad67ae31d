/* Translates Oniguruma to PCRE2. The differences:
 *
 *   \w \b [[:alpha:]] … sets of Unicode characters that PCRE2 defines otherwise \p{Han} the script; PCRE2 would include
 *   script extensions \h \v \uHHHH \O other meanings in PCRE2, or none [a[bc]] [a-z&&[^x]] sets inside of sets, and
 *   their intersections x{1,3}+ x{3}? x{,3} a repeated, an optional and an open interval (?m:.) the dot matches line
 *   ends
 *
 * Line anchors are handled by the compiler (PCRE2_MULTILINE). */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "expression.h"

#include <bochner/base.h>
#include <ctype.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NESTING = 64, MAX_NAME = 48, MAX_SET = 1 << 16 };

typedef struct bo_expression_state {
    bo_context *context;
    const char *where, *expression, *at;
    bo_buffer *out;
    size_t atom;                /* start of the last repeatable item in `out` */
    size_t groups[MAX_NESTING]; /* starts of the open groups in `out` */
    size_t depth;
} bo_expression_state;

#define WORD_SET "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
/* Outside of sets, Oniguruma's \w also contains these characters. */
#define WORD WORD_SET "\\xb2\\xb3\\xb9\\xbc-\\xbe"
/* The second part is new in Unicode 16. */
#define ALPHA "\\p{Alphabetic}\\x{363}-\\x{36f}\\x{c04}\\x{f82}\\x{f83}\\x{1dd3}-\\x{1de6}\\x{11080}\\x{11081}"

static bo_status refuse(const bo_expression_state *t, const char *what)
{
    return bo_fail(t->context, BO_UNSUPPORTED, "%s: %s at byte %zu of the regular expression %.200s is not supported",
                   t->where, what, (size_t)(t->at - t->expression), t->expression);
}

static bo_status emit(bo_expression_state *t, bo_buffer *to, const char *text)
{
    return bo_buffer_append(t->context, to, text, strlen(text));
}

/* ---- properties -------------------------------------------------------------------------------------------------- */

/* The content of a set for an Oniguruma name that PCRE2 lacks or defines differently. */
static const char *named_set(const char *name)
{
    static const char *const sets[][2] = {
        {"alpha", ALPHA},
        {"alnum", ALPHA "\\p{Nd}"},
        {"upper", "\\p{Uppercase}"},
        {"lower", "\\p{Lowercase}"},
        {"punct", "\\p{P}\\p{S}"},
        {"digit", "\\p{Nd}"},
        {"space", "\\s"},
        {"blank", "\\t\\p{Zs}"},
        {"cntrl", "\\p{Cc}"},
        {"xdigit", "0-9A-Fa-f"},
        {"word", WORD_SET},
        {"any", "\\x{0}-\\x{10ffff}"},
        {"letter", "\\p{L}"},
        {"mark", "\\p{M}"},
        {"number", "\\p{N}"},
        {"punctuation", "\\p{P}"},
        {"symbol", "\\p{S}"},
        {"separator", "\\p{Z}"},
        {"other", "\\p{C}"},
        {"uppercaseletter", "\\p{Lu}"},
        {"lowercaseletter", "\\p{Ll}"},
        {"titlecaseletter", "\\p{Lt}"},
        {"casedletter", "\\p{Lu}\\p{Ll}\\p{Lt}"},
        {"modifierletter", "\\p{Lm}"},
        {"otherletter", "\\p{Lo}"},
        {"decimalnumber", "\\p{Nd}"},
        {"letternumber", "\\p{Nl}"},
        {"othernumber", "\\p{No}"},
        {"nonspacingmark", "\\p{Mn}"},
        {"spacingmark", "\\p{Mc}"},
        {"enclosingmark", "\\p{Me}"},
        {"connectorpunctuation", "\\p{Pc}"},
        {"dashpunctuation", "\\p{Pd}"},
        {"openpunctuation", "\\p{Ps}"},
        {"closepunctuation", "\\p{Pe}"},
        {"initialpunctuation", "\\p{Pi}"},
        {"finalpunctuation", "\\p{Pf}"},
        {"otherpunctuation", "\\p{Po}"},
        {"mathsymbol", "\\p{Sm}"},
        {"currencysymbol", "\\p{Sc}"},
        {"modifiersymbol", "\\p{Sk}"},
        {"othersymbol", "\\p{So}"},
        {"spaceseparator", "\\p{Zs}"},
        {"lineseparator", "\\p{Zl}"},
        {"paragraphseparator", "\\p{Zp}"},
        {"control", "\\p{Cc}"},
        {"format", "\\p{Cf}"},
        {"privateuse", "\\p{Co}"},
        {"unassigned", "\\p{Cn}"},
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; ++i)
        if (strcmp(sets[i][0], name) == 0) return sets[i][1];
    return NULL;
}

static bool compiles(const char *expression)
{
    int error;
    PCRE2_SIZE at;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &at, NULL);
    pcre2_code_free(code);
    return code != NULL;
}

/* Reads the name after \p, \P or [: up to `end`. Upper case, spaces, hyphens and underscores do not matter. */
static bo_status read_name(bo_expression_state *t, const char *end, char *name, bool *negated)
{
    size_t length = 0;
    if (*t->at == '^') {
        *negated = !*negated;
        ++t->at;
    }
    for (; strncmp(t->at, end, strlen(end)) != 0; ++t->at) {
        const unsigned char c = (unsigned char)*t->at;
        if (c == ' ' || c == '-' || c == '_') continue;
        if (length + 1 == MAX_NAME || !isalnum(c)) return refuse(t, "the name of a property");
        name[length++] = (char)tolower(c);
    }
    name[length] = 0;
    t->at += strlen(end);
    return BO_OK;
}

/* The content of a set for \p{name}; *negated: the set is the complement. */
static bo_status property(bo_expression_state *t, char character, char *set, size_t size, bool *negated)
{
    char name[MAX_NAME], script[MAX_NAME + 16];
    *negated = character == 'P';
    if (*t->at != '{') return refuse(t, "a property without braces");
    ++t->at;
    BO_TRY(read_name(t, "}", name, negated));
    const char *known = named_set(name);
    snprintf(script, sizeof script, "\\p{sc:%s}", name);
    if (known)
        snprintf(set, size, "%s", known);
    else if (strlen(name) > 2 && compiles(script))
        snprintf(set, size, "%s", script);
    else
        snprintf(set, size, "\\p{%s}", name);
    return BO_OK;
}

/* ---- escapes ----------------------------------------------------------------------------------------------------- */

/* The set of an escape such as \w: its content, and whether it is negated. "": another escape. t->at is after the
 * escaped character. */
static bo_status escaped_set(bo_expression_state *t, char character, char *set, size_t size, bool *negated)
{
    *negated = isupper((unsigned char)character) != 0;
    *set = 0;
    switch (character) {
    case 'w':
    case 'W':
        snprintf(set, size, WORD_SET);
        return BO_OK;
    case 'h':
    case 'H':
        snprintf(set, size, "0-9A-Fa-f");
        return BO_OK;
    case 's':
    case 'S':
        snprintf(set, size, "\\s");
        return BO_OK;
    case 'd':
    case 'D':
        snprintf(set, size, "\\d");
        return BO_OK;
    case 'p':
    case 'P':
        return property(t, character, set, size, negated);
    default:
        return BO_OK;
    }
}

/* An escape that denotes one character, in and outside of sets. */
static bo_status escaped_character(bo_expression_state *t, char character, bo_buffer *to)
{
    char copy[3] = {'\\', character, 0};
    if (character == 0) return refuse(t, "a backslash at the end");
    if (character == 'v') return emit(t, to, "\\x0b");
    if (character == 'u') {
        for (int i = 0; i < 4; ++i)
            if (!isxdigit((unsigned char)t->at[i])) return refuse(t, "a \\u without four digits");
        BO_TRY(emit(t, to, "\\x{"));
        BO_TRY(bo_buffer_append(t->context, to, t->at, 4));
        t->at += 4;
        return emit(t, to, "}");
    }
    if (character == 'x' && *t->at == '{') {
        const size_t bytes = strcspn(t->at, "}") + 1;
        if (t->at[bytes - 1] == 0) return refuse(t, "a \\x{");
        BO_TRY(emit(t, to, copy));
        BO_TRY(bo_buffer_append(t->context, to, t->at, bytes));
        t->at += bytes;
        return BO_OK;
    }
    if ((unsigned char)character >= 128) return bo_buffer_append(t->context, to, &character, 1); /* the rest follows */
    const bool itself = isalnum((unsigned char)character) && !strchr("tnrfaexc0123456789", character); /* \Q is a Q */
    return emit(t, to, copy + itself);
}

/* True if the content of a set is one escape, such as \s or \p{L}, whose complement has an upper-case letter. */
static bool is_escape(const char *set)
{
    return set[0] == '\\' && strchr("sdp", set[1]) && !strchr(set + 1, '\\');
}

static bo_status escape_outside(bo_expression_state *t)
{
    char set[256];
    bool negated;
    const char character = *t->at;
    if (character) ++t->at;
    BO_TRY(escaped_set(t, character, set, sizeof set, &negated));
    if (is_escape(set)) {
        if (negated) set[1] = (char)toupper((unsigned char)set[1]);
        return emit(t, t->out, set);
    }
    if (*set) {
        BO_TRY(emit(t, t->out, negated ? "[^" : "["));
        BO_TRY(emit(t, t->out, character == 'w' || character == 'W' ? WORD : set));
        return emit(t, t->out, "]");
    }
    switch (character) {
    case 'b':
        return emit(t, t->out, "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))");
    case 'B':
        return emit(t, t->out, "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))");
    case 'O':
        return emit(t, t->out, "(?s:.)");
    case 'y':
    case 'Y':
        return refuse(t, "a boundary of text segments");
    case 'A':
    case 'z':
    case 'Z':
    case 'G':
    case 'K':
    case 'R':
    case 'X':
    case 'N':
    case 'k':
    case 'g': {
        const char copy[3] = {'\\', character, 0};
        return emit(t, t->out, copy);
    }
    default:
        return escaped_character(t, character, t->out);
    }
}

/* ---- sets -------------------------------------------------------------------------------------------------------- */

/* A set is `plain`, the content of a set of PCRE2, and other expressions of one character each. */
typedef struct bo_set {
    bo_buffer plain, alternatives; /* others: "|…|…" */
    bo_buffer before;              /* "(?=…)(?=…)": the sets that this set is intersected with */
    bool negated;
} bo_set;

static void free_set(bo_set *set)
{
    bo_buffer_free(&set->plain);
    bo_buffer_free(&set->alternatives);
    bo_buffer_free(&set->before);
}

/* The union as an expression, without `before` and `negated`. */
static bo_status write_union(bo_expression_state *t, const bo_set *set, bo_buffer *to)
{
    const bool plain = set->plain.length > 0;
    if (!plain && set->alternatives.length == 0) return emit(t, to, "(?!)");
    if (set->alternatives.length > 0) BO_TRY(emit(t, to, "(?:"));
    if (plain) {
        BO_TRY(emit(t, to, "["));
        BO_TRY(bo_buffer_append(t->context, to, set->plain.bytes, set->plain.length));
        BO_TRY(emit(t, to, "]"));
    }
    if (set->alternatives.length == 0) return BO_OK;
    BO_TRY(bo_buffer_append(t->context, to, set->alternatives.bytes + !plain, set->alternatives.length - !plain));
    return emit(t, to, ")");
}

static bool is_plain(const bo_set *set)
{
    return set->plain.length > 0 && set->alternatives.length == 0 && set->before.length == 0;
}

static bo_status write_set(bo_expression_state *t, const bo_set *set, bo_buffer *to)
{
    if (is_plain(set)) {
        BO_TRY(emit(t, to, set->negated ? "[^" : "["));
        BO_TRY(bo_buffer_append(t->context, to, set->plain.bytes, set->plain.length));
        return emit(t, to, "]");
    }
    BO_TRY(emit(t, to, set->negated ? "(?:(?!" : "(?:"));
    if (set->before.length > 0) BO_TRY(bo_buffer_append(t->context, to, set->before.bytes, set->before.length));
    BO_TRY(write_union(t, set, to));
    return emit(t, to, set->negated ? ")(?s:.))" : ")");
}

/* The part before && becomes a condition for the part after it. */
static bo_status intersect(bo_expression_state *t, bo_set *set)
{
    BO_TRY(emit(t, &set->before, "(?="));
    BO_TRY(write_union(t, set, &set->before));
    BO_TRY(emit(t, &set->before, ")"));
    set->plain.length = set->alternatives.length = 0;
    return BO_OK;
}

static bo_status add_content(bo_expression_state *t, bo_set *set, const char *content, bool negated)
{
    if (!negated) return emit(t, &set->plain, content);
    BO_TRY(emit(t, &set->alternatives, "|[^"));
    BO_TRY(emit(t, &set->alternatives, content));
    return emit(t, &set->alternatives, "]");
}

static bo_status read_set(bo_expression_state *t, size_t depth, bo_set *set);

static bo_status read_nested(bo_expression_state *t, size_t depth, bo_set *set)
{
    bo_set inner = {.negated = false};
    bo_status status = read_set(t, depth + 1, &inner);
    if (status == BO_OK && is_plain(&inner) && !inner.negated)
        status = bo_buffer_append(t->context, &set->plain, inner.plain.bytes, inner.plain.length);
    else if (status == BO_OK)
        status = emit(t, &set->alternatives, "|");
    if (status == BO_OK && !(is_plain(&inner) && !inner.negated)) status = write_set(t, &inner, &set->alternatives);
    free_set(&inner);
    return status;
}

static bo_status read_posix(bo_expression_state *t, bo_set *set)
{
    char name[MAX_NAME];
    bool negated = false;
    t->at += 2;
    BO_TRY(read_name(t, ":]", name, &negated));
    const char *content = named_set(name);
    if (!content) return refuse(t, "the name of a set");
    return add_content(t, set, content, negated);
}

static bo_status read_escape(bo_expression_state *t, bo_set *set)
{
    char content[256];
    bool negated;
    const char character = *++t->at;
    if (character) ++t->at;
    BO_TRY(escaped_set(t, character, content, sizeof content, &negated));
    if (negated && is_escape(content)) {
        content[1] = (char)toupper((unsigned char)content[1]);
        return emit(t, &set->plain, content);
    }
    if (*content) return add_content(t, set, content, negated);
    if (character == 'b') return emit(t, &set->plain, "\\x08");
    return escaped_character(t, character, &set->plain);
}

static bo_status read_item(bo_expression_state *t, size_t depth, bo_set *set)
{
    if (*t->at == '[' && t->at[1] == ':' && strstr(t->at, ":]")) return read_posix(t, set);
    if (*t->at == '[') {
        ++t->at;
        return read_nested(t, depth, set);
    }
    if (*t->at == '&' && t->at[1] == '&') {
        t->at += 2;
        return intersect(t, set);
    }
    if (*t->at == '\\') return read_escape(t, set);
    return bo_buffer_append(t->context, &set->plain, t->at++, 1);
}

/* Reads up to the bracket that closes the set; t->at is after the bracket that opens it. */
static bo_status read_set(bo_expression_state *t, size_t depth, bo_set *set)
{
    if (depth == MAX_NESTING) return refuse(t, "a deeply nested set");
    if (*t->at == '^') {
        set->negated = true;
        ++t->at;
    }
    if (*t->at == ']') { /* the first one is a character */
        ++t->at;
        BO_TRY(emit(t, &set->plain, "\\]"));
    }
    while (*t->at && *t->at != ']') {
        BO_TRY(read_item(t, depth, set));
        if (set->plain.length + set->alternatives.length + set->before.length > MAX_SET) return refuse(t, "a long set");
    }
    if (!*t->at)
        return bo_fail(t->context, BO_INVALID, "%s: the regular expression %.200s is invalid: a set has no end",
                       t->where, t->expression);
    ++t->at;
    return BO_OK;
}

static bo_status translate_set(bo_expression_state *t)
{
    bo_set set = {.negated = false};
    ++t->at;
    bo_status status = read_set(t, 0, &set);
    if (status == BO_OK) status = write_set(t, &set, t->out);
    free_set(&set);
    return status;
}

/* ---- groups and repetitions -------------------------------------------------------------------------------------- */

/* (?imx-imx) and (?imx-imx: have other flags in PCRE2. Groups of other kinds are copied. */
static bo_status open_group(bo_expression_state *t)
{
    if (t->depth == MAX_NESTING) return refuse(t, "a deeply nested group");
    t->groups[t->depth++] = t->out->length;
    ++t->at;
    if (t->at[0] != '?') return emit(t, t->out, "(");
    if (strchr("~{(@", t->at[1])) return refuse(t, "this kind of group");
    const size_t flags = strspn(t->at + 1, "imx-");
    const char end = t->at[1 + flags];
    if (flags == 0 || (end != ':' && end != ')')) return emit(t, t->out, "(");
    BO_TRY(emit(t, t->out, "(?"));
    for (size_t i = 0; i < flags; ++i) {
        const char c = t->at[1 + i] == 'm' ? 's' : t->at[1 + i];
        BO_TRY(bo_buffer_append(t->context, t->out, &c, 1));
    }
    t->at += 1 + flags;
    if (end == ':') return bo_buffer_append(t->context, t->out, t->at++, 1);
    return BO_OK; /* the bracket closes the group */
}

static void close_group(bo_expression_state *t)
{
    t->atom = t->depth > 0 ? t->groups[--t->depth] : t->out->length;
}

/* Puts the last item into a group, so that it can be repeated once more. */
static bo_status wrap(bo_expression_state *t)
{
    static const char open[] = "(?:";
    const size_t bytes = sizeof open - 1;
    BO_TRY(bo_buffer_reserve(t->context, t->out, bytes + 1));
    memmove(t->out->bytes + t->atom + bytes, t->out->bytes + t->atom, t->out->length - t->atom);
    memcpy(t->out->bytes + t->atom, open, bytes);
    t->out->length += bytes;
    return emit(t, t->out, ")");
}

/* {n}, {n,}, {,m} or {n,m}; false: a literal brace. */
static bool read_interval(const char *at, char *out, size_t size, size_t *bytes, bool *fixed)
{
    const size_t low = strspn(at + 1, "0123456789");
    const bool comma = at[1 + low] == ',';
    const size_t high = comma ? strspn(at + 2 + low, "0123456789") : 0;
    *bytes = 1 + low + comma + high + 1;
    *fixed = !comma;
    if (at[*bytes - 1] != '}' || (low == 0 && high == 0) || *bytes + 2 > size) return false;
    snprintf(out, size, low ? "%.*s" : "{0%.*s", (int)(*bytes - !low), at + !low);
    return true;
}

static bo_status translate_brace(bo_expression_state *t)
{
    char interval[32];
    size_t bytes;
    bool fixed;
    if (!read_interval(t->at, interval, sizeof interval, &bytes, &fixed)) {
        t->atom = t->out->length;
        ++t->at;
        return emit(t, t->out, "\\{");
    }
    t->at += bytes;
    BO_TRY(emit(t, t->out, interval));
    return *t->at == '+' || (fixed && *t->at == '?') ? wrap(t) : BO_OK;
}

static bo_status translate_item(bo_expression_state *t)
{
    const char c = *t->at;
    if (c == '{') return translate_brace(t);
    if (c == '(') return open_group(t);
    if (c == ')') {
        BO_TRY(bo_buffer_append(t->context, t->out, t->at++, 1));
        close_group(t);
        return BO_OK;
    }
    if (strchr("*+?", c)) return bo_buffer_append(t->context, t->out, t->at++, 1);
    t->atom = t->out->length;
    if (c == '[') return translate_set(t);
    if (c == '\\') {
        ++t->at;
        return escape_outside(t);
    }
    size_t bytes = bo_utf8_length(t->at, strnlen(t->at, 4));
    if (bytes == 0) bytes = 1;
    BO_TRY(bo_buffer_append(t->context, t->out, t->at, bytes));
    t->at += bytes;
    return BO_OK;
}

bo_status bo_expression_translate(bo_context *context, const char *where, const char *expression, bo_buffer *out)
{
    bo_expression_state t = {
        .context = context, .where = where, .expression = expression, .at = expression, .out = out};
    while (*t.at) BO_TRY(translate_item(&t));
    return bo_buffer_append(context, out, "", 1);
}
