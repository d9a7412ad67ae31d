/* Operations on text in characters, as in Python's str. */
#include "jinja_run.h"
#include <utf8proc.h>

/* ---- characters -------------------------------------------------------------------------------------------------- */

int32_t bo_jinja_code_point(const char *text, size_t length, size_t *bytes)
{
    const unsigned char *at = (const unsigned char *)text;
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    *bytes = bo_utf8_length(text, length);
    if (*bytes == 0) { /* templates and messages are validated before */
        *bytes = 1;
        return 0xfffd;
    }
    int32_t code_point = at[0] & masks[*bytes];
    for (size_t i = 1; i < *bytes; i++) code_point = code_point << 6 | (at[i] & 0x3f);
    return code_point;
}

bool bo_jinja_is_space(int32_t code_point)
{
    return (code_point >= 9 && code_point <= 13) || (code_point >= 0x1c && code_point <= 0x20) || code_point == 0x85 ||
           code_point == 0xa0 || code_point == 0x1680 || (code_point >= 0x2000 && code_point <= 0x200a) ||
           code_point == 0x2028 || code_point == 0x2029 || code_point == 0x202f || code_point == 0x205f ||
           code_point == 0x3000;
}

static bool is_start(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

size_t bo_jinja_characters(const char *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++) count += is_start(text[i]);
    return count;
}

size_t bo_jinja_offset(const char *text, size_t length, size_t index)
{
    for (size_t i = 0; i < length; i++) {
        if (!is_start(text[i])) continue;
        if (index-- == 0) return i;
    }
    return length;
}

/* ---- strip ------------------------------------------------------------------------------------------------------- */

static bool is_among(int32_t code_point, const bo_jinja_value *characters)
{
    if (characters->kind != BO_JINJA_TEXT) return bo_jinja_is_space(code_point);
    for (size_t at = 0, bytes; at < characters->length; at += bytes)
        if (bo_jinja_code_point(characters->text + at, characters->length - at, &bytes) == code_point) return true;
    return false;
}

/* Without `characters` (ABSENT or NONE), white space is stripped. */
bo_status bo_jinja_strip(bo_jinja_run *run, const bo_jinja_value *text, const bo_jinja_value *characters, int sides,
                         bo_jinja_value *out)
{
    size_t from = 0, to = text->length, bytes;
    if (characters->kind > BO_JINJA_NONE && characters->kind != BO_JINJA_TEXT)
        return bo_jinja_wrong_type(run, "strip", "a string", characters);
    const size_t tests = characters->kind == BO_JINJA_TEXT ? characters->length : 0;
    while (sides & BO_JINJA_STRIP_LEFT && from < to) {
        BO_TRY(bo_jinja_charge(run, tests));
        if (!is_among(bo_jinja_code_point(text->text + from, to - from, &bytes), characters)) break;
        from += bytes;
    }
    while (sides & BO_JINJA_STRIP_RIGHT && from < to) {
        size_t start = to - 1;
        while (start > from && !is_start(text->text[start])) start--;
        BO_TRY(bo_jinja_charge(run, tests));
        if (!is_among(bo_jinja_code_point(text->text + start, to - start, &bytes), characters)) break;
        to = start;
    }
    *out = bo_jinja_part(text, from, to - from);
    return BO_OK;
}

/* ---- replace ----------------------------------------------------------------------------------------------------- */

/* An empty string is found before each character and at the end. */
static bo_status insert(bo_jinja_run *run, const bo_jinja_value *text, const bo_jinja_value *by, int64_t max_count,
                        bo_jinja_value *out)
{
    bo_jinja_builder builder = {0};
    for (size_t at = 0, bytes = 0; at <= text->length; at += bytes) {
        if (max_count-- > 0) BO_TRY(bo_jinja_build_text(run, &builder, by));
        if (at == text->length) break;
        bo_jinja_code_point(text->text + at, text->length - at, &bytes);
        const bo_jinja_value code_point = bo_jinja_part(text, at, bytes);
        BO_TRY(bo_jinja_build_text(run, &builder, &code_point));
    }
    *out = bo_jinja_built(&builder);
    return BO_OK;
}

/* A negative `max_count`: all of them. */
bo_status bo_jinja_replace(bo_jinja_run *run, const bo_jinja_value *text, const bo_jinja_value *old,
                           const bo_jinja_value *by, int64_t max_count, bo_jinja_value *out)
{
    bo_jinja_builder builder = {0};
    size_t at = 0;
    if (max_count < 0) max_count = INT64_MAX;
    if (old->length == 0) return insert(run, text, by, max_count, out);
    while (at < text->length && max_count-- > 0) {
        const char *found = memmem(text->text + at, text->length - at, old->text, old->length);
        if (!found) break;
        const size_t before = (size_t)(found - text->text) - at;
        const bo_jinja_value kept = bo_jinja_part(text, at, before);
        BO_TRY(bo_jinja_build_text(run, &builder, &kept));
        BO_TRY(bo_jinja_build_text(run, &builder, by));
        BO_TRY(bo_jinja_charge(run, old->length));
        at += before + old->length;
    }
    const bo_jinja_value rest = bo_jinja_part(text, at, text->length - at);
    BO_TRY(bo_jinja_build_text(run, &builder, &rest));
    *out = bo_jinja_built(&builder);
    return BO_OK;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static bool ends_line(int32_t code_point)
{
    return (code_point >= 10 && code_point <= 13) || (code_point >= 0x1c && code_point <= 0x1e) || code_point == 0x85 ||
           code_point == 0x2028 || code_point == 0x2029;
}

bo_status bo_jinja_lines(bo_jinja_run *run, const bo_jinja_value *text, bool ends, bo_jinja_value *out)
{
    size_t from = 0;
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_LIST, 0, out));
    BO_TRY(bo_jinja_charge(run, text->length));
    for (size_t at = 0, bytes; at < text->length; at += bytes) {
        if (!ends_line(bo_jinja_code_point(text->text + at, text->length - at, &bytes))) continue;
        if (text->text[at] == '\r' && at + 1 < text->length && text->text[at + 1] == '\n') bytes = 2;
        const size_t to = ends ? at + bytes : at;
        BO_TRY(bo_jinja_list_add(run, out->list, bo_jinja_part(text, from, to - from)));
        from = at + bytes;
    }
    if (from == text->length) return BO_OK;
    return bo_jinja_list_add(run, out->list, bo_jinja_part(text, from, text->length - from));
}

/* ---- upper and lower case ---------------------------------------------------------------------------------------- */

/* Characters whose upper, lower or title case depends on their neighbors or is several characters (SpecialCasing.txt of
 * Unicode); they are refused. */
static bool is_special_case(int32_t code_point)
{
    static const int32_t ranges[][2] = {{0xdf, 0xdf},     {0x130, 0x130},   {0x149, 0x149},   {0x1f0, 0x1f0},
                                        {0x345, 0x345},   {0x390, 0x390},   {0x3a3, 0x3a3},   {0x3b0, 0x3b0},
                                        {0x587, 0x587},   {0x1e96, 0x1e9a}, {0x1e9e, 0x1e9e}, {0x1f50, 0x1f57},
                                        {0x1f80, 0x1ffc}, {0xfb00, 0xfb17}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code_point >= ranges[i][0] && code_point <= ranges[i][1]) return true;
    return false;
}

static bool has_case(int32_t code_point)
{
    return utf8proc_toupper(code_point) != code_point || utf8proc_tolower(code_point) != code_point;
}

bo_status bo_jinja_change_case(bo_jinja_run *run, const bo_jinja_value *text, bo_jinja_case how, bo_jinja_value *out)
{
    bo_jinja_builder builder = {0};
    bool inside = false; /* TITLE: after a letter; CAPITALIZE: after the first character */
    static const unsigned char ones[4] = {1, 1, 1, 1};
    for (size_t at = 0, bytes; at < text->length; at += bytes) {
        const int32_t code_point = bo_jinja_code_point(text->text + at, text->length - at, &bytes);
        utf8proc_uint8_t changed[4];
        if (is_special_case(code_point))
            return bo_jinja_fail(run, BO_UNSUPPORTED, "the upper or lower case of U+%04X is not supported",
                                 (unsigned)code_point);
        const int32_t other = how == BO_JINJA_UPPER             ? utf8proc_toupper(code_point)
                              : how == BO_JINJA_LOWER || inside ? utf8proc_tolower(code_point)
                                                                : utf8proc_totitle(code_point);
        inside = how == BO_JINJA_CAPITALIZE || has_case(code_point);
        bo_jinja_value one = bo_jinja_of_text((const char *)changed, (size_t)utf8proc_encode_char(other, changed));
        if (text->marks && text->marks[at]) one.marks = ones;
        BO_TRY(bo_jinja_build_text(run, &builder, &one));
    }
    *out = bo_jinja_built(&builder);
    return BO_OK;
}
