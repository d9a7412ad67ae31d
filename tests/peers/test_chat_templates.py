"""Chat templates compared with apply_chat_template of transformers, or with jinja2 in the same environment.

Published templates (tests/data/chat) render many conversations, and random templates of the supported grammar render
random variables. Every text must be equal, and both sides must refuse the same input; only Bochner may refuse a construct outside of the subset.

  BOCHNER=build/bochner BOCHNER_SOURCE=. python3 tests/peers/test_chat_templates.py [--templates N] [--seed N]
  … --directory DIR        also compare all *.jinja of a directory, and say which are not supported
  … --write FILE        write the cases of the published templates for tests/text/test_chat.c
"""
import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BOCHNER = os.environ.get("BOCHNER", "build/bochner")
SOURCE = os.environ.get("BOCHNER_SOURCE", ".")
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


# ---- the oracle ------------------------------------------------------------------------------------------------------


def same_environment():
    """The environment of transformers, if transformers is not installed."""

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

        def _body(self, caller):
            return caller()

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: __import__("datetime").datetime.now().strftime(form)
    return environment


def make_tokenizer():
    """A tokenizer of transformers with the special tokens; None if the package is not installed."""
    try:
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast
    except ImportError:
        return None
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), **TOKENS)


TOKENIZER = make_tokenizer()
ENVIRONMENT = same_environment()


def oracle(template, variables):
    """(text, None), or (None, the error)."""
    try:
        if TOKENIZER is not None and isinstance(variables.get("messages"), list) and variables["messages"]:
            more = {k: v for k, v in variables.items() if k not in ("messages", "add_generation_prompt", "tools")}
            text = TOKENIZER.apply_chat_template(
                variables["messages"],
                chat_template=template,
                tokenize=False,
                add_generation_prompt=variables.get("add_generation_prompt", True),
                tools=variables.get("tools"),
                **more,
            )
        else:
            every = {"add_generation_prompt": True, "tools": None, "documents": None, **TOKENS, **variables}
            text = ENVIRONMENT.from_string(template).render(**every)
        text.encode("utf-8")
        return text, None
    except Exception as error:  # any error of Python is a refusal
        return None, f"{type(error).__name__}: {error}"


def bochner(directory, template, cases):
    """The results of all cases: {"text"} or {"error"}."""
    path = os.path.join(directory, "t.jinja")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(template)
    lines = "\n".join(json.dumps(case) for case in cases)
    run = subprocess.run(
        [BOCHNER, "chat", directory, "--template", path, "--render", "--json", "--quiet"],
        input=lines.encode(),
        capture_output=True,
        timeout=60,
    )
    if run.returncode not in (0, 1):
        raise SystemExit(f"bochner ended with {run.returncode}: {run.stderr.decode()[-2000:]}\n{template}")
    results = [json.loads(line) for line in run.stdout.decode().splitlines()]
    if not results and run.returncode == 1:
        return [{"error": run.stderr.decode().strip()}] * len(cases)
    if len(results) != len(cases):
        raise SystemExit(f"{len(cases)} cases, {len(results)} results: {run.stderr.decode()[-2000:]}")
    return results


FAILED = []


def compare(name, template, case, result, strict):
    """Strict: a refusal by Bochner only is also a difference. Returns the outcome."""
    text, error = oracle(template, case)
    if "text" in result and text == result["text"]:
        return "equal"
    if "error" in result and (text is None or " object at 0x" in text or " object do_" in text):
        return "both refuse"  # the text of a generator contains its address
    if "error" in result and "not supported" in result["error"] and not strict:
        return "not supported"
    FAILED.append((name, template, case, text, error, result))
    return "different"


# ---- published templates ---------------------------------------------------------------------------------------------


def conversations():
    """Conversations with odd contents, roles and orders."""
    contents = [
        "Hello",
        "",
        "  spaces around  ",
        "\n\nlines\n\n",
        "naïve 東京 🙂 \u00a0\u3000",
        "<|im_end|>{{ x }}{% if %}",
        "a'b\"c\\d\te",
        "<think>\nso\n</think>\n\nyes",
    ]
    system = {"role": "system", "content": "Be brief."}
    for content in contents:
        yield [{"role": "user", "content": content}]
        yield [system, {"role": "user", "content": content}]
        yield [{"role": "system", "content": content}, {"role": "user", "content": "Hi"}]
        yield [
            {"role": "user", "content": "1"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": content},
        ]
    long = [{"role": ("user", "assistant")[i % 2], "content": f"turn {i}"} for i in range(9)]
    yield long
    yield [system] + long
    yield long[:8]
    for roles in itertools.product(("system", "user", "assistant", "tool"), repeat=2):
        yield [{"role": role, "content": f" {role} "} for role in roles]
    yield [{"role": "Narrator", "content": "x"}, {"role": "user", "content": "y"}]


def published_cases():
    return [
        {"messages": messages, "add_generation_prompt": prompt}
        for messages in conversations()
        for prompt in (False, True)
    ]


def check_published(directory, write):
    base = os.path.join(SOURCE, "tests", "data", "chat")
    names = sorted(name[:-6] for name in os.listdir(base) if name.endswith(".jinja"))
    if len(names) < 9:
        raise SystemExit(f"{base}: expected the published templates, found {names}")
    cases, counts, lines = published_cases(), {}, []
    for name in names:
        with open(os.path.join(base, name + ".jinja"), encoding="utf-8", newline="") as file:
            template = file.read()
        for index, (case, result) in enumerate(zip(cases, bochner(directory, template, cases))):
            outcome = compare(name, template, case, result, strict=True)
            counts[outcome] = counts.get(outcome, 0) + 1
            if write and index % 3 == 0:
                text, _ = oracle(template, case)
                lines.append(json.dumps({"template": name, **case, "text": text}))
    if write:
        with open(write, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    print(f"{len(names)} published templates, {len(cases)} conversations each: {counts}")


# ---- random templates ------------------------------------------------------------------------------------------------


class Grammar:
    """Random templates of the subset."""

    words = ["a", "Ab c", " x ", "", "\\n", "it's", "é東", "-", "1", "12.5", "x,y,,z", "user"]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *choices):
        return self.random.choice(choices)

    def string(self):
        return '"' + self.random.choice(self.words).replace('"', "") + '"'

    def number(self):
        return self.pick("0", "1", "2", "3", "7", "10", "100", "1.5", "0.25", "2.0", "1e3")

    def text(self, depth):
        """An expression that is mostly a string."""
        if depth <= 0:
            return self.pick("s", "t", "messages[0].content", "messages[0]['role']", self.string())
        return self.pick(
            lambda: self.text(0) + self.text_method(),
            lambda: self.text(0) + self.text_method(),
            lambda: self.text(0) + self.span(),
            lambda: self.text(0) + "[" + self.pick("0", "-1", "n") + "]",
            lambda: self.text(depth - 1) + self.pick(" + ", " ~ ") + self.text(depth - 1),
            lambda: self.text(depth - 1) + " ~ " + self.value(depth - 1),
            lambda: "(" + self.text(depth - 1) + ")" + self.pick(" * 2", " * n", " * flag"),
            lambda: "(" + self.text(depth - 1) + " if " + self.truth(depth - 1) + " else " + self.text(depth - 1) + ")",
            lambda: "(" + self.text(depth - 1) + ") | " + self.text_filter(),
            lambda: "(" + self.value(depth - 1) + ") | " + self.text_filter(),
            lambda: "(" + self.value(depth - 1) + ") | string",
            lambda: "(" + self.plain(depth - 1) + ") | tojson"
            + self.pick("", "(indent=2)", "(sort_keys=true)", "(separators=(',', ':'))", "(indent=none)"),
            lambda: "(" + self.items(depth - 1) + ") | join(" + self.pick("", "','", "n", "' ', attribute='a'") + ")",
            lambda: "(missing or " + self.text(depth - 1) + ")",
            lambda: "missing | " + self.pick("default", "d") + "(" + self.text(depth - 1) + ")",
            lambda: self.text(0) + " | default('dd', " + self.pick("true", "false", "boolean=true") + ")",
        )()

    def text_method(self):
        return self.pick(
            lambda: ".strip(" + self.pick("", self.string()) + ")",
            lambda: self.pick(".lstrip", ".rstrip") + "(" + self.pick("", "'x'", "'\\n '") + ")",
            lambda: ".split(" + self.pick("','", "' '", "'x'") + ")[" + self.pick("0", "-1") + "]",
            lambda: ".replace(" + self.string() + ", " + self.string() + self.pick("", ", 1") + ")",
            lambda: self.pick(".upper()", ".lower()", ".title()", ".capitalize()"),
            lambda: self.pick(".removeprefix", ".removesuffix") + "(" + self.string() + ")",
        )()

    def text_filter(self):
        return self.pick(
            "trim", "upper", "lower", "title", "capitalize", "string", "trim('a')", "indent", "indent(2, true)",
            "indent(1, first=true, blank=true)", "replace('a', 'bb')", "replace('', '-', 2)", "reverse",
        )

    def span(self):
        return (
            "[" + self.pick("", "1", "-2", "n") + ":" + self.pick("", "1", "-1", "5") + self.pick("", ":2", ":-1", ":-2", ":") + "]"
        )

    def amount(self, depth):
        """An expression that is mostly a number."""
        if depth <= 0:
            return self.pick("n", "f", "n", self.number(), self.number(), "flag")
        return self.pick(
            lambda: self.amount(depth - 1)
            + self.pick(" + ", " - ", " * ", " / ", " // ", " % ", " + ", " ** ")
            + self.amount(depth - 1),
            lambda: "(" + self.amount(depth - 1) + ")" + self.pick(" | abs", " | int", " | float", ""),
            lambda: self.pick("-", "+") + self.amount(0),
            lambda: "(" + self.text(depth - 1) + ") | " + self.pick("length", "count", "int", "float", "int(7)"),
            lambda: self.text(0) + self.pick(".find(", ".rfind(", ".count(") + self.string() + ")",
            lambda: "(" + self.items(depth - 1) + ") | length",
        )()

    def items(self, depth):
        """An expression that is mostly a list."""
        if depth <= 0:
            return self.pick("xs", "messages", "[1, 'a', none]", "range(3)", "()")
        return self.pick(
            lambda: "[" + ", ".join(self.value(depth - 1) for _ in range(self.random.randrange(4))) + "]",
            lambda: "(" + self.value(depth - 1) + ", " + self.value(depth - 1) + ")",
            lambda: self.items(0) + self.span(),
            lambda: "(" + self.items(depth - 1) + ") | " + self.pick("list", "reverse | list", "sort", "sort(reverse=true)"),
            lambda: self.text(0) + self.pick(".split()", ".split(',')", ".split(',', 1)", ".rsplit(',', 1)", ".splitlines()"),
            lambda: self.pick("d | dictsort", "d.items() | list", "d.keys() | list", "d.values() | list", "d | items | list"),
            lambda: "messages | selectattr('role', " + self.pick("'equalto'", "'eq'", "'ne'") + ", 'user') | list",
            lambda: "messages | " + self.pick("map(attribute='role')", "map(attribute='zz', default=1)", "rejectattr('zz')") + " | list",
            lambda: "(" + self.items(depth - 1) + ") | " + self.pick("select", "reject")
            + self.pick("", "('string')", "('none')", "('defined')") + " | list",
            lambda: "xs | map('string') | map('upper') | list",
            lambda: self.text(depth - 1) + " | list",
            lambda: "xs + [" + self.value(depth - 1) + "]",
        )()

    def truth(self, depth):
        if depth <= 0:
            return self.pick("flag", "true", "false", "nothing", "missing", "n", "s")
        return self.pick(
            lambda: self.amount(depth - 1) + self.pick(" < ", " <= ", " > ", " >= ", " == ", " != ") + self.amount(depth - 1),
            lambda: self.text(depth - 1) + self.pick(" < ", " == ", " != ", " in ", " not in ") + self.text(depth - 1),
            lambda: self.value(depth - 1) + self.pick(" == ", " != ") + self.value(depth - 1),
            lambda: self.value(0) + self.pick(" in ", " not in ") + self.items(0),
            lambda: "1 < n <= 3",
            lambda: self.text(0) + self.pick(".startswith(", ".endswith(") + self.string() + ")",
            lambda: self.truth(depth - 1) + self.pick(" and ", " or ") + self.truth(depth - 1),
            lambda: "not " + self.truth(depth - 1),
            lambda: self.value(0) + " is " + self.pick("", "not ")
            + self.pick("defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "integer",
                        "float", "boolean", "true", "false", "eq 1", "equalto('a')", "in xs", "ne none", "callable"),
            lambda: "n is " + self.pick("odd", "even", "divisibleby 3", "divisibleby(2)", "lt 3", "ge(2)"),
        )()

    def plain(self, depth):
        """A value that JSON can represent."""
        return self.pick("d", "xs", "messages", "n", "f", "s", "nothing", "flag", "{'z': 1, 'a': [1.5, none]}", "{1: 2}")

    def value(self, depth):
        return self.pick(
            lambda: self.text(depth),
            lambda: self.text(depth),
            lambda: self.amount(depth),
            lambda: "(" + self.items(depth) + ")",
            lambda: "(" + self.truth(depth) + ")",
            lambda: self.pick("d", "nothing", "missing", "v", "w", "d.a", "d['b']", "d.zz", "d.get('a')", "d.get('zz', 3)"),
            lambda: self.pick("xs[0]", "xs[-1]", "xs[7]", "xs | first", "xs | last", "messages[-1]", "messages[0].a"),
            lambda: "{" + self.string() + ": " + self.value(depth - 1) + "}" if depth > 0 else "{}",
        )()

    def expression(self, depth):
        """Mostly of matching types: Bochner and Jinja2 then print something; sometimes invalid expressions, which both refuse."""
        if self.random.random() < 0.93:
            return self.value(depth)
        return self.pick(
            lambda: self.value(1) + self.pick(" + ", " - ", " * ", " < ", " in ", " % ") + self.value(1),
            lambda: "(" + self.value(1) + ")" + self.pick(".a", "[0]", "['a']", ".b.c", "[1:]", ".strip()", ".items()", "()"),
            lambda: "(" + self.value(1) + ") | "
            + self.pick("length", "first", "last", "list", "join", "tojson", "sort", "dictsort", "abs", "int"),
        )()

    def tag(self, text):
        return "{%" + self.pick("", "-", "", "+") + " " + text + " " + self.pick("", "-", "", "+") + "%}"

    def data(self):
        return self.pick("", " ", "\n", "\n  ", "x", "  y\n", "\n\n", "{ ", "%}", "\t", "é ", "{ { ", "}}", "\r\n", "\u00a0\n ")

    def statement(self, depth):
        return self.pick(
            lambda: "{{" + self.pick(" ", "- ") + self.expression(2) + self.pick(" ", " -") + "}}",
            lambda: "{{" + self.pick(" ", "- ") + self.expression(3) + self.pick(" ", " -") + "}}",
            lambda: self.tag("set " + self.pick("v", "w", "v", "ns.a", "ns.b") + " = " + self.expression(2)),
            lambda: self.tag("set v, w = " + self.value(1) + ", " + self.value(1)),
            lambda: self.tag("set v") + self.body(depth - 1) + self.tag("endset"),
            lambda: self.tag("if " + self.truth(2))
            + self.body(depth - 1)
            + self.pick("", self.tag("elif " + self.truth(1)) + self.body(depth - 1))
            + self.pick("", self.tag("else") + self.body(depth - 1))
            + self.tag("endif"),
            lambda: self.loop(depth),
            lambda: self.loop(depth),
            lambda: "{#" + self.pick("", "-", "+") + " c " + self.pick("", "-", "+") + "#}",
            lambda: self.tag("raw").replace("+%}", "%}") + self.data() + "{{ r }}" + self.tag("endraw"),
            lambda: self.tag("macro m(a, b=" + self.number() + ")") + self.body(depth - 1) + "{{ a }}{{ b }}" + self.tag("endmacro"),
            lambda: "{{ m(" + self.pick("", "1", "s, 2", "b=3", "n, b=s") + ") }}",
            lambda: self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration"),
        )()

    def loop(self, depth):
        inner = self.pick(
            "{{ loop.index }}", "{{ loop.first }}{{ loop.last }}", "{{ loop.revindex0 }}/{{ loop.length }}",
            "{{ loop.previtem }}", "{{ loop.nextitem }}", "{{ loop.cycle('o', 'e') }}", "",
            "{% if loop.index == 2 %}" + self.pick("{% break %}", "{% continue %}") + "{% endif %}",
        )
        return (
            self.tag(
                "for "
                + self.pick("v in xs", "v in messages", "v in s", "k, v in d.items()", "v in range(n)", "v in " + self.items(1))
                + self.pick("", "", " if v", " if " + self.truth(1))
            )
            + inner
            + self.body(depth - 1)
            + self.pick("", "{{ v }}")
            + self.pick("", self.tag("else") + self.data())
            + self.tag("endfor")
        )

    def body(self, depth):
        if depth <= 0:
            return self.data() + self.pick("", "{{ v }}", "{{ " + self.expression(1) + " }}")
        return "".join(self.data() + self.statement(depth) for _ in range(self.random.randrange(3))) + self.data()

    def template(self):
        first = "{% set ns = namespace(a=1, b='x') %}" + self.pick("", "{% set v = 3 %}") + "{% macro m(a, b=2) %}{{ a }}{% endmacro %}"
        return first + "".join(self.data() + self.statement(2) for _ in range(1 + self.random.randrange(4))) + self.data()


VARIABLES = [
    {"messages": [{"role": "user", "content": " Hi\nyou "}, {"role": "assistant", "content": "é"}], "n": 2, "f": 2.5,
     "s": "ab,Cd  e", "t": "3", "xs": ["b", "A", "c"], "d": {"b": 1, "a": "x"}, "flag": True, "nothing": None},
    {"messages": [{"role": "user", "content": ""}], "n": 0, "f": -0.125, "s": "", "t": "é\n東", "xs": [], "d": {},
     "flag": False, "nothing": None},
    {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}], "n": -3, "f": 1e22,
     "s": " user's \"q\"\t", "t": "x", "xs": [3, 1, 2], "d": {"a": {"b": [1, None, 1.5]}, "role": "r"}, "flag": True,
     "nothing": None},
]


def check_random(directory, count, seed):
    grammar, counts = Grammar(seed), {}
    for index in range(count):
        template = grammar.template()
        for case, result in zip(VARIABLES, bochner(directory, template, VARIABLES)):
            outcome = compare(f"random template {index}", template, case, result, strict=False)
            counts[outcome] = counts.get(outcome, 0) + 1
    print(f"{count} random templates, {len(VARIABLES)} sets of variables each: {counts}")
    if count >= 100 and counts.get("equal", 0) < count * len(VARIABLES) / 4:
        raise SystemExit("too few random templates render at all: the comparison tests nothing")


def check_directory(directory, path):
    cases = published_cases()
    for name in sorted(os.listdir(path)):
        if not name.endswith(".jinja"):
            continue
        with open(os.path.join(path, name), encoding="utf-8", newline="") as file:
            template = file.read()
        counts, reasons = {}, set()
        for case, result in zip(cases, bochner(directory, template, cases)):
            outcome = compare(name, template, case, result, strict=False)
            counts[outcome] = counts.get(outcome, 0) + 1
            if outcome == "not supported":
                reasons.add(result["error"].split("t.jinja: ")[-1])
        print(f"{name}: {counts} {sorted(reasons)[:2] if reasons else ''}")


# ---- constructs outside of the subset --------------------------------------------------------------------------------

REFUSED = [
    ("{{ messages }}\n{{ 'x' | wordwrap }}", "line 2: the filter 'wordwrap' is not supported"),
    ("\n\n{% include 'x' %}", "line 3: the statement 'include' is not supported"),
    ("{% extends 'x' %}", "line 1: the statement 'extends' is not supported"),
    ("{% if messages is escaped %}{% endif %}", "line 1: the test 'escaped' is not supported"),
    ("a\n{{ messages[0].content.swapcase() }}", "line 2: the method 'swapcase' of a string is not supported"),
    ("{{ 'x'.__class__ }}", "line 1: the method '__class__' of a string without a call is not supported"),
    ("{{ messages.append(1) }}", "line 1: the method 'append' of a list is not supported"),
    ("{{ '%s' % 1 }}", "line 1: the operator '%' on a string is not supported"),
    ("{% for x in messages recursive %}{% endfor %}", "line 1: a recursive loop is not supported"),
    ("{{ cycler(1) }}", "line 1: the name 'cycler' is not supported"),
    ("{{ dict(*messages) }}", "line 1: arguments with * or ** are not supported"),
]


def check_refusals(directory):
    case = {"messages": [{"role": "user", "content": "x"}]}
    for template, words in REFUSED:
        (result,) = bochner(directory, template, [case])
        if words not in result.get("error", ""):
            FAILED.append(("refusal", template, case, None, words, result))
    print(f"{len(REFUSED)} constructs outside of the subset")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--templates", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory")
    parser.add_argument("--write")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump({**TOKENS, "eos_token": {"content": TOKENS["eos_token"], "special": True}}, file)
        print("oracle:", "transformers" if TOKENIZER is not None else "jinja2", jinja2.__version__)
        check_published(directory, options.write)
        check_refusals(directory)
        check_random(directory, options.templates, options.seed)
        if options.directory:
            check_directory(directory, options.directory)
    shown = {item[0]: item for item in reversed(FAILED)}
    for name, template, case, text, error, result in list(shown.values())[-6:]:
        print(f"\n{name}:\n{template}\nvariables {json.dumps(case)}\nexpected {text!r} {error or ''}\nfound    {result}")
    if FAILED:
        print(f"{len(FAILED)} differences")
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
