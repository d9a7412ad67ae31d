/* Tokens of a template. White space around tags follows the lexer of Jinja2 with trim_blocks (the newline after a block
 * or comment is dropped) and lstrip_blocks (spaces before a block or comment that starts a line are dropped). */
#include "jinja_run.h"
#include "../io/numbers.h"

enum { OUTSIDE, BEFORE_TAG, IN_BLOCK, IN_PRINT, AT_END };

static bo_status fail(const bo_jinja_lexer *lexer, bo_status status, size_t line, const char *message)
{
    return bo_fail(lexer->arena->context, status, "%s: line %zu: %s", lexer->where, line, message);
}

/* ---- characters -------------------------------------------------------------------------------------------------- */

static bool looking_at(const bo_jinja_lexer *lexer, size_t at, const char *text)
{
    const size_t length = strlen(text);
    return lexer->length - at >= length && memcmp(lexer->source + at, text, length) == 0;
}

static size_t skip_space(const bo_jinja_lexer *lexer, size_t at)
{
    while (at < lexer->length) {
        size_t bytes;
        if (!bo_jinja_is_space(bo_jinja_code_point(lexer->source + at, lexer->length - at, &bytes))) break;
        at += bytes;
    }
    return at;
}

/* Without the white space at the end of source[from, to). */
static size_t drop_space(const bo_jinja_lexer *lexer, size_t from, size_t to)
{
    while (to > from) {
        size_t start = to - 1, bytes;
        while (start > from && ((unsigned char)lexer->source[start] & 0xc0) == 0x80) start--;
        if (!bo_jinja_is_space(bo_jinja_code_point(lexer->source + start, to - start, &bytes))) break;
        to = start;
    }
    return to;
}

static void move_to(bo_jinja_lexer *lexer, size_t at)
{
    for (; lexer->at < at; lexer->at++) lexer->line += lexer->source[lexer->at] == '\n';
}

/* ---- outside of tags --------------------------------------------------------------------------------------------- */

/* The end of a text before a tag with this mark ('-', '+' or another). lstrip_blocks does not apply to {{. */
static size_t text_end(const bo_jinja_lexer *lexer, size_t from, size_t to, char mark, bool print)
{
    if (mark == '-') return drop_space(lexer, from, to);
    if (mark == '+' || print) return to;
    size_t line = to;
    while (line > from && lexer->source[line - 1] != '\n') line--;
    if (line == from && !lexer->starts_line) return to;
    return skip_space(lexer, line) >= to ? line : to;
}

/* The end of a block or comment that ends at `at` with `close` ("%}" or "#}"), and the characters dropped after it. 0:
 * none. */
static size_t tag_end(const bo_jinja_lexer *lexer, size_t at, const char *close)
{
    const char mark = at < lexer->length ? lexer->source[at] : 0;
    if (mark == '-' && looking_at(lexer, at + 1, close)) return skip_space(lexer, at + 3);
    if (mark == '+' && looking_at(lexer, at + 1, close)) return at + 3;
    if (!looking_at(lexer, at, close)) return 0;
    return at + 2 + looking_at(lexer, at + 2, "\n");
}

static size_t find_tag(const bo_jinja_lexer *lexer, size_t at)
{
    for (; at + 1 < lexer->length; at++) {
        const char next = lexer->source[at + 1];
        if (lexer->source[at] == '{' && (next == '{' || next == '%' || next == '#')) return at;
    }
    return lexer->length;
}

static char mark_at(const bo_jinja_lexer *lexer, size_t at)
{
    const char mark = at < lexer->length ? lexer->source[at] : 0;
    return mark == '-' || mark == '+' ? mark : 0;
}

static bo_status skip_comment(bo_jinja_lexer *lexer)
{
    for (size_t at = lexer->at; at < lexer->length; at++) {
        const size_t end = tag_end(lexer, at, "#}");
        if (!end) continue;
        lexer->starts_line = lexer->source[end - 1] == '\n';
        move_to(lexer, end);
        return BO_OK;
    }
    return fail(lexer, BO_FORMAT, lexer->line, "a comment without an end: expected '#}'");
}

/* The end of "{% raw %}" at `at`, which starts with "{%"; 0: another tag. */
static size_t raw_begin(const bo_jinja_lexer *lexer, size_t at)
{
    at = skip_space(lexer, at + 2 + (mark_at(lexer, at + 2) != 0));
    if (!looking_at(lexer, at, "raw")) return 0;
    at = skip_space(lexer, at + 3);
    if (looking_at(lexer, at, "-%}")) return skip_space(lexer, at + 3);
    return looking_at(lexer, at, "%}") ? at + 2 : 0;
}

static size_t raw_end(const bo_jinja_lexer *lexer, size_t at)
{
    if (!looking_at(lexer, at, "{%")) return 0;
    at = skip_space(lexer, at + 2 + (mark_at(lexer, at + 2) != 0));
    return looking_at(lexer, at, "endraw") ? tag_end(lexer, skip_space(lexer, at + 6), "%}") : 0;
}

/* The text between {% raw %} and {% endraw %}. */
static bo_status read_raw(bo_jinja_lexer *lexer, size_t begin, bo_jinja_token *out)
{
    lexer->starts_line = lexer->source[begin - 1] == '\n';
    move_to(lexer, begin);
    for (size_t at = begin; at < lexer->length; at++) {
        const size_t end = raw_end(lexer, at);
        if (!end) continue;
        const size_t stop = text_end(lexer, begin, at, mark_at(lexer, at + 2), false);
        *out = (bo_jinja_token){
            .kind = BO_JINJA_DATA, .line = lexer->line, .text = lexer->source + begin, .length = stop - begin};
        lexer->starts_line = lexer->source[end - 1] == '\n';
        move_to(lexer, end);
        return BO_OK;
    }
    return fail(lexer, BO_FORMAT, lexer->line, "{% raw %} without {% endraw %}");
}

/* A text up to the next tag, which may be empty. Consumes the start of the tag. */
static bo_status read_data(bo_jinja_lexer *lexer, bo_jinja_token *out)
{
    const size_t from = lexer->at, tag = find_tag(lexer, from);
    *out = (bo_jinja_token){.kind = BO_JINJA_DATA, .line = lexer->line, .text = lexer->source + from};
    out->length = tag - from;
    move_to(lexer, tag);
    if (tag == lexer->length) {
        lexer->state = AT_END;
        return BO_OK;
    }
    const char kind = lexer->source[tag + 1], mark = mark_at(lexer, tag + 2);
    out->length = text_end(lexer, from, tag, mark, kind == '{') - from;
    lexer->tag_line = lexer->line;
    lexer->state = BEFORE_TAG;
    lexer->tag = kind == '{' ? BO_JINJA_PRINT_BEGIN : kind == '%' ? BO_JINJA_BLOCK_BEGIN : BO_JINJA_DATA;
    lexer->raw = kind == '%' ? raw_begin(lexer, tag) : 0;
    move_to(lexer, tag + 2 + (mark != 0));
    return BO_OK;
}

/* Starts the tag after a text. *done: a token was produced. */
static bo_status begin_tag(bo_jinja_lexer *lexer, bo_jinja_token *out, bool *done)
{
    lexer->state = OUTSIDE;
    if (lexer->raw) {
        *done = true;
        return read_raw(lexer, lexer->raw, out);
    }
    if (lexer->tag == BO_JINJA_DATA) return skip_comment(lexer);
    lexer->state = lexer->tag == BO_JINJA_BLOCK_BEGIN ? IN_BLOCK : IN_PRINT;
    *out = (bo_jinja_token){.kind = lexer->tag, .line = lexer->tag_line};
    *done = true;
    return BO_OK;
}

/* ---- inside a tag ------------------------------------------------------------------------------------------------ */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static char char_at(const bo_jinja_lexer *lexer, size_t at)
{
    return at < lexer->length ? lexer->source[at] : 0;
}

/* Digits with single underscores between them. */
static size_t skip_digits(const bo_jinja_lexer *lexer, size_t at)
{
    while (is_digit(char_at(lexer, at)) || (char_at(lexer, at) == '_' && is_digit(char_at(lexer, at + 1)))) at++;
    return at;
}

/* The end of a fraction or exponent after digits that end at `at`; `at` if there is neither. */
static size_t skip_fraction(const bo_jinja_lexer *lexer, size_t at)
{
    if (char_at(lexer, at) == '.' && is_digit(char_at(lexer, at + 1))) at = skip_digits(lexer, at + 1);
    if ((char_at(lexer, at) | 32) == 'e') {
        const char sign = char_at(lexer, at + 1);
        const size_t digits = at + 1 + (sign == '+' || sign == '-');
        if (is_digit(char_at(lexer, digits))) at = skip_digits(lexer, digits);
    }
    return at;
}

static bo_status read_number(bo_jinja_lexer *lexer, bo_jinja_token *out)
{
    char digits[64];
    size_t count = 0;
    const size_t from = lexer->at, whole = skip_digits(lexer, from);
    const bool after_dot = from > 0 && lexer->source[from - 1] == '.'; /* a.0.1: items of items */
    const size_t end = after_dot ? whole : skip_fraction(lexer, whole);
    for (size_t i = from; i < end && count < sizeof digits - 1; i++)
        if (lexer->source[i] != '_') digits[count++] = lexer->source[i];
    digits[count] = 0;
    *out = (bo_jinja_token){.kind = end == whole ? BO_JINJA_INTEGER : BO_JINJA_REAL, .line = lexer->line};
    if (is_name(char_at(lexer, end)) || (end == whole && count > 1 && digits[0] == '0'))
        return fail(lexer, BO_UNSUPPORTED, lexer->line, "this way to write a number is not supported");
    if (end == whole) {
        for (size_t i = 0; i < count; i++) {
            const int64_t digit = digits[i] - '0';
            if (out->integer > (INT64_MAX - digit) / 10)
                return fail(lexer, BO_UNSUPPORTED, lexer->line, "whole numbers beyond 64 bits are not supported");
            out->integer = 10 * out->integer + digit;
        }
    } else {
        const char *stop;
        if (!bo_number_read(digits, digits + count, &stop, &out->real) || stop != digits + count)
            return fail(lexer, BO_UNSUPPORTED, lexer->line, "this way to write a number is not supported");
    }
    move_to(lexer, end);
    return BO_OK;
}

static size_t write_code_point(char *out, uint32_t code_point)
{
    const size_t bytes = code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = bytes - 1; i > 0; i--, code_point >>= 6) out[i] = (char)(0x80 | (code_point & 0x3f));
    out[0] = (char)(lead[bytes] | code_point);
    return bytes;
}

/* A number of `max_digits` hexadecimal or octal digits at source[*at]. */
static bool read_code(const bo_jinja_lexer *lexer, size_t *at, size_t min_digits, size_t max_digits, unsigned base,
                      uint32_t *out)
{
    size_t count = 0;
    *out = 0;
    for (; count < max_digits; count++, ++*at) {
        const char c = char_at(lexer, *at);
        const unsigned digit = is_digit(c)       ? (unsigned)(c - '0')
                               : (c | 32) >= 'a' ? (unsigned)((c | 32) - 'a' + 10)
                                                 : 99;
        if (digit >= base) break;
        *out = base * *out + digit;
    }
    return count >= min_digits;
}

/* An escape of Python whose backslash is at source[*at]. */
static bo_status read_escape(bo_jinja_lexer *lexer, size_t *at, char *to, size_t *length)
{
    static const char simple[] = "n\nt\tr\r\\\\'\'\"\"a\ab\bf\fv\v";
    const char c = char_at(lexer, *at + 1);
    uint32_t code_point = 0;
    bool valid = true;
    *at += 2;
    if (c == '\n') return BO_OK; /* the line continues */
    for (size_t i = 0; i + 1 < sizeof simple; i += 2) {
        if (simple[i] != c) continue;
        to[(*length)++] = simple[i + 1];
        return BO_OK;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        valid = read_code(lexer, at, digits, digits, 16, &code_point);
    } else if (c >= '0' && c <= '7') {
        --*at;
        valid = read_code(lexer, at, 1, 3, 8, &code_point);
    } else if (c == 'N' || (unsigned char)c >= 0x80) {
        valid = false;
    } else { /* not an escape: the backslash is kept */
        to[(*length)++] = '\\';
        to[(*length)++] = c;
        return BO_OK;
    }
    if (!valid || code_point == 0 || code_point > 0x10ffff || (code_point >= 0xd800 && code_point < 0xe000))
        return fail(lexer, BO_UNSUPPORTED, lexer->line, "this escape in a string is not supported");
    *length += write_code_point(to + *length, code_point);
    return BO_OK;
}

static bo_status read_string(bo_jinja_lexer *lexer, bo_jinja_token *out)
{
    const char quote = lexer->source[lexer->at];
    size_t end = lexer->at + 1, length = 0;
    while (end < lexer->length && lexer->source[end] != quote) end += lexer->source[end] == '\\' ? 2 : 1;
    if (end >= lexer->length) return fail(lexer, BO_FORMAT, lexer->line, "a string without an end");
    char *text = bo_jinja_alloc(lexer->arena, end - lexer->at, 1); /* an escape is never shorter than its character */
    if (!text) return BO_MEMORY;
    for (size_t at = lexer->at + 1; at < end;) {
        if (lexer->source[at] == '\\')
            BO_TRY(read_escape(lexer, &at, text, &length));
        else
            text[length++] = lexer->source[at++];
    }
    *out = (bo_jinja_token){.kind = BO_JINJA_STRING, .line = lexer->line, .text = text, .length = length};
    move_to(lexer, end + 1);
    return BO_OK;
}

/* Brackets are counted: }} inside of them does not end the tag. */
static bo_status balance(bo_jinja_lexer *lexer, char c)
{
    static const char brackets[] = "()[]{}";
    const char *at = strchr(brackets, c);
    if (!at) return BO_OK;
    if ((at - brackets) % 2 == 0) {
        if (lexer->open == sizeof lexer->closing)
            return fail(lexer, BO_UNSUPPORTED, lexer->line, "more than 256 brackets inside each other");
        lexer->closing[lexer->open++] = at[1];
        return BO_OK;
    }
    if (lexer->open > 0 && lexer->closing[lexer->open - 1] == c) {
        lexer->open--;
        return BO_OK;
    }
    return bo_fail(lexer->arena->context, BO_FORMAT, "%s: line %zu: unexpected '%c'", lexer->where, lexer->line, c);
}

static bo_status read_operator(bo_jinja_lexer *lexer, bo_jinja_token *out)
{
    static const struct {
        char text[3];
        int sign;
    } doubles[] = {{"==", BO_JINJA_EQUAL},    {"!=", BO_JINJA_UNEQUAL}, {"<=", BO_JINJA_AT_MOST},
                   {">=", BO_JINJA_AT_LEAST}, {"//", BO_JINJA_FLOOR},   {"**", BO_JINJA_POWER}};
    const char c = lexer->source[lexer->at];
    *out = (bo_jinja_token){
        .kind = BO_JINJA_OPERATOR, .sign = c, .line = lexer->line, .text = lexer->source + lexer->at, .length = 1};
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        if (!looking_at(lexer, lexer->at, doubles[i].text)) continue;
        out->sign = doubles[i].sign;
        out->length = 2;
        lexer->at += 2;
        return BO_OK;
    }
    if (c == 0 || !strchr("+-/*%~[](){}><=.:|,", c)) {
        size_t bytes;
        const unsigned code_point =
            (unsigned)bo_jinja_code_point(lexer->source + lexer->at, lexer->length - lexer->at, &bytes);
        return bo_fail(lexer->arena->context, BO_FORMAT, "%s: line %zu: unexpected character U+%04X inside a tag",
                       lexer->where, lexer->line, code_point);
    }
    BO_TRY(balance(lexer, c));
    lexer->at++;
    return BO_OK;
}

/* The end of the tag at `at`, outside of brackets; 0: the tag continues. */
static size_t closes(const bo_jinja_lexer *lexer, size_t at)
{
    if (lexer->open > 0) return 0;
    if (lexer->state == IN_BLOCK) return tag_end(lexer, at, "%}");
    if (looking_at(lexer, at, "-}}")) return skip_space(lexer, at + 3);
    return looking_at(lexer, at, "}}") ? at + 2 : 0;
}

static bo_status read_tag(bo_jinja_lexer *lexer, bo_jinja_token *out)
{
    move_to(lexer, skip_space(lexer, lexer->at));
    if (lexer->at == lexer->length)
        return fail(lexer, BO_FORMAT, lexer->tag_line, "a tag without an end: expected '%}' or '}}'");
    const size_t end = closes(lexer, lexer->at);
    const char c = lexer->source[lexer->at];
    if (end) {
        *out = (bo_jinja_token){.kind = lexer->state == IN_BLOCK ? BO_JINJA_BLOCK_END : BO_JINJA_PRINT_END,
                                .line = lexer->line};
        lexer->starts_line = lexer->source[end - 1] == '\n';
        lexer->state = OUTSIDE;
        move_to(lexer, end);
        return BO_OK;
    }
    if (is_digit(c)) return read_number(lexer, out);
    if (c == '"' || c == '\'') return read_string(lexer, out);
    if (!is_name(c)) return read_operator(lexer, out);
    const size_t from = lexer->at;
    while (is_name(char_at(lexer, lexer->at)) || is_digit(char_at(lexer, lexer->at))) lexer->at++;
    *out = (bo_jinja_token){
        .kind = BO_JINJA_NAME, .line = lexer->line, .text = lexer->source + from, .length = lexer->at - from};
    return BO_OK;
}

/* ---- the lexer --------------------------------------------------------------------------------------------------- */

bo_status bo_jinja_lex(bo_jinja_lexer *lexer, bo_jinja_arena *arena, const char *where, const char *text, size_t length)
{
    char *copy = bo_jinja_alloc(arena, length, 1);
    size_t count = 0;
    if (!copy) return BO_MEMORY;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\r' && i + 1 < length && text[i + 1] == '\n') continue;
        copy[count++] = text[i];
        if (text[i] == '\r') copy[count - 1] = '\n';
    }
    if (count > 0 && copy[count - 1] == '\n') count--;
    *lexer = (bo_jinja_lexer){
        .arena = arena, .where = where, .source = copy, .length = count, .line = 1, .starts_line = true};
    return BO_OK;
}

bo_status bo_jinja_next(bo_jinja_lexer *lexer, bo_jinja_token *out)
{
    for (;;) {
        if (lexer->state == OUTSIDE) {
            BO_TRY(read_data(lexer, out));
            if (out->length > 0) return BO_OK;
        } else if (lexer->state == BEFORE_TAG) {
            bool done = false;
            BO_TRY(begin_tag(lexer, out, &done));
            if (done && (out->kind != BO_JINJA_DATA || out->length > 0)) return BO_OK;
        } else if (lexer->state == AT_END) {
            *out = (bo_jinja_token){.kind = BO_JINJA_END, .line = lexer->line};
            return BO_OK;
        } else {
            return read_tag(lexer, out);
        }
    }
}
