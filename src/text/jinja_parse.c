/* Statements of a template, and the functions that both parsers use. */
#include "jinja_run.h"
#include <stdio.h>

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

bo_status bo_jinja_advance(bo_jinja_parser *parser)
{
    parser->now = parser->ahead;
    return bo_jinja_next(&parser->lexer, &parser->ahead);
}

static bool is_keyword(const bo_jinja_token *token, const char *keyword)
{
    return token->kind == BO_JINJA_NAME && token->length == strlen(keyword) &&
           memcmp(token->text, keyword, token->length) == 0;
}

bool bo_jinja_at_name(const bo_jinja_parser *parser, const char *keyword)
{
    return is_keyword(&parser->now, keyword);
}

bool bo_jinja_at_operator(const bo_jinja_parser *parser, int sign)
{
    return parser->now.kind == BO_JINJA_OPERATOR && parser->now.sign == sign;
}

bo_status bo_jinja_unexpected(bo_jinja_parser *parser, const char *expected)
{
    const bo_jinja_token *token = &parser->now;
    const bool has_text = token->kind == BO_JINJA_NAME || token->kind == BO_JINJA_OPERATOR;
    const char *found = token->kind == BO_JINJA_BLOCK_END   ? "'%}'"
                        : token->kind == BO_JINJA_PRINT_END ? "'}}'"
                        : token->kind == BO_JINJA_STRING    ? "a string"
                        : token->kind == BO_JINJA_INTEGER   ? "a number"
                        : token->kind == BO_JINJA_REAL      ? "a number"
                        : token->kind == BO_JINJA_END       ? "the end of the template"
                                                            : "text";
    return bo_fail(parser->lexer.arena->context, BO_FORMAT, "%s: line %zu: expected %s, found %s%.*s%s",
                   parser->lexer.where, token->line, expected, has_text ? "'" : found,
                   has_text ? (int)token->length : 0, has_text ? token->text : "", has_text ? "'" : "");
}

bo_status bo_jinja_expect_name(bo_jinja_parser *parser, const char *keyword)
{
    char expected[32];
    snprintf(expected, sizeof expected, "'%s'", keyword);
    return bo_jinja_at_name(parser, keyword) ? bo_jinja_advance(parser) : bo_jinja_unexpected(parser, expected);
}

bo_status bo_jinja_expect_operator(bo_jinja_parser *parser, int sign)
{
    const char expected[] = {'\'', (char)sign, '\'', 0};
    return bo_jinja_at_operator(parser, sign) ? bo_jinja_advance(parser) : bo_jinja_unexpected(parser, expected);
}

bo_status bo_jinja_deeper(bo_jinja_parser *parser)
{
    if (++parser->depth <= BO_JINJA_DEPTH) return BO_OK;
    return bo_fail(parser->lexer.arena->context, BO_UNSUPPORTED,
                   "%s: line %zu: expressions or statements are nested more than %d deep", parser->lexer.where,
                   parser->now.line, BO_JINJA_DEPTH);
}

bo_jinja_node *bo_jinja_node_new(bo_jinja_parser *parser, bo_jinja_node_kind kind)
{
    bo_jinja_node *node = bo_jinja_alloc(parser->lexer.arena, 1, sizeof *node);
    if (node) *node = (bo_jinja_node){.kind = kind, .line = parser->now.line};
    return node;
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static bo_status expect_block_end(bo_jinja_parser *parser)
{
    return parser->now.kind == BO_JINJA_BLOCK_END ? bo_jinja_advance(parser) : bo_jinja_unexpected(parser, "'%}'");
}

/* Keywords that end statements, up to the first NULL. */
typedef const char *const *end_keywords;
static bo_status parse_statements(bo_jinja_parser *parser, end_keywords ends, bo_jinja_node **out);

/* The statements up to one of the keywords, which becomes the current token. */
static bo_status parse_body(bo_jinja_parser *parser, end_keywords ends, bo_jinja_node **out)
{
    BO_TRY(expect_block_end(parser));
    BO_TRY(bo_jinja_deeper(parser));
    parser->conditions++;
    BO_TRY(parse_statements(parser, ends, out));
    parser->conditions--;
    parser->depth--;
    return BO_OK;
}

/* An elif is an IF in the place of the statements after else. */
static bo_status parse_if(bo_jinja_parser *parser, bo_jinja_node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
    for (;;) {
        BO_TRY(bo_jinja_parse_tuple(parser, false, &node->first));
        BO_TRY(parse_body(parser, ends, &node->body));
        if (!bo_jinja_at_name(parser, "elif")) break;
        BO_TRY(bo_jinja_advance(parser));
        node->else_branch = bo_jinja_node_new(parser, BO_JINJA_IF);
        node->is_chain = true;
        if (!node->else_branch) return BO_MEMORY;
        node = node->else_branch;
    }
    if (bo_jinja_at_name(parser, "else")) {
        BO_TRY(bo_jinja_advance(parser));
        BO_TRY(parse_body(parser, last, &node->else_branch));
    }
    return bo_jinja_advance(parser);
}

static bo_status refuse(bo_jinja_parser *parser, size_t line, const char *what)
{
    return bo_fail(parser->lexer.arena->context, BO_UNSUPPORTED, "%s: line %zu: %s is not supported",
                   parser->lexer.where, line, what);
}

static bo_status parse_for(bo_jinja_parser *parser, bo_jinja_node *node)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
    BO_TRY(bo_jinja_parse_target(parser, false, &node->target));
    BO_TRY(bo_jinja_expect_name(parser, "in"));
    BO_TRY(bo_jinja_parse_tuple(parser, false, &node->first));
    if (bo_jinja_at_name(parser, "if")) {
        BO_TRY(bo_jinja_advance(parser));
        BO_TRY(bo_jinja_parse_expression(parser, true, &node->second));
    }
    if (bo_jinja_at_name(parser, "recursive")) return refuse(parser, node->line, "a recursive loop");
    parser->loops++;
    BO_TRY(parse_body(parser, ends, &node->body));
    parser->loops--;
    if (bo_jinja_at_name(parser, "else")) {
        BO_TRY(bo_jinja_advance(parser));
        BO_TRY(parse_body(parser, last, &node->else_branch));
    }
    return bo_jinja_advance(parser);
}

static bo_status parse_set(bo_jinja_parser *parser, bo_jinja_node *node)
{
    static const char *const ends[] = {"endset", NULL};
    BO_TRY(bo_jinja_parse_target(parser, true, &node->target));
    if (bo_jinja_at_operator(parser, '=')) {
        BO_TRY(bo_jinja_advance(parser));
        return bo_jinja_parse_tuple(parser, true, &node->first);
    }
    if (bo_jinja_at_operator(parser, '|')) return refuse(parser, node->line, "a filter of a {% set %} block");
    node->kind = BO_JINJA_SET_BLOCK;
    BO_TRY(parse_body(parser, ends, &node->body));
    return bo_jinja_advance(parser);
}

static bo_status parse_parameters(bo_jinja_parser *parser, bo_jinja_node **at)
{
    BO_TRY(bo_jinja_expect_operator(parser, '('));
    while (!bo_jinja_at_operator(parser, ')')) {
        if (parser->now.kind != BO_JINJA_NAME) return bo_jinja_unexpected(parser, "the name of a parameter");
        bo_jinja_node *parameter = *at = bo_jinja_node_new(parser, BO_JINJA_ARGUMENT);
        if (!parameter) return BO_MEMORY;
        parameter->name = parser->now.text;
        parameter->name_length = parser->now.length;
        at = &parameter->next;
        BO_TRY(bo_jinja_advance(parser));
        if (bo_jinja_at_operator(parser, '=')) {
            BO_TRY(bo_jinja_advance(parser));
            BO_TRY(bo_jinja_parse_expression(parser, true, &parameter->first));
        }
        if (!bo_jinja_at_operator(parser, ')')) BO_TRY(bo_jinja_expect_operator(parser, ','));
    }
    return bo_jinja_advance(parser);
}

static bo_status parse_macro(bo_jinja_parser *parser, bo_jinja_node *node)
{
    static const char *const ends[] = {"endmacro", NULL};
    const int loops = parser->loops;
    if (parser->now.kind != BO_JINJA_NAME) return bo_jinja_unexpected(parser, "the name of a macro");
    node->name = parser->now.text;
    node->name_length = parser->now.length;
    BO_TRY(bo_jinja_advance(parser));
    BO_TRY(parse_parameters(parser, &node->items));
    parser->loops = 0;
    BO_TRY(parse_body(parser, ends, &node->body));
    parser->loops = loops;
    return bo_jinja_advance(parser);
}

static bo_status parse_generation(bo_jinja_parser *parser, bo_jinja_node *node)
{
    static const char *const ends[] = {"endgeneration", NULL};
    const int loops = parser->loops;
    parser->loops = 0; /* Jinja2 compiles it as a function */
    BO_TRY(parse_body(parser, ends, &node->body));
    parser->loops = loops;
    return bo_jinja_advance(parser);
}

static bo_status parse_jump(bo_jinja_parser *parser, bo_jinja_node *node)
{
    if (parser->loops > 0) return BO_OK;
    return bo_fail(parser->lexer.arena->context, BO_FORMAT, "%s: line %zu: '%s' outside of a loop", parser->lexer.where,
                   node->line, node->kind == BO_JINJA_BREAK ? "break" : "continue");
}

static bo_status parse_statement(bo_jinja_parser *parser, bo_jinja_node **out)
{
    static const struct {
        const char *keyword;
        bo_jinja_node_kind kind;
        bo_status (*parse)(bo_jinja_parser *, bo_jinja_node *);
    } statements[] = {
        {"if", BO_JINJA_IF, parse_if},
        {"for", BO_JINJA_FOR, parse_for},
        {"set", BO_JINJA_SET, parse_set},
        {"macro", BO_JINJA_DEFINE, parse_macro},
        {"break", BO_JINJA_BREAK, parse_jump},
        {"continue", BO_JINJA_CONTINUE, parse_jump},
        {"generation", BO_JINJA_SCOPE, parse_generation},
    };
    const bo_jinja_token keyword = parser->now;
    if (keyword.kind != BO_JINJA_NAME) return bo_jinja_unexpected(parser, "a statement");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!is_keyword(&keyword, statements[i].keyword)) continue;
        bo_jinja_node *node = *out = bo_jinja_node_new(parser, statements[i].kind);
        if (!node) return BO_MEMORY;
        BO_TRY(bo_jinja_advance(parser));
        BO_TRY(statements[i].parse(parser, node));
        return expect_block_end(parser);
    }
    return bo_fail(parser->lexer.arena->context, BO_UNSUPPORTED,
                   "%s: line %zu: the statement '%.*s' is not supported here", parser->lexer.where, keyword.line,
                   (int)(keyword.length < 80 ? keyword.length : 80), keyword.text);
}

static bo_status parse_print(bo_jinja_parser *parser, bo_jinja_node *node)
{
    BO_TRY(bo_jinja_advance(parser));
    BO_TRY(bo_jinja_parse_tuple(parser, true, &node->first));
    return parser->now.kind == BO_JINJA_PRINT_END ? bo_jinja_advance(parser) : bo_jinja_unexpected(parser, "'}}'");
}

static bo_status parse_data(bo_jinja_parser *parser, bo_jinja_node *node)
{
    node->name = parser->now.text;
    node->name_length = parser->now.length;
    return bo_jinja_advance(parser);
}

static bool at_end_keyword(const bo_jinja_parser *parser, end_keywords ends)
{
    for (; ends && *ends; ends++)
        if (bo_jinja_at_name(parser, *ends)) return true;
    return false;
}

/* Without keywords, up to the end of the template. */
static bo_status parse_statements(bo_jinja_parser *parser, end_keywords ends, bo_jinja_node **out)
{
    for (;; out = &(*out)->next) {
        const bo_jinja_token_kind kind = parser->now.kind;
        if (kind == BO_JINJA_END && !ends) return BO_OK;
        if (kind == BO_JINJA_END) {
            char expected[64];
            size_t last = 0;
            while (ends[last + 1]) last++;
            snprintf(expected, sizeof expected, "{%% %s %%}", ends[last]);
            return bo_jinja_unexpected(parser, expected);
        }
        if (kind == BO_JINJA_BLOCK_BEGIN) {
            BO_TRY(bo_jinja_advance(parser));
            if (at_end_keyword(parser, ends)) return BO_OK;
            BO_TRY(parse_statement(parser, out));
            continue;
        }
        *out = bo_jinja_node_new(parser, kind == BO_JINJA_DATA ? BO_JINJA_OUTPUT : BO_JINJA_PRINT);
        if (!*out) return BO_MEMORY;
        BO_TRY(kind == BO_JINJA_DATA ? parse_data(parser, *out) : parse_print(parser, *out));
    }
}

bo_status bo_jinja_parse(bo_jinja_arena *arena, const char *where, const char *text, size_t length, bo_jinja_node **out)
{
    bo_jinja_parser parser = {0};
    *out = NULL;
    BO_TRY(bo_jinja_lex(&parser.lexer, arena, where, text, length));
    BO_TRY(bo_jinja_advance(&parser));
    BO_TRY(bo_jinja_advance(&parser));
    return parse_statements(&parser, NULL, out);
}
