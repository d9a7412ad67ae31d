/* Chat templates: texts that transformers rendered (tests/data/chat, written by tests/peers/test_chat_templates.py),
 * the language, files of a directory, refusals, limits, and exhausted memory. */
#include <stdlib.h>
#include "io/files.h"
#include "base/counting.h"
#include "io/json.h"
#include "text/jinja.h"
#include "text/vocabulary.h"
#include <bochner/chat.h>
#include <time.h>

static bo_chat_template *parse(bo_context *context, const char *text)
{
    bo_chat_template *chat;
    assert_ok(context, bo_chat_template_create(context, &(bo_chat_template_desc){.text = text}, &chat));
    return chat;
}

/* Renders a template with variables as JSON. */
static void expect(bo_context *context, const char *template, const char *variables, const char *expected)
{
    bo_chat_template *chat = parse(context, template);
    char *text;
    size_t bytes;
    assert_ok(context,
              bo_chat_render(context, chat, NULL, 0, &(bo_chat_options){.variables = variables}, &text, &bytes));
    if (strcmp(text, expected) != 0) fail_msg("%s: '%s', expected '%s'", template, text, expected);
    assert_int_equal(bytes, strlen(expected));
    bo_free(text);
    bo_chat_template_destroy(chat);
}

/* The template is refused when it is parsed or rendered. */
static void expect_refusal(bo_context *context, bo_status status, const char *template, const char *message)
{
    bo_chat_template *chat = NULL;
    char *text = NULL;
    size_t bytes;
    bo_status found = bo_chat_template_create(context, &(bo_chat_template_desc){.text = template}, &chat);
    if (found == BO_OK) found = bo_chat_render(context, chat, NULL, 0, NULL, &text, &bytes);
    if (found != status || !strstr(bo_context_error(context), message))
        fail_msg("%.200s: status %d '%s', expected %d '%s'", template, found, bo_context_error(context), status,
                 message);
    assert_null(text);
    bo_chat_template_destroy(chat);
}

/* ---- published templates ----------------------------------------------------------------------------------------- */

static void *read_data(bo_context *context, const char *name, size_t *size)
{
    char path[1024];
    void *bytes;
    const char *source = getenv("BOCHNER_SOURCE");
    snprintf(path, sizeof path, "%s/tests/data/chat/%s", source ? source : ".", name);
    assert_ok(context, bo_file_load(context, path, 1 << 24, &bytes, size));
    return bytes;
}

/* The special tokens of the test with transformers. */
static bo_chat_template *load_published(test_directory *f, const char *name)
{
    char file[64];
    size_t size;
    bo_chat_template *chat;
    snprintf(file, sizeof file, "%s.jinja", name);
    char *text = read_data(f->context, file, &size);
    test_text(f, "tokenizer_config.json",
              "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}, \"unk_token\": \"<unk>\"}");
    const bo_chat_template_desc desc = {.directory = f->path, .text = text};
    assert_ok(f->context, bo_chat_template_create(f->context, &desc, &chat));
    bo_free(text);
    return chat;
}

static void check_case(test_directory *f, const bo_json *line, bo_chat_template *chat)
{
    bo_chat_message messages[16];
    size_t count = 0, bytes;
    char *text;
    const bo_json *item, *expected = bo_json_member(line, "text");
    BO_JSON_EACH(item, bo_json_member(line, "messages"))
    {
        assert_true(count < 16);
        messages[count++] = (bo_chat_message){.role = bo_json_text_or_null(bo_json_member(item, "role")),
                                              .content = bo_json_text_or_null(bo_json_member(item, "content"))};
    }
    const bo_chat_options options = {.add_generation_prompt =
                                         bo_json_is(bo_json_member(line, "add_generation_prompt"), BO_JSON_TRUE)};
    const bo_status status = bo_chat_render(f->context, chat, messages, count, &options, &text, &bytes);
    if (!bo_json_is(expected, BO_JSON_TEXT)) {
        assert_int_equal(status, BO_INVALID);
        assert_non_null(strstr(bo_context_error(f->context), ": line "));
        return;
    }
    assert_ok(f->context, status);
    assert_string_equal(text, expected->text);
    bo_free(text);
}

static void test_published(void **state)
{
    test_directory *f = *state;
    size_t size, cases = 0;
    char *all = read_data(f->context, "cases.jsonl", &size), last[64] = "";
    bo_chat_template *chat = NULL;
    for (char *line = all, *end; line < all + size; line = end + 1) {
        bo_json *json;
        end = memchr(line, '\n', size - (size_t)(line - all));
        if (!end) end = all + size;
        assert_ok(f->context, bo_json_parse(f->context, "case", line, (size_t)(end - line), 16, &json));
        const char *name = bo_json_text_or_null(bo_json_member(json, "template"));
        if (strcmp(name, last) != 0) {
            bo_chat_template_destroy(chat);
            chat = load_published(f, name);
            snprintf(last, sizeof last, "%s", name);
        }
        check_case(f, json, chat);
        bo_json_delete(json);
        cases++;
    }
    assert_true(cases >= 300);
    bo_chat_template_destroy(chat);
    bo_free(all);
}

/* ---- the language ------------------------------------------------------------------------------------------------ */

/* Expected texts come from jinja2 3.1.6 with trim_blocks and lstrip_blocks. */
static void test_language(void **state)
{
    static const char *const cases[][3] = {
        /* white space around tags */
        {"a\n  {% if true %}  \nb{% endif %}\nc\n", "{}", "a\n  \nbc"},
        {"a \n {%- if true -%} \n b {%- endif %} c", "{}", "ab c"},
        {"a\n  {%+ if true %}\nb{% endif +%}\nc", "{}", "a\n  b\nc"},
        {"  {# c #}\n x {#- c -#} y", "{}", " xy"},
        {"{{ 1 }}\n  {{ 2 }}\n", "{}", "1\n  2"},
        {"{% raw %}{{ x }}{% endraw %}", "{}", "{{ x }}"},
        {"a\r\nb\rc\n\n", "{}", "a\nb\nc\n"},
        /* literals and operators */
        {"{{ 'a' \"b\" '\\n\\x41\\u00e9\\'' }}", "{}", "ab\nA\xc3\xa9'"},
        {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 1e16 }} {{ 0.0001 }}", "{}",
         "3 -4 2 3.5 8 1e+16 0.0001"},
        {"{{ 1 ~ none ~ true ~ 1.5 ~ missing }}", "{}", "1NoneTrue1.5"},
        {"{{ [1, 'it''s', \"it's\", (1,), {'a': none}] }}", "{}", "[1, 'its', \"it's\", (1,), {'a': None}]"},
        {"{{ 1 < 2 <= 2 and 'b' in 'abc' and 2 not in [1] and not none }}", "{}", "True"},
        {"{{ 'x' if missing else 'y' }}{{ 'x' if missing }}{{ 0 or 'z' }}", "{}", "yz"},
        {"{{ x[1:] }} {{ x[::-1] }} {{ s[-2:] }} {{ s[0] }} {{ x[9] }}", "{\"x\": [1, 2, 3], \"s\": \"a\xc3\xa9o\"}",
         "[2, 3] [3, 2, 1] \xc3\xa9o a "},
        {"{{ d.a.b }}{{ d['a']['b'] }}{{ d.x }}", "{\"d\": {\"a\": {\"b\": 1}}}", "11"},
        /* statements */
        {"{% for k, v in d.items() %}{{ loop.index }}{{ k }}{{ v }}{{ ',' if not loop.last }}{% endfor %}",
         "{\"d\": {\"a\": 1, \"b\": 2}}", "1a1,2b2"},
        {"{% for i in range(9) if i is odd %}{% if i > 5 %}{% break %}{% endif %}{{ i }}{% else %}none{% endfor %}",
         "{}", "135"},
        {"{% for i in [] %}x{% else %}none{% endfor %}", "{}", "none"},
        {"{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}", "{}", "1"},
        {"{% set ns = namespace(x=1) %}{% for i in [1] %}{% set ns.x = 2 %}{% endfor %}{{ ns.x }}", "{}", "2"},
        {"{% set x %}a{{ 1 }}{% endset %}{{ x | length }}", "{}", "2"},
        {"{% macro f(a, b=a ~ '!') %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(b=2, a=3) }}{{ f() }}", "{}", "11!32!"},
        {"{% if a is defined and a is not none %}x{% elif b is string %}y{% endif %}", "{\"a\": null, \"b\": \"\"}",
         "y"},
        {"{% for m in messages %}{{ loop.previtem.role if loop.previtem }}{{ m.role }};{% endfor %}",
         "{\"messages\": [{\"role\": \"u\"}, {\"role\": \"a\"}]}", "u;ua;"},
        /* filters and methods */
        {"{{ {'b': [1, none, true], 'a': 'x\"\xc3\xa9<'} | tojson }}", "{}",
         "{\"b\": [1, null, true], \"a\": \"x\\\"\xc3\xa9<\"}"},
        {"{{ {'b': [1], 'a': {}} | tojson(indent=2, sort_keys=true) }}", "{}",
         "{\n  \"a\": {},\n  \"b\": [\n    1\n  ]\n}"},
        {"{{ ' a b ' | trim }}|{{ 'a-b c' | title }}|{{ \"a-b c'd\".title() }}|{{ 'aB' | capitalize }}", "{}",
         "a b|A-B C|A-B C'D|Ab"},
        {"{{ x | selectattr('r', 'equalto', 'u') | map(attribute='c') | join('+') }}",
         "{\"x\": [{\"r\": \"u\", \"c\": 1}, {\"r\": \"a\", \"c\": 2}, {\"r\": \"u\", \"c\": 3}]}", "1+3"},
        {"{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'abc'.replace('', '-') }}",
         "{}", "['a', 'b', '', 'c']['a', 'b']['a,b', 'c']-a-b-c-"},
        {"{{ x | default('d') }}{{ '' | default('d', true) }}{{ none | default('d') }}", "{}", "ddNone"},
        {"{{ bos_token }}{{ tools is none }}{{ messages | length }}", "{}", "True0"},
    };
    test_directory *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect(f->context, cases[i][0], cases[i][1], cases[i][2]);
}

static void test_time(void **state)
{
    test_directory *f = *state;
    bo_chat_template *chat = parse(f->context, "{{ strftime_now('%d %b %Y, %B %A %H:%M:%S %p %I %j %m %y') }}");
    char *text, expected[128];
    size_t bytes;
    const time_t when = 1700000000;
    struct tm date;
    localtime_r(&when, &date);
    strftime(expected, sizeof expected, "%d %b %Y, %B %A %H:%M:%S %p %I %j %m %y", &date);
    assert_ok(f->context, bo_chat_render(f->context, chat, NULL, 0, &(bo_chat_options){.time = when}, &text, &bytes));
    assert_string_equal(text, expected);
    bo_free(text);
    bo_chat_template_destroy(chat);
}

static void test_refusals(void **state)
{
    static const struct {
        bo_status status;
        const char *template, *message;
    } cases[] = {
        {BO_UNSUPPORTED, "x\n{{ 1 | wordcount }}", "chat template: line 2: the filter 'wordcount' is not supported"},
        {BO_UNSUPPORTED, "{% if true %}\n{{ 1 | wordcount }}{% endif %}", "line 2: the filter 'wordcount'"},
        {BO_UNSUPPORTED, "{{ 1 is escaped }}", "line 1: the test 'escaped' is not supported"},
        {BO_UNSUPPORTED, "\n\n{% block x %}", "line 3: the statement 'block' is not supported"},
        {BO_UNSUPPORTED, "{{ 'a'.zfill(3) }}", "the method 'zfill' of a string is not supported"},
        {BO_UNSUPPORTED, "{{ 'a'.strip }}", "the method 'strip' of a string without a call"},
        {BO_UNSUPPORTED, "{{ messages.append(1) }}", "the method 'append' of a list"},
        {BO_UNSUPPORTED, "{{ messages.__class__ }}", "'__class__'"},
        {BO_UNSUPPORTED, "{{ joiner() }}", "the name 'joiner'"},
        {BO_UNSUPPORTED, "{{ {} | tojson(default=1) }}", "the argument 'default' of the filter 'tojson'"},
        {BO_UNSUPPORTED, "{{ '\xc3\x9f' | upper }}", "U+00DF"},
        {BO_UNSUPPORTED, "{{ range(3) }}", "a range as text"},
        {BO_UNSUPPORTED, "{{ 9223372036854775807 + 1 }}", "64 bits"},
        {BO_UNSUPPORTED, "{{ strftime_now('%U') }}", "%U"},
        {BO_FORMAT, "{% if true %}\nx", "line 2: expected {% endif %}, found the end"},
        {BO_FORMAT, "{{ 1 + }}", "line 1: expected an expression, found '}}'"},
        {BO_FORMAT, "{{ (1 }}", "unexpected '}'"},
        {BO_FORMAT, "{{ 'a }}", "a string without an end"},
        {BO_FORMAT, "{# a", "a comment without an end"},
        {BO_FORMAT, "{% break %}", "outside of a loop"},
        {BO_FORMAT, "a\xff", "byte 1 is not UTF-8"},
        {BO_INVALID, "{{ raise_exception('No ' ~ 1) }}", "line 1: No 1"},
        {BO_INVALID, "{{ a.b }}", "'a' is undefined"},
        {BO_INVALID, "{{ 'a' + 1 }}", "the operator '+' does not apply to a string and an integer"},
        {BO_INVALID, "{{ 1 // 0 }}", "division by zero"},
    };
    test_directory *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(f->context, cases[i].status, cases[i].template, cases[i].message);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static char *repeated(const char *text, size_t times, const char *end)
{
    char *out = calloc(1, strlen(text) * times + strlen(end) + 1);
    for (size_t i = 0; i < times; i++) memcpy(out + i * strlen(text), text, strlen(text));
    memcpy(out + strlen(text) * times, end, strlen(end));
    return out;
}

/* Hostile templates end with an error: they neither hang nor exhaust memory or the stack. */
static bool stop(void *user, const char *what, double done, double total)
{
    (void)user;
    (void)what;
    return done > total;
}

static void test_limits(void **state)
{
    test_directory *f = *state;
    static const char *const texts[][2] = {
        {"{% for a in range(100000) %}{% for b in 'ab' * 9 %}{% endfor %}{% endfor %}", "chat template"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep"},
        {"{{ 'a' * 1000000000000 }}", "a repetition takes more"},
        {"{{ [1] * 1000000000000 }}", "a repetition takes more"},
        {"{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
         "chat template"},
        {"{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
         "deep"},
        {"{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x == ns.x }}",
         "deep"},
        {"{{ range(100001) }}", "100000"},
        {"{{ 10 ** 10 ** 10 }}", "64 bits"},
        {"{{ 'a' | indent(99999999999) }}", "chat template"},
        {"{% set x = 'a' * 50000 %}{% set y = 'a' * 25000 ~ 'b' %}{% for i in range(10000) %}{{ x.rfind(y) }}{% endfor "
         "%}",
         "steps"},
        {"{% set x = ' ' * 1000000 ~ '1' %}{% for i in range(1000) %}{{ x | int }}{% endfor %}", "steps"},
        {"{% set x = '0' * 1000000 %}{% for i in range(1000) %}{{ x | float }}{% endfor %}", "steps"},
        {"{% set x = 'b' * 1000000 %}{% for i in range(1000) %}{{ 'a'.lstrip(x) }}{% endfor %}", "steps"},
        {"{% set x = 'b' * 1000000 %}{% for i in range(1000) %}{{ 'a'.rstrip(x) }}{% endfor %}", "steps"},
        {"{% set x = 'ab' * 500000 %}{% for i in range(1000) %}{{ x | replace(x, '') }}{% endfor %}", "steps"},
    };
    static const char *const nested[] = {"{{ (",          "{{ [",     "{{ -", "{{ not ",
                                         "{% if true %}", "{{ 1 + 1", "{{ a", "{{ 1"};
    static const char *const repeats[] = {"(", "[", "-", "not ", "{% if true %}", " + 1", ".a", " if 1 else 1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bo_chat_template *chat = parse(f->context, texts[i][0]);
        char *text;
        size_t bytes;
        const bo_status status = bo_chat_render(f->context, chat, NULL, 0, NULL, &text, &bytes);
        assert_int_not_equal(status, BO_OK);
        if (!strstr(bo_context_error(f->context), texts[i][1]))
            fail_msg("%s: %s", texts[i][0], bo_context_error(f->context));
        bo_chat_template_destroy(chat);
    }
    for (size_t i = 0; i < sizeof nested / sizeof *nested; i++) {
        bo_chat_template *chat = (void *)f;
        char *many = repeated(repeats[i], 50000, ""), *text = malloc(strlen(many) + 32);
        sprintf(text, "%s%s", nested[i], many);
        assert_int_not_equal(bo_chat_template_create(f->context, &(bo_chat_template_desc){.text = text}, &chat), BO_OK);
        assert_null(chat);
        free(many);
        free(text);
    }
    char *large = repeated("x", BO_JINJA_SOURCE + 1, "");
    expect_refusal(f->context, BO_UNSUPPORTED, large, "1048577 bytes, expected at most 1048576");
    free(large);
}

/* A name is looked up in one step, not in one per variable, and a rendering can be canceled. */
static void test_many_variables(void **state)
{
    enum { VARIABLES = 40000, LOOKUPS = 5000000, EACH = 1000 };
    test_directory *f = *state;
    char *text = malloc(VARIABLES * 32 + EACH * 16), *at = text, *out;
    size_t bytes;
    for (int i = 0; i < VARIABLES; i++) at += sprintf(at, "{%% set v%05d = 1 %%}", i);
    at += sprintf(at, "{%% for i in range(%d) %%}", LOOKUPS / EACH);
    for (int i = 0; i < EACH; i++) at += sprintf(at, "{{v00000}}");
    sprintf(at, "{%% endfor %%}");
    bo_chat_template *chat = parse(f->context, text);
    assert_ok(f->context, bo_chat_render(f->context, chat, NULL, 0, NULL, &out, &bytes));
    assert_int_equal(bytes, LOOKUPS);
    assert_int_equal(strspn(out, "1"), LOOKUPS);
    bo_free(out);

    bo_context *stopped;
    assert_int_equal(bo_context_create(&(bo_context_desc){.progress = stop}, &stopped), BO_OK);
    assert_int_equal(bo_chat_render(stopped, chat, NULL, 0, NULL, &out, &bytes), BO_CANCELED);
    assert_null(out);
    bo_context_destroy(stopped);
    bo_chat_template_destroy(chat);
    free(text);
}

/* Names with colliding hashes are charged: each is found after the others. */
static void test_colliding_names(void **state)
{
    enum { NAMES = 3000, PLACES = 4096 };
    test_directory *f = *state;
    char *text = malloc(NAMES * 32 + 128), *at = text, *out, last[16] = "";
    size_t bytes, found = 0;
    for (size_t i = 0; found < NAMES; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%zu", i);
        if (bo_hash_bytes(name, strlen(name)) % PLACES > 4) continue;
        at += sprintf(at, "{%% set %s = 1 %%}", name);
        strcpy(last, name);
        found++;
    }
    sprintf(at, "{%% for i in range(100000) %%}{%% if %s %%}{%% endif %%}{%% endfor %%}", last);
    bo_chat_template *chat = parse(f->context, text);
    assert_int_equal(bo_chat_render(f->context, chat, NULL, 0, NULL, &out, &bytes), BO_INVALID);
    assert_non_null(strstr(bo_context_error(f->context), "steps"));
    bo_chat_template_destroy(chat);
    free(text);
}

/* ---- special tokens ---------------------------------------------------------------------------------------------- */

/* Tokens of one letter; <e> and <f> are special, and <t> is another added token. `normalized`: so is the text that <e>
 * and <f> are found in. */
static bo_tokenizer *load_characters(bo_context *context, bool normalized, const char *normalizer)
{
    char text[4096], *at = text;
    bo_tokenizer *tokenizer;
    at += sprintf(at, "{\"added_tokens\": [");
    for (int i = 0; i < 3; i++)
        at += sprintf(at,
                      "%s{\"id\": %d, \"content\": \"<%c>\", \"special\": %s, \"normalized\": %s, \"single_word\": "
                      "false, \"lstrip\": false, \"rstrip\": false}",
                      i ? ", " : "", i, "eft"[i], i < 2 ? "true" : "false", i < 2 && normalized ? "true" : "false");
    at += sprintf(at, "], \"normalizer\": %s, \"model\": {\"type\": \"BPE\", \"vocab\": {", normalizer);
    at += sprintf(at, "\"<e>\": 0, \"<f>\": 1, \"<t>\": 2");
    for (int c = ' '; c < 127; c++)
        if (c != '"' && c != '\\') at += sprintf(at, ", \"%c\": %d", c, c);
    sprintf(at, "}, \"merges\": []}}");
    assert_ok(context, bo_tokenizer_load(context, &(bo_source){.bytes = text, .size = strlen(text)}, &tokenizer));
    return tokenizer;
}

/* The tokens of a conversation, as text: special and added tokens are E, F and T. */
static void expect_tokens(bo_context *context, const bo_tokenizer *tokenizer, const char *template,
                          const char *variables, bool parses, const char *expected)
{
    bo_chat_template *chat = parse(context, template);
    const bo_chat_options options = {.variables = variables, .parse_special = parses};
    bo_ids ids = {0};
    char found[256] = "";
    assert_ok(context, bo_chat_encode(context, chat, tokenizer, NULL, 0, &options, &ids));
    assert_true(ids.count < sizeof found);
    for (size_t i = 0; i < ids.count; i++) found[i] = (char)(ids.items[i] < 3 ? "EFT"[ids.items[i]] : ids.items[i]);
    if (strcmp(found, expected) != 0) fail_msg("%s of %s: '%s', expected '%s'", template, variables, found, expected);
    bo_ids_free(&ids);
    bo_chat_template_destroy(chat);
}

static const char LOWERCASE[] = "{\"type\": \"Lowercase\"}";

static void test_special_tokens(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = load_characters(f->context, false, LOWERCASE);
    static const struct {
        const char *template, *content, *expected, *parsed;
    } cases[] = {
        {"<e>{{ m.content }}<e>", "a<e>b<t>", "Ea<e>bTE", "EaEbTE"},
        /* through operations on text */
        {"{{ m.content | trim }}<e>", " <e> ", "<e>E", "EE"},
        {"{{ m.content[1:] ~ m.content[:1] }}", "><e", "<e>", "E"},
        {"{{ m.content | reverse }}", ">e<", "<e>", "E"},
        {"{{ m.content | lower }}{{ m.content.lower() }}", "<E>", "<e><e>", "EE"},
        {"{{ m.content | replace('x', 'e') }}{{ '<x>' | replace('x', m.content) }}", "<x>", "<e><<x>>", "E<<x>>"},
        {"{{ '<x>' | replace('x', m.content) }}<f>", "e", "<e>F", "EF"},
        {"{{ '<e>' | replace(m.content, 'e') }}", "e", "E", "E"},
        {"{{ m.content.split('|') | join('') }}", "<|e|>", "<e>", "E"},
        {"{{ ['<', m.content, '>'] | join }}", "e", "<e>", "E"},
        {"{{ m.content * 2 }}", "<e>", "<e><e>", "EE"},
        {"{{ {1: m.content} }}", "<e>", "{1: '<e>'}", "{1: 'E'}"},
        {"{{ [m.content] }}", "<e>", "['<e>']", "['E']"},
        {"{% set x %}<f>{{ m.content }}{% endset %}{{ x.strip() }}", "<e>", "F<e>", "FE"},
        {"{% macro f(x) %}<f>{{ x }}{% endmacro %}{{ f(m.content) | upper | lower }}", "<e>", "F<e>", "FE"},
        {"{% for c in m.content %}{{ c }}{% endfor %}", "<e>", "<e>", "E"},
        {"{{ m.content.splitlines()[1] }}", "a\\n<e>", "<e>", "E"},
        {"{{ m.content.removeprefix('a').removesuffix('b') }}", "a<e>b", "<e>", "E"},
        {"{{ m.content.rsplit('b', 1)[0] }}", "<e>b", "<e>", "E"},
        {"{{ m.content.strip('b').title().lower() | title | lower | capitalize | lower }}", "<e>b", "<e>", "E"},
        {"{{ 'a' | indent(m.content, true) }}{{ m.content | indent(1) }}", "<e>", "<e>a<e>", "EaE"},
        {"{{ [1, 2] | tojson(separators=(m.content, '')) }}", "<e>", "[1<e>2]", "[1E2]"},
        {"{{ m.content | string | safe }}", "<e>", "<e>", "E"},
        {"{{ m.content.join(['<f>', '']) }}", "<e>", "F<e>", "FE"},
        /* partly of the template */
        {"<{{ m.content }}>", "e", "<e>", "E"},
        {"<{{ m.content }}<e>", "e><f", "<e><fE", "E<fE"},
        {"{{ m.content }}e>", "<", "<e>", "E"},
        /* trusted: roles and special tokens */
        {"<{{ m.role }}>{{ eos_token }}{{ m.content }}", "", "EE", "EE"},
        {"{{ n }}{{ eos_token }}", "", "<f>E", "FE"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char variables[512];
        snprintf(variables, sizeof variables,
                 "{\"m\": {\"role\": \"e\", \"content\": \"%s\"}, \"n\": \"<f>\", \"eos_token\": \"<e>\"}",
                 cases[i].content);
        expect_tokens(f->context, tokenizer, cases[i].template, variables, false, cases[i].expected);
        expect_tokens(f->context, tokenizer, cases[i].template, variables, true, cases[i].parsed);
    }
    /* a role that is not a name, and one of another member */
    expect_tokens(f->context, tokenizer, "{{ m.role }}", "{\"m\": {\"role\": \"<e>\"}}", false, "<e>");
    expect_tokens(f->context, tokenizer, "{{ m | items | first | join }}", "{\"m\": {\"<e>\": \"<f>\"}}", false,
                  "<e><f>");
    bo_tokenizer_destroy(tokenizer);
}

/* Special tokens that are found after normalization: those of the template stay tokens, whatever a message contains. */
static void test_normalized_special_tokens(void **state)
{
    static const char NONE[] = "null",
                      STRIP[] =
                          "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Strip\", \"strip_left\": true, "
                          "\"strip_right\": true}, {\"type\": \"Lowercase\"}]}",
                      PREPEND[] = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Lowercase\"}, {\"type\": "
                                  "\"Prepend\", \"prepend\": \"_\"}]}";
    static const struct {
        const char *normalizer, *template, *content, *expected, *parsed;
    } cases[] = {
        {LOWERCASE, "<E>{{ x }}<e>", "a<f>", "Ea<f>E", "EaFE"},
        {LOWERCASE, "<f>{{ x }}<f>", "a<E>", "Fa<e>F", "FaEF"},
        {LOWERCASE, "<E>{{ x }}<e>A", "<e>B<F>", "E<e>b<f>Ea", "EEbFEa"},
        {LOWERCASE, "<{{ x }}><F>", "E", "<e>F", "EF"},
        {LOWERCASE, "<F>{{ x }}", "A", "Fa", "Fa"},
        {NONE, "<e>{{ x }}<e>", "<e><f>", "E<e><f>E", "EEFE"},
        {NONE, "<{{ x }}><e>", "e", "<e>E", "EE"},
        {NONE, "<{{ x }}<e>", "e><f", "<e><fE", "E<fE"},
        {STRIP, " <E> {{ x }} <e> ", " <e> ", "E  <e>  E", "E  E  E"},
        {PREPEND, "<E>{{ x }}_<e>", "_<e>", "E_<e>E", "EEE"},
        {PREPEND, "{{ x }}_<e>", "<e>", "_<e>E", "EE"},
    };
    test_directory *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char variables[64];
        bo_tokenizer *tokenizer = load_characters(f->context, true, cases[i].normalizer);
        snprintf(variables, sizeof variables, "{\"x\": \"%s\"}", cases[i].content);
        expect_tokens(f->context, tokenizer, cases[i].template, variables, false, cases[i].expected);
        expect_tokens(f->context, tokenizer, cases[i].template, variables, true, cases[i].parsed);
        bo_tokenizer_destroy(tokenizer);
    }
}

/* A tokenizer whose model has the texts of the special tokens, too, as those of T5 and BERT have. Tokens of one letter
 * and, with number 3, "e>". */
static bo_tokenizer *load_model(bo_context *context, const char *type, bool list, const char *more)
{
    char text[8192], *at = text;
    bo_tokenizer *tokenizer;
    at += sprintf(at, "{\"added_tokens\": [");
    for (int i = 0; i < 3; i++)
        at += sprintf(at, "%s{\"id\": %d, \"content\": \"<%c>\", \"special\": %s, \"normalized\": false}",
                      i ? ", " : "", i, "eft"[i], i < 2 ? "true" : "false");
    at += sprintf(at, "], \"model\": {\"type\": \"%s\", \"vocab\": %c", type, list ? '[' : '{');
    for (int i = 0; i < 127; i++) {
        char token[8];
        if (i < 3)
            sprintf(token, "<%c>", "eft"[i]);
        else if (i == 3)
            sprintf(token, "e>");
        else if (i < ' ' || i == '"' || i == '\\')
            sprintf(token, "#%d", i);
        else
            sprintf(token, "%c", i);
        at += sprintf(at, list ? "%s[\"%s\", %d]" : "%s\"%s\": %d", i ? ", " : "", token,
                      !list                         ? i
                      : token[0] == '<' && token[1] ? 0
                                                    : -9);
    }
    sprintf(at, "%c, %s}}", list ? ']' : '}', more);
    assert_ok(context, bo_tokenizer_load(context, &(bo_source){.bytes = text, .size = strlen(text)}, &tokenizer));
    return tokenizer;
}

/* A message becomes no special token by the vocabulary of the model either. */
static void test_special_tokens_of_models(void **state)
{
    static const char merges[] = "\"merges\": [\"e >\", \"< e>\"]";
    static const struct {
        const char *type, *more, *content, *expected, *parsed;
    } cases[] = {
        {"Unigram", "\"unk_id\": 63", "a<e>b<f><t>", "Fa<\3b<f>TE", "FaEbFTE"},
        {"WordPiece", "\"unk_token\": \"?\", \"continuing_subword_prefix\": \"\", \"max_input_chars_per_word\": 100",
         "a<e>b<f>", "Fa<\3b<f>E", "FaEbFE"},
        {"WordLevel", "\"unk_token\": \"?\"", "<e>", "F?E", "FEE"},
        {"BPE", "\"ignore_merges\": true, \"merges\": []", "<e>", "F<e>E", "FEE"},
        {"BPE", merges, "a<e>b", "Fa<\3bE", "FaEbE"},
        {"BPE", merges, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnop<e>",
         "Fabcdefghijklmnopqrstuvwxyzabcdefghijklmnop<\3E", "FabcdefghijklmnopqrstuvwxyzabcdefghijklmnopEE"},
    };
    test_directory *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char variables[128];
        bo_tokenizer *tokenizer = load_model(f->context, cases[i].type, cases[i].type[0] == 'U', cases[i].more);
        snprintf(variables, sizeof variables, "{\"x\": \"%s\"}", cases[i].content);
        expect_tokens(f->context, tokenizer, "<f>{{ x }}<e>", variables, false, cases[i].expected);
        expect_tokens(f->context, tokenizer, "<f>{{ x }}<e>", variables, true, cases[i].parsed);
        bo_tokenizer_destroy(tokenizer);
    }
}

/* ---- directories
 * ----------------------------------------------------------------------------------------------------- */

static void expect_directory(test_directory *f, const char *name, const char *expected)
{
    bo_chat_template *chat;
    const bo_chat_message message = {.role = "user", .content = "x"};
    char *text;
    size_t bytes;
    assert_ok(f->context,
              bo_chat_template_create(f->context, &(bo_chat_template_desc){.directory = f->path, .name = name}, &chat));
    assert_ok(f->context, bo_chat_render(f->context, chat, &message, 1, NULL, &text, &bytes));
    assert_string_equal(text, expected);
    bo_free(text);
    bo_chat_template_destroy(chat);
}

static void test_directories(void **state)
{
    test_directory *f = *state;
    bo_chat_template *chat;
    unlink(test_path(f, "tokenizer_config.json"));
    assert_fails(f->context, BO_IO, "no chat template",
                 bo_chat_template_create(f->context, &(bo_chat_template_desc){.directory = f->path}, &chat));
    test_text(f, "tokenizer_config.json",
              "{\"chat_template\": \"{{ eos_token }}{{ sep_token }}\", \"eos_token\": \"</s>\"}");
    expect_directory(f, NULL, "</s>");
    test_text(f, "special_tokens_map.json", "{\"sep_token\": {\"content\": \"[S]\"}, \"eos_token\": \"not this\"}");
    expect_directory(f, NULL, "</s>[S]");
    test_text(f, "tokenizer_config.json",
              "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"T\"}, {\"name\": \"default\", "
              "\"template\": \"D\"}]}");
    expect_directory(f, NULL, "D");
    expect_directory(f, "tool_use", "T");
    assert_fails(
        f->context, BO_FORMAT, "\"rag\"",
        bo_chat_template_create(f->context, &(bo_chat_template_desc){.directory = f->path, .name = "rag"}, &chat));
    test_text(f, "chat_template.jinja", "J{{ sep_token }}\n");
    expect_directory(f, NULL, "J[S]");
    assert_ok(f->context, bo_chat_template_create(f->context, &(bo_chat_template_desc){.directory = f->path}, &chat));
    assert_string_equal(bo_chat_template_token(chat, "sep_token"), "[S]");
    assert_null(bo_chat_template_token(chat, "pad_token"));
    bo_chat_template_destroy(chat);
    test_text(f, "chat_template.jinja", "\n{{ 1 | nothing }}");
    assert_fails(f->context, BO_UNSUPPORTED, "chat_template.jinja: chat template: line 2: the filter 'nothing'",
                 bo_chat_template_create(f->context, &(bo_chat_template_desc){.directory = f->path}, &chat));
    unlink(test_path(f, "chat_template.jinja"));
    test_text(f, "tokenizer_config.json", "{\"chat_template\": 3}");
    assert_fails(f->context, BO_FORMAT, "must be a string",
                 bo_chat_template_create(f->context, &(bo_chat_template_desc){.directory = f->path}, &chat));
    test_text(f, "tokenizer_config.json", "{\"chat_template\": ");
    assert_fails(f->context, BO_FORMAT, "tokenizer_config.json",
                 bo_chat_template_create(f->context, &(bo_chat_template_desc){.directory = f->path}, &chat));
    unlink(test_path(f, "special_tokens_map.json"));
}

static void test_bad_arguments(void **state)
{
    test_directory *f = *state;
    bo_context *c = f->context;
    bo_chat_template *chat = parse(c, "{{ messages }}"), *none;
    bo_chat_message message = {.role = "user", .content = "\xff"};
    char *text;
    size_t bytes;
    assert_fails(c, BO_FORMAT, "message 0: byte 0 of the content",
                 bo_chat_render(c, chat, &message, 1, NULL, &text, &bytes));
    message = (bo_chat_message){.role = "user"};
    assert_fails(c, BO_INVALID, "message 0: the content is NULL",
                 bo_chat_render(c, chat, &message, 1, NULL, &text, &bytes));
    assert_fails(c, BO_FORMAT, "variables",
                 bo_chat_render(c, chat, NULL, 0, &(bo_chat_options){.variables = "[1]"}, &text, &bytes));
    message.content = "x";
    assert_fails(
        c, BO_INVALID, "twice",
        bo_chat_render(c, chat, &message, 1, &(bo_chat_options){.variables = "{\"messages\": []}"}, &text, &bytes));
    assert_fails(c, BO_INVALID, "found none", bo_chat_template_create(c, &(bo_chat_template_desc){0}, &none));
    assert_fails(c, BO_INVALID, "found both",
                 bo_chat_template_create(c, &(bo_chat_template_desc){.path = "x", .text = "y"}, &none));
    bo_chat_template_destroy(chat);
}

/* ---- exhausted memory -------------------------------------------------------------------------------------------- */

typedef struct setting {
    counting counted;
    bo_context *context;
} setting;

static bo_status render_all(void *what)
{
    setting *s = what;
    static const char template[] =
        "{% macro f(a) %}{{ a | upper }}{% endmacro %}{% for m in messages %}{% set ns = "
        "namespace(x=[m.role]) %}{{ f(m.content) }}{{ ns.x + [1] }}{{ m | tojson }}{% endfor %}";
    bo_chat_template *chat;
    const bo_chat_message message = {.role = "user", .content = "hello"};
    char *text;
    size_t bytes;
    bo_status status = bo_chat_template_create(s->context, &(bo_chat_template_desc){.text = template}, &chat);
    if (status != BO_OK) assert_null(chat);
    if (status == BO_OK) {
        status = bo_chat_render(s->context, chat, &message, 1, NULL, &text, &bytes);
        if (status != BO_OK) assert_null(text);
        bo_free(text);
    }
    bo_chat_template_destroy(chat);
    return status;
}

static void test_exhaustion(void **state)
{
    setting s = {0};
    (void)state;
    s.context = counting_context(&s.counted, 1);
    counting_inject(&(injection){&s.counted, s.context, render_all, &s, 4, 1, NULL});
    bo_context_destroy(s.context);
    assert_true(s.counted.live == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_language),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_directories),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_exhaustion),
        cmocka_unit_test(test_many_variables),
        cmocka_unit_test(test_colliding_names),
        cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_normalized_special_tokens),
        cmocka_unit_test(test_special_tokens_of_models),
    };
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
