/* Templates in a subset of Jinja2, as in Hugging Face chat models: docs/reference/chat-templates.md lists the subset. A
 * template is parsed once into a tree; rendering walks the tree. The semantics follow Jinja2 3.1 with trim_blocks
 * and lstrip_blocks; constructs outside the subset are refused with their name and line. */
#ifndef BO_TEXT_JINJA_H
#define BO_TEXT_JINJA_H

#include "../base/base.h"
#include "../io/json_tree.h"

/* Limits of a template and of its rendering. A hostile template ends with an error within a few seconds. */
enum {
    BO_JINJA_SOURCE = 1 << 20, /* bytes of a template */
    BO_JINJA_DEPTH = 200,      /* nesting of expressions, statements, values and calls of macros */
    BO_JINJA_MEMORY = 1 << 28, /* bytes of the values of one rendering, the output included */
    BO_JINJA_WORK = 1 << 25,   /* evaluated nodes of one rendering, probes of lookups, and one per 16 bytes of text */
    BO_JINJA_RANGE = 100000    /* numbers of range(): the limit of Jinja2's sandbox */
};

/* ---- memory that is released as a whole -------------------------------------------------------------------------- */

typedef struct bo_jinja_block bo_jinja_block;
typedef struct bo_jinja_arena {
    bo_context *context; /* of the current call */
    bo_jinja_block *blocks;
    size_t used, limit; /* bytes of all blocks, and their limit */
} bo_jinja_arena;

/* NULL after an error message. Aligned for any type and not initialized. */
void *bo_jinja_alloc(bo_jinja_arena *arena, size_t count, size_t size);
void bo_jinja_release(bo_jinja_arena *arena);

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

typedef enum bo_jinja_token_kind {
    BO_JINJA_DATA, /* text outside of tags */
    BO_JINJA_BLOCK_BEGIN,
    BO_JINJA_BLOCK_END,
    BO_JINJA_PRINT_BEGIN,
    BO_JINJA_PRINT_END,
    BO_JINJA_NAME,
    BO_JINJA_STRING,
    BO_JINJA_INTEGER,
    BO_JINJA_REAL,
    BO_JINJA_OPERATOR,
    BO_JINJA_END
} bo_jinja_token_kind;

/* An operator of one character is that character. */
enum { BO_JINJA_EQUAL = 1, BO_JINJA_UNEQUAL, BO_JINJA_AT_MOST, BO_JINJA_AT_LEAST, BO_JINJA_FLOOR, BO_JINJA_POWER };

typedef struct bo_jinja_token {
    bo_jinja_token_kind kind;
    int sign;
    size_t line;
    const char *text; /* DATA, NAME, STRING (without quotes and escapes), and the characters of an operator */
    size_t length;
    int64_t integer;
    double real;
} bo_jinja_token;

typedef struct bo_jinja_lexer {
    bo_jinja_arena *arena; /* arena of the texts of tokens */
    const char *where;     /* for messages */
    const char *source;    /* newlines are \n */
    size_t length, at, line;
    bool starts_line;        /* the last token ended with a newline, or there was none */
    int state;               /* true inside a tag */
    char closing[256];       /* the open brackets in a tag … */
    size_t open;             /* … and their number */
    bo_jinja_token_kind tag; /* the tag that begins after a text */
    size_t tag_line;
    size_t raw; /* the end of the tag, if it is {% raw %}; otherwise 0 */
} bo_jinja_lexer;

/* Copies the source with the newlines of Jinja2: \r\n and \r become \n, and one at the end is dropped. */
bo_status bo_jinja_lex(bo_jinja_lexer *lexer, bo_jinja_arena *arena, const char *where, const char *text,
                       size_t length);
bo_status bo_jinja_next(bo_jinja_lexer *lexer, bo_jinja_token *out);

/* ---- values ------------------------------------------------------------------------------------------------------ */

typedef enum bo_jinja_kind {
    BO_JINJA_ABSENT, /* an argument that was not given */
    BO_JINJA_UNDEFINED,
    BO_JINJA_NONE,
    BO_JINJA_BOOLEAN,
    BO_JINJA_WHOLE,
    BO_JINJA_FRACTION,
    BO_JINJA_TEXT,
    BO_JINJA_MARKUP, /* the result of the filter `safe`, which may only be printed */
    BO_JINJA_LIST,
    BO_JINJA_TUPLE,
    BO_JINJA_SPAN, /* range() */
    BO_JINJA_VIEW, /* keys(), values() and items() of a dictionary */
    BO_JINJA_LAZY, /* a generator: iterated once */
    BO_JINJA_DICT,
    BO_JINJA_NAMESPACE,
    BO_JINJA_MACRO,
    BO_JINJA_FUNCTION,
    BO_JINJA_LOOP
} bo_jinja_kind;

typedef struct bo_jinja_list bo_jinja_list;
typedef struct bo_jinja_dict bo_jinja_dict;
typedef struct bo_jinja_macro bo_jinja_macro;
typedef struct bo_jinja_loop bo_jinja_loop;

typedef struct bo_jinja_value {
    bo_jinja_kind kind;
    union {
        bool boolean;
        int64_t whole;
        double fraction;
        size_t length; /* of text */
    };
    union {
        const char *text;    /* TEXT and MARKUP: UTF-8; UNDEFINED: the name, for messages; FUNCTION: its name */
        bo_jinja_list *list; /* LIST to LAZY */
        bo_jinja_dict *dict; /* DICT and NAMESPACE */
        bo_jinja_macro *macro;
        bo_jinja_loop *loop;
    };
    /* TEXT and MARKUP: one per byte, 1 if it comes from an input, such as the content of a message; NULL: no byte does.
     * Every operation on text preserves the marks: bo_jinja_part, bo_jinja_build_text. */
    const unsigned char *marks;
} bo_jinja_value;

struct bo_jinja_list {
    bo_jinja_value *items;
    size_t count, capacity;
    size_t iterated; /* LAZY: items that were iterated */
};

/* In the order of insertion. */
struct bo_jinja_dict {
    bo_jinja_value *keys, *values;
    size_t count, capacity;
};

/* ---- the tree ---------------------------------------------------------------------------------------------------- */

typedef enum bo_jinja_node_kind {
    /* statements */
    BO_JINJA_OUTPUT,    /* the text `name` */
    BO_JINJA_PRINT,     /* first */
    BO_JINJA_IF,        /* first, body, else_branch: an IF for elif, or statements */
    BO_JINJA_FOR,       /* target in first if second; body, else_branch */
    BO_JINJA_SET,       /* target = first */
    BO_JINJA_SET_BLOCK, /* target = body */
    BO_JINJA_DEFINE,    /* macro `name`(items) with the body; an item has a name and a default, first, or NULL */
    BO_JINJA_BREAK,
    BO_JINJA_CONTINUE,
    BO_JINJA_SCOPE, /* body: {% generation %} */
    /* expressions */
    BO_JINJA_CONSTANT,  /* value */
    BO_JINJA_VARIABLE,  /* name */
    BO_JINJA_MAKE_LIST, /* items */
    BO_JINJA_MAKE_TUPLE,
    BO_JINJA_MAKE_DICT, /* items of first: second */
    BO_JINJA_ATTRIBUTE, /* first.name */
    BO_JINJA_ITEM,      /* first[second] */
    BO_JINJA_SLICE,     /* first[second:third:fourth], each of them or NULL */
    BO_JINJA_CALL,      /* first(items); an item with a name is a keyword argument */
    BO_JINJA_FILTER,    /* first | name(items) */
    BO_JINJA_TEST,      /* first is name(items) */
    BO_JINJA_NOT,
    BO_JINJA_NEGATE,
    BO_JINJA_KEEP_SIGN,
    BO_JINJA_ARITHMETIC, /* first sign second */
    BO_JINJA_COMPARE,    /* first, then items of (sign, first): all of them hold */
    BO_JINJA_AND,
    BO_JINJA_OR,
    BO_JINJA_CHOOSE, /* first if second else third; third or NULL */
    BO_JINJA_ARGUMENT
} bo_jinja_node_kind;

/* Operators of COMPARE besides those of tokens. */
enum { BO_JINJA_IN = 16, BO_JINJA_NOT_IN };

struct bo_jinja_filter;
typedef struct bo_jinja_node bo_jinja_node;
struct bo_jinja_node {
    bo_jinja_node_kind kind;
    int sign;
    size_t line;
    const char *name;
    size_t name_length;
    bo_jinja_node *first, *second, *third, *fourth;
    bo_jinja_node *items;  /* a list, by `next` */
    bo_jinja_node *target; /* a VARIABLE, an ATTRIBUTE of a namespace, or a MAKE_TUPLE of variables */
    bo_jinja_node *body, *else_branch;
    bool is_chain; /* IF: `else_branch` is an elif */
    bo_jinja_node *next;
    const struct bo_jinja_filter *filter; /* of FILTER and TEST; NULL: not supported, refused if it is evaluated */
    bo_jinja_value value;
};

/* Parses a whole template. The tree and `where` live in the arena. */
bo_status bo_jinja_parse(bo_jinja_arena *arena, const char *where, const char *text, size_t length,
                         bo_jinja_node **out);

/* The interface of the expression parser for the statement parser. */
typedef struct bo_jinja_parser {
    bo_jinja_lexer lexer;
    bo_jinja_token now, ahead;
    int depth;
    int loops;      /* loops around the current statement, inside the current macro */
    int conditions; /* conditions and loops whose statements may not be executed */
} bo_jinja_parser;

bo_status bo_jinja_advance(bo_jinja_parser *parser);
bool bo_jinja_at_name(const bo_jinja_parser *parser, const char *keyword);
bool bo_jinja_at_operator(const bo_jinja_parser *parser, int sign);
/* Consumes the keyword or operator; an error if there is another token. */
bo_status bo_jinja_expect_name(bo_jinja_parser *parser, const char *keyword);
bo_status bo_jinja_expect_operator(bo_jinja_parser *parser, int sign);
/* The error for an unexpected token; `expected` describes the expected token. */
bo_status bo_jinja_unexpected(bo_jinja_parser *parser, const char *expected);
bo_status bo_jinja_deeper(bo_jinja_parser *parser); /* refuses nesting beyond BO_JINJA_DEPTH; undone by --depth */
bo_jinja_node *bo_jinja_node_new(bo_jinja_parser *parser, bo_jinja_node_kind kind);
/* An expression, or several separated by commas, which are a tuple. Without `choices`, "if" ends the expression. */
bo_status bo_jinja_parse_expression(bo_jinja_parser *parser, bool choices, bo_jinja_node **out);
bo_status bo_jinja_parse_tuple(bo_jinja_parser *parser, bool choices, bo_jinja_node **out);
bo_status bo_jinja_parse_target(bo_jinja_parser *parser, bool namespaces, bo_jinja_node **out);

/* ---- rendering --------------------------------------------------------------------------------------------------- */

typedef struct bo_jinja_render_desc {
    /* an object; its members are variables of the template. Their texts are marked, except roles */
    const bo_json *variables;
    const bo_json *trusted; /* the same, but not marked: special tokens; NULL: none */
    int64_t time;           /* seconds since 1970, for strftime_now() */
    uint64_t max_work;      /* 0: BO_JINJA_WORK */
} bo_jinja_render_desc;

/* *out is followed by a NUL. *marks (NULL: not requested) has for each of its bytes 1 if it comes from marked text.
 * Both are released with bo_free. */
bo_status bo_jinja_render(bo_context *context, const char *where, const bo_jinja_node *tree,
                          const bo_jinja_render_desc *desc, char **out, size_t *bytes, unsigned char **marks);

#endif
