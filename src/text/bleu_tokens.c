/* The rules of mteval-v13a, each one pass over the text: what SGML wrote is undone, then signs are set apart. */
#include "bleu.h"

typedef bool is_fn(char c);

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_other(char c)
{
    return !is_digit(c);
}

static bool is_point(char c)
{
    return c == '.' || c == ',';
}

static bool is_dash(char c)
{
    return c == '-';
}

/* The signs of ASCII but ' , - . */
static bool is_sign(char c)
{
    return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
           (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/* Every `what` becomes `with`, which is not longer. */
static void replace(bo_buffer *text, const char *what, const char *with)
{
    const size_t length = strlen(what), shorter = strlen(with);
    const char *from = text->bytes, *end = from + text->length;
    char *to = text->bytes;
    for (const char *found; (found = memmem(from, (size_t)(end - from), what, length)); from = found + length) {
        memmove(to, from, (size_t)(found - from));
        to += found - from;
        memcpy(to, with, shorter);
        to += shorter;
    }
    memmove(to, from, (size_t)(end - from));
    text->length = (size_t)(to - text->bytes) + (size_t)(end - from);
}

static bo_status set_signs_apart(bo_context *context, const bo_buffer *from, bo_buffer *to)
{
    to->length = 0;
    BO_TRY(bo_buffer_reserve(context, to, 3 * from->length));
    for (size_t i = 0; i < from->length; ++i) {
        const char c = from->bytes[i], apart[3] = {' ', c, ' '};
        const bool sign = is_sign(c);
        memcpy(to->bytes + to->length, sign ? apart : &c, sign ? 3 : 1);
        to->length += sign ? 3 : 1;
    }
    return BO_OK;
}

/* Two characters side by side, written as `form` says: 1 and 2 are they. What was matched is not looked at again. */
typedef struct bo_pair_rule {
    is_fn *first, *second;
    const char *form;
} bo_pair_rule;

static bo_status apply(bo_context *context, const bo_pair_rule *rule, const bo_buffer *from, bo_buffer *to)
{
    to->length = 0;
    BO_TRY(bo_buffer_reserve(context, to, 2 * from->length + 2));
    for (size_t i = 0; i < from->length; ++i) {
        const char *pair = from->bytes + i;
        if (i + 1 == from->length || !rule->first(pair[0]) || !rule->second(pair[1])) {
            to->bytes[to->length++] = *pair;
            continue;
        }
        for (const char *sign = rule->form; *sign; ++sign)
            to->bytes[to->length++] = *sign == ' ' ? ' ' : pair[*sign - '1'];
        ++i;
    }
    return BO_OK;
}

static bo_status tokenize(bo_context *context, const char *text, size_t bytes, bo_buffer work[2])
{
    static const char *const written[][2] = {{"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
                                             {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};
    static const bo_pair_rule rules[] = {
        {is_other, is_point, "1 2 "}, /* a point or comma, unless a digit stands before it */
        {is_point, is_other, " 1 2"}, /* … or unless one stands behind it */
        {is_digit, is_dash, "1 2 "},  /* a dash behind a digit */
    };
    BO_TRY(bo_buffer_append(context, &work[0], " ", 1));
    BO_TRY(bo_buffer_append(context, &work[0], text, bytes));
    BO_TRY(bo_buffer_append(context, &work[0], " ", 1));
    for (size_t i = 0; i < sizeof written / sizeof *written; ++i) replace(&work[0], written[i][0], written[i][1]);
    BO_TRY(set_signs_apart(context, &work[0], &work[1]));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; ++i)
        BO_TRY(apply(context, &rules[i], &work[(i + 1) % 2], &work[i % 2]));
    return BO_OK; /* three rules: the result is in work[0] */
}

bo_status bo_bleu_tokenize(bo_context *context, const char *text, size_t bytes, bo_buffer *out)
{
    bo_buffer work[2] = {{0}};
    bo_status status = tokenize(context, text, bytes, work);
    if (status == BO_OK) status = bo_buffer_append(context, out, work[0].bytes, work[0].length);
    for (int i = 0; i < 2; ++i) bo_buffer_free(&work[i]);
    return status;
}
