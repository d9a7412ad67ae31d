/* Expressions of a template, by recursive descent with the precedence of Jinja2: if-else, or, and, not, comparisons,
 * + -, ~, * / // %, **, unary signs, then filters and tests. */
#include "jinja_run.h"

static bo_jinja_node *new_node(bo_jinja_parser *parser, bo_jinja_node_kind kind, bo_jinja_node *first)
{
    bo_jinja_node *node = bo_jinja_node_new(parser, kind);
    if (node) node->first = first;
    if (node && first) node->line = first->line;
    return node;
}

static void set_name(bo_jinja_node *node, const bo_jinja_token *token)
{
    node->name = token->text;
    node->name_length = token->length;
}

/* Checks the length of a chain of operators, because its nodes are nested as deep as the chain is long. */
static bo_status chain(bo_jinja_parser *parser, int *links)
{
    if (++*links <= BO_JINJA_DEPTH / 2) return BO_OK;
    return bo_fail(parser->lexer.arena->context, BO_UNSUPPORTED,
                   "%s: line %zu: more than %d operators in a row are not supported", parser->lexer.where,
                   parser->now.line, BO_JINJA_DEPTH / 2);
}

/* ---- literals ---------------------------------------------------------------------------------------------------- */

static bo_status parse_constant(bo_jinja_parser *parser, bo_jinja_value value, bo_jinja_node **out)
{
    *out = bo_jinja_node_new(parser, BO_JINJA_CONSTANT);
    if (!*out) return BO_MEMORY;
    (*out)->value = value;
    return bo_jinja_advance(parser);
}

static bo_status parse_name(bo_jinja_parser *parser, bo_jinja_node **out)
{
    static const struct {
        const char *keyword;
        bo_jinja_value value;
    } constants[] = {
        {"true", {.kind = BO_JINJA_BOOLEAN, .boolean = true}},
        {"True", {.kind = BO_JINJA_BOOLEAN, .boolean = true}},
        {"false", {.kind = BO_JINJA_BOOLEAN}},
        {"False", {.kind = BO_JINJA_BOOLEAN}},
        {"none", {.kind = BO_JINJA_NONE}},
        {"None", {.kind = BO_JINJA_NONE}},
    };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (bo_jinja_at_name(parser, constants[i].keyword)) return parse_constant(parser, constants[i].value, out);
    *out = bo_jinja_node_new(parser, BO_JINJA_VARIABLE);
    if (!*out) return BO_MEMORY;
    set_name(*out, &parser->now);
    return bo_jinja_advance(parser);
}

/* Adjacent strings are concatenated. */
static bo_status parse_string(bo_jinja_parser *parser, bo_jinja_node **out)
{
    BO_TRY(parse_constant(parser, bo_jinja_of_text(parser->now.text, parser->now.length), out));
    while (parser->now.kind == BO_JINJA_STRING) {
        bo_jinja_value *value = &(*out)->value;
        char *both = bo_jinja_alloc(parser->lexer.arena, value->length + parser->now.length, 1);
        if (!both) return BO_MEMORY;
        if (value->length) memcpy(both, value->text, value->length);
        if (parser->now.length) memcpy(both + value->length, parser->now.text, parser->now.length);
        *value = bo_jinja_of_text(both, value->length + parser->now.length);
        BO_TRY(bo_jinja_advance(parser));
    }
    return BO_OK;
}

static bo_status parse_list(bo_jinja_parser *parser, bo_jinja_node **out)
{
    bo_jinja_node *list = *out = bo_jinja_node_new(parser, BO_JINJA_MAKE_LIST);
    if (!list) return BO_MEMORY;
    BO_TRY(bo_jinja_advance(parser));
    for (bo_jinja_node **at = &list->items; !bo_jinja_at_operator(parser, ']'); at = &(*at)->next) {
        BO_TRY(bo_jinja_parse_expression(parser, true, at));
        if (!bo_jinja_at_operator(parser, ']')) BO_TRY(bo_jinja_expect_operator(parser, ','));
    }
    return bo_jinja_advance(parser);
}

static bo_status parse_dict(bo_jinja_parser *parser, bo_jinja_node **out)
{
    bo_jinja_node *dict = *out = bo_jinja_node_new(parser, BO_JINJA_MAKE_DICT);
    if (!dict) return BO_MEMORY;
    BO_TRY(bo_jinja_advance(parser));
    for (bo_jinja_node **at = &dict->items; !bo_jinja_at_operator(parser, '}'); at = &(*at)->next) {
        *at = bo_jinja_node_new(parser, BO_JINJA_ARGUMENT);
        if (!*at) return BO_MEMORY;
        BO_TRY(bo_jinja_parse_expression(parser, true, &(*at)->first));
        BO_TRY(bo_jinja_expect_operator(parser, ':'));
        BO_TRY(bo_jinja_parse_expression(parser, true, &(*at)->second));
        if (!bo_jinja_at_operator(parser, '}')) BO_TRY(bo_jinja_expect_operator(parser, ','));
    }
    return bo_jinja_advance(parser);
}

/* An expression in parentheses, or a tuple. */
static bo_status parse_parentheses(bo_jinja_parser *parser, bo_jinja_node **out)
{
    BO_TRY(bo_jinja_advance(parser));
    if (bo_jinja_at_operator(parser, ')')) {
        *out = bo_jinja_node_new(parser, BO_JINJA_MAKE_TUPLE);
        return *out ? bo_jinja_advance(parser) : BO_MEMORY;
    }
    BO_TRY(bo_jinja_parse_tuple(parser, true, out));
    return bo_jinja_expect_operator(parser, ')');
}

static bo_status parse_primary(bo_jinja_parser *parser, bo_jinja_node **out)
{
    const bo_jinja_token *token = &parser->now;
    if (token->kind == BO_JINJA_NAME) return parse_name(parser, out);
    if (token->kind == BO_JINJA_STRING) return parse_string(parser, out);
    if (token->kind == BO_JINJA_INTEGER) return parse_constant(parser, bo_jinja_of_whole(token->integer), out);
    if (token->kind == BO_JINJA_REAL)
        return parse_constant(parser, (bo_jinja_value){.kind = BO_JINJA_FRACTION, .fraction = token->real}, out);
    if (bo_jinja_at_operator(parser, '(')) return parse_parentheses(parser, out);
    if (bo_jinja_at_operator(parser, '[')) return parse_list(parser, out);
    if (bo_jinja_at_operator(parser, '{')) return parse_dict(parser, out);
    return bo_jinja_unexpected(parser, "an expression");
}

/* ---- attributes, items, calls ------------------------------------------------------------------------------------ */

static bo_status parse_dot(bo_jinja_parser *parser, bo_jinja_node *of, bo_jinja_node **out)
{
    BO_TRY(bo_jinja_advance(parser));
    if (parser->now.kind == BO_JINJA_INTEGER) {
        *out = new_node(parser, BO_JINJA_ITEM, of);
        return *out ? parse_constant(parser, bo_jinja_of_whole(parser->now.integer), &(*out)->second) : BO_MEMORY;
    }
    if (parser->now.kind != BO_JINJA_NAME) return bo_jinja_unexpected(parser, "the name of an attribute");
    *out = new_node(parser, BO_JINJA_ATTRIBUTE, of);
    if (!*out) return BO_MEMORY;
    (*out)->line = parser->now.line;
    set_name(*out, &parser->now);
    return bo_jinja_advance(parser);
}

static bool ends_bound(const bo_jinja_parser *parser)
{
    return bo_jinja_at_operator(parser, ':') || bo_jinja_at_operator(parser, ']');
}

static bo_status parse_item(bo_jinja_parser *parser, bo_jinja_node *of, bo_jinja_node **out)
{
    bo_jinja_node *node = *out = new_node(parser, BO_JINJA_ITEM, of);
    if (!node) return BO_MEMORY;
    BO_TRY(bo_jinja_advance(parser));
    if (!bo_jinja_at_operator(parser, ':')) BO_TRY(bo_jinja_parse_expression(parser, true, &node->second));
    if (bo_jinja_at_operator(parser, ':')) {
        node->kind = BO_JINJA_SLICE;
        BO_TRY(bo_jinja_advance(parser));
        if (!ends_bound(parser)) BO_TRY(bo_jinja_parse_expression(parser, true, &node->third));
        if (bo_jinja_at_operator(parser, ':')) {
            BO_TRY(bo_jinja_advance(parser));
            if (!ends_bound(parser)) BO_TRY(bo_jinja_parse_expression(parser, true, &node->fourth));
        }
    }
    return bo_jinja_expect_operator(parser, ']');
}

static bool at_keyword(const bo_jinja_parser *parser)
{
    return parser->now.kind == BO_JINJA_NAME && parser->ahead.kind == BO_JINJA_OPERATOR && parser->ahead.sign == '=';
}

/* Arguments in parentheses. */
static bo_status parse_arguments(bo_jinja_parser *parser, bo_jinja_node **at)
{
    bool keywords = false;
    BO_TRY(bo_jinja_expect_operator(parser, '('));
    for (; !bo_jinja_at_operator(parser, ')'); at = &(*at)->next) {
        bo_jinja_node *argument = *at = bo_jinja_node_new(parser, BO_JINJA_ARGUMENT);
        if (!argument) return BO_MEMORY;
        if (bo_jinja_at_operator(parser, '*') || bo_jinja_at_operator(parser, BO_JINJA_POWER))
            return bo_fail(parser->lexer.arena->context, BO_UNSUPPORTED,
                           "%s: line %zu: arguments with * or ** are not supported", parser->lexer.where,
                           parser->now.line);
        if (at_keyword(parser)) {
            set_name(argument, &parser->now);
            BO_TRY(bo_jinja_advance(parser));
            BO_TRY(bo_jinja_advance(parser));
            keywords = true;
        } else if (keywords) {
            return bo_jinja_unexpected(parser, "a keyword argument");
        }
        BO_TRY(bo_jinja_parse_expression(parser, true, &argument->first));
        if (!bo_jinja_at_operator(parser, ')')) BO_TRY(bo_jinja_expect_operator(parser, ','));
    }
    return bo_jinja_advance(parser);
}

static bo_status parse_call(bo_jinja_parser *parser, bo_jinja_node *of, bo_jinja_node **out)
{
    *out = new_node(parser, BO_JINJA_CALL, of);
    return *out ? parse_arguments(parser, &(*out)->items) : BO_MEMORY;
}

static bo_status parse_postfix(bo_jinja_parser *parser, bo_jinja_node **out)
{
    for (int links = 0;;) {
        BO_TRY(chain(parser, &links));
        if (bo_jinja_at_operator(parser, '.'))
            BO_TRY(parse_dot(parser, *out, out));
        else if (bo_jinja_at_operator(parser, '['))
            BO_TRY(parse_item(parser, *out, out));
        else if (bo_jinja_at_operator(parser, '('))
            BO_TRY(parse_call(parser, *out, out));
        else
            return BO_OK;
    }
}

/* ---- filters and tests ------------------------------------------------------------------------------------------- */

/* Refused immediately if it is always executed, as in Jinja2. */
static bo_status unknown(bo_jinja_parser *parser, const char *what, const bo_jinja_token *name)
{
    if (parser->conditions > 0) return BO_OK;
    return bo_fail(parser->lexer.arena->context, BO_UNSUPPORTED, "%s: line %zu: the %s '%.*s' is not supported",
                   parser->lexer.where, name->line, what, (int)(name->length < 80 ? name->length : 80), name->text);
}

static bo_status parse_filter(bo_jinja_parser *parser, bo_jinja_node **out)
{
    BO_TRY(bo_jinja_advance(parser));
    const bo_jinja_token name = parser->now;
    if (name.kind != BO_JINJA_NAME) return bo_jinja_unexpected(parser, "the name of a filter");
    bo_jinja_node *node = new_node(parser, BO_JINJA_FILTER, *out);
    if (!node) return BO_MEMORY;
    node->line = name.line;
    node->filter = bo_jinja_find_filter(name.text, name.length);
    set_name(node, &name);
    if (!node->filter) BO_TRY(unknown(parser, "filter", &name));
    *out = node;
    BO_TRY(bo_jinja_advance(parser));
    return bo_jinja_at_operator(parser, '(') ? parse_arguments(parser, &node->items) : BO_OK;
}

/* A test takes one argument without parentheses: "is divisibleby 3". */
static bool at_test_argument(const bo_jinja_parser *parser)
{
    const bo_jinja_token_kind kind = parser->now.kind;
    if (kind == BO_JINJA_NAME)
        return !bo_jinja_at_name(parser, "else") && !bo_jinja_at_name(parser, "or") && !bo_jinja_at_name(parser, "and");
    return kind == BO_JINJA_STRING || kind == BO_JINJA_INTEGER || kind == BO_JINJA_REAL ||
           bo_jinja_at_operator(parser, '[') || bo_jinja_at_operator(parser, '{');
}

static bo_status parse_test(bo_jinja_parser *parser, bo_jinja_node **out)
{
    bool negated = false;
    BO_TRY(bo_jinja_advance(parser));
    if (bo_jinja_at_name(parser, "not")) {
        negated = true;
        BO_TRY(bo_jinja_advance(parser));
    }
    const bo_jinja_token name = parser->now;
    if (name.kind != BO_JINJA_NAME) return bo_jinja_unexpected(parser, "the name of a test");
    bo_jinja_node *node = new_node(parser, BO_JINJA_TEST, *out);
    if (!node) return BO_MEMORY;
    node->line = name.line;
    node->filter = bo_jinja_find_test(name.text, name.length);
    set_name(node, &name);
    if (!node->filter) BO_TRY(unknown(parser, "test", &name));
    BO_TRY(bo_jinja_advance(parser));
    if (bo_jinja_at_operator(parser, '(')) {
        BO_TRY(parse_arguments(parser, &node->items));
    } else if (at_test_argument(parser)) {
        if (bo_jinja_at_name(parser, "is")) return bo_jinja_unexpected(parser, "one test");
        node->items = bo_jinja_node_new(parser, BO_JINJA_ARGUMENT);
        if (!node->items) return BO_MEMORY;
        BO_TRY(bo_jinja_deeper(parser));
        BO_TRY(parse_primary(parser, &node->items->first));
        BO_TRY(parse_postfix(parser, &node->items->first));
        parser->depth--;
    }
    *out = negated ? new_node(parser, BO_JINJA_NOT, node) : node;
    return *out ? BO_OK : BO_MEMORY;
}

static bo_status parse_filters(bo_jinja_parser *parser, bo_jinja_node **out)
{
    for (int links = 0;;) {
        BO_TRY(chain(parser, &links));
        if (bo_jinja_at_operator(parser, '|'))
            BO_TRY(parse_filter(parser, out));
        else if (bo_jinja_at_name(parser, "is"))
            BO_TRY(parse_test(parser, out));
        else if (bo_jinja_at_operator(parser, '('))
            BO_TRY(parse_call(parser, *out, out));
        else
            return BO_OK;
    }
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static bo_status parse_unary(bo_jinja_parser *parser, bool filters, bo_jinja_node **out)
{
    const bool minus = bo_jinja_at_operator(parser, '-');
    if (minus || bo_jinja_at_operator(parser, '+')) {
        bo_jinja_node *node = bo_jinja_node_new(parser, minus ? BO_JINJA_NEGATE : BO_JINJA_KEEP_SIGN);
        if (!node) return BO_MEMORY;
        BO_TRY(bo_jinja_deeper(parser));
        BO_TRY(bo_jinja_advance(parser));
        BO_TRY(parse_unary(parser, false, &node->first));
        parser->depth--;
        *out = node;
    } else {
        BO_TRY(parse_primary(parser, out));
    }
    BO_TRY(parse_postfix(parser, out));
    return filters ? parse_filters(parser, out) : BO_OK;
}

/* Levels of binary operators from loose to tight; all are left-associative. */
static const int levels[][5] = {{'+', '-'}, {'~'}, {'*', '/', BO_JINJA_FLOOR, '%'}, {BO_JINJA_POWER}};
enum { LEVELS = sizeof levels / sizeof *levels };

static int sign_of_level(const bo_jinja_parser *parser, int level)
{
    for (const int *sign = levels[level]; *sign; sign++)
        if (bo_jinja_at_operator(parser, *sign)) return *sign;
    return 0;
}

static bo_status parse_binary(bo_jinja_parser *parser, int level, bo_jinja_node **out)
{
    if (level == LEVELS) return parse_unary(parser, true, out);
    BO_TRY(parse_binary(parser, level + 1, out));
    for (int links = 0, sign; (sign = sign_of_level(parser, level)) != 0;) {
        bo_jinja_node *node = new_node(parser, BO_JINJA_ARITHMETIC, *out);
        if (!node) return BO_MEMORY;
        node->sign = sign;
        node->line = parser->now.line;
        BO_TRY(chain(parser, &links));
        BO_TRY(bo_jinja_advance(parser));
        BO_TRY(parse_binary(parser, level + 1, &node->second));
        *out = node;
    }
    return BO_OK;
}

static int comparison(const bo_jinja_parser *parser)
{
    static const int signs[] = {BO_JINJA_EQUAL, BO_JINJA_UNEQUAL, BO_JINJA_AT_MOST, BO_JINJA_AT_LEAST, '<', '>'};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (bo_jinja_at_operator(parser, signs[i])) return signs[i];
    if (bo_jinja_at_name(parser, "in")) return BO_JINJA_IN;
    const bool in_next =
        parser->ahead.kind == BO_JINJA_NAME && parser->ahead.length == 2 && memcmp(parser->ahead.text, "in", 2) == 0;
    return bo_jinja_at_name(parser, "not") && in_next ? BO_JINJA_NOT_IN : 0;
}

static bo_status parse_compare(bo_jinja_parser *parser, bo_jinja_node **out)
{
    BO_TRY(parse_binary(parser, 0, out));
    if (!comparison(parser)) return BO_OK;
    bo_jinja_node *node = new_node(parser, BO_JINJA_COMPARE, *out);
    if (!node) return BO_MEMORY;
    *out = node;
    for (bo_jinja_node **at = &node->items; comparison(parser); at = &(*at)->next) {
        *at = bo_jinja_node_new(parser, BO_JINJA_ARGUMENT);
        if (!*at) return BO_MEMORY;
        (*at)->sign = comparison(parser);
        if ((*at)->sign == BO_JINJA_NOT_IN) BO_TRY(bo_jinja_advance(parser));
        BO_TRY(bo_jinja_advance(parser));
        BO_TRY(parse_binary(parser, 0, &(*at)->first));
    }
    return BO_OK;
}

static bo_status parse_not(bo_jinja_parser *parser, bo_jinja_node **out)
{
    if (!bo_jinja_at_name(parser, "not")) return parse_compare(parser, out);
    *out = bo_jinja_node_new(parser, BO_JINJA_NOT);
    if (!*out) return BO_MEMORY;
    BO_TRY(bo_jinja_deeper(parser));
    BO_TRY(bo_jinja_advance(parser));
    BO_TRY(parse_not(parser, &(*out)->first));
    parser->depth--;
    return BO_OK;
}

static bo_status parse_logic(bo_jinja_parser *parser, bool any, bo_jinja_node **out)
{
    BO_TRY(any ? parse_logic(parser, false, out) : parse_not(parser, out));
    for (int links = 0; bo_jinja_at_name(parser, any ? "or" : "and");) {
        bo_jinja_node *node = new_node(parser, any ? BO_JINJA_OR : BO_JINJA_AND, *out);
        if (!node) return BO_MEMORY;
        BO_TRY(chain(parser, &links));
        BO_TRY(bo_jinja_advance(parser));
        BO_TRY(any ? parse_logic(parser, false, &node->second) : parse_not(parser, &node->second));
        *out = node;
    }
    return BO_OK;
}

/* ---- whole expressions ------------------------------------------------------------------------------------------- */

bo_status bo_jinja_parse_expression(bo_jinja_parser *parser, bool choices, bo_jinja_node **out)
{
    BO_TRY(bo_jinja_deeper(parser));
    BO_TRY(parse_logic(parser, true, out));
    for (int links = 0; choices && bo_jinja_at_name(parser, "if");) {
        bo_jinja_node *node = new_node(parser, BO_JINJA_CHOOSE, *out);
        if (!node) return BO_MEMORY;
        BO_TRY(chain(parser, &links));
        BO_TRY(bo_jinja_advance(parser));
        BO_TRY(parse_logic(parser, true, &node->second));
        if (bo_jinja_at_name(parser, "else")) {
            BO_TRY(bo_jinja_advance(parser));
            BO_TRY(bo_jinja_parse_expression(parser, true, &node->third));
        }
        *out = node;
    }
    parser->depth--;
    return BO_OK;
}

static bool ends_tuple(const bo_jinja_parser *parser)
{
    const bo_jinja_token_kind kind = parser->now.kind;
    return kind == BO_JINJA_BLOCK_END || kind == BO_JINJA_PRINT_END || bo_jinja_at_operator(parser, ')') ||
           bo_jinja_at_name(parser, "recursive");
}

bo_status bo_jinja_parse_tuple(bo_jinja_parser *parser, bool choices, bo_jinja_node **out)
{
    bo_jinja_node *first;
    BO_TRY(bo_jinja_parse_expression(parser, choices, &first));
    *out = first;
    if (!bo_jinja_at_operator(parser, ',')) return BO_OK;
    *out = bo_jinja_node_new(parser, BO_JINJA_MAKE_TUPLE);
    if (!*out) return BO_MEMORY;
    (*out)->items = first;
    for (bo_jinja_node **at = &first->next; bo_jinja_at_operator(parser, ','); at = &(*at)->next) {
        BO_TRY(bo_jinja_advance(parser));
        if (ends_tuple(parser)) return BO_OK;
        BO_TRY(bo_jinja_parse_expression(parser, choices, at));
    }
    return BO_OK;
}

static bo_status parse_target_name(bo_jinja_parser *parser, bool namespaces, bo_jinja_node **out)
{
    if (parser->now.kind != BO_JINJA_NAME) return bo_jinja_unexpected(parser, "the name of a variable");
    BO_TRY(parse_name(parser, out));
    if ((*out)->kind != BO_JINJA_VARIABLE)
        return bo_fail(parser->lexer.arena->context, BO_FORMAT, "%s: line %zu: a constant cannot be assigned",
                       parser->lexer.where, (*out)->line);
    return namespaces && bo_jinja_at_operator(parser, '.') ? parse_dot(parser, *out, out) : BO_OK;
}

/* A name, names separated by commas, with or without parentheses, or an attribute of a namespace. */
bo_status bo_jinja_parse_target(bo_jinja_parser *parser, bool namespaces, bo_jinja_node **out)
{
    const bool parentheses = bo_jinja_at_operator(parser, '(');
    if (parentheses) BO_TRY(bo_jinja_advance(parser));
    BO_TRY(parse_target_name(parser, namespaces && !parentheses, out));
    if (bo_jinja_at_operator(parser, ',')) {
        bo_jinja_node *tuple = new_node(parser, BO_JINJA_MAKE_TUPLE, NULL);
        if (!tuple) return BO_MEMORY;
        tuple->items = *out;
        for (bo_jinja_node **at = &tuple->items->next; bo_jinja_at_operator(parser, ','); at = &(*at)->next) {
            BO_TRY(bo_jinja_advance(parser));
            if (parser->now.kind != BO_JINJA_NAME || bo_jinja_at_name(parser, "in")) break;
            BO_TRY(parse_target_name(parser, false, at));
        }
        *out = tuple;
    }
    return parentheses ? bo_jinja_expect_operator(parser, ')') : BO_OK;
}
